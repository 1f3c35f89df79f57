"""How the words of a text are written: units that a name consists of, and their traits, for the reader of names.

A unit is a word, a sign, or a character of a script that is written without blanks.
"""

import re
from collections.abc import Sequence
from functools import cache
from itertools import pairwise

from pg_graphrag.ground.numeric import NDArray, np

Span = tuple[int, int]

_CJK = (
    "\u3005\u3007\u3040-\u30ff\u31f0-\u31ff\u3400-\u4dbf\u4e00-\u9fff\uac00-\ud7a3\uf900-\ufaff\uff66-\uff9f"
    "\U00020000-\U0003ffff"
)
# Marks behind letters belong to their word.
_MARKS = "\u0300-\u036f\u0591-\u05c7\u064b-\u065f\u0670\u0900-\u0903\u093a-\u094f\u0e31\u0e34-\u0e3a\u0e47-\u0e4e\u200c\u200d"
_ASCII_UNIT = re.compile(r"[^\W_]+|\S")

_SENTENCE_ENDS, _COMMAS, _QUOTES = ".!?。！？…", ",、，;；:：", "\"'“”‘’«»„‚「」『』《》〈〉"
_BRACKETS, _JOINTS = "()[]（）【】{}", "-–—/・·_&+’'"
_TITLE_OPENS, _TITLE_ENDS = "『《", "』》"
_QUOTE_OPENS, _QUOTE_ENDS = "「“«„〈", "」”»“〉"
_HIRAGANA, _KATAKANA, _HAN, _HANGUL, _DIGIT, _CAPITALS, _CAPITALISED, _CAMEL, _INNER_CAPITAL, _SMALL = range(10)
_END, _COMMA, _QUOTE, _BRACKET, _JOINT, _OTHER = range(10, 16)
_CLASSES = 16
_SIGNS = {
    **dict.fromkeys(_JOINTS, _JOINT),
    **dict.fromkeys(_BRACKETS, _BRACKET),
    **dict.fromkeys(_QUOTES, _QUOTE),
    **dict.fromkeys(_COMMAS, _COMMA),
    **dict.fromkeys(_SENTENCE_ENDS, _END),
}
_WORDS = (_CAPITALS, _CAPITALISED, _CAMEL, _INNER_CAPITAL, _SMALL)
_LONGEST = 12
TRAITS = _CLASSES + 17


def units(text: str) -> list[Span]:
    """Return the places of the units of a text."""
    unit = _ASCII_UNIT if text.isascii() else _unit()
    return [match.span() for match in unit.finditer(text)]


@cache
def _unit() -> re.Pattern[str]:
    """Compiled on first use: that takes three milliseconds."""
    return re.compile(rf"[{_CJK}][\u3099\u309a]?|[^\W_{_CJK}](?:[^\W_{_CJK}]|[{_MARKS}])*|\S")


def _class(unit: str) -> int:
    first = unit[0]
    if (sign := _SIGNS.get(first)) is not None:
        return sign
    if (first.isascii() and first.isalpha()) or not "\u3005" <= first <= "\uffff":
        return _word_class(unit)
    if "\u3400" <= first <= "\u9fff" or first <= "\u3007" or "\uf900" <= first <= "\ufaff":
        return _HAN
    if "\u3040" <= first <= "\u309f":
        return _HIRAGANA
    if "\u30a0" <= first <= "\u31ff" or "\uff66" <= first <= "\uff9f":
        return _KATAKANA
    return _HANGUL if "\uac00" <= first <= "\ud7a3" else _word_class(unit)


def _word_class(unit: str) -> int:
    first = unit[0]
    if first.isdigit():
        return _DIGIT
    if not first.isalpha():
        return _OTHER
    if first >= "\U00020000":
        return _HAN
    if unit.isupper() and len(unit) > 1:
        return _CAPITALS
    rest_is_small = unit[1:] == unit[1:].lower()
    if first.isupper():
        return _CAPITALISED if rest_is_small else _CAMEL
    return _SMALL if rest_is_small else _INNER_CAPITAL


def traits(text: str, places: Sequence[Span]) -> NDArray[np.float32]:
    """Return (units, `TRAITS`) numbers: what is to be seen of each unit and its line without knowing any word."""
    classes = [_class(text[start:end]) for start, end in places]
    words = [text[start:end] for start, end in places]
    counts: dict[str, int] = {}
    for word in words:
        counts[word] = counts.get(word, 0) + 1
    table = np.zeros((len(places), TRAITS), np.float32)
    lines = _lines(text, places)
    in_title = in_quote = False
    for line, (first, last) in enumerate(lines):
        alphabetic = [kind for kind in classes[first:last] if kind in _WORDS]
        large = sum(kind != _SMALL for kind in alphabetic) / max(len(alphabetic), 1)
        capitals = alphabetic.count(_CAPITALS) / max(len(alphabetic), 1)
        for number in range(first, last):
            (start, end), kind, word = places[number], classes[number], words[number]
            if word in _TITLE_ENDS:
                in_title = False
            elif word in _QUOTE_ENDS:
                in_quote = False
            row = table[number]
            row[kind] = 1
            row[_CLASSES:] = (
                number == first or classes[number - 1] == _END,
                number == first,
                number == last - 1,
                number > first and places[number - 1][1] < start,
                number + 1 < last and end < places[number + 1][0],
                min(end - start, _LONGEST) / _LONGEST,
                large,
                capitals,
                line == 0 and len(lines) > 1,
                in_title,
                in_quote,
                counts[word] > 1,
                kind in (_CAPITALS, _CAPITALISED) and word.lower() in counts,
                kind == _SMALL and word.capitalize() in counts,
                kind in _WORDS and word[-1].isdigit(),
                end - start == 1,
                last - first < _LONGEST,
            )
            if word in _TITLE_OPENS:
                in_title = True
            elif word in _QUOTE_OPENS:
                in_quote = True
        in_title = in_quote = False
    return table


def _lines(text: str, places: Sequence[Span]) -> list[Span]:
    """Return the first unit, and the one behind the last, of each line."""
    breaks = [
        number for number, (before, after) in enumerate(pairwise(places), 1) if "\n" in text[before[1] : after[0]]
    ]
    return list(pairwise([0, *breaks, len(places)])) if places else []
