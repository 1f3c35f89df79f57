"""What dictionaries say of Han and kana: in which word each character stands, and of what class that is, for the reader of names.

jieba's dictionary for Chinese, Sudachi's for a text that has kana, imported on first use. Where a library is not installed
nothing is said.
"""

import re
from collections.abc import Callable, Iterator, Sequence
from functools import lru_cache

from pg_graphrag.ground.errors import GraphRAGError
from pg_graphrag.ground.numeric import NDArray, np
from pg_graphrag.text.letters import simplified
from pg_graphrag.text.naming.spelling import Span
from pg_graphrag.text.words.stopwords import CHINESE_SURNAMES

_HAN_RUN = re.compile("[\u3400-\u9fff]+")
_RUN = re.compile("[\u3005\u3007\u3040-\u30ff\u3400-\u9fff]+")
_KANA = re.compile("[\u3041-\u30fa]")
# Classes of words: of persons, places, organisations, others with a name, nouns, verbs, qualities, numbers, the rest, unknown.
_CHINESE = {"nr": 0, "ns": 1, "nt": 2, "nz": 3, "n": 4, "v": 5, "a": 6, "m": 7, "t": 7}
_REST, _UNKNOWN = 8, 9
_JAPANESE_NAMES = {"人名": 0, "地名": 1}
_JAPANESE = {"名詞": 4, "動詞": 5, "形状詞": 6, "形容詞": 6, "接尾辞": 3}
_CLASSES = 10
# Beside them: first, last and only character of the word, whether longer words of the dictionary begin or end here and are
# names, a family name.
WORD_CLASSES = _CLASSES + 8
_LONGEST = 6
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
        table[place, _CLASSES + 7] = character in CHINESE_SURNAMES
        for length in range(_LONGEST, 1, -1):
            word = simple[place : place + length]
            if len(word) == length and dictionary.frequencies.get(word):
                table[place, _CLASSES + 3] = length / _LONGEST
                end = place + length - 1
                table[end, _CLASSES + 4] = max(table[end, _CLASSES + 4], length / _LONGEST)
                if _chinese_class(word) < 4:
                    table[place, _CLASSES + 5] = 1
                    table[end, _CLASSES + 6] = 1
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
        table[start, _CLASSES] = table[end - 1, _CLASSES + 1] = 1
        table[start, _CLASSES + 2] = end == start + 1
    return table
