"""Extracts: an answer in the documents' own words, where no model gives one: sentences of the context, each with its citation."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from pg_graphrag.ground.json_reading import json_text
from pg_graphrag.search.contexts.citations import pieces
from pg_graphrag.search.contexts.sentences_in_order import (
    MAX_CHUNKS,
    MAX_SENTENCES,
    Sentence,
    in_order,
    long_enough,
    of_windows,
    readable,
)
from pg_graphrag.search.query.query import Query
from pg_graphrag.search.retrievers import passages
from pg_graphrag.search.retrievers.lexical import asks_for_the_whole, shared_words
from pg_graphrag.text import prompts
from pg_graphrag.text.languages import detect

# Themes of a question about the whole.
MAX_THEMES = 10


@dataclass(frozen=True, slots=True)
class Extracts:
    """Extracts as an answer, and (number, sentence) of each."""

    text: str
    cited_sentences: list[tuple[int, str]]


def extracts(query: Query, context: dict[str, Any], language: str, *, has_model: bool = True) -> Extracts | None:
    """Return the sentences of a context that answer its question, below a line in a `language`; None if there are none to
    cite.

    Rows of a statement, which was written for the question, come first. For a question about the whole, each theme has one
    sentence. No model is asked.
    """
    rows = [Sentence(text, number, 0) for text, number in _statement_rows(context)]
    candidates = long_enough([*_of_chunks(query, context), *_of_claims_and_rows(query, context)])
    of_themes = asks_for_the_whole(query) and any(candidate.theme for candidate in candidates)
    chosen = _of_each_theme(candidates) if of_themes else in_order(query, candidates, MAX_SENTENCES - len(rows))
    if not rows and not chosen:
        return None
    heading = prompts.sentence("extracts_heading" if has_model else "no_model_heading", language)
    cited = [*rows, *chosen]
    lines = [f"- {f'{each.theme}: ' if of_themes and each.theme else ''}{each.text} [{each.number}]" for each in cited]
    return Extracts("\n".join([heading, "", *lines]), [(each.number, each.text) for each in cited])


def _of_each_theme(candidates: list[Sentence]) -> list[Sentence]:
    """Return of each theme the sentence that has most of its names."""
    best: dict[str, tuple[int, Sentence]] = {}
    for sentence in candidates:
        shared = len(pieces(sentence.theme) & pieces(sentence.text))
        if sentence.theme and shared > best.get(sentence.theme, (-1, sentence))[0]:
            best[sentence.theme] = shared, sentence
    return [sentence for _, sentence in best.values()][:MAX_THEMES]


def _statement_rows(context: dict[str, Any]) -> Iterator[tuple[str, int]]:
    """Yield (the first rows of a statement as text, its number)."""
    outcome = context.get("sql", {})
    for row in outcome.get("rows", ())[: MAX_SENTENCES - 1]:
        values = {name: value for name, value in zip(outcome["columns"], row, strict=True) if value is not None}
        if text := readable(_pairs(values)):
            yield text, outcome["reference"]


def _of_chunks(query: Query, context: dict[str, Any]) -> Iterator[Sentence]:
    titles = {reference["number"]: reference["title"] or "" for reference in context["references"]}
    chunks = context["chunks"][:MAX_CHUNKS]
    by_chunk = passages.windows_of(query, [chunk["chunk_id"] for chunk in chunks], asks=False)
    for place, chunk in enumerate(chunks):
        number, shown = chunk["reference"], chunk["content"]
        # What notes were made of has no score to explain.
        theme = chunk.get("explain", {}).get("graph_global", {}).get("report") or ""
        whole = {
            "chunk_id": chunk["chunk_id"],
            "content": shown,
            "language": detect(shown),
            "nearness": 0.0,
            "start": 0,
        }
        windows = by_chunk.get(chunk["chunk_id"]) or [whole]
        yield from of_windows(query, windows, shown, number=number, place=place, title=titles[number], theme=theme)


def _of_claims_and_rows(query: Query, context: dict[str, Any]) -> Iterator[Sentence]:
    texts = [(claim["description"], claim, 0) for claim in context["claims"]]
    for table in context["tables"]:
        texts += [(_pairs(row["values"]), row, place) for place, row in enumerate(table["rows"])]
    # They are windows of their own.
    shares = shared_words(query).shares_of_query([text for text, _, _ in texts]).tolist()
    for (text, source, place), share in zip(texts, shares, strict=True):
        if line := readable(text):
            yield Sentence(line, source["reference"], source["chunk_id"], place, nearness=share / 2)


def _pairs(values: dict[str, Any]) -> str:
    texts = {name: value if isinstance(value, str) else json_text(value) for name, value in values.items()}
    return "; ".join(f"{name}: {text}" for name, text in texts.items() if values[name] is not None)
