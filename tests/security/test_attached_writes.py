"""Whoever writes an attached table needs no other right, and its documents end as the table says."""

from contextlib import suppress

import pytest
from psycopg import errors

from tests.runtime.cluster import Database
from tests.security.mallory import as_role
from tests.sql.attach import attach, documents


@pytest.fixture
def db(reused_db: Database) -> Database:
    """A database that others have used: who may do what is asked of the catalogs each time."""
    return reused_db


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


@pytest.mark.slow
def test_a_handover_larger_than_a_slice_is_whole(db: Database, mallory: Database) -> None:
    mallory.execute("CREATE TABLE articles (id int PRIMARY KEY, body text)")
    attach(mallory)
    mallory.execute("INSERT INTO articles SELECT n, repeat(n::text, 100000) FROM generate_series(100, 400) n")
    assert db.execute("SELECT count(*), sum(length(content)) FROM graphrag.documents").fetchall() == [
        (301, 301 * 300000)
    ]


# What a writer can do to the trigger of an attached table, so that it can write nothing: what becomes of his statement.
DEAF = {
    "a transaction that became read only": "DELETE FROM public.articles"
    " WHERE set_config('transaction_read_only', 'on', true) = 'on'",
    "no views": "SET restrict_nonsystem_relation_kind = 'view'; DELETE FROM public.articles",
    "a full stack": "SELECT eve.deepest()",
}


@pytest.mark.parametrize("how", DEAF)
def test_a_change_that_documents_cannot_follow_is_recorded_or_not_made(
    db: Database, mallory: Database, how: str
) -> None:
    """Else documents of deleted rows would stay, and graphrag.attached_tables would call them current."""
    db.execute("CREATE TABLE articles (id int PRIMARY KEY, body text)")
    db.execute("ALTER TABLE articles OWNER TO alice; GRANT ALL ON articles TO eve")
    attach(db, table="articles")
    db.execute("INSERT INTO articles VALUES (1, 'one')")
    db.execute("DELETE FROM graphrag.jobs; DELETE FROM graphrag._attached_faults")
    with as_role(db, "eve") as eve:
        # As deep as the statement itself can be: the trigger of the table needs more.
        eve.execute("""
            CREATE FUNCTION deep(depth int) RETURNS boolean LANGUAGE plpgsql AS $$ BEGIN
                IF depth > 0 THEN RETURN eve.deep(depth - 1); END IF;
                DELETE FROM public.articles;
                RETURN true;
            END $$;
            CREATE FUNCTION deepest() RETURNS void LANGUAGE plpgsql AS $$
            DECLARE
                depth int := 0;
                step int := 4096;
            BEGIN
                WHILE step > 0 LOOP
                    BEGIN
                        PERFORM eve.deep(depth + step);
                        RAISE 'undo' USING ERRCODE = 'GR002';
                    EXCEPTION
                        WHEN SQLSTATE 'GR002' THEN depth := depth + step;
                        WHEN statement_too_complex THEN NULL;
                    END;
                    step := step / 2;
                END LOOP;
                PERFORM eve.deep(depth);
            END $$""")
        with suppress(errors.ReadOnlySqlTransaction, errors.ObjectNotInPrerequisiteState):
            eve.execute(DEAF[how].encode())
    remaining = {str(key): body for key, body in db.execute("SELECT id, body FROM articles").fetchall()}
    (state,) = db.execute("SELECT state FROM graphrag.attached_tables").fetchall()
    assert documents(db) == remaining or state == ("behind",)


def test_a_rewrite_queues_a_pass_through_its_table_alone_and_runs_as_its_owner(db: Database, mallory: Database) -> None:
    mallory.execute(
        "CREATE TABLE seen (name text); CREATE TABLE articles (id int PRIMARY KEY, body text);"
        "CREATE TABLE other (LIKE articles);"
        "CREATE FUNCTION look(text) RETURNS text LANGUAGE plpgsql VOLATILE AS $$BEGIN"
        " INSERT INTO mallory.seen VALUES (current_user); RETURN 'redacted'; END$$"
    )
    attach(mallory)
    mallory.execute("INSERT INTO articles VALUES (1, 'one'); INSERT INTO other VALUES (1, 'one')")
    db.execute("DELETE FROM graphrag.jobs WHERE kind = 'attach'")
    queued = "SELECT count(*) FROM graphrag.jobs WHERE kind = 'attach'"
    mallory.execute("ALTER TABLE other ALTER body TYPE text USING mallory.look(body)")
    assert db.execute(queued).fetchone() == (0,)
    mallory.execute("ALTER TABLE articles ALTER body TYPE text USING mallory.look(body)")
    assert db.execute(queued).fetchone() == (1,)
    assert mallory.execute("SELECT DISTINCT name FROM seen").fetchall() == [("mallory",)]
    with pytest.raises(errors.Error):
        mallory.execute("SELECT graphrag._attached_rewritten()")
