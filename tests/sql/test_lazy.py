"""LazyGraphRAG: relevance tests within a budget, over communities with and without reports, with and without a model."""

from __future__ import annotations

import itertools
import json

import psycopg
import pytest

from tests.endpoint import Endpoint
from tests.endpoint.server import Messages
from tests.runtime.cluster import Database
from tests.sql.asking import ask
from tests.sql.ingest import STORIES, keys, new_corpus, put_all, search, value, work
from tests.sql.llm import provider
from tests.sql.themes import SEA, asked, counted, points, task
from tests.sql.themes import context as made_context

QUESTION = "Who harpooned the Kraken, and who broke Enigma?"
QUERIES = ["Who harpooned the Kraken?", "Who broke Enigma?"]


def reply(messages: Messages) -> str:
    last = str(messages[-1]["content"])
    if task(messages) == "refine":
        return json.dumps({"queries": QUERIES, "expanded": "Who did what to which machine or monster?"})
    if task(messages) == "relevant":
        text, _, question = last.partition("Question: ")
        return json.dumps({"relevant": ("Kraken" if "Kraken" in question else "Enigma") in text})
    return points(("Ned Land did [1].", 90)) if task(messages) == "map" else "Ned Land [1]."


REPLY = reply


def test_without_a_call_the_near_chunks_are_relevant_and_name_their_test(
    module_db: Database, themed: str, module_endpoint: Endpoint
) -> None:
    module_endpoint.forget()
    results = search(module_db, "Who harpooned the Kraken?", themed, "lazy")
    assert results[0]["source_key"] == "land"
    why = results[0]["explain"]
    assert why["lazy"]["test"] >= 1 and why["lazy"]["community"]
    assert why["relevance_tests"]["by"] == "nearness"
    assert len(results) == why["relevance_tests"]["relevant"] < len(STORIES | SEA)
    assert module_endpoint.requests == []


@pytest.mark.parametrize("budget", [1, 2, 4])
def test_no_more_tests_than_the_budget(module_db: Database, themed: str, budget: int) -> None:
    options = {"relevance_test_budget": budget, "k": 1}
    results = search(module_db, "Kraken Enigma", themed, "lazy", options=options)
    assert results[0]["explain"]["relevance_tests"]["spent"] <= budget
    assert len(results) <= budget


def test_it_works_without_communities_too(module_db: Database) -> None:
    name = new_corpus(module_db)
    put_all(module_db, name, STORIES | SEA)
    work(module_db)
    assert value(module_db, "SELECT count(*) FROM graphrag.community_overview WHERE corpus = %s", name) == 0
    assert keys(search(module_db, "Who harpooned the Kraken?", name, "lazy"))[0] == "land"


def test_a_question_to_an_empty_corpus_costs_nothing(module_db: Database, module_endpoint: Endpoint) -> None:
    name = new_corpus(module_db, llm={"provider": provider(module_db, module_endpoint), "model": "m"})
    module_endpoint.forget()
    assert ask(module_db, QUESTION, name, mode="lazy")[2]["calls"] == 0
    assert value(module_db, "SELECT calls FROM graphrag.estimate_ask(%s, %s, mode => 'lazy')", QUESTION, name) == 0
    assert module_endpoint.requests == []


def test_ask_tests_by_the_model_within_the_budget_and_answers_from_claims(
    module_db: Database, themed: str, module_endpoint: Endpoint
) -> None:
    module_endpoint.forget()
    answer, citations, usage, context = ask(
        module_db, QUESTION, themed, mode="lazy", options={"relevance_test_budget": 8}
    )
    tests = context["relevance_tests"]
    assert tests["by"] == "model" and tests["queries"] == QUERIES
    assert 2 <= len(asked(module_endpoint, "relevant")) <= tests["spent"] <= 8
    assert {what: n for what, n in counted(module_endpoint).items() if n == 1}.keys() == {"refine", "map", "reduce"}
    assert usage["calls"] == len(module_endpoint.requests)
    assert answer == "Ned Land [1]." and [cited["number"] for cited in citations] == [1]
    assert context["points"] == [{"description": "Ned Land did [1].", "score": 90}]
    # Only what a test found relevant is read for claims.
    (mapped,) = asked(module_endpoint, "map")
    assert "Kraken" in mapped.text and "Grace Hopper wrote the first compiler" not in mapped.text
    # The same sub-queries and chunks again: every test is known.
    module_endpoint.forget()
    again = ask(module_db, QUESTION, themed, mode="lazy", options={"relevance_test_budget": 8})
    assert module_endpoint.requests == [] and again[2]["calls"] == 0 and again[0] == answer


