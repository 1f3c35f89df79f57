"""Whether a name stands in the text that a model read, and whether what it says has the text's numbers and names.

Tolerant of how languages write one name twice: inflection, compounds, width, marks, the order of names, hyphens, points and
initials. A name of several words stands in a text that has each of them.
"""

import re
import unicodedata
from bisect import bisect_left
from collections import Counter
from collections.abc import Sequence
from functools import cached_property
from itertools import accumulate
from typing import Any

from pg_graphrag.ground.errors import GraphRAGError
from pg_graphrag.index.extraction.records import Extraction
from pg_graphrag.text.dates import Date, dates
from pg_graphrag.text.languages import HAN, KANA, UNANALYSED
from pg_graphrag.text.letters import unified_text, without_invisible
from pg_graphrag.text.words.english_names import is_common
from pg_graphrag.text.words.german import is_known, part_of_speech
from pg_graphrag.text.words.stopwords import CJK_GENERIC

# Words that names have and texts leave out, or the other way round.
_LITTLE = frozenset(
    "a an the of and or for in on at by to from with s 's de der die das den dem des ein eine von und im am zu la le les el los "
    "las du d l di da del della et y e i mr mrs ms miss dr prof sir lady lord herr frau".split()
)
# Scripts without spaces, and those whose words take others on, before or behind.
_UNSPACED = HAN + KANA + UNANALYSED
_WORD = re.compile(rf"[{_UNSPACED}]+|(?:(?![{_UNSPACED}])[^\W_])+")
_UNSPACED_LETTER = re.compile(f"[{_UNSPACED}]")
_CAMEL = re.compile(r"(?<=[a-z])(?=[A-Z][a-z])")
_POINTS = re.compile(r"\b(?:[^\W\d_]\.\s?){1,7}[^\W\d_]\b\.?")
_NUMBER = re.compile(r"0*(\d+)(?:st|nd|rd|th|s|er|e)?")
_CAPITALS = re.compile(r"\b[A-Z][A-Z0-9]{1,7}\b")
_CAPITALISED = re.compile(r"[A-Z][\w'’-]*(?:[\s,-]+(?:(?:of|the|and|for|in|on|de|der|und|von|für)\s+)*[A-Z][\w'’-]*)+")
_STATED_NUMBER = re.compile(r"(?<![\w.,])\d[\d.,]*\d\b|(?<![\w.,])\d\b")
# Not where a sentence begins.
_STATED_NAME = re.compile(r"(?<=[\w,;:] )[A-Z][\w’'-]+(?: [A-Z][\w’'-]+)*")
_POSSESSIVE = re.compile(r"\w['’]s?\s", re.IGNORECASE)
_SMALL = re.compile(r"\b[a-zà-öø-ÿ]\w*")
_ASIDE = re.compile(r"\s*[(\[（].*?[)\]）]")
# Letters that are no letter with a mark.
_PLAIN = str.maketrans({"ø": "o", "ł": "l", "đ": "d", "ð": "d", "þ": "th", "æ": "a", "œ": "o", "ı": "i"})
_UMLAUTS = str.maketrans({"ä": "ae", "ö": "oe", "ü": "ue", "Ä": "Ae", "Ö": "Oe", "Ü": "Ue"})
_UMLAUT_PAIR = re.compile("([aou])e")
# A word is an inflected form of another where they begin alike and at most so many letters follow.
_BEGINNING, _END = 4, 3
# Shorter words have these ends alone.
_LONG_ENDS = frozenset("ation ations ings ness iness ment ments".split())
_SHORT_ENDS = frozenset("s es n en e er d ed".split())
# Kinds of what has a name: models write them behind it.
_KINDS = frozenset(
    "album band book bridge building center centre church city club company concert department district event family festival "
    "film game group home hospital house island lake language league magazine meeting museum office park party people place "
    "program project region residence river room school series shop song state station store street style team tour town "
    "university village website work".split()
)
_CALENDAR = frozenset(
    "monday tuesday wednesday thursday friday saturday sunday january february march april may june july august september "
    "october november december".split()
)
# Characters of a piece of a run without spaces.
_LONGEST_PIECE = 32
# As short as this, a word is not looked for within others.
_PART_OF_COMPOUND = 5
_PARTICLES = frozenset("のとやをにがはへで的之和与與及・ー")


