"""The operators of filters keep the documents that they say, wherever a filter is taken; bad ones are refused."""

import json
from collections.abc import Iterator
from typing import Any

import psycopg
import pytest
from psycopg.conninfo import make_conninfo
from psycopg.types.json import Jsonb

from tests.runtime.cluster import Database
from tests.security.readers import readers, session_of
from tests.sql.asking import warnings
from tests.sql.ingest import Connection, keys, put, refused, rows, search, searched_corpus, work

TEXT = "Ada Lovelace wrote to {place} about the Analytical Engine."
METADATA: dict[str, dict[str, Any]] = {
    "a": {"year": 2019, "lang": "de", "tags": ["x", "y"], "day": "2019-12-31T23:30:00-01:00"},
    "b": {"year": 2020, "lang": "en", "tags": [], "day": "2020-01-01", "author": {"name": "Ann", "born": 1950}},
    "c": {"year": 2021.5, "lang": "en-GB", "tags": "x", "day": "2020-01-01 00:00", "author": [{"name": "Bob"}]},
    "d": {"year": "2022", "lang": None, "day": "2020-01-32", "$ref": [{"$id": 1}]},
    "e": {"year": [2018, 2024], "lang": True, 'a "b".$c': 12345678901234567890.5, "day": 20200101},
    "f": {},
}
PLACES = ("Vienna", "Oslo", "Lisbon", "Athens", "Dublin", "Prague")
KEPT: list[tuple[dict[str, Any], str]] = [
    ({"year": {"$gte": 2020, "$lt": 2024}}, "bce"),
    ({"year": {"$gt": 2020}}, "ce"),
    ({"year": {"$lte": 2020}}, "abe"),
    ({"year": {"$gte": "2"}}, "d"),
    ({"lang": {"$in": ["de", "en", None]}}, "abd"),
    ({"lang": {"$in": []}}, ""),
    ({"lang": {"$in": [f"{n}" for n in range(100)] + ["en", True]}}, "be"),
    ({"tags": {"$in": [f"{n}" for n in range(100)] + ["x"]}}, "ac"),
    ({"tags": {"$in": ["x"]}}, "ac"),
    ({"tags": "x"}, "c"),
    ({"tags": ["x"]}, "a"),
    ({"tags": {"$contains": ["y"]}}, "a"),
    ({"lang": {"$nin": ["de", "en"]}}, "cdef"),
    ({"lang": {"$eq": None}}, "d"),
    ({"lang": {"$ne": "de"}}, "bcdef"),
    ({"lang": {"$exists": True}}, "abcde"),
    ({"lang": {"$exists": False}}, "f"),
    ({"lang": {"$prefix": "en"}}, "bc"),
    ({"lang": {"$not": {"$prefix": "en"}}}, "adef"),
    ({"day": {"$gte": "2020-01-01"}}, "abc"),
    ({"day": {"$gt": "2020-01-01"}}, "a"),
    ({"day": {"$lte": "2020-01-01T01:00+01:00"}}, "bc"),
    ({"author": {"born": {"$lt": 1960}, "name": "Ann"}}, "b"),
    ({"author": {"name": {"$prefix": ""}}}, "bc"),
    ({'a "b".$c': {"$eq": 12345678901234567890.5}}, "e"),
    ({"$contains": {"$ref": [{"$id": 1}]}}, "d"),
    ({"$or": [{"year": 2019}, {"lang": "en"}]}, "ab"),
    ({"$and": [{"$not": {"year": 2019}}, {"$not": {"lang": {"$prefix": "e"}}}]}, "def"),
    ({"$or": [{"tags": {"$eq": "y"}}, {"year": {"$gt": 2023}}], "$not": {"lang": True}}, "a"),
    ({"$source_key": "b"}, "b"),
    ({"$source_key": {"$in": ["a", "f", "none"], "$ne": "f"}}, "a"),
    ({"$source_key": {"$nin": ["a", "b"], "$prefix": ""}}, "cdef"),
    ({"$ids": []}, ""),
    ({"$relation": "app.one_column"}, "ac"),
    ({"$relation": 'app."Two Columns"'}, "bd"),
    ({"$or": [{"$relation": "app.one_column"}, {"$not": {"$relation": 'app."Two Columns"'}}]}, "acef"),
]