def test_a_test_is_known_when_another_question_has_the_same_part(
    module_db: Database, themed: str, module_endpoint: Endpoint
) -> None:
    ask(module_db, QUESTION, themed, mode="lazy", options={"relevance_test_budget": 8})
    module_endpoint.forget()
    _, _, usage, context = ask(
        module_db, "And which monster?", themed, mode="lazy", options={"relevance_test_budget": 8}
    )
    # The parts are the same, the question is not.
    assert counted(module_endpoint)["refine"] == 1 and asked(module_endpoint, "relevant") == []
    assert context["relevance_tests"]["spent"] > 0
    assert usage["cache_hits"] >= context["relevance_tests"]["spent"]


@pytest.mark.parametrize("budget", [1, 3, 6])
def test_requests_are_never_more_than_the_budget_even_where_the_endpoint_fails(
    module_db: Database, themed: str, module_endpoint: Endpoint, budget: int
) -> None:
    def parts(messages: Messages) -> str:
        new = {"queries": [f"Who harpooned the Kraken, {budget}?", f"Who broke Enigma, {budget}?"], "expanded": "Who?"}
        return json.dumps(new) if task(messages) == "refine" else reply(messages)

    module_endpoint.reply(parts)
    module_endpoint.forget()
    module_endpoint.misbehave(
        "rate_limited", 2, when=lambda request: task(request.messages) == "relevant", retry_after=0.01
    )
    if budget == 1:  # the only test failed, and there was nothing left to try it again
        with pytest.raises(psycopg.errors.ConnectionFailure):
            ask(module_db, "Who, 1?", themed, mode="lazy", options={"relevance_test_budget": 1})
        assert len(asked(module_endpoint, "relevant")) == 1
    else:
        context = ask(module_db, f"Who, {budget}?", themed, mode="lazy", options={"relevance_test_budget": budget})[3]
        assert len(asked(module_endpoint, "relevant")) == context["relevance_tests"]["spent"] <= budget
    module_endpoint.behave()
    module_endpoint.reply(reply)


def test_context_has_what_is_near_enough_the_chunks_of_a_community_together(
    module_db: Database, themed: str, module_endpoint: Endpoint
) -> None:
    module_endpoint.forget()
    parts = made_context(module_db, "Kraken, Enigma, Ada Lovelace and Captain Nemo", themed, "lazy")
    communities = [chunk["explain"]["lazy"].get("community") for chunk in parts["chunks"]]
    assert len(set(communities)) > 1
    assert [community for community, _ in itertools.groupby(communities)] == list(dict.fromkeys(communities))
    results = search(module_db, "Kraken, Enigma, Ada Lovelace and Captain Nemo", themed, "lazy", top_k=20)
    assert {chunk["chunk_id"] for chunk in parts["chunks"]} == {row["chunk_id"] for row in results}
    assert [community["number"] for community in parts["references"]] == list(range(1, len(parts["references"]) + 1))
    assert parts["tokens"] <= 12_000 and made_context(module_db, "Kraken", themed, "lazy", 60)["tokens"] <= 60
    assert module_endpoint.requests == []


def test_a_model_that_refines_nothing_leaves_the_question_as_it_is(
    module_db: Database, themed: str, module_endpoint: Endpoint
) -> None:
    def prose(messages: Messages) -> str:
        return "I would rather not." if task(messages) == "refine" else reply(messages)

    module_endpoint.reply(prose)
    _, _, _, context = ask(module_db, "What of the Kraken?", themed, mode="lazy", options={"relevance_test_budget": 4})
    assert context["relevance_tests"]["queries"] == ["What of the Kraken?"]
    module_endpoint.reply(reply)
