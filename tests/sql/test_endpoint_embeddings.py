"""Embeddings from an endpoint: batched, checked, accounted; at query time one request; faults say what and why, and heal."""

import json
from collections.abc import Callable
from typing import Any

import numpy as np
import psycopg
import pytest
from psycopg.types.json import Jsonb

from tests.endpoint import Endpoint
from tests.endpoint.embedder import embed_one
from tests.runtime.cluster import Cluster, Database
from tests.sql.embedded import DIMENSIONS, QUESTION, SAID, assert_embedded, embedded, vectors
from tests.sql.ingest import (
    STORIES,
    corpus_id,
    index_all,
    keys,
    long_text,
    put_all,
    refused,
    rows,
    search,
    statuses,
    value,
    wait_for,
    work,
    worker,
)
from tests.sql.llm import provider

REPLY = json.dumps(SAID)
pytestmark = pytest.mark.usefixtures("closed_breakers")


def test_windows_names_and_mentions_are_embedded_in_batches(module_db: Database, endpoint: Endpoint) -> None:
    name = provider(module_db, endpoint)
    corpus = embedded(module_db, name, extractor="llm", llm={"provider": name, "model": "m"}, max_gleaning=0)
    put_all(module_db, corpus, STORIES | {"long": long_text(200)})
    work(module_db)
    assert set(statuses(module_db, corpus).values()) == {"indexed"}
    assert_embedded(module_db, corpus)
    stated = rows(
        module_db,
        "SELECT v.embedding::real[] FROM graphrag.relationship_mention_vectors v JOIN graphrag.relationship_mentions m"
        " ON m.id = v.mention_id WHERE m.corpus_id = %s",
        corpus_id(module_db, corpus),
    )
    text = "analysis, notes\tThe Engine\tAda Lovelace\tAda Lovelace wrote about the engine."
    assert stated
    assert np.array(stated[0][0]) == pytest.approx(embed_one(text, DIMENSIONS), abs=1e-6)
    asked = [request.body for request in endpoint.requests if request.kind == "embeddings"]
    texts = [text for body in asked for text in body["input"]]
    assert len(texts) == len(set(texts)), "nothing is embedded twice"
    assert all(len(body["input"]) <= 32 and sum(map(len, body["input"])) <= 32_000 for body in asked)
    assert len(asked) < len(texts) / 10
    assert {body["dimensions"] for body in asked} == {DIMENSIONS}
    noted = rows(
        module_db,
        "SELECT count(*), sum(tokens_in) > 0 FROM graphrag.llm_calls"
        " WHERE corpus_id = %s AND purpose = 'embedding' AND error IS NULL",
        corpus_id(module_db, corpus),
    )
    assert noted == [(len(asked), True)]


def test_reindexing_unchanged_names_embeds_only_what_is_new(module_db: Database, endpoint: Endpoint) -> None:
    corpus = index_all(module_db, embedded(module_db, provider(module_db, endpoint)), STORIES)
    endpoint.forget()
    index_all(module_db, corpus, {"ada": STORIES["ada"] + " London was grey."})
    (asked,) = [request.body["input"] for request in endpoint.requests]
    assert asked == [STORIES["ada"] + " London was grey."]
    assert_embedded(module_db, corpus)


def test_an_entity_that_goes_and_comes_back_while_a_worker_embeds_has_its_vector(
    module_db: Database, endpoint: Endpoint
) -> None:
    corpus = index_all(module_db, embedded(module_db, provider(module_db, endpoint)), {"enigma": STORIES["enigma"]})
    put_all(module_db, corpus, {"turing": STORIES["turing"]})
    endpoint.pause()
    late = worker(module_db.url)
    wait_for(lambda: endpoint.in_flight, "the worker to embed")
    # Its names are known at this moment; another worker takes them away.
    module_db.execute("DELETE FROM graphrag.documents WHERE corpus = %s AND source_key = 'enigma'", [corpus])
    work(module_db)
    endpoint.resume()
    assert late.finish() is None
    assert statuses(module_db, corpus) == {"turing": "indexed"}
    assert_embedded(module_db, corpus)


