"""What models are asked for about questions: limits and bounds of each task, and what is held back of a stream."""

from typing import Any

import pytest
from pg_graphrag.index.extraction.extract import extraction
from pg_graphrag.index.extraction.grounding import SourceText
from pg_graphrag.llm.asking import replies
from pg_graphrag.llm.asking.tasks import TASKS, request
from pg_graphrag.llm.endpoints.faults import ItemFault
from pg_graphrag.llm.endpoints.ledger import cache_key
from pg_graphrag.llm.endpoints.requests import ChatRequest, probe_of, without_bounds
from pg_graphrag.search.answer.grounded import Copies
from pg_graphrag.server.corpus.options import parse_options
from pg_graphrag.text import prompts

ARGUMENTS: dict[str, Any] = {
    **dict.fromkeys(("question", "response_type", "reports", "report", "text", "whole", "tables", "corpus"), "x"),
    "context": "words " * 10_000,
    "texts": ["x"],
    "concepts": ["x"],
    "history": [],
}


def asked(task: str, **arguments: Any) -> ChatRequest:
    return request(parse_options({}), task, ARGUMENTS | arguments)


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


def key(made: ChatRequest) -> str:
    return cache_key("model", made.messages, made.retry, made.variant)


@pytest.mark.parametrize("task", TASKS)
def test_no_messages_of_an_asker_have_the_reply_of_another_task(task: str) -> None:
    made = asked(task)
    *before, last = made.messages
    told = before[0]["content"] if before else ""
    history = [turn for turn in before if turn["role"] != "system"]
    chat = asked("chat", instructions=told, question=last["content"], history=history)
    assert chat.messages == made.messages
    # As workers' requests have it: no variant.
    assert key(chat) != cache_key("model", made.messages)
    assert task == "chat" or key(chat) != key(made)


def test_a_chat_has_not_the_reply_of_an_extraction_with_its_messages() -> None:
    options = parse_options({"extractor": "llm", "llm": {"provider": "p", "model": "model"}})
    text = "Ada Lovelace wrote notes."
    made = next(extraction(options, None, text, SourceText(None, text)))
    told, *history, last = made.messages
    chat = asked("chat", instructions=told["content"], question=last["content"], history=history)
    assert chat.messages == made.messages
    assert key(chat) != key(made)


def test_a_chats_reply_is_its_askers_alone_and_answers_have_keys_of_their_own() -> None:
    assert len({key(asked("chat", asker=role)) for role in ("ann", "bob")}) == 2
    for task in ("answer", "reduce"):
        assert key(asked(task)) != cache_key("model", asked(task).messages)


def test_turns_of_one_role_are_one_in_paragraphs() -> None:
    made = asked("chat", history=[{"role": "user", "content": "Title this."}])
    assert made.messages == ({"role": "user", "content": "Title this.\n\nx"},)


def test_the_limit_of_an_asker_is_known_as_his() -> None:
    assert [asked(task, max_tokens=70).asked_tokens for task in ("answer", "chat")] == [70, 70]
    assert asked("answer").asked_tokens is None
    probe = probe_of(asked("answer"))
    assert isinstance(probe, ChatRequest)
    assert probe.asked_tokens == 16


@pytest.mark.parametrize("missing", ["no citation", "form", "repetition"])
def test_a_second_answer_in_json_is_told_what_was_missing(missing: str) -> None:
    first, second = (asked("answer", schema={}, **more).messages[-1]["content"] for more in ({}, {"missing": missing}))
    assert "Your last answer" in second.removeprefix(first)
    assert "word for word" not in second


def test_references_into_an_askers_schema_go_where_it_stands_now() -> None:
    schema = {
        "properties": {
            "x": {"$ref": "#/properties/y"},
            "y": {"type": "string"},
            "z": {"$ref": "#/$defs/Z"},
            "w": {"$ref": "#/$defsOther"},
            "self": {"$ref": "#"},
            "$ref": {"type": "string"},
        },
        "$defs": {"Z": {"$ref": "#/properties/y"}},
    }
    made = asked("answer", schema=schema).schema
    assert made is not None
    moved = made["schema"]["properties"]["answer"]["anyOf"][0]["properties"]
    root = "#/properties/answer/anyOf/0"
    assert [moved[name]["$ref"] for name in ("x", "z", "w", "self")] == [
        f"{root}/properties/y",
        "#/$defs/Z",
        f"{root}/$defsOther",
        root,
    ]
    assert moved["$ref"] == {"type": "string"}
    assert made["schema"]["$defs"]["Z"]["$ref"] == f"{root}/properties/y"


def test_a_property_may_have_the_name_of_a_bound() -> None:
    schema = {"properties": {"maxLength": {"type": "string", "maxLength": 3}}, "required": ["maxLength"]}
    assert without_bounds(schema) == {"properties": {"maxLength": {"type": "string"}}, "required": ["maxLength"]}


@pytest.mark.parametrize("value", ["NaN", "[Infinity]", '{"a": -Infinity}', "1e400"])
def test_an_answer_that_no_jsonb_can_hold_is_none(value: str) -> None:
    with pytest.raises(ItemFault):
        replies.structured(f'{{"sources": [1], "answer": {value}}}', False, "none")


def test_an_answer_in_json_has_no_nul_and_its_sources_however_they_are_written() -> None:
    said = '{"sources": ["1", 2.0, 3, true, 1.5, "x", null, 1e400, NaN], "answer": {"a\\u0000b": ["c\\u0000", "\\ud800d"]}}'
    read = replies.structured(said, False, "none")
    assert (read["text"], read["sources"]) == ('{"ab": ["c", "d"]}', [1, 2, 3])


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
