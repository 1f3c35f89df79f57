"""Compound nouns and names in text without spaces: what Japanese and Chinese share.

A morpheme's class is one letter, a text a string of classes, a compound a regular expression:
  P name   N noun   J modifier   a prefix   s suffix   e end of a name (寺, 駅)   D number
  L capitalised Latin word or identifier   l Latin word   x anything else
"""

import re
from collections.abc import Callable, Iterator
from dataclasses import astuple
from typing import NamedTuple

from pg_graphrag.text import english
from pg_graphrag.text.concepts import Concept
from pg_graphrag.text.languages import HAN, KANA
from pg_graphrag.text.stopwords import ENGLISH_FUNCTION_WORDS, ENGLISH_UNITS
from pg_graphrag.text.variants import narrow


class Morpheme(NamedTuple):
    """A morpheme's span, its class, and how many shortest units it consists of."""

    start: int
    end: int
    letter: str
    units: int


_COMPOUND = re.compile(r"(?:aD|[aJ])*[NPLl](?:[aJNPLlDse]*[NPLlse])?")
# A product and its version: "プレイステーション5", "PostgreSQL 17".
_NUMBERED = re.compile(r"[PL]D")
# Titles of works. 「」 quote speech too: such a quotation is a name only where all its words are nouns.
_TITLE = re.compile(r"『([^『』\n。]{2,40})』|《([^《》\n。]{2,40})》")
_QUOTED = re.compile(r"「[^「」\n。、]{2,20}」")
_CJK = f"{HAN}{KANA}"
_STRETCH = re.compile(
    rf"(?P<cjk>[{_CJK}]+)|(?P<latin>[^\W_{_CJK}][^\n{_CJK}、。「」『』（）！？，：；]*)|(?P<other>\S|\n)"
)
_CAPITALISED = r"[A-Z](?:[\w.+#-]*[\w+#])?"
_LATIN_WORD = re.compile(rf"{_CAPITALISED}(?: {_CAPITALISED})*|[A-Za-z](?:[\w.+#-]*[\w+#])?|\d+(?:[.,]\d+)*|\S")
_IDENTIFIER = re.compile(r"[_\d]|[a-z][A-Z]")
_LETTER_WORD = re.compile(r"[A-Za-z]\w*")
_COUNTED = re.compile(rf"[A-Za-z0-9_%{HAN}-]")
_LONGEST_PHRASE, _LONGEST_NAME = 6, 40
# A Latin stretch of more words than this is an English sentence inside the page, not a term in a Japanese one.
_LATIN_TERM = 4


def concepts(text: str, analyse: Callable[[str], tuple[Morpheme, ...]]) -> list[Concept]:
    """Return names and compound nouns in order of appearance; a name inside a compound is given beside it.

    Parameters
    ----------
    analyse : callable
        Cuts a run of Han and kana into morphemes; spans are within the run.
    """
    narrowed, origins = narrow(text)
    matches = _concepts(narrowed, analyse)
    if origins is not None:
        matches = [
            Concept(name, origins[start], origins[end], kind) for name, start, end, kind in map(astuple, matches)
        ]
    return matches


