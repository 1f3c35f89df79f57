"""Whether a concept of a document is an entity: one score over how it is used, what it is made of, and who calls it a name.

Candidates are the concepts of analysers (text/words/) and the names that the tagger reads. The more of these traits one has that
names and terms have, the likelier it is one: the tagger calls it a name, it has a capital within a sentence, no lexicon has
it, it is said again. Each trait has a weight (gate_weights.txt) in hundredths of the logarithm of the odds. To the sum comes what
the encoder makes of its places (llm/embedding/name_tagger.py). All is learned from names that readers labelled and sentences in
which they marked all names (`python -m bench gate`).
"""

import re
from bisect import bisect_left
from collections.abc import Iterator, Sequence
from functools import cache, lru_cache
from importlib.resources import files
from typing import NamedTuple

from pg_graphrag.text.concept import NEVER
from pg_graphrag.text.languages import HAN, KANA, is_foreign, is_german
from pg_graphrag.text.letters import simplified
from pg_graphrag.text.words import english_names
from pg_graphrag.text.words.english_words import best, frequency, guess, singular, tags_of
from pg_graphrag.text.words.stopwords import ENGLISH_GIVEN_NAMES

# So much of a text around a name is looked at, and so many of its mentions.
_AROUND, MENTIONS = 120, 12
# How a concept is written.
KINDS = ("name", "phrase")
# What any score begins with.
INTERCEPT = "(intercept)"
# The languages whose names have labels of their own; the others have some together.
_READ, _OTHER = ("de", "en", "ja", "zh"), "other"
_CJK, _HAN = re.compile(f"[{HAN}{KANA}]"), re.compile(f"[{HAN}]")
_KATAKANA, _HIRAGANA = re.compile("[ァ-ヺー・]+"), re.compile("[ぁ-ゖ]")
_MARKS = re.compile(r"[\s\-*•·–—#>|\d.)(\[\]:;\"'“‘«„￼_`]*$")
_REST_OF_LINE = ' .:;|)*￼_`]"”'
_WORD_BEFORE = re.compile(r"([^\W\d_])[\w'’-]*,?\s*$")
_GLUE = "-+/_~$@#=<>&%\\`￼"
_OPENING, _CLOSING = '"“‘«„「『(（[《', "、。，；：！？）」』》"
_FORMS = (
    ("code", re.compile(r".*_.*|[a-z]+[A-Z]\w*|.*\w[./:]\w.*")),
    ("Camel", re.compile(r".*[a-z][A-Z].*")),
    ("digit", re.compile(r".*\d.*")),
)
_MOST_WORDS, _MOST_COUNT, _LONGEST = 4, 3, 6
_FAMILY = re.compile(r"(?:[A-Z]\. ?)*(?:[A-Z][\w'’-]*(?: |$))+")
# A Japanese word of one of these by itself is no name, whoever calls it so: あちら, やがて.
_PASSING = {("代名詞",), ("副詞",), ("接続詞",), ("連体詞",), ("感動詞",)}
# What a document of so many windows is at most; a book has more. Of a note, one or two sentences, none are counted.
_WINDOWS = (0, 4, 8, 60, NEVER)
LENGTHS = ("note", "passage", "page", "article", "book")
_NOTE_BYTES = 150
# Upper bounds of the tagger's probability, in hundredths, by which it is more or less sure.
_SURENESS = ((60, "hardly"), (80, "rather"), (95, "quite"))
# Logarithms of shares below this are alike.
_RARE = -16


class Mention(NamedTuple):
    """Where a text has a concept."""

    text: str
    start: int
    end: int


class Usage(NamedTuple):
    """How a document has a concept.

    Attributes
    ----------
    mentions : list of Mention
    term_scores : list of float
        How much of a term it is in the mentions of which that is known (concept.Concept).
    language : str
        As `language_of` says.
    is_name : bool
        Whether it is written as a name.
    needed : int
        Mentions that its form calls for (concept.Concept).
    probability : int
        The tagger's where it is surest that it is a name, in hundredths; 0 where it nowhere is.
    called : int
        Mentions that the tagger calls a name.
    within_longer : int
        Mentions that stand within a longer concept: 华盖 of 华盖集.
    is_read : bool
        Whether a tagger has read the document.
    """

    mentions: list[Mention]
    term_scores: list[float]
    language: str
    is_name: bool = False
    needed: int = NEVER
    probability: int = 0
    called: int = 0
    within_longer: int = 0
    is_read: bool = True

    @property
    def is_enough(self) -> bool:
        """Whether the document has it as often as its form calls for."""
        return len(self.mentions) >= self.needed

    @property
    def name(self) -> str:
        """The concept as it is first mentioned."""
        text, start, end = self.mentions[0]
        return " ".join(text[start:end].split())


