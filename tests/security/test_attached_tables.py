"""Attached tables: nothing that others own is run with the rights of the extension's owner, and nobody forges documents.

Mallory may do everything short of superuser. What she plants in her tables reports who runs it, and rings an alarm, which no
rollback silences, when that is somebody who may read pg_authid.
"""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from psycopg import errors

from tests.runtime.cluster import Database
from tests.sql.attach import attach, backfill, documents, isolated, session

ROLES = ("mallory", "alice", "eve")
SPY = """
CREATE TABLE reports (run_as name, session name); GRANT INSERT ON reports TO PUBLIC;
CREATE SEQUENCE alarm; GRANT ALL ON SEQUENCE alarm TO PUBLIC; GRANT USAGE ON SCHEMA mallory TO PUBLIC;
CREATE FUNCTION report() RETURNS void LANGUAGE plpgsql AS $$
BEGIN
    BEGIN
        PERFORM set_config('role', 'none', true);
    EXCEPTION WHEN OTHERS THEN NULL;
    END;
    IF has_table_privilege('pg_catalog.pg_authid', 'SELECT') THEN
        PERFORM nextval('mallory.alarm');
    END IF;
    INSERT INTO mallory.reports VALUES (current_user, session_user);
END $$;
CREATE FUNCTION spy(int) RETURNS int LANGUAGE plpgsql IMMUTABLE AS $$ BEGIN PERFORM mallory.report(); RETURN 1; END $$;
CREATE FUNCTION spy_text(text) RETURNS text LANGUAGE plpgsql IMMUTABLE AS $$ BEGIN PERFORM mallory.report(); RETURN 'x'; END $$;
CREATE FUNCTION spy_trigger() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN PERFORM mallory.report(); RETURN NEW; END $$;
CREATE FUNCTION spy_definer() RETURNS trigger LANGUAGE plpgsql SECURITY DEFINER AS $$
BEGIN PERFORM mallory.report(); RETURN NEW; END $$;
"""


@pytest.fixture
def mallory(db: Database) -> Iterator[Database]:
    """Mallory's session; her schema is her own, and she may attach tables."""
    for role in ROLES:
        db.execute(
            f"DO $$ BEGIN CREATE ROLE {role} LOGIN PASSWORD '{role}';"
            " EXCEPTION WHEN duplicate_object OR unique_violation THEN NULL; END $$".encode()
        )
        db.execute(f"CREATE SCHEMA {role} AUTHORIZATION {role}; GRANT CREATE ON SCHEMA public TO {role}".encode())
    db.execute(
        "GRANT USAGE ON SCHEMA graphrag TO mallory, alice;"
        "GRANT EXECUTE ON ROUTINE graphrag.attach_table, graphrag.detach_table, graphrag.backfill_table TO mallory, alice;"
        "SET search_path = public"
    )
    with as_role(db, "mallory") as connection:
        connection.execute(SPY.encode())
        yield connection
    for role in ROLES:
        db.execute(f"DROP OWNED BY {role} CASCADE".encode())


def as_role(db: Database, role: str) -> Database:
    connection = session(db, role)
    connection.execute(f"SET search_path = {role}".encode())
    return connection


def alarmed(db: Database) -> bool:
    return bool(db.execute("SELECT is_called FROM mallory.alarm").fetchall()[0][0])


def reporters(db: Database) -> set[str]:
    return {role for (role,) in db.execute("SELECT DISTINCT run_as FROM mallory.reports").fetchall()}


def work(db: Database) -> None:
    """What superusers do: repair, give dead letters another try, and work."""
    db.execute("SELECT graphrag.repair()")
    db.execute("SELECT graphrag.retry_failed()")
    db.execute("CALL graphrag.process_jobs()")


def test_the_alarm_rings_for_a_superuser(db: Database, mallory: Database) -> None:
    mallory.execute("SELECT spy(1)")
    assert (alarmed(db), reporters(db)) == (False, {"mallory"})
    db.execute("SELECT mallory.spy(1)")
    assert (alarmed(db), reporters(db)) == (True, {"mallory", "postgres"})


