"""Cuts documents into chunks of a maximum number of tokens, where a reader would cut; and chunks into windows for
embedding models.
"""

from __future__ import annotations

import re
import unicodedata
from bisect import bisect_left
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING

from pg_graphrag.ground.errors import GraphRAGError
from pg_graphrag.ground.numeric import np
from pg_graphrag.text.languages import HAN, KANA
from pg_graphrag.text.outline import Outline
from pg_graphrag.text.sentences import LINE, PARAGRAPH, SENTENCE, ends

if TYPE_CHECKING:
    from pg_graphrag.text.tokenizers import Tokenizer


@dataclass(frozen=True, slots=True)
class Chunk:
    """One chunk: ``text[start:end]``, where ``text[start:own_start]`` repeats the end of the chunk before."""

    ordinal: int
    start: int
    end: int
    own_start: int
    token_count: int


# White space and unknown words can make very long stretches of very few tokens; no chunk is longer than this.
_CHARACTERS_PER_TOKEN = 16
# A section or paragraph end is taken when the chunk is at least half full, a sentence or line end when a third, before a word is.
_PARAGRAPH_FROM, _SENTENCE_FROM = 1 / 2, 1 / 3
_SECTION = PARAGRAPH + 1
_ITEM = re.compile(r"(?:[-*+•]|\d{1,4}[.)])[ \t]")
_RULE = re.compile(r"\|?(?: ?:?-{3,}:? ?\|)+ ?(?::?-{3,}:?)?[ \t]*(?=\n|\Z)")
# A line that is longer is no row of a table.
_MAX_ROW = 4000
_SMALLEST = 16
_SPACE = re.compile(r"\s+")
_JOINER = "\u200d"
# Skin tones.
_MODIFIERS = "\U0001f3fb\U0001f3fc\U0001f3fd\U0001f3fe\U0001f3ff"


def chunk(text: str, tokenizer: Tokenizer, size: int = 1200, overlap: int = 100) -> Iterator[Chunk]:
    """Yield the chunks of `text`, each of at most `size` tokens, each beginning with about `overlap` tokens of the one before.

    A chunk ends before the last heading that leaves it at least half full, else at a paragraph end, else at a sentence
    end or list item, a line end, a word, and only then inside a word; never inside a character and its combining marks,
    nor inside a block of code that fits in a chunk, a row of a table, or right behind a heading or the heads of a table,
    if it can end elsewhere. A chunk that begins with a heading repeats nothing. Tokens are counted in the
    context of the whole text; one that a cut goes through counts for both sides. The text is tokenised as far as a
    chunk needs it: each takes a few ten milliseconds, however long the text. ``"".join(text[c.own_start:c.end])``
    over the chunks is the text, whatever the script. A text without any character has no chunks.

    `size`, `overlap`: in tokens; ``overlap`` at most half of ``size``, ``size`` at least 16.

    Raises GraphRAGError: 22023 when the sizes do not fit each other.
    """
    if size < _SMALLEST or not 0 <= overlap <= size // 2:
        raise GraphRAGError(
            f"chunks of {size} tokens cannot overlap by {overlap}",
            hint=f"Give a size of at least {_SMALLEST} tokens, and an overlap of at most half of it.",
        )
    # Most texts of attached rows are: where their tokens are need not be known.
    if 0 < len(text) <= size and (count := tokenizer.count(text)) <= size:
        return iter((Chunk(0, 0, len(text), 0, count),))
    return _chunks(text, _Tokens(tokenizer, text, size * _CHARACTERS_PER_TOKEN), size, overlap)


def _chunks(text: str, tokens: _Tokens, size: int, overlap: int) -> Iterator[Chunk]:
    own_start = start = ordinal = 0
    outline = Outline(text)
    while own_start < len(text):
        tokens.read(start)
        limit = tokens.latest_end(start, size)
        end = (
            len(text)
            if limit >= len(text)
            else _cut(
                text, own_start, max(limit, own_start + 1), outline, lambda span: tokens.count(*span) <= size - overlap
            )
        )
        piece = Chunk(ordinal, start, end, own_start, tokens.count(start, end))
        yield piece
        if end == len(text):
            return
        begins_section = bool(outline.headings(end, end + 1))
        start = end if begins_section else _overlap_start(text, tokens, piece, overlap)
        own_start = end
        ordinal += 1


def token_counts(text: str, tokenizer: Tokenizer, spans: Sequence[tuple[int, int]]) -> Iterator[int]:
    """Yield the tokens of stretches of a text, by ascending starts, as chunks count them: in the context of the whole."""
    tokens = _Tokens(tokenizer, text, max((end - start for start, end in spans), default=0))
    for start, end in spans:
        tokens.read(start)
        yield tokens.count(start, end)


