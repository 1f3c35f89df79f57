"""DRIFT: a primer over the best reports, follow-up questions by local retrieval, reduce; and the search without a model."""

import json
import re
from itertools import count
from typing import Any

import psycopg
import pytest

from tests.endpoint import Endpoint, Request
from tests.endpoint.server import Messages
from tests.runtime.cluster import Database
from tests.sql.asking import as_reader, ask, stream, warnings
from tests.sql.ingest import STORIES, index_all, keys, refused, rows, search, searched_corpus, value
from tests.sql.themes import SEA, asked, context, counted, task

QUESTION = "What became of the Enigma machine?"
FOLLOW_UPS = {"Who hired Alan Turing?": 90, "What did the Bombe break?": 80, "Who sailed the Nautilus?": 10}


def cited(messages: Messages, what: str) -> str:
    """The number that stands with `what` in the data of a prompt."""
    data = str(messages[-1]["content"]).partition("Question: ")[0]
    match = re.search(rf"\[(\d+)\][^\n]*{what}|{what}[^\n]*?\[(\d+)\]", data)
    return f"[{match[1] or match[2]}]" if match else ""


def said(answer: str, score: int, follow_ups: dict[str, int]) -> str:
    """A step; its answer cites whatever the model was shown where it names nothing."""
    if answer and "[" not in answer:
        answer += " " + "".join(f"[{number}]" for number in range(1, 10))
    raised = [{"question": question, "score": of} for question, of in follow_ups.items()]
    return json.dumps({"answer": answer, "score": score, "follow_ups": raised})


def reply(messages: Messages) -> str:
    """Each task does a little: primers ask three things, follow-ups the first of them once more."""
    what = task(messages)
    if what == "primer":
        return said(f"It was broken {cited(messages, 'Enigma') or cited(messages, '')}[987].", 40, FOLLOW_UPS)
    if what == "follow_up":
        number = cited(messages, "Enigma")
        return said(f"The Bombe did it {number}.", 70 if number else 0, {"who hired ALAN TURING": 100})
    if what == "expand":
        return "A report on machines."
    return f"Broken {cited(messages, 'Bombe') or cited(messages, '')}."


REPLY = reply


def test_search_goes_around_the_best_reports_and_asks_nobody(
    module_db: Database, themed: str, module_endpoint: Endpoint
) -> None:
    module_endpoint.forget()
    narrow = {"graph_top_k": 2}
    results = search(module_db, "Who broke the Enigma machine?", themed, "drift", options=narrow)
    assert {"turing", "enigma"} == set(keys(results[:2]))
    assert all(row["explain"]["drift"]["entity"]["because"] for row in results)
    with as_reader(module_db):
        assert keys(search(module_db, "Who broke the Enigma machine?", themed, "drift", options=narrow)) == keys(
            results
        )
    assert module_endpoint.requests == []


def test_a_filter_holds_for_what_the_reports_lead_to(module_db: Database, themed: str) -> None:
    query = "Who broke the Enigma machine?"
    assert search(module_db, query, themed, "drift", filter={"no": "such document"}) == []
    filtered = "SELECT graphrag.context(%s, %s, 'drift', filter => '{\"no\": \"such document\"}')"
    whole = value(module_db, filtered, query, themed)
    assert [whole[part] for part in ("entities", "relationships", "chunks")] == [[], [], []]
    module_db.execute("UPDATE graphrag.documents SET metadata = '{\"sea\": true}' WHERE source_key IN ('nemo', 'land')")
    results = search(module_db, "Who met whom?", themed, "drift", filter={"sea": True})
    assert {"nemo", "land"} == set(keys(results))
    sql = "SELECT graphrag.context(%s, %s, 'drift', filter => '{\"sea\": true}')"
    parts = value(module_db, sql, "Who met whom?", themed)
    assert {reference["source_key"] for reference in parts["references"]} == {"nemo", "land"} and parts["relationships"]
    assert not re.search("Enigma|Lovelace", parts["prompt"])


def test_context_has_the_reports_of_the_primer_within_their_share(module_db: Database, themed: str) -> None:
    whole = context(module_db, QUESTION, themed, "drift", 2000)
    assert all(whole[part] for part in ("reports", "entities", "relationships", "chunks", "references"))
    assert "Enigma" in whole["reports"][0]["content"]
    # The entities that the best reports rest on are there besides those of the query.
    names = [
        {entity["name"] for entity in context(module_db, QUESTION, themed, mode, 4000, graph_top_k=2)["entities"]}
        for mode in ("graph_local", "drift")
    ]
    assert names[0] < names[1]
    assert context(module_db, QUESTION, themed, "drift", 150)["tokens"] <= 150