PLANTED = {
    "index expression": "CREATE INDEX ON articles ((spy(1)), (spy(id)))",
    "unique index expression": "CREATE UNIQUE INDEX ON articles ((spy(1) + id))",
    "partial index": "CREATE INDEX ON articles (body) WHERE spy(1) = 1 AND spy(id) = 1",
    "extended statistics": "CREATE STATISTICS s ON (spy(1) + id), (spy(id)) FROM articles",
    "generated column": "ALTER TABLE articles ADD g int GENERATED ALWAYS AS (spy(1) + spy(id)) STORED",
    "default": "ALTER TABLE articles ADD g int DEFAULT spy(1)",
    "check constraint": "ALTER TABLE articles ADD CHECK (spy(1) = 1 AND spy(id) = 1)",
    "domain check": "CREATE DOMAIN checked AS text CHECK (spy(1) = 1 AND spy_text(VALUE) = 'x');"
    "ALTER TABLE articles ALTER body TYPE checked",
    "domain key": "CREATE DOMAIN number AS int CHECK (spy(VALUE) = 1); ALTER TABLE articles ALTER id TYPE number",
    "operator of the key's domain": "CREATE DOMAIN number AS int;"
    "CREATE FUNCTION same(number, number) RETURNS bool LANGUAGE plpgsql IMMUTABLE AS"
    " 'BEGIN PERFORM mallory.report(); RETURN true; END';"
    "CREATE OPERATOR = (LEFTARG = number, RIGHTARG = number, FUNCTION = same);"
    "ALTER TABLE articles ALTER id TYPE number",
    "cast to text": "CREATE TYPE mood AS ENUM ('a', 'b'); ALTER TABLE articles DROP body, ADD body mood;"
    "CREATE FUNCTION as_text(mood) RETURNS text LANGUAGE plpgsql IMMUTABLE AS"
    " 'BEGIN PERFORM mallory.report(); RETURN 1; END'; CREATE CAST (mood AS text) WITH FUNCTION as_text(mood) AS IMPLICIT",
    "cast to json": "CREATE TYPE pair AS (a int, b text); ALTER TABLE articles DROP body, ADD body pair;"
    "CREATE FUNCTION as_json(pair) RETURNS json LANGUAGE plpgsql IMMUTABLE AS"
    " $$ BEGIN PERFORM mallory.report(); RETURN '{}'; END $$; CREATE CAST (pair AS json) WITH FUNCTION as_json(pair)",
    "range of her own": "CREATE FUNCTION apart(float8, float8) RETURNS float8 LANGUAGE plpgsql IMMUTABLE AS"
    " 'BEGIN PERFORM mallory.report(); RETURN 1; END';"
    "CREATE TYPE span AS RANGE (subtype = float8, subtype_diff = apart);"
    "ALTER TABLE articles ADD during span DEFAULT '[1,2]'; CREATE INDEX ON articles USING gist (during)",
    "policy": "ALTER TABLE articles ENABLE ROW LEVEL SECURITY; CREATE POLICY p ON articles USING (spy(1) = 1 AND spy(id) = 1)",
    "triggers": "CREATE TRIGGER a BEFORE INSERT OR UPDATE ON articles FOR EACH ROW EXECUTE FUNCTION spy_trigger();"
    "CREATE TRIGGER graphrag_0 AFTER INSERT OR UPDATE OR DELETE ON articles EXECUTE FUNCTION spy_trigger();"
    "CREATE TRIGGER z AFTER INSERT OR UPDATE OR DELETE OR TRUNCATE ON articles EXECUTE FUNCTION spy_definer()",
    "deferred constraint trigger": "CREATE CONSTRAINT TRIGGER c AFTER INSERT OR UPDATE OR DELETE ON articles"
    " DEFERRABLE INITIALLY DEFERRED FOR EACH ROW EXECUTE FUNCTION spy_trigger()",
    "deferred trigger of another table, fired by an index": "CREATE TABLE bomb (n int);"
    "CREATE CONSTRAINT TRIGGER c AFTER INSERT ON bomb DEFERRABLE INITIALLY DEFERRED FOR EACH ROW EXECUTE FUNCTION spy_trigger();"
    "CREATE FUNCTION light_it() RETURNS void LANGUAGE sql SECURITY DEFINER AS 'INSERT INTO mallory.bomb VALUES (1)';"
    # It lights the bomb later: building an index may not.
    "CREATE FUNCTION light(int) RETURNS int LANGUAGE plpgsql IMMUTABLE AS 'BEGIN RETURN 1; END';"
    "CREATE INDEX ON articles ((light(1)), (light(id)));"
    "CREATE OR REPLACE FUNCTION light(int) RETURNS int LANGUAGE plpgsql IMMUTABLE AS"
    " 'BEGIN PERFORM mallory.light_it(); RETURN 1; END'",
    "rule": "CREATE RULE r AS ON INSERT TO articles DO ALSO SELECT mallory.spy(1)",
}


