"""How much a document does to show that a concept names something: a score over what it is made of and where it stands.

Single rules (entity_keys.py) take away what is none by its form. What is left is likelier a name the more of these traits it has
that names have: a capital within a sentence, a word that no lexicon has, an article or a particle beside it, a second mention in
another surrounding. Each trait has a weight (evidence_weights.txt), learned from names that readers labelled, and so have
its words, by what they are like; the sum is in hundredths of the logarithm of the odds of junk.
"""

import re
from collections.abc import Callable, Iterator
from functools import cache, lru_cache
from importlib.resources import files
from math import log2
from typing import NamedTuple

from pg_graphrag.text.languages import HAN, KANA, is_foreign, is_german
from pg_graphrag.text.letters import simplified
from pg_graphrag.text.words import english_names
from pg_graphrag.text.words.english_words import best, frequency, guess, singular, tags_of
from pg_graphrag.text.words.stopwords import CHINESE_SURNAMES, ENGLISH_FUNCTION_WORDS, ENGLISH_GIVEN_NAMES

# So much of a text around a name is looked at, and so many of its mentions.
_AROUND, _MENTIONS = 120, 12
# What any score begins with.
INTERCEPT = "(intercept)"
# The score above which a concept is none: one chance of junk in eight; in six in a document of so many windows, which says most
# things once; in four where a document repeats it.
_LIMIT, _SHORT, _LIMIT_OF_SHORT, _LIMIT_OF_REPEATED = -200, 8, -160, -100
# In languages of which little is known: even odds; three to one where a document repeats it.
_LIMIT_OF_OTHER, _LIMIT_OF_REPEATED_OTHER = 0, 100
# What a document has so often, and not always between the same signs, is likely what it speaks of.
_REPEATED, _SURROUNDINGS = 3, 2
# The languages whose names have labels of their own; the others have some together.
_READ, _OTHER = ("de", "en", "ja", "zh"), "other"
_CJK = re.compile(f"[{HAN}{KANA}]")
_HAN = re.compile(f"[{HAN}]")
_HIRAGANA, _KATAKANA = re.compile("[ぁ-ゖ]"), re.compile("[ァ-ヺー]")
_LATIN, _DIGIT = re.compile("[A-Za-z]"), re.compile(r"\d")
_MARKS = re.compile(r"[\s\-*•·–—#>|\d.)(\[\]:;\"'“‘«„￼_`]*$")
_REST_OF_LINE = ' .:;|)*￼_`]"”'
_WORD_BEFORE = re.compile(r"([^\W\d_])[\w'’-]*,?\s*$")
_LAST_WORD, _NEXT_WORD = re.compile(r"([^\W_][\w'’-]*)[ \u00a0]*$"), re.compile(r"[ \u00a0]*([^\W_][\w'’-]*)")
_BLANKS = re.compile(r"[ \u00a0￼*_`]*([^\W_])")
_GLUE = "-+/_~$@#=<>&%\\"
_OPENING, _CLOSING = '"“‘«„「『(（[《', "、。，；：！？）」』》"
_FORMS = (
    ("snake", re.compile(r".*_.*")),
    ("camel", re.compile(r"[a-z]+[A-Z]\w*")),
    ("Camel", re.compile(r".*[a-z][A-Z].*")),
    ("digit", re.compile(r".*\d.*")),
    ("dot", re.compile(r".*\w[./:]\w.*")),
)
_MOST_WORDS, _MOST_COUNT, _LONGEST = 4, 3, 8
_ENDINGS = (3, 4)
# A name of another language by its sounds (布宜諾斯), a person's by its length.
_SHORTEST_FOREIGN, _MOSTLY, _PERSON = 3, 0.8, (2, 3)
_FAMILY = re.compile(r"(?:[A-Z]\. ?)*(?:[A-Z][\w'’-]*(?: |$))+")
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
    language : str
        As `language_of` says.
    is_name : bool
        Whether it is written as a name.
    needed : int
        Mentions that make it an entity (concepts.Concept).
    within_longer : int
        Mentions that stand within a longer concept: 华盖 of 华盖集.
    """

    mentions: list[Mention]
    language: str
    is_name: bool
    needed: int
    within_longer: int = 0

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


def lacks_evidence(usage: Usage, windows: int, score_of_name: Callable[[str], int]) -> bool:
    """Whether a concept of a document of so many windows is likelier none than is allowed.

    Parameters
    ----------
    score_of_name : callable
        Returns what the words of a name add to the score.
    """
    if _is_exempt(usage):
        return False
    weights = _weights()
    if usage.language == _OTHER:
        limit = _LIMIT_OF_REPEATED_OTHER if _is_repeated(usage) else _LIMIT_OF_OTHER
    else:
        limit = _LIMIT_OF_REPEATED if _is_repeated(usage) else _LIMIT_OF_SHORT if windows <= _SHORT else _LIMIT
    of_traits = sum(weights.get(trait, 0) for trait in traits(usage, windows))
    return weights[INTERCEPT] + of_traits + score_of_name(usage.name) > limit


def _is_exempt(usage: Usage) -> bool:
    """Whether a concept is a name that a dictionary has. Dictionaries of Japanese have 墨談 of 古梅園墨談 as a person."""
    text, start, end = usage.mentions[0]
    is_piece = usage.language == "ja" and usage.within_longer == len(usage.mentions)
    return usage.is_name and not is_piece and _is_known(text[start:end], usage.language)


def _is_repeated(usage: Usage) -> bool:
    """Whether a document has a concept again and again, in more surroundings than one (Lazy GraphRAG, Christmas)."""
    if len(usage.mentions) < _REPEATED:
        return False
    surroundings = {(_before(text, start), _after(text, end)) for text, start, end in usage.mentions[:_MENTIONS]}
    return len(surroundings) >= _SURROUNDINGS


@cache
def _weights() -> dict[str, int]:
    """Return the weight of each trait."""
    lines = files("pg_graphrag.text.naming").joinpath("evidence_weights.txt").read_text(encoding="utf-8").splitlines()
    pairs = (line.split(" ", 1) for line in lines if not line.startswith("#"))
    return {trait: int(weight) for weight, trait in pairs}


def traits(usage: Usage, windows: int) -> set[str]:
    """Return the traits of a concept of a document of so many windows."""
    mentions, language, is_name, needed, within_longer = usage
    trait_names: set[str] = set()
    places, before, after = set(), set(), set()
    words_before, words_after = set(), set()
    characters_before, characters_after = set(), set()
    for text, start, end in mentions[:_MENTIONS]:
        places.add(_place(text, start, end))
        before.add(_before(text, start))
        after.add(_after(text, end))
        words_before.add(_word_before(text, start, language))
        words_after.add(_word_after(text, end, language))
        characters_before.add(text[start - 1 : start].strip())
        characters_after.add(text[end : end + 1].strip())
    name = usage.name
    is_cjk = _CJK.search(name) is not None
    count, place = min(len(mentions), _MOST_COUNT), next(kind for kind in _PLACES if kind in places)
    around = "cjk" if language in ("ja", "zh") else language
    # of what language, in what text, name or phrase
    script = language if is_cjk else "latin"
    kind = f"{script} {around} {_name_or_phrase(is_name)}"
    needed = min(needed, _MOST_COUNT)
    trait_names |= {f"{kind}", f"{kind} needs {needed}", f"{kind} count {count}", f"{kind} {place}"}
    trait_names |= {f"{script} needs {needed} count {count}", f"windows {int(log2(windows + 1)) // 2}"}
    for side, neighbours in (("before", before), ("after", after)):
        trait_names |= {f"{script} {side} {neighbour}" for neighbour in neighbours}
        if len(neighbours) == 1 and count > 1:
            trait_names |= {f"{script} {side} only {neighbour}" for neighbour in neighbours}
    if len(places) > 1:
        trait_names.add(f"{script} places")
    if not is_cjk:
        for side, classes in (("follows", words_before), ("precedes", words_after)):
            trait_names |= {
                f"{of} {side} {word_class}" for word_class in classes for of in (language, _name_or_phrase(is_name))
            }
            if len(classes) == 1 and count > 1:
                trait_names |= {f"{_name_or_phrase(is_name)} {side} only {word_class}" for word_class in classes}
        return trait_names | set(_latin_traits(name, around, place, count))
    length = min(len(name), _LONGEST)
    signs = "".join(
        sign
        for sign, pattern in zip("HhkLd", (_HAN, _HIRAGANA, _KATAKANA, _LATIN, _DIGIT), strict=True)
        if pattern.search(name)
    )
    trait_names |= {f"{script} signs {signs}", f"{script} length {length}", f"{kind} signs {signs} length {length}"}
    trait_names |= {f"{language} begins {name[0]}", f"{language} ends {name[-1]}"}
    if is_name and not _LATIN.search(name):
        share = "no" if not within_longer else "all" if within_longer == len(mentions) else "some"
        trait_names |= {f"{language} within {share}", f"{language} within {share} {count}"}
    for side, characters in (("before", characters_before), ("after", characters_after)):
        trait_names |= {f"{language} {side} {character}" for character in characters if character}
        if len(characters) == 1 and count > 1 and (letter := _kind_of(*characters)):
            trait_names.add(f"{language} same {side} {letter} {count}")
    return trait_names | _word_traits(name, language)


def _latin_traits(name: str, around: str, place: str, count: int) -> Iterator[str]:
    words = name.split()
    size = min(len(words), _MOST_WORDS)
    form = _form(name, words)
    head, first = _part_of_speech(words[-1]), _part_of_speech(words[0])
    yield f"{form} {size}"
    yield f"{around} {form} {size}"
    yield f"{form} {place}"
    yield f"{around} {form} {size} {place}"
    yield f"{form} {size} count {count}"
    if "-" in name:
        yield f"hyphen {form}"
    yield from (f"ends -{words[-1].lower()[-length:]}" for length in _ENDINGS)
    yield f"begins {'alone' if size == 1 else 'before'} -{words[0].lower()[-_ENDINGS[0] :]}"
    yield f"head {head}"
    yield f"{around} head {head} {form}"
    yield f"first {first} {min(size, 2)}"
    if size == 1:
        yield f"word {head} {place}"
    shares = [max(frequency(word.lower(), ""), _RARE) for word in words]
    yield f"rarest {int(min(shares)) // 2}"
    yield f"head share {int(shares[-1]) // 2} {form}"
    if all(map(english_names.is_common, words)):
        yield f"common {form} {size}"
        yield f"common {place}"


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


@lru_cache(maxsize=50_000)
def _word_traits(name: str, language: str) -> set[str]:
    """Return the traits of a name in Han and kana that its words have."""
    parts = list(_chinese_words(name)) if language == "zh" else list(_japanese_words(name))
    size = min(len(parts), _MOST_COUNT)
    trait_names = {f"{language} words {size}", f"{language} first {parts[0]}", f"{language} last {parts[-1]}"}
    trait_names |= {f"{language} first {parts[0]} of {size}", f"{language} last {parts[-1]} of {size}"}
    if len(parts) == _MOST_COUNT - 1:
        trait_names.add(f"{language} parts {' '.join(parts)}")
    if language == "zh":
        from pg_graphrag.text.words import chinese

        trait_names.add(f"zh rarest {int(chinese.rarest(name)) // 2}")
        if len(name) >= _SHORTEST_FOREIGN and chinese.share_of_sounds(simplified(name)) >= _MOSTLY:
            trait_names.add("zh foreign")
        if len(name) in _PERSON and simplified(name[0]) in CHINESE_SURNAMES:
            trait_names.add(f"zh person {parts[-1]} of {size}")
        if any(part.startswith("v") and part != "vn" for part in parts):
            trait_names.add("zh verb")
    return trait_names


@lru_cache(maxsize=50_000)
def _is_known(name: str, language: str) -> bool:
    """Whether it needs no more to be a name: a given name and another (Ada Lovelace), a dictionary's place or person (香港,
    高見昂季), and what a dot parts (查理·康羅伊).
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
    from pg_graphrag.text.words import japanese

    return japanese.is_name_of_place(name) or japanese.family_name(name) != ""


