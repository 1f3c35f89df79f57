"""graph_global for ask: map and reduce over the reports of one level (GraphRAG's global search, arXiv 2404.16130).

Every report of the level is read (`dynamic`: those that a model finds relevant), in batches at a time, each of which gives
points with a score; the best points are the context that the answer is made from. A batch that fails costs its reports,
which the context says, not the answer.
"""

import random
from collections.abc import Iterable
from typing import Any

from pg_graphrag.answer.points import Passage, Sources, faults_of, points_of, report_passage, tolerated
from pg_graphrag.model_access.models import ask_models
from pg_graphrag.retrieval.query import Query
from pg_graphrag.retrieval.reports import report_rows, visible_communities
from pg_graphrag.retrieval.themes import child_communities, level_cut, without_reports
from pg_graphrag.server import Row

# Shuffles the reports: neighbours would tell of the same.
SEED = 86
# Of 0 to 5, from which on a report is relevant (GraphRAG's dynamic community selection).
RELEVANT = 1


def mapped(asked: Query, question: str, total: int) -> tuple[dict[str, Any], list[dict[str, Any]]]:
    """Return (the context made of the best points, what it cost).

    Raises
    ------
    GraphRAGError
        When no batch was answered: the first one's fault.
    """
    usage: list[dict[str, Any]] = []
    selection: dict[str, int] = {}
    if asked.options.dynamic:
        rows, selection = _selected(asked, question, usage)
    else:
        rows = cut_reports(asked)
    if not rows and not selection.get("rated"):
        without_reports(asked)
    passages, sources = passages_of(asked, rows)
    context, used = points_of(asked, question, passages, sources, total)
    usage.append(used)
    context["map"] |= {"level": asked.options.level, "reports": len(rows)}
    if selection:
        context["map"]["dynamic"] = selection
    return context, usage


def cut_reports(asked: Query) -> list[Row]:
    """Return the reports of the level that the caller may see."""
    return reports_of(asked, level_cut(asked))


def reports_of(asked: Query, communities: Iterable[int]) -> list[Row]:
    """Return the reports on communities that the caller may see."""
    found = report_rows(asked.db, sorted(visible_communities(asked, list(communities))))
    return [found[number] for number in sorted(found)]


def _selected(asked: Query, question: str, usage: list[dict[str, Any]]) -> tuple[list[Row], dict[str, int]]:
    """Return (the relevant reports, how many were rated and how many of that failed).

    From the coarsest level down to the option's, each level side by side; only the parts of what is relevant are rated, and
    stand for it where any of them is. A report that cannot be rated is taken for relevant.
    """
    asked.corpus.options.llm.of("relevance")
    chosen: dict[int, Row] = {}
    counts = {"rated": 0, "failed": 0}
    frontier = reports_of(asked, child_communities(asked, None))
    for level in range(asked.options.level + 1):
        if not frontier:
            break
        wanted = [{"question": question, "report": row["content"]} for row in frontier]
        outcomes, used = ask_models(asked.db, asked.corpus, asked.caller, "rate", wanted)
        usage.append(used)
        counts["rated"] += len(frontier)
        counts["failed"] += tolerated(
            asked, faults_of(outcomes), len(outcomes), "reports were not rated, and are taken for relevant"
        )
        relevant = [
            row
            for row, outcome in zip(frontier, outcomes, strict=True)
            if "fault" in outcome or outcome["value"] >= RELEVANT
        ]
        for row in relevant:
            chosen.pop(row["parent_id"], None)
            chosen[row["community_id"]] = row
        if level < asked.options.level:
            frontier = reports_of(asked, child_communities(asked, [row["community_id"] for row in relevant]))
    return list(chosen.values()), counts


def passages_of(asked: Query, rows: list[Row]) -> tuple[list[Passage], Sources]:
    """Return (reports, shuffled; what they rest on)."""
    sources = Sources()
    sources.add(asked, (chunk for row in rows for finding in row["findings"] for chunk in finding["chunk_ids"]))
    return [report_passage(row, sources) for row in shuffled(rows)], sources


def shuffled(rows: list[Row]) -> list[Row]:
    """Return reports in the order that they are read in, always the same."""
    return random.Random(SEED).sample(rows, len(rows))
