"""Everything an endpoint can do wrong, against the real server: whose fault it is, what is said, and that it heals."""

from collections.abc import Callable
from typing import Any

import pytest

from tests.endpoint import Endpoint
from tests.runtime.cluster import Database
from tests.sql.ingest import rows, searched_corpus, value
from tests.sql.llm import ask, faults, messages, modelled, provider, work

REPLY = '{"answer": 42}'


# misbehaviour: (class of fault, permanent, what the message says)
CHAT = {
    "timeout": ("TimedOut", False, "did not answer within 0.5 s"),
    "hang_mid_body": ("TimedOut", False, "sent nothing for 0.5 s"),
    "reset": ("ProviderFault", False, "the connection to provider"),
    "reset_mid_body": ("ProviderFault", False, "the connection to provider"),
    "unauthorized": ("ProviderFault", True, "answered 401: it does not accept the key"),
    "forbidden": ("ItemFault", None, "answered 403: it does not accept the key, or not what was sent"),
    "model_not_found": ("ProviderFault", True, 'answered 404: no such model ("model-1") or path'),
    "rate_limited": ("ProviderFault", False, "answered 429: Rate limit reached"),
    "server_error": ("ProviderFault", False, "answered 500"),
    "unavailable": ("ProviderFault", False, "answered 503"),
    "html": ("ProviderFault", False, "did not answer with JSON but with '<!DOCTYPE html>"),
    "html_502": ("ProviderFault", False, "answered 502"),
    "truncated_json": ("ProviderFault", False, "something other than a chat completion"),
    "not_an_object": ("ProviderFault", False, "something other than a chat completion"),
    "not_a_completion": ("ProviderFault", False, "something other than a chat completion"),
    "bad_request": ("ItemFault", None, "refused the request (400)"),
    "context_too_long": ("ContextTooLong", None, 'the prompt is too long for model "model-1"'),
    "huge": ("ItemFault", None, "has no end"),
    "context_exceeded": ("ContextTooLong", None, 'the prompt is too long for model "model-1"'),
    "loading": ("ProviderFault", False, "answered 503: Loading model"),
    "empty": ("Silence", None, "an empty answer (finish_reason stop)"),
    "null_content": ("Silence", None, "an empty answer (finish_reason content_filter)"),
    "cut_off": ("ItemFault", None, "the answer is cut off"),
    "truncated_answer": ("ItemFault", None, "the answer is not JSON"),
    "repeated": ("Repetition", None, "repeats itself"),
    "prose": ("ItemFault", None, "the answer is not JSON"),
}
EMBED = {
    "wrong_dimension": ("ProviderFault", True, "gave a vector of 100 dimensions, not 384"),
    "nan": ("ItemFault", None, "a vector with NaN, infinity or only zeros"),
    "fewer_vectors": ("ItemFault", None, "gave 1 vectors for 2 texts"),
    "hang_mid_body": ("TimedOut", False, "did not finish within 0.5 s"),
    "truncated_json": ("ProviderFault", False, "did not answer with JSON"),
    "model_not_found": ("ProviderFault", True, 'no such model ("hash")'),
}


@pytest.mark.sample(9)
@pytest.mark.parametrize("kind", CHAT)
def test_a_fault_of_a_chat_hits_the_one_it_is_about_and_heals(models: Database, endpoint: Endpoint, kind: str) -> None:
    # A busy machine takes a second to read the huge one.
    corpus = modelled(models, provider(models, endpoint, timeout=5 if kind == "huge" else 0.5))
    # A kept connection that breaks is replaced first.
    broken = 2 if kind == "reset" else 1
    endpoint.misbehave(kind, broken, when=lambda request: "bad" in request.text)
    # The good one is answered first: a permanent fault may end what is not sent yet.
    assert faults(work(models, corpus, ["good"])) == [None]
    result = work(models, corpus, ["good", "bad"])
    name, permanent, words = CHAT[kind]
    assert faults(result) == [None, name]
    assert result["outcomes"][1]["permanent"] is permanent
    assert words in messages(result)
    models.execute("SELECT graphrag.retry_failed()")
    assert faults(work(models, corpus, ["good", "bad"])) == [None, None]
    # A probe says whether it is the key.
    assert endpoint.count() == 2 + broken + (kind == "forbidden")
    errors = rows(
        models,
        "SELECT l.error FROM graphrag.llm_calls l JOIN graphrag.corpora c ON c.id = l.corpus_id AND c.name = %s"
        " ORDER BY l.id",
        corpus,
    )
    assert [error is None for (error,) in errors] == [True, False, *[True] * (2 if kind == "forbidden" else 1)]


@pytest.mark.parametrize("kind", EMBED)
def test_a_fault_of_embeddings_is_seen_before_a_vector_is_used(models: Database, endpoint: Endpoint, kind: str) -> None:
    corpus = modelled(models, provider(models, endpoint, timeout=0.5))
    endpoint.misbehave(kind)
    result = work(models, corpus, ["some words"], embed=384)
    name, permanent, words = EMBED[kind]
    assert faults(result) == [name]
    assert result["outcomes"][0]["permanent"] is permanent
    assert words in messages(result)
    models.execute("SELECT graphrag.retry_failed()")
    assert work(models, corpus, ["some words"], embed=384)["outcomes"] == [{"ok": [2, 384]}]


def test_a_permanent_fault_spares_the_rest_for_a_minute(models: Database, endpoint: Endpoint) -> None:
    corpus = modelled(models, provider(models, endpoint, concurrency=1))
    endpoint.misbehave("unauthorized")
    assert faults(work(models, corpus, ["a", "b", "c"])) == ["ProviderFault"] * 3
    assert endpoint.count() == 1
    wait = value(models, "SELECT extract(epoch FROM open_until - now()) FROM graphrag.provider_state")
    assert 50 < wait <= 60
    models.execute("SELECT graphrag.retry_failed()")