def _chinese_words(name: str) -> Iterator[str]:
    from pg_graphrag.text.words import chinese

    return chinese.parts_of_speech(name)


def _japanese_words(name: str) -> Iterator[str]:
    from pg_graphrag.text.words import japanese

    return japanese.parts_of_speech(name)


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


def _name_or_phrase(is_name: bool) -> str:
    return "name" if is_name else "phrase"


def _word_before(text: str, start: int, language: str) -> str:
    """Return the class of the word before a name in its line, or the sign."""
    line = text[max(0, start - _AROUND) : start].rpartition("\n")[2]
    word = _LAST_WORD.search(line)
    return _class_of(word[1], language) if word and not _CJK.match(word[1][-1]) else line.rstrip()[-1:] or "line"


def _word_after(text: str, end: int, language: str) -> str:
    """Return the class of the word behind a name in its line, or the sign."""
    line = text[end : end + _AROUND].partition("\n")[0]
    word = _NEXT_WORD.match(line)
    return _class_of(word[1], language) if word and not _CJK.match(word[1]) else line.lstrip()[:1] or "line"


@lru_cache(maxsize=50_000)
def _class_of(word: str, language: str) -> str:
    """Return a function word itself, of another its part of speech, with "Capital" before it where it has one."""
    if word.lower() in ENGLISH_FUNCTION_WORDS:
        return word.lower()
    if word[0].isdigit():
        return "number"
    capital = "Capital " if word[0].isupper() else ""
    if language == "de":
        from pg_graphrag.text.words import german

        return capital + german.part_of_speech(word)
    return capital + _part_of_speech(word)


