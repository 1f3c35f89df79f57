"""Characters in the form in which texts are compared: no invisible ones, decomposed (NFD), one width, one form of each
Han character.

Texts are stored, embedded, shown and cited `without_stray_invisible`. Whatever compares them (keys of entities, terms,
titles, near-duplicates, grounding) has them `without_invisible`. Functions that keep positions, or return where each
character came from, say so. Texts of others are made `clean` before PostgreSQL gets them, and are quoted in `one_line`.
Tables of forms: OpenCC (opencc.byvoid.com).
"""

import re
import unicodedata
from functools import cache, lru_cache
from pathlib import Path
from typing import Any

from pg_graphrag.text.extras import load_library

# What Unicode lets no font show (Default_Ignorable_Code_Point): soft hyphens, joiners, directions, fillers, selectors, tags.
_INVISIBLE = (
    "\u00ad\u034f\u061c\u115f\u1160\u17b4\u17b5\u180b-\u180f\u200b-\u200f\u202a-\u202e\u2060-\u206f\u3164\ufe00-\ufe0f\ufeff"
    "\uffa0\ufff0-\ufff8\U0001bca0-\U0001bca3\U0001d173-\U0001d17a\U000e0000-\U000e0fff"
)
_INVISIBLE_RUN = re.compile(f"[{_INVISIBLE}]+")
# Places where it has a meaning: joining of Arabic and Indic letters, forms of Han characters, Mongolian letters and
# symbols, parts of emoji.
_JOINING, _EMOJI = "\u0620-\u1cff\ua840-\uabff", "\u00a9\u00ae\u203c-\u3299\U0001f000-\U0001faff"
_MEANT = re.compile(
    f"(?<=[{_JOINING}])[\u200c\u200d](?=[{_JOINING}])"
    "|(?<=[\u3400-\u9fff\uf900-\ufaff\U00020000-\U0003ffff])[\ufe00-\ufe02\U000e0100-\U000e01ef]"
    "|(?<=[\u1820-\u18aa])[\u180b-\u180d\u180f]"
    f"|(?<=[#*0-9{_EMOJI}])[\ufe0e\ufe0f]|(?<=[\ufe0f{_EMOJI}])\u200d(?=[{_EMOJI}])"
    "|(?<=[\U0001f3f4\U000e0020-\U000e007e])[\U000e0020-\U000e007f]"
)
# Marks behind letters, and parts of syllables in Hangul; to order more marks than a few takes time by the square.
_MARKS, _VOWELS = "\u0300-\u034e\u0350-\u036f\u3099\u309a", "\u1161-\u1175"
_APART = re.compile(rf"[^\W_][{_MARKS}]{{1,4}}|[\u1100-\u1112][{_VOWELS}][\u11a8-\u11c2]?")
_OTHERWISE = re.compile(f"[{_INVISIBLE}{_MARKS}{_VOWELS}]")
_OTHERWISE_RUN = re.compile(f"{_INVISIBLE_RUN.pattern}|{_APART.pattern}")

# Characters that PostgreSQL's text cannot hold.
_UNSTORABLE = re.compile("[\0\ud800-\udfff]")
# Characters of another's words in an error or a warning.
MAX_QUOTED = 100


def clean(text: str) -> str:
    """Return a text without what PostgreSQL cannot hold: NUL, and halves of surrogate pairs."""
    return _UNSTORABLE.sub("", text)


def one_line(text: str) -> str:
    """Return the beginning of a text as one short line, as errors and warnings quote a model."""
    line = " ".join(clean(text[: 4 * MAX_QUOTED]).split())
    return line if len(line) <= MAX_QUOTED else f"{line[: MAX_QUOTED - 1]}…"


def has_invisible_or_apart(text: str) -> bool:
    """Whether a text has characters that nobody sees, or letters that may stand apart from their marks."""
    return not text.isascii() and _OTHERWISE.search(text) is not None


def without_invisible(text: str) -> str:
    """Return a text without invisible characters, for comparison."""
    return text if text.isascii() else _INVISIBLE_RUN.sub("", text)


def folded(text: str) -> str:
    """Return a text without invisible characters, in normal width and small letters, for comparison."""
    return unicodedata.normalize("NFKC", without_invisible(text)).casefold()


def without_stray_invisible(text: str) -> str:
    """Return a text without the characters that nobody sees and that mean nothing where they stand: to be shown."""
    if text.isascii():
        return text
    return _INVISIBLE_RUN.sub(
        lambda run: "".join(text[place] for place in range(*run.span()) if _MEANT.match(text, place)), text
    )


def whole(text: str) -> str:
    """Return a text with composed letters, otherwise unchanged."""
    return _APART.sub(_composed, text) if has_invisible_or_apart(text) else text


def _composed(letter: re.Match[str]) -> str:
    return unicodedata.normalize("NFC", letter[0])


