"""Names of rows of attached tables, found in a text as they stand there, before analysers and the tagger are asked.

A name of several words is found in any capitals. One word says less: it is found where it is written as the row has it, and not
as the ordinary word that it may be ("Store", 小米).
"""

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace

from pg_graphrag.text.concept import Concept, key
from pg_graphrag.text.languages import HAN, KANA
from pg_graphrag.text.naming.gate import language_of
from pg_graphrag.text.naming.spelling import Span, units
from pg_graphrag.text.words.english_words import best, singular, tags_of

# Words, signs and characters without blanks of the longest name that is looked for.
MOST_UNITS = 8
_HANGUL = "\uac00-\ud7a3"
_KATAKANA = re.compile("[ァ-ヺー]")
_WORD_SIGN = re.compile(rf"[^\W{HAN}{KANA}{_HANGUL}]")
# What joins words into one: log_destination, db/store, 4.5.
_JOINT = re.compile(r"[_/\\@.:=#$~][^\W_]|_")
_JOINT_BEFORE = re.compile(r"(?:[^\W_][_/\\@.:=#$~-]|_|[/\\@#$~])$")
_WITHOUT_BLANKS = re.compile(f"[{HAN}{KANA}{_HANGUL}]")
# A word of Hangul so long has a name in it; a particle may follow.
_LONG_HANGUL = 5
# So much of a line around a word is looked at.
_AROUND = 80
_OPENING, _SENTENCE_END = " \"'“‘«„(*_", re.compile("[.!?:;…•–>|-]")
# "Field Service" before "Desk"; a capital of the first word alone is the sentence's.
_IN_LONGER_NAME, _CAPITAL = re.compile(r"\w\W+[A-Z]\w*$"), re.compile(r" [A-Z]")
_LONG_WORD = re.compile(r"[^\W\d_]{4,}")
_PROPER = ("nr", "ns", "nt", "nz", "固有", "un")


def name_keys(text: str) -> set[str]:
    """Return the keys of all stretches of a text that may be a name of a row."""
    places = units(text)
    return {
        key(text[start:end])
        for first, (start, _) in enumerate(places)
        if _begins(text, start)
        for _, end in places[first : first + MOST_UNITS]
        if _ends(text, end)
    } - {""}


class RowNames:
    """Names to find.

    Parameters
    ----------
    spellings : {key: the name as its row has it}
    """

    def __init__(self, spellings: Mapping[str, str]) -> None:
        self._spellings = spellings
        self._first = {key(name[slice(*units(name)[0])]) for name in spellings if units(name)}

    def places(self, text: str) -> Iterator[tuple[Span, str]]:
        """Yield the (place, key) of each name that stands in a text, the longest of those that overlap."""
        places = units(text) if self._first else []
        after = 0
        for first, (start, stop) in enumerate(places):
            if start < after or key(text[start:stop]) not in self._first or not _begins(text, start):
                continue
            for _, end in reversed(places[first : first + MOST_UNITS]):
                if _ends(text, end) and (found := key(text[start:end])) in self._spellings:
                    yield (start, end), found
                    after = end
                    break

    def found(self, text: str, language: str) -> list[Concept]:
        """Return the names in the prose of a document's chunk, in order."""
        judged_as = language_of(text, language) if self._first else language
        return [
            Concept(" ".join(text[start:end].split()), start, end, "NAME", is_row=True)
            for (start, end), found in self.places(text)
            if self._is_name(text, start, end, self._spellings[found], judged_as)
        ]

    @staticmethod
    def _is_name(text: str, start: int, end: int, spelling: str, language: str) -> bool:
        written = text[start:end]
        if len(written.split()) > 1 or not written.isalpha():
            return True
        if _WITHOUT_BLANKS.search(written):
            return _is_name_without_blanks(written, language)
        if written != spelling or written.islower():
            return False
        if not written.istitle() or not _is_ordinary(written, language):
            return True
        # A capital says nothing in German, where a sentence begins, and in a heading of capitals.
        return language != "de" and _is_within(text, start, end)