def test_ask_primes_follows_up_and_reduces(module_db: Database, themed: str, module_endpoint: Endpoint) -> None:
    module_endpoint.forget()
    options = {"primer_folds": 2, "drift_k_followups": 2, "n_depth": 3}
    answer, citations, usage, parts = ask(module_db, QUESTION, themed, mode="drift", options=options)
    # The third follow-up is left for the second round; "who hired ALAN TURING" has been asked.
    assert counted(module_endpoint) == {"expand": 1, "primer": 2, "follow_up": 3, "reduce": 1}
    assert usage["calls"] == len(module_endpoint.requests) and usage["tokens_in"] > 0 and usage["cost"] > 0
    drift = parts["drift"]
    assert (drift["folds"], drift["failed"], drift["left"]) == (2, 0, 0)
    assert drift["rounds"] == [{"asked": 2, "failed": 0, "empty": 0}, {"asked": 1, "failed": 0, "empty": 0}]
    # The better scored are followed first, each with a context of its own.
    order = [
        next(question for question in FOLLOW_UPS if f"Question: {question}" in request.text)
        for request in asked(module_endpoint, "follow_up")
    ]
    assert set(order[:2]) == {"Who hired Alan Turing?", "What did the Bombe break?"}
    assert order[2] == "Who sailed the Nautilus?"
    assert f"asked for: {QUESTION}" in asked(module_endpoint, "follow_up")[0].text
    # What is reduced: answers, the best first; citations of what was not shown are gone, those left exist.
    scores = [step["score"] for step in parts["points"]]
    assert scores == sorted(scores, reverse=True) and set(scores) <= {40, 70}
    assert "[987]" not in parts["prompt"] and "## Who hired Alan Turing? (70)" in parts["prompt"]
    (cited_one,) = citations
    assert cited_one["source_key"] in {"turing", "enigma"} and usage["invalid_citations"] == 0
    assert f"[{cited_one['number']}]" in answer
    # The same again is known, also piece by piece.
    module_endpoint.forget()
    again = ask(module_db, QUESTION, themed, mode="drift", options=options)
    assert (again[0], again[2]["calls"]) == (answer, 0)
    assert "".join(stream(module_db, QUESTION, themed, mode="drift", options=options)) == answer
    assert module_endpoint.requests == []


@pytest.mark.parametrize(("folds", "followed", "depth"), [(1, 0, 3), (1, 2, 0), (3, 2, 2), (2, 4, 1)])
def test_calls_are_bounded_however_many_questions_are_raised(
    module_db: Database, themed: str, module_endpoint: Endpoint, folds: int, followed: int, depth: int
) -> None:
    numbers = count()

    def curious(messages: Messages) -> str:
        new = {f"What of the matter {next(numbers)} of Enigma?": 50 for _ in range(9)}
        return said("Something.", 50, new) if task(messages) in ("primer", "follow_up") else reply(messages)

    module_endpoint.reply(curious)
    module_endpoint.forget()
    options = {"primer_folds": folds, "drift_k_followups": followed, "n_depth": depth}
    answered = ask(module_db, f"What of Enigma, {folds} {followed} {depth}?", themed, mode="drift", options=options)
    expected = {"expand": 1, "primer": folds, "follow_up": followed * depth, "reduce": 1}
    assert counted(module_endpoint) == {what: n for what, n in expected.items() if n}
    assert answered[2]["calls"] == sum(expected.values()) and answered[3]["drift"]["left"] > 0
    module_endpoint.reply(reply)


def failing(*tasks: str, **details: Any) -> dict[str, Any]:
    def when(request: Request) -> bool:
        return request.kind == "chat" and task(request.messages) in tasks

    return {"when": when, **details}


def test_what_fails_costs_itself_and_is_said(module_db: Database, themed: str, module_endpoint: Endpoint) -> None:
    options = {"primer_folds": 2}
    module_endpoint.misbehave("bad_request", 1, **failing("primer"))
    module_endpoint.misbehave("bad_request", None, **failing("expand", "follow_up"))
    with warnings(module_db) as said_so:
        answer, _, _, parts = ask(module_db, "What of Enigma at all?", themed, mode="drift", options=options)
    assert (parts["drift"]["failed"], parts["drift"]["folds"]) == (1, 2)
    # Where a whole round fails, no further one is tried.
    assert parts["drift"]["rounds"] == [{"asked": 3, "failed": 3, "empty": 0}]
    assert answer.startswith("Broken") and {step["round"] for step in parts["points"]} == {0}
    whole = "\n".join(said_so)
    assert "the question was not expanded" in whole and "1 of 2 parts of the primer were not read" in whole
    assert "no follow-up question of round 1 was answered" in whole
    module_endpoint.behave()
    module_endpoint.misbehave("bad_request", None, **failing("primer"))
    with pytest.raises(psycopg.Error):
        ask(module_db, "What of Enigma after all?", themed, mode="drift", options=options)
    module_endpoint.behave()


