"""Whether English words look like the name of a thing, like a passing phrase, or like a piece of a name."""

import re
from functools import lru_cache
from itertools import pairwise

from pg_graphrag.text.concept import NEVER, OFTEN, REPEATED
from pg_graphrag.text.words.english_words import best, frequency, guess, singular, tagger, tags_of
from pg_graphrag.text.words.names import ROMAN_NUMBER
from pg_graphrag.text.words.stopwords import (
    ENGLISH_FUNCTION_WORDS,
    ENGLISH_GIVEN_NAMES,
    ENGLISH_OCCUPATIONS,
    ENGLISH_SURE_NAMES,
)

# Adjectives of kind (municipal, Georgian), not of manner; frequent ones (local) say as little.
_OF_KIND = re.compile(r"[^-]*(?:al|ic|ar|ary|an|ese)")
# Nouns made of verbs and adjectives, and what looks like one: detestation, lateness, refining.
_OF_ACT = re.compile(r".*(?:[aits]ion|ness|ance|ence|ity|ment|ship|hood|ing|ed|est|ous|ever)s?")
# A lower-case noun before a name: cells of a table, or an apposition.
_NAME_AFTER_NOUN = re.compile(r"[NB]P")
# "ease tension"; but "index scan".
_VERB_LIKE = re.compile(r"B(?=.)")
# Natural logarithms of a word's share of all words: one in 36,000, one in 270,000.
_FREQUENT, _KNOWN_WELL = -10.5, -12.5
# The share of a word's uses that is no accident.
_SELDOM = 0.05
# Verbs that make a title a clause.
_VERBS_OF_CLAUSES = frozenset(
    "is are was were has have can cannot could should would must does do did when if not you i my".split()
)
# The lexicon has them as verbs alone.
_NOUNS_SINCE = frozenset(("build", "install"))
_DETERMINERS = frozenset("a an the your this these".split())
_ASKS = frozenset("how why when where what which who".split())
_DIRECTIONS = ("North", "South", "East", "West")
_ROMAN_NUMBER = re.compile(r"[IVX]{2,}(?:-[IVX]+)?")
# set_option, m40s: of a program or a table, where a text names it in passing.
_PIECE_OF_CODE = re.compile(r"[a-z]\d\S*|[^A-Z\s]*_[^A-Z\s]*")
# pattern1, text2: one of several that a text makes up.
_NUMBERED_WORD = re.compile(r"([a-z]{2,})\d")
# Table2, listing6: what a text calls its own parts.
_CAPTION = re.compile(
    r"(?:appendix|chapter|equation|example|exercise|fig|figure|listing|section|step|table)\.?\d{1,3}", re.IGNORECASE
)
# The name is a piece of a longer run of capitals: "Linear Motion" before "Blur".
_CUT = re.compile(r" [A-Z]\w*[a-z]")
# The same before it.
_CAPITAL_BEFORE = re.compile(r"(?<![^\W_])([A-Z][\w-]*[a-z])\s$")
_SMALL_BEFORE = re.compile(r"(?<![^\W_])[a-z]+\s$")
_SMALL_AFTER = re.compile(r"[,.;:)]|['’]s\b|\s[a-z]")
# "the index scan", but "icon show", "comment present".
_VERB_LAST = ("NB", "BB", "CB")
_LONGEST_ACRONYM, _LONGEST_TITLE, _LONGEST_BEFORE = 3, 9, 30
# Endings of adjectives that the lexicon lacks: Assyrian, stereotactic.
_ENDS_OF_QUALITIES = ("ian", "ean", "ese", "ous", "ic", "tive", "oid", "nal", "eal", "ial")
# "prime minister", "chief engineer".
OF_RANK = ("chief", "prime", "vice")


def says_what_happens(title: str) -> bool:
    """Whether a title is a clause or a question, and names no thing: "Changing brush size", "No effect when a tool is used"."""
    words = title.split()
    if title.endswith(("?", "!", "？", "！")) or len(words) > _LONGEST_TITLE:
        return True
    if len(words) < 2:
        return False
    first = words[0].lower()
    if first.endswith("ing") and first.isalpha() and best(tags_of(first) or {"": 1.0}) == "VVG":
        return True
    if words[1].lower() in _DETERMINERS and _may_be_verb(first):
        return True
    if words[1].islower() and _is_verb_alone(first):
        return True
    return first in _ASKS or any(word.lower() in _VERBS_OF_CLAUSES for word in words)


def _may_be_verb(word: str) -> bool:
    """Whether a word can be a verb that says what to do: change, enable."""
    shares = tags_of(word) or guess(word)
    is_verb = sum(share for tag, share in shares.items() if tag in ("VVB", "VVI")) >= _SELDOM
    return is_verb and word not in ENGLISH_GIVEN_NAMES


