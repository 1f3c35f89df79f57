"""Which rows are near-duplicates, and where these go."""

import pytest
from pg_graphrag.search.contexts.best_rows import _compared, _Text
from pg_graphrag.search.query.found_chunk import FoundChunk

STORY = (
    "The Kestrel engine burns methane. It was designed in Osaka by Bob Stone, who had worked on pumps before. The first flight"
    " on the Heron launcher ended in the sea. A year later the second one reached orbit, and brought two satellites there."
)
JAPANESE = (
    "ケストレルエンジンはメタンを燃やす。大阪でボブ・ストーンが設計した。最初の飛行は海で終わった。"
    "一年後の二回目の飛行で軌道に達し、二つの衛星を運んだ。"
)


def is_twin(one: str, other: str, *, of_one_document: bool = False) -> bool:
    first = _Text(1, one)
    second = _Text(1 if of_one_document else 2, other)
    assert first.is_twin(second) == second.is_twin(first)
    return first.is_twin(second)


@pytest.mark.parametrize(
    "copy",
    [
        STORY,
        STORY.upper(),
        STORY.replace(" ", "\n"),
        STORY.replace("methane", "kerosene"),
        f"Draft of May\n\n{STORY}",
        STORY.removesuffix(" and brought two satellites there."),
        STORY.replace("e", "e\u00ad\u200b\u2060").replace("i", "i\ufe0f"),
    ],
    ids=["copy", "case", "line breaks", "a word", "a heading", "without its end", "marks that nobody sees"],
)
def test_a_copy_with_small_changes_is_a_near_duplicate(copy: str) -> None:
    assert is_twin(STORY, copy)


def test_letters_of_any_script_are_compared() -> None:
    assert is_twin(JAPANESE, JAPANESE.replace("メタン", "灯油"))
    assert not is_twin(JAPANESE, JAPANESE[::-1])


@pytest.mark.parametrize(
    ("one", "other"),
    [
        (
            "Vrba is a village in the municipality of Kraljevo, Serbia. It had a population of 1,114 people in 2002.",
            "Lug is a village in the municipality of Bajina Basta, Serbia. It had a population of 734 people in 2002.",
        ),
        (
            "article: chair A17 | colour: red | price: 20 EUR | stock: 4 | supplier: Smith & Sons",
            "article: table B3 | colour: oak | price: 90 EUR | stock: 1 | supplier: Smith & Sons",
        ),
        ("Bob Stone founded Acme.", "Bob Stone left Acme."),
        ("a b c", "a b d"),
        ("", "x"),
    ],
    ids=["villages", "rows", "short", "shorter than a shingle", "empty"],
)
def test_texts_of_one_form_that_say_different_things_are_not(one: str, other: str) -> None:
    assert not is_twin(one, other)


def test_equal_texts_are_whatever_their_length() -> None:
    assert is_twin("yes", "Yes")


def test_chunks_of_one_document_are_not() -> None:
    assert not is_twin(STORY, STORY, of_one_document=True)


def test_the_first_ranks_stay_as_they_are_however_many_rows_follow() -> None:
    texts = [STORY if n % 3 else f"{n} {JAPANESE[n:]}" for n in range(60)]
    rows = [FoundChunk(n, n, str(n), None, 0, text, 0, None, None, None, 1.0) for n, text in enumerate(texts)]
    first, twins = _compared(rows)
    for count in range(max(*first, *twins) + 1, 61):
        assert _compared(rows[:count]) == (first, twins)
