"""Replies that repeat themselves are found soon, and others are not."""

import json
from pathlib import Path

import pytest
from pg_graphrag.llm.asking.replies import answer
from pg_graphrag.llm.endpoints.faults import Repetition
from pg_graphrag.llm.endpoints.repetition import RepetitionWatch, repetition

SENTENCE = "The base backup is taken with the help of pg_basebackup, which needs a replication connection. "
PROJECT = Path(__file__).parents[2]


@pytest.mark.parametrize(
    ("text", "once"),
    [
        (SENTENCE * 36, SENTENCE),
        ("\n".join(f"{number}. {SENTENCE}" for number in range(1, 30)), SENTENCE),
        ("Ace" + "-Laser" * 60, "Ace-Laser"),
        ("格納庫の航空機は日本で最も有名です。" * 20, "格納庫の航空機は日本で最も有名です。"),
        ('{"entities": [' + '{"name": "Sakura", "type": "person", "description": "A tree"}, ' * 40, "Sakura"),
        ("Done." + "\n" * 500, "Done."),
        ("!" * 500, ""),
    ],
)
def test_a_repetition_is_found_where_it_begins(text: str, once: str) -> None:
    place = repetition(text)
    assert place is not None
    assert once in text[:place]
    assert place < 2 * len(once) + 100


@pytest.mark.parametrize(
    "text",
    [
        json.dumps({"grades": [{"number": number, "grade": "incorrect"} for number in range(60)]}),
        json.dumps({"relevant": list(range(300))}),
        "\n".join(f"| {number} | yes | {number * 7 % 31} |" for number in range(100)),
        " ".join(f"Order {number} was placed by customer {number * 7}." for number in range(60)),
        "Deep blue, " * 6,
        *(path.read_text() for path in sorted((PROJECT / "docs").glob("*.md"))),
    ],
    ids=str.__len__,
)
def test_what_is_only_alike_is_none(text: str) -> None:
    assert repetition(text) is None


def test_it_is_found_within_a_hundred_words_however_the_pieces_come() -> None:
    for length in (1, 3, 17, 1000):
        watch, text = RepetitionWatch(), SENTENCE * 36
        for end in range(0, len(text), length):
            if (place := watch.feed(text[end : end + length])) is not None:
                break
        assert place is not None
        assert len(text[place : end + length].split()) < 120 + length


def test_where_it_begins_does_not_depend_on_the_pieces() -> None:
    text = "".join(f"{number} planes. " for number in range(31)) + ("\n1. One\n2. " + SENTENCE) * 40
    places = set()
    for length in (1, 2, 5, 63, 64, 1000, len(text)):
        watch = RepetitionWatch()
        fed = (watch.feed(text[start : start + length]) for start in range(0, len(text), length))
        places.add(next(place for place in fed if place is not None))
    assert places == {repetition(text)}


def test_an_answer_that_says_short_sentences_again_and_again_is_none() -> None:
    said = "Bob Stone designed it. [1]\n\n"
    with pytest.raises(Repetition) as raised:
        answer(said + "The answer is:\n[1] Bob Stone\n\n" * 4, cut_off=False)
    assert raised.value.raw == said + "The answer is:\n[1] Bob Stone\n\n"
    listed = "- Yes. [1]\n- Yes. [2]\n- Yes. [3]"
    assert answer(listed, cut_off=False)["text"] == listed