def _concepts(text: str, analyse: Callable[[str], tuple[Morpheme, ...]]) -> list[Concept]:
    matches: list[Concept] = []
    items: list[Morpheme] = []
    line_begins = True
    for match in _STRETCH.finditer(text):
        start, end = match.span()
        embedded = not line_begins or text[end : end + 1] not in ("", "\n")
        line_begins = match.group() == "\n"
        if match.lastgroup == "cjk":
            items.extend(
                Morpheme(start + a, start + b, letter, units) for a, b, letter, units in analyse(match.group())
            )
        elif match.lastgroup == "other":
            items.append(Morpheme(start, end, "x", 1))
        elif len(_LETTER_WORD.findall(match.group())) <= _LATIN_TERM:
            items.extend(_latin(text, start, end, embedded))
        else:
            items.append(Morpheme(start, end, "x", 1))
            matches.extend(
                Concept(inner.name, start + inner.start, start + inner.end, inner.type)
                for inner in english.concepts(match.group())
            )
    letters = "".join(item.letter for item in items)
    for match in _COMPOUND.finditer(letters):
        matches.extend(_compound(text, items[match.start() : match.end()]))
    for match in _NUMBERED.finditer(letters):
        matches.extend(_numbered_name(text, *items[match.start() : match.end()]))
    matches.extend(_titles(text, items))
    # One concept per span: a name rather than a phrase.
    spans = {(concept.start, concept.end): concept for concept in sorted(matches, key=lambda concept: concept.type)}
    return sorted(spans.values(), key=lambda concept: (concept.start, -concept.end))


def _latin(text: str, start: int, end: int, embedded: bool) -> Iterator[Morpheme]:
    """Yield the words of a Latin stretch; a plain word is a term only where `embedded`, not in a line of its own."""
    for word in _LATIN_WORD.finditer(text, start, end):
        name = word.group()
        lower = name.lower()
        if name[0].isdigit():
            letter = "D"
        elif not name[0].isalpha() or not 1 < len(name) <= _LONGEST_NAME or lower in ENGLISH_FUNCTION_WORDS:
            letter = "x"
        elif name[0].isupper() or _IDENTIFIER.search(name):
            letter = "x" if lower in ENGLISH_UNITS else "L"
        else:
            letter = "l" if embedded else "x"
        yield Morpheme(word.start(), word.end(), letter, 1)


def _numbered_name(text: str, name: Morpheme, number: Morpheme) -> Iterator[Concept]:
    is_short = number.end - number.start < 4 or "." in text[number.start : number.end]
    # Not "東京2020年", where the number counts something.
    if is_short and text[name.end : number.start] in ("", " ", "\u3000") and not _COUNTED.match(text, number.end):
        yield _concept(text, name, number, "NAME")


def _titles(text: str, items: list[Morpheme]) -> Iterator[Concept]:
    for match in _TITLE.finditer(text):
        start, end = match.span(match.lastindex or 0)
        if text[start:end].strip():
            yield Concept(" ".join(text[start:end].split()), start, end, "NAME")
    starts = {item.start: place for place, item in enumerate(items)}
    for match in _QUOTED.finditer(text):
        start, end = match.start() + 1, match.end() - 1
        place = starts.get(start, len(items))
        stop = next((index for index in range(place, len(items)) if items[index].end > end), len(items))
        inner = items[place:stop]
        if inner and inner[-1].end == end and all(item.letter in "aJNPLse" for item in inner):
            yield _concept(text, inner[0], inner[-1], "NAME")


def _compound(text: str, part: list[Morpheme]) -> Iterator[Concept]:
    part = part[-_LONGEST_PHRASE:]
    while part and part[0].letter in "sDe":
        part = part[1:]
    if not part:
        return
    last = part[-1]
    # 金閣寺 and 東京大学附属病院 are names; 附属病院 is not.
    is_name = last.letter == "e" and (last.end - last.start == 1 or part[0].letter == "P")
    if len(part) > 1 and not (is_name and len(part) == 2):
        for item in part:
            if item.letter in "PL" and item.end - item.start > 1:
                yield _concept(text, item, item, "NAME")
    if not 1 < part[-1].end - part[0].start <= _LONGEST_NAME:
        return
    units = sum(item.units for item in part if item.letter not in "as")
    if units > 1 or len(part) > 2 or (len(part) == 1 and part[0].letter in "PLl"):
        yield _concept(text, part[0], part[-1], "NAME" if is_name or last.letter in "PLl" else "CONCEPT")


def _concept(text: str, first: Morpheme, last: Morpheme, kind: str) -> Concept:
    return Concept(" ".join(text[first.start : last.end].split()), first.start, last.end, kind)