def _is_verb_alone(word: str) -> bool:
    """Whether a word is a verb that says what to do, and hardly a noun: disable, not check."""
    shares = tags_of(word) or guess(word)
    return (
        word not in _NOUNS_SINCE
        and _begins_command(word)
        and sum(share for tag, share in shares.items() if tag[:2] == "NN") < _SELDOM
    )


def needed_for_name(words: list[str]) -> int:
    """Return how many mentions in a document make an entity of words with capitals (concepts.Concept)."""
    is_quality = _is_quality(words[-1]) and all(_is_quality(word) or word in _DIRECTIONS for word in words[:-1])
    if is_quality or _ROMAN_NUMBER.fullmatch(" ".join(words)) or _is_command(words):
        return NEVER
    if any(word == follows for word, follows in pairwise(words)):
        # "Cytarabine Cytarabine": a head and the text after it.
        return NEVER
    capitals = [word for word in words if len(word) > _LONGEST_ACRONYM and word.isupper() and is_common(word)]
    if words[0] in capitals and (len(words) == 1 or not words[-1].isupper() or words[-1] in capitals):
        # "SECURITY", "NOTE GRUB", "GOING FURTHER": a label or a heading.
        return NEVER
    name = " ".join(words)
    if _CAPTION.fullmatch(name) or ((numbered := _NUMBERED_WORD.fullmatch(name)) and is_common(numbered[1])):
        return NEVER
    if _PIECE_OF_CODE.fullmatch(name) or ROMAN_NUMBER.fullmatch(name):
        # "XL" may be a name; a number of a chapter stands once in its document.
        return REPEATED
    # "Street" is a piece of a name or any word at a place with capitals, "Linear Motion" a piece of a heading.
    is_plain = any(word[0].isupper() for word in words) and all(word[0].islower() or is_common(word) for word in words)
    return REPEATED if is_plain else 1


def needed_for_word_amid_other_script(word: str) -> int:
    """Return how many mentions in a document make a single word amid text in another script an entity.

    There most words in Latin letters are names. A word that the lexicon has as a common word may be one (Windows); a verb
    or a quality in small letters (resize, actionable) is none.
    """
    if _CAPTION.fullmatch(word):
        return NEVER
    if not word.isalpha() or not (word.islower() or word.istitle()):
        return 1
    lower = word.lower()
    if lower in ENGLISH_GIVEN_NAMES:
        return 1
    tags = tags_of(lower) or tags_of(singular(lower))
    tag = best(tags or guess(lower))
    if tag[:2] in ("VV", "AJ", "AV"):
        return NEVER if word.islower() else REPEATED
    return REPEATED if tags is not None and tag != "NP0" else 1


def is_form_of_verb(word: str) -> bool:
    """Whether a word is a verb with an ending, or an adverb, by the lexicon or by its ending: Removes, Forcefully."""
    lower = word.lower()
    if not (word.istitle() and word.isalpha()):
        return False
    tag = best(tags_of(lower) or guess(lower))
    if tag == "VVZ":
        # Not "Mercedes".
        stem = lower.removesuffix("s")
        return best(tags_of(stem) or guess(stem)) in ("VVB", "VVI")
    return tag in ("VVG", "VVN", "VVD", "AV0")


def says_what_to_do(words: list[str]) -> bool:
    """Whether words say what to do or what happens: "repair filesystem", "Resolving hard cases", not "Set Theory"."""
    return len(words) > 1 and words[1].islower() and (says_what_happens(" ".join(words)) or _begins_command(words[0]))


def needed_for_name_in(text: str, start: int, end: int) -> int:
    """Return how many mentions in a document make a name in a text an entity, considering its surroundings."""
    words = text[start:end].split()
    needed = needed_for_name(words)
    if _CUT.match(text, end):
        return max(needed, REPEATED)
    if len(words) > 1 and is_common(words[0]) and _is_cut_off(text, start):
        return NEVER
    # Between small letters its capitals do say something: "in the United States of old".
    is_stated = _SMALL_BEFORE.search(text, max(0, start - 20), start) and _SMALL_AFTER.match(text, end)
    return 1 if is_stated and needed == REPEATED and len(words) > 1 else needed


def _is_cut_off(text: str, start: int) -> bool:
    """Whether a name lacks its first word, a noun or adjective with a capital: "Space Stipend" of "Coworking Space Stipend"."""
    before = _CAPITAL_BEFORE.search(text, max(0, start - _LONGEST_BEFORE), start)
    if before is None or before[1].lower() in ENGLISH_FUNCTION_WORDS:
        return False
    return best(tags_of(before[1].lower()) or {"": 1.0})[:2] != "VV"


