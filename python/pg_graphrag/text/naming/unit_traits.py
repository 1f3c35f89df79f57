"""Units that a name consists of, how they are written, and what dictionaries say of Han and kana: for the reader of names.

A unit is a word, a sign, or a character of a script that is written without blanks. The dictionaries are jieba's for Chinese and
Sudachi's for a text that has kana, imported on first use. Where a library is not installed nothing is said.
"""

import re
from collections.abc import Callable, Iterator, Sequence
from functools import cache, lru_cache
from itertools import pairwise

from pg_graphrag.ground.errors import GraphRAGError
from pg_graphrag.ground.numeric import NDArray, np
from pg_graphrag.text.letters import simplified
from pg_graphrag.text.words.stopwords import CHINESE_SURNAMES

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
    """Return (units, `TRAITS`) numbers: features of each unit and its line that need no knowledge of words."""
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


_HAN_RUN = re.compile("[\u3400-\u9fff]+")
_RUN = re.compile("[\u3005\u3007\u3040-\u30ff\u3400-\u9fff]+")
_KANA = re.compile("[\u3041-\u30fa]")
# Classes of words: of persons, places, organisations, others with a name, nouns, verbs, qualities, numbers, the rest, unknown.
_CHINESE = {"nr": 0, "ns": 1, "nt": 2, "nz": 3, "n": 4, "v": 5, "a": 6, "m": 7, "t": 7}
_REST, _UNKNOWN = 8, 9
_JAPANESE_NAMES = {"人名": 0, "地名": 1}
_JAPANESE = {"名詞": 4, "動詞": 5, "形状詞": 6, "形容詞": 6, "接尾辞": 3}
_SPEECHES = 10
# Beside them: first, last and only character of the word, whether longer words of the dictionary begin or end here and are
# names, a family name.
WORD_CLASSES = _SPEECHES + 8
_LONGEST_ENTRY = 6
_Word = tuple[int, int, int]


def word_classes(text: str, places: Sequence[Span]) -> NDArray[np.float32]:
    """Return (units, `WORD_CLASSES`) numbers; zeros for all but Han and kana."""
    table = np.zeros((len(places), WORD_CLASSES), np.float32)
    if text.isascii() or not _RUN.search(text):
        return table
    rows = {start: number for number, (start, _) in enumerate(places)}
    is_japanese = _KANA.search(text) is not None
    read: Callable[[str], NDArray[np.float32]] = _japanese if is_japanese else _chinese
    for match in (_RUN if is_japanese else _HAN_RUN).finditer(text):
        try:
            of_run = read(match[0])
        except GraphRAGError:
            return table
        for place, values in enumerate(of_run, match.start()):
            if (row := rows.get(place)) is not None:
                table[row] = values
    return table


@lru_cache(maxsize=5_000)
def _chinese(run: str) -> NDArray[np.float32]:
    from pg_graphrag.text.words.chinese_dictionary import chinese_dictionary

    simple = simplified(run)
    dictionary = chinese_dictionary()
    table = _marked(len(run), _chinese_words(simple))
    for place, character in enumerate(simple):
        table[place, _SPEECHES + 7] = character in CHINESE_SURNAMES
        for length in range(_LONGEST_ENTRY, 1, -1):
            word = simple[place : place + length]
            if len(word) == length and dictionary.frequencies.get(word):
                table[place, _SPEECHES + 3] = length / _LONGEST_ENTRY
                end = place + length - 1
                table[end, _SPEECHES + 4] = max(table[end, _SPEECHES + 4], length / _LONGEST_ENTRY)
                if _chinese_class(word) < 4:
                    table[place, _SPEECHES + 5] = 1
                    table[end, _SPEECHES + 6] = 1
                break
    return table


def _chinese_words(run: str) -> Iterator[_Word]:
    from pg_graphrag.text.words import chinese

    start = 0
    for word in chinese.cut(run):
        yield start, start + len(word), _chinese_class(word)
        start += len(word)


def _chinese_class(word: str) -> int:
    from pg_graphrag.text.words.chinese_dictionary import chinese_dictionary

    speech = chinese_dictionary().speeches.get(word)
    if speech is None:
        return _UNKNOWN
    return _CHINESE.get(speech[:2], _CHINESE.get(speech[0], _REST))


@lru_cache(maxsize=5_000)
def _japanese(run: str) -> NDArray[np.float32]:
    from pg_graphrag.text.words import japanese

    return _marked(len(run), ((start, end, _japanese_class(speech)) for start, end, speech in japanese.cut(run)))


def _japanese_class(speech: tuple[str, ...]) -> int:
    if not speech:
        return _UNKNOWN
    if speech[1] == "固有名詞":
        return _JAPANESE_NAMES.get(speech[2], 2)
    return 7 if speech[1] == "数詞" else _JAPANESE.get(speech[0], _REST)


def _marked(length: int, words: Iterator[_Word]) -> NDArray[np.float32]:
    table = np.zeros((length, WORD_CLASSES), np.float32)
    for start, end, kind in words:
        table[start:end, kind] = 1
        table[start, _SPEECHES] = table[end - 1, _SPEECHES + 1] = 1
        table[start, _SPEECHES + 2] = end == start + 1
    return table
