"""Letters that stand apart from their marks (NFD), as in what is copied from macOS, made whole."""

import re
import unicodedata

# Marks behind letters, and parts of syllables in Hangul; to order more marks than a few takes time by the square.
_MARK = re.compile(r"[\u0300-\u036f\u3099\u309a\u1161-\u1175]")
_APART = re.compile(r"[^\W_][\u0300-\u036f\u3099\u309a]{1,4}|[\u1100-\u1112][\u1161-\u1175][\u11a8-\u11c2]?")


def are_apart(text: str) -> bool:
    """Whether a text has letters that may stand apart from their marks."""
    return not text.isascii() and _MARK.search(text) is not None


def whole(text: str) -> str:
    """Return a text with whole letters, and all else as it is."""
    return _APART.sub(lambda letter: unicodedata.normalize("NFC", letter[0]), text) if are_apart(text) else text


def with_places(text: str) -> tuple[str, list[int]]:
    """Return a text with whole letters, and of each of its characters, and of its end, the place in `text`."""
    parts: list[str] = []
    places: list[int] = []
    position = 0
    for letter in _APART.finditer(text):
        start, end = letter.span()
        letters = unicodedata.normalize("NFC", letter[0])
        parts += text[position:start], letters
        places += range(position, start)
        # What has no whole letter keeps its marks.
        places += [start + min(number, end - start) for number in range(len(letters))]
        position = end
    return "".join((*parts, text[position:])), [*places, *range(position, len(text) + 1)]
