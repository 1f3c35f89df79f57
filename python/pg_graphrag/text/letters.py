"""Characters that nobody sees, away where texts are compared; and letters that stand apart from their marks (NFD), made whole.

Texts are kept, embedded, shown and cited `without_stray_invisible`; what compares them (keys of entities, terms, titles, twins,
grounding) has them `without_invisible`. Another's words are `clean` before PostgreSQL gets them, and quoted in `one_line`.
"""

import re
import unicodedata

# What Unicode lets no font show (Default_Ignorable_Code_Point): soft hyphens, joiners, directions, fillers, selectors, tags.
_INVISIBLE = (
    "\u00ad\u034f\u061c\u115f\u1160\u17b4\u17b5\u180b-\u180f\u200b-\u200f\u202a-\u202e\u2060-\u206f\u3164\ufe00-\ufe0f\ufeff"
    "\uffa0\ufff0-\ufff8\U0001bca0-\U0001bca3\U0001d173-\U0001d17a\U000e0000-\U000e0fff"
)
_INVISIBLE_RUN = re.compile(f"[{_INVISIBLE}]+")
# Where it has a meaning: how letters of Arabic and Indic scripts join, which form of a Han character, a Mongolian letter or a
# symbol is meant, of what an emoji is made.
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


def one_line(text: str, most: int = MAX_QUOTED) -> str:
    """Return the beginning of a text as one short line, as errors and warnings quote a model."""
    line = " ".join(clean(text[: 4 * most]).split())
    return line if len(line) <= most else f"{line[: most - 1]}…"


def has_invisible_or_apart(text: str) -> bool:
    """Whether a text has characters that nobody sees, or letters that may stand apart from their marks."""
    return not text.isascii() and _OTHERWISE.search(text) is not None


def without_invisible(text: str) -> str:
    """Return a text without the characters that nobody sees: to be compared."""
    return text if text.isascii() else _INVISIBLE_RUN.sub("", text)


def folded(text: str) -> str:
    """Return a text without the characters that nobody sees, of usual width and in small letters: to be compared."""
    return unicodedata.normalize("NFKC", without_invisible(text)).casefold()


def without_stray_invisible(text: str) -> str:
    """Return a text without the characters that nobody sees and that mean nothing where they stand: to be shown."""
    if text.isascii():
        return text
    return _INVISIBLE_RUN.sub(
        lambda run: "".join(text[place] for place in range(*run.span()) if _MEANT.match(text, place)), text
    )


def whole(text: str) -> str:
    """Return a text with whole letters, and all else as it is."""
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
        # What has no whole letter keeps its marks.
        places += [start + min(number, end - start) for number in range(len(letters))]
        position = end
    return "".join((*parts, text[position:])), [*places, *range(position, len(text) + 1)]
