"""Keywords of a question without a model: its noun phrases, and the whole question."""

from collections.abc import Sequence
from operator import attrgetter

from pg_graphrag.text.concept import Concept, key
from pg_graphrag.text.languages import detect
from pg_graphrag.text.words.concepts import concepts, with_names


def keywords(query: str, language: str | None = None, names: Sequence[Concept] = ()) -> tuple[list[str], list[str]]:
    """Return (low-level, high-level) keywords of `query`: its names and noun phrases; the whole query.

    LightRAG (arXiv 2410.05779) asks a model for them; this is the form without one (docs/search.md, Keywords). The
    noun phrases come from the extractor of documents, and `names` from its tagger, so that they meet the same entities. Pieces
    of names come last: what the graph knows is found however the tagger bounds it ("LiHua measures", "the Grand Model").
    """
    high = themes(query)
    low: dict[str, str] = {}
    named = with_names(concepts(query, language or detect(query)), names) if high else ()
    for concept in sorted(named, key=attrgetter("is_piece")):
        low.setdefault(key(concept.name), concept.name)
    return list(low.values()), high


def themes(query: str) -> list[str]:
    """Return the high-level keywords of `query`."""
    theme = " ".join(query.split())
    return [theme] if theme else []
