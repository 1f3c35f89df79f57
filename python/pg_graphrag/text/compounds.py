"""Compound nouns and names in text without spaces: what Japanese and Chinese share.

A morpheme's class is one letter, a text a string of classes, a compound a regular expression:
  P name   N noun   J modifier   a prefix   s suffix   D number   L capitalised Latin word or identifier
  l Latin word   h noun that says nothing by itself   x anything else
"""

import re
from collections.abc import Iterable, Iterator
from typing import NamedTuple

from pg_graphrag.text.concepts import Concept
from pg_graphrag.text.languages import HAN, KANA
from pg_graphrag.text.stopwords import ENGLISH_FUNCTION_WORDS, ENGLISH_UNITS


class Morpheme(NamedTuple):
    """A morpheme's span in the text, its class, and how many shortest units it consists of."""

    start: int
    end: int
    letter: str
    units: int


_COMPOUND = re.compile(r"[aJ]*[NPLl](?:[aJNPLlDs]*[NPLls])?")
_CJK = f"{HAN}{KANA}"
_STRETCH = re.compile(rf"(?P<cjk>[{_CJK}]+)|(?P<latin>[^\W_{_CJK}][^\n{_CJK}、。「」『』（）！？，：；]*)|(?P<other>[^\n]|\n)")
_LATIN_WORD = re.compile(r"[A-Z][\w.+#-]*(?: [A-Z][\w.+#-]*)*|[A-Za-z][\w.+#-]*|\d[\d.,]*|\S")
_LONGEST_PHRASE, _LONGEST_NAME = 6, 40
# A Latin stretch of more words than this is English text or code inside the page, not a term in a sentence.
_LATIN_TERM = 2


def stretches(text: str) -> Iterator[tuple[str, int, int]]:
    """Yield (kind, start, end) of runs of Han and kana (``cjk``), of Latin words (``latin``), and of the rest (``other``)."""
    for match in _STRETCH.finditer(text):
        yield str(match.lastgroup), match.start(), match.end()


def latin(text: str, start: int, end: int) -> Iterator[Morpheme]:
    """Yield the words of a Latin stretch."""
    words = list(_LATIN_WORD.finditer(text, start, end))
    embedded = sum(word.group()[0].isalpha() for word in words) <= _LATIN_TERM
    for word in words:
        name = word.group().rstrip(".-+")
        stop = word.start() + len(name)
        if name[:1].isdigit():
            letter = "D"
        elif not name or not name[0].isalpha() or name.lower() in ENGLISH_FUNCTION_WORDS or len(name) > _LONGEST_NAME:
            letter = "x"
        elif name[0].isupper() or re.search(r"[_\d]|[a-z][A-Z]", name):
            letter = "x" if name.lower() in ENGLISH_UNITS else "L"
        else:
            letter = "l" if embedded else "x"
        yield Morpheme(word.start(), max(stop, word.start() + 1), letter, 1)


def compounds(text: str, morphemes: Iterable[Morpheme]) -> list[Concept]:
    """Return names and compound nouns in order of appearance; a name inside a compound is given beside it."""
    items = list(morphemes)
    # White space between two words ends a compound in neither language, a line end does.
    classes = "".join(item.letter for item in items)
    found: list[Concept] = []
    for match in _COMPOUND.finditer(classes):
        part = items[match.start() : match.end()]
        while part and part[0].letter in "sD":
            part = part[1:]
        part = part[-_LONGEST_PHRASE:]
        if not part:
            continue
        inner = [item for item in part if item.letter in "PL" and item.end - item.start > 1]
        found.extend(_concept(text, item, item, "NAME") for item in inner if len(part) > 1)
        units = sum(item.units for item in part if item.letter not in "as")
        if part[-1].end - part[0].start > _LONGEST_NAME or part[-1].end - part[0].start < 2:
            continue
        if len(part) == 1 and inner:
            found.append(_concept(text, part[0], part[0], "NAME"))
        elif units > 1 or len(part) > 2 or (len(part) == 1 and part[0].letter == "l"):
            found.append(_concept(text, part[0], part[-1], "NAME" if part[-1].letter in "PL" else "CONCEPT"))
    found.sort(key=lambda concept: (concept.start, -concept.end))
    return found


def _concept(text: str, first: Morpheme, last: Morpheme, kind: str) -> Concept:
    return Concept(" ".join(text[first.start : last.end].split()), first.start, last.end, kind)