@pytest.fixture(scope="module")
def corpus(module_db: Database) -> str:
    name = searched_corpus(module_db)
    for place, (key, metadata) in zip(PLACES, METADATA.items(), strict=True):
        put(module_db, name, key, TEXT.format(place=place), metadata=metadata)
    put(module_db, searched_corpus(module_db), "a", TEXT.format(place="Rome"), metadata=METADATA["a"])
    work(module_db)
    module_db.execute(
        b"""CREATE SCHEMA app; GRANT USAGE ON SCHEMA app TO PUBLIC;
        CREATE TABLE app.one_column (doc varchar(20) COLLATE "C");
        INSERT INTO app.one_column VALUES ('a'), ('c'), ('c'), (NULL), ('elsewhere');
        CREATE VIEW app."Two Columns" AS SELECT n, chr(96 + n) AS source_key FROM generate_series(2, 4, 2) n;
        CREATE TABLE app.closed (source_key text);
        CREATE TABLE app.keyless (a text, b text);
        CREATE DOMAIN app.doc AS text; CREATE TABLE app.of_domain (source_key app.doc); CREATE SEQUENCE app.numbers;
        GRANT SELECT ON app.one_column, app."Two Columns", app.keyless TO PUBLIC"""
    )
    return name


@pytest.mark.parametrize(("filter_", "kept"), KEPT, ids=lambda given: json.dumps(given)[:60])
def test_a_filter_keeps_what_it_says(module_db: Database, corpus: str, filter_: dict[str, Any], kept: str) -> None:
    assert set(keys(search(module_db, "Ada Lovelace", corpus, "bm25", filter=filter_))) == set(kept)


@pytest.mark.parametrize("arguments", [{"filter": {"lang": "none"}}, {"options": {"as_of": "1815-12-10"}}], ids=str)
@pytest.mark.parametrize("mode", ["hybrid", "local", "mix"])
def test_what_no_document_meets_is_not_taken_for_a_corpus_without_documents(
    db: Database, mode: str, arguments: dict[str, Any]
) -> None:
    corpus = searched_corpus(db)
    put(db, corpus, "a", TEXT.format(place="Rome"))
    db.execute("UPDATE graphrag.documents SET valid_from = '2020-01-01'")
    work(db)
    with warnings(db) as messages:
        assert search(db, "Ada Lovelace", corpus, mode, **arguments) == []
    assert messages == [f'mode "{mode}" found nothing: no indexed text meets the filter']


def test_the_rows_of_every_filter_are_those_of_a_reader_of_a_part(module_db: Database, corpus: str) -> None:
    part = set("abcdf")
    module_db.execute("SELECT graphrag.protect(%s, %s)", [corpus, "source_key <> 'e'"])
    try:
        with readers(module_db, 1) as (role,), session_of(module_db, role) as reader:
            for filter_, expected in KEPT:
                assert (
                    set(keys(search(reader, "Ada Lovelace", corpus, "bm25", filter=filter_))) == set(expected) & part
                ), filter_
    finally:
        module_db.execute("SELECT graphrag.unprotect(%s)", [corpus])


def test_ids_are_those_of_documents(module_db: Database, corpus: str) -> None:
    ids = [row["document_id"] for row in search(module_db, "Ada Lovelace", corpus, "bm25", top_k=2)]
    (other,) = rows(
        module_db, "SELECT id FROM graphrag.documents WHERE corpus <> %s AND source_key = 'a' LIMIT 1", corpus
    )
    results = search(module_db, "Ada Lovelace", corpus, "bm25", filter={"$ids": [*ids, *other, 2**63 - 1]})
    assert {row["document_id"] for row in results} == set(ids)


def test_dates_do_not_depend_on_the_settings_of_the_session(module_db: Database, corpus: str) -> None:
    with session_of(module_db, "postgres") as session:
        session.execute("SET TimeZone = 'Asia/Tokyo'; SET DateStyle = 'SQL, DMY'")
        results = search(session, "Ada Lovelace", corpus, "bm25", filter={"day": {"$lte": "2020-01-01"}})
        assert set(keys(results)) == {"b", "c"}


