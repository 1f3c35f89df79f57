"""How much a short text, such as a name or a sentence, shares with a query: by the lexemes that stand in it."""

import re
from bisect import bisect_right
from collections.abc import Iterator, Mapping
from functools import lru_cache
from itertools import accumulate

from pg_graphrag.ground.numeric import Scores, np
from pg_graphrag.text.languages import LETTER_OF_A_WORD, UNANALYSED
from pg_graphrag.text.letters import unified, unified_text

_WORD = re.compile(f"{LETTER_OF_A_WORD}+")
# What a stemmer leaves of a pair of letters (ला) stands in most names. A syllable of Hangul is a word.
_LONE_LETTER = re.compile(rf"(?![\uac00-\ud7a3])[{UNANALYSED}]")
_GAP = re.compile(r"[\W_]")


class SharedWords:
    """The lexemes of a query with their weights, to be looked for in texts.

    A lexeme in Latin letters stands where a word begins with it, as stems do; one in other scripts anywhere, as words there
    are not spaced.
    """

    def __init__(self, weights: Mapping[str, float]) -> None:
        spaced: dict[str, float] = {}
        unspaced: dict[str, float] = {}
        for lexeme, weight in weights.items():
            form = _unified(lexeme)
            # English stems end in i where words end in y.
            if form.isascii():
                form = form[:-1] if len(form) > 3 and form.endswith("i") else form
                spaced[form] = max(weight, spaced.get(form, 0.0))
            elif form and not _LONE_LETTER.fullmatch(form):
                unspaced[form] = max(weight, unspaced.get(form, 0.0))
        self._set(spaced, unspaced, sum(weights.values()))

    def _set(self, spaced: dict[str, float], unspaced: dict[str, float], total: float) -> None:
        self._spaced, self._unspaced, self._total = spaced, unspaced, total
        self._beginnings = tuple(spaced)

    def without(self, text: str) -> "SharedWords":
        """Return the lexemes that do not stand in a text."""
        unified = _unified(text)
        spaced, unspaced = (
            {
                form: weight
                for form, weight in lexemes.items()
                if next(_having(form, unified, [0, len(unified) + 1], at_beginnings=at_beginnings), None) is None
            }
            for lexemes, at_beginnings in ((self._spaced, True), (self._unspaced, False))
        )
        rest = SharedWords({})
        rest._set(spaced, unspaced, sum(spaced.values()) + sum(unspaced.values()))
        return rest

    def shares_of_query(self, texts: list[str]) -> Scores:
        """Return the share of the query's weight that stands in each text, (n,) float64 in 0 … 1."""
        shares = np.zeros(len(texts))
        if not self._total:
            return shares
        # One search for each lexeme in all texts costs less than one for each lexeme and text.
        unified = list(map(_unified, texts))
        joined = "\n".join(unified)
        starts = list(accumulate((len(text) + 1 for text in unified), initial=0))
        for lexemes, at_beginnings in ((self._spaced, True), (self._unspaced, False)):
            for form, weight in lexemes.items():
                shares[list(_having(form, joined, starts, at_beginnings=at_beginnings))] += weight
        return np.minimum(shares / self._total, 1.0)

    def of_name(self, name: str) -> float:
        """Return the share of a name's letters that the query says, 0 … 1."""
        words, letters = _words(name)
        if not self._unspaced:  # a search looks at hundreds of names
            words_said = [word for word in words if word.startswith(self._beginnings)]
            return len("".join(words_said)) / (len(letters) or 1)
        text = unified(name)
        is_said = bytearray(len(text))
        for form in self._unspaced:
            start = text.find(form)
            while start >= 0:
                is_said[start : start + len(form)] = b"\1" * len(form)
                start = text.find(form, start + 1)
        for word in _WORD.finditer(text):
            if word.group().startswith(self._beginnings):
                is_said[word.start() : word.end()] = b"\1" * len(word.group())
        return sum(is_said) / (len(letters) or 1)


def _unified(text: str) -> str:
    return text.casefold() if text.isascii() else unified_text(text)


def joined(name: str) -> str:
    """Return a name without what separates its words, unified: LazyGraphRAG and Lazy GraphRAG are one."""
    return _words(name)[1]


@lru_cache(1000)
def _words(name: str) -> tuple[tuple[str, ...], str]:
    """Return the words of a name, unified, and these as one: the same names are near most questions of a session."""
    words = tuple(_WORD.findall(_unified(name)))
    return words, "".join(words)


def _having(form: str, texts: str, starts: list[int], *, at_beginnings: bool) -> Iterator[int]:
    """Yield the numbers of the texts that have a form, `at_beginnings` of words or anywhere.

    A text is searched to the first, and a word once: hostile texts have a form a million times.

    Parameters
    ----------
    texts : one after the other, a line break between two.
    starts : where each begins, and the end.
    """
    place = texts.find(form)
    while place >= 0:
        if at_beginnings and place and texts[place - 1].isalnum():
            gap = _GAP.search(texts, place)
            place = texts.find(form, gap.end()) if gap else -1
            continue
        number = bisect_right(starts, place) - 1
        yield number
        place = texts.find(form, starts[number + 1])
