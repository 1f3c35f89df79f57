"""Rows that a model chooses: one request shows the first candidates with the graph's paths to them, and returns those
that help.

As in BridgeRAG and SAG, candidates of a multi-hop question are read together, because a bridge is worth little by
itself.
"""

from typing import Any

from pg_graphrag.search.query.found_chunk import FoundChunk
from pg_graphrag.search.query.query import Query, timed
from pg_graphrag.search.retrievers import passages

# First rows that are shown; maximum characters of a row's title, of the paths to it, and of its nearest window.
CANDIDATES = 40
MAX_TITLE, MAX_PATH, MAX_TEXT = 100, 200, 700


def rows_needed(query: Query, top_k: int) -> int:
    """Return how many rows to retrieve for `top_k`; 55000 where the corpus has no model of the role `relevance`."""
    query.corpus.options.llm.of("relevance")
    return max(top_k, CANDIDATES)


@timed("select")
def selected(query: Query, rows: list[FoundChunk]) -> list[FoundChunk]:
    """Return the rows that a model names first, in its order, then the others in theirs; the score is 1
    rank.

    `explain.select` has the former rank and score of each, and whether the model named it. If the model fails, the rows
    stay unchanged, with a WARNING and a note.
    """
    if not rows:
        return rows
    first = rows[:CANDIDATES]
    nearest = passages.nearest(query, [row.chunk_id for row in first])
    texts = [
        candidate_text(row, nearest[row.chunk_id].window if row.chunk_id in nearest else row.content) for row in first
    ]
    outcome = query.models.ask("select", {"question": query.text, "texts": texts})
    query.usage.append(outcome.usage)
    if outcome.fault is not None:
        query.db.warning(f"no row was selected: {outcome.fault.message}", hint="They are in the order of the mode.")
        query.notes["select"] = {"failed": outcome.fault.message}
        return rows
    chosen = [number - 1 for number in outcome.value]
    order = list(dict.fromkeys([*chosen, *range(len(rows))]))
    ordered = [rows[place] for place in order]
    for rank, (place, row) in enumerate(zip(order, ordered, strict=True), 1):
        note = {"rank_before": place + 1, "score_before": row.score, "selected": rank <= len(chosen)}
        row.explain["select"] = note
        row.score = round(1 / rank, 9)
    return ordered


def candidate_text(row: FoundChunk, text: str) -> str:
    """Return a candidate as the model sees it: title, what leads to it, and its text, each bounded."""
    parts = [row.title or row.source_key, _led_by(row.explain), text]
    lines = [
        " ".join(str(part).split())[:most]
        for part, most in zip(parts, (MAX_TITLE, MAX_PATH, MAX_TEXT), strict=True)
        if part
    ]
    return "\n".join(lines)


def _led_by(explain: dict[str, Any]) -> str:
    """Return the path of the graph that led to a row, in words; "" without one."""
    if nodes := explain.get("path", {}).get("path"):
        return f"Path: {' → '.join(nodes)}"
    walked = explain.get("pagerank", {})
    if through := walked.get("through"):
        return f"Path: {'found directly, ' if walked.get('seed') else ''}through {through['key']}"
    reasons = (
        reason.get("because")
        for retriever in explain.values()
        if isinstance(retriever, dict)
        for reason in retriever.values()
        if isinstance(reason, dict)
    )
    because = [str(reason) for reason in dict.fromkeys(reasons) if reason]
    return f"Path: {'; '.join(because)}" if because else ""
