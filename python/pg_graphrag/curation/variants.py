"""Ways in which two names can be one: spelling, sound across scripts, abbreviation, a part for the whole. By the names alone."""

import re
import unicodedata
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from difflib import SequenceMatcher
from itertools import combinations

# Entities that share a form; more than this and the form says nothing.
MAX_ALIKE = 40
# Letters; shorter names differ by a letter for good reasons (cat, car).
MIN_TYPO_LETTERS = 6
# What is longer is no name that somebody mistypes; comparing takes the square of it.
MAX_COMPARED_LETTERS = 256
MIN_SOUND_LETTERS = 3
MIN_SOUND_RATIO = 0.75

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
_GERMAN = {"ä": "ae", "ö": "oe", "ü": "ue"}
_LATIN = {"ß": "ss", "æ": "ae", "œ": "oe", "ø": "o", "đ": "d", "ð": "d", "þ": "th", "ł": "l", "ı": "i"}
_SMALL_KANA = re.compile(r"i<(y[auo])")
# What is heard alike, longest first; c, q and x by what they sound like.
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
_WORD = re.compile(r"[^\W_]+")
_NUMBER = re.compile(r"\d+|\b[ivx]+\b")
_LITTLE = {"the", "of", "and", "for", "in", "on", "a", "an", "de", "der", "die", "das", "la", "le", "und", "von"}
_TITLES = {"mr", "mrs", "ms", "dr", "prof", "sir", "lady", "lord", "st"}


def words(key: str) -> list[str]:
    """Return the words of a key; a dotted abbreviation (u.s.a.) is one."""
    return _WORD.findall(re.sub(r"\b(\w)\.(?=\w\b|\s|$)", r"\1", key))


def latin(key: str) -> str:
    """Write a key in plain Latin letters: marks dropped; Cyrillic, Greek and kana as they sound; others as they are."""
    found = []
    for letter in unicodedata.normalize("NFC", key):
        if letter in _LATIN or letter in _CYRILLIC or letter in _GREEK:
            found.append(_LATIN.get(letter) or _CYRILLIC.get(letter) or _GREEK.get(letter, ""))
        elif "ぁ" <= letter <= "ヿ":
            found.append(_kana(letter))
        else:
            plain = [part for part in unicodedata.normalize("NFD", letter) if not unicodedata.combining(part)]
            found += [_GREEK.get(part, part) for part in plain]
    return _SMALL_KANA.sub(r"\1", "".join(found)).replace("<", "")


def _kana(letter: str) -> str:
    if letter == "ー" or letter in "ッっ":
        return ""
    name = unicodedata.name(letter, "").split()
    if len(name) < 3 or name[1] != "LETTER":
        return " "
    return ("<" if "SMALL" in name else "") + name[-1].lower()


def sound(word: str) -> str:
    """Return what is left of a word in Latin letters when vowels go and letters heard alike become one."""
    for pattern, heard in _SOUNDS:
        word = pattern.sub(heard, word)
    return word


def spelled(key: str) -> set[str]:
    """Return the forms under which spellings of one name meet: without marks, spaces, punctuation, articles or plural s."""
    forms = {latin(key), latin("".join(_GERMAN.get(letter, letter) for letter in key))}
    found = set()
    for form in forms:
        parts = [word for word in words(form) if word not in _LITTLE] or words(form)
        if parts and len(parts[-1]) > 3 and parts[-1].endswith("s") and not parts[-1].endswith("ss"):
            parts[-1] = parts[-1][:-1]
        found.add("".join(parts))
    return found - {""}


def initials(key: str) -> set[str]:
    """Return what a name of several words may be abbreviated to, with and without its little words."""
    parts = words(latin(key))
    if len(parts) < 2:
        return set()
    short = {"".join(word[0] for word in parts), "".join(word[0] for word in parts if word not in _LITTLE)}
    return {form for form in short if 2 <= len(form) <= 8}


def numbers(key: str) -> list[str]:
    """Return the numbers in a name, Roman ones too: where they differ, so do the things."""
    return _NUMBER.findall(key)


def part_of(short: str, long: str) -> bool:
    """Whether a name is the last word or words of a longer one, or has initials and titles where that has names."""
    few, many = words(latin(short)), words(latin(long))
    while few and few[0] in _TITLES:
        few = few[1:]
    if not few or not many or len(few) > len(many) or few == many:
        return False
    if len(few) < len(many) and few == many[-len(few) :]:
        return len("".join(few)) > 2
    return (
        len(few) == len(many) > 1
        and few[-1] == many[-1]
        and all(one == other or (len(one) == 1 and other.startswith(one)) for one, other in zip(few, many, strict=True))
    )