def is_open(db: Database) -> bool:
    return rows(db, "SELECT FROM graphrag.provider_state WHERE open_until > now()") == []


@pytest.mark.parametrize("run", [work, ask], ids=["worker", "someone who waits"])
@pytest.mark.parametrize("status", [403, 406, 451])
def test_a_text_that_a_firewall_forbids_closes_no_provider(
    models: Database, endpoint: Endpoint, status: int, run: Callable[..., Any]
) -> None:
    corpus = modelled(models, provider(models, endpoint, concurrency=1))
    endpoint.misbehave("server_error", None, when=lambda r: "bad" in r.text, status=status, message="rule 942100")
    assert faults(run(models, corpus, ["bad 1", "a", "bad 2", "b"])) == ["ItemFault", None, "ItemFault", None]
    assert is_open(models)
    assert faults(run(models, corpus, ["c"])) == [None]


def test_a_text_over_which_a_model_fails_again_and_again_closes_no_provider(
    models: Database, endpoint: Endpoint
) -> None:
    corpus = modelled(models, provider(models, endpoint, concurrency=1))
    endpoint.misbehave("server_error", None, when=lambda r: "bad" in r.text)
    for number in range(12):
        assert faults(work(models, corpus, [f"bad {number}"])) == ["ProviderFault"]
        assert is_open(models)
    assert endpoint.count() == 12 + 2, "a probe, each time that it would have been closed"


@pytest.mark.parametrize("kind", ["forbidden", "server_error"])
def test_what_an_endpoint_says_to_all_closes_it(models: Database, endpoint: Endpoint, kind: str) -> None:
    corpus = modelled(models, provider(models, endpoint, concurrency=1))
    endpoint.misbehave(kind, None)
    result = work(models, corpus, [str(number) for number in range(9)])
    assert faults(result) == ["ProviderFault"] * 9
    assert not is_open(models)
    assert endpoint.count() == (2 if kind == "forbidden" else 6)
    models.execute("SELECT graphrag.retry_failed()")


def test_texts_to_score_that_a_firewall_forbids_close_no_provider(models: Database, endpoint: Endpoint) -> None:
    name = provider(models, endpoint, kind="rerank", concurrency=1)
    corpus = searched_corpus(models, rerank={"provider": name, "model": "ranker"})
    endpoint.misbehave("forbidden", None, when=lambda r: "bad" in str(r.body))
    assert faults(work(models, corpus, ["bad", "good"], rerank="green engine")) == ["ItemFault", None]
    assert is_open(models)


def test_a_refused_connection_is_the_providers_fault(models: Database) -> None:
    with Endpoint() as gone:
        corpus = modelled(models, provider(models, gone))
    result = work(models, corpus, ["a"])
    assert faults(result) == ["ProviderFault"]
    assert "the connection to provider" in messages(result)
    models.execute("SELECT graphrag.retry_failed()")


def test_text_that_the_database_cannot_hold_is_cleaned(models: Database, endpoint: Endpoint) -> None:
    corpus = modelled(models, provider(models, endpoint))
    endpoint.reply("nul \0 and half a pair \ud83d")
    result = work(models, corpus, ["a"], prose=True)
    assert result["outcomes"] == [{"ok": "nul  and half a pair "}]


def test_a_schema_that_llama_cpp_makes_no_grammar_of_is_left_out(models: Database, endpoint: Endpoint) -> None:
    corpus = modelled(models, provider(models, endpoint))
    endpoint.misbehave("no_grammar", times=None)
    schema = {"name": "answer", "schema": {"type": "object"}}
    assert faults(work(models, corpus, ["a", "b"], schema=schema)) == [None, None]
    assert "response_format" not in endpoint.requests[-1].body


def test_a_redirect_is_not_followed(models: Database, endpoint: Endpoint) -> None:
    corpus = modelled(models, provider(models, endpoint))
    with Endpoint() as elsewhere:
        endpoint.misbehave("redirect", to=elsewhere.url + "/chat/completions")
        result = work(models, corpus, ["a"])
        assert faults(result) == ["ProviderFault"]
        assert "answered 307: a redirect, which is not followed" in messages(result)
        assert elsewhere.count() == 0
    models.execute("SELECT graphrag.retry_failed()")


@pytest.mark.parametrize("shape", ["cohere", "tei"])
def test_texts_are_scored_in_their_order(models: Database, endpoint: Endpoint, shape: str) -> None:
    name = provider(models, endpoint, kind="rerank", shape=shape)
    corpus = searched_corpus(models, rerank={"provider": name, "model": "ranker"})
    (outcome,) = work(models, corpus, ["the green engine"], rerank="green engine")["outcomes"]
    first, second = outcome["ok"]
    assert first > 0.5 > second
    assert endpoint.count("rerank") == 1


def test_vectors_that_come_in_another_order_are_put_right(models: Database, endpoint: Endpoint) -> None:
    corpus = modelled(models, provider(models, endpoint))
    endpoint.misbehave("shuffled")
    assert work(models, corpus, ["some words"], embed=384)["outcomes"] == [{"ok": [2, 384]}]


def test_what_someone_waits_for_heals_by_itself_when_it_can(models: Database, endpoint: Endpoint) -> None:
    corpus = modelled(models, provider(models, endpoint, timeout=0.5))
    endpoint.misbehave("unavailable")
    endpoint.misbehave("rate_limited", retry_after=1)
    assert faults(ask(models, corpus, ["a"])) == [None]
    assert endpoint.count() == 3
    endpoint.misbehave("unauthorized")
    assert faults(ask(models, corpus, ["b"])) == ["ProviderFault"]
    assert endpoint.count() == 4
