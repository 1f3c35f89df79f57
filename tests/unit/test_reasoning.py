"""Reasoning is left out of answers in prose by one rule, whole or in pieces; what a text says of its marks stays."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pg_graphrag.ground.reasoning import (
    LOOKED_AT,
    MAX_HELD,
    ReasoningFilter,
    begins_unmarked,
    held_of,
    without_reasoning,
)

ANSWER = "Ada Lovelace wrote the notes [1]."
FINAL = "<|end|><|start|>assistant<|channel|>final<|message|>"


def streamed(text: str, size: int, held: int = LOOKED_AT) -> str:
    reasoning = ReasoningFilter(held)
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
        f"<longcat_think>Who?</longcat_think>{ANSWER}",
        f"<|channel>thought\nWho?<channel|>{ANSWER}",
        f"<analysis>\nWho?\n</analysis>\n{ANSWER}",
        f"<inner_monologue>Who?</inner_monologue>{ANSWER}",
        f"Here are my reasoning steps:\nWho?\n[BEGIN FINAL RESPONSE]\n{ANSWER}\n[END FINAL RESPONSE]<|end|>",
        f"<think>\nWho?\n</think>\n\n<response>\n{ANSWER}\n</response>\n",
        f"They ask who.</think><output>{ANSWER}</output>",
        f"<|inner_prefix|>Who?<|inner_suffix|>{ANSWER}",
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
        f"<plan>\n1. Look [2].\n</plan>\n{ANSWER}",
        f"<plan>Look.</plan><answer>{ANSWER}</answer>",
        f"<planning>Look.</planning>\n{ANSWER}",
        f"<planning> Look.</planning>\n{ANSWER}",
        f"<self_reflection>Who?</self_reflection>\n\n{ANSWER}",
        f"<chain_of_thought>Who?</chain_of_thought>\n{ANSWER}",
        f"<internal_monologue>Who?</internal_monologue>\n{ANSWER}",
        f"<rationale>It is [2].</rationale>\n{ANSWER}",
        f"<planning type='x'>It is [2].</planning>\n{ANSWER}",
        f"<|plan|>Look.<|/plan|>{ANSWER}",
        f"<|plan|>Look.<|final|>{ANSWER}",
        f"<think>Who?</think><plan>Look.</plan>\n{ANSWER}",
        f"<plan>Look.</plan><think>Who?</think>{ANSWER}",
        f"<plan>a</plan>\n<deliberation>b</deliberation>\n{ANSWER}",
        f"<plan>a</plan>\n<planning>{'b ' * 800}</planning>\n{ANSWER}",
        f"<|final|>{ANSWER}",
        f"They ask who wrote them.<|final|>{ANSWER}<|end|>",
        f"<|thinking|>Who?<|final|>\n{ANSWER}",
        f"<think>Who?</think><|answer|>{ANSWER}",
        f"<think>Who?</think>\n<final>{ANSWER}</final>",
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
        "What follows assistantfinal is the answer [1].",
        f"{ANSWER} A template closes with </think>, which begins the answer [2].",
        "< 5 V is low [1]. [Think] of 3 <t> tags.",
        "<plan>Basic</plan>",
        "<plan><name>Basic</name></plan>",
        "<plan>Basic</plan><price>5</price>",
        "<plans>\n<plan>Basic</plan> [1]\n</plans>",
        "<plan>Basic is cheap [1].",
        "<strategy> names the file [1].",
        "The token <|final|> begins the answer [1].",
        "[Plan B](b.md) is cheaper [1].",
        "The element <plan>Basic</plan> is read [1].",
        *(
            f"<{name}>Basic</{name}>{behind} is the default value [1]."
            for name in (
                "planet",
                "plane",
                "plant",
                "reasoncode",
                "reason",
                "strategy",
                "internal",
                "rational",
                "reflection-config",
            )
            for behind in ("", "\n\nIt")
        ),
        "<plan>Basic</plan> is the default value [1].",
        "The template has these tokens [1]:\n<|output|> begins the answer.",
        "Two tokens [1].\n<|response|>\n<|answer|>\nThese are all.",
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


@pytest.mark.parametrize(
    "beginning",
    [
        "First,", "We", "So far", "Now", "Also,", "Given", "Well-known", "Who", "Which", "They", "User accounts",
        "The user manual", "Bien que", "Gut belegt", "我们", "首先，", "The question of", "To reset it, the user", "What", "I",
    ],
)  # fmt: skip
def test_an_answer_is_held_back_for_a_sentence_or_160_characters(beginning: str) -> None:
    text = f"{beginning} have notes of hers without an end" + " and more" * 20
    short = f"{beginning} has all her notes on this engine there [1]. And"
    for size in (1, 7, 300):
        reasoning = ReasoningFilter()
        assert "".join(reasoning.feed(text[at : at + size]) for at in range(0, LOOKED_AT + 20, size))
    assert ReasoningFilter().feed("Ada") == "Ada"
    reasoning = ReasoningFilter()
    assert "".join(map(reasoning.feed, short)).startswith(f"{beginning} has all her notes")


@pytest.mark.parametrize(
    "beginning",
    [
        "[Plan B](b.md) is cheaper", "[Plan A] costs", "[Plans][1]", "[Internal memo]", "[Analyst]", "[Reasons for the delay]",
        "[Planning permission] was", "[plan]: url", "[PLAN] costs", "<internal-link> is an", '<analyzer class="x"/>',
        "<plan/> is", "<plan> is", "<plan>Basic</plan> is",
    ],
)  # fmt: skip
def test_what_begins_as_marks_of_a_plan_do_is_shown_at_once(beginning: str) -> None:
    text = f"{beginning} there"
    reasoning = ReasoningFilter()
    assert "".join(map(reasoning.feed, text)) == text
    assert not reasoning.may_think


def test_a_plan_that_has_no_end_yet_may_be_thinking() -> None:
    reasoning = ReasoningFilter()
    assert not reasoning.feed("<plan>\nLook.\n</plan>\n") and reasoning.may_think
    reasoning = ReasoningFilter()
    assert not reasoning.feed("<plan>\nLook at the second text.") and reasoning.may_think
    assert not reasoning.feed(f"\n</plan>\n{ANSWER[:4]}").strip() and not reasoning.may_think
    assert reasoning.feed(ANSWER[4:] * 10) and not reasoning.may_think


@pytest.mark.parametrize(
    "reply", ['<analysis_result>{"queries": []}</analysis_result>\nDone.', '<plan>{"queries": []}</plan>\nDone.',
              "<planned_output>[1]</planned_output>\nDone."]
)  # fmt: skip
def test_a_value_in_an_element_of_a_plan_is_the_reply(reply: str) -> None:
    assert without_reasoning(reply) == reply
    assert without_reasoning('<plan>{"a": 1}</plan>\n{"b": 2}').strip() == '{"b": 2}'


@pytest.mark.parametrize(
    "beginning",
    ["Okay, the user asks who wrote the notes.", "Based on the documents, the user wants a name.", "**Analyzing**\nI need it.",
     "Question: who wrote it? They ask for a name.", "Gut, der Nutzer fragt nach ihr.", "用户想知道是谁。"],
)  # fmt: skip
def test_what_thinks_by_its_words_is_waited_for(beginning: str) -> None:
    text = f"{beginning} And so on." + " And so on." * 100
    reasoning = ReasoningFilter()
    assert not "".join(map(reasoning.feed, text))
    assert reasoning.feed(f"</think>{ANSWER}") + reasoning.finish() == ANSWER
    assert "".join(ReasoningFilter().feed(text + " so" * MAX_HELD)).startswith(beginning)


def test_of_a_model_that_thinks_by_its_name_the_mark_is_waited_for() -> None:
    reasoning = ReasoningFilter(held_of("org/DeepSeek-R1-Distill"))
    assert not reasoning.feed("Ada wrote them. " * 100)
    answer = reasoning.feed(f"</think>{ANSWER * 10}")
    assert answer and answer + reasoning.finish() == ANSWER * 10
    assert held_of("llama3.2") == LOOKED_AT


@pytest.mark.parametrize(
    "thoughts",
    ["Passage 1 says Ada, and 2 says nothing of it.\n", "Ada, says [1].", "Berlin: 1999 [2].\n\n", "Sentences 3 to 5."],
)  # fmt: skip
def test_of_a_mark_behind_what_a_stream_has_shown_the_answer_begins_a_paragraph(thoughts: str) -> None:
    reply = f"{thoughts}</think>\n{ANSWER}"
    for size in (1, 7, 10_000):
        reasoning = ReasoningFilter()
        text = "".join(reasoning.feed(reply[at : at + size]) for at in range(0, len(reply), size)) + reasoning.finish()
        assert (text.split("\n\n")[0], text.split("\n")[-1]) == (thoughts.strip(), ANSWER)
        assert reasoning.has_shown_reasoning
    assert without_reasoning(reply, is_prose=True).strip() == ANSWER
    assert begins_unmarked(reply, is_prose=True)
    assert not begins_unmarked(f"<think>{reply}", is_prose=True)
    assert begins_unmarked(f'{thoughts}</think>\n{{"a": 1}}')
    assert not begins_unmarked('{"a": "It ends with </think>"}')
    plain = ReasoningFilter()
    plain.feed(f"{ANSWER} A template closes with </think>, which begins the answer [2].")
    assert not plain.has_shown_reasoning


@pytest.mark.parametrize(
    ("reply", "answer"),
    [
        ("<think>a <think>b</think> c</think>X", "X"),
        ("<think>a\n</think>Y\n</think>Z", "Z"),
        ("[Thoughts] Kant wrote [1].", "[Thoughts] Kant wrote [1]."),
        ("[reflection] is a word", "[reflection] is a word"),
        ("<reasoning> tags are used by X [1].", "<reasoning> tags are used by X [1]."),
        ("<reasoning>a</reasoning>X", "X"),
        ("<reasoning>\nIt never ends", ""),
        ("1. **Analyze**: The user wants a year.\n</think>X", "X"),
        ("<think />Paris [1].", "Paris [1]."),
        ("<think>a</think>\n<answer>X</answer>", "X"),
        ("<|START_THINKING|>a<|END_THINKING|><|START_RESPONSE|>X<|END_RESPONSE|>", "X"),
        ("<|begin_of_thought|>a<|end_of_thought|>\n<|begin_of_solution|>X<|end_of_solution|>", "X"),
        ("An <answer> tag [1].", "An <answer> tag [1]."),
        ("<analysis> and <response> are tags of X [1].", "<analysis> and <response> are tags of X [1]."),
        ("[BEGINNING] of X [1].", "[BEGINNING] of X [1]."),
        ("analysisWe need it.assistantfinalX", "X"),
        ("Based on the documents, the user wants the year.</think>\n\n1999 [1].", "1999 [1]."),
        ("Code:\n```\n<think>\nabc\n</think>\n```\nDone.", "Code:\n```\n<think>\nabc\n</think>\n```\nDone."),
        ("<think>a</think>Use this:\n```\n<think>\nabc\n```\nDone [1].", "Use this:\n```\n<think>\nabc\n```\nDone [1]."),
    ],
)  # fmt: skip
def test_a_reply_is_the_same_whole_and_in_pieces(reply: str, answer: str) -> None:
    assert without_reasoning(reply, is_prose=True).strip() == answer
    assert {streamed(reply, size).strip() for size in range(1, len(reply) + 1)} == {answer}


_PARTS = st.sampled_from(
    (
        "<think>·</think>·<reasoning>·</reasoning>·[THINK]·[/THINK]·<|channel|>analysis<|message|>·<think />·analysisWe"
        '·assistantfinal·<|start|>assistant<|channel|>final<|message|>·<|end|>·</answer>·<answer>·```·\n· ·"·`·(·)·a·So: ·<·<|·.'
        "·Ada wrote it [1]. ·The user wants it. ·◁think▷·<unused94>·thought·<unused95>·<think time='3s'>"
        "·[BEGIN FINAL RESPONSE]·[END·</response>·<plan>·</plan>·\n</plan>\n·<|plan|>·<|/plan|>·<plan ·<|output|>·<|final|>·"
        + "word "
        * 45
    ).split("·")
)


@given(st.lists(_PARTS, max_size=12).map("".join), st.sampled_from([LOOKED_AT, MAX_HELD]))
def test_where_a_reply_is_cut_changes_nothing(text: str, held: int) -> None:
    replies = {streamed(text, size, held) for size in (1, 2, 3, 7, 20, len(text) + 1)}
    assert len(replies) == 1
    if held == MAX_HELD:
        assert replies == {without_reasoning(text, is_prose=True)}


def test_replies_that_are_no_prose_keep_their_backslashes() -> None:
    row = r"entity<|#|>Tool<|#|>product<|#|>It uses C:\Users\new and $\frac{a}{b}$."
    assert without_reasoning(row) == row
    assert without_reasoning(f"<think>a</think>{row}") == row


def test_a_mark_within_the_last_value_of_a_reply_in_json_is_a_part_of_it() -> None:
    reply = '{"a": "It ends with </think>"}'
    assert without_reasoning(reply) == reply
