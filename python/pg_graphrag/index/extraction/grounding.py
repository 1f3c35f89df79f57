"""Whether the text that a model read has an extracted name, and has the numbers and names of a description.

It tolerates different spellings of one name: inflection, compounds, width, diacritics, the order of names, hyphens,
points and initials. A name of several words is in a text that has each of the words.
"""

import re
import unicodedata
from bisect import bisect_left
from collections import Counter
from collections.abc import Iterator, Sequence, Set
from functools import cached_property
from itertools import accumulate
from typing import Any

from pg_graphrag.ground.errors import GraphRAGError
from pg_graphrag.index.extraction.records import Extraction
from pg_graphrag.text.dates import Date, dates
from pg_graphrag.text.languages import ENGLISH_WORDS, HAN, KANA, MIN_FUNCTION_SHARE, UNANALYSED, is_english
from pg_graphrag.text.letters import unified_text, without_invisible
from pg_graphrag.text.words.english_names import is_common
from pg_graphrag.text.words.german import is_known, part_of_speech
from pg_graphrag.text.words.stopwords import CJK_GENERIC

# Words that names have and texts leave out, or the other way round.
_LITTLE = frozenset(
    "a an the of and or for in on at by to from with s 's de der die das den dem des ein eine von und im am zu la le les el los "
    "las du d l di da del della et y e i mr mrs ms miss dr prof sir lady lord herr frau".split()
)
# Scripts without spaces, and scripts whose words take prefixes or suffixes.
_UNSPACED = HAN + KANA + UNANALYSED
_WORD = re.compile(rf"[{_UNSPACED}]+|(?:(?![{_UNSPACED}])[^\W_])+")
_UNSPACED_LETTER = re.compile(f"[{_UNSPACED}]")
_BEHIND_VERBS = frozenset("up out off down over back away".split())
_GAP = re.compile(r"(?<!-)\s(?!\s*-)")
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
# A word is an inflected form of another where they begin alike and each goes on with an end of the text's language: English,
# German; of the others those of Romance, Nordic and Slavic languages, Greek, Finnish, Hungarian and Turkish are together.
_BEGINNING = 4
_ENGLISH_ENDS = (
    "s es d ed red zed r er rs ers t st est ts n en ten ner y ies ing ly al ls a ia ian ans an ese ist sts ion ons or ors ic ics "
    # Behind what Marxists and Marxism have in common.
    "o e ism sm m ts"
)
_GERMAN_ENDS = "s es e en n er em er ern nen in st t te ten tes ung isch ien ia ier ei mus"
_OTHER_ENDS = (
    "o os as i u ul lui le la lor ne x eur ois ai oso na ar era et om am ach ech ich ym im ymi ami emi ova ove ovi ou ow ego emu "
    "ho mu ek ka ki ke ko ej ie iu ii on un ta sta ssa lla lta lle ksi ja ot at ban ben ba be bol nak nek hoz ra re k "
    "ok ak val vel da de dan den tan nin nun ya ye lar ler li lu nen sen "
    "bal bel dal del gal gel kal kel lal lel mal mel nal nel ral rel sal sel tal tel zal zel "
    "а у ы и е о ю я и ь ою ои ом ем ам ям ах ях ов ев ыи ии ая ое ые ие ого его ому ему ым им ыми ими ами ями ию ью ия "
    "ка ке ки ку α ο η ι οσ ου ον ων εσ ασ ησ ουσ οι"
)
_ENDS = {"en": frozenset(_ENGLISH_ENDS.split()), "de": frozenset(_GERMAN_ENDS.split())}
_ALL_ENDS = frozenset(f"{_ENGLISH_ENDS} {_GERMAN_ENDS} {_OTHER_ENDS}".split())
# Shorter words have these ends alone.
_LONG_ENDS = frozenset("ation ations ings ness iness ment ments".split())
_SHORT_ENDS = frozenset("s es n en e er d ed".split())
# Words for kinds of things, which models add to names.
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
    """The text that a model read: a chunk, the title of its document and the heading of its section.

    `elsewhere`: the other chunks of the document, which may have the full name of a person whom this chunk calls by the
    last name.
    """

    def __init__(self, *texts: str | None, language: str = "en") -> None:
        self._text = without_invisible("\n".join(text for text in texts if text))
        self._language = language
        self.elsewhere: Sequence[SourceText] = ()
        folded = _fold(_without_points(self._text))
        places = [match.span() for match in _WORD.finditer(folded)]
        words = [folded[start:end] for start, end in places]
        self._counts = Counter(words)
        for other in {_CAMEL.sub(" ", self._text), self._text.translate(_UMLAUTS)} - {self._text}:
            self._counts |= Counter(_words(other))
        with_pairs = {word for word in self._counts if "ae" in word or "oe" in word or "ue" in word}
        self._counts |= Counter(_UMLAUT_PAIR.sub(r"\1", word) for word in with_pairs)
        self._joined = "".join(words)
        ends = list(accumulate(map(len, words)))
        self._ends = {0, *ends}
        # Where white space is between two words; a hyphen at the end of a line is within one, and a hangout comes of hanging out.
        self._gaps = {
            end
            for end, (_, before), (after, behind) in zip(ends, places, places[1:], strict=False)
            if _GAP.search(folded[before:after]) and folded[after:behind] not in _BEHIND_VERBS
        }
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
        if self._has_run(words) or self._has_run(_words(_CAMEL.sub(" ", name))):
            return True
        weighty = [word for word in words if word not in _LITTLE] or words
        missing = [word for word in weighty if not self.has_word(word)]
        repeated = {word: count for word, count in Counter(weighty).items() if count > 1}
        if any(self._counts[word] < count for word, count in repeated.items()):
            return False
        # "Training plan" for what a text calls a plan. Any other word in a proper name says what the thing is or has,
        # or makes it another.
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
        if len(words) > 1 and words[-1] not in missing and any(other._has_run(words) for other in self.elsewhere):
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
        if word in self._counts or self._has_run([word]) or self._has_run([word + "s"]):
            return True
        if number := _NUMBER.fullmatch(word):
            return any(other and other[1] == number[1] for other in map(_NUMBER.fullmatch, self._counts))
        if _is_unspaced(word):
            return self._has_pieces(word)
        if len(word) >= _PART_OF_COMPOUND and any(self._is_compound(word, rest) for rest in self._rests(word)):
            return True
        place = bisect_left(self._sorted, word[:3])
        while place < len(self._sorted) and self._sorted[place].startswith(word[:3]):
            if _are_forms(word, self._sorted[place], _ENDS.get(self._known_language, _ALL_ENDS)):
                return True
            place += 1
        return False

    @cached_property
    def _known_language(self) -> str:
        """The language whose ends and lexicon the words have; "" of others in Latin script, whose chunks count as English."""
        english = sum(self._counts[word] for word in ENGLISH_WORDS)
        is_other = english < MIN_FUNCTION_SHARE * self._counts.total() or not is_english(self._text)
        return "" if self._language == "en" and is_other else self._language

    def _rests(self, word: str) -> Iterator[str]:
        """Yield what stands before or behind a part of the text's longer words."""
        for match in re.finditer(rf"\n(?:{re.escape(word)}(\w+)|(\w+){re.escape(word)})(?=\n)", self._lines):
            yield match[1] or match[2]

    def _is_compound(self, part: str, rest: str) -> bool:
        """Whether both parts of a word are words, according to a lexicon, so that the word was not cut in the middle."""
        if self._known_language not in _ENDS:
            return len(rest) >= _BEGINNING
        bare = [rest, *(rest.removeprefix(link).removesuffix(link) for link in ("s", "n", "en", "es"))]
        return self._is_common(part) or any(map(self._is_common, bare))

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
        """Whether a word names nothing by itself, and only says the kind of thing: meeting, Gespräch."""
        if _is_unspaced(word):
            return word in CJK_GENERIC
        try:
            if self._language == "de":
                return is_known(word) and part_of_speech(word.capitalize()) == "NN"
            return is_common(word)
        except GraphRAGError:
            # Without the lexicon.
            return False

    def _has_run(self, words: Sequence[str]) -> bool:
        """Whether words stand in the text in a row, whatever hyphens are in them: what the text has apart is apart here, too."""
        run, seams = "".join(words), set(accumulate(map(len, words)))
        place = self._joined.find(run)
        while place >= 0:
            end = place + len(run)
            if (
                (place in self._ends or _is_unspaced(run[0]))
                and (end in self._ends or _is_unspaced(run[-1]))
                and all(
                    gap - place in seams or _is_unspaced(run[gap - place])
                    for gap in range(place + 1, end)
                    if gap in self._gaps
                )
            ):
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


def _are_forms(one: str, other: str, known_ends: Set[str]) -> bool:
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
    if same == _BEGINNING and "" not in ends:
        return longest in _LONG_ENDS
    return all(not end or end in known_ends or end in _LONG_ENDS for end in ends)


# What a description lacks is named up to this number, and as long as this.
_MOST_LACKING, _SHOWN = 5, 300
NOT_IN_TEXT, SAYS_OTHERWISE = "not in the text", "says what the text does not"


def ground(extraction: Extraction, source: SourceText, mode: str) -> None:
    """Check an extraction against its text: items that are not in it go to `unfit`, and in strict mode leave the graph.

    So does a relationship with such an end. Descriptions and claims with numbers or names that the text lacks are marked,
    and stay.
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
