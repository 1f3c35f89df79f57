"""attach_table(): who may call it and on what, and that nobody gains rights by it."""

import psycopg
import pytest
from psycopg import errors

from tests.runtime.cluster import Database
from tests.sql.attach import ARTICLES, articles, attach, backfill, documents, states, unfollowed


def test_only_the_owner_may_attach_and_detach(db: Database, app: Database) -> None:
    db.execute("CREATE TABLE public.secret (id int PRIMARY KEY, body text); GRANT ALL ON public.secret TO attach_app")
    with pytest.raises(errors.InsufficientPrivilege, match=r"must be owner of table public\.secret"):
        attach(app, table="public.secret")
    db.execute("SELECT graphrag.attach_table('public.secret', 'default', 'id', '{body}')")
    with pytest.raises(errors.InsufficientPrivilege, match=r"must be owner of table public\.secret"):
        app.execute("SELECT graphrag.detach_table('public.secret')")


def test_a_superusers_session_lends_no_rights_to_functions_of_others(db: Database, app: Database) -> None:
    """ANALYZE runs index expressions as the table's owner inside the superuser's session."""
    db.execute("CREATE TABLE public.secret (id int PRIMARY KEY, body text)")
    app.execute(
        "CREATE FUNCTION steal(int) RETURNS int LANGUAGE plpgsql IMMUTABLE AS"
        " $$ BEGIN PERFORM graphrag.attach_table('public.secret', 'default', 'id', '{body}'); RETURN 1; END $$;"
        "CREATE FUNCTION steal_as_definer() RETURNS void LANGUAGE sql SECURITY DEFINER AS 'SELECT app.steal(1)';"
        "CREATE TABLE bait (n int); CREATE INDEX ON bait (steal(n)); "
    )
    with pytest.raises(errors.InsufficientPrivilege, match="must be owner"):
        app.execute("INSERT INTO bait VALUES (1)")
    with pytest.raises(errors.InsufficientPrivilege, match="must be owner"):
        db.execute("SELECT app.steal_as_definer()")
    app.execute("DROP TABLE bait; CREATE TABLE bait (n int); INSERT INTO bait VALUES (1)")
    app.execute("CREATE MATERIALIZED VIEW copy AS SELECT app.steal(n) FROM bait WITH NO DATA")
    with pytest.raises(errors.InsufficientPrivilege, match="must be owner"):
        db.execute("REFRESH MATERIALIZED VIEW app.copy")
    assert db.execute("SELECT count(*) FROM graphrag._attached_tables").fetchall() == [(0,)]


def test_caller_cannot_be_forged_and_execute_is_needed(db: Database, app: Database) -> None:
    app.execute(f"CREATE TABLE articles ({ARTICLES})".encode())
    with pytest.raises(errors.InsufficientPrivilege):
        app.execute("INSERT INTO graphrag._attach_requests (caller, action, source) VALUES ('postgres', 'detach', 1)")
    db.execute("REVOKE EXECUTE ON FUNCTION graphrag.attach_table FROM attach_app")
    with pytest.raises(errors.InsufficientPrivilege):
        attach(app)
    with pytest.raises(errors.InsufficientPrivilege, match="may not call"):
        app.execute(
            "INSERT INTO graphrag._attach_requests"
            " (action, source, corpus,"
            " key_columns, content_columns, metadata_columns)"
            " VALUES ('attach', 'articles'::regclass, 'default', '{id}', '{body}', '{}')"
        )


def test_casts_of_the_owner_never_run_with_our_rights(db: Database, app: Database) -> None:
    app.execute(
        "CREATE TYPE mood AS ENUM ('good', 'bad'); CREATE TYPE pair AS (a mood, b int);"
        "CREATE FUNCTION evil(mood) RETURNS text"
        " LANGUAGE plpgsql AS $$"
        " BEGIN RAISE 'evil ran as %', current_user; END $$;"
        "CREATE FUNCTION evil(pair) RETURNS json"
        " LANGUAGE plpgsql AS $$"
        " BEGIN RAISE 'evil ran as %', current_user; END $$;"
        "CREATE CAST (mood AS text) WITH FUNCTION"
        " evil(mood) AS IMPLICIT;"
        " CREATE CAST (pair AS json) WITH FUNCTION evil(pair);"
        "CREATE TABLE articles (id int PRIMARY KEY, body mood, all_of mood[], both_of pair)"
    )
    attach(app, content=["body", "both_of"], title="all_of", metadata=["body", "all_of", "both_of"])
    app.execute("INSERT INTO articles VALUES (1, 'good', '{good,bad}', ROW('bad', 1))")
    app.execute("UPDATE articles SET body = 'bad'")
    rows = db.execute("SELECT title, content, metadata FROM graphrag.documents").fetchall()
    assert rows == [("{good,bad}", "bad\n\n(bad,1)", {"body": "bad", "all_of": "{good,bad}", "both_of": "(bad,1)"})]
    app.execute("CREATE TABLE moods (id mood PRIMARY KEY, body text)")
    with pytest.raises(errors.DatatypeMismatch, match="mood"):
        attach(app, table="moods", corpus="default")