class SourceText:
    """What a model read: a chunk, the title of its document and the heading of its section.

    `elsewhere`: the other chunks of the document, which have the full names of what this one calls by the last name.
    """

    def __init__(self, *texts: str | None, language: str = "en") -> None:
        self._text = without_invisible("\n".join(text for text in texts if text))
        self._language = language
        self.elsewhere: Sequence[SourceText] = ()
        words = _words(self._text)
        self._counts = Counter(words)
        for other in {_CAMEL.sub(" ", self._text), self._text.translate(_UMLAUTS)} - {self._text}:
            self._counts |= Counter(_words(other))
        with_pairs = {word for word in self._counts if "ae" in word or "oe" in word or "ue" in word}
        self._counts |= Counter(_UMLAUT_PAIR.sub(r"\1", word) for word in with_pairs)
        self._joined = "".join(words)
        self._ends = {0, *accumulate(map(len, words))}
        self._lines = "\n" + "\n".join(self._counts) + "\n"
        self._sorted = sorted(self._counts)
        self._known: dict[str, bool] = {}

    def has(self, name: str) -> bool:
        """Whether a name stands in the text, in any of its forms."""
        name = without_invisible(name)
        if name not in self._known:
            bare = _ASIDE.sub("", name).strip()
            days, rest = dates(name)
            self._known[name] = (
                self._has(name)
                or (bare not in ("", name) and self._has(bare))
                or (bool(days) and all(map(self._has_day, days)) and (not _words(rest) or self._has(rest)))
            )
        return self._known[name]

    def _has(self, name: str) -> bool:
        words = _words(name)
        if not words or (all(word in _LITTLE for word in words) and not self._is_capitalised(name)):
            return False
        if self._has_run("".join(words)):
            return True
        weighty = [word for word in words if word not in _LITTLE] or words
        missing = [word for word in weighty if not self.has_word(word)]
        repeated = {word: count for word, count in Counter(weighty).items() if count > 1}
        if any(self._counts[word] < count for word, count in repeated.items()):
            return False
        # "Training plan" of what a text calls a plan. What else is a proper name says with it what it is or has, or is another.
        if (
            len(missing) * 2 <= len(weighty)
            and all(map(self._is_common, missing))
            and (
                all(word in _KINDS for word in missing)
                or _POSSESSIVE.search(name)
                or not any(map(self._is_proper, weighty))
            )
        ):
            return True
        if (
            len(words) > 1
            and words[-1] not in missing
            and any(other._has_run("".join(words)) for other in self.elsewhere)
        ):
            return True
        return self._has_initials(name, words, weighty)

    def _is_capitalised(self, name: str) -> bool:
        """Whether a name of little words ("A", "The The") stands as one: with a capital, within a sentence."""
        return name[:1].isupper() and re.search(rf"(?<=[\w,;:] ){re.escape(name)}(?!\w)", self._text) is not None

    def lacks(self, statement: str) -> list[str]:
        """Return the numbers and names of a statement that do not stand in the text; a day may be written in another form."""
        days, rest = dates(without_invisible(statement))
        lacking = [day.in_words()[0] for day in days if not self._has_day(day)]
        stated = _STATED_NUMBER.findall(rest)
        if self._language != "de":
            stated += _STATED_NAME.findall(rest)
        return list(
            dict.fromkeys(
                [*lacking, *(name for name in stated if not self.has(name) and not self._is_common(name.casefold()))]
            )
        )

    def _has_day(self, day: Date) -> bool:
        """Whether the text has a day in words, as a stamp, or by its number beside another day of its month."""
        if all(map(self.has_word, _words(day.in_words()[0]))):
            return True
        stamps = day.in_one_word()
        return any(stamp in self._joined for stamp in stamps) or (
            self.has_word(str(day.day)) and any(stamp[:6] in self._joined for stamp in stamps)
        )

    def has_word(self, word: str) -> bool:
        """Whether a folded word stands in the text, inflected or as a part of a compound."""
        if word in self._counts or self._has_run(word) or self._has_run(word + "s"):
            return True
        if number := _NUMBER.fullmatch(word):
            return any(other and other[1] == number[1] for other in map(_NUMBER.fullmatch, self._counts))
        if _is_unspaced(word):
            return self._has_pieces(word)
        if len(word) >= _PART_OF_COMPOUND and (f"\n{word}" in self._lines or f"{word}\n" in self._lines):
            return True
        place = bisect_left(self._sorted, word[:3])
        while place < len(self._sorted) and self._sorted[place].startswith(word[:3]):
            if _are_forms(word, self._sorted[place]):
                return True
            place += 1
        return False

    def _is_proper(self, word: str) -> bool:
        """Whether the text has a word, and never without a capital; German has capitals for all nouns."""
        if self._language == "de":
            return not self._is_common(word)
        return word in self._counts and word not in self._small | _CALENDAR and not word.isdigit()

    @cached_property
    def _small(self) -> frozenset[str]:
        """Words that the text has without a capital."""
        return frozenset(_fold(word) for word in _SMALL.findall(self._text))

    def _is_common(self, word: str) -> bool:
        """Whether a word names nothing, and only says of what kind a name is: meeting, Gespräch."""
        if _is_unspaced(word):
            return word in CJK_GENERIC
        try:
            if self._language == "de":
                return is_known(word) and part_of_speech(word.capitalize()) == "NN"
            return is_common(word)
        except GraphRAGError:
            # Without the lexicon.
            return False

    def _has_run(self, run: str) -> bool:
        """Whether letters stand in the text whatever is between its words, from a word's beginning to a word's end."""
        place = self._joined.find(run)
        while place >= 0:
            end = place + len(run)
            if (place in self._ends or _is_unspaced(run[0])) and (end in self._ends or _is_unspaced(run[-1])):
                return True
            place = self._joined.find(run, place + 1)
        return False

    def _has_pieces(self, run: str) -> bool:
        """Whether a run without spaces is made of pieces of the text of two letters or more, and particles."""
        place = 0
        while place < len(run):
            end = min(len(run), place + _LONGEST_PIECE)
            while end - place > 1 and run[place:end] not in self._joined:
                end -= 1
            if end - place < 2 and run[place] not in _PARTICLES:
                return False
            place = end
        return True

    def _has_initials(self, name: str, words: Sequence[str], weighty: Sequence[str]) -> bool:
        """Whether the text abbreviates a name, or spells out one that is an abbreviation."""
        if len(words) == 1:
            return name.isupper() and 2 <= len(words[0]) <= 8 and any(words[0] in run for run in self._initials)
        return any(
            "".join(word[0] for word in parts) in self._abbreviations for parts in (words, weighty) if len(parts) > 1
        )

    @cached_property
    def _abbreviations(self) -> frozenset[str]:
        return frozenset(word.casefold() for word in _CAPITALS.findall(_without_points(self._text)))

    @cached_property
    def _initials(self) -> frozenset[str]:
        """Initials of capitalised words in a row, with and without little words."""
        runs = [_words(match[0]) for match in _CAPITALISED.finditer(self._text)]
        return frozenset(
            "".join(word[0] for word in run if keeps_little or word not in _LITTLE)
            for run in runs
            for keeps_little in (True, False)
        )