def test_a_round_of_questions_that_nothing_is_near_does_not_end_the_search(
    module_db: Database, themed: str, module_endpoint: Endpoint
) -> None:
    # In languages of no document, which the local model was not made for.
    raised = {"他昨天去了哪里呢？": 90, "我们什么时候回家吃饭？": 80, "Who hired Alan Turing?": 10}

    def curious(messages: Messages) -> str:
        return said("It was broken.", 40, raised) if task(messages) == "primer" else reply(messages)

    module_endpoint.reply(curious)
    options = {"primer_folds": 1, "drift_k_followups": 2, "n_depth": 1}
    _, _, _, parts = ask(module_db, "What of the Enigma in rounds?", themed, mode="drift", options=options)
    module_endpoint.reply(reply)
    # As many as a round may have were looked at, which is no round; the first has the one that something is near.
    assert parts["drift"]["rounds"] == [{"asked": 0, "failed": 0, "empty": 2}, {"asked": 1, "failed": 0, "empty": 0}]
    assert parts["drift"]["ended"] == "no question is open"
    # A model that raises nothing else comes to an end.
    raised = {f"他昨天去了{place}吗？": 90 for place in "北京 上海 广州 深圳 天津 重庆".split()}
    module_endpoint.reply(curious)
    options = {"primer_folds": 1, "drift_k_followups": 1, "n_depth": 2}
    with warnings(module_db) as said_so:
        _, _, _, parts = ask(module_db, "What of the Enigma in vain?", themed, mode="drift", options=options)
    module_endpoint.reply(reply)
    # One WARNING for the search, not one for each question.
    assert len(said_so) == 1 and "found nothing" in said_so[0]
    assert parts["drift"]["rounds"] == [{"asked": 0, "failed": 0, "empty": 1}] * 3
    assert (parts["drift"]["ended"], parts["drift"]["left"]) == ("nothing is near", 3)


def scripted(module_endpoint: Endpoint, primer: str, follow_up: str) -> None:
    said_by = {"primer": primer, "follow_up": follow_up}
    module_endpoint.reply(lambda messages: said_by.get(task(messages)) or reply(messages))
    module_endpoint.forget()


