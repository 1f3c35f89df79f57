"""Keywords of a question without a model: its noun phrases, and the whole question."""

from pg_graphrag.text.concept import key
from pg_graphrag.text.languages import detect
from pg_graphrag.text.words.concepts import concepts


def keywords(query: str, language: str | None = None) -> tuple[list[str], list[str]]:
    """Return (low-level, high-level) keywords of `query`: its names and noun phrases; the whole query.

    LightRAG (arXiv 2410.05779) asks a model for them; this is the form without one (docs/search.md, Keywords). The
    noun phrases come from the extractor of documents, so that they meet the same entities.
    """
    high = themes(query)
    low: dict[str, str] = {}
    for concept in concepts(query, language or detect(query)) if high else ():
        low.setdefault(key(concept.name), concept.name)
    return list(low.values()), high


def themes(query: str) -> list[str]:
    """Return the high-level keywords of `query`."""
    theme = " ".join(query.split())
    return [theme] if theme else []
