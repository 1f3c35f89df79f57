"""A relation that a filter names is read with the caller's rights: what is planted in it gets no others."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from psycopg.types.json import Jsonb

from tests.runtime.cluster import Database
from tests.security.mallory import alarmed, attacking, lent, reporters
from tests.sql.ingest import Connection, keys, new_corpus, put, refused, search, work

PLANTED = {
    "function in a view": "CREATE VIEW planted AS SELECT CASE spy(n) WHEN 1 THEN 'shown' ELSE 'hidden' END AS source_key"
    " FROM generate_series(1, 2) n",
    "deepened view": "CREATE VIEW inner_view AS SELECT spy_text('a') || 'shown' AS k, spy(1) AS n;"
    "CREATE VIEW planted WITH (security_barrier) AS SELECT substr(k, 2) AS source_key FROM inner_view WHERE spy(n) = 1",
    "index expression": "CREATE TABLE planted (source_key text); INSERT INTO planted VALUES ('shown');"
    "CREATE INDEX ON planted ((spy_text(source_key)), source_key); ANALYZE planted",
    "statistics": "CREATE TABLE planted (source_key text); INSERT INTO planted VALUES ('shown');"
    "CREATE STATISTICS s ON (spy_text(source_key)), source_key FROM planted; ANALYZE planted",
    "policy": "CREATE TABLE planted (source_key text); INSERT INTO planted VALUES ('shown');"
    "ALTER TABLE planted ENABLE ROW LEVEL SECURITY; ALTER TABLE planted FORCE ROW LEVEL SECURITY;"
    "CREATE POLICY p ON planted USING (spy(1) = 1)",
    "generated column": "CREATE TABLE planted (source_key text GENERATED ALWAYS AS (CASE spy(1) WHEN 1 THEN 'shown' END) STORED);"
    "INSERT INTO planted DEFAULT VALUES",
}
OPERATORS = """
CREATE FUNCTION same(text, text) RETURNS bool LANGUAGE plpgsql IMMUTABLE AS 'BEGIN PERFORM mallory.report(); RETURN true; END';
CREATE OPERATOR = (LEFTARG = text, RIGHTARG = text, FUNCTION = same);
CREATE OPERATOR @> (LEFTARG = jsonb, RIGHTARG = jsonb, FUNCTION = same_json);
CREATE OPERATOR @? (LEFTARG = jsonb, RIGHTARG = jsonpath, FUNCTION = same_path);
CREATE FUNCTION starts_with(text, text) RETURNS bool LANGUAGE plpgsql IMMUTABLE AS
 'BEGIN PERFORM mallory.report(); RETURN true; END';