def test_a_trigger_of_ones_own_feeds_no_corpus(db: Database, app: Database) -> None:
    articles(app)
    app.execute(f"CREATE TABLE forged ({ARTICLES})".encode())
    ((name, function),) = db.execute(
        "SELECT tgname, tgfoid::regprocedure::text FROM pg_trigger"
        " WHERE tgrelid = 'app.articles'::regclass AND tgname ~ '^graphrag_\\d+_insert$'"
    ).fetchall()
    make = (
        f"CREATE TRIGGER {name} AFTER INSERT ON app.forged REFERENCING NEW TABLE AS inserted"
        f" FOR EACH STATEMENT EXECUTE FUNCTION {function}"
    )
    app.execute(make.encode())
    with unfollowed(app, "55000", "app.forged is not attached"):
        app.execute("INSERT INTO forged VALUES (1, 't', 'forged')")
    assert documents(db) == {}


@pytest.mark.parametrize(
    ("make", "hint"),
    [
        (
            "CREATE TABLE under (id int, body text); CREATE VIEW thing AS SELECT * FROM under WHERE id > 0",
            "attach app.under: generated",
        ),
        ("CREATE MATERIALIZED VIEW thing AS SELECT 1 AS id, 'x' AS body", "materialized view, whose rows change"),
        ("CREATE TEMP TABLE thing (id int PRIMARY KEY, body text)", "temporary"),
        ("CREATE UNLOGGED TABLE thing (id int PRIMARY KEY, body text)", "unlogged"),
        ("CREATE SEQUENCE thing", "not a table"),
        ("CREATE TABLE thing (id int PRIMARY KEY, body text); CREATE TABLE child () INHERITS (thing)", "inherit"),
    ],
)
def test_what_has_no_triggers_to_rely_on_is_refused(app: Database, make: str, hint: str) -> None:
    app.execute(make.encode())
    app.execute("SET search_path = pg_temp, app")
    with pytest.raises(errors.WrongObjectType) as refused:
        attach(app, table="thing")
    assert hint in str(refused.value.diag.message_hint)


def test_foreign_and_system_tables_are_refused(db: Database) -> None:
    db.execute(
        "CREATE EXTENSION file_fdw; CREATE SERVER files FOREIGN DATA WRAPPER file_fdw;"
        "CREATE FOREIGN TABLE public.far (id int, body text) SERVER files OPTIONS (filename '/dev/null')"
    )
    db.execute("SELECT graphrag.create_corpus('default')")
    for table in ("public.far", "pg_catalog.pg_proc", "graphrag.documents", "ag_catalog.ag_graph"):
        with pytest.raises(errors.WrongObjectType, match="cannot be attached"):
            attach(db, table=table)


@pytest.mark.parametrize(
    "definition",
    [
        "id int, n int, body text, PRIMARY KEY (id, n)",
        "id int, body text",
        "id int UNIQUE, body text",
        "id int NOT NULL UNIQUE DEFERRABLE, body text",
        "id int NOT NULL, body text, EXCLUDE USING btree (id WITH =)",
    ],
)
def test_what_is_not_a_key_is_refused_with_a_way_out(app: Database, definition: str) -> None:
    app.execute(f"CREATE TABLE articles ({definition})".encode())
    with pytest.raises(
        errors.InvalidParameterValue, match=r'column "id" is not a key of table app\.articles'
    ) as refused:
        attach(app)
    assert "GENERATED ALWAYS AS" in str(refused.value.diag.message_hint)


def test_composite_key_works_as_the_hint_says(db: Database, app: Database) -> None:
    app.execute("CREATE TABLE articles (a int, b int, body text, PRIMARY KEY (a, b))")
    app.execute("ALTER TABLE articles ADD document_key text GENERATED ALWAYS AS (a || '/' || b) STORED NOT NULL UNIQUE")
    attach(app, key="document_key")
    app.execute("INSERT INTO articles VALUES (1, 2, 'x'), (1, 3, 'y')")
    app.execute("UPDATE articles SET b = 4 WHERE b = 3")
    assert documents(db) == {"1/2": "x", "1/4": "y"}


