"""Sentence, line and paragraph ends of any text, without a model."""

import re
from itertools import pairwise

from pg_graphrag.text.languages import HAN, KANA

# Words before a full stop that do not end a sentence, without the stop, in lower case.
_TITLES = {
    "en": "adm capt cmdr col dr e.g fr gen gov hon i.e lt ltd maj messrs mr mrs ms mt prof rep rev sen sgt st "
    "u.k u.s viz vs cf ca",
    "de": "abzgl bspw bzw ca d.h dr ehem evtl exkl geb ggf ggü hr i.d.r inkl o.g prof s.o sog st u.a u.u vgl z.b z.hd z.t zzgl",
    "fr": "cf dr m mgr mlle mm mme p.ex st ste",
    "es": "d dr dra p.ej sr sra srta ud uds",
    "it": "dott ecc ing prof sig",
    "nl": "bijv d.w.z dhr drs mevr o.a",
}
# These end a sentence as often as not: they are abbreviations only before a lower-case word or a number.
_UNITS = frozenset(
    "abs al anm apr art aug ave ch chap co corp dec dept ed eds eq eqs etc feb fig figs inc jan jr jul jun kap mar no nos "
    "nov nr oct op p para pp pt ref refs sec sect sep sept sr str tel usw v vol vols ziff a.d a.m b.c p.m ph.d p.s u.s.a".split()
)
_ABBREVIATIONS = {language: frozenset(words.split()) for language, words in _TITLES.items()}
# Latin script counts as English by default; the German abbreviations are no English words, except for the hour.
_ABBREVIATIONS["en"] |= _ABBREVIATIONS["de"] - {"hr"}
# German ordinals have a full stop: "am 31. Dezember", "im 19. Jahrhundert", "der 2. Vorsitzende"; "I am 12. My" has none.
_BEFORE_ORDINAL = re.compile(r"\b(?:[Dd](?:er|em|en|es|as)|[Vv]om|[Zz]u[mr]|[Bb]eim)\s$")
_AFTER_ORDINAL = re.compile(
    r"\.\s++(?:(?:Januar|Jänner|Februar|März|April|Mai|Juni|Juli|August|September|Oktober|November|Dezember|Jahrhunderts?|Quartals?)\b"
    r"|(?:Jan|Feb|Mär|Apr|Jun|Jul|Aug|Sept?|Okt|Nov|Dez|Jh)\.)"
)

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
    if word in {"mio", "mrd"}:
        # "12 Mio. Euro"; Mio is a name, too.
        return text[max(0, mark - 5) : mark - 3].rstrip()[-1:].isdigit()
    if len(word) == 1 and word.isalpha():
        # An initial, "G. Stanley Hall"; but "vitamin C. The" is rarer than a name.
        return following.isupper()
    if word.isdigit():
        start = mark - len(word)
        if len(word) <= 2 and (
            _AFTER_ORDINAL.match(text, mark) or _BEFORE_ORDINAL.search(text, max(0, start - 6), start)
        ):
            return True
        # "1. First item": a number alone at the start of a line is not a sentence.
        line_start = text[max(0, start - 4) : start]
        return not line_start.strip() and (start < 4 or "\n" in line_start)
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
