"""What a model says of a question, read tolerantly."""

import json

import pytest
from pg_graphrag.llm.asking import replies
from pg_graphrag.llm.endpoints.faults import ItemFault

WHOLE = {"low_level_keywords": ["Ada"], "high_level_keywords": ["notes"], "entities": ["Ada"], "answer_types": ["work"]}
TEXT = json.dumps(WHOLE)


@pytest.mark.parametrize(
    "text",
    [
        TEXT,
        f"Here you are:\n```json\n{TEXT}\n```\nAnything else?",
        TEXT.replace("]}", "],}").replace('"]', '",]'),
        f"<think>The user asks {{something}}.</think>\n{TEXT}",
        TEXT.replace("low_level_keywords", "Low_Level_Keywords"),
        TEXT.replace('["Ada"]', '"Ada"'),
        '{"note": {"low_level_keywords": 1}} is wrong; ' + TEXT,
    ],
)
def test_keywords_are_found_in_what_models_say(text: str) -> None:
    assert replies.keywords(text, False) == {**WHOLE, "question": None}


@pytest.mark.parametrize(
    "text",
    [
        "I cannot find any keywords.",
        "<html><body>{}</body></html>",
        "{}",
        TEXT[:40],
        '{"low_level_keywords": 7, "high_level_keywords": null}',
        '{"low_level_keywords": [], "high_level_keywords": [], "entities": []}',
        "[" * 5000,
        '{"a":' * 2000,
        "",
    ],
)
def test_anything_else_is_a_fault_of_the_item(text: str) -> None:
    with pytest.raises(ItemFault):
        replies.keywords(text, False)


def test_other_systems_names_are_read() -> None:
    keywords = replies.keywords('{"high_level": "a, b", "ll_keywords": ["c"], "entities_from_query": ["d"]}', False)
    assert (keywords["high_level_keywords"], keywords["low_level_keywords"], keywords["entities"]) == (
        ["a", "b"],
        ["c"],
        ["d"],
    )


def test_what_postgresql_cannot_hold_is_left_out_and_loops_are_cut() -> None:
    looping = json.dumps({"low_level_keywords": ["a\0b", "\ud83d", 7, None, {"name": "n"}, *map(str, range(500))]})
    keywords = replies.keywords(looping, False)["low_level_keywords"]
    assert keywords[:3] == ["ab", "7", "n"]
    assert len(keywords) == replies.MAX_KEYWORDS
    json.dumps(keywords).encode()