class _Tokens:
    """The tokens of a part of a text that moves on with `read`, addressed by position."""

    def __init__(self, tokenizer: Tokenizer, text: str, longest: int):
        self._stretches = tokenizer.stretches(text)
        self._starts = self._ends = np.zeros(0, np.int64)
        self._stretch_end, self._length, self._longest = 0, len(text), longest

    def read(self, start: int) -> None:
        """Tokenise as far as a chunk that begins at `start` can reach, and forget what ends before it."""
        while self._stretch_end < min(self._length, start + self._longest):
            first = int(np.searchsorted(self._ends, start, "right"))
            self._stretch_end, starts, token_ends = next(self._stretches)
            self._starts = np.concatenate([self._starts[first:], starts])
            self._ends = np.concatenate([self._ends[first:], token_ends])

    def count(self, start: int, end: int) -> int:
        """Return the number of tokens that overlap ``[start, end)``."""
        return max(0, int(np.searchsorted(self._starts, end) - np.searchsorted(self._ends, start, "right")))

    def latest_end(self, start: int, count: int) -> int:
        """Return the largest end with at most `count` tokens, and not too many characters, in ``[start, end)``."""
        index = int(np.searchsorted(self._ends, start, "right")) + count
        end = int(self._starts[index]) if index < len(self._starts) else self._length
        return min(end, start + self._longest)

    def earliest_start(self, end: int, count: int) -> int:
        """Return the smallest start with at most `count` tokens, and not too many characters, in ``[start, end)``."""
        index = int(np.searchsorted(self._starts, end)) - count - 1
        start = int(self._ends[index]) if index >= 0 else 0
        return max(start, end - self._longest // 2)


def _cut(text: str, own_start: int, limit: int, outline: Outline, fits: Callable[[tuple[int, int]], bool]) -> int:
    """Return where a chunk whose own text begins at `own_start` ends, at most at `limit`."""
    length = limit - own_start
    # An end at the limit can only be seen with the text after it.
    horizon = min(len(text), limit + 1)
    positions = [
        (min(position, limit), strength)
        for position, strength in ends(text, own_start + int(length * _SENTENCE_FROM), horizon)
    ]

    def code_around(position: int) -> tuple[int, int] | None:
        span = outline.code_around(position, length)
        return span if span is not None and fits(span) else None

    positions = [end for end in _structured(text, own_start, limit, positions, outline) if code_around(end[0]) is None]
    shares = (
        (_SECTION, _PARAGRAPH_FROM),
        (PARAGRAPH, _PARAGRAPH_FROM),
        (SENTENCE, _SENTENCE_FROM),
        (0, _SENTENCE_FROM),
    )
    for weakest, share in shares:
        for position, strength in reversed(positions):
            if strength >= weakest and position - own_start >= share * length:
                return position
    code = code_around(limit)
    if code is not None and code[0] > own_start:
        return code[0]
    # Lines of code are never wrapped prose.
    line_end = text.rfind("\n", own_start + int(length * _SENTENCE_FROM), limit) if outline.is_code(limit) else -1
    return line_end + 1 if line_end >= 0 else _word_end(text, own_start, limit)


def _structured(
    text: str, own_start: int, limit: int, positions: list[tuple[int, int]], outline: Outline
) -> Iterator[tuple[int, int]]:
    """Yield the ends that part nothing that belongs together, those before headings and list items as the stronger ones."""
    headings = outline.headings(own_start, limit + 1)
    starts = [heading.start for heading in headings]
    for position, strength in positions:
        index = bisect_left(starts, position)
        # Right behind a heading, also where that one is followed by another.
        if index and headings[index - 1].start < position and not text[headings[index - 1].end : position].strip():
            continue
        if index < len(starts) and starts[index] == position:
            yield position, _SECTION
            continue
        line_start = text.rfind("\n", max(own_start, position - _MAX_ROW), position) + 1
        if line_start < position and text[line_start:position].lstrip().startswith("|"):
            continue
        if line_start == position:
            before = text.rfind("\n", max(own_start, position - _MAX_ROW), position - 1) + 1
            if _RULE.match(text, position) or _RULE.match(text, before):
                continue
            if strength == LINE and _ITEM.match(text, position):
                yield position, SENTENCE
                continue
        yield position, strength


def _word_end(text: str, own_start: int, limit: int) -> int:
    if limit < len(text) and text[limit - 1].isspace():
        return limit
    spaces = deque(_SPACE.finditer(text, own_start + (limit - own_start) // 2, limit), maxlen=1)
    return spaces[0].end() if spaces else _character_end(text, own_start, limit)


def _character_end(text: str, own_start: int, limit: int) -> int:
    """Return the last position up to `limit` that does not tear marks, joiners or a line end off their character."""
    for position in range(limit, max(own_start, limit - 16), -1):
        if position >= len(text):
            return position
        following, preceding = text[position], text[position - 1]
        if (
            unicodedata.category(following) not in ("Mn", "Me", "Mc")
            and following not in _MODIFIERS
            and _JOINER not in (preceding, following)
            and not (preceding == "\r" and following == "\n")
        ):
            return position
    return limit


def _overlap_start(text: str, tokens: _Tokens, previous: Chunk, overlap: int) -> int:
    """Return where the repeated end of `previous` begins: at a sentence if one begins there, else at a word."""
    if overlap == 0:
        return previous.end
    earliest = max(tokens.earliest_start(previous.end, overlap), previous.start)
    for position, _ in ends(text, earliest, previous.end):
        # Some text must be left to repeat.
        if earliest < position <= earliest + 2 * (previous.end - earliest) // 3:
            return position
    space = _SPACE.search(text, earliest, previous.end)
    if space is not None and space.end() < previous.end:
        return space.end()
    return min(_character_start(text, earliest, previous.end), previous.end)


def _character_start(text: str, earliest: int, end: int) -> int:
    for position in range(earliest, min(end, earliest + 16)):
        if position == 0 or _character_end(text, position - 1, position) == position:
            return position
    return end


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

    Returns (start, end) of spans in characters of `text` that partition ``[start, end)``, cut at sentence or line ends if
    one is near, else between words, else anywhere; a short rest at the end joins the window before it. One window for a
    short text, none for an empty one.
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
