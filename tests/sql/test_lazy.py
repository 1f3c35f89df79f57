"""LazyGraphRAG: relevance tests within a budget, over communities with and without reports, with and without a model."""

import itertools
import json
import re

import pytest
from psycopg.types.json import Jsonb

from tests.endpoint import Endpoint, Request
from tests.endpoint.server import Messages
from tests.runtime.cluster import Database
from tests.sql.asking import ask
from tests.sql.ingest import STORIES, index_all, keys, rows, search, searched_corpus, value
from tests.sql.llm import provider
from tests.sql.themes import SEA, asked, counted, points, task
from tests.sql.themes import context as made_context

QUESTION = "Who harpooned the Kraken, and who broke Enigma?"
QUERIES = ["Who harpooned the Kraken?", "Who broke Enigma?"]


TESTS = ("relevant", "relevant_passages")


def helps(text: str, question: str) -> bool:
    return ("Kraken" if "Kraken" in question else "Enigma") in text


def verdicts(messages: Messages) -> str:
    text, _, question = str(messages[-1]["content"]).partition("Question: ")
    passages = re.findall(r"^\[(\d+)\] (.*)$", text, re.M)
    by_verdict: dict[str, list[int]] = {"relevant": [], "irrelevant": []}
    for number, passage in passages:
        by_verdict["relevant" if helps(passage, question) else "irrelevant"].append(int(number))
    return json.dumps(by_verdict)


def reply(messages: Messages) -> str:
    last = str(messages[-1]["content"])
    if task(messages) == "refine":
        return json.dumps({"queries": QUERIES, "expanded": "Who did what to which machine or monster?"})
    if task(messages) == "relevant":
        text, _, question = last.partition("Question: ")
        return json.dumps({"relevant": helps(text, question)})
    if task(messages) == "relevant_passages":
        return verdicts(messages)
    return points(("Ned Land did [1].", 90)) if task(messages) == "map" else "Ned Land [1]."


REPLY = reply


def relevance_requests(endpoint: Endpoint) -> list[Request]:
    return [request for name in TESTS for request in asked(endpoint, name)]


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
    name = index_all(module_db, searched_corpus(module_db), STORIES | SEA)
    assert value(module_db, "SELECT count(*) FROM graphrag.community_overview WHERE corpus = %s", name) == 0
    assert keys(search(module_db, "Who harpooned the Kraken?", name, "lazy"))[0] == "land"


def test_a_question_to_an_empty_corpus_costs_nothing(module_db: Database, module_endpoint: Endpoint) -> None:
    name = searched_corpus(module_db, llm={"provider": provider(module_db, module_endpoint), "model": "m"})
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
    assert 2 <= len(relevance_requests(module_endpoint)) == tests["requests"] < tests["spent"] <= 8
    assert counted(module_endpoint).keys() == {"refine", "relevant_passages", "map", "reduce"}
    assert {counted(module_endpoint)[name] for name in ("refine", "map", "reduce")} == {1}
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
    assert counted(module_endpoint)["refine"] == 1 and relevance_requests(module_endpoint) == []
    assert usage["cache_hits"] >= context["relevance_tests"]["requests"] > 0


@pytest.mark.parametrize("at_once", [1, 4])
@pytest.mark.parametrize("budget", [1, 3, 6])
def test_requests_are_never_more_than_the_budget_even_where_the_endpoint_fails(
    module_db: Database, themed: str, module_endpoint: Endpoint, budget: int, at_once: int
) -> None:
    def parts(messages: Messages) -> str:
        who = [f"Who harpooned the Kraken, {budget} {at_once}?", f"Who broke Enigma, {budget} {at_once}?"]
        return json.dumps({"queries": who, "expanded": "Who?"}) if task(messages) == "refine" else reply(messages)

    module_endpoint.reply(parts)
    module_endpoint.forget()
    module_endpoint.misbehave("rate_limited", 2, when=lambda request: task(request.messages) in TESTS, retry_after=0.01)
    options = {"relevance_test_budget": budget, "tests_per_call": at_once}
    context = ask(module_db, f"Who, {budget} {at_once}?", themed, mode="lazy", options=options)[3]
    # Where there is nothing left to try a test again, nearness decides.
    assert len(relevance_requests(module_endpoint)) == context["relevance_tests"]["requests"]
    assert context["relevance_tests"]["requests"] <= context["relevance_tests"]["spent"] <= budget
    assert context["points"]
    module_endpoint.behave()
    module_endpoint.reply(reply)


