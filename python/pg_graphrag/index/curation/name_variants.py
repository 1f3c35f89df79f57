"""Names that may mean one thing, judged by the names alone: spelling, sound across scripts, abbreviation, part of a
longer name.
"""

import re
import unicodedata
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from difflib import SequenceMatcher
from functools import lru_cache
from itertools import combinations

from pg_graphrag.text.languages import LETTER_OF_A_WORD

# Entities that share a form; more than this and the form says nothing.
MAX_ALIKE = 40
# Letters; shorter names differ by a letter for good reasons (cat, car).
MIN_TYPO_LETTERS = 6
# Longer names are not mistyped names, and comparing takes time quadratic in the length.
MAX_COMPARED_LETTERS = 256
MIN_SOUND_LETTERS = 3
MIN_SOUND_RATIO = 0.75
# Share of letters that a rough name and the one that it means have in common: in one script, and in two, where sounds decide.
MIN_ROUGH, MIN_FOREIGN = 0.8, 0.4

_CYRILLIC = dict(
    zip(
        "абвгдеёжзийклмнопрстуфхцчшщъыьэюяіїєґ",
        "a b v g d e e zh z i y k l m n o p r s t u f kh ts ch sh shch  y  e yu ya i yi ye g".split(" "),
        strict=True,
    )
)
_GREEK = dict(
    zip("αβγδεζηθικλμνξοπρσςτυφχψω", "a v g d e z i th i k l m n x o p r s s t y f ch ps o".split(), strict=True)
)
_GERMAN = str.maketrans({"ä": "ae", "ö": "oe", "ü": "ue"})
_LATIN = {"ß": "ss", "æ": "ae", "œ": "oe", "ø": "o", "đ": "d", "ð": "d", "þ": "th", "ł": "l", "ı": "i"}
_SMALL_KANA = re.compile(r"i<(y[auo])")
# Letters that sound alike, longest first; c, q and x by their sounds.
_SOUNDS = [
    (re.compile(pattern), heard)
    for pattern, heard in (
        ("tsch|tch|sch|sh|ch|zh|š|č|ž", "S"),
        ("ph", "f"),
        ("th", "t"),
        ("kh|gh|ck", "k"),
        ("ts|tz|z|c(?=[eiy])", "s"),
        ("c|q", "k"),
        ("x", "ks"),
        ("w", "v"),
        ("(?<!^)[aeiouyhj]", ""),
        ("^[aeiouyj]", "a"),
        (r"(.)\1+", r"\1"),
    )
]
# Kana tell neither l from r nor v from b.
_KANA, _AS_KANA = re.compile("[ぁ-ヿ]"), str.maketrans("lv", "rb")
# Greek, Cyrillic and kana, which are written as they sound.
_OTHER_SCRIPT = re.compile("[\u0370-\u052f\u1f00-\u1fffぁ-ヿ]")
# Signs that tell short names apart: C, C# and C++; .NET.
_SIGN, MAX_SIGNED = re.compile(r"[#+]|\A\."), 3
_WORD = re.compile(f"{LETTER_OF_A_WORD}+")
_ABBREVIATION_POINT = re.compile(r"\b(\w)\.(?=\w\b|\s|$)")
_NUMBER = re.compile(r"\d+|\b[ivx]+\b")
# What a name is, after it: the thing of "Kestrel engine" is Kestrel.
_WHAT_IT_IS = frozenset(
    "engine algorithm framework library database model method system project language protocol tool app software "
    "platform dataset benchmark river "
    "lake city island company corporation band album film novel game rocket ship bridge festival".split()
)
_PERSON = re.compile("[\u4e00-\u9fff々]{3,5}")
_PERSON_PART = re.compile("[\u4e00-\u9fff々]{2,3}")
_LITTLE = {"the", "of", "and", "for", "in", "on", "a", "an", "de", "der", "die", "das", "la", "le", "und", "von"}
_TITLES = {"mr", "mrs", "ms", "dr", "prof", "sir", "lady", "lord", "st"}


def words(key: str) -> list[str]:
    """Return the words of a key; a dotted abbreviation (u.s.a.) is one."""
    return _WORD.findall(_ABBREVIATION_POINT.sub(r"\1", key) if "." in key else key)