def test_neighbors_are_those_that_the_kept_documents_state(module_db: Database, corpus: str) -> None:
    sql = "SELECT name FROM graphrag.neighbors('Ada Lovelace', filter => %s, corpus => %s)"
    assert ("Oslo",) not in rows(module_db, sql, Jsonb({"$source_key": "a"}), corpus)
    assert ("Vienna",) in rows(module_db, sql, Jsonb({"$source_key": "a"}), corpus)
    whole = rows(module_db, "SELECT name FROM graphrag.neighbors('Ada Lovelace', %s)", corpus)
    assert rows(module_db, sql, None, corpus) == whole


@pytest.fixture(scope="module")
def many(module_db: Database) -> Iterator[str]:
    """2,000 documents and no text of them: what plans are made for."""
    name = searched_corpus(module_db)
    module_db.execute(
        "INSERT INTO graphrag.documents (corpus, source_key, content, metadata)"
        " SELECT %s, 'k' || n, repeat('x', 1500), jsonb_build_object('n', n, 'lang', 'l' || n %% 500)"
        " FROM generate_series(1, 2000) n",
        [name],
    )
    module_db.execute("ANALYZE graphrag.documents")
    yield name


@pytest.mark.parametrize(
    ("filter_", "index"),
    [
        ({"lang": {"$in": ["l1", "l2"]}}, "documents_metadata_idx"),
        ({"$and": [{"lang": {"$eq": "l1"}}, {"n": {"$gt": 5}}]}, "documents_metadata_idx"),
        ({"$or": [{"lang": {"$eq": "l1"}}, {"n": 7}]}, "documents_metadata_idx"),
        ({"$source_key": {"$in": ["k1", "k2"]}}, "documents_corpus_source_key_key"),
        ({"$ids": [1, 2]}, "documents_"),
        ({"$relation": "app.one_column"}, "documents_corpus_source_key_key"),
    ],
)
def test_an_index_serves_a_filter(
    module_db: Database, corpus: str, many: str, filter_: dict[str, Any], index: str
) -> None:
    module_db.execute("ANALYZE app.one_column")
    module_db.execute(
        b"""CREATE OR REPLACE FUNCTION public.plan_of(filter text, corpus text) RETURNS SETOF text LANGUAGE plpython3u AS $$
from pg_graphrag.server.access import caller, filters, relations
from pg_graphrag.server import database
db = database(plpy)
condition = filters.compile_filter(filter, corpus, lambda name: relations.keys_of(db, name))
number = plpy.execute(plpy.prepare("SELECT id FROM graphrag.corpora WHERE name = $1", ["text"]), [corpus])[0]["id"]
sql = caller._MATCHING.format(condition=condition.sql, joins=condition.joins)
plan = plpy.prepare("EXPLAIN " + sql, ["int4", *condition.types])
return [row["QUERY PLAN"] for row in plan.execute([number, *condition.values])]
$$"""
    )
    plan = rows(module_db, "SELECT * FROM public.plan_of((%s::jsonb)::text, %s)", Jsonb(filter_), many)
    assert any(index in line for (line,) in plan), plan