def _is_quality(word: str) -> bool:
    """Whether a word with a capital is what something is or what to do, and no name: Mexican, Babylonian, Save."""
    lower = word.lower()
    if lower in ENGLISH_GIVEN_NAMES or lower in ENGLISH_SURE_NAMES:
        return False
    tags = tags_of(lower)
    if tags is None:
        return lower.endswith(_ENDS_OF_QUALITIES) and best(guess(lower)) == "AJ0"
    return best(tags) in ("AJ0", "VVB", "VVI")


def needed_for_phrase(words: list[str], classes: str, *, is_led: bool) -> int:
    """Return how many mentions in a document make an entity of a phrase.

    One that describes ("downcast eye", "routine failure") or is a clause ("ease tension") names no thing unless a document
    keeps saying it.

    `classes`: a letter for the class of each word (english.py).
    `is_led`: whether an article or a preposition stands before it.
    """
    if len(words) == 1:
        return REPEATED if "-" in words[0] or _OF_ACT.fullmatch(words[0].lower()) else 1
    if all(letter == "P" and _is_quality(word) for word, letter in zip(words[:-1], classes, strict=False)):
        # "Greek model" is no name.
        return NEVER
    if classes[0] in "PJ" and words[0] not in OF_RANK and _is_what_somebody_is(words[-1].lower()):
        # "South Korean actress".
        return NEVER
    if not is_led and words[0].isalpha() and _begins_command(words[0]):
        # "Disable printing", "exchange message": what to do.
        return NEVER
    if any(letter == "J" and _is_how(word) for word, letter in zip(words[:-1], classes, strict=False)):
        return OFTEN
    return REPEATED if _is_weak(words, classes, is_led=is_led) else 1


def _is_weak(words: list[str], classes: str, *, is_led: bool) -> bool:
    return (
        _NAME_AFTER_NOUN.search(classes) is not None
        or classes.endswith("PB")
        or (not is_led and classes.endswith(_VERB_LAST))
        or any(_is_rather_verb(words[place.start()]) for place in _VERB_LIKE.finditer(classes))
        or (classes[0] == "B" and words[0].endswith("ing"))
        or any(_is_weak_modifier(word, letter) for word, letter in zip(words[:-1], classes, strict=False))
    )


@lru_cache(maxsize=50_000)
def _begins_command(word: str) -> bool:
    lower = word.lower()
    shares = tags_of(lower) or guess(lower)
    is_verb = sum(share for tag, share in shares.items() if tag in ("VVB", "VVI", "VVZ")) >= 0.5
    return is_verb and lower not in ENGLISH_GIVEN_NAMES


def _is_command(words: list[str]) -> bool:
    """Whether words with capitals say what to do: "Edit Library Symbol", an entry of a menu."""
    if len(words) < 2 or not words[0].istitle():
        return False
    # Ødegaard Olsen; "Run ERC". First what needs no guess.
    is_known = tags_of(words[0].lower()) is not None or all(is_common(word) for word in words[1:])
    return is_known and _begins_command(words[0])


def _is_weak_modifier(word: str, letter: str) -> bool:
    if letter in "NB":
        # A plural before a noun: "persons meeting".
        return word.islower() and singular(word) != word
    return letter in "EI" or (letter == "J" and word not in OF_RANK)


def _is_how(word: str) -> bool:
    """Whether an adjective says how something is (dark, downcast), rather than what kind (municipal)."""
    is_of_kind = _OF_KIND.fullmatch(word.lower()) and frequency(word.lower(), "AJ") < _FREQUENT
    return word not in OF_RANK and word.islower() and not is_of_kind


def _is_what_somebody_is(head: str) -> bool:
    return singular(head) in ENGLISH_OCCUPATIONS or (len(head) > 6 and singular(head).endswith("ist"))


@lru_cache(maxsize=50_000)
def _is_rather_verb(word: str) -> bool:
    """Whether a word is not a noun in most of its uses: grab, ease, bent."""
    return sum(share for tag, share in (tags_of(word.lower()) or {"NN": 1.0}).items() if tag[:2] == "NN") < 0.5


def is_noun_or_adjective(word: str) -> bool:
    """Whether a word is a noun, a name or an adjective above all, by the lexicon or by its parts."""
    return best(tags_of(word.lower()) or guess(word.lower()))[:2] in ("NN", "NP", "AJ")


@lru_cache(maxsize=50_000)
def is_adjective(word: str) -> bool:
    """Whether a word is rather an adjective than anything else."""
    tags = tags_of(word.lower())
    return tags is not None and best(tags).startswith("AJ")


def is_common(word: str) -> bool:
    """Whether the lexicon knows a word well as a common one: Street, West; not Sarah, SDI, Amazon."""
    lower = word.lower()
    if lower not in tagger().cache:
        lower = singular(lower)
    if not word.isalpha() or best(tags_of(lower) or {"NP0": 1.0}) == "NP0":
        return False
    return frequency(lower, "") >= _KNOWN_WELL