@pytest.mark.parametrize("planted", PLANTED)
def test_what_is_planted_in_a_table_runs_as_its_owner_alone(db: Database, mallory: Database, planted: str) -> None:
    mallory.execute("CREATE TABLE articles (id int PRIMARY KEY, body text)")
    if planted == "rule":
        attach(mallory, metadata=["id"])
    mallory.execute(PLANTED[planted].encode())
    mallory.execute("INSERT INTO articles (id) VALUES (1), (2)")
    if planted != "rule":
        attach(mallory, metadata=["id", "body"] if planted.startswith("cast") else ["id"])
    work(db)
    if planted != "rule":
        assert documents(db) == {}, "no worker reads it"
    backfill(mallory)
    mallory.execute("INSERT INTO articles (id) VALUES (3)")
    mallory.execute("UPDATE articles SET id = id + 10")
    mallory.execute("DELETE FROM articles WHERE id = 12")
    work(db)
    assert set(documents(db)) == {"11", "13"}
    mallory.execute("TRUNCATE articles")
    assert documents(db) == {}
    db.execute("SELECT graphrag.detach_table('mallory.articles')")
    db.execute("SELECT graphrag.attach_table('mallory.articles', 'default', 'id', '{body}')")
    work(db)
    db.execute("SELECT graphrag.drop_corpus('default')")
    assert not alarmed(db)
    assert reporters(db) <= {"mallory"}


def test_a_partition_runs_as_the_owner_alone(db: Database, mallory: Database) -> None:
    mallory.execute(
        "CREATE TABLE articles (id int PRIMARY KEY, body text CHECK (spy(1) = 1)) PARTITION BY RANGE (id);"
        "CREATE TABLE low PARTITION OF articles FOR VALUES FROM (0) TO (100); CREATE INDEX ON low ((spy(1))) WHERE spy(1) = 1;"
        "INSERT INTO articles VALUES (1, 'one')"
    )
    attach(mallory)
    work(db)
    backfill(mallory)
    mallory.execute("INSERT INTO articles VALUES (2, 'two')")
    assert documents(db) == {"1": "one", "2": "two"}
    assert (alarmed(db), reporters(db)) == (False, {"mallory"})


@pytest.mark.parametrize(
    "table",
    [
        "CREATE TABLE thing (id int NOT NULL, body text) PARTITION BY RANGE ((spy(1) + id))",
        "CREATE VIEW thing AS SELECT spy(1) AS id, 'x' AS body",
        "CREATE MATERIALIZED VIEW thing AS SELECT spy(1) AS id, 'x' AS body",
        "CREATE TABLE thing (id int PRIMARY KEY, body text); "
        "ALTER TABLE thing ENABLE ROW LEVEL SECURITY, FORCE ROW LEVEL SECURITY;CREATE POLICY p ON thing USING (spy(1) = 1)",
        "CREATE TABLE thing (id int PRIMARY KEY, body text); CREATE TABLE child (CHECK (spy(1) = 1)) INHERITS (thing)",
    ],
)
def test_what_is_refused_is_not_read_either(db: Database, mallory: Database, table: str) -> None:
    mallory.execute(table.encode())
    mallory.execute("TRUNCATE reports")
    for connection in (mallory, db):
        with pytest.raises((errors.WrongObjectType, errors.InvalidParameterValue, errors.ObjectNotInPrerequisiteState)):
            attach(connection, table="mallory.thing")
    assert (alarmed(db), reporters(db)) == (False, set())


