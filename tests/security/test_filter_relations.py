"""A relation that a filter names is read with the caller's rights: what is planted in it gets no others."""

from collections.abc import Iterator
from typing import Any

import psycopg
import pytest
from psycopg.conninfo import make_conninfo
from psycopg.types.json import Jsonb

from tests.runtime.cluster import Database
from tests.security.mallory import alarmed, attacking, lent, reporters
from tests.sql.ingest import Connection, index_all, keys, put, refused, search, searched_corpus, work

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
    name = searched_corpus(module_db)
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
    whole = index_all(module_db, searched_corpus(module_db), {"shown": "Ada Lovelace wrote notes."})
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


# What somebody plants, by whom the relation named is owned, and whether it may be read by a session that took on alice's role.
TAKES_ROLE = """
CREATE FUNCTION take() RETURNS text LANGUAGE plpgsql VOLATILE AS $$
BEGIN PERFORM mallory.report(); RETURN 'shown'; END $$;
CREATE FUNCTION take_text(text) RETURNS text LANGUAGE plpgsql IMMUTABLE AS $$
BEGIN PERFORM mallory.report(); RETURN 'shown'; END $$;
CREATE FUNCTION take_true() RETURNS bool LANGUAGE plpgsql VOLATILE AS $$ BEGIN PERFORM mallory.report(); RETURN true; END $$;
GRANT EXECUTE ON ALL FUNCTIONS IN SCHEMA mallory TO PUBLIC;
CREATE VIEW taking AS SELECT take() AS source_key;
CREATE VIEW taking_invoker WITH (security_invoker) AS SELECT take() AS source_key;
CREATE TABLE keys_of_hers (source_key text); INSERT INTO keys_of_hers VALUES ('shown');
CREATE TABLE taking_index (source_key text); INSERT INTO taking_index VALUES ('shown');
CREATE INDEX ON taking_index ((take_text(source_key)), source_key); ANALYZE taking_index;
CREATE TABLE taking_policy (source_key text); INSERT INTO taking_policy VALUES ('shown');
ALTER TABLE taking_policy ENABLE ROW LEVEL SECURITY; CREATE POLICY p ON taking_policy USING (take_true());
CREATE TABLE taking_statistics (source_key text); INSERT INTO taking_statistics VALUES ('shown');
CREATE STATISTICS taking_s ON (take_text(source_key)), source_key FROM taking_statistics; ANALYZE taking_statistics;
CREATE DOMAIN taking_domain AS text CHECK (take_text(VALUE) IS NOT NULL);
GRANT SELECT ON ALL TABLES IN SCHEMA mallory TO PUBLIC;
"""
# Of a superuser, over what is Mallory's.
OVER_HERS = """
CREATE SCHEMA over_hers; GRANT USAGE ON SCHEMA over_hers TO PUBLIC;
CREATE VIEW over_hers.view AS SELECT source_key FROM mallory.taking_invoker;
CREATE VIEW over_hers.deeper AS SELECT source_key FROM over_hers.view;
CREATE VIEW over_hers.table_view WITH (security_invoker) AS SELECT source_key FROM mallory.taking_policy;
CREATE VIEW over_hers.calls AS SELECT mallory.take() AS source_key;
CREATE TABLE over_hers.parent (source_key text) PARTITION BY LIST (source_key);
CREATE TABLE over_hers.column (source_key text, hers mallory.taking_domain);
CREATE TABLE over_hers.ours (source_key text); INSERT INTO over_hers.ours VALUES ('shown');
CREATE VIEW over_hers.ours_view AS SELECT source_key FROM over_hers.ours;
CREATE TABLE mallory.moved (source_key text);
GRANT SELECT ON ALL TABLES IN SCHEMA over_hers TO PUBLIC; GRANT SELECT ON mallory.moved TO PUBLIC;
"""
REFUSED = (
    *(
        "mallory.taking",
        "mallory.taking_invoker",
        "mallory.keys_of_hers",
        "mallory.taking_index",
        "mallory.taking_policy",
    ),
    *("mallory.taking_statistics", "mallory.moved", "over_hers.view", "over_hers.deeper", "over_hers.table_view"),
    *("over_hers.calls", "over_hers.column"),
)
LENT = ("a role taken on", "a definer's function", "a superuser", "a login taken on")
_TAKEN_ON = {LENT[0]: "SET ROLE alice", LENT[3]: "SET SESSION AUTHORIZATION alice"}


@pytest.fixture(scope="module")
def planted(module_db: Database, mallory: Database, corpus: str) -> Iterator[str]:
    mallory.execute(TAKES_ROLE.encode())
    module_db.execute(OVER_HERS.encode())
    module_db.execute(
        "CREATE FUNCTION over_hers.lent_search(c text, f jsonb) RETURNS SETOF text LANGUAGE sql SECURITY DEFINER AS"
        " 'SELECT source_key FROM graphrag.search(''Ada Lovelace'', c, ''bm25'', filter => f)';"
        "CREATE FUNCTION over_hers.lent_questions(c text, q text) RETURNS SETOF text LANGUAGE sql SECURITY DEFINER AS"
        " 'SELECT mode FROM graphrag.evaluate(c, q)'"
    )
    yield corpus
    module_db.execute("DROP SCHEMA over_hers CASCADE")


@pytest.mark.sample(12)
@pytest.mark.parametrize("relation", REFUSED)
@pytest.mark.parametrize("how", LENT)
def test_no_session_that_has_other_rights_than_its_caller_runs_code_of_others(
    module_db: Database, mallory: Database, planted: str, how: str, relation: str
) -> None:
    mallory.execute("TRUNCATE mallory.reports")
    filter_ = Jsonb({"$relation": relation})
    # A superuser's session, as a pool's or a test's, but for the function that lends rights.
    url = make_conninfo(module_db.url, user="alice", password="alice") if how == LENT[1] else module_db.url
    with psycopg.connect(url, autocommit=True) as pool:
        if how != LENT[1]:
            pool.execute(_TAKEN_ON.get(how, "RESET ROLE"))
            search_sql = "SELECT * FROM graphrag.search('Ada', %s, filter => %s)"
            evaluate_sql = "SELECT graphrag.evaluate(%s, %s)"
        else:
            search_sql, evaluate_sql = "SELECT over_hers.lent_search(%s, %s)", "SELECT over_hers.lent_questions(%s, %s)"
        error = refused(pool, search_sql, planted, filter_)
        assert (error.sqlstate, bool(error.message_hint)) == ("42501", True)
        assert refused(pool, evaluate_sql, planted, relation).sqlstate == "42501"
        assert refused(pool, evaluate_sql.replace("%s)", "%s::regclass)"), planted, relation).sqlstate in (
            "42501",
            "42883",
        )
    assert reporters(mallory) == set()
    assert not alarmed(module_db)


@pytest.mark.parametrize("relation", ["over_hers.ours", "over_hers.ours_view"])
def test_a_pool_reads_what_belongs_to_those_who_have_all_its_rights(
    module_db: Database, planted: str, relation: str
) -> None:
    with psycopg.connect(module_db.url, autocommit=True) as pool:
        pool.execute("SET ROLE alice")
        assert asked(pool, planted, {"$relation": relation}) == ["shown"]
    with psycopg.connect(make_conninfo(module_db.url, user="alice", password="alice"), autocommit=True) as pool:
        lent_search = "SELECT over_hers.lent_search(%s, %s)"
        assert pool.execute(lent_search, [planted, Jsonb({"$relation": relation})]).fetchall() == [("shown",)]
