"""Chinese words, search terms and noun phrases, by jieba."""

from functools import lru_cache
from typing import Any

from pg_graphrag.text import compounds
from pg_graphrag.text.compounds import Morpheme
from pg_graphrag.text.concepts import Concept
from pg_graphrag.text.extras import load
from pg_graphrag.text.stopwords import CHINESE_HEADS, CHINESE_STOP_WORDS

_LETTERS = {"a": "J", "b": "J", "an": "N", "vn": "N", "g": "N", "j": "N", "l": "N", "h": "a", "k": "s", "m": "D"}
_NAMES = ("nr", "ns", "nt", "nz")


@lru_cache(maxsize=1)
def _words() -> Any:
    """Return jieba's dictionary, read straight from the package.

    By itself jieba would unmarshal a cache it finds in the temporary directory, where anyone can put one.
    """
    jieba = load("jieba", "zh")
    words = jieba.Tokenizer()
    words.FREQ, words.total = words.gen_pfdict(words.get_dict_file())
    words.initialized = True
    return words


@lru_cache(maxsize=1)
def _tagger() -> Any:
    return load("jieba.posseg", "zh").POSTokenizer(_words())


@lru_cache(maxsize=50_000)
def terms(run: str) -> tuple[str, ...]:
    """Return the search terms of a run of Han: words, and the words inside long words beside them."""
    return tuple(word for word in _words().cut_for_search(run) if word not in CHINESE_STOP_WORDS)


def concepts(text: str) -> list[Concept]:
    """Return names and compound nouns of `text` in order of appearance."""
    return compounds.concepts(text, _analyse)


@lru_cache(maxsize=50_000)
def _analyse(run: str) -> tuple[Morpheme, ...]:
    found: list[Morpheme] = []
    at = 0
    for word, flag in _tagger().cut(run):
        # Four characters are two words of two: a compound noun by itself.
        found.append(Morpheme(at, at + len(word), _letter(word, flag), 2 if len(word) > 3 else 1))
        at += len(word)
    return tuple(found)


def _letter(word: str, flag: str) -> str:
    if word in CHINESE_HEADS or word in CHINESE_STOP_WORDS:
        return "x"
    if flag.startswith(_NAMES) and len(word) > 1:
        return "P"
    return _LETTERS.get(flag, "N" if flag.startswith("n") else "x")
