"""graph_global for ask: map and reduce over the reports of one level (GraphRAG's global search, arXiv 2404.16130).

Every report of the level is read, in batches at a time, each of which gives points with a score; the best points are the
context that the answer is made from. A batch that fails costs its reports, which the context says, not the answer.
"""

import random
from collections.abc import Sequence
from typing import Any

from pg_graphrag.answer.call import ask_models
from pg_graphrag.errors import GraphRAGError
from pg_graphrag.retrieval.query import Query
from pg_graphrag.retrieval.reports import report_rows, visible_communities
from pg_graphrag.retrieval.themes import level_cut
from pg_graphrag.server import Row
from pg_graphrag.text.tokenizers import tokenizer

# Tokens of reports that one map request holds, and the seed that shuffles them: neighbours would tell of the same.
BATCH_TOKENS = 12_000
SEED = 86

_CHUNKS = """
SELECT c.id AS chunk_id, c.document_id, c.content, d.source_key, d.title
  FROM graphrag.chunks c
  JOIN graphrag.documents d ON d.id = c.document_id
 WHERE c.id = ANY ($1) AND ($2 IS NULL OR c.document_id = ANY ($2))
 ORDER BY d.source_key COLLATE "C", c.ordinal
"""


def mapped(asked: Query, question: str, total: int) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return (the context made of the best points, what it cost).

    Raises
    ------
    GraphRAGError
        When no batch was answered: the first one's fault.
    """
    db = asked.db
    count = tokenizer(asked.corpus.tokenizer, asked.corpus.tokenizer_fingerprint).count
    cut = level_cut(asked)
    seen = visible_communities(asked, cut)
    rows = report_rows(db, [number for number in cut if number in seen])
    known = _chunks(asked, list(rows.values()))
    numbers: dict[int, int] = {}
    for chunk in known.values():
        numbers.setdefault(chunk["document_id"], len(numbers) + 1)
    texts = [_cited(row, known, numbers) for row in rows.values()]
    batches = _batches(texts, count)
    outcomes, usage = ask_models(
        db,
        asked.corpus,
        "map",
        [{"question": question, "reports": "\n\n".join(batch)} for batch in batches],
        record=True,
    )
    faults = [outcome["fault"] for outcome in outcomes if "fault" in outcome]
    if faults and len(faults) == len(outcomes):
        raise GraphRAGError(
            faults[0]["message"], sqlstate=faults[0]["sqlstate"], detail=faults[0]["detail"], hint=faults[0]["hint"]
        )
    if faults:
        db.warning(f"{len(faults)} of {len(outcomes)} batches of reports were not read: {faults[0]['message']}")
    points = sorted(
        (point for outcome in outcomes if "value" in outcome for point in outcome["value"] if point["score"] > 0),
        key=lambda point: (-point["score"], point["description"]),
    )
    context = _context(points, total, count, known, numbers)
    context["map"] = {
        "level": asked.options.level,
        "reports": len(rows),
        "batches": len(batches),
        "failed": len(faults),
    }
    if not rows:
        db.warning(
            f'corpus "{asked.corpus.name}" has no reports on communities yet',
            hint="CALL graphrag.process_jobs(); where its option communities is false, graphrag.refresh_communities(…) before.",
        )
    return context, usage


def _chunks(asked: Query, rows: Sequence[Row]) -> dict[int, Row]:
    """Return {chunk id: chunk and document} of the chunks that findings rest on and the caller may see."""
    wanted = sorted({chunk for row in rows for finding in row["findings"] for chunk in finding["chunk_ids"]})
    found = asked.db.query(_CHUNKS, ["int8[]", "int8[]"], [wanted, asked.visible_ids])
    return {row["chunk_id"]: row for row in found}


def _cited(row: Row, known: dict[int, Row], numbers: dict[int, int]) -> str:
    """A report whose findings carry the numbers of the documents they rest on."""
    parts = [f"# {row['title']}", row["summary"]]
    for finding in row["findings"]:
        documents = {numbers[known[chunk]["document_id"]] for chunk in finding["chunk_ids"] if chunk in known}
        cited = "".join(f"[{number}]" for number in sorted(documents))
        parts += [f"## {finding['summary']} {cited}".rstrip(), finding["explanation"]]
    return "\n\n".join(part for part in parts if part)


def _batches(texts: Sequence[str], count: Any) -> list[list[str]]:
    order = list(texts)
    random.Random(SEED).shuffle(order)
    batches: list[list[str]] = []
    room = 0
    for text in order:
        cost = int(count(text)) + 2
        if not batches or cost > room:
            batches.append([])
            room = BATCH_TOKENS
        batches[-1].append(text)
        room -= cost
    return batches


def _context(
    points: Sequence[dict[str, Any]], total: int, count: Any, known: dict[int, Row], numbers: dict[int, int]
) -> dict[str, Any]:
    """Put the best points that fit into a context; its references are the documents that they cite."""
    kept, lines = [], ["Points from reports, each with its score from 0 to 100 and the numbers of its documents:"]
    used = count(lines[0])
    for point in points:
        line = f"- ({point['score']}) {point['description']}"
        used += count(line) + 1
        if used > total:
            break
        kept.append(point)
        lines.append(line)
    prompt = "\n".join(lines) if kept else ""
    references = {}
    for chunk in known.values():
        number = numbers[chunk["document_id"]]
        if f"[{number}]" in prompt:
            fields = {name: chunk[name] for name in ("document_id", "source_key", "title")}
            references[number] = {"number": number} | fields
    if references:
        names = (f"[{number}] {one['title'] or one['source_key']}" for number, one in sorted(references.items()))
        prompt += "\n\nReferences:\n" + "\n".join(names)
    chunks = [
        {"chunk_id": chunk["chunk_id"], "document_id": chunk["document_id"], "content": chunk["content"]}
        | {"reference": numbers[chunk["document_id"]]}
        for chunk in known.values()
        if numbers[chunk["document_id"]] in references
    ]
    whole: dict[str, Any] = {"entities": [], "relationships": [], "reports": [], "points": kept, "chunks": chunks}
    return whole | {
        "references": [references[number] for number in sorted(references)],
        "prompt": prompt,
        "tokens": count(prompt),
    }