def variants(names: Mapping[int, tuple[str, str]]) -> dict[tuple[int, int], tuple[float, str]]:
    """Find pairs of names that may be one.

    Parameters
    ----------
    names : {id: (key, display name)}.

    Returns
    -------
    {(smaller id, larger id): (likelihood by the names alone in 0 … 1, why)}
    """
    found: dict[tuple[int, int], tuple[float, str]] = {}
    for pair, score, why in _pairs({number: key for number, (key, _) in names.items()}, names):
        one, other = (names[number][0] for number in pair)
        if score > found.get(pair, (0.0, ""))[0] and numbers(one) == numbers(other):
            found[pair] = (score, why)
    return found


def _pairs(
    keys: Mapping[int, str], names: Mapping[int, tuple[str, str]]
) -> Iterator[tuple[tuple[int, int], float, str]]:
    forms = {number: spelled(key) for number, key in keys.items()}
    for pair in _alike((number, form) for number, some in forms.items() for form in some):
        foreign = latin(keys[pair[0]]).isascii() and not (keys[pair[0]].isascii() and keys[pair[1]].isascii())
        yield (
            pair,
            0.9 if foreign else 0.95,
            "transliteration: the same letters" if foreign else "spelling: the same letters",
        )
    yield from _typos(forms)
    yield from _sounds(keys)
    short: dict[str, list[int]] = defaultdict(list)
    for number, (key, name) in names.items():
        letters = "".join(words(key))
        if 2 <= len(letters) <= 8 and len(words(key)) == 1 and (name.isupper() or "." in key):
            short[letters].append(number)
    for number, key in keys.items():
        for form in initials(key):
            for other in short.get(form, ()):
                if other != number:
                    yield _ordered(number, other), 0.7, f"abbreviation: initials {form.upper()}"
    last: dict[str, list[int]] = defaultdict(list)
    for number, key in keys.items():
        if parts := words(latin(key)):
            last[parts[-1]].append(number)
    for some in last.values():
        if len(some) <= MAX_ALIKE:
            for one, other in combinations(some, 2):
                for a, b in ((one, other), (other, one)):
                    if part_of(keys[a], keys[b]):
                        yield _ordered(a, b), 0.55, "abbreviation: part of the longer name"


def _typos(forms: Mapping[int, set[str]]) -> Iterator[tuple[tuple[int, int], float, str]]:
    """Names that are the same once a letter of each is left out: one or two edits apart."""
    long = {number: min(some, key=lambda form: (len(form), form)) for number, some in forms.items() if some}
    long = {number: form for number, form in long.items() if MIN_TYPO_LETTERS <= len(form) <= MAX_COMPARED_LETTERS}
    left = (
        (number, form[:at] + form[at + 1 :] if at >= 0 else form)
        for number, form in long.items()
        for at in range(-1, len(form))
    )
    for pair in _alike(left):
        ratio = SequenceMatcher(None, long[pair[0]], long[pair[1]], autojunk=False).ratio()
        if ratio >= 0.8 and long[pair[0]] != long[pair[1]]:
            yield pair, 0.9 * ratio - 0.1, "spelling: a letter apart"


def _sounds(keys: Mapping[int, str]) -> Iterator[tuple[tuple[int, int], float, str]]:
    written = {number: latin(key) for number, key in keys.items()}
    heard = {number: " ".join(sound(word) for word in words(form)) for number, form in written.items()}
    for pair in _alike(
        (number, form)
        for number, form in heard.items()
        if len(form) >= MIN_SOUND_LETTERS and len(written[number]) <= MAX_COMPARED_LETTERS
    ):
        scripts = [keys[number].isascii() for number in pair]
        ratio = SequenceMatcher(None, written[pair[0]], written[pair[1]], autojunk=False).ratio()
        if scripts[0] != scripts[1] and ratio >= 0.5:
            yield pair, 0.6 + 0.3 * ratio, "transliteration: the same sound"
        elif ratio >= MIN_SOUND_RATIO and len(heard[pair[0]]) > MIN_SOUND_LETTERS:
            yield pair, 0.4 + 0.3 * ratio, "spelling: the same sound"


def _alike(formed: Iterable[tuple[int, str]]) -> Iterator[tuple[int, int]]:
    """Yield each pair of numbers with a form in common once."""
    by_form: dict[str, list[int]] = defaultdict(list)
    for number, form in formed:
        # The forms of one number come together.
        if by_form[form][-1:] != [number]:
            by_form[form].append(number)
    seen: set[tuple[int, int]] = set()
    for some in by_form.values():
        if 1 < len(some) <= MAX_ALIKE:
            for pair in combinations(sorted(some), 2):
                if pair not in seen:
                    seen.add(pair)
                    yield pair


def _ordered(one: int, other: int) -> tuple[int, int]:
    return (one, other) if one < other else (other, one)
