"""What a language model is given, within token budgets, with numbered references.

Source: LightRAG (arXiv 2410.05779); budgets cut whole entries.
"""

from collections.abc import Iterable
from typing import Any

from pg_graphrag.errors import GraphRAGError
from pg_graphrag.retrieval import claims as claims_of
from pg_graphrag.retrieval import graph
from pg_graphrag.retrieval.items import entity_rows, relationship_rows
from pg_graphrag.retrieval.mode import Mode
from pg_graphrag.retrieval.query import Query
from pg_graphrag.retrieval.rows import best_rows
from pg_graphrag.server import Row
from pg_graphrag.text.tokenizers import Tokenizer, tokenizer

MAX_REPORTS = 100
_CHUNK = ("chunk_id", "document_id", "content", "score", "explain")
_CLAIM = (
    "claim_id",
    "chunk_id",
    "document_id",
    "subject",
    "object",
    "type",
    "status",
    "start_date",
    "end_date",
    "description",
)


def assemble(asked: Query, mode: Mode, max_tokens: int | None, numbers: dict[int, int] | None = None) -> dict[str, Any]:
    """Return the context of a prepared query, as graphrag.context does.

    `numbers`: {document: the number it is cited by}, where several contexts share them; new ones are added.
    """
    total = budget(asked, max_tokens)
    parts_of = mode.context
    ranks = tokenizer(asked.corpus.tokenizer, asked.corpus.tokenizer_fingerprint)
    numbers = {} if numbers is None else numbers
    found = _merged(asked, parts_of.evidence) if asked.text else graph.Evidence()
    rows: list[Row] = []
    if asked.options.include_chunks and total:
        asked, rows = best_rows(asked, mode, asked.options.chunk_top_k)
    budgets = parts_of.budgets(asked.options, total)
    claims = parts_of.claims(asked, found, rows) if parts_of.claims else []
    claim_lines, argued = _fit(map(_unnumbered_line, claims), budgets.claims, ranks)
    claims = _numbered(claims[: len(claim_lines)], numbers)
    for_entities, for_relationships = budgets.graph or _halves(
        total - int(budgets.text or 0) - budgets.reports - argued
    )
    entities = entity_rows(asked, found.entities)
    entity_lines, used = _fit((_entity_line(row) for row, _ in entities), for_entities, ranks)
    relationships = relationship_rows(asked, found.relationships)
    if parts_of.in_order:
        place = {number: at for at, number in enumerate(found.relationships)}
        relationships = sorted(relationships, key=lambda one: place[one[0]["id"]])
    relationship_lines, more = _fit((_relationship_line(row) for row, _ in relationships), for_relationships, ranks)
    reports = _reports(asked, mode)
    report_texts, told = _fit((str(report["content"]) for report in reports), budgets.reports, ranks)
    chunks = _chunks(rows, total - used - more - told - argued if budgets.text is None else budgets.text)
    chunks = _numbered(parts_of.arrange(chunks) if parts_of.arrange else chunks, numbers)
    parts = prompt_parts(entity_lines, relationship_lines, report_texts, claims, chunks)
    # Costs add up only nearly: headings and references count too. The last entries go first.
    while (tokens := sum(map(ranks.count_known, parts))) > total and parts:
        kept: list[Any] = chunks or report_texts or claims or relationship_lines or entity_lines
        kept.pop()
        parts = prompt_parts(entity_lines, relationship_lines, report_texts, claims, chunks)
    references = _references([*claims, *chunks])
    for one in [*claims, *chunks]:
        del one["source"]
    return {
        "entities": [_entity(*one) for one in entities[: len(entity_lines)]],
        "relationships": [_relationship(*one) for one in relationships[: len(relationship_lines)]],
        "reports": reports[: len(report_texts)],
        "claims": claims,
        "chunks": chunks,
        "references": references,
        "prompt": "".join(parts),
        "tokens": tokens,
    }


def _halves(tokens: int) -> tuple[int, int]:
    return tokens // 2, tokens - tokens // 2


def _reports(asked: Query, mode: Mode) -> list[dict[str, Any]]:
    """Return the reports that the mode reads, the most important first."""
    rows = mode.context.reports(asked, MAX_REPORTS) if mode.context.reports and asked.text else []
    names = ("community_id", "level", "title", "summary", "content", "rating")
    return [{name: row[name] for name in names} for row in rows]


def budget(asked: Query, max_tokens: int | None) -> int:
    """Return the tokens that a context may have; 22023 for a bad number."""
    total = asked.options.max_total_tokens if max_tokens is None else max_tokens
    if total < 0:
        raise GraphRAGError(f"max_tokens cannot be {total}", hint="Give a number of tokens, 0 or more.")
    return total


def _merged(query: Query, sources: Iterable[graph.EvidenceSource]) -> graph.Evidence:
    merged = graph.Evidence()
    for source in sources:
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


def _unnumbered_line(claim: dict[str, Any]) -> str:
    return claims_of.line(claim | {"reference": 0})


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


def _chunks(rows: list[Row], budget: int) -> list[Row]:
    """Return the best chunks that fit, whole."""
    kept: list[Row] = []
    for row in rows:
        budget -= row["token_count"]
        if budget < 0:
            break
        kept.append(row)
    return kept


def _numbered(rows: list[Row], numbers: dict[int, int]) -> list[dict[str, Any]]:
    """Return chunks or claims, each with the number of its document."""
    made = []
    for row in rows:
        number = numbers.setdefault(row["document_id"], len(numbers) + 1)
        names = _CLAIM if "claim_id" in row else _CHUNK
        source = {name: row[name] for name in ("source_key", "title")}
        made.append({name: row[name] for name in names} | {"reference": number, "source": source})
    return made


def _references(cited: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return one numbered reference per document."""
    found = {
        one["reference"]: {"number": one["reference"], "document_id": one["document_id"]} | one["source"]
        for one in cited
    }
    return [found[number] for number in sorted(found)]


def prompt_parts(
    entities: list[str],
    relationships: list[str],
    reports: list[str],
    claims: list[dict[str, Any]],
    chunks: list[dict[str, Any]],
) -> list[str]:
    """Return the prompt in parts whose tokens add up to the whole's: none goes from a line end into what follows here."""
    parts: list[str] = []
    if reports:
        parts.append("Reports:\n" + "\n\n".join(reports) + "\n\n")
    said = [claims_of.line(claim) + "\n" for claim in claims]
    for heading, lines in (("Entities:\n", entities), ("Relationships:\n", relationships), ("Claims:\n", said)):
        if lines:
            parts += (heading, *lines[:-1], lines[-1] + "\n")
    if chunks:
        parts.append("Text:\n")
        for chunk in chunks:
            parts += (f"[{chunk['reference']}]", f" {chunk['content']}\n\n")
    if claims or chunks:
        parts.append("References:\n")
        parts += (f"[{r['number']}] {r['title'] or r['source_key']}\n" for r in _references([*claims, *chunks]))
    if parts:
        parts[-1] = parts[-1][: -1 if claims or chunks else -2]
    return parts
