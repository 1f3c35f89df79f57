"""Chunks into windows: stretches short enough for an embedding model (docs/decisions/text.md)."""

import re
from collections.abc import Iterator
from functools import cache

from pg_graphrag.text.languages import HAN, KANA
from pg_graphrag.text.sentences import PARAGRAPH, ends

# Sizes in half words: a word or a mark of a spaced script is 2, a Han, kana, Hangul or Thai character 1, so that a
# window is about 60 to 120 words or 120 to 240 characters, within the 256 tokens of a small embedding model. Long words
# count once per ten letters.
_LEAST, _MOST, _MOST_WITH_REST = 120, 240, 300
_WIDE = f"{HAN}{KANA}\uac00-\ud7a3\u0e01-\u0e5b"
_WORD = rf"[^\W_{_WIDE}]{{1,10}}|[^\w\s]|_"


@cache
def _patterns() -> tuple[re.Pattern[str], re.Pattern[str], re.Pattern[str]]:
    """Return the patterns of a wide character, a word and either: compiled on first use, as that takes 4 ms."""
    return re.compile(f"[{_WIDE}]"), re.compile(_WORD), re.compile(f"{_WORD}|[{_WIDE}]")


def windows(text: str, start: int, end: int, language: str) -> list[tuple[int, int]]:
    """Cut ``text[start:end]`` into windows of about 60 to 120 words (Japanese, Chinese: 120 to 240 characters).

    Returns
    -------
    list of (start, end)
        Spans in characters of `text` that partition ``[start, end)``, cut at sentence or line ends where one is near,
        else between words, else anywhere; what is left over at the end and short joins the window before it. One
        window where the stretch is short, none where it is empty.
    """
    spans: list[tuple[int, int]] = []
    window_start = piece_start = start
    size = 0
    for piece_end, piece_size, strength in _pieces(text, start, end, language):
        if size and size + piece_size > _MOST:
            spans.append((window_start, piece_start))
            window_start, size = piece_start, 0
        size += piece_size
        piece_start = piece_end
        # A paragraph is a better end than the last sentence that fits.
        if strength == PARAGRAPH and size >= _LEAST:
            spans.append((window_start, piece_end))
            window_start, size = piece_end, 0
    if window_start < end:
        if spans and size < _LEAST and half_words(text, *spans[-1]) + size <= _MOST_WITH_REST:
            window_start = spans.pop()[0]
        spans.append((window_start, end))
    return spans


def _pieces(text: str, start: int, end: int, language: str) -> Iterator[tuple[int, int, int]]:
    """Yield (end, size, strength) of stretches without a sentence or line end, none larger than a window."""
    cuts = ends(text, start, end, language)
    if not cuts or cuts[-1][0] < end:
        cuts.append((end, 0))
    for cut, strength in cuts:
        size = half_words(text, start, cut)
        if size > _MOST:
            for middle, part in _breaks(text, start, cut):
                yield middle, part, 0
                size -= part
        yield cut, size, strength
        start = cut


def _breaks(text: str, start: int, end: int) -> Iterator[tuple[int, int]]:
    """Yield (position, size before it) where to cut a sentence larger than a window: at spaces, else anywhere."""
    wide_character, _, unit = _patterns()
    size, gap, gap_size = 0, start, 0
    for match in unit.finditer(text, start, end):
        position = match.start()
        weight = 1 if wide_character.match(text, position) else 2
        if text[position - 1].isspace() or text[position - 1] in "、，,;；":
            gap, gap_size = position, size
        if size + weight > _MOST:
            if gap_size < _LEAST:
                gap, gap_size = position, size
            yield gap, gap_size
            size, gap_size = size - gap_size, 0
        size += weight


def half_words(text: str, start: int, end: int) -> int:
    """Return the size of ``text[start:end]`` in half words."""
    wide_character, word, _ = _patterns()
    return 2 * len(word.findall(text, start, end)) + len(wide_character.findall(text, start, end))
