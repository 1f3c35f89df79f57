"""Finds PDF pages whose fonts map to wrong letters or none: they look right, but their text is unusable."""

import re
from collections.abc import Sequence

from pg_graphrag.beside.readers.layout.page import Page

# Code points that stand for no known letter.
_UNREADABLE = re.compile("[\ufffd\ue000-\uf8ff\U000f0000-\U0010fffd]")
_MOST_UNREADABLE, _LEAST_SIGNS = 0.3, 20
# Words of Latin letters, and of how many of them so few are vowels in no language: .21 is the least of 200 letters
# amid texts in 152 languages, names and code among them.
_WORD, _VOWEL = re.compile(r"\b[A-Za-z]{4,}\b"), re.compile("[AEIOUYaeiouy]")
_LEAST_LETTERS, _LEAST_VOWELS = 200, 0.19
# Glyphs by their places in fonts in the order of Apple's are 29 before their letters; moved back, these have vowels.
_GLYPHS = re.compile(r"[A-Z\[\\\]]{4,}")
_MOVED_BACK = {code: code + 29 for code in range(ord("A"), ord("]") + 1)}
_FEW_VOWELS, _VOWELS_OF_WORDS = 0.27, 0.3


def garbled_pages(pages: Sequence[Page]) -> list[int]:
    """Return the numbers, from 1, of pages whose text is garbled."""
    texts = [" ".join(line.text for block in page for line in block.lines) for page in pages]
    # For many pages with a few words each.
    is_all = _lacks_vowels(" ".join(texts))
    return [
        number
        for number, text in enumerate(texts, 1)
        if text and (_is_unreadable(text) or _lacks_vowels(text) or (is_all and _WORD.search(text)))
    ]


def _is_unreadable(text: str) -> bool:
    signs = len("".join(text.split()))
    return signs >= _LEAST_SIGNS and len(_UNREADABLE.findall(text)) > _MOST_UNREADABLE * signs


def _lacks_vowels(text: str) -> bool:
    letters, glyphs = "".join(_WORD.findall(text)), "".join(_GLYPHS.findall(text))
    share = _share_of_vowels(letters)
    if len(letters) >= _LEAST_LETTERS and share < _LEAST_VOWELS:
        return True
    return (
        len(glyphs) >= max(_LEAST_LETTERS, len(letters) / 2)
        and share < _FEW_VOWELS
        and _share_of_vowels(glyphs.translate(_MOVED_BACK)) > _VOWELS_OF_WORDS
    )


def _share_of_vowels(letters: str) -> float:
    return len(_VOWEL.findall(letters)) / max(1, len(letters))
