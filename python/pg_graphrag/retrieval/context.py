"""graphrag.context: what a language model is given, within token budgets, with numbered references.

Source: LightRAG (arXiv 2410.05779); budgets cut whole entries.
"""

import json
from collections.abc import Iterable
from typing import Any

from pg_graphrag.errors import GraphRAGError
from pg_graphrag.retrieval import graph, themes
from pg_graphrag.retrieval.items import entity_rows, relationship_rows
from pg_graphrag.retrieval.query import Query
from pg_graphrag.retrieval.search import prepare, run
from pg_graphrag.server import Database, Row
from pg_graphrag.text.tokenizers import Tokenizer, tokenizer

# Modes whose context has a graph part, and where its entities and relationships come from.
_SOURCES: dict[str, tuple[graph.EvidenceSource, ...]] = {
    "local": (graph.local_evidence,),
    "global": (graph.global_evidence,),
    "hybrid": (graph.local_evidence, graph.global_evidence),
    "mix": (graph.local_evidence, graph.global_evidence),
    "graph_local": (themes.local_evidence,),
}
# GraphRAG's shares of the whole: text, reports; the rest is for entities and relationships.
_SHARES = {"graph_local": (0.5, 0.15), "graph_global": (0.0, 1.0)}
MAX_REPORTS = 100


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
    return json.dumps(assemble(asked, mode_name, max_tokens), ensure_ascii=False)


def assemble(asked: Query, mode_name: str | None, max_tokens: int | None) -> dict[str, Any]:
    """Return the context of a prepared query, as `context` does."""
    total = budget(asked, max_tokens)
    ranks = tokenizer(asked.corpus.tokenizer, asked.corpus.tokenizer_fingerprint)
    found = _graph_part(asked, str(mode_name)) if asked.text else graph.Evidence()
    relationships = relationship_rows(asked, found.relationships)
    entities = entity_rows(asked, found.entities)
    for_text, for_reports, for_entities, for_relationships = _budgets(asked, str(mode_name), total)
    entity_lines, used = _fit((_entity_line(row) for row, _ in entities), for_entities, ranks)
    relationship_lines, more = _fit((_relationship_line(row) for row, _ in relationships), for_relationships, ranks)
    reports = _reports(asked, str(mode_name))
    report_texts, told = _fit((str(report["content"]) for report in reports), for_reports, ranks)
    left = total - used - more - told if for_text is None else for_text
    chunks = _chunks(asked, mode_name, left) if asked.options.include_chunks and left else []
    parts = prompt_parts(entity_lines, relationship_lines, report_texts, chunks)
    # Costs add up only nearly: headings and references count too. The last entries go first.
    while (tokens := sum(map(ranks.count_known, parts))) > total and parts:
        (chunks or report_texts or relationship_lines or entity_lines).pop()
        parts = prompt_parts(entity_lines, relationship_lines, report_texts, chunks)
    references = _references(chunks)
    for chunk in chunks:
        del chunk["source"]
    return {
        "entities": [_entity(*one) for one in entities[: len(entity_lines)]],
        "relationships": [_relationship(*one) for one in relationships[: len(relationship_lines)]],
        "reports": reports[: len(report_texts)],
        "chunks": chunks,
        "references": references,
        "prompt": "".join(parts),
        "tokens": tokens,
    }


def _budgets(asked: Query, mode_name: str, total: int) -> tuple[int | None, int, int, int]:
    """Return the tokens for text (None: what the others leave), reports, entities and relationships."""
    if mode_name in _SHARES:
        text, reports = (int(total * share) for share in _SHARES[mode_name])
        rest = total - text - reports
        return text, reports, rest // 2, rest - rest // 2
    # A smaller whole keeps the proportions of its parts, so that the graph never crowds out the text.
    share = min(1.0, total / asked.options.max_total_tokens) if asked.options.max_total_tokens else 1.0
    return None, 0, int(share * asked.options.max_entity_tokens), int(share * asked.options.max_relation_tokens)