def language_of(text: str, language: str) -> str:
    """Return the language by which names of a text are judged, "other" where few labels were read in it."""
    if language == "en":
        language = "de" if is_german(text) else _OTHER if is_foreign(text) else "en"
    return language if language in _READ else _OTHER


def counted_windows(proses: Sequence[str], windows: int) -> int:
    """Return of how many windows a document counts as: 0 where it is a note."""
    return 0 if windows == 1 and sum(len(prose.encode()) for prose in proses) <= _NOTE_BYTES else windows


def is_entity(usage: Usage, windows: int) -> bool:
    """Whether a concept of a document of so many windows (`counted_windows`) is an entity."""
    if usage.language == "ja" and _CJK.match(usage.name) and _parts_of_speech(usage.name, "ja") in _PASSING:
        return False
    weight_of = weights()
    of_traits = sum(weight_of.get(trait, 0) for trait in traits(usage, windows))
    scores = usage.term_scores[:MENTIONS]
    of_places = 100 * sum(scores) / len(scores) if scores else 0
    return weight_of[INTERCEPT] + of_traits + of_places > 0


@cache
def weights() -> dict[str, int]:
    """Return the weight of each trait."""
    lines = files("pg_graphrag.text.naming").joinpath("gate_weights.txt").read_text(encoding="utf-8").splitlines()
    pairs = (line.split(" ", 1) for line in lines if not line.startswith("#"))
    return {trait: int(weight) for weight, trait in pairs}


def traits(usage: Usage, windows: int) -> set[str]:
    """Return the traits of a concept of a document of so many windows."""
    name, language, count = usage.name, usage.language, min(len(usage.mentions), _MOST_COUNT)
    is_cjk = _CJK.search(name) is not None
    kind = KINDS[0] if usage.is_name else KINDS[1]
    uncalled = "uncalled" if usage.is_read else "unread"
    called = uncalled if not usage.called else "called" if 2 * usage.called >= len(usage.mentions) else "half"
    sure = next((word for bound, word in _SURENESS if usage.probability < bound), "surely")
    length = LENGTHS[bisect_left(_WINDOWS, windows)]
    places, before, after = set(), set(), set()
    for text, start, end in usage.mentions[:MENTIONS]:
        places.add(_place(text, start, end))
        before.add(_kind_of(text[start - 1 : start] if start else ""))
        after.add(_after(text, end))
    place = next(kind for kind in _PLACES if kind in places)
    # What the tagger says, then what speaks for or against it.
    of = f"{called} {kind}"
    found = {of, f"{language} {of}", f"{of} {length}", f"{of} count {count}", f"{of} {length} count {count}"}
    if usage.called:
        found |= {f"{called} {sure}", f"{language} {sure}", f"{sure} {length}"}
    needed = min(usage.needed, _MOST_COUNT)
    found |= {f"{of} needs {needed}", f"{kind} needs {needed} count {count}"}
    found |= {f"{of} {place}", f"{language} {kind} {place}"}
    found |= {f"{called} before {sign}" for sign in before} | {f"{called} after {sign}" for sign in after}
    if usage.within_longer:
        found.add(f"{language} within {'all' if usage.within_longer == len(usage.mentions) else 'some'} {called}")
    if usage.is_name and _is_known(name, language):
        found.add(f"{called} known")
    if is_cjk:
        return found | set(_cjk_traits(name, language, kind, called))
    return found | set(_latin_traits(name, language, kind, called, place))


def _latin_traits(name: str, language: str, kind: str, called: str, place: str) -> Iterator[str]:
    words = name.split()
    size, form, head = min(len(words), _MOST_WORDS), _form(name, words), _part_of_speech(words[-1])
    yield f"{called} {form} {size}"
    yield f"{language} {form} {size}"
    yield f"{form} {place}"
    yield f"{language} {kind} head {head}"
    yield f"{called} head {head} {form}"
    yield f"first {_part_of_speech(words[0])} {'alone' if size == 1 else 'before'} {called}"
    yield f"rarest {int(min(max(frequency(word.lower(), ''), _RARE) for word in words)) // 3} {called}"
    if all(map(english_names.is_common, words)):
        yield f"common {form} {called}"


