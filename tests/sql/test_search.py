"""graphrag.search and its wrappers: every mode answers, says why, and refuses what it cannot do."""

from collections.abc import Iterator
from typing import Any

import psycopg
import pytest
from psycopg.types.json import Jsonb

from tests.runtime.cluster import Database
from tests.sql.ingest import (
    STORIES,
    corpus_id,
    delete,
    index_all,
    keys,
    put,
    put_all,
    refused,
    rows,
    search,
    searched_corpus,
    value,
    work,
)

MODES = ("naive", "bm25", "local", "global", "hybrid", "mix", "path", "ppr")
QUESTION = "Which notes did Ada Lovelace write on the Analytical Engine?"
# In what a mode's explain names, one of these says which retriever found the row.
RETRIEVERS = {
    "naive": {"windows"},
    "bm25": {"bm25"},
    "local": {"local"},
    "global": {"global"},
    "hybrid": {"bm25", "windows", "pagerank"},
    "mix": {"local", "global", "windows"},
    "path": {"path", "bm25"},
    "ppr": {"pagerank"},
}


@pytest.fixture(scope="module")
def corpus(module_db: Database) -> str:
    name = searched_corpus(module_db)
    for key, content in STORIES.items():
        put(module_db, name, key, content, title=f"Story {len(key)}", metadata={"length": len(content)})
    work(module_db)
    return name


@pytest.fixture(scope="module")
def empty(module_db: Database) -> str:
    return searched_corpus(module_db)


@pytest.mark.sample(3)
@pytest.mark.parametrize("mode", MODES)
def test_the_document_that_answers_comes_first_and_explain_says_through_what(
    module_db: Database, corpus: str, mode: str
) -> None:
    results = search(module_db, QUESTION, corpus, mode)
    assert results[0]["source_key"] == "ada"
    assert [row["rank"] for row in results] == list(range(1, len(results) + 1))
    assert [row["score"] for row in results] == sorted((row["score"] for row in results), reverse=True)
    for row in results:
        assert row["content"] == STORIES[row["source_key"]]
        assert row["title"] == f"Story {len(row['source_key'])}"
        explained = row["explain"]
        assert explained["mode"] == mode
        assert RETRIEVERS[mode] & set(explained), explained
        for retriever in RETRIEVERS[mode] & set(explained):
            assert explained[retriever]["rank"] >= 1
            assert isinstance(explained[retriever]["score"], float)


def test_local_and_global_name_the_entity_or_relationship_they_came_through(module_db: Database, corpus: str) -> None:
    (first, *_) = search(module_db, QUESTION, corpus, "local")
    reached = first["explain"]["local"]["entity"]
    name = value(module_db, "SELECT name FROM graphrag.entities WHERE id = %s", reached["id"])
    assert name in ("Ada Lovelace", "Analytical Engine") or "named" not in reached["because"]
    assert reached["because"]
    (first, *_) = search(module_db, QUESTION, corpus, "global")
    through = first["explain"]["global"]["relationship"]
    assert value(module_db, "SELECT count(*) FROM graphrag.relationships WHERE id = %s", through["id"]) == 1
    assert through["because"]


@pytest.mark.parametrize("mode", MODES)
def test_the_wrapper_of_a_mode_gives_what_search_gives(module_db: Database, corpus: str, mode: str) -> None:
    if mode in ("mix", "path", "ppr"):
        return  # has no wrapper
    whole = rows(module_db, "SELECT s FROM graphrag.search(%s, %s, %s, 3) AS s", QUESTION, corpus, mode)
    assert rows(module_db, f"SELECT s FROM graphrag.{mode}_search(%s, %s, 3) AS s", QUESTION, corpus) == whole
    assert whole


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("top_k", [0, 1, 3, 10_000])
def test_at_most_top_k_rows_and_each_chunk_once(module_db: Database, corpus: str, mode: str, top_k: int) -> None:
    results = search(module_db, QUESTION, corpus, mode, top_k=top_k)
    assert len(results) == len({row["chunk_id"] for row in results}) <= min(top_k, len(STORIES))
    if mode in ("naive", "hybrid"):
        assert len(results) == min(top_k, len(STORIES))
    whole = search(module_db, QUESTION, corpus, mode, top_k=10)
    assert keys(results) == keys(whole)[:top_k]


@pytest.mark.parametrize("top_k", [-1, 10_001, None])
def test_a_bad_top_k_is_an_error_with_a_hint(module_db: Database, corpus: str, top_k: int | None) -> None:
    diag = refused(module_db, "SELECT graphrag.search('x', %s, top_k => %s)", corpus, top_k)
    assert diag.sqlstate == "22023"
    assert "10,000" in str(diag.message_hint)


