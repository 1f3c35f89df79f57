"""graph_global for ask: map and reduce over the reports of one level (GraphRAG's global search, arXiv 2404.16130).

Every report of the level is read, in batches at a time, each of which gives points with a score; the best points are the
context that the answer is made from. A batch that fails costs its reports, which the context says, not the answer.
"""

import random
from typing import Any

from pg_graphrag.answer.points import Passage, Sources, points_of, report_passage
from pg_graphrag.retrieval.query import Query
from pg_graphrag.retrieval.reports import report_rows, visible_communities
from pg_graphrag.retrieval.themes import level_cut, without_reports
from pg_graphrag.server import Row

# Shuffles the reports: neighbours would tell of the same.
SEED = 86


def mapped(asked: Query, question: str, total: int) -> tuple[dict[str, Any], list[dict[str, Any]]]:
    """Return (the context made of the best points, what it cost).

    Raises
    ------
    GraphRAGError
        When no batch was answered: the first one's fault.
    """
    rows = _rows(asked)
    if not rows:
        without_reports(asked)
    passages, sources = passages_of(asked, rows)
    context, usage = points_of(asked, question, passages, sources, total)
    context["map"] |= {"level": asked.options.level, "reports": len(rows)}
    return context, [usage]


def _rows(asked: Query) -> list[Row]:
    """Return the reports of the level that the caller may see."""
    cut = level_cut(asked)
    seen = visible_communities(asked, cut)
    found = report_rows(asked.db, [number for number in cut if number in seen])
    return [found[number] for number in sorted(found)]


def passages_of(asked: Query, rows: list[Row]) -> tuple[list[Passage], Sources]:
    """Return (reports, shuffled; what they rest on)."""
    sources = Sources()
    sources.add(asked, (chunk for row in rows for finding in row["findings"] for chunk in finding["chunk_ids"]))
    passages = [report_passage(row, sources) for row in rows]
    random.Random(SEED).shuffle(passages)
    return passages, sources