def test_a_foreign_partition_stops_writes_and_is_not_attached(db: Database, mallory: Database) -> None:
    db.execute("CREATE EXTENSION file_fdw; CREATE SERVER files FOREIGN DATA WRAPPER file_fdw")
    db.execute("CREATE TABLE parted (id int, body text) PARTITION BY RANGE (id)")
    db.execute(
        "CREATE FOREIGN TABLE far PARTITION OF parted FOR VALUES FROM (0) TO (9) SERVER files OPTIONS (filename '/dev/null')"
    )
    db.execute("ALTER TABLE parted OWNER TO mallory")
    with pytest.raises(errors.WrongObjectType, match="parted"):
        attach(mallory, table="public.parted")


SUPERUSERS_TABLE = "CREATE TABLE gift (id int PRIMARY KEY, body text); GRANT ALL ON gift TO mallory"


@pytest.mark.parametrize("level", ["read committed", "repeatable read", "serializable"])
def test_a_table_that_changed_hands_is_read_as_its_new_owner(db: Database, mallory: Database, level: str) -> None:
    db.execute(SUPERUSERS_TABLE)
    attach(db, table="gift")
    db.execute("INSERT INTO gift VALUES (1, 'one')")
    db.execute("SELECT graphrag._queue_attached()")
    isolated(mallory, level)
    with as_role(db, "mallory") as other, mallory.transaction():
        mallory.execute("SELECT 1")
        db.execute("ALTER TABLE gift OWNER TO mallory")
        other.execute("CREATE INDEX ON public.gift ((mallory.spy(1))) WHERE mallory.spy(1) = 1; TRUNCATE reports")
        mallory.execute("INSERT INTO public.gift VALUES (2, 'two')")
    assert not alarmed(db)
    db.execute("CALL graphrag.process_jobs()")
    work(db)
    assert not alarmed(db)
    isolated(mallory, "read committed")
    # The first statement that sees the new owner hands the function over, the next ones use it.
    mallory.execute("INSERT INTO public.gift VALUES (3, 'three')")
    mallory.execute("INSERT INTO public.gift VALUES (4, 'four')")
    assert documents(db)["4"] == "four"
    mallory.execute("CALL graphrag.backfill_table('public.gift')")
    assert documents(db) == {"1": "one", "2": "two", "3": "three", "4": "four"}
    assert (alarmed(db), reporters(db)) == (False, {"mallory"})


def test_function_that_changes_hands_keeps_nothing_its_owner_gave_it(db: Database, mallory: Database) -> None:
    mallory.execute("CREATE TABLE public.articles (id int PRIMARY KEY, body text)")
    attach(mallory, table="public.articles")
    mallory.execute(
        "CREATE FUNCTION same(text, text) RETURNS bool LANGUAGE plpgsql IMMUTABLE AS"
        " 'BEGIN PERFORM mallory.report(); RETURN true; END';"
        "CREATE OPERATOR = (LEFTARG = text, RIGHTARG = text, FUNCTION = same);"
        "ALTER FUNCTION graphrag_attached._changed_1() SET search_path = mallory, pg_catalog"
    )
    with pytest.raises(errors.InsufficientPrivilege):
        mallory.execute(
            "CREATE OR REPLACE FUNCTION graphrag_attached._changed_1() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN END'"
        )
    db.execute("ALTER TABLE public.articles OWNER TO postgres")
    db.execute("INSERT INTO articles VALUES (1, 'one')")
    db.execute("INSERT INTO articles VALUES (2, 'two')")
    work(db)
    assert documents(db) == {"1": "one", "2": "two"}
    ((owner, config),) = db.execute(
        "SELECT proowner::regrole::text, proconfig::text FROM pg_proc WHERE proname = '_changed_1'"
    ).fetchall()
    assert (owner, "mallory" in config) == ("postgres", False)
    assert not alarmed(db)