def _fold(text: str) -> str:
    try:
        folded = unified_text(text)
    except GraphRAGError:
        # Without the tables of Han.
        folded = unicodedata.normalize("NFKC", without_invisible(text)).casefold()
    if not folded.isascii():
        marked = unicodedata.normalize("NFD", folded)
        folded = unicodedata.normalize("NFC", re.sub("[\u0300-\u036f]", "", marked)).translate(_PLAIN)
    return folded


def _without_points(text: str) -> str:
    return _POINTS.sub(lambda match: re.sub(r"[.\s]", "", match[0]) + " ", text) if "." in text else text


def _words(text: str) -> list[str]:
    return _WORD.findall(_fold(_without_points(text)))


def _is_unspaced(text: str) -> bool:
    return bool(_UNSPACED_LETTER.match(text))


def _are_forms(one: str, other: str) -> bool:
    """Whether two words, which begin alike, are forms of one."""
    same = 0
    for letter, other_letter in zip(one, other, strict=False):
        if letter != other_letter:
            break
        same += 1
    ends = one[same:], other[same:]
    longest = max(ends, key=len)
    if set(ends) == {"y", "ies"}:
        return True
    if same < _BEGINNING:
        return same == _BEGINNING - 1 and "" in ends and longest in _SHORT_ENDS
    return (len(longest) <= _END and ("" in ends or same > _BEGINNING)) or longest in _LONG_ENDS


# What a description lacks is named up to this number, and as long as this.
_MOST_LACKING, _SHOWN = 5, 300
NOT_IN_TEXT, SAYS_OTHERWISE = "not in the text", "says what the text does not"


def ground(extraction: Extraction, source: SourceText, mode: str) -> None:
    """Hold an extraction against its text: what is not in it goes to `unfit`, and out of the graph where the mode is strict.

    So does a relationship whose end is not. Descriptions and claims with numbers or names that the text does not have are
    marked, and stay.
    """
    if mode == "off":
        return
    unfit: list[dict[str, Any]] = []

    def mark(kind: str, item: dict[str, Any], reason: str, *, kept: bool) -> None:
        unfit.append({"kind": kind, "item": item, "reason": reason} | ({"kept": True} if kept else {}))

    is_kept = mode == "marked"
    foreign = [key for key, entity in sorted(extraction.entities.items()) if not source.has(entity.name)]
    for key in foreign:
        entity = extraction.entities[key]
        mark("entity", {"name": entity.name, "type": entity.type}, NOT_IN_TEXT, kept=is_kept)
    if not is_kept:
        for stated in sorted(extraction.remove(foreign), key=lambda stated: stated.pair):
            item = {"source": stated.source, "target": stated.target, "keywords": list(stated.keywords)}
            mark("relationship", item, NOT_IN_TEXT, kept=False)
    for _, entity in sorted(extraction.entities.items()):
        if lacking := source.lacks(entity.description):
            mark("description", {"name": entity.name, "lacking": lacking[:_MOST_LACKING]}, SAYS_OTHERWISE, kept=True)
    for (low, high), stated in sorted(extraction.relationships.items()):
        if lacking := source.lacks(stated.description):
            item = {"source": low, "target": high, "lacking": lacking[:_MOST_LACKING]}
            mark("description", item, SAYS_OTHERWISE, kept=True)
    for claim in extraction.claims:
        names = [name for name in (claim.subject, claim.object) if name and not source.has(name)]
        if lacking := list(dict.fromkeys([*names, *source.lacks(claim.description)])):
            item = {"subject": claim.subject, "description": claim.description[:_SHOWN]}
            mark("claim", item | {"lacking": lacking[:_MOST_LACKING]}, SAYS_OTHERWISE, kept=True)
    extraction.unfit += unfit
