"""A concept: its name, the key of that name, and its type: PERSON, ORGANIZATION, …, another NAME, or a CONCEPT."""

import hashlib
import re
import unicodedata
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cache, lru_cache

from pg_graphrag.text import letters
from pg_graphrag.text.languages import HAN, KANA

REPEATED, OFTEN = 2, 3
NEVER = 2**31


@dataclass(frozen=True, slots=True)
class Concept:
    """A noun phrase and its place.

    `name`: display name; a common noun at its end is in the singular, so it can differ from ``text[start:end]``.
    `start`, `end`: span in characters. Spans may nest: "PostgreSQL" within "PostgreSQL server".
    `type`: ``NAME`` (a proper name or an identifier) or ``CONCEPT``.
    `mentions_needed`: how many mentions in its document make it an entity: 1, or `REPEATED` for a passing phrase or a piece
      of a name, `OFTEN` for a description, or `NEVER`. Walks of searches go over all concepts
      (index/indexing/chunk_concepts.py).
    `tag`: its type, if the tagger reads a name here; else "".
    `probability`: the tagger's, in hundredths.
    `term_score` (float, or None if unknown): how much it is a term here, by its surroundings
      (llm/embedding/name_tagger.py).
    `is_piece`: whether it is only a part of the tagger's names here, or joins several of them.
    """

    name: str
    start: int
    end: int
    type: str
    mentions_needed: int = 1
    tag: str = ""
    probability: int = 0
    term_score: float | None = None
    is_piece: bool = False

    @property
    def is_weak(self) -> bool:
        """Whether one mention makes no entity."""
        return self.mentions_needed > 1


_QUOTES = "\"'`´“”„‟‘’‚‛«»‹›「」『』〝〞〟"


# Hyphens, apostrophes and middle dots of every kind, as one each.
_ALIKE = str.maketrans(
    dict.fromkeys("\u2010\u2011\u2012\u2013\u2212\ufe63", "-") | dict.fromkeys("\u2018\u2019\u02bc\u00b4\u2032", "'")
    | dict.fromkeys("\u2022\u2027\u2219", "\u00b7")
)  # fmt: skip


@cache
def _beside_cjk() -> re.Pattern[str]:
    """Beside Han and kana a blank is typography: "Leiden アルゴリズム" and "Leidenアルゴリズム" are one name.

    Compiled on first use: that takes a millisecond.
    """
    return re.compile(rf"(?<=[{HAN}{KANA}]) | (?=[{HAN}{KANA}])")


# So many short names are remembered, because documents repeat them.
_SHORT_NAME, _REMEMBERED = 100, 4096


def key(name: str) -> str:
    """Return the key that `name` is matched by.

    As it is seen, NFKC, case-folded, white space collapsed and away beside Han and kana, hyphens and apostrophes in one form,
    outer quotes stripped.
    """
    return _short_key(name) if len(name) <= _SHORT_NAME else _key(name)


@lru_cache(maxsize=_REMEMBERED)
def _short_key(name: str) -> str:
    return _key(name)


def _key(name: str) -> str:
    text = unicodedata.normalize("NFKC", letters.folded(name))
    if not text.isascii():
        text = " ".join(text.translate(_ALIKE).split())
        text = _beside_cjk().sub("", text)
    # Quotes within quotes go too, with the blanks between them.
    return " ".join(text.split()).strip(_QUOTES + " ")


def digest(key_: str) -> bytes:
    """Return what a key is stored as where nothing but its equality counts, 8 bytes."""
    return hashlib.blake2b(key_.encode("utf-8", "surrogatepass"), digest_size=8).digest()


PERSON, CONCEPT = "PERSON", "CONCEPT"
# The tagger's probability, in hundredths, from which it takes a name for one.
_SURE = 50


def entity_types(concepts: Sequence[Concept], persons: Iterable[str] = (), *, is_read: bool = True) -> dict[str, str]:
    """Return {key: type} of a document's concepts: the type that the tagger gives it most often there.

    If the tagger has read the document, everything that it does not call a name is a CONCEPT: terms (VPN), roles,
    identifiers.

    `concepts`: by their full names, once for each mention.
    `persons`: names of persons, known from elsewhere.
    `is_read`: whether a tagger has read the document.
    """
    votes: dict[str, Counter[str]] = {}
    for concept in concepts:
        of_key = votes.setdefault(key(concept.name), Counter())
        if concept.probability >= _SURE:
            of_key[concept.tag] += concept.probability
    types = {entity_key: min(tags, key=lambda tag: (-tags[tag], tag)) for entity_key, tags in votes.items() if tags}
    terms = dict.fromkeys(votes, CONCEPT) if is_read else {}
    return terms | types | dict.fromkeys(map(key, persons), PERSON)