@pytest.mark.parametrize("heir", ["alice", "postgres"])
@pytest.mark.parametrize("config", ["SET search_path = eve, pg_catalog", "SET search_path = eve", "SECURITY INVOKER"])
def test_who_inherits_a_table_runs_no_code_that_its_function_was_given(
    db: Database, mallory: Database, heir: str, config: str
) -> None:
    mallory.execute(
        "CREATE TABLE public.articles (id int PRIMARY KEY, body text); GRANT INSERT, UPDATE ON public.articles TO eve"
    )
    attach(mallory, table="public.articles")
    with as_role(db, "eve") as eve:
        for signature, kind, body in (
            ("array_to_string(text[], text)", "text", "pg_catalog.array_to_string($1, $2)"),
            ("octet_length(text)", "int", "pg_catalog.octet_length($1)"),
        ):
            eve.execute(
                f"CREATE FUNCTION eve.{signature} RETURNS {kind} LANGUAGE plpgsql IMMUTABLE AS"
                f" 'BEGIN PERFORM mallory.report(); RETURN {body}; END'".encode()
            )
        eve.execute("GRANT USAGE ON SCHEMA eve TO PUBLIC")
        mallory.execute(f"ALTER FUNCTION graphrag_attached._changed_1() {config}".encode())
        db.execute(f"REASSIGN OWNED BY mallory TO {heir}; ALTER SCHEMA mallory OWNER TO mallory".encode())
        db.execute("TRUNCATE mallory.reports")
        if config != "SECURITY INVOKER":
            eve.execute("INSERT INTO public.articles VALUES (1, 'one')")
            eve.execute("INSERT INTO public.articles VALUES (2, 'two')")
            assert documents(db)["2"] == "two"
        else:
            with pytest.raises(errors.InsufficientPrivilege):
                eve.execute("INSERT INTO public.articles VALUES (1, 'one')")
        db.execute("INSERT INTO public.articles VALUES (3, 'three')")
    work(db)
    assert (alarmed(db), reporters(db)) == (False, set())


@pytest.mark.parametrize(
    "code",
    [
        "CREATE INDEX ON gift ((mallory.spy(id)))",
        "CREATE INDEX ON gift (body) WHERE mallory.spy(1) = 1",
        "CREATE STATISTICS s ON (mallory.spy(1) + id), body FROM gift",
        "ALTER TABLE gift ADD CHECK (mallory.spy(1) = 1)",
        "CREATE OPERATOR public.~~~ (LEFTARG = int, RIGHTARG = int, FUNCTION = mallory.same);"
        "CREATE INDEX ON gift (body) WHERE id OPERATOR(public.~~~) 1",
        "CREATE OPERATOR CLASS o FOR TYPE int USING btree AS OPERATOR 1 <, OPERATOR 2 <=, OPERATOR 3 =, OPERATOR 4 >=,"
        " OPERATOR 5 >, FUNCTION 1 mallory.compare(int, int); CREATE INDEX ON gift (id o)",
    ],
)
def test_a_superusers_table_that_runs_code_of_others_is_read_by_nobody(
    db: Database, mallory: Database, code: str
) -> None:
    mallory.execute(
        "CREATE FUNCTION same(int, int) RETURNS bool LANGUAGE plpgsql IMMUTABLE AS"
        " 'BEGIN PERFORM mallory.report(); RETURN true; END';"
        "CREATE FUNCTION compare(int, int) RETURNS int LANGUAGE plpgsql IMMUTABLE AS"
        " 'BEGIN PERFORM mallory.report(); RETURN $1 - $2; END'"
    )
    db.execute(SUPERUSERS_TABLE)
    attach(db, table="gift")
    db.execute(code.encode())
    # Planting it has run it.
    db.execute("SELECT setval('mallory.alarm', 1, false)")
    with pytest.raises(errors.InsufficientPrivilege, match="mallory") as refused:
        mallory.execute("INSERT INTO public.gift VALUES (1, 'one')")
    assert 'Give it to "postgres"' in str(refused.value.diag.message_hint)
    work(db)
    ((waits,),) = db.execute("SELECT waiting_for FROM graphrag.progress").fetchall()
    assert "would run code of others" in waits
    with pytest.raises(errors.InsufficientPrivilege, match="not read in this session"):
        db.execute("CALL graphrag.backfill_table('gift')")
    db.execute("SELECT graphrag.detach_table('gift')")
    with pytest.raises(errors.InsufficientPrivilege, match="would run code of others"):
        attach(db, table="gift")
    assert not alarmed(db)


