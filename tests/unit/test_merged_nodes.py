"""What several databases found, as one list: order, places, what is said of those that did not answer."""

import asyncio
import threading
import time
from functools import partial
from typing import Any

import psycopg
import pytest
from pg_graphrag.beside.client import Results, SearchResult
from pg_graphrag.beside.client.nodes import Form, LateError, Place, Request, requests, side_by_side, side_by_side_async
from pg_graphrag.ground.merged_order import merged_order

B, C = Place("b", "postgresql://b/app"), Place("c", "postgresql://c/app")
Answers = dict[Request, Results[SearchResult] | Exception]


def rows(relevances: dict[str, list[float]], **explain: Any) -> Results[SearchResult]:
    """What one database answers."""
    best = {corpus: round(max(shares[:10]), 4) for corpus, shares in relevances.items()}
    return Results(
        SearchResult(rank, place, place, f"{corpus}/{place}", None, "", 1.0, scores | explain, corpus)
        for rank, (corpus, place) in enumerate(merged_order(relevances), 1)
        for scores in [
            {"relevance": relevances[corpus][place], "corpus_rank": place + 1, "corpus_relevance": best[corpus]}
        ]
    )


def form(**options: Any) -> Form:
    return Form.of({"query": "who", "top_k": options.pop("top_k", 100), "options": options})


def keys(hits: list[SearchResult]) -> list[str]:
    return [hit.source_key for hit in hits]


def test_the_order_is_that_of_one_database_that_has_all() -> None:
    first, second = {"near": [0.2, 0.8, 0.1], "none": [0.01]}, {"far": [0.3, 0.3], "half": [0.5, 0.5, 0.5]}
    answers: Answers = {Request(None, ("near", "none")): rows(first), Request(B, ("far", "half")): rows(second)}
    whole = [f"{corpus}/{place}" for corpus, place in merged_order(first | second)]
    assert keys(form().merged(answers)) == whole
    assert keys(form(top_k=3, offset=2).merged(answers)) == whole[2:5]
    assert [hit.rank for hit in form(top_k=3, offset=2).merged(answers)] == [3, 4, 5]
    # A part of the whole is cut before what is not relevant enough is left out of it.
    kept = [hit.source_key for hit in form(top_k=4).merged(answers) if hit.explain["relevance"] >= 0.5]
    assert keys(form(top_k=4, min_relevance=0.5).merged(answers)) == kept


def test_a_form_asks_each_database_for_what_the_whole_may_need() -> None:
    asked = form(top_k=3, offset=2, min_relevance=0.5, rrf_k=10)
    assert asked.arguments["top_k"] == 5
    assert asked.arguments["options"] == {"min_relevance": 0, "rrf_k": 10, "nodes": "here"}
    # What cannot be, a database refuses.
    wrong = {"offset": -1, "min_relevance": True}
    assert form(**wrong).arguments["options"] == {**wrong, "nodes": "here"}


def test_of_two_corpora_of_one_name_the_first_counts() -> None:
    answers: Answers = {
        Request(None, ("*",)): rows({"default": [0.5]}),
        Request(B, ("*",)): rows({"default": [0.9, 0.9], "other": [0.4]}),
    }
    hits = form().merged(answers)
    assert keys(hits) == ["default/0", "other/0"]
    assert hits[0].explain["unanswered"] == {"default": 'that of node "b": the first database has one of this name'}


def test_who_does_not_answer_is_said_once_for_each_corpus() -> None:
    answers: Answers = {
        Request(None, ("*", "a")): rows({"a": [0.5]}, unanswered={"bad": "division by zero"}),
        Request(B, ("*", "late")): LateError(B, 2),
        Request(C, ("*",)): psycopg.OperationalError("refused"),
    }
    (hit,) = form().merged(answers)
    assert hit.explain["unanswered"] == {
        "bad": "division by zero",
        "*": 'node "b" did not answer: it took longer than 2 s; node "c" did not answer: refused',
        "late": 'node "b" did not answer: it took longer than 2 s',
    }


def test_what_is_an_error() -> None:
    late, unknown = LateError(B, 2), psycopg.errors.UndefinedObject("no corpus")
    with pytest.raises(LateError):
        form().merged({Request(None, ("a",)): Results(), Request(B, ("b",)): late})
    # A corpus that was named is not there.
    with pytest.raises(psycopg.errors.UndefinedObject):
        form().merged({Request(None, ("a",)): rows({"a": [0.5]}), Request(B, ("b",)): unknown})
    # Of all that the caller may read there is nothing at a node; or anywhere.
    assert keys(form().merged({Request(None, ("*",)): rows({"a": [0.5]}), Request(B, ("*",)): unknown})) == ["a/0"]
    assert form().merged({Request(None, ("*",)): Results(), Request(B, ("*",)): unknown}) == []
    with pytest.raises(psycopg.errors.UndefinedObject):
        form().merged({Request(None, ("*",)): unknown, Request(B, ("*",)): unknown})
    # A defect is no fault of a node.
    with pytest.raises(KeyError):
        form().merged({Request(None, ("a",)): rows({"a": [0.5]}), Request(B, ("b",)): KeyError("x")})


def test_who_is_asked_for_what() -> None:
    assert requests(None, ["a", "b", "c"], {B: ["b"], C: ["c"]}) == [
        Request(None, ("a",)),
        Request(B, ("b",)),
        Request(C, ("c",)),
    ]
    assert requests(None, ["b"], {B: ["b"]}) == [Request(B, ("b",))]
    assert requests(None, ["*", "b"], {B: ["*", "b"]}) == [Request(None, ("*",)), Request(B, ("*", "b"))]


class Shared:
    """A client that calls take turns with, and what was done with it."""

    def __init__(self, turn: Any) -> None:
        self._turn, self._own_connection = turn, None
        self.done: list[str] = []


class SharedByThreads(Shared):
    def close(self) -> None:
        self.done.append("closed")


class SharedByTasks(Shared):
    async def close(self) -> None:
        self.done.append("closed")


def test_what_is_late_is_not_closed_in_the_midst_of_another_call() -> None:
    request = Request(B, ("docs",))

    async def main() -> list[str]:
        client = SharedByTasks(asyncio.Lock())

        async def call(name: str, seconds: float) -> None:
            async with client._turn:
                client.done.append(f"{name} begins")
                await asyncio.sleep(seconds)
                client.done.append(f"{name} ends")

        late = asyncio.ensure_future(side_by_side_async({request: client}, {request: partial(call, "late", 9)}, 0.05))
        await asyncio.sleep(0.01)
        other = asyncio.ensure_future(side_by_side_async({request: client}, {request: partial(call, "other", 0.1)}, 9))
        assert isinstance((await late)[request], LateError)
        assert (await other)[request] is None
        await asyncio.sleep(0.05)
        return client.done

    assert asyncio.run(main()) == ["late begins", "other begins", "other ends", "closed"]


def test_what_is_late_in_a_thread_is_not_closed_in_the_midst_of_another_call() -> None:
    request, client = Request(B, ("docs",)), SharedByThreads(threading.RLock())
    is_late = threading.Event()

    def call() -> None:
        is_late.wait(9)

    assert isinstance(side_by_side({request: client}, {request: call}, 0.05)[request], LateError)
    with client._turn:
        is_late.set()
        time.sleep(0.1)
        assert client.done == []
    time.sleep(0.1)
    assert client.done == ["closed"]