def latin(key: str) -> str:
    """Write a key in plain Latin letters: without diacritics; Cyrillic, Greek and kana by their sound; others unchanged."""
    if key.isascii() and "<" not in key:
        return key
    parts = []
    for letter in unicodedata.normalize("NFC", key):
        if letter in _LATIN or letter in _CYRILLIC or letter in _GREEK:
            parts.append(_LATIN.get(letter) or _CYRILLIC.get(letter) or _GREEK.get(letter, ""))
        elif "ぁ" <= letter <= "ヿ":
            parts.append(_kana(letter))
        else:
            base_letters = [part for part in unicodedata.normalize("NFD", letter) if not unicodedata.combining(part)]
            parts += [_GREEK.get(part, part) for part in base_letters]
    return _SMALL_KANA.sub(r"\1", "".join(parts)).replace("<", "")


def _kana(letter: str) -> str:
    if letter == "ー" or letter in "ッっ":
        return ""
    name = unicodedata.name(letter, "").split()
    if len(name) < 3 or name[1] != "LETTER":
        return " "
    return ("<" if "SMALL" in name else "") + name[-1].lower()


# Names have words in common.
@lru_cache(maxsize=20_000)
def sound(word: str) -> str:
    """Return a word in Latin letters without vowels, with one letter for those that sound alike."""
    for pattern, replacement in _SOUNDS:
        word = pattern.sub(replacement, word)
    return word


def spellings_of(key: str) -> set[str]:
    """Return the forms under which spellings of one name meet: without marks, spaces, punctuation, articles or plural s."""
    forms = {latin(spelling) for spelling in {key, key.translate(_GERMAN)}}
    spellings = set()
    for form in forms:
        parts = [word for word in words(form) if word not in _LITTLE] or words(form)
        if parts and len(parts[-1]) > 3 and parts[-1].endswith("s") and not parts[-1].endswith("ss"):
            parts[-1] = parts[-1][:-1]
        spellings.add("".join(parts))
    return spellings - {""}


def initials(parts: Sequence[str]) -> set[str]:
    """Return what a name of several words, in Latin letters, may be abbreviated to, with and without its little words."""
    if len(parts) < 2:
        return set()
    abbreviations = {"".join(word[0] for word in parts), "".join(word[0] for word in parts if word not in _LITTLE)}
    return {form for form in abbreviations if 2 <= len(form) <= 8}


def numbers(key: str) -> list[str]:
    """Return the numbers in a name, Roman ones too: where they differ, so do the things."""
    return _NUMBER.findall(key)


def part_of(short_words: Sequence[str], long_words: Sequence[str]) -> bool:
    """Whether a name is the last word or words of a longer one, or has initials and titles where that has names.

    Both as their words in Latin letters.
    """
    while short_words and short_words[0] in _TITLES:
        short_words = short_words[1:]
    if not short_words or not long_words or len(short_words) > len(long_words) or short_words == long_words:
        return False
    if len(short_words) < len(long_words) and short_words == long_words[-len(short_words) :]:
        return len("".join(short_words)) > 2
    return (
        len(short_words) == len(long_words) > 1
        and short_words[-1] == long_words[-1]
        and all(
            short_word == long_word or (len(short_word) == 1 and long_word.startswith(short_word))
            for short_word, long_word in zip(short_words, long_words, strict=True)
        )
    )