def _is_ordinary(word: str, language: str) -> bool:
    """Whether a word with a capital may be a common one."""
    if language == "de":
        from pg_graphrag.text.words import german

        if german.is_known(word) or german.is_frequent(word):
            return True
    lower = word.lower()
    tags = tags_of(lower) or tags_of(singular(lower))
    return language not in ("de", "en") or (tags is not None and best(tags) != "NP0")


def _is_within(text: str, start: int, end: int) -> bool:
    """Whether a word stands within a sentence, in no longer name, and on a line that has words in small letters."""
    before = text[max(0, start - _AROUND) : start].rpartition("\n")[2]
    after = text[end : end + _AROUND].partition("\n")[0]
    begun = _SENTENCE_END.split(before.rstrip(_OPENING))[-1]
    if begun == "" or _IN_LONGER_NAME.search(begun) or _CAPITAL.match(after):
        return False
    return any(map(str.islower, _LONG_WORD.findall(before + after)))


def _is_name_without_blanks(written: str, language: str) -> bool:
    """Whether a name is more than a common word of a dictionary."""
    if language == "zh":
        from pg_graphrag.text.words import chinese

        parts = list(chinese.parts_of_speech(written))
    elif language == "ja":
        from pg_graphrag.text.words import japanese

        parts = list(japanese.parts_of_speech(written))
    else:
        return len(written) >= _LONG_HANGUL
    return len(parts) > 1 or parts[0].startswith(_PROPER)


def _begins(text: str, start: int) -> bool:
    """Whether no word goes on at a place."""
    before, sign = text[max(0, start - 2) : start], text[start : start + 1]
    if key(sign) == "" or (_KATAKANA.match(sign) and _KATAKANA.match(before[-1:])):
        return False
    if re.match(f"[{_HANGUL}]", sign) and re.match(f"[{_HANGUL}]", before[-1:]):
        return False
    return not (_WORD_SIGN.match(sign) and (_WORD_SIGN.match(before[-1:]) or _JOINT_BEFORE.search(before)))


def _ends(text: str, end: int) -> bool:
    """Whether no word goes on at a place. In Hangul a particle may follow."""
    sign, after = text[end - 1 : end], text[end : end + 2]
    if key(sign) == "":
        return False
    if _KATAKANA.match(sign):
        return not _KATAKANA.match(after)
    return not (_WORD_SIGN.match(sign) and (_WORD_SIGN.match(after) or _JOINT.match(after)))


def with_rows(concepts: Sequence[Concept], rows: Sequence[Concept]) -> list[Concept]:
    """Return `concepts` of a text with the names of rows in it: what overlaps one is a piece of it.

    A longer name of the tagger goes before a row's of one word: Apple Store before Store.
    """
    if not rows:
        return list(concepts)
    tagged = [concept for concept in concepts if concept.tag]
    rows = [row for row in rows if " " in row.name or not any(_holds(longer, row) for longer in tagged)]
    merged: list[Concept] = []
    same: dict[Span, Concept] = {}
    for concept in concepts:
        if any(row.start == concept.start and row.end == concept.end for row in rows):
            same[concept.start, concept.end] = concept
        elif any(row.start < concept.end and concept.start < row.end for row in rows):
            merged.append(replace(concept, is_piece=True))
        else:
            merged.append(concept)
    for row in rows:
        other = same.get((row.start, row.end), row)
        merged.append(replace(row, tag=other.tag, probability=other.probability))
    return sorted(merged, key=lambda concept: (concept.start, -concept.end))


def _holds(longer: Concept, row: Concept) -> bool:
    return longer.start <= row.start and row.end <= longer.end and longer.end - longer.start > row.end - row.start


def keys_of_rows(concepts: Iterable[Concept]) -> set[str]:
    """Return the keys of names of rows among concepts."""
    return {key(concept.name) for concept in concepts if concept.is_row}