def test_a_model_that_cannot_shorten_is_asked_without_dimensions(module_db: Database) -> None:
    with Endpoint(dimensions=DIMENSIONS) as server:
        server.misbehave(
            "bad_request",
            None,
            when=lambda request: request.kind == "embeddings" and "dimensions" in request.body,
            message="This model does not support specifying dimensions.",
        )
        corpus = index_all(module_db, embedded(module_db, provider(module_db, server)), STORIES)
        assert_embedded(module_db, corpus)
        assert sum("dimensions" in request.body for request in server.requests) == 1


def test_a_server_that_takes_fewer_texts_at_once_is_given_fewer(module_db: Database, endpoint: Endpoint) -> None:
    endpoint.misbehave(
        "bad_request",
        None,
        when=lambda request: request.kind == "embeddings" and len(request.body["input"]) > 4,
        message="batch size 32 > maximum allowed batch size 4",
    )
    corpus = index_all(module_db, embedded(module_db, provider(module_db, endpoint)), STORIES)
    assert_embedded(module_db, corpus)
    endpoint.forget()
    index_all(module_db, corpus, {"long": long_text(100)})
    assert_embedded(module_db, corpus)
    sizes = [len(request.body["input"]) for request in endpoint.requests if request.kind == "embeddings"]
    assert sizes, "the second time texts were embedded too"
    assert max(sizes) <= 4, "what was refused is remembered"


@pytest.mark.slow
def test_a_server_that_answers_quickly_is_given_more_texts_at_once(module_db: Database, endpoint: Endpoint) -> None:
    # Many short chunks: reading names takes longest.
    corpus = embedded(module_db, provider(module_db, endpoint), chunk_token_size=50, chunk_overlap=0)
    largest = []
    for turn in range(2):
        endpoint.forget()
        put_all(
            module_db, corpus, {f"{turn}": "\n".join(f"Line {turn}, {n}: nothing of note. " * 4 for n in range(90))}
        )
        work(module_db)
        largest.append(max(len(request.body["input"]) for request in endpoint.requests if request.kind == "embeddings"))
    assert_embedded(module_db, corpus)
    assert largest == [32, 64]


def test_of_a_text_too_long_for_the_model_the_beginning_is_embedded(module_db: Database, endpoint: Endpoint) -> None:
    endpoint.misbehave(
        "context_too_long",
        None,
        when=lambda request: request.kind == "embeddings" and any(len(text) > 300 for text in request.body["input"]),
    )
    corpus = index_all(module_db, embedded(module_db, provider(module_db, endpoint)), {"long": long_text(20)})
    assert statuses(module_db, corpus) == {"long": "indexed"}
    assert all(vector is not None for vector in vectors(module_db, corpus).values())


# misbehaviour: (how often a document is tried before it is a dead letter, what failed_jobs says)
DEAD = {
    "wrong_dimension": (1, "gave a vector of 32 dimensions, not 64"),
    "nan": (3, "a vector with NaN, infinity or only zeros"),
    "fewer_vectors": (3, "gave 0 vectors for 1 texts"),
    "model_not_found": (1, 'no such model ("hash")'),
    "unauthorized": (1, "it does not accept the key"),
}