# Of one relation.
SPELLINGS = [f"{schema}.{'one_column'[:n].upper()}{'one_column'[n:]}" for schema in ("app", "APP") for n in range(10)]
BAD: list[tuple[Any, str, str]] = [
    ([1], "22023", "must be a JSON object"),
    (["$in"], "22023", "must be a JSON object"),
    ({"year": {"$gt": True}}, "22023", "year.$gt cannot be true"),
    ({"year": {"$gt": [1]}}, "22023", r"year.$gt cannot be [1]"),
    ({"year": {"$bigger": 1}}, "22023", '"$bigger" at year.$bigger'),
    ({"year": {"$or": [{}]}}, "22023", '"$or" at year.$or'),
    ({"$gte": 1}, "22023", '"$gte" at $gte'),
    ({"$or": []}, "22023", "$or cannot be []"),
    ({"$or": [1]}, "22023", "$or[0] cannot be 1"),
    ({"$not": None}, "22023", "$not cannot be null"),
    ({"year": {"$not": 1}}, "22023", "year.$not cannot be 1"),
    ({"year": {"$gte": 1, "from": 2}}, "22023", '"from" beside operators'),
    ({"tags": [{"$gte": 1}]}, "22023", "within a list, at tags[0]"),
    ({"tags": {"$in": "x"}}, "22023", 'tags.$in cannot be "x"'),
    ({"tags": {"$in": [["x"]]}}, "22023", 'tags.$in cannot be ["x"]'),
    ({"tags": {"$prefix": 1}}, "22023", "tags.$prefix cannot be 1"),
    ({"tags": {"$exists": 1}}, "22023", "tags.$exists cannot be 1"),
    ({"day": {"$gt": "2023-02-29"}}, "22023", 'day.$gt cannot be "2023-02-29"'),
    ({"$contains": [1]}, "22023", "$contains cannot be [1]"),
    ({"$ids": ["1"]}, "22023", '$ids cannot be "1"'),
    ({"$ids": [2**63]}, "22023", "$ids cannot be 9223372036854775808"),
    ({"$ids": [1.5]}, "22023", "$ids cannot be 1.5"),
    ({"$source_key": 1}, "22023", "$source_key cannot be 1"),
    ({"$source_key": {"$gt": "a"}}, "22023", '"$gt" at $source_key.$gt'),
    ({"$source_key": {"$in": [1]}}, "22023", "$source_key.$in cannot be 1"),
    ({"$relation": 7}, "22023", "$relation cannot be 7"),
    ({"$relation": "one_column"}, "22023", "$relation cannot be one_column"),
    ({"$relation": "db.app.one_column"}, "22023", "cannot be db.app.one_column"),
    ({"$relation": "app.one_column; DROP TABLE app.closed"}, "22023", "cannot be app.one_column; DROP"),
    ({"$relation": "app.nothing"}, "42P01", "app.nothing does not exist"),
    ({"$relation": "app.keyless"}, "42703", "app.keyless has no column source_key"),
    ({"$relation": "app.of_domain"}, "42804", "of type app.doc"),
    ({"$relation": "app.numbers"}, "42809", "app.numbers is no table or view"),
    ({"$or": [{"a": {"$eq": n}} for n in range(1001)]}, "54000", "more than 1,000 conditions"),
    ({"$ids": list(range(10_001))}, "54000", "a list of 10,001 values, more than 10,000, at $ids"),
    (
        {"$or": [{"a": {"$nin": list(range(60))}}, {"$not": {"$source_key": {"$in": ["k"] * 60}}}] * 84},
        "54000",
        "more than 10,000 values that are compared one by one",
    ),
    ({"a": ["x"] * 10_000}, "54000", "more than 10,000 values that are compared one by one"),
    (
        {"$not": {"$contains": {"a": [{"b": n} for n in range(5_000)]}}},
        "54000",
        "more than 10,000 values that are compared one by one, at $not.$contains",
    ),
    (
        {"$or": [{f"a{n}": {"$in": list(range(9_999))}} for n in range(11)]},
        "54000",
        "more than 100,000 values in lists of more than 64, at $or[10].a10.$in",
    ),
    ({"a": "x" * 2**23}, "54000", "has 8,388,617 characters, more than 8,388,608"),
    (
        {"$or": [{"$not": {"$relation": name}} for name in SPELLINGS]},
        "54000",
        "more than 16 relations and $row, at $or",
    ),
    (
        {"$and": [{"$row": {f"of {n}": {"a": 1}}} for n in range(17)]},
        "54000",
        "more than 16 relations and $row, at $and[16]",
    ),
    (
        json.loads('{"$not": {"$row": {"of": ' * 5 + '{"a": 1}' + "}}}" * 5),
        "54001",
        "more than 4 $row within each other",
    ),
    (json.loads('{"$not":' * 33 + '{"a": 1}' + "}" * 33), "54001", "deeper than 32"),
    ({"a": {"$eq": 1}, "b": json.loads('{"a":' * 40 + "1" + "}" * 40)}, "54001", "deeper than 32"),
]


@pytest.mark.parametrize(("filter_", "sqlstate", "message"), BAD, ids=[message for *_, message in BAD])
def test_a_bad_filter_is_refused(module_db: Database, corpus: str, filter_: Any, sqlstate: str, message: str) -> None:
    error = refused(module_db, "SELECT * FROM graphrag.search('Ada', %s, 'bm25', filter => %s)", corpus, Jsonb(filter_))
    assert error.sqlstate == sqlstate
    assert message in (error.message_primary or "")
    assert error.message_hint