def with_places(text: str) -> tuple[str, list[int]]:
    """Return (a text with whole letters and nothing invisible, the places in `text` of its characters and of its end)."""
    parts: list[str] = []
    places: list[int] = []
    position = 0
    for match in _OTHERWISE_RUN.finditer(text):
        start, end = match.span()
        letters = without_invisible(_composed(match))
        parts += text[position:start], letters
        places += range(position, start)
        # Letters without a composed form keep their marks.
        places += [start + min(number, end - start) for number in range(len(letters))]
        position = end
    return "".join((*parts, text[position:])), [*places, *range(position, len(text) + 1)]


# Full-width letters and digits, half-width kana with their voice marks. Full-width punctuation ends a term: it stays.
_WIDTH = re.compile("[\uff10-\uff19\uff21-\uff3a\uff3f\uff41-\uff5a]|[\uff66-\uff9d][\uff9e\uff9f]?")


def narrow(text: str) -> tuple[str, list[int] | None]:
    """Return `text` with letters, digits and kana in their normal width.

    Returns (the text, in which a half-width kana and its voice mark become one character; the place in `text` of each of
    its characters and of its end, None if all places are equal).
    """
    matches = list(_WIDTH.finditer(text))
    if not matches:
        return text, None
    parts: list[str] = []
    origins: list[int] = []
    position = 0
    for match in matches:
        start, end = match.span()
        normalized = unicodedata.normalize("NFKC", match.group())
        if len(normalized) > 1:
            # A mark that does not combine with its kana.
            normalized = unicodedata.normalize("NFKC", match.group()[0]) + match.group()[1]
        parts += (text[position:start], normalized)
        origins.extend(range(position, start))
        origins.extend(range(start, start + len(normalized)))
        position = end
    parts.append(text[position:])
    origins.extend(range(position, len(text) + 1))
    return "".join(parts), origins


# Letters and digits of full width; hyphens of other kinds within a word; dashes and minuses that a code has for a hyphen.
_UNUSUAL = re.compile(
    "[\uff10-\uff19\uff21-\uff3a\uff41-\uff5a]"
    "|(?<=[^\\W_])[\u2010\u2011](?=[^\\W_])"
    "|(?<=[0-9A-Za-z\uff10-\uff5a])[\ufe63\uff0d](?=[0-9A-Za-z\uff10-\uff5a])"
    "|(?<=[A-Z\uff21-\uff3a])[\u2013\u2212](?=[0-9\uff10-\uff19])"
)


def usual(text: str) -> str:
    """Return a text of the same length, its letters and digits of usual width and its hyphens as keyboards have them."""
    if text.isascii():
        return text
    return _UNUSUAL.sub(lambda match: unicodedata.normalize("NFKC", match[0]) if match[0] >= "\uff10" else "-", text)


def simplified(run: str) -> str:
    """Return Chinese characters in their simplified forms, each at its place: 資料庫 and 资料库 are one word."""
    return _convert(run, "t2s", "zh")


def modern(run: str) -> str:
    """Return Japanese characters in the forms in use since 1946, each at its place: 廣島 and 広島 are one word."""
    return _convert(run, "t2jp", "ja")


@lru_cache(maxsize=50_000)
def unified(name: str) -> str:
    """Return a name as `unified_text`; names are asked for again and again."""
    return unified_text(name)


def unified_text(text: str) -> str:
    """Return a text as seen, in lower case, of usual width, with one form of each Han character (神戸, 神戶 and 神户)."""
    if text.isascii():
        return text.casefold()
    normalized = folded(text)
    if normalized.isascii() or not _han().search(normalized):
        return normalized
    return simplified(normalized.translate(_former_forms()))


def traditional(run: str) -> str:
    """Return Japanese and simplified Chinese characters in their traditional forms, each at its place."""
    return _convert(run.translate(_former_forms()), "s2t", "zh")


@cache
def _former_forms() -> dict[int, int]:
    """Return {character in use in Japan since 1946: the former one}, where there was one only."""
    former = "".join(map(chr, range(0x4E00, 0xA000)))
    by_form: dict[str, list[str]] = {}
    for character, form in zip(former, modern(former), strict=True):
        if character != form:
            by_form.setdefault(form, []).append(character)
    return {ord(form): ord(characters[0]) for form, characters in by_form.items() if len(characters) == 1}


def han_forms(run: str) -> set[str]:
    """Return a run of Han in simplified, traditional (of Taiwan, too) and Japanese characters, where these differ from it."""
    origin = traditional(run)
    return {origin, simplified(origin), modern(origin), _convert(origin, "t2tw", "zh")} - {run}


@cache
def _han() -> re.Pattern[str]:
    """Compiled on first use: that takes a millisecond."""
    return re.compile("[\u3005\u3007\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff]")


def _convert(run: str, table: str, extra: str) -> str:
    converter = _converter(table, extra)
    converted: str = converter.convert(run)
    if len(converted) == len(run):
        return converted
    # A phrase that is longer or shorter in the other script: character by character.
    return "".join(
        character if len(character) == 1 else original
        for original in run
        for character in [converter.convert(original)]
    )


@lru_cache(maxsize=8)
def _converter(table: str, extra: str) -> Any:
    opencc = load_library("opencc", extra)
    # By its bare name OpenCC would look for the table in the working directory first.
    return opencc.OpenCC(str(Path(opencc.__file__).parent / "clib/share/opencc" / f"{table}.json"))
