"""Reasoning is left out of answers in prose by one rule, whole or in pieces; what a text says of its marks stays."""

from __future__ import annotations

import pytest
from pg_graphrag.reasoning import MAX_HELD, ReasoningFilter, without_reasoning

ANSWER = "Ada Lovelace wrote the notes [1]."
FINAL = "<|end|><|start|>assistant<|channel|>final<|message|>"


def streamed(text: str, size: int) -> str:
    reasoning = ReasoningFilter()
    pieces = [reasoning.feed(text[start : start + size]) for start in range(0, len(text), size)]
    return "".join(pieces) + reasoning.finish()


@pytest.mark.parametrize(
    "reply",
    [
        f"<think>Who? [2]</think>{ANSWER}",
        f"<think time='3s'>\nWho?\n</think>\n\n{ANSWER}",
        f"[THINK]Who?[/THINK]{ANSWER}",
        f"<seed:think>Who?</seed:think>{ANSWER}",
        f"◁think▷Who?◁/think▷{ANSWER}",
        f"<think>a</think>\n<think>b</think>\n{ANSWER}",
        f"<think>Say `</think>` here.</think>{ANSWER}",
        f"They ask who wrote them. [1] says Ada.\n</think>\n\n{ANSWER}",
        f"They ask who wrote them.</think>{ANSWER}",
        f"They ask who wrote them. </think> {ANSWER}",
        f"What did she write, so Ada</think>{ANSWER}",
        f"What? a</think>So b</think>{ANSWER}",
        f"<|channel|>analysis<|message|>Who?{FINAL}{ANSWER}<|return|>",
        f"<|channel|>analysis<|message|>Who?<|end|><|start|>assistant<|channel|>commentary<|message|>Hm{FINAL}{ANSWER}",
        f"<|channel|>final<|message|>{ANSWER}",
        f"{'Okay, the user asks who wrote them. ' * 200}</think>{ANSWER}",
    ],
)
def test_an_answer_has_no_reasoning_whole_or_streamed(reply: str) -> None:
    assert without_reasoning(reply, is_prose=True).strip() == ANSWER
    assert {streamed(reply, size).strip() for size in (1, 7, 10_000)} == {ANSWER}


@pytest.mark.parametrize(
    "reply", ["<think>never", "[THINK] never ends [1].", "Who was it?\n</think>", "<think>a</think>\n<think>b"]
)
def test_reasoning_alone_is_no_answer(reply: str) -> None:
    assert without_reasoning(reply, is_prose=True).strip() == ""
    assert {streamed(reply, size).strip() for size in (1, 10_000)} == {""}


@pytest.mark.parametrize(
    "text",
    [
        "The block begins with <think> and ends with </think> [1].",
        "It ends with </think> [1]. Then the answer follows.",
        'The tag "<think>" opens it [1]; "</think>" ends it.',
        "`</think>` ends it [1].",
        "The passage says [1]:\n```\n<think>\nx\n</think>\n```\nSo it is.",
        "The form is this [1]:\n<think>\nx\n</think>\nanswer",
        f"{ANSWER} A template closes with </think>, which begins the answer [2].",
        "< 5 V is low [1]. [Think] of 3 <t> tags.",
    ],
)
def test_what_a_text_says_of_marks_stays(text: str) -> None:
    assert without_reasoning(text, is_prose=True) == text
    assert {streamed(text, size) for size in (1, 7, 10_000)} == {text}
    thought = f"<think>a</think>{text}"
    assert without_reasoning(thought, is_prose=True).replace("\n", "") in (
        text.replace("\n", ""),
        text.split("\n<think>")[0].replace("\n", "") + "answer",
    )


def test_reasoning_between_parts_of_an_answer_is_left_out() -> None:
    reply = "<think>a</think>One [1].\n<think>b</think>\nTwo [1]."
    assert without_reasoning(reply, is_prose=True).split("\n\n") == ["One [1].", "Two [1]."]
    assert {streamed(reply, size) for size in (1, 10_000)} == {without_reasoning(reply, is_prose=True)}
    late = f"Sure.\n<think>b</think>\n{ANSWER}"
    assert (
        {streamed(late, size) for size in (1, 10_000)}
        == {f"Sure.\n\n{ANSWER}"}
        == {without_reasoning(late, is_prose=True)}
    )


def test_an_answer_is_shown_once_its_beginning_says_that_it_is_none_of_reasoning() -> None:
    plain, thinking = ReasoningFilter(), ReasoningFilter()
    assert plain.feed("Ada") == "Ada"
    assert plain.feed(" notes") == " notes"
    assert not thinking.feed("Okay, the user asks who wrote the notes. " * 100)
    assert thinking.feed("and so on " * (MAX_HELD // 10))


def test_of_a_model_that_hides_its_opening_mark_the_next_answer_is_waited_for() -> None:
    first = ReasoningFilter()
    assert first.feed("Ada?\n</think>\n") + first.feed(ANSWER) + first.finish()
    assert first.hid_opening
    second = ReasoningFilter(waits=True)
    assert not second.feed("Ada wrote them. " * 100)
    assert second.feed(f"</think>{ANSWER * 10}") + second.finish() == ANSWER * 10