class Resembling:
    """What a name is like that somebody wrote roughly.

    `name`: its key.
    """

    def __init__(self, name: str) -> None:
        self.name = name
        self._words = words(latin(name))
        self._letters, self._sound = "".join(self._words), "".join(map(sound, self._words))
        self._numbers, self._signs = numbers(name), _SIGN.findall(name)
        self._is_sounded = _OTHER_SCRIPT.search(name) is not None

    def likeness(self, key: str) -> tuple[float, str]:
        """Return (how likely the name means the one of a key, 0 or from 0.7 to 1; why)."""
        parts = words(latin(key))
        letters = "".join(parts)
        is_foreign = (_OTHER_SCRIPT.search(key) is not None) != self._is_sounded
        short, long = sorted((len(self._letters), len(letters)))
        if not short or long > MAX_COMPARED_LETTERS or numbers(key) != self._numbers:
            return 0.0, ""
        if letters == self._letters:
            if len(letters) <= MAX_SIGNED and _SIGN.findall(key) != self._signs:
                return 0.0, ""
            return (0.9, "transliteration") if is_foreign else (0.95, "spelling")
        if len(self._words) == 1 and self._letters in initials(parts):
            return 0.7, "initials"
        if is_foreign:
            heard = self._heard(letters, parts, key) if 2 * short > long else 0.0
            return (0.4 + 0.5 * heard, "transliteration") if heard else (0.0, "")
        is_long = long >= MIN_TYPO_LETTERS - 1 and (2 - MIN_ROUGH) * short >= MIN_ROUGH * long
        alike = likeness(self._letters, letters, MIN_ROUGH) if is_long else 0.0
        return (alike, "spelling") if alike else (0.0, "")

    def _heard(self, letters: str, parts: Sequence[str], key: str) -> float:
        """Return the likeness of the sounds, where the letters may be those of one name."""
        if SequenceMatcher(None, self._letters, letters, autojunk=False).quick_ratio() < MIN_FOREIGN:
            return 0.0
        one, other = self._sound, "".join(map(sound, parts))
        if _KANA.search(self.name) or _KANA.search(key):
            one, other = one.translate(_AS_KANA), other.translate(_AS_KANA)
        return likeness(one, other, MIN_SOUND_RATIO) if min(len(one), len(other)) >= MIN_SOUND_LETTERS else 0.0


def variants(names: Mapping[int, tuple[str, str]]) -> dict[tuple[int, int], tuple[float, str]]:
    """Find pairs of names that may be one.

    `names`: {id: (key, display name)}.

    Returns {(smaller id, larger id): (likelihood by the names alone in 0 … 1, why)}.
    """
    candidates: dict[tuple[int, int], tuple[float, str]] = {}
    for pair, score, reason in _pairs({number: key for number, (key, _) in names.items()}, names):
        a, b = (names[number][0] for number in pair)
        if score > candidates.get(pair, (0.0, ""))[0] and numbers(a) == numbers(b):
            candidates[pair] = (score, reason)
    return candidates


def _pairs(
    keys: Mapping[int, str], names: Mapping[int, tuple[str, str]]
) -> Iterator[tuple[tuple[int, int], float, str]]:
    forms = {number: spellings_of(key) for number, key in keys.items()}
    latin_keys = {number: latin(key) for number, key in keys.items()}
    latin_words = {number: words(form) for number, form in latin_keys.items()}
    # Where numbers differ, so do the things: names with others are no pair to look at.
    own_numbers = {number: " ".join(numbers(key)) for number, key in keys.items()}
    for pair in _pairs_in_common(
        ((number, form) for number, number_forms in forms.items() for form in number_forms), own_numbers
    ):
        foreign = latin_keys[pair[0]].isascii() and not (keys[pair[0]].isascii() and keys[pair[1]].isascii())
        yield (
            pair,
            0.9 if foreign else 0.95,
            "transliteration: the same letters" if foreign else "spelling: the same letters",
        )
    yield from _typos(forms, own_numbers)
    yield from _sounds(keys, latin_keys, latin_words, own_numbers)
    abbreviations: dict[str, list[int]] = defaultdict(list)
    for number, (key, name) in names.items():
        parts = words(key)
        if len(parts) == 1 and 2 <= len(parts[0]) <= 8 and (name.isupper() or "." in key):
            abbreviations[parts[0]].append(number)
    for number, parts in latin_words.items():
        for form in initials(parts):
            for second_number in abbreviations.get(form, ()):
                if second_number != number:
                    yield _ascending(number, second_number), 0.7, f"abbreviation: initials {form.upper()}"
    yield from _beginnings(keys)
    last: dict[str, list[int]] = defaultdict(list)
    for number, parts in latin_words.items():
        if parts:
            last[parts[-1]].append(number)
    for sharing_numbers in last.values():
        if len(sharing_numbers) <= MAX_ALIKE:
            for first_number, second_number in combinations(sharing_numbers, 2):
                for a, b in ((first_number, second_number), (second_number, first_number)):
                    if part_of(latin_words[a], latin_words[b]):
                        yield _ascending(a, b), 0.55, "abbreviation: part of the longer name"


