"""The option `rerank`: every mode's rows re-scored by a cross-encoder; without one, or when it fails, a clear error."""

from collections.abc import Iterator
from typing import Any

import pytest
from psycopg.types.json import Jsonb

from tests.endpoint import Endpoint
from tests.endpoint.embedder import embed_one
from tests.runtime.cluster import Database
from tests.sql.asking import as_reader
from tests.sql.ingest import STORIES, index_all, refused, rows, search, searched_corpus, value
from tests.sql.llm import provider

MODES = ("naive", "bm25", "local", "global", "hybrid", "mix", "path", "ppr")

QUESTION = "Who read the notes of Ada Lovelace?"


@pytest.fixture
def endpoint() -> Iterator[Endpoint]:
    with Endpoint() as server:
        yield server


@pytest.fixture(scope="module")
def corpus(module_db: Database) -> str:
    return index_all(module_db, searched_corpus(module_db), STORIES)


def served(db: Database, corpus: str, endpoint: Endpoint, **options: Any) -> None:
    """Give the corpus the endpoint as its cross-encoder."""
    rerank = {"provider": provider(db, endpoint, kind="rerank", timeout=1, **options), "model": "ranker"}
    db.execute("SELECT graphrag.alter_corpus(%s, %s)", [corpus, Jsonb({"rerank": rerank})])


def unserved(db: Database, corpus: str) -> None:
    db.execute("SELECT graphrag.alter_corpus(%s, %s)", [corpus, Jsonb({"rerank": None})])


@pytest.mark.parametrize("shape", ["cohere", "tei"])
def test_every_mode_has_its_rows_in_the_cross_encoders_order(
    module_db: Database, corpus: str, endpoint: Endpoint, shape: str
) -> None:
    served(module_db, corpus, endpoint, shape=shape)
    for number, mode in enumerate(MODES, 1):
        before = search(module_db, QUESTION, corpus, mode, top_k=10)
        results = search(module_db, QUESTION, corpus, mode, top_k=10, options={"rerank": True})
        assert {row["chunk_id"] for row in results} == {row["chunk_id"] for row in before}
        assert [row["score"] for row in results] == sorted((row["score"] for row in results), reverse=True)
        places = {row["chunk_id"]: row["rank"] for row in before}
        for row in results:
            explained = row["explain"]["rerank"]
            assert (explained["score"], explained["rank_before"]) == (row["score"], places[row["chunk_id"]])
        assert results[0]["source_key"] == "turing"
        assert endpoint.count("rerank") == number
    (asked, *_) = endpoint.requests
    assert asked.body["query"] == QUESTION
    assert set(asked.body["texts" if shape == "tei" else "documents"]) <= set(STORIES.values())


def test_rows_that_are_not_returned_are_re_scored_too(module_db: Database, corpus: str, endpoint: Endpoint) -> None:
    served(module_db, corpus, endpoint)
    queries = (
        "Harvard notes of Ada",
        "Alan Turing wrote rotors",
        "London Engine admired",
        "machine of Enigma in London",
    )
    for query in queries:
        first = search(module_db, query, corpus, "bm25", top_k=1)[0]["source_key"]
        scores = {name: float(embed_one(query) @ embed_one(text)) for name, text in STORIES.items()}
        wanted = max(scores, key=scores.__getitem__)
        (results,) = search(module_db, query, corpus, "bm25", top_k=1, options={"rerank": True})
        assert results["source_key"] == wanted
        if wanted != first:
            break
    assert results["explain"]["rerank"]["rank_before"] > 1
    assert value(
        module_db,
        "SELECT graphrag.context(%s, %s, 'bm25', options => %s)->'chunks'->0->'explain'->'rerank' IS NOT NULL",
        QUESTION, corpus, Jsonb({"rerank": True}),
    )  # fmt: skip