@pytest.mark.sample(2)
@pytest.mark.parametrize("kind", DEAD)
def test_vectors_that_cannot_be_used_make_a_dead_letter_and_heal(
    module_db: Database, endpoint: Endpoint, kind: str
) -> None:
    attempts, words = DEAD[kind]
    corpus = embedded(module_db, provider(module_db, endpoint))
    put_all(module_db, corpus, STORIES)
    endpoint.misbehave(kind, None, dimensions=32)
    for _ in range(attempts):
        assert "failed" not in statuses(module_db, corpus).values()
        work(module_db)
        module_db.execute("UPDATE graphrag.jobs SET next_attempt_at = now()")
    assert set(statuses(module_db, corpus).values()) == {"failed"}
    failures = rows(module_db, "SELECT source_key, last_error FROM graphrag.failed_jobs WHERE corpus = %s", corpus)
    assert {key for key, _ in failures} == set(STORIES)
    assert all(words in error for _, error in failures)
    number = corpus_id(module_db, corpus)
    assert value(module_db, "SELECT count(*) FROM graphrag.entities WHERE corpus_id = %s", number) == 0
    # The texts are searchable without vectors.
    assert keys(search(module_db, "who wrote the first compiler?", corpus, "bm25"))[0] == "hopper"
    assert rows(module_db, "SELECT * FROM graphrag.check(%s)", corpus) == []
    endpoint.behave()
    module_db.execute("SELECT graphrag.retry_failed(%s)", [corpus])
    work(module_db)
    assert set(statuses(module_db, corpus).values()) == {"indexed"}
    assert_embedded(module_db, corpus)


@pytest.mark.parametrize("kind", ["server_error", "timeout", "rate_limited", "hang_mid_body", "reset", "html"])
def test_a_fault_that_may_pass_keeps_documents_waiting_and_heals(
    module_db: Database, endpoint: Endpoint, kind: str
) -> None:
    corpus = embedded(module_db, provider(module_db, endpoint, timeout=0.5))
    put_all(module_db, corpus, STORIES)
    endpoint.misbehave(kind, None)
    work(module_db)
    assert set(statuses(module_db, corpus).values()) == {"pending"}
    assert rows(
        module_db,
        "SELECT DISTINCT state, attempts, errors, last_error ~ '^(ProviderFault|TimedOut): .*provider ' FROM graphrag.jobs"
        " WHERE corpus_id = %s",
        corpus_id(module_db, corpus),
    ) == [("pending", 0, 0, True)]
    assert keys(search(module_db, "who wrote the first compiler?", corpus, "bm25"))[0] == "hopper"
    assert rows(module_db, "SELECT * FROM graphrag.check(%s)", corpus) == []
    endpoint.behave()
    module_db.execute("SELECT graphrag.retry_failed(%s)", [corpus])
    work(module_db)
    assert set(statuses(module_db, corpus).values()) == {"indexed"}
    assert_embedded(module_db, corpus)


def test_a_budget_that_is_spent_keeps_documents_waiting(module_db: Database, endpoint: Endpoint) -> None:
    name = provider(module_db, endpoint, price_input=1_000_000)
    corpus = index_all(module_db, embedded(module_db, name, llm={"monthly_budget": 1}), {"ada": STORIES["ada"]})
    put_all(module_db, corpus, {"turing": STORIES["turing"]})
    endpoint.forget()
    work(module_db)
    assert statuses(module_db, corpus) == {"ada": "indexed", "turing": "pending"}
    assert endpoint.count("embeddings") == 0
    assert "BudgetReached" in value(module_db, "SELECT waiting_for FROM graphrag.progress WHERE corpus = %s", corpus)
    diag = refused(module_db, "SELECT * FROM graphrag.search('x', %s, 'naive')", corpus)
    assert diag.sqlstate == "53400"


# Queries: counted at the endpoint.


@pytest.fixture
def filled(module_db: Database, endpoint: Endpoint) -> str:
    corpus = index_all(module_db, embedded(module_db, provider(module_db, endpoint)), STORIES)
    endpoint.forget()
    return corpus


