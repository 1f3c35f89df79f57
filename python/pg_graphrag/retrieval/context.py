"""graphrag.context: what a language model is given, within token budgets, with numbered references.

Source: LightRAG (arXiv 2410.05779); budgets cut whole entries.
"""

import json
from collections.abc import Callable, Iterable
from typing import Any

from pg_graphrag.errors import GraphRAGError
from pg_graphrag.retrieval import graph
from pg_graphrag.retrieval.items import entity_rows, relationship_rows
from pg_graphrag.retrieval.query import Query
from pg_graphrag.retrieval.search import prepare, run
from pg_graphrag.server import Database, Row
from pg_graphrag.text.tokenizers import tokenizer

# Modes whose context has a graph part, and where its entities and relationships come from.
_SOURCES: dict[str, tuple[graph.EvidenceSource, ...]] = {
    "local": (graph.local_evidence,),
    "global": (graph.global_evidence,),
    "hybrid": (graph.local_evidence, graph.global_evidence),
    "mix": (graph.local_evidence, graph.global_evidence),
}


def context(
    db: Database,
    query: str | None,
    corpus: str | None,
    mode_name: str | None,
    max_tokens: int | None,
    filter_: str | None,
    low: list[str] | None,
    high: list[str] | None,
    options: str | None,
) -> str:
    """Return {entities, relationships, reports, chunks, references, prompt, tokens} as JSON."""
    asked = prepare(db, query, corpus, mode_name, filter_, low, high, options, context=True)
    total = asked.options.max_total_tokens if max_tokens is None else max_tokens
    if total < 0:
        raise GraphRAGError(f"max_tokens cannot be {total}", hint="Give a number of tokens, 0 or more.")
    ranks = tokenizer(asked.corpus.tokenizer, asked.corpus.tokenizer_fingerprint)
    found = _graph_part(asked, str(mode_name)) if asked.text else graph.Evidence()
    relationships = [_relationship(row) for row in relationship_rows(asked, found.relationships)]
    entities = [_entity(row) for row in entity_rows(asked, found.entities)]
    entities, used = _fit(entities, _entity_line, min(asked.options.max_entity_tokens, total), ranks.count)
    relationships, more = _fit(
        relationships, _relationship_line, min(asked.options.max_relation_tokens, total - used), ranks.count
    )
    used += more
    chunks: list[Row] = []
    references: list[dict[str, Any]] = []
    if asked.options.include_chunks:
        for row in run(asked, mode_name, asked.options.chunk_top_k):
            number = _reference(references, row)
            entry = {"chunk_id": row["chunk_id"], "document_id": row["document_id"], "reference": number}
            entry |= {"content": row["content"], "score": row["score"], "explain": row["explain"]}
            cost = row["token_count"] + 8
            if used + cost > total:
                if not any(chunk["reference"] == number for chunk in chunks):
                    references.pop()
                break
            chunks.append(entry)
            used += cost
    prompt = _prompt(entities, relationships, chunks, references)
    whole = {"entities": entities, "relationships": relationships, "reports": [], "chunks": chunks}
    return json.dumps(whole | {"references": references, "prompt": prompt, "tokens": ranks.count(prompt)}, ensure_ascii=False)


def _graph_part(query: Query, mode_name: str) -> graph.Evidence:
    merged = graph.Evidence()
    for source in _SOURCES.get(mode_name, ()):
        found = source(query)
        for mine, theirs in ((merged.entities, found.entities), (merged.relationships, found.relationships)):
            for item, score in theirs.items():
                mine[item] = max(score, mine.get(item, 0.0))
    return merged


def _entity(row: Row) -> dict[str, Any]:
    fields = {name: row[name] for name in ("name", "type", "description", "degree", "score")}
    return {"entity_id": row["id"]} | fields


def _relationship(row: Row) -> dict[str, Any]:
    fields = {name: row[name] for name in ("source", "target", "keywords", "description", "weight", "score")}
    return {"relationship_id": row["id"]} | fields


def _entity_line(entity: dict[str, Any]) -> str:
    return f"- {entity['name']} ({entity['type']}): {entity['description']}"


def _relationship_line(relationship: dict[str, Any]) -> str:
    keywords = f" [{', '.join(relationship['keywords'])}]" if relationship["keywords"] else ""
    return f"- {relationship['source']} -- {relationship['target']}{keywords}: {relationship['description']}"


def _fit(
    entries: Iterable[dict[str, Any]], line: Callable[[dict[str, Any]], str], budget: int, count: Callable[[str], int]
) -> tuple[list[dict[str, Any]], int]:
    """Keep whole entries, best first, as long as they fit."""
    kept: list[dict[str, Any]] = []
    used = 0
    for entry in entries:
        cost = count(line(entry)) + 1
        if used + cost > budget:
            break
        kept.append(entry)
        used += cost
    return kept, used


def _reference(references: list[dict[str, Any]], row: Row) -> int:
    for reference in references:
        if reference["document_id"] == row["document_id"]:
            return int(reference["number"])
    number = len(references) + 1
    fields = {name: row[name] for name in ("document_id", "source_key", "title")}
    references.append({"number": number} | fields)
    return number


def _prompt(
    entities: list[dict[str, Any]], relationships: list[dict[str, Any]], chunks: list[Row], references: list[dict[str, Any]]
) -> str:
    parts = []
    if entities:
        parts.append("Entities:\n" + "\n".join(map(_entity_line, entities)))
    if relationships:
        parts.append("Relationships:\n" + "\n".join(map(_relationship_line, relationships)))
    if chunks:
        parts.append("Text:\n" + "\n\n".join(f"[{chunk['reference']}] {chunk['content']}" for chunk in chunks))
    if references:
        names = (f"[{r['number']}] {r['title'] or r['source_key']}" for r in references)
        parts.append("References:\n" + "\n".join(names))
    return "\n\n".join(parts)
