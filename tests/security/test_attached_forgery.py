"""Nobody but the owner of an attached table hands over what it says."""

import pytest
from psycopg import errors

from tests.runtime.cluster import Database
from tests.security.mallory import as_role
from tests.sql.attach import attach, documents, unfollowed

ACTIONS = [
    "write",
    "delete",
    "truncate",
    "compare",
    "list",
    "lock",
    "begin",
    "later",
    "queue",
    "hold",
    "fault",
    "nonsense",
]


@pytest.mark.sample(8)
@pytest.mark.parametrize("action", ACTIONS)
@pytest.mark.parametrize("role", ["mallory", "eve"])
def test_documents_of_anothers_attachment_are_not_forged(
    db: Database, mallory: Database, role: str, action: str
) -> None:
    with as_role(db, "alice") as alice:
        alice.execute("CREATE TABLE articles (id int PRIMARY KEY, body text)")
        attach(alice)
        alice.execute("INSERT INTO articles VALUES (1, 'true')")
    forged = (
        "INSERT INTO graphrag_attached._handover (action, attached_id, relation, source_keys, titles, contents, metadata,"
        " digests) VALUES (%s, 1, %s::regclass, ARRAY['1'], ARRAY['t'], ARRAY['forged'], ARRAY['{}'::jsonb], ARRAY['x'::bytea])"
    )
    with as_role(db, role) as thief:
        thief.execute("CREATE TABLE bait (id int PRIMARY KEY, body text)")
        for relation in ("alice.articles", "bait"):
            db.execute("GRANT USAGE ON SCHEMA alice TO mallory, eve")
            with pytest.raises(errors.InsufficientPrivilege, match="may not hand over"):
                thief.execute(forged.encode(), [action, relation])
        with pytest.raises(errors.InsufficientPrivilege):
            thief.execute(
                "INSERT INTO graphrag_attached._handover (caller, action, attached_id) VALUES ('alice', 'truncate', 1)"
            )
        with pytest.raises(errors.InsufficientPrivilege):
            thief.execute("SELECT graphrag._write_attached(NULL, 'default')")
        with pytest.raises(errors.InsufficientPrivilege):
            thief.execute(
                "CREATE TRIGGER t AFTER INSERT ON bait REFERENCING NEW TABLE AS inserted"
                " FOR EACH STATEMENT EXECUTE FUNCTION graphrag_attached._changed_1()"
            )
    assert documents(db) == {"1": "true"}


def test_right_to_write_the_table_is_no_right_to_forge(db: Database, mallory: Database) -> None:
    with as_role(db, "alice") as alice:
        alice.execute(
            "CREATE TABLE public.articles (id int PRIMARY KEY, body text); GRANT ALL ON public.articles TO mallory"
        )
        attach(alice, table="public.articles")
    mallory.execute("INSERT INTO public.articles VALUES (1, 'true')")
    with pytest.raises(errors.InsufficientPrivilege, match="may not hand over"):
        mallory.execute(
            "INSERT INTO graphrag_attached._handover (action, attached_id, relation, source_keys) SELECT 'truncate', 1,"
            " 'public.articles'::regclass, '{}'"
        )
    assert documents(db) == {"1": "true"}


def test_trigger_of_an_attachment_feeds_from_no_other_table(db: Database, mallory: Database) -> None:
    mallory.execute(
        "CREATE TABLE articles (id int PRIMARY KEY, body text); CREATE TABLE other (LIKE articles INCLUDING ALL)"
    )
    attach(mallory)
    mallory.execute(
        "CREATE TRIGGER t AFTER INSERT ON other REFERENCING NEW TABLE AS inserted"
        " FOR EACH STATEMENT EXECUTE FUNCTION graphrag_attached._changed_1()"
    )
    with unfollowed(mallory, "55000", "is not attached under number 1"):
        mallory.execute("INSERT INTO other VALUES (1, 'x')")
    # Nor does it keep anyone from taking the corpus away.
    db.execute("SELECT graphrag.drop_corpus('default')")
    mallory.execute("INSERT INTO other VALUES (2, 'x'); INSERT INTO articles VALUES (1, 'x')")


def test_schema_that_anyone_may_use_lends_nobody_rights(db: Database) -> None:
    definers = db.execute(
        "SELECT oid::regprocedure::text FROM pg_proc WHERE pronamespace = 'graphrag_attached'::regnamespace AND prosecdef"
    ).fetchall()
    assert definers == []
    assert db.execute("SELECT has_schema_privilege('pg_read_all_data', 'graphrag_attached', 'CREATE')").fetchall() == [
        (False,)
    ]
