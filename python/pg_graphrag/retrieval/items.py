"""graphrag.search_entities, search_relationships and search_reports: the graph's own rows, by relevance."""

import json
from collections.abc import Iterator
from typing import Any

from pg_graphrag.access.caller import caller_of
from pg_graphrag.access.entry import as_owner
from pg_graphrag.retrieval import graph
from pg_graphrag.retrieval.cached_graph import graph_of
from pg_graphrag.retrieval.options import SearchOptions
from pg_graphrag.retrieval.query import Query, query_of
from pg_graphrag.retrieval.reports import match_reports, report_rows
from pg_graphrag.retrieval.rows import DIGITS, check_top_k
from pg_graphrag.server import Database, Row


def entities(
    db: Database, query: str | None, corpus: str | None, top_k: int | None, filter_: str | None, low: list[str] | None
) -> list[tuple[Any, ...]]:
    """Return (rank, entity_id, name, type, description, degree, score, explain) best first."""
    wanted = check_top_k(top_k)
    caller = caller_of(db, corpus, filter_)

    def run() -> list[tuple[Any, ...]]:
        return list(_entities(query_of(db, caller, query, SearchOptions(), filter_, low), wanted, low))

    return as_owner(db, run)


def _entities(asked: Query, wanted: int, low: list[str] | None) -> Iterator[tuple[Any, ...]]:
    if not wanted or not (asked.text or low):
        return
    matched = graph.match_entities(asked, 2 * wanted)
    rows = entity_rows(asked, {key: score for key, (score, _) in matched.items()})
    for rank, (row, score) in enumerate(rows[:wanted], 1):
        explain = json.dumps({"because": matched[row["id"]][1], **asked.notes}, ensure_ascii=False)
        yield (rank, row["id"], row["name"], row["type"], row["description"], row["degree"], score, explain)


def relationships(
    db: Database, query: str | None, corpus: str | None, top_k: int | None, filter_: str | None, high: list[str] | None
) -> list[tuple[Any, ...]]:
    """Return (rank, relationship_id, source, target, keywords, description, weight, score, explain) best first."""
    wanted = check_top_k(top_k)
    caller = caller_of(db, corpus, filter_)

    def run() -> list[tuple[Any, ...]]:
        return list(_relationships(query_of(db, caller, query, SearchOptions(), filter_, high=high), wanted, high))

    return as_owner(db, run)


def _relationships(asked: Query, wanted: int, high: list[str] | None) -> Iterator[tuple[Any, ...]]:
    if not wanted or not (asked.text or high):
        return
    matched = graph.match_relationships(asked, 2 * wanted)
    rows = relationship_rows(asked, {key: score for key, (score, _) in matched.items()})
    for rank, (row, score) in enumerate(rows[:wanted], 1):
        explain = json.dumps({"because": matched[row["id"]][1], **asked.notes}, ensure_ascii=False)
        named = (row["source"], row["target"], row["keywords"], row["description"], row["weight"])
        yield (rank, row["id"], *named, score, explain)


def reports(
    db: Database, query: str | None, corpus: str | None, top_k: int | None, filter_: str | None, level: int | None
) -> list[tuple[Any, ...]]:
    """Return (rank, community_id, level, title, summary, rating, score, explain) best first; ties by title."""
    wanted = check_top_k(top_k)
    caller = caller_of(db, corpus, filter_)

    def run() -> list[tuple[Any, ...]]:
        return list(_reports(query_of(db, caller, query, SearchOptions(), filter_), wanted, level))

    return as_owner(db, run)


def _reports(asked: Query, wanted: int, level: int | None) -> Iterator[tuple[Any, ...]]:
    if not asked.text or not wanted:
        return
    matched = match_reports(asked, wanted, level)
    rows = report_rows(asked.db, [one.community_id for one in matched])
    for rank, one in enumerate(matched, 1):
        row = rows[one.community_id]
        explain: dict[str, Any] = {"lexical": round(one.lexical, 6)}
        if one.cosine is not None:
            explain["cosine"] = round(one.cosine, 6)
        fields = (row["level"], row["title"], row["summary"], row["rating"])
        yield (rank, one.community_id, *fields, one.score, json.dumps(explain))


def entity_rows(query: Query, scores: dict[int, float]) -> list[tuple[Row, float]]:
    """Return the entities of `scores` that the caller may see, with their scores: best first, ties by key."""
    found = [(row, round(scores[row["id"]], DIGITS)) for row in graph_of(query).entities(list(scores))]
    found.sort(key=lambda one: (-one[1], one[0]["key"].encode()))
    return found


def relationship_rows(query: Query, scores: dict[int, float]) -> list[tuple[Row, float]]:
    """Return the relationships of `scores` that the caller may see, with their scores: best first, ties by key."""
    found = [(row, round(scores[row["id"]], DIGITS)) for row in graph_of(query).relationships(list(scores))]
    found.sort(key=lambda one: (-one[1], one[0]["source_key"].encode(), one[0]["target_key"].encode()))
    return found
