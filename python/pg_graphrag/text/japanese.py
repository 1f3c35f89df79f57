"""Japanese morphemes, search terms and noun phrases, by SudachiPy.

Takaoka et al., "Sudachi: a Japanese Tokenizer for Business", LREC 2018: units of three lengths and normalised forms.
"""

import re
from collections.abc import Iterator
from functools import lru_cache
from typing import Any

from pg_graphrag.text import compounds
from pg_graphrag.text.compounds import Morpheme
from pg_graphrag.text.concepts import Concept
from pg_graphrag.text.extras import load
from pg_graphrag.text.stopwords import JAPANESE_HEADS

# Sudachi takes 49,149 bytes at a time; Han and kana are three or four bytes a character.
_PIECE = 8_000
_STOP_CLASSES = frozenset(("助詞", "助動詞", "補助記号", "記号", "空白", "代名詞", "連体詞", "接続詞", "感動詞"))
_SHORT_KANA = re.compile("[ぁ-ゖー]{1,2}")
_LETTERS = {"接頭辞": "a", "形状詞": "J", "接尾辞": "s"}


@lru_cache(maxsize=1)
def _sudachi() -> tuple[Any, Any]:
    load("sudachidict_core", "ja")
    module = load("sudachipy", "ja")
    dictionary = module.Dictionary(dict="core")
    make = getattr(dictionary, "tokenizer", None) or dictionary.create
    return make(mode=module.SplitMode.C), module.SplitMode.A


def _morphemes(run: str) -> Iterator[tuple[int, Any]]:
    """Yield (offset of the piece it is in, morpheme in Sudachi's longest units) over a run of Han and kana."""
    tokenizer, _ = _sudachi()
    for at in range(0, len(run), _PIECE):
        for morpheme in tokenizer.tokenize(run[at : at + _PIECE]):
            yield at, morpheme


@lru_cache(maxsize=50_000)
def terms(run: str) -> tuple[str, ...]:
    """Return the search terms of a run of Han and kana: normalised long units, and their short units beside them.

    The long unit makes a name such as 東京スカイツリー findable exactly, the short ones by its parts; normalised forms
    make old and new characters and spellings alike. Particles, auxiliaries, pronouns and formal nouns are left out.
    """
    _, short = _sudachi()
    found: list[str] = []
    for _, morpheme in _morphemes(run):
        if _is_content(morpheme):
            found.append(morpheme.normalized_form())
            parts = morpheme.split(short)
            if len(parts) > 1:
                found.extend(part.normalized_form() for part in parts if _is_content(part))
    return tuple(found)


def concepts(text: str) -> list[Concept]:
    """Return names and compound nouns of `text` in order of appearance."""
    return compounds.concepts(text, _analyse)


@lru_cache(maxsize=50_000)
def _analyse(run: str) -> tuple[Morpheme, ...]:
    _, short = _sudachi()
    return tuple(
        Morpheme(at + found.begin(), at + found.end(), _letter(found), len(found.split(short)) or 1)
        for at, found in _morphemes(run)
    )


def _letter(morpheme: Any) -> str:
    speech, surface = morpheme.part_of_speech(), morpheme.surface()
    # Two hiragana alone are a particle or a formal noun, whatever the analysis of a short run says.
    if _SHORT_KANA.fullmatch(surface):
        return "x"
    if speech[0] != "名詞":
        return _LETTERS.get(speech[0], "x")
    if speech[1] == "数詞":
        return "D"
    if surface in JAPANESE_HEADS or speech[2] in ("副詞可能", "助数詞可能"):
        return "x"
    return "P" if speech[1] == "固有名詞" else "N"


def _is_content(morpheme: Any) -> bool:
    speech = morpheme.part_of_speech()
    if (
        speech[0] in _STOP_CLASSES
        or _SHORT_KANA.fullmatch(morpheme.surface())
        or (speech[0] == "動詞" and speech[1] == "非自立可能")
    ):
        return False
    return morpheme.normalized_form() not in JAPANESE_HEADS and morpheme.surface() not in JAPANESE_HEADS