def _form(name: str, words: list[str]) -> str:
    for form, pattern in _FORMS:
        if pattern.fullmatch(name):
            return form
    if name.isupper():
        return "CAPITALS"
    if name.islower():
        return "small"
    return "Capitals" if all(word[:1].isupper() for word in words) else "mixed"


@lru_cache(maxsize=50_000)
def _part_of_speech(word: str) -> str:
    lower = word.lower()
    tags = tags_of(lower) or tags_of(singular(lower))
    if tags is None:
        return "unknown " + best(guess(lower))[:2]
    tag = best(tags)
    return tag if tag == "NP0" else tag[:2]


def _cjk_traits(name: str, language: str, kind: str, called: str) -> Iterator[str]:
    length = min(len(name), _LONGEST)
    signs = "kana" if _KATAKANA.fullmatch(name) else "mixed" if _HIRAGANA.search(name) else "han"
    yield f"{language} {kind} {signs} length {length}"
    yield f"{called} {signs} length {length}"
    if language in ("ja", "zh"):
        parts = _parts_of_speech(name, language)
        yield f"{language} last {parts[-1]}"
        yield f"{language} first {parts[0]} of {min(len(parts), _MOST_COUNT)}"
        yield f"{called} {language} last {parts[-1]}"


@lru_cache(maxsize=50_000)
def _parts_of_speech(name: str, language: str) -> tuple[str, ...]:
    if language == "zh":
        from pg_graphrag.text.words import chinese

        return tuple(chinese.parts_of_speech(name))
    from pg_graphrag.text.words import japanese

    return tuple(japanese.parts_of_speech(name))


@lru_cache(maxsize=50_000)
def _is_known(name: str, language: str) -> bool:
    """Whether a name is a given name and another (Ada Lovelace), a dictionary's place or person (香港, 高見昂季), or what a dot
    parts (查理·康羅伊).
    """
    if not _CJK.search(name):
        given_name, _, family = name.partition(" ")
        is_given = given_name.istitle() and (
            given_name.lower() in ENGLISH_GIVEN_NAMES or _part_of_speech(given_name) == "NP0"
        )
        return is_given and _FAMILY.fullmatch(family) is not None and not english_names.is_common(family.split()[-1])
    if language == "zh":
        from pg_graphrag.text.words import chinese

        return "·" in name or chinese.is_name_of_place(simplified(name))
    if language != "ja":
        return False
    from pg_graphrag.text.words import japanese

    return japanese.is_name_of_place(name) or japanese.family_name(name) != ""


# Where a name stands; of several places the first says most.
_PLACES = (
    "within",
    "after cjk",
    "quoted",
    "after name",
    "after colon",
    "begins sentence",
    "other",
    "begins line",
    "alone",
)


def _place(text: str, start: int, end: int) -> str:
    line = text[max(0, start - _AROUND) : start].rpartition("\n")[2]
    if _MARKS.match(line):
        rest = text[end : end + _AROUND].partition("\n")[0]
        return "alone" if not rest.strip(_REST_OF_LINE) else "begins line"
    last = line.rstrip(" ￼*_`")[-1:]
    for marks, place in ((".!?。！？", "begins sentence"), (":：;", "after colon"), (_OPENING, "quoted")):
        if last in marks:
            return place
    word = _WORD_BEFORE.search(line)
    if word is None:
        return "other"
    if word[1].islower():
        return "within"
    # The last letter tells: "Windowsの".
    return "after cjk" if _CJK.search(word[0].rstrip(", ")[-1:]) else "after name" if word[1].isupper() else "other"


def _after(text: str, end: int) -> str:
    sign, follows = text[end : end + 1], text[end + 1 : end + 2]
    if sign in (" ", "\u00a0") and follows:
        return "small" if follows.islower() else "capital" if follows.isupper() else "blank"
    return "possessive" if sign and sign in "'’" and follows == "s" else _kind_of(sign)


def _kind_of(sign: str) -> str:
    """Return of what kind a sign beside a name is."""
    if sign in ("", "\n"):
        return "line"
    if _CJK.match(sign):
        return "han" if _HAN.match(sign) else "kana"
    kinds = ((_GLUE, "glue"), (_OPENING, "opening"), (_CLOSING + ',.;:!?)”"', "mark"), (" \u00a0", "blank"))
    return next((kind for signs, kind in kinds if sign in signs), "other")
