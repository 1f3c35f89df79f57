"""Extracts: what is given where no answer of a model holds: the sentences of the context nearest to the question, each cited."""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from pg_graphrag.search.contexts.excerpts import GAP
from pg_graphrag.search.query.query import Query
from pg_graphrag.search.retrievers import passages
from pg_graphrag.search.retrievers.lexical import shared_words
from pg_graphrag.text import prompts
from pg_graphrag.text.chunks import half_words
from pg_graphrag.text.languages import detect
from pg_graphrag.text.marks import without_citations
from pg_graphrag.text.sentences import sentences

# At most so many, each of at most so many characters, and none that is less than this share as near as the nearest.
MAX_EXTRACTS, MAX_CHARACTERS, NEAR_ENOUGH = 5, 400, 0.5
# Chunks that are looked at, the best ranked.
MAX_CHUNKS = 200
# Half words: what is shorter is a heading or a label, and says nothing.
MIN_SIZE = 8

# What begins a line of Markdown: of a list, a quotation or a heading.
_LINE_MARK = re.compile(r"\A(?:[-*+•>|#\s]|\d{1,3}[.)]\s)+")


@dataclass(frozen=True, slots=True)
class Extracts:
    """Extracts as an answer, and (number, sentence) of each."""

    text: str
    cited_sentences: list[tuple[int, str]]


@dataclass(frozen=True, slots=True)
class _Candidate:
    text: str
    number: int
    nearness: float


def extracts(query: Query, context: dict[str, Any], language: str) -> Extracts | None:
    """Return the sentences of a context nearest to its question, under a line in a `language`; None where it has nothing to cite.

    Rows of a statement, which was written for the question, come before. A sentence counts by the share of the question's words
    that it has and by how near its window is, which knows vectors; no model is asked.
    """
    numbers_by_text = dict(_statement_rows(context))
    candidates = sorted(_candidates(query, context), key=lambda candidate: -candidate.nearness)
    for candidate in candidates:
        is_near = candidate.nearness >= NEAR_ENOUGH * candidates[0].nearness
        if len(numbers_by_text) < MAX_EXTRACTS and is_near:
            numbers_by_text.setdefault(candidate.text, candidate.number)
    if not numbers_by_text:
        return None
    lines = [f"- {text} [{number}]" for text, number in numbers_by_text.items()]
    return Extracts(
        "\n".join([prompts.sentence("extracts_heading", language), "", *lines]),
        [(number, text) for text, number in numbers_by_text.items()],
    )


def _statement_rows(context: dict[str, Any]) -> Iterator[tuple[str, int]]:
    """Yield (the first rows of a statement as text, its number)."""
    outcome = context.get("sql", {})
    for row in outcome.get("rows", ())[: MAX_EXTRACTS - 1]:
        values = {name: value for name, value in zip(outcome["columns"], row, strict=True) if value is not None}
        if text := _readable(_pairs(values)):
            yield text, outcome["reference"]


def _candidates(query: Query, context: dict[str, Any]) -> Iterator[_Candidate]:
    """Yield the sentences of chunks as they are ranked, then claims and rows of tables."""
    chunks = {chunk["chunk_id"]: chunk for chunk in context["chunks"][:MAX_CHUNKS]}
    windows = passages.windows(query, list(chunks), asks=False)
    by_chunk: dict[int, list[tuple[str, str, float]]] = {}
    for window in windows:
        by_chunk.setdefault(window["chunk_id"], []).append((window["content"], window["language"], window["nearness"]))
    texts: list[tuple[str, int, float]] = []
    for chunk in chunks.values():
        shown = chunk["content"]
        for content, language, nearness in by_chunk.get(chunk["chunk_id"]) or [(shown, detect(shown), 0.0)]:
            spans = [content[start:end].strip() for start, end in sentences(content, language)]
            # Of a chunk that is given in excerpts, only these.
            texts += [(text, chunk["reference"], nearness) for text in spans if text in shown and text != GAP]
    texts += [(claim["description"], claim["reference"], 0.0) for claim in context["claims"]]
    for table in context["tables"]:
        texts += [(_pairs(row["values"]), row["reference"], 0.0) for row in table["rows"]]
    shares = shared_words(query).shares_of_query([text for text, _, _ in texts]).tolist()
    readable = [
        (_readable(text), number, share + nearness / 2)
        for (text, number, nearness), share in zip(texts, shares, strict=True)
    ]
    long_enough = [entry for entry in readable if half_words(entry[0], 0, len(entry[0])) >= MIN_SIZE]
    for text, number, nearness in long_enough or readable:
        if text:
            yield _Candidate(text, number, round(nearness, 9))


def _pairs(values: dict[str, Any]) -> str:
    return "; ".join(f"{name}: {value}" for name, value in values.items() if value is not None)


def _readable(text: str) -> str:
    """Return a text as a line of a list, without citations of its own; "" for one without a letter or digit."""
    line = without_citations(" ".join(_LINE_MARK.sub("", text).split())).strip()
    if not any(character.isalnum() for character in line):
        return ""
    return line if len(line) <= MAX_CHARACTERS else f"{line[: MAX_CHARACTERS - 1].rstrip()}{GAP}"
