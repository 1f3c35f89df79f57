"""What several databases found, as one list: order, places, what is said of those that did not answer."""

from __future__ import annotations

from typing import Any

import psycopg
import pytest
from pg_graphrag.beside.client import Results, SearchResult
from pg_graphrag.beside.client.nodes import Form, LateError, Place, Request, requests
from pg_graphrag.ground.merged_order import merged_order

B, C = Place("b", "postgresql://b/app"), Place("c", "postgresql://c/app")
Answers = dict[Request, Results[SearchResult] | Exception]


def rows(relevances: dict[str, list[float]], **explain: Any) -> Results[SearchResult]:
    """What one database answers."""
    best = {corpus: round(max(shares[:10]), 4) for corpus, shares in relevances.items()}
    return Results(
        SearchResult(rank, place, place, f"{corpus}/{place}", None, "", 1.0, said | explain, corpus)
        for rank, (corpus, place) in enumerate(merged_order(relevances), 1)
        for said in [
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