def test_a_relation_is_read_once_however_it_is_spelled(module_db: Database, corpus: str) -> None:
    module_db.execute(
        "CREATE SEQUENCE app.reads; CREATE VIEW app.counted AS SELECT 'a' AS source_key WHERE nextval('app.reads') > 0"
    )
    counts = []
    for names in (["app.counted"], ["app.counted", '"app".counted', 'APP."counted"', "App.Counted"] * 240):
        module_db.execute("ALTER SEQUENCE app.reads RESTART")
        filter_ = {"$or": [{"$relation": name} for name in names]}
        assert keys(search(module_db, "Ada Lovelace", corpus, "bm25", filter=filter_)) == ["a"]
        counts += rows(module_db, "SELECT last_value FROM app.reads")
    assert counts[0] == counts[1]


@pytest.mark.slow
def test_rows_of_rows_are_found_whatever_statistics_say(module_db: Database) -> None:
    name = searched_corpus(module_db)
    # They know other corpora.
    module_db.execute("ANALYZE graphrag.documents; ALTER TABLE graphrag.documents SET (autovacuum_enabled = false)")
    for n in range(200):
        put(module_db, name, f"d{n}", f"Note {n}.", metadata={"next": f"d{(n + 1) % 200}", "x": 1})
    work(module_db)
    try:
        module_db.execute("SET statement_timeout = '5 s'")
        for last, found in (({"x": 1}, 200), ({"next": "d7"}, 1), ({"x": 2}, 0)):
            filter_: dict[str, Any] = last
            for _ in range(4):
                filter_ = {"$row": {"next": filter_}}
            assert len(search(module_db, "note", name, "bm25", filter=Jsonb(filter_), top_k=300)) == found
    finally:
        module_db.execute("RESET statement_timeout; ALTER TABLE graphrag.documents RESET (autovacuum_enabled)")


def test_a_number_of_too_many_digits_is_refused(module_db: Database, corpus: str) -> None:
    sql = """SELECT * FROM graphrag.search('Ada', %s, filter => '{"a": {"$eq": 1e5000}}')"""
    assert refused(module_db, sql, corpus).sqlstate == "22003"


def test_who_may_not_read_a_relation_is_told_the_grant(module_db: Database, corpus: str) -> None:
    with readers(module_db, 1) as (role,), session_of(module_db, role) as reader:
        error = refused(
            reader, "SELECT * FROM graphrag.search('Ada', %s, filter => %s)", corpus, Jsonb({"$relation": "app.closed"})
        )
    assert error.sqlstate == "42501"
    assert f"GRANT SELECT ON app.closed TO {role}" in (error.message_hint or "")


def test_a_relation_is_read_under_the_row_level_security_of_the_caller(module_db: Database, corpus: str) -> None:
    module_db.execute(
        "CREATE TABLE app.mine (reader name, doc text); GRANT SELECT ON app.mine TO PUBLIC;"
        "CREATE VIEW app.mine_docs WITH (security_invoker = true) AS SELECT doc AS source_key FROM app.mine;"
        "GRANT SELECT ON app.mine_docs TO PUBLIC; ALTER TABLE app.mine ENABLE ROW LEVEL SECURITY;"
        "CREATE POLICY own ON app.mine USING (reader = current_user)"
    )
    with readers(module_db, 2) as names:
        for name, key in zip(names, "ab", strict=True):
            module_db.execute("INSERT INTO app.mine VALUES (%s, %s)", [name, key])
        for name, key in zip(names, "ab", strict=True):
            with session_of(module_db, name) as reader:
                assert _keys_of(reader, corpus, "app.mine_docs") == {key}
    assert _keys_of(module_db, corpus, "app.mine_docs") == {"a", "b"}


def test_a_temporary_relation_serves(module_db: Database, corpus: str) -> None:
    # Of who logs in himself: a session that took on a role reads no relation of that role.
    with readers(module_db, 1) as (role,):
        module_db.execute(f"ALTER ROLE {role} LOGIN PASSWORD 'x'".encode())
        with psycopg.connect(make_conninfo(module_db.url, user=role, password="x"), autocommit=True) as reader:
            reader.execute("CREATE TEMP TABLE picked AS SELECT 'f'::text AS source_key")
            assert _keys_of(reader, corpus, "pg_temp.picked") == {"f"}


def _keys_of(db: Connection, corpus: str, relation: str) -> set[str]:
    return set(keys(search(db, "Ada Lovelace", corpus, "bm25", filter={"$relation": relation})))