def test_partition_and_child_of_others_stop_the_reading_of_a_superusers_table(db: Database, mallory: Database) -> None:
    db.execute(
        "CREATE TABLE gift (id int PRIMARY KEY, body text) PARTITION BY RANGE (id); GRANT ALL ON gift TO mallory;"
        "CREATE TABLE low PARTITION OF gift FOR VALUES FROM (0) TO (100);"
        "CREATE TABLE plain (id int PRIMARY KEY, slug text NOT NULL UNIQUE, body text); GRANT ALL ON plain TO mallory"
    )
    attach(db, table="gift")
    attach(db, table="plain", key="slug")
    db.execute(
        "CREATE TABLE child () INHERITS (plain); ALTER TABLE child OWNER TO mallory; ALTER TABLE low OWNER TO mallory"
    )
    mallory.execute("CREATE INDEX ON public.low ((mallory.spy(1))); CREATE INDEX ON public.child ((mallory.spy(1)))")
    with pytest.raises(errors.InsufficientPrivilege, match="would run code of others"):
        mallory.execute("INSERT INTO public.gift VALUES (1, 'one')")
    with pytest.raises(errors.InsufficientPrivilege, match="would run code of others"):
        mallory.execute("INSERT INTO public.plain VALUES (1, 's', 'one')")
    work(db)
    assert not alarmed(db)


def test_a_superusers_table_in_a_schema_of_others_is_not_attached(db: Database, mallory: Database) -> None:
    db.execute("CREATE TABLE mallory.gift (id int PRIMARY KEY, body text)")
    with pytest.raises(errors.InsufficientPrivilege, match='schema mallory of role "mallory"'):
        attach(db, table="mallory.gift")


def test_no_superusers_session_backfills_the_table_of_another(db: Database, mallory: Database) -> None:
    mallory.execute(
        "CREATE TABLE articles (id int PRIMARY KEY, body text); CREATE INDEX ON articles ((spy(1))); TRUNCATE reports"
    )
    attach(mallory)
    for before in ("RESET ROLE", "SET ROLE mallory"):
        db.execute(before.encode())
        with pytest.raises(errors.InsufficientPrivilege, match="not read in this session"):
            db.execute("CALL graphrag.backfill_table('mallory.articles')")
        db.execute("RESET ROLE")
    db.execute("RESET ROLE")
    assert (alarmed(db), reporters(db)) == (False, set())


def test_a_member_of_the_extensions_owner_is_as_careful(db: Database, mallory: Database) -> None:
    mallory.execute(
        "CREATE TABLE articles (id int PRIMARY KEY, body text); CREATE INDEX ON articles ((spy(1))); TRUNCATE reports"
    )
    attach(mallory)
    db.execute("GRANT postgres, mallory TO eve")
    try:
        with as_role(db, "eve") as eve, pytest.raises(errors.InsufficientPrivilege, match="not read in this session"):
            eve.execute("CALL graphrag.backfill_table('mallory.articles')")
    finally:
        db.execute("REVOKE postgres, mallory FROM eve")
    assert reporters(db) == set()


def test_owner_of_a_table_learns_and_reads_nothing_of_another(db: Database, mallory: Database) -> None:
    with as_role(db, "alice") as alice:
        alice.execute("CREATE TABLE articles (id int PRIMARY KEY, body text)")
        attach(alice)
        alice.execute("GRANT USAGE ON SCHEMA alice TO mallory")
    assert mallory.execute("SELECT * FROM graphrag_attached._attachments").fetchall() == []
    with pytest.raises(errors.InsufficientPrivilege, match="must be owner"):
        mallory.execute("CALL graphrag.backfill_table('alice.articles')")


ACTIONS = ["write", "delete", "truncate", "compare", "list", "lock", "begin", "later", "queue", "nonsense"]


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
    with pytest.raises(errors.ObjectNotInPrerequisiteState, match="is not attached under number 1"):
        mallory.execute("INSERT INTO other VALUES (1, 'x')")
    # Nor does it keep anyone from taking the corpus away.
    db.execute("SELECT graphrag.drop_corpus('default')")
    mallory.execute("INSERT INTO other VALUES (1, 'x'); INSERT INTO articles VALUES (1, 'x')")


