"""Words in one run of bytes, beside the dictionary that they were packed from."""

from pathlib import Path

from pg_graphrag.text.packed_words import PackedWords, packed

WORDS = {f"{stem}{number}": [(number, -number / 7), (-1, 0.0)] for number in range(500) for stem in ("a", "ß", "語")}
WORDS |= {"": [(3, -1.5)], "none": [], "whole": [(1, -1e300)], "wholemeal": [(2, -3.0)]}


def test_they_are_what_was_packed(tmp_path: Path) -> None:
    (tmp_path / "words").write_bytes(packed(WORDS))

    for words in (PackedWords(packed(WORDS)), PackedWords.mapped(tmp_path / "words")):
        assert words == WORDS
        assert [*words] == [*WORDS] and len(words) == len(WORDS)
        assert [words[word] for word in WORDS] == [*WORDS.values()]


def test_what_is_not_there_is_not_found() -> None:
    words = PackedWords(packed(WORDS))

    for other in ("b", "a500", "語", "whol", "wholemeals", "a\0", "half \ud83d"):
        assert other not in words and words.get(other) is None and words.pairs(other) is None
    assert "a" not in PackedWords(packed({}))


def test_all_words_that_begin_somewhere() -> None:
    words = PackedWords(packed(WORDS))

    assert words.begun("ein wholemeal", 4) == {9: WORDS["whole"], 13: WORDS["wholemeal"]}
    assert words.begun("ein wholemeal", 5) == {}
    assert words.begun("語12", 0) == {2: WORDS["語1"], 3: WORDS["語12"]}
    assert words.begun("half \ud83d", 0) == {}