def _beginnings(keys: Mapping[int, str]) -> Iterator[tuple[tuple[int, int], float, str]]:
    """Yield names that are the beginning of one longer name alone: 高見 of 高見昂季, Kestrel of Kestrel engine."""
    numbers_of_keys = {key: number for number, key in keys.items()}
    longer: dict[int, list[tuple[int, float]]] = defaultdict(list)
    for number, key in keys.items():
        parts = key.split(" ")
        if len(parts) == 2 and parts[1] in _WHAT_IT_IS and parts[0] in numbers_of_keys:
            longer[numbers_of_keys[parts[0]]].append((number, 0.65))
        elif _PERSON.fullmatch(key):
            for length in (1, 2, 3):
                if (
                    key[:length] in numbers_of_keys
                    and _PERSON_PART.fullmatch(key[:length])
                    and len(key) - length in (1, 2)
                ):
                    longer[numbers_of_keys[key[:length]]].append((number, 0.55))
    for number, candidates in longer.items():
        # A family name that several persons have identifies none of them.
        if len(candidates) == 1:
            (second_number, score) = candidates[0]
            yield _ascending(number, second_number), score, "abbreviation: the beginning of the longer name"


def _typos(
    forms: Mapping[int, set[str]], own_numbers: Mapping[int, str]
) -> Iterator[tuple[tuple[int, int], float, str]]:
    """Yield names that are equal once a letter of each is left out: one or two edits apart."""
    shortest_forms = {
        number: min(number_forms, key=lambda form: (len(form), form))
        for number, number_forms in forms.items()
        if number_forms
    }
    shortest_forms = {
        number: form for number, form in shortest_forms.items() if MIN_TYPO_LETTERS <= len(form) <= MAX_COMPARED_LETTERS
    }
    shortened = (
        (number, form[:place] + form[place + 1 :] if place >= 0 else form)
        for number, form in shortest_forms.items()
        for place in range(-1, len(form))
    )
    for pair in _pairs_in_common(shortened, own_numbers):
        one, other = (shortest_forms[number] for number in pair)
        if one != other and (ratio := likeness(one, other, 0.8)):
            yield pair, 0.9 * ratio - 0.1, "spelling: a letter apart"


def _sounds(
    keys: Mapping[int, str],
    latin_forms: Mapping[int, str],
    latin_words: Mapping[int, Sequence[str]],
    own_numbers: Mapping[int, str],
) -> Iterator[tuple[tuple[int, int], float, str]]:
    sounds = {number: " ".join(map(sound, parts)) for number, parts in latin_words.items()}
    heard = (
        (number, form)
        for number, form in sounds.items()
        if len(form) >= MIN_SOUND_LETTERS and len(latin_forms[number]) <= MAX_COMPARED_LETTERS
    )
    for pair in _pairs_in_common(heard, own_numbers):
        one, other = (latin_forms[number] for number in pair)
        if keys[pair[0]].isascii() != keys[pair[1]].isascii() and (ratio := likeness(one, other, 0.5)):
            yield pair, 0.6 + 0.3 * ratio, "transliteration: the same sound"
        elif len(sounds[pair[0]]) > MIN_SOUND_LETTERS and (ratio := likeness(one, other, MIN_SOUND_RATIO)):
            yield pair, 0.4 + 0.3 * ratio, "spelling: the same sound"


def likeness(one: str, other: str, least: float) -> float:
    """Return the ratio of letters that two names have in common, in order; 0 where it is less than `least`."""
    matcher = SequenceMatcher(None, one, other, autojunk=False)
    # Bounds that take less.
    if matcher.real_quick_ratio() < least or matcher.quick_ratio() < least:
        return 0.0
    ratio = matcher.ratio()
    return ratio if ratio >= least else 0.0


def _pairs_in_common(
    number_forms: Iterable[tuple[int, str]], own_numbers: Mapping[int, str]
) -> Iterator[tuple[int, int]]:
    """Yield each pair of names, by their numbers, with a form and `own_numbers` in common once."""
    by_form: dict[tuple[str, str], list[int]] = defaultdict(list)
    for number, form in number_forms:
        sharing = by_form[form, own_numbers[number]]
        # The forms of one name come together.
        if sharing[-1:] != [number]:
            sharing.append(number)
    yielded: set[tuple[int, int]] = set()
    for sharing_numbers in by_form.values():
        if 1 < len(sharing_numbers) <= MAX_ALIKE:
            for pair in combinations(sorted(sharing_numbers), 2):
                if pair not in yielded:
                    yielded.add(pair)
                    yield pair


def _ascending(a: int, b: int) -> tuple[int, int]:
    return (a, b) if a < b else (b, a)
