"""Sentence, line and paragraph ends of any text, without a model."""

import re
from itertools import pairwise

from pg_graphrag.text.languages import HAN, KANA

# Words before a full stop that do not end a sentence, without the stop, in lower case.
_TITLES = {
    "en": "adm capt cmdr col dr e.g fr gen gov hon i.e lt ltd maj messrs mr mrs ms mt prof rep rev sen sgt st "
    "u.k u.s viz vs cf ca",
    "de": "bzw ca d.h dr evtl ggf hr inkl prof s.o st u.a vgl z.b z.t",
    "fr": "cf dr m mgr mlle mm mme p.ex st ste",
    "es": "d dr dra p.ej sr sra srta ud uds",
    "it": "dott ecc ing prof sig",
    "nl": "bijv d.w.z dhr drs mevr o.a",
}
# These end a sentence as often as not: an abbreviation only before a lower-case word or a number.
_UNITS = frozenset(
    "al apr art aug ave ch chap co corp dec dept ed eds eq eqs etc feb fig figs inc jan jr jul jun mar no nos "
    "nov nr oct op p para pp pt ref refs sec sect sep sept sr usw v vol vols a.d a.m b.c p.m ph.d p.s u.s.a".split()
)
_ABBREVIATIONS = {language: frozenset(words.split()) for language, words in _TITLES.items()}

_WIDE = f"{HAN}{KANA}\uac00-\ud7a3"
_CLOSERS = "\"'”’»›)\\]」』】）〉》"
_CANDIDATE = re.compile(
    # Han and kana text: the mark ends a sentence wherever it is.
    rf"(?P<wide>[。！？．｡؟۔।]++[{_CLOSERS}]*+\s*+)"
    # Tried at the first mark of a run only, or a megabyte of dots would take quadratic time.
    rf"|(?<![.!?…])(?P<latin>[.!?…]++[{_CLOSERS}]*+)(?=\s)\s*+"
    r"|(?P<blank>\n[^\S\n]*+\n\s*+)"
    r"|(?P<line>\n[^\S\n]*+)"
)
_LAST_WORD = re.compile(r"[^\s(\[\"'“‘]*$")
_TERMINAL = re.compile(rf"[.!?…。！？．｡:;：；][{_CLOSERS}]*\s*$")
_WIDE_CHARACTER = re.compile(f"[{_WIDE}]")
# A line this wide that ends in the middle of a sentence was wrapped by an editor at 60 to 100 columns.
_WRAPPED = range(52, 101)

PARAGRAPH, SENTENCE, LINE = 3, 2, 1


def sentences(text: str, language: str) -> list[tuple[int, int]]:
    """Cut `text` into sentences.

    Returns (start, end) of spans in characters that partition the text: every character, white space too, is in exactly
      one; white space belongs to the sentence before it. A list item, a heading or a line of a chat is a sentence of its own;
      a line wrapped in mid-sentence is not.
    """
    cuts = [0]
    cuts.extend(position for position, _ in ends(text, 0, len(text), language) if position < len(text))
    cuts.append(len(text))
    return [(a, b) for a, b in pairwise(cuts) if a < b]


def ends(text: str, start: int, end: int, language: str = "en") -> list[tuple[int, int]]:
    """Return (position, strength) of the ends within ``(start, end]``: strength is PARAGRAPH, SENTENCE or LINE.

    The position is after the white space that follows, so that a cut there leaves nothing between two pieces.
    """
    positions: list[tuple[int, int]] = []
    for match in _CANDIDATE.finditer(text, start, end):
        kind = match.lastgroup
        if kind == "wide":
            strength = PARAGRAPH if match.group().count("\n") > 1 else SENTENCE
        elif kind == "latin":
            space = text[match.end("latin") : match.end()]
            newlines = space.count("\n")
            if not newlines and not _ends_sentence(text, match.start(), match.end("latin"), match.end(), language):
                continue
            if newlines == 1 and _is_abbreviation(text, match.start(), text[match.end() : match.end() + 1], language):
                continue
            strength = PARAGRAPH if newlines > 1 else SENTENCE
        elif kind == "blank":
            strength = PARAGRAPH
        else:
            if is_wrap(text, match.start(), match.end()):
                continue
            strength = LINE
        positions.append((match.end(), strength))
    return positions


def _ends_sentence(text: str, mark: int, mark_end: int, follows: int, language: str) -> bool:
    following = text[follows : follows + 1]
    if following.islower():
        return False
    if text[mark] != "." or mark_end - mark > 1 + (text[mark + 1 : mark_end].strip(".") != ""):
        return True
    return not _is_abbreviation(text, mark, following, language)


def _is_abbreviation(text: str, mark: int, following: str, language: str) -> bool:
    if text[mark] != ".":
        return False
    match = _LAST_WORD.search(text, max(0, mark - 24), mark)
    word = match.group().lower() if match else ""
    if not word:
        return False
    if word in _ABBREVIATIONS.get(language, _ABBREVIATIONS["en"]):
        return True
    if word in _UNITS and not text[mark - 1].isupper():
        return following.islower() or following.isdigit()
    if len(word) == 1 and word.isalpha():
        # An initial, "G. Stanley Hall"; but "vitamin C. The" is rarer than a name.
        return following.isupper()
    if word.isdigit():
        # "1. First item": a number alone at the start of a line is not a sentence.
        line_start = text[max(0, mark - len(word) - 4) : mark - len(word)]
        return not line_start.strip() and (mark - len(word) < 4 or "\n" in line_start)
    return False


def is_wrap(text: str, newline: int, follows: int) -> bool:
    """Whether the line that ends at `newline` was wrapped in the middle of a sentence."""
    following = text[follows : follows + 1]
    line_start = text.rfind("\n", max(0, newline - 400), newline) + 1
    if line_start == 0:
        line_start = max(0, newline - 400)
    line = text[line_start:newline].strip()
    if not line or _TERMINAL.search(line[-4:]):
        return False
    if following.islower():
        return True
    width = len(line) + len(_WIDE_CHARACTER.findall(line))
    if width not in _WRAPPED:
        return False
    return (line[-1].isalnum() or line[-1] in ",、，") and (following.isalnum() or following in "(\"'“‘「（")
