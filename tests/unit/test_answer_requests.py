"""What models are asked for about questions: limits and bounds of each task, and what is held back of a stream."""

from __future__ import annotations

from typing import Any

import pytest
from pg_graphrag.llm.asking import replies
from pg_graphrag.llm.asking.tasks import TASKS, request
from pg_graphrag.llm.endpoints.faults import ItemFault
from pg_graphrag.llm.endpoints.requests import ChatRequest
from pg_graphrag.search.answer.grounded import Copies
from pg_graphrag.server.corpus.options import parse
from pg_graphrag.text import prompts

ARGUMENTS: dict[str, Any] = {
    **dict.fromkeys(("question", "response_type", "reports", "report", "text", "whole", "tables", "corpus"), "x"),
    "context": "words " * 10_000,
    "texts": ["x"],
    "concepts": ["x"],
    "history": [],
}


def asked(task: str, **arguments: Any) -> ChatRequest:
    return request(parse({}), task, ARGUMENTS | arguments)


@pytest.mark.parametrize("task", TASKS)
def test_every_task_has_a_limit_and_every_list_and_text_a_bound(task: str) -> None:
    made = asked(task)
    assert 0 < made.max_tokens <= 3000

    def check(schema: dict[str, Any], name: str) -> None:
        if schema["type"] == "array":
            assert schema["maxItems"] > 0
            check(schema["items"], name)
        elif schema["type"] == "object":
            for own_name, part in schema["properties"].items():
                check(part, own_name)
        elif schema["type"] == "string" and "enum" not in schema and name != "statement":
            assert schema["maxLength"] > 0

    if made.schema is not None:
        check(made.schema["schema"], task)


def test_selections_and_tests_are_limited_by_how_many_there_are() -> None:
    few, many = (asked("relevant_passages", texts=["x"] * count).max_tokens for count in (1, 50))
    assert few < 60 < many < 500
    assert asked("relevant").max_tokens < 60
    assert asked("keywords").max_tokens == 200


@pytest.mark.parametrize(
    ("form", "limit"),
    [
        ("multiple paragraphs", 1200),
        ("bullet list", 1200),
        ("single sentence", 200),
        ("one word", 200),
        ("Yes or no", 200),
        ("a single paragraph", 500),
        ("a detailed report", 3000),
        ("at most 600 words", 1400),
        ("100000 words", 8000),
        ("俳句", 1200),
    ],
)
def test_an_answer_is_limited_by_its_form(form: str, limit: int) -> None:
    assert asked("answer", response_type=form).max_tokens == limit


def test_an_answer_is_hardly_longer_than_its_context() -> None:
    assert asked("answer", response_type="multiple paragraphs", context="x" * 400).max_tokens == 300


@pytest.mark.parametrize(
    "said",
    [
        '{"low_level_keywords": ["..."], "high_level_keywords": ["…"], "entities": [], "answer_types": ["person"]}',
        '{"low_level_keywords": ["people", "organisations"], "high_level_keywords": ["the themes"], "entities": []}',
        '{"low_level_keywords": ["the specific things that the question names or asks about"], "entities": ["..."]}',
    ],
)
def test_the_template_is_no_keywords(said: str) -> None:
    with pytest.raises(ItemFault):
        asked("keywords", question="Who was she?").parse(said, False)


def test_a_keyword_of_the_question_may_stand_in_the_prompt() -> None:
    said = '{"low_level_keywords": ["organisations"], "high_level_keywords": [], "entities": []}'
    assert asked("keywords", question="Which organisations?").parse(said, False)["low_level_keywords"] == [
        "organisations"
    ]


def test_dots_say_nothing() -> None:
    assert replies.points('{"points": [{"description": "...", "score": 0}]}', False) == []
    step = replies.step('{"answer": "...", "score": 9, "follow_ups": [{"question": "...", "score": 0}]}', False)
    assert (step["answer"], step["follow_ups"]) == ("", [])
    with pytest.raises(ItemFault):
        replies.queries('{"queries": ["..."]}', False)


def test_an_answer_of_the_prompts_sentences_is_none() -> None:
    made = asked("answer")
    with pytest.raises(ItemFault) as fault:
        made.parse("\n".join(made.messages[0]["content"].splitlines()[4:6]), False)
    assert "instructions" in fault.value.message
    assert len(fault.value.detail or "") <= 100
    assert made.parse(prompts.sentence("not_found", "en"), False)["text"] == prompts.sentence("not_found", "en")


@pytest.mark.parametrize(
    ("pieces", "given"),
    [
        (["Ann", " Lee", " wrote"], ["Ann", " Lee", " wrote"]),
        # The copy waits until it differs.
        (["A b c. ", "A ", "b ", "d."], ["A b c. ", "", "", "A b d."]),
        # Copies of copies wait, too.
        (["A b c. ", "A b c. ", "A b c. "], ["A b c. ", "", ""]),
        (["", " "], ["", ""]),
    ],
)
def test_copies_wait(pieces: list[str], given: list[str]) -> None:
    copies = Copies()
    assert [copies.feed(piece) for piece in pieces] == given
    assert "".join(given) + copies.finish() == "".join(pieces)