CREATE TABLE pg_class (oid oid); CREATE TABLE documents (id bigint);
"""


@pytest.fixture(scope="module")
def mallory(module_db: Database) -> Iterator[Database]:
    with attacking(module_db) as session:
        module_db.execute("GRANT graphrag_reader TO mallory, alice")
        yield session


@pytest.fixture(scope="module")
def corpus(module_db: Database, mallory: Database) -> str:
    name = new_corpus(module_db)
    for key in ("shown", "hidden"):
        put(module_db, name, key, "Ada Lovelace wrote notes.")
    work(module_db)
    module_db.execute("SELECT graphrag.protect(%s, %s)", [name, "source_key <> 'hidden'"])
    return name


def asked(db: Connection, corpus: str, filter_: dict[str, Any]) -> list[str]:
    return keys(search(db, "Ada Lovelace", corpus, "bm25", filter=filter_))


@pytest.mark.parametrize("what", PLANTED)
def test_what_is_planted_in_a_relation_runs_as_the_caller(
    module_db: Database, mallory: Database, corpus: str, what: str
) -> None:
    mallory.execute("TRUNCATE mallory.reports")
    with mallory.transaction(force_rollback=True):
        mallory.execute(PLANTED[what].encode())
        mallory.execute("TRUNCATE mallory.reports")
        assert asked(mallory, corpus, {"$relation": "mallory.planted"}) == ["shown"]
        assert asked(mallory, corpus, {"$not": {"$relation": "mallory.planted"}}) == []
        assert reporters(mallory) <= {"mallory"}
    assert not alarmed(module_db)
    assert not lent(module_db)


def test_a_reader_of_all_reads_a_relation_with_no_more_rights(
    module_db: Database, mallory: Database, corpus: str
) -> None:
    whole = new_corpus(module_db)
    put(module_db, whole, "shown", "Ada Lovelace wrote notes.")
    work(module_db)
    mallory.execute(f"CREATE VIEW for_all AS {PLANTED['function in a view'].partition(' AS ')[2]}".encode())
    assert asked(mallory, whole, {"$relation": "mallory.for_all"}) == ["shown"]
    assert reporters(mallory) == {"mallory"}
    assert not alarmed(module_db)
    assert not lent(module_db)


def test_the_searches_own_names_are_not_found_in_other_schemas(
    module_db: Database, mallory: Database, corpus: str
) -> None:
    mallory.execute("TRUNCATE mallory.reports")
    with mallory.transaction(force_rollback=True):
        for type_, name in (("jsonb", "same_json"), ("jsonpath", "same_path")):
            mallory.execute(
                f"CREATE FUNCTION {name}(jsonb, {type_}) RETURNS bool LANGUAGE plpgsql IMMUTABLE AS"
                " 'BEGIN PERFORM mallory.report(); RETURN true; END'".encode()
            )
        mallory.execute(OPERATORS.encode())
        mallory.execute("CREATE TABLE picked AS SELECT 'shown'::text COLLATE \"C\" AS source_key")
        mallory.execute("SET search_path = mallory, pg_temp, pg_catalog")
        filter_ = {
            "$relation": "mallory.picked",
            "$source_key": {"$prefix": "s"},
            "x": {"$exists": False},
            "$contains": {},
        }
        assert asked(mallory, corpus, filter_) == ["shown"]
        assert reporters(mallory) == set()


def test_keys_of_a_type_of_others_are_refused(mallory: Database, corpus: str) -> None:
    mallory.execute(
        "CREATE TYPE mood AS ENUM ('shown');"
        "CREATE FUNCTION as_text(mood) RETURNS text LANGUAGE plpgsql IMMUTABLE AS"
        " 'BEGIN PERFORM mallory.report(); RETURN 1; END'; CREATE CAST (mood AS text) WITH FUNCTION as_text(mood) AS IMPLICIT;"
        "CREATE TABLE moods (source_key mood)"
    )
    sql = "SELECT * FROM graphrag.search('Ada', %s, filter => %s)"
    assert refused(mallory, sql, corpus, Jsonb({"$relation": "mallory.moods"})).sqlstate == "42804"


@pytest.mark.parametrize(
    ("body", "sqlstate"),
    [
        ("PERFORM graphrag._enter(''); RETURN 'x'", "42501"),
        ("PERFORM 1 FROM graphrag.chunks; RETURN 'x'", "42501"),
        ("PERFORM 1 / 0; RETURN 'x'", "22012"),
        ("RETURN (SELECT source_key FROM mallory.again LIMIT 1)", "54001"),
    ],
    ids=["the door", "a closed table", "an error", "without end"],
)
def test_a_function_in_a_relation_gets_through_no_door(
    mallory: Database, corpus: str, body: str, sqlstate: str
) -> None:
    mallory.execute(
        f"CREATE OR REPLACE FUNCTION through() RETURNS text LANGUAGE plpgsql AS $$ BEGIN {body}; END $$;"
        "CREATE OR REPLACE VIEW door AS SELECT through() AS source_key;"
        "CREATE OR REPLACE VIEW again AS SELECT s.source_key FROM"
        f" graphrag.search('Ada', '{corpus}', 'bm25', filter => '{{\"$relation\": \"mallory.door\"}}') s".encode()
    )
    sql = "SELECT * FROM graphrag.search('Ada', %s, 'bm25', filter => %s)"
    assert refused(mallory, sql, corpus, Jsonb({"$relation": "mallory.door"})).sqlstate == sqlstate
    assert asked(mallory, corpus, {}) == ["shown"]
