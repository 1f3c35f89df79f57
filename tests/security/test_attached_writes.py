"""Whoever writes an attached table needs no other right, and its documents end as the table says."""

from __future__ import annotations

import pytest
from psycopg import errors

from tests.runtime.cluster import Database
from tests.security.mallory import as_role
from tests.sql.attach import attach, documents


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