_QUERIES = {
    "naive": "SELECT count(*) FROM graphrag.search(%(q)s, %(c)s, 'naive')",
    "local": "SELECT count(*) FROM graphrag.search(%(q)s, %(c)s, 'local')",
    "global": "SELECT count(*) FROM graphrag.search(%(q)s, %(c)s, 'global')",
    "hybrid": "SELECT count(*) FROM graphrag.search(%(q)s, %(c)s, 'hybrid')",
    "mix": "SELECT count(*) FROM graphrag.search(%(q)s, %(c)s, 'mix')",
    "paper": "SELECT count(*) FROM graphrag.search(%(q)s, %(c)s, 'hybrid', options => '{\"profile\": \"paper\"}')",
    "keywords": "SELECT count(*) FROM graphrag.search(%(q)s, %(c)s, 'mix', low_level_keywords => '{notes,rotors,grey}',"
    " high_level_keywords => '{machines,people}')",
    "context": "SELECT jsonb_array_length(graphrag.context(%(q)s, %(c)s, 'mix') -> 'chunks')",
    "context hybrid": "SELECT jsonb_array_length(graphrag.context(%(q)s, %(c)s, 'hybrid') -> 'chunks')",
    "entities": "SELECT count(*) FROM graphrag.search_entities(%(q)s, %(c)s, low_level_keywords => '{Bletchley,rotors}')",
    "relationships": "SELECT count(*) FROM graphrag.search_relationships(%(q)s, %(c)s, high_level_keywords => '{fame}')",
}


@pytest.mark.sample(3)
@pytest.mark.parametrize("what", _QUERIES)
def test_a_query_is_one_embedding_request_and_none_the_second_time(
    module_db: Database, endpoint: Endpoint, filled: str, what: str
) -> None:
    given = {"q": f"{QUESTION} As of {what}", "c": filled}
    with psycopg.connect(module_db.url, autocommit=True) as session:
        session.execute("SET default_transaction_read_only = on")
        ((records,),) = session.execute(_QUERIES[what].encode(), given).fetchall()
        assert records > 0
        assert endpoint.count("embeddings") == 1
        assert session.execute(_QUERIES[what].encode(), given).fetchall() == [(records,)]
        assert endpoint.count("embeddings") == 1


def test_a_question_is_one_keyword_call_one_embedding_and_one_answer(module_db: Database, endpoint: Endpoint) -> None:
    keywords = {"low_level_keywords": ["notes"], "high_level_keywords": ["fame"], "entities": [], "answer_types": []}
    endpoint.reply(
        lambda messages: json.dumps(keywords) if "low_level" in str(messages[0]) else "Grace Hopper did [1]."
    )
    name = provider(module_db, endpoint, price_input=1)
    corpus = index_all(module_db, embedded(module_db, name, llm={"provider": name, "model": "m"}), STORIES)
    indexing = endpoint.count("embeddings")
    endpoint.forget()
    ((usage,),) = rows(module_db, "SELECT usage FROM graphrag.ask(%s, %s, 'mix')", QUESTION, corpus)
    assert (endpoint.count("chat"), endpoint.count("embeddings")) == (2, 1)
    assert usage["calls"] == 3
    noted = "SELECT purpose, count(*) FROM graphrag.llm_calls WHERE corpus_id = %s GROUP BY 1 ORDER BY 1"
    calls = {"answer": 1, "embedding": indexing + 1, "keywords": 1}
    assert dict(rows(module_db, noted, corpus_id(module_db, corpus))) == calls


def test_the_nearest_window_is_the_one_with_the_words(module_db: Database, filled: str) -> None:
    assert keys(search(module_db, "compiler at Harvard", filled, "naive"))[0] == "hopper"
    ((own,),) = rows(module_db, "SELECT graphrag.embed('compiler at Harvard', %s)::real[]", filled)
    assert np.array(own) == pytest.approx(embed_one("compiler at Harvard", DIMENSIONS), abs=1e-6)


def test_questions_in_any_language_are_dense(module_db: Database, filled: str) -> None:
    results = search(module_db, "エニグマを解読したのは誰ですか", filled)
    assert all("dense" not in row["explain"] for row in results)


