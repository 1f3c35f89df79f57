"""Chinese words, search terms and noun phrases, by jieba."""

from collections.abc import Iterator
from functools import lru_cache
from itertools import chain
from typing import Any

from pg_graphrag.text import compounds
from pg_graphrag.text.compounds import Morpheme
from pg_graphrag.text.concepts import Concept
from pg_graphrag.text.extras import load
from pg_graphrag.text.stopwords import CHINESE_HEADS, CHINESE_STOP_WORDS, CHINESE_SURNAMES
from pg_graphrag.text.variants import simplified

# jieba's parts of speech (ICTCLAS) to the classes of compounds.py; those in n are nouns, some of them names.
_LETTERS = {"a": "J", "b": "J", "an": "N", "vn": "N", "g": "N", "j": "N", "l": "N", "h": "a", "k": "s", "m": "D"}
_PIECE = 500
_NAMES = ("nr", "ns", "nt", "nz")


@lru_cache(maxsize=1)
def _words() -> Any:
    """Return jieba's dictionary, read straight from the package.

    By itself jieba would unmarshal a cache it finds in the temporary directory, where anyone can put one.
    """
    words = load("jieba", "zh").Tokenizer()
    words.FREQ, words.total = words.gen_pfdict(words.get_dict_file())
    words.initialized = True
    return words


@lru_cache(maxsize=1)
def _speech() -> dict[str, str]:
    """Return the part of speech of every word of the dictionary.

    jieba.posseg would guess it for unknown words too, at 13 ms a character.
    """
    with _words().get_dict_file() as file:
        entries = (line.decode().split() for line in file)
        return {entry[0]: entry[2] for entry in entries if len(entry) == 3}


@lru_cache(maxsize=50_000)
def terms(run: str) -> tuple[str, ...]:
    """Return the search terms of a run of Han, simplified: words, and the words inside long words beside them."""
    return tuple(
        word
        for piece in _pieces(simplified(run))
        for word in _words().cut_for_search(piece)
        if word not in CHINESE_STOP_WORDS
    )


def _pieces(run: str) -> Iterator[str]:
    """Yield stretches of a run: jieba takes time quadratic in the length of text that is not in its dictionary."""
    return (run[start : start + _PIECE] for start in range(0, len(run), _PIECE))


def concepts(text: str) -> list[Concept]:
    """Return names and compound nouns of `text` in order of appearance."""
    return compounds.concepts(text, _analyse)


@lru_cache(maxsize=50_000)
def _analyse(run: str) -> tuple[Morpheme, ...]:
    morphemes: list[Morpheme] = []
    start = 0
    for word in chain.from_iterable(_words().cut(piece) for piece in _pieces(simplified(run))):
        # A word of four characters is a compound of two words.
        morphemes.append(Morpheme(start, start + len(word), _letter(word), 2 if len(word) > 3 else 1))
        start += len(word)
    return tuple(morphemes)


def _letter(word: str) -> str:
    if word in CHINESE_HEADS or word in CHINESE_STOP_WORDS:
        return "x"
    speech = _speech().get(word)
    if speech is None:
        # Found by the hidden Markov model: a person's name, or a word too new for the dictionary.
        if len(word) in (2, 3) and word[0] in CHINESE_SURNAMES:
            return "P"
        return "N" if 1 < len(word) < 6 else "x"
    if speech.startswith(_NAMES) and len(word) > 1:
        return "P"
    return _LETTERS.get(speech, "N" if speech.startswith("n") else "x")