@pytest.mark.parametrize(
    ("arguments", "sqlstate", "named"),
    [
        ("'x', 'nowhere'", "42704", "nowhere"),
        ("'x', NULL", "22004", "null"),
        ("'x', CORPUS, 'sideways'", "22023", "sideways"),
        ("'x', CORPUS, NULL", "22023", ""),
        ("""'x', CORPUS, options => '{"rrf_q": 1}'""", "22023", "rrf_q"),
        ("""'x', CORPUS, 'naive', options => '{"rrf_k": 1}'""", "22023", "rrf_k"),
        ("""'x', CORPUS, 'mix', options => '{"rrf_k": 0}'""", "22023", "rrf_k"),
        ("""'x', CORPUS, 'path', options => '{"rrf_k": true}'""", "22023", "rrf_k"),
        ("""'x', CORPUS, options => '{"max_total_tokens": 5}'""", "22023", "max_total_tokens"),
        ("""'x', CORPUS, options => '{"damping": 1}'""", "22023", "damping"),
        ("""'x', CORPUS, options => '{"profile": ["best"]}'""", "22023", "profile"),
        ("""'x', CORPUS, options => '[1]'""", "22023", "[1]"),
        ("""'x', CORPUS, filter => '[1]'""", "22023", "[1]"),
        ("""'x', CORPUS, filter => 'null'""", "22023", "null"),
    ],
)
def test_a_bad_argument_is_an_error_that_names_it_and_hints(
    module_db: Database, corpus: str, arguments: str, sqlstate: str, named: str
) -> None:
    diag = refused(module_db, f"SELECT graphrag.search({arguments})".replace("CORPUS", f"'{corpus}'"))
    assert diag.sqlstate == sqlstate
    assert named in str(diag.message_primary)
    assert diag.message_hint


HARD_QUERIES = {
    "emoji": "🤖 👩‍💻 🇯🇵",
    "right to left": "מי כתב על המנוע? من كتب؟",
    "quotes": "it's \"quoted\" ''twice'' \\ back\\slash E'\\n'",
    "dollars and braces": '$$ $1 $tag$ {} {"a": 1} {{}} %s %d {0}',
    "sql": "'; DROP TABLE graphrag.documents; --",
    "cypher": "MATCH (n) DETACH DELETE n RETURN {x: 1}",
    "tsquery": "a & b | !c <-> (d):*",
    "control characters": "a\x01\x02\t\r\n\x7fb",
    "mixed scripts": "Ada 日本語 עברית Привет 한국어 ไทย",
    "one long word": "x" * 8_000,
}


@pytest.mark.sample(27)
@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("query", HARD_QUERIES.values(), ids=HARD_QUERIES)
def test_no_query_text_is_an_error(module_db: Database, corpus: str, mode: str, query: str) -> None:
    for text in (query, f"{query} Ada Lovelace"):
        results = search(module_db, text, corpus, mode)
        assert set(keys(results)) <= set(STORIES)
    if mode in ("bm25", "hybrid") and query != HARD_QUERIES["one long word"]:
        assert results


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("query", ["", "  \n\t", "\u3000", None], ids=["empty", "space", "wide space", "null"])
def test_a_query_of_nothing_finds_nothing(module_db: Database, corpus: str, mode: str, query: str | None) -> None:
    assert search(module_db, query, corpus, mode) == []


@pytest.mark.sample(3)
@pytest.mark.parametrize("mode", MODES)
def test_a_query_as_long_as_may_be_is_answered(module_db: Database, corpus: str, mode: str) -> None:
    text = " ".join(f"word{n}" for n in range(1_200))[:8_178] + " Enigma rotors"
    assert len(text) == 8_192
    results = search(module_db, text, corpus, mode)
    if mode == "bm25":
        assert keys(results)[0] == "enigma"


@pytest.mark.parametrize("mode", MODES)
def test_a_corpus_without_documents_or_with_only_empty_ones_finds_nothing(
    module_db: Database, empty: str, mode: str
) -> None:
    assert search(module_db, QUESTION, empty, mode) == []
    blank = index_all(module_db, searched_corpus(module_db), {"a": "", "b": " \n "})
    assert search(module_db, QUESTION, blank, mode) == []


@pytest.mark.parametrize("mode", ["local", "global", "mix"])
def test_keywords_of_the_caller_replace_the_querys_own(module_db: Database, corpus: str, mode: str) -> None:
    results = search(
        module_db, "Who was at Harvard?", corpus, mode,
        low_level_keywords=["ENIGMA"], high_level_keywords=["breaking a cipher machine with rotors"],
    )  # fmt: skip
    explained = " ".join(str(row["explain"]) for row in results)
    assert "Harvard" not in explained
    if mode != "global":
        assert "named: Enigma" in explained
    if mode != "local":
        assert "stated near: breaking a cipher" in explained


def test_empty_keywords_are_no_keywords(module_db: Database, corpus: str) -> None:
    assert search(module_db, QUESTION, corpus, "local", low_level_keywords=["", "  "]) == []