@pytest.mark.parametrize(
    ("primer", "follow_up", "options", "rounds", "ended", "left"),
    [
        # The primer answers and raises nothing.
        (said("Broken.", 90, {}), "", {}, [], "no question is open", 0),
        # It raises the question itself, and one twice.
        (
            said("Broken.", 40, {"ends": 90, "Who hired Alan Turing?": 50, "who hired  alan turing": 40}),
            said("Nobody.", 30, {}),
            {},
            [(1, 0, 0)],
            "no question is open",
            0,
        ),
        # It says nothing and raises nothing: the question itself is followed.
        (said("", 0, {}), said("Broken.", 60, {}), {}, [(1, 0, 0)], "no question is open", 0),
        # What it says does not help; what it raises does.
        (
            said("Nothing.", 0, {"Who hired Alan Turing?": 10}),
            said("X.", 60, {}),
            {},
            [(1, 0, 0)],
            "no question is open",
            0,
        ),
        # An answer of no use raises what is.
        (
            said("Broken.", 40, {"Who hired Alan Turing?": 50}),
            said("", 0, {"What did the Bombe break?": 80}),
            {},
            [(1, 0, 0), (1, 0, 0)],
            "no question is open",
            0,
        ),
        (said("Broken.", 40, FOLLOW_UPS), said("X.", 1, {}), {"n_depth": 0}, [], "n_depth", 3),
        (said("Broken.", 40, FOLLOW_UPS), said("X.", 1, {}), {"drift_k_followups": 0}, [], "drift_k_followups", 3),
        (
            said("Broken.", 40, FOLLOW_UPS),
            said("X.", 1, {}),
            {"drift_k_followups": 1, "n_depth": 2},
            [(1, 0, 0), (1, 0, 0)],
            "n_depth",
            1,
        ),
        # Replies that are none.
        (
            said("Broken.", 40, FOLLOW_UPS),
            "I would rather not.",
            {},
            [(3, 3, 0)],
            "every question of a round failed",
            0,
        ),
        # Nothing is near one of three: it takes no place of another.
        (
            said(
                "Broken.", 40, {"他昨天去了哪里呢？": 90, "Who hired Alan Turing?": 50, "What did the Bombe break?": 40}
            ),
            said("X.", 1, {}),
            {"drift_k_followups": 2},
            [(2, 0, 1)],
            "no question is open",
            0,
        ),
    ],
)
def test_each_corner_ends_as_it_should(
    module_db: Database,
    themed: str,
    module_endpoint: Endpoint,
    primer: str,
    follow_up: str,
    options: dict[str, int],
    rounds: list[tuple[int, int, int]],
    ended: str,
    left: int,
) -> None:
    # Each case has a question of its own, so that no answer of another one is known.
    number = abs(hash((primer, follow_up, str(options)))) % 10_000
    question = f"How did the Enigma machine end, {number}?"
    scripted(module_endpoint, primer.replace('"ends"', json.dumps(question.upper())), follow_up)
    answer, _, _, parts = ask(module_db, question, themed, mode="drift", options={"primer_folds": 1} | options)
    module_endpoint.reply(reply)
    assert [(round_["asked"], round_["failed"], round_["empty"]) for round_ in parts["drift"]["rounds"]] == rounds
    assert (parts["drift"]["ended"], parts["drift"]["left"]) == (ended, left)
    # Stages: one primer, as many follow-ups as were asked, one answer from all of them.
    followed = asked(module_endpoint, "follow_up")
    assert len(asked(module_endpoint, "primer")) == len(asked(module_endpoint, "reduce")) == 1
    assert len({request.text for request in followed}) == sum(round_["asked"] for round_ in parts["drift"]["rounds"])
    scores = [step["score"] for step in parts["points"]]
    assert scores == sorted(scores, reverse=True) and min(scores) > 0 and answer
    questions = {step["question"] for step in parts["points"]} | {question}
    assert all(
        step["raised_by"] is None or step["raised_by"] in questions for step in parts["points"] if step["round"] < 2
    )


def test_where_nothing_is_said_the_answer_is_made_from_chunks(
    module_db: Database, themed: str, module_endpoint: Endpoint
) -> None:
    scripted(module_endpoint, said("", 0, {}), said("", 0, {}))
    answer, citations, _, parts = ask(module_db, "What of nothing at all?", themed, mode="drift")
    module_endpoint.reply(reply)
    assert "points" not in parts and asked(module_endpoint, "reduce") == []
    assert len(asked(module_endpoint, "answer")) == 1
    assert answer and citations


def test_without_reports_the_question_itself_is_followed(
    module_db: Database, themed: str, module_endpoint: Endpoint
) -> None:
    model = rows(module_db, "SELECT options -> 'llm' FROM graphrag.corpora WHERE name = %s", themed)[0][0]
    bare = index_all(module_db, searched_corpus(module_db, llm=model), STORIES | SEA)
    module_endpoint.forget()
    with warnings(module_db) as said_so:
        _, _, _, parts = ask(module_db, QUESTION, bare, mode="drift", options={"n_depth": 1})
        results = search(module_db, "Who broke the Enigma machine?", bare, "drift")
    assert counted(module_endpoint) == {"follow_up": 1, "reduce": 1}
    assert parts["drift"]["reports"] == 0 and parts["points"][0]["question"] == QUESTION
    assert keys(results) and "of the report" not in str([row["explain"] for row in results])
    assert all("no reports on communities yet" in text for text in said_so) and said_so


def test_options_are_where_they_mean_something(module_db: Database, themed: str) -> None:
    searched = refused(module_db, "SELECT graphrag.search('x', %s, 'drift', options => '{\"n_depth\": 1}')", themed)
    assert "of graphrag.ask, not of graphrag.search" in str(searched.message_primary)
    deep = refused(module_db, "SELECT graphrag.ask('x', %s, 'drift', options => '{\"n_depth\": 4}')", themed)
    assert "from 0 to 3" in str(deep.message_hint)
    made_over = refused(module_db, "SELECT graphrag.ask('x', %s, 'drift', options => '{\"rerank\": true}')", themed)
    assert 'no option "rerank" in mode "drift"' in str(made_over.message_primary)