def _kind_of(character: str) -> str:
    """Return the script of a letter, "" for other characters."""
    return (
        "han" if _HAN.match(character) else "kana" if _CJK.match(character) else "latin" if character.isalnum() else ""
    )


def _before(text: str, start: int) -> str:
    sign = text[start - 1 : start] if start else ""
    if sign in ("", "\n"):
        return "line"
    if _CJK.match(sign):
        return "han" if _HAN.match(sign) else "kana"
    for signs, kind in (
        (_GLUE + ".", "glue"),
        ("`￼", "code"),
        (_OPENING, "quote"),
        (_CLOSING, "mark"),
        (" \u00a0", "blank"),
    ):
        if sign in signs:
            return kind
    return "other"


def _after(text: str, end: int) -> str:
    sign = text[end : end + 1]
    if sign in ("", "\n"):
        return "line"
    if sign in _GLUE:
        return "glue"
    if sign in "'’" and text[end + 1 : end + 2] == "s":
        return "possessive"
    if sign in ',.;:!?)”"' or sign in _CLOSING:
        return "mark"
    if _CJK.match(sign):
        return "han" if _HAN.match(sign) else "kana"
    if sign in " \u00a0" and (word := _BLANKS.match(text, end, end + _AROUND)):
        letter = word[1]
        return (
            "small" if letter.islower() else "number" if letter.isdigit() else "capital" if letter.isupper() else "cjk"
        )
    return "code" if sign in "`￼" else "other"