def _reports(asked: Query, mode_name: str) -> list[dict[str, Any]]:
    """Return the reports that the mode reads, the most important first."""
    rows: list[Row] = []
    if asked.text and mode_name == "graph_local":
        rows = themes.local_reports(asked, MAX_REPORTS)
    elif asked.text and mode_name == "graph_global":
        rows = themes.global_reports(asked, MAX_REPORTS)
    names = ("community_id", "level", "title", "summary", "content", "rating")
    return [{name: row[name] for name in names} for row in rows]


def budget(asked: Query, max_tokens: int | None) -> int:
    """Return the tokens that a context may have; 22023 for a bad number."""
    total = asked.options.max_total_tokens if max_tokens is None else max_tokens
    if total < 0:
        raise GraphRAGError(f"max_tokens cannot be {total}", hint="Give a number of tokens, 0 or more.")
    return total


def _graph_part(query: Query, mode_name: str) -> graph.Evidence:
    merged = graph.Evidence()
    for source in _SOURCES.get(mode_name, ()):
        found = source(query)
        for mine, theirs in ((merged.entities, found.entities), (merged.relationships, found.relationships)):
            for item, score in theirs.items():
                mine[item] = max(score, mine.get(item, 0.0))
    return merged


def _entity(row: Row, score: float) -> dict[str, Any]:
    return {
        "entity_id": row["id"],
        "name": row["name"],
        "type": row["type"],
        "description": row["description"],
        "degree": row["degree"],
        "score": score,
    }


def _relationship(row: Row, score: float) -> dict[str, Any]:
    return {
        "relationship_id": row["id"],
        "source": row["source"],
        "target": row["target"],
        "keywords": row["keywords"],
        "description": row["description"],
        "weight": row["weight"],
        "score": score,
    }


def _entity_line(row: Row) -> str:
    return f"- {row['name']} ({row['type']}): {row['description']}\n"


def _relationship_line(row: Row) -> str:
    keywords = f" [{', '.join(row['keywords'])}]" if row["keywords"] else ""
    return f"- {row['source']} -- {row['target']}{keywords}: {row['description']}\n"


def _fit(entries: Iterable[str], budget: int, ranks: Tokenizer) -> tuple[list[str], int]:
    """Return the whole entries, best first, that fit, and their tokens."""
    kept: list[str] = []
    used = 0
    for entry in entries:
        cost = ranks.count_known(entry) + 1
        if used + cost > budget:
            break
        kept.append(entry)
        used += cost
    return kept, used


def _chunks(query: Query, mode_name: str | None, budget: int) -> list[Row]:
    """Return the best chunks that fit, whole; each with the number of its document."""
    numbers: dict[int, int] = {}
    kept: list[Row] = []
    for row in run(query, mode_name, query.options.chunk_top_k):
        budget -= row["token_count"]
        if budget < 0:
            break
        number = numbers.setdefault(row["document_id"], len(numbers) + 1)
        entry = {name: row[name] for name in ("chunk_id", "document_id", "content", "score", "explain")}
        kept.append(entry | {"reference": number, "source": {name: row[name] for name in ("source_key", "title")}})
    return kept


def _references(chunks: list[Row]) -> list[dict[str, Any]]:
    """Return one numbered reference per document."""
    found = {
        chunk["reference"]: {"number": chunk["reference"], "document_id": chunk["document_id"]} | chunk["source"]
        for chunk in chunks
    }
    return [found[number] for number in sorted(found)]


def prompt_parts(entities: list[str], relationships: list[str], reports: list[str], chunks: list[Row]) -> list[str]:
    """Return the prompt in parts whose tokens add up to the whole's: none goes from a line end into what follows here."""
    parts: list[str] = []
    if reports:
        parts.append("Reports:\n" + "\n\n".join(reports) + "\n\n")
    for heading, lines in (("Entities:\n", entities), ("Relationships:\n", relationships)):
        if lines:
            parts += (heading, *lines[:-1], lines[-1] + "\n")
    if chunks:
        parts.append("Text:\n")
        for chunk in chunks:
            parts += (f"[{chunk['reference']}]", f" {chunk['content']}\n\n")
        parts.append("References:\n")
        parts += (f"[{r['number']}] {r['title'] or r['source_key']}\n" for r in _references(chunks))
    if parts:
        parts[-1] = parts[-1][: -1 if chunks else -2]
    return parts
