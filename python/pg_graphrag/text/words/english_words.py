"""English words as HanTa's lexicon knows them: parts of speech, frequencies, singulars.

HanTa: C. Wartena, "A Probabilistic Morphology Model for German Lemmatization", KONVENS 2019.
"""

from functools import lru_cache
from math import exp, inf
from typing import Any

from pg_graphrag.text.words.stopwords import ENGLISH_GIVEN_NAMES
from pg_graphrag.text.words.tagger import read_tagger

# The share of a word's uses from which it can be a part of speech at all.
POSSIBLY = 0.1
_IRREGULAR = {
    "children": "child", "men": "man", "women": "woman", "people": "people", "indices": "index", "matrices": "matrix",
    "vertices": "vertex", "feet": "foot", "teeth": "tooth", "mice": "mouse", "lives": "life", "wives": "wife",
    "knives": "knife", "leaves": "leaf", "shelves": "shelf", "wolves": "wolf", "series": "series", "species": "species",
    "news": "news", "criteria": "criterion", "phenomena": "phenomenon", "movies": "movie", "cookies": "cookie",
    "caches": "cache", "axes": "axis", "bases": "base", "lens": "lens", "alias": "alias", "aliases": "alias",
    "canvas": "canvas", "atlas": "atlas", "bias": "bias", "gas": "gas", "analyses": "analysis", "crises": "crisis",
    "postgres": "postgres", "kubernetes": "kubernetes", "kerberos": "kerberos", "nagios": "nagios",
    "potatoes": "potato", "tomatoes": "tomato", "heroes": "hero", "echoes": "echo",
    "hypotheses": "hypothesis", "theses": "thesis", "statuses": "status", "viruses": "virus", "buses": "bus",
}  # fmt: skip
# Nouns that no lexicon has, and that end as plurals do.
_SINGULAR = frozenset("prediabetes herpes rabies mumps scabies rickets caries pancreas forceps kudos pathos".split())


@lru_cache(maxsize=1)
def tagger() -> Any:
    """Return HanTa's English lexicon."""
    return read_tagger("morphmodel_en")


@lru_cache(maxsize=4096)
def tags_of(word: str) -> dict[str, float] | None:
    """Return the share of each part of speech among the uses of a known word."""
    return _shares(word) if word in tagger().cache else None


def guess(word: str) -> dict[str, float]:
    """Return the likely parts of speech of an unknown word, by its last part and its ending."""
    last = word.rpartition("-")[2]
    if last == word or not last.isalpha():
        return _shares(word)
    shares = _shares(last)
    # "table-like", "write-ahead": a modifier, unless its last part is a noun.
    return shares if best(shares).startswith("NN") else {"AJ0": 1.0}


@lru_cache(maxsize=4096)
def _shares(word: str) -> dict[str, float]:
    weights = {tag: float(logarithm) for tag, logarithm in tagger().tag_word(word)}
    top = max(weights.values())
    shares = {tag: exp(logarithm - top) for tag, logarithm in weights.items()}
    total = sum(shares.values())
    return {tag: share / total for tag, share in shares.items()}


def best(shares: dict[str, float]) -> str:
    """Return the part of speech with the largest share."""
    return max(sorted(shares), key=shares.__getitem__)


@lru_cache(maxsize=50_000)
def frequency(word: str, tags: str) -> float:
    """Return the logarithm of a word's share of all words, as these parts of speech; of an unknown word -infinity."""
    if word not in tagger().cache:
        return -inf
    return max((float(logarithm) for tag, logarithm in tagger().tag_word(word) if tag.startswith(tags)), default=-inf)


@lru_cache(maxsize=50_000)
def may_be_name(word: str) -> bool:
    """Whether a capitalised word is a name or unknown to the lexicon: Bob and Ødegaard, not Strange."""
    if word.lower() in ENGLISH_GIVEN_NAMES:
        return True
    tags = tags_of(word.lower())
    return tags is None or best(tags) == "NP0" or tags.get("NP0", 0.0) >= POSSIBLY


def is_adjective(word: str) -> bool:
    """Whether the lexicon has a word as an adjective above all: Japanese."""
    return best(tags_of(word.lower()) or {"NP0": 1.0}) == "AJ0"


def singular(word: str) -> str:
    """Return an English noun without its plural ending, so that "index scans" and "index scan" are one concept."""
    lower = word.lower()
    if lower in _IRREGULAR:
        return _IRREGULAR[lower]
    if len(lower) < 4 or not lower.endswith("s") or lower.endswith(("ss", "us", "is", "ics", "ous")) or word.isupper():
        return word
    # "diabetes", "headquarters"
    if lower in _SINGULAR or best(tags_of(lower) or {"NN2": 1.0}) in ("NN0", "NN1"):
        return word
    if lower.endswith("ies"):
        return word[:-3] + "y" if len(lower) > 4 else word[:-1]
    if lower.endswith(("sses", "shes", "ches", "xes", "zzes")):
        return word[:-2]
    return word[:-1]