def test_who_may_only_insert_needs_no_other_right(db: Database, mallory: Database) -> None:
    """Neither the writer nor the owner has USAGE on schema graphrag; the writer may not read the table."""
    db.execute("REVOKE USAGE ON SCHEMA graphrag FROM alice; CREATE TABLE articles (id int PRIMARY KEY, body text)")
    db.execute(
        "ALTER TABLE articles OWNER TO alice; GRANT INSERT ON articles TO eve; ALTER TABLE articles ENABLE ROW LEVEL SECURITY"
    )
    db.execute("CREATE POLICY p ON articles FOR INSERT TO eve WITH CHECK (true)")
    attach(db, table="articles")
    with as_role(db, "eve") as eve, as_role(db, "alice") as alice:
        eve.execute("INSERT INTO public.articles VALUES (1, 'one')")
        alice.execute("INSERT INTO public.articles VALUES (2, 'two')")
        with pytest.raises(errors.InsufficientPrivilege):
            eve.execute("SELECT * FROM public.articles")
    assert documents(db) == {"1": "one", "2": "two"}


def test_what_a_savepoint_takes_back_is_never_written(db: Database, mallory: Database) -> None:
    mallory.execute("CREATE TABLE articles (id int PRIMARY KEY, body text)")
    attach(mallory)
    mallory.execute(
        "CREATE FUNCTION fail() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN"
        " IF EXISTS (SELECT FROM mallory.articles WHERE body = 'bad') THEN RAISE 'no'; END IF; RETURN NULL; END $$;"
        "CREATE TRIGGER graphrag_1_insert_z AFTER INSERT ON articles EXECUTE FUNCTION fail();"
        "CREATE TRIGGER graphrag_1_a AFTER INSERT ON articles EXECUTE FUNCTION fail()"
    )
    with mallory.transaction():
        for body in ("bad", "good"):
            try:
                with mallory.transaction():
                    mallory.execute("INSERT INTO articles VALUES (1, %s)", [body])
            except errors.RaiseException:
                assert body == "bad"
    assert documents(db) == {"1": "good"}


def test_nested_statements_and_merge_end_with_what_the_table_says(db: Database, mallory: Database) -> None:
    mallory.execute("CREATE TABLE articles (id int PRIMARY KEY, body text)")
    attach(mallory)
    mallory.execute(
        "CREATE FUNCTION nest() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN"
        " IF pg_trigger_depth() < 3 THEN"
        "  BEGIN DELETE FROM mallory.articles; RAISE 'undo'; EXCEPTION WHEN raise_exception THEN NULL; END;"
        "  UPDATE mallory.articles SET body = body || '!' WHERE id % 2 = 0;"
        "  DELETE FROM mallory.articles WHERE body LIKE '%!!'; END IF; RETURN NULL; END $$;"
        "CREATE TRIGGER graphrag_1_a AFTER INSERT OR UPDATE ON articles EXECUTE FUNCTION nest();"
        "CREATE TRIGGER z AFTER INSERT OR UPDATE ON articles EXECUTE FUNCTION nest()"
    )
    mallory.execute("INSERT INTO articles SELECT n, 'b' FROM generate_series(1, 6) n")
    mallory.execute(
        "MERGE INTO articles a USING (SELECT n FROM generate_series(1, 9) n) s ON a.id = s.n"
        " WHEN MATCHED AND s.n % 3 = 0 THEN DELETE WHEN MATCHED THEN UPDATE SET body = 'm'"
        " WHEN NOT MATCHED THEN INSERT VALUES (s.n, 'i')"
    )
    assert documents(db) == dict(mallory.execute("SELECT id::text, body FROM articles").fetchall())


def test_a_handover_larger_than_a_slice_is_whole(db: Database, mallory: Database) -> None:
    mallory.execute("CREATE TABLE articles (id int PRIMARY KEY, body text)")
    attach(mallory)
    mallory.execute("INSERT INTO articles SELECT n, repeat(n::text, 100000) FROM generate_series(100, 400) n")
    assert db.execute("SELECT count(*), sum(length(content)) FROM graphrag.documents").fetchall() == [
        (301, 301 * 300000)
    ]


def test_schema_that_anyone_may_use_lends_nobody_rights(db: Database) -> None:
    definers = db.execute(
        "SELECT oid::regprocedure::text FROM pg_proc WHERE pronamespace = 'graphrag_attached'::regnamespace AND prosecdef"
    ).fetchall()
    assert definers == []
    assert db.execute("SELECT has_schema_privilege('pg_read_all_data', 'graphrag_attached', 'CREATE')").fetchall() == [
        (False,)
    ]