@pytest.mark.parametrize(
    "said", ["Both.", '{"relevant": [], "irrelevant": []}', '{"relevant": [1, 1e9], "irrelevant": [1]}']
)
def test_a_model_that_cannot_judge_several_is_asked_of_each(
    module_db: Database, themed: str, module_endpoint: Endpoint, said: str
) -> None:
    parts = {"queries": [f"Who harpooned the Kraken, {len(said)} times?"], "expanded": "Who?"}
    scripted = {"relevant_passages": said, "refine": json.dumps(parts)}
    module_endpoint.reply(lambda messages: scripted.get(task(messages)) or reply(messages))
    module_endpoint.forget()
    options = {"relevance_test_budget": 60}
    context = ask(module_db, f"Who broke Enigma, or {len(said)}?", themed, mode="lazy", options=options)[3]
    assert context["points"] and len(asked(module_endpoint, "relevant")) >= 2
    assert len(relevance_requests(module_endpoint)) <= context["relevance_tests"]["spent"] <= 60
    module_endpoint.reply(reply)


def test_sub_queries_are_refined_with_concepts_of_the_graph_and_no_others(
    module_db: Database, themed: str, module_endpoint: Endpoint
) -> None:
    def chosen(messages: Messages) -> str:
        if task(messages) != "refine":
            return reply(messages)
        parts = [
            {"question": "Who harpooned it?", "concepts": ["NED LAND", "Moby Dick"]},
            {"question": "Who broke Enigma?", "concepts": []},
        ]
        return json.dumps({"queries": parts, "expanded": "Ned Land and Alan Turing"})

    module_endpoint.reply(chosen)
    module_endpoint.forget()
    context = ask(module_db, "What of the Kraken, and who broke Enigma?", themed, mode="lazy")[3]
    (refined,) = asked(module_endpoint, "refine")
    shown = str(refined.messages[-1]["content"]).partition("\n</concepts-")[0].splitlines()[1:]
    # What the question names comes first, then what the graph relates to it.
    assert {"Kraken", "Enigma"} <= set(shown[:4]) and {"Ned Land", "Nemo"} <= set(shown)
    concepts = context["relevance_tests"]["concepts"]
    assert concepts[0] == ["Ned Land"] and "Enigma" in concepts[1]
    # The expanded question is what the claims are asked for.
    assert "Question: Ned Land and Alan Turing" in asked(module_endpoint, "map")[0].text
    module_endpoint.reply(reply)


def test_claims_are_made_of_the_concept_subgraph_of_each_community(
    module_db: Database, themed: str, module_endpoint: Endpoint
) -> None:
    parts = json.dumps({"queries": QUERIES, "expanded": "Which people of which communities?"})
    module_endpoint.reply(lambda messages: parts if task(messages) == "refine" else reply(messages))
    module_endpoint.forget()
    ask(module_db, f"{QUESTION} Say it well.", themed, mode="lazy", options={"relevance_test_budget": 40})
    module_endpoint.reply(reply)
    (mapped,) = asked(module_endpoint, "map")
    data = str(mapped.messages[-1]["content"]).partition("Question: ")[0]
    communities = re.split(r"^# ", data, flags=re.M)[1:]
    assert len(communities) > 1
    for name, other in (("Kraken", "Enigma"), ("Enigma", "Kraken")):
        own = [community for community in communities if name in community]
        # Its concepts stand first, then the passages that state them, with the numbers of their documents.
        assert own and all(
            name in community.splitlines()[0] and re.search(r"^## .* \[\d+\]$", community, re.M) for community in own
        )
        assert not any(other in community for community in own)


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


def test_no_other_model_reads_the_question(module_db: Database, themed: str, module_endpoint: Endpoint) -> None:
    options = rows(module_db, "SELECT options -> 'llm' -> 'roles' FROM graphrag.corpora WHERE name = %s", themed)[0][0]
    roles = options | {"keywords": options["answer"]}
    value(module_db, "SELECT graphrag.alter_corpus(%s, %s)", themed, Jsonb({"llm": {"roles": roles}}))
    module_endpoint.forget()
    usage = ask(module_db, f"{QUESTION} Once more?", themed, mode="lazy", options={"relevance_test_budget": 8})[2]
    assert "keywords" not in counted(module_endpoint) and usage["calls"] == len(module_endpoint.requests) > 0
    value(module_db, "SELECT graphrag.alter_corpus(%s, %s)", themed, Jsonb({"llm": {"roles": options}}))
