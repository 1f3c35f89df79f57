"""What names and sentences share with a query."""

import time

import pytest
from pg_graphrag.search.retrievers.lexical import SharedWords, joined

pytest.importorskip("opencc")


def test_a_name_scores_by_the_share_of_its_letters() -> None:
    words = SharedWords({"kestrel": 4.0, "engin": 2.0})
    assert words.of_name("Kestrel engine") == 1.0
    assert words.of_name("kestrel rocket") == pytest.approx(7 / 13)
    assert words.of_name("rocket") == words.of_name("…") == 0.0


def test_words_that_are_not_spaced_are_found_anywhere_and_spaced_ones_at_the_start_of_a_word() -> None:
    words = SharedWords({"削減": 1.0, "art": 1.0})
    assert words.shares_of_query(["コスト削減率", "the arts", "a part", ""]).tolist() == [0.5, 0.5, 0.0, 0.0]


def test_a_form_is_at_the_start_of_a_later_word_or_of_another_text() -> None:
    words = SharedWords({"art": 1.0})
    texts = ["part art", "part_art", "part", "art", "", "start-art art art", "smart\nart"]
    assert words.shares_of_query(texts).tolist() == [1.0, 1.0, 0.0, 1.0, 0.0, 1.0, 1.0]


def test_lexemes_that_stand_in_a_text_are_left_out() -> None:
    words = SharedWords({"kestrel": 4.0, "engin": 2.0, "削減": 1.0, "art": 1.0}).without("Kestrel part\nコスト削減")
    assert words.shares_of_query(["kestrel, 削減", "engine", "art", "an art of engines"]).tolist() == [
        0.0,
        2 / 3,
        1 / 3,
        1.0,
    ]
    assert SharedWords({"art": 1.0}).without("the arts").shares_of_query(["art"]).tolist() == [0.0]


@pytest.mark.parametrize("text", ["art ", "art", "part"])
def test_a_form_that_occurs_a_million_times_is_looked_for_once_in_a_text_and_a_word(text: str) -> None:
    """Nothing can cancel the search: it must be short."""
    words, hostile = SharedWords({"art": 1.0, "art" * 100: 1.0}), text * 1_000_000
    start = time.process_time()
    words.shares_of_query([hostile] * 3 if text != "part" else [hostile])
    assert time.process_time() - start < 0.6


def test_a_query_without_words_shares_nothing() -> None:
    assert SharedWords({}).shares_of_query(["anything"]).tolist() == [0.0] == [SharedWords({}).of_name("anything")]


@pytest.mark.parametrize(
    ("name", "other"),
    [
        ("LazyGraphRAG", "Lazy GraphRAG"),
        ("BM25検索", "ＢＭ２５ 検索"),
        ("神戸", "神户"),
        ("臺灣", "台湾"),
        ("write-ahead log", "Write Ahead Log"),
    ],
)
def test_a_name_written_otherwise_is_the_same_joined(name: str, other: str) -> None:
    assert joined(name) == joined(other)


def test_vowels_that_are_marks_are_letters_of_a_word() -> None:
    words = SharedWords({"लाल": 1.0, "किला": 1.0})
    assert words.of_name("लाल किला") == 1.0
    assert words.of_name("लाल मेला") == pytest.approx(3 / 7)
    assert joined("मेला") != joined("माला")


def test_a_lone_letter_of_a_script_with_marks_says_no_name() -> None:
    # What the stemmer makes of pairs of letters.
    words = SharedWords({"ल": 1.0, "क": 1.0, "न": 1.0, "강": 1.0})
    assert words.of_name("नक़ल करना") == 0.0
    assert words.of_name("한강") == 0.5
