"""Entities are found by the words of their names, whatever the embedder knows; what finds nothing says why."""

import json
from typing import Any

import psycopg
import pytest

from tests.runtime.cluster import Database
from tests.security.readers import readers
from tests.sql.ingest import index_all, put, rows, search, searched_corpus, value, work

PAGES = {
    "cost": "新しい仕組みの導入により、運用コスト削減率は三割に達した。",
    "port": "神戸港は兵庫県にある国際貿易港である。",
    "method": "LazyGraphRAG は索引を作らずに質問に答える手法である。",
    "search": "BM25 検索は語の頻度で文書を並べる方式である。",
    "fee": "新系统上线之后,运营费用减少了三成。",
}
ASKED = {
    "コストはどのくらい削減されるか？": "cost",
    "神户": "port",
    "Lazy GraphRAG": "method",
    "BM25検索とは？": "search",
    "费用减少了多少？": "fee",
}


@pytest.fixture(scope="module", params=["all-MiniLM-L6-v2", "multilingual-e5-small"])
def corpus(request: pytest.FixtureRequest, module_db: Database) -> str:
    name = searched_corpus(module_db, embedding={"model": request.param})
    for key, text in PAGES.items():
        put(module_db, name, key, text, metadata={"open": key != "port"})
    work(module_db)
    return name


@pytest.mark.sample(7)
@pytest.mark.parametrize("mode", ["local", "graph_local"])
@pytest.mark.parametrize("question", ASKED)
def test_a_question_finds_entities_by_words_of_their_names(
    module_db: Database, corpus: str, question: str, mode: str
) -> None:
    assert search(module_db, question, corpus, mode)[0]["source_key"] == ASKED[question]


def test_a_name_written_otherwise_is_the_name(module_db: Database, corpus: str) -> None:
    sql = "SELECT name, score FROM graphrag.search_entities(%s, %s, 1)"
    assert rows(module_db, sql, "Lazy GraphRAG", corpus) == [("LazyGraphRAG", 1.0)]
    assert rows(module_db, sql, "lazygraphrag", corpus) == [("LazyGraphRAG", 1.0)]


def test_words_of_names_in_hidden_documents_are_not_known(module_db: Database, corpus: str) -> None:
    sql = "SELECT name, score, explain FROM graphrag.search_entities(%s, %s, 10, %s)"
    with_filter = rows(module_db, sql, "神户", corpus, '{"open": true}')
    assert not any("神戸" in name for name, *_ in with_filter)
    with readers(module_db, 1) as (role,):
        module_db.execute("SELECT graphrag.protect(%s, %s)", [corpus, """metadata @> '{"open": true}'"""])
        try:
            with psycopg.connect(module_db.url, autocommit=True) as reader:
                reader.execute(f"SET ROLE {role}".encode())
                assert rows(reader, sql, "神户", corpus, None) == with_filter
                fees = rows(reader, sql, "费用减少了多少？", corpus, None)
            assert fees == rows(module_db, sql, "费用减少了多少？", corpus, '{"open": true}')
        finally:
            module_db.execute("SELECT graphrag.unprotect(%s)", [corpus])


def test_relationships_are_ranked_by_the_sentences_that_state_them(module_db: Database) -> None:
    name = searched_corpus(module_db, embedding={"model": "all-MiniLM-L6-v2"})
    text = (
        "東京タワーは内藤多仲が設計した電波塔である。金閣寺は足利義満が京都に建てた寺院である。"
        "富士山は静岡県と山梨県にまたがる活火山である。"
    )
    index_all(module_db, name, {"all": text})
    sql = "SELECT description, score FROM graphrag.search_relationships(%s, %s, 20)"
    records = rows(module_db, sql, "足利義満が建てた寺院", name)
    assert "足利義満" in records[0][0]
    assert records[0][1] > records[-1][1]
    assert {"足利義満" in text for text, score in records if score == records[0][1]} == {True}


def test_sentences_of_one_window_differ_with_vectors_too(module_db: Database) -> None:
    name = searched_corpus(module_db, language="en")
    text = "Alan Turing met Joan Clarke in Cambridge. Grace Hopper wrote a fast compiler at Harvard."
    index_all(module_db, name, {"all": text})
    sql = "SELECT description, score FROM graphrag.search_relationships(%s, %s, 20)"
    records = rows(module_db, sql, "Who wrote the compiler?", name)
    assert "compiler" in records[0][0] and records[0][1] > records[-1][1] and "Cambridge" in records[-1][0]


def answer(db: Database, question: str, corpus: str, mode: str) -> tuple[Any, list[Any]]:
    """Return a context, and the warnings that came with it."""
    with psycopg.connect(db.url, autocommit=True) as connection:
        warnings: list[Any] = []
        connection.add_notice_handler(
            lambda diagnostic: warnings.append((diagnostic.message_primary, diagnostic.message_hint))
        )
        context = value(connection, "SELECT graphrag.context(%s, %s, %s)", question, corpus, mode)
        connection.execute("SELECT graphrag.search(%s, %s, %s)", [question, corpus, mode])
    return context, warnings


def test_what_finds_nothing_says_why(module_db: Database, corpus: str) -> None:
    model = value(module_db, "SELECT embedding FROM graphrag.progress WHERE corpus = %s", corpus)
    context, warnings = answer(module_db, "تكلفة", corpus, "local")
    if model == "multilingual-e5-small":
        assert context["chunks"] or context["explain"]["empty"].endswith("by words or by vectors")
        return
    assert context["chunks"] == []
    assert context["explain"]["empty"].endswith("as the embedder was not made for ar")
    expected = f'mode "local" found nothing: {context["explain"]["empty"]}'
    assert [message for message, _ in warnings] == [expected] * 2
    assert "multilingual-e5-small" in warnings[0][1]
    context, warnings = answer(module_db, "LazyGraphRAG", corpus, "local")
    assert "explain" not in context
    assert warnings == []


def test_an_empty_corpus_says_that_it_is(module_db: Database) -> None:
    context, _ = answer(module_db, "Ada Lovelace", searched_corpus(module_db), "local")
    assert context["explain"] == {"empty": "there is no indexed text to search"}


def test_names_that_the_embedder_does_not_know_are_no_suggested_merge(module_db: Database) -> None:
    name = searched_corpus(module_db, embedding={"model": "all-MiniLM-L6-v2"})
    graph = {"entities": [{"name": entity, "type": "thing"} for entity in ("弱み", "強み", "解決策", "初期化")]}
    module_db.execute("SELECT graphrag.insert_graph(%s, %s)", [name, json.dumps(graph)])
    assert rows(module_db, "SELECT * FROM graphrag.suggest_merges(%s)", name) == []