def test_equal_scores_are_ordered_by_source_key_then_ordinal(module_db: Database) -> None:
    name = searched_corpus(module_db, chunk_token_size=50, chunk_overlap=0)
    text = "The same words stand here again. " * 30
    for key in ("b", "C", "é", "a", "A"):
        index_all(module_db, name, {key: text})
    in_place = {"near_duplicates": "in_place"}
    results = search(module_db, "same words", name, "bm25", top_k=1000, options=in_place)
    ordinals = dict(
        rows(module_db, "SELECT id, ordinal FROM graphrag.chunks WHERE corpus_id = %s", corpus_id(module_db, name))
    )
    order = [(-row["score"], row["source_key"].encode(), ordinals[row["chunk_id"]]) for row in results]
    assert order == sorted(order)
    assert len({score for score, _, _ in order}) < len(order)
    for top_k in (1, 3, 7):
        fewer = search(module_db, "same words", name, "bm25", top_k=top_k, options=in_place)
        assert [r["chunk_id"] for r in fewer] == [r["chunk_id"] for r in results[:top_k]]


@pytest.mark.sample(3)
@pytest.mark.parametrize("mode", MODES)
def test_search_works_in_a_read_only_transaction_and_changes_nothing(
    module_db: Database, corpus: str, mode: str
) -> None:
    wanted = search(module_db, QUESTION, corpus, mode)
    with psycopg.connect(module_db.url) as connection:
        connection.read_only = True
        assert search(connection, QUESTION, corpus, mode) == wanted
        assert rows(connection, "SELECT name FROM graphrag.search_entities('Ada Lovelace', %s)", corpus)
        assert value(connection, "SELECT graphrag.context('Ada Lovelace', %s)", corpus)["chunks"]
        assert value(connection, "SELECT graphrag.embed('x', %s) IS NOT NULL", corpus)
        connection.rollback()


def test_search_is_declared_stable(module_db: Database) -> None:
    declared = (
        "SELECT DISTINCT provolatile FROM pg_proc"
        " WHERE proname ~ '(search|context)' AND pronamespace = 'graphrag'::regnamespace"
    )
    assert rows(module_db, declared) == [("s",)]


TROJAN = """
CREATE SCHEMA trojan;
GRANT USAGE ON SCHEMA trojan TO PUBLIC;
CREATE FUNCTION trojan.boom() RETURNS void LANGUAGE plpgsql AS $$ BEGIN RAISE 'hijacked'; END $$;
CREATE FUNCTION trojan.equal(text, text) RETURNS boolean LANGUAGE sql AS 'SELECT trojan.boom(); SELECT true';
CREATE OPERATOR trojan.= (FUNCTION = trojan.equal, LEFTARG = text, RIGHTARG = text);
CREATE FUNCTION trojan.equal(bigint, bigint) RETURNS boolean LANGUAGE sql AS 'SELECT trojan.boom(); SELECT true';
CREATE OPERATOR trojan.= (FUNCTION = trojan.equal, LEFTARG = bigint, RIGHTARG = bigint);
CREATE FUNCTION trojan.unnest(anyarray) RETURNS SETOF anyelement LANGUAGE sql AS 'SELECT trojan.boom(); SELECT $1[1]';
CREATE FUNCTION trojan.count(anyelement) RETURNS bigint LANGUAGE sql AS 'SELECT trojan.boom(); SELECT 1::bigint';
CREATE FUNCTION trojan.contains(jsonb, jsonb) RETURNS boolean LANGUAGE sql AS 'SELECT trojan.boom(); SELECT true';
CREATE OPERATOR trojan.@> (FUNCTION = trojan.contains, LEFTARG = jsonb, RIGHTARG = jsonb);
CREATE FUNCTION trojan.search(text) RETURNS int LANGUAGE sql AS 'SELECT trojan.boom(); SELECT 1';
"""


@pytest.fixture
def reader(module_db: Database) -> Iterator[psycopg.Connection[Any]]:
    """A session with the rights of graphrag_reader alone."""
    with psycopg.connect(module_db.url, autocommit=True) as connection:
        connection.execute("SET ROLE graphrag_reader")
        yield connection