def test_readers_search_without_a_right_on_the_provider(module_db: Database, endpoint: Endpoint, filled: str) -> None:
    with psycopg.connect(module_db.url, autocommit=True) as session:
        session.execute("SET ROLE graphrag_reader")
        assert keys(search(session, "compiler at Harvard", filled, "naive"))[0] == "hopper"
        assert refused(session, "SELECT * FROM graphrag.providers").sqlstate == "42501"
        endpoint.misbehave("model_not_found", None)
        diag = refused(session, "SELECT * FROM graphrag.search('something new', %s, 'naive')", filled)
        assert diag.sqlstate == "08006"
        assert diag.message_primary == 'graphrag: the model of the role "embedding" cannot be reached'
        # The endpoint's own words are the owner's.
        assert "hash" not in f"{diag.message_detail} {diag.message_hint}"


def test_others_than_readers_may_not_embed(module_db: Database, filled: str) -> None:
    module_db.execute("CREATE ROLE stranger; GRANT USAGE ON SCHEMA graphrag TO stranger")
    with psycopg.connect(module_db.url, autocommit=True) as session:
        session.execute("SET ROLE stranger")
        diag = refused(session, "SELECT graphrag.embed('x', %s)", filled)
        assert diag.sqlstate == "42501"
    module_db.execute("DROP OWNED BY stranger; DROP ROLE stranger")


@pytest.mark.sample(2)
@pytest.mark.parametrize("kind", ["server_error", "wrong_dimension", "nan", "fewer_vectors", "timeout", "reset"])
def test_a_fault_while_searching_is_an_error_and_bm25_goes_on(
    module_db: Database, endpoint: Endpoint, kind: str
) -> None:
    corpus = index_all(module_db, embedded(module_db, provider(module_db, endpoint, timeout=0.3)), STORIES)
    endpoint.misbehave(kind, None, dimensions=32)
    with psycopg.connect(module_db.url, autocommit=True) as session:
        for mode in ("naive", "hybrid", "local", "mix") if kind == "nan" else ("naive",):
            diag = refused(session, f"SELECT * FROM graphrag.search('fame of Ada Lovelace', %s, '{mode}')", corpus)
            assert diag.sqlstate in ("08006", "22000"), mode
            assert str(diag.message_primary).startswith("graphrag: "), mode
            assert "provider" in str(diag.message_primary), mode
        assert keys(search(session, "compiler", corpus, "bm25")) == ["hopper"]
        endpoint.behave()
        assert keys(search(session, "compiler at Harvard", corpus, "naive"))[0] == "hopper"


@pytest.mark.slow
def test_a_standby_embeds_its_queries(cluster: Callable[..., Cluster], endpoint: Endpoint) -> None:
    primary = cluster()
    url = primary.create_database("app")
    with psycopg.connect(url, autocommit=True) as source:
        source.execute("CREATE EXTENSION pg_graphrag CASCADE")
        source.execute("SELECT graphrag.set_provider('hashes', 'openai', %s)", [endpoint.url])
        given = {"provider": "hashes", "model": "hash", "dimensions": DIMENSIONS}
        source.execute("SELECT graphrag.create_corpus('far', %s)", [Jsonb({"embedding": given})])
        index_all(source, "far", STORIES)
        standby = cluster(primary=primary)
        with psycopg.connect(standby.url("app"), autocommit=True) as replica:
            assert search(replica, QUESTION, "far") == search(source, QUESTION, "far")
            assert keys(search(replica, "compiler at Harvard", "far", "naive"))[0] == "hopper"


@pytest.mark.parametrize(
    ("embedding", "named"),
    [
        ({"provider": "p"}, "model"),
        ({"provider": "p", "model": "m"}, "dimensions"),
        ({"provider": "p", "model": "m", "dimensions": 2001}, "2001"),
        ({"provider": "p", "model": "m", "dimensions": "64"}, "64"),
    ],
)
def test_an_endpoint_needs_a_model_and_dimensions(module_db: Database, embedding: Any, named: str) -> None:
    diag = refused(module_db, "SELECT graphrag.create_corpus('never', %s)", Jsonb({"embedding": embedding}))
    assert diag.sqlstate == "22023"
    assert named in str(diag.message_primary)
    assert diag.message_hint