def test_a_reader_reranks_and_sees_nothing_of_the_provider(
    module_db: Database, corpus: str, endpoint: Endpoint
) -> None:
    served(module_db, corpus, endpoint)
    wanted = search(module_db, QUESTION, corpus, options={"rerank": True})
    with as_reader(module_db):
        assert search(module_db, QUESTION, corpus, options={"rerank": True}) == wanted
        endpoint.misbehave("unauthorized", times=1)
        diag = refused(module_db, f"SELECT graphrag.search('x', '{corpus}', options => '{{\"rerank\": true}}')")
        assert (diag.sqlstate, diag.message_detail) == ("08006", None)
        assert "provider" not in str(diag.message_primary)


def test_without_a_cross_encoder_rerank_is_an_error_that_says_how_to_set_one(module_db: Database, corpus: str) -> None:
    unserved(module_db, corpus)
    for mode, option in [*((mode, '"rerank": true') for mode in MODES), ("path", '"fuse": "rerank"')]:
        diag = refused(module_db, f"SELECT graphrag.search('x', '{corpus}', '{mode}', options => '{{{option}}}')")
        assert diag.sqlstate == "55000"
        assert "set_provider" in str(diag.message_hint)


def test_a_provider_of_another_kind_is_refused_when_it_is_named(
    module_db: Database, corpus: str, endpoint: Endpoint
) -> None:
    chat, ranker = provider(module_db, endpoint), provider(module_db, endpoint, kind="rerank")
    for options, words in (
        ({"rerank": {"provider": chat, "model": "m"}}, "is of kind openai, not rerank"),
        ({"llm": {"provider": ranker, "model": "m"}}, "is of kind rerank, not openai"),
    ):
        diag = refused(module_db, "SELECT graphrag.alter_corpus(%s, %s)", corpus, Jsonb(options))
        assert diag.sqlstate == "22023"
        assert words in str(diag.message_primary)
        assert "set_provider" in str(diag.message_hint)


@pytest.mark.parametrize("kind", ["server_error", "truncated_json", "not_an_object"])
def test_a_cross_encoder_that_fails_is_an_error_never_another_order(
    module_db: Database, corpus: str, endpoint: Endpoint, kind: str
) -> None:
    served(module_db, corpus, endpoint)
    endpoint.misbehave(kind, None)
    diag = refused(module_db, f"SELECT graphrag.search('x', '{corpus}', options => '{{\"rerank\": true}}')")
    assert diag.sqlstate == "08006"


def test_more_rows_than_one_request_holds_are_an_error_that_names_their_number(
    module_db: Database, corpus: str, endpoint: Endpoint
) -> None:
    served(module_db, corpus, endpoint)
    diag = refused(
        module_db, f"SELECT graphrag.search('x', '{corpus}', 'bm25', 201, options => '{{\"rerank\": true}}')"
    )
    assert diag.sqlstate == "22023"
    assert "201" in str(diag.message_primary)
    assert not endpoint.requests


def test_what_reranking_cost_is_in_the_accounts_of_the_next_question(
    module_db: Database, corpus: str, endpoint: Endpoint
) -> None:
    served(module_db, corpus, endpoint)
    search(module_db, QUESTION, corpus, options={"rerank": True})
    module_db.execute(
        "SELECT graphrag.alter_corpus(%s, %s)",
        [corpus, Jsonb({"llm": {"provider": provider(module_db, endpoint), "model": "m"}})],
    )
    endpoint.reply(
        '{"low_level_keywords": ["Ada"], "high_level_keywords": ["notes"], "entities": [], "answer_types": []}'
    )
    module_db.execute("SELECT graphrag.understand(%s, %s)", [QUESTION, corpus])
    noted = rows(
        module_db,
        "SELECT count(*) FROM graphrag.llm_calls l JOIN graphrag.corpora c ON c.id = l.corpus_id"
        " WHERE c.name = %s AND l.purpose = 'rerank' AND l.error IS NULL",
        corpus,
    )
    assert noted[0][0] >= 1