@pytest.mark.parametrize("path", ["''", "pg_catalog", "trojan, pg_catalog, public"])
def test_a_reader_with_any_search_path_gets_what_the_owner_gets(
    module_db: Database, corpus: str, reader: psycopg.Connection[Any], path: str
) -> None:
    if value(module_db, "SELECT to_regnamespace('trojan') IS NULL"):
        module_db.execute(TROJAN)
    reader.execute(f"SET search_path = {path}".encode())
    for mode in MODES:
        wanted = search(module_db, QUESTION, corpus, mode)
        assert search(reader, QUESTION, corpus, mode) == wanted, mode
        wanted = search(module_db, QUESTION, corpus, mode, filter={"length": len(STORIES["ada"])})
        assert search(reader, QUESTION, corpus, mode, filter={"length": len(STORIES["ada"])}) == wanted, mode
    for call in (
        "SELECT s FROM graphrag.search_entities('Ada Lovelace', %s) s",
        "SELECT s FROM graphrag.search_relationships('notes on the engine', %s) s",
        "SELECT graphrag.context('Ada Lovelace', %s)::text",
        "SELECT graphrag.embed('Ada Lovelace', %s)::text".replace("::text", "::pg_catalog.text"),
        "SELECT s FROM graphrag.neighbors('Ada Lovelace', %s) s",
    ):
        assert rows(reader, call, corpus) == rows(module_db, call, corpus), call


def test_a_reader_may_not_write_or_read_the_queue(corpus: str, reader: psycopg.Connection[Any]) -> None:
    for statement in (
        "INSERT INTO graphrag.documents (content) VALUES ('x')",
        "DELETE FROM graphrag.chunks",
        "SELECT * FROM graphrag.jobs",
        "SELECT graphrag.create_corpus('mine')",
        f"SELECT graphrag.drop_corpus('{corpus}')",
        "CALL graphrag.process_jobs()",
    ):
        assert refused(reader, statement).sqlstate == "42501", statement


def test_search_entities_finds_the_named_first_and_only_top_k(module_db: Database, corpus: str) -> None:
    sql = "SELECT rank, name, type, degree, score, explain FROM graphrag.search_entities(%s, %s, %s)"
    records = rows(module_db, sql, "Who was Ada Lovelace?", corpus, 3)
    assert len(records) == 3
    rank, name, type_, degree, score, explain = records[0]
    assert (rank, name, type_, score) == (1, "Ada Lovelace", "PERSON", 1.0)
    assert degree > 0
    assert "Ada Lovelace" in explain["because"]
    assert rows(module_db, sql, "Ada", corpus, 0) == rows(module_db, sql, "", corpus, 5) == []
    named = "SELECT name FROM graphrag.search_entities('', %s, 1, low_level_keywords => %s)"
    assert rows(module_db, named, corpus, ["charles BABBAGE"]) == [("Charles Babbage",)]


def test_search_relationships_finds_what_the_query_is_about(module_db: Database, corpus: str) -> None:
    sql = "SELECT rank, source, target, description, weight, explain FROM graphrag.search_relationships(%s, %s, %s)"
    records = rows(module_db, sql, "Who broke the Enigma with the Bombe?", corpus, 5)
    assert [row[0] for row in records] == [1, 2, 3, 4, 5]
    assert any({"Enigma", "Bombe"} & set(row[1:3]) for row in records[:3])
    assert all(row[3] and row[4] > 0 and row[5]["because"] for row in records)
    assert rows(module_db, sql, "", corpus, 5) == []


def test_names_are_entities_whole_wherever_they_stand(module_db: Database, corpus: str) -> None:
    sql = "SELECT e.name FROM graphrag.entities e JOIN graphrag.corpora c ON c.id = e.corpus_id WHERE c.name = %s"
    names = {name for (name,) in rows(module_db, sql, corpus)}
    assert {"Grace Hopper", "Bletchley Park", "Alan Turing"} - names == set()
    assert {"Hopper", "Park"} & names == set()


def test_bm25_of_an_updated_and_packed_corpus_is_that_of_a_fresh_one(module_db: Database) -> None:
    name = index_all(module_db, searched_corpus(module_db), STORIES | {"x": "old text of London"})
    module_db.execute("SELECT graphrag.optimize(%s)", [name])
    index_all(module_db, name, {"x": "new text of Vienna and London"})
    delete(module_db, name, "hopper")
    work(module_db)
    fresh = searched_corpus(module_db)
    put_all(
        module_db, fresh, {k: v for k, v in STORIES.items() if k != "hopper"} | {"x": "new text of Vienna and London"}
    )
    work(module_db)
    for query in ("London", "Ada Lovelace London text", "Harvard"):
        got, wanted = (
            [(row["source_key"], row["score"]) for row in search(module_db, query, item, "bm25")]
            for item in (name, fresh)
        )
        assert got == wanted


def test_options_reach_the_retriever(module_db: Database, corpus: str) -> None:
    lucene = search(module_db, "Ada", corpus, "bm25")
    robertson = search(module_db, "Ada", corpus, "bm25", options=Jsonb({"bm25_idf": "robertson"}))
    assert [row["score"] for row in lucene] != [row["score"] for row in robertson]
    paper = search(module_db, QUESTION, corpus, "hybrid", options=Jsonb({"profile": "paper"}))
    assert {"local", "global"} & set(paper[0]["explain"])
    assert "pagerank" not in paper[0]["explain"]