@pytest.mark.parametrize(
    ("arguments", "error", "says"),
    [
        (
            "'articles', 'default', 'id', '{body,nope}', 'none', '{nay}'",
            errors.UndefinedColumn,
            '"nay", "none", "nope"',
        ),
        ("'articles', 'default', 'id', '{ctid}'", errors.UndefinedColumn, '"ctid"'),
        ("'articles', 'default', 'id', '{}'", errors.NullValueNotAllowed, "content column"),
        ("'articles', 'default', 'id', '{body,NULL}'", errors.NullValueNotAllowed, "null"),
        ("'articles', NULL, 'id', '{body}'", errors.NullValueNotAllowed, "corpus"),
        ("'articles', 'default', 'id', '{body,body}'", errors.DuplicateColumn, '"body"'),
        ("'articles', 'default', 'id', '{raw}'", errors.DatatypeMismatch, '"raw"'),
        ("'articles', 'nowhere', 'id', '{body}'", errors.UndefinedObject, '"nowhere"'),
        ("'missing', 'default', 'id', '{body}'", errors.UndefinedTable, "missing"),
    ],
)
def test_wrong_arguments_are_named(
    db: Database, app: Database, arguments: str, error: type[psycopg.Error], says: str
) -> None:
    app.execute("CREATE TABLE articles (id int PRIMARY KEY, body text, raw bytea)")
    with pytest.raises(error, match=says):
        app.execute(f"SELECT graphrag.attach_table({arguments})".encode())
    assert db.execute(
        "SELECT (SELECT count(*) FROM graphrag._attached_tables), (SELECT count(*) FROM graphrag.jobs)"
    ).fetchall() == [(0, 0)]


def test_attaching_twice_is_refused_but_two_corpora_may_take_one_table(db: Database, app: Database) -> None:
    articles(app, rows=1)
    with pytest.raises(errors.DuplicateObject, match="already attached"):
        attach(app)
    db.execute("SELECT graphrag.create_corpus('second')")
    attach(app, corpus="second")
    backfill(app)
    app.execute("UPDATE articles SET body = 'new'")
    assert db.execute("SELECT corpus, content FROM graphrag.documents ORDER BY 1").fetchall() == [
        ("default", "new"),
        ("second", "new"),
    ]
    app.execute("SELECT graphrag.detach_table('articles', 'second', keep_documents => false)")
    app.execute("UPDATE articles SET body = 'newer'")
    assert db.execute("SELECT corpus, content FROM graphrag.documents").fetchall() == [("default", "newer")]


def test_two_tables_in_a_corpus_never_take_each_others_documents(db: Database, app: Database) -> None:
    articles(app)
    app.execute("CREATE TABLE comments (id bigint PRIMARY KEY, body text, slug text NOT NULL UNIQUE)")
    with pytest.raises(errors.ObjectNotInPrerequisiteState, match="numeric key") as refused:
        attach(app, table="comments")
    assert '"key_prefix": "comments/"' in str(refused.value.diag.message_hint)
    attach(app, table="comments", key="slug")
    app.execute("INSERT INTO articles VALUES (1, 't', 'article')")
    app.execute("INSERT INTO comments VALUES (1, 'comment', 'c1')")
    with unfollowed(app, "23505", "comes from another table, app.articles"):
        app.execute("INSERT INTO comments VALUES (2, 'thief', '1')")
    assert documents(db) == {"1": "article", "c1": "comment"}
    assert states(db) == {"app.articles": "waiting", "app.comments": "waiting"}
    backfill(app)
    assert states(db) == {"app.articles": "current", "app.comments": "broken"}
    app.execute("DELETE FROM comments")
    assert documents(db) == {"1": "article"}


def test_backfill_that_meets_anothers_key_says_so(db: Database, app: Database) -> None:
    articles(app, rows=1)
    backfill(app)
    app.execute(
        "CREATE TABLE comments (slug text PRIMARY KEY, body text); INSERT INTO comments VALUES ('1', 'x'), ('2', 'y')"
    )
    attach(app, table="comments", key="slug")
    with unfollowed(app, "23505", "comes from another table, app.articles"):
        app.execute("CALL graphrag.backfill_table('comments')")
    assert documents(db) == {"1": "Body 1", "2": "y"}


@pytest.mark.parametrize("kind", ["VIEW", "MATERIALIZED VIEW"])
@pytest.mark.parametrize(
    "call",
    [
        "attach_entities('thing', 'default', '{id}', 'name')",
        "attach_relationships('thing', 'default', 'leads to', '{other}', 'under', '{id}', 'under')",
        # Whatever else is wrong: columns that fit no key, a table that is not attached.
        "attach_relationships('thing', 'default', 'leads to', '{other,id}', 'under', '{id}', 'under')",
        "attach_relationships('thing', 'default', 'leads to', '{other}', 'apart', '{id}', 'apart')",
    ],
)
def test_views_are_refused_as_entities_and_join_tables_by_naming_their_tables(
    db: Database, kind: str, call: str
) -> None:
    db.execute("SELECT graphrag.create_corpus('default')")
    db.execute("CREATE TABLE under (id int PRIMARY KEY, name text NOT NULL UNIQUE, other int)")
    db.execute("CREATE TABLE apart (id int PRIMARY KEY)")
    db.execute(f"CREATE {kind} thing AS SELECT * FROM under".encode())
    if kind == "MATERIALIZED VIEW":
        # A key does not make it a table.
        db.execute("CREATE UNIQUE INDEX ON thing (id); CREATE UNIQUE INDEX ON thing (name)")
    db.execute("SELECT graphrag.attach_entities('under', 'default', '{id}', 'name')")
    with pytest.raises(errors.WrongObjectType) as refused:
        db.execute(f"SELECT graphrag.{call}".encode())
    assert "attach public.under: generated" in str(refused.value.diag.message_hint)
