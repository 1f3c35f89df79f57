"""What names and sentences share with a query."""

import pytest
from pg_graphrag.text.shared_words import SharedWords, joined

pytest.importorskip("opencc")


def test_a_name_scores_by_the_share_of_its_letters() -> None:
    words = SharedWords({"kestrel": 4.0, "engin": 2.0})
    assert words.of_name("Kestrel engine") == 1.0
    assert words.of_name("kestrel rocket") == pytest.approx(7 / 13)
    assert words.of_name("rocket") == words.of_name("…") == 0.0


def test_words_that_are_not_spaced_are_found_anywhere_and_spaced_ones_at_the_start_of_a_word() -> None:
    words = SharedWords({"削減": 1.0, "art": 1.0})
    assert words.shares_of_query(["コスト削減率", "the arts", "a part", ""]).tolist() == [0.5, 0.5, 0.0, 0.0]


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
