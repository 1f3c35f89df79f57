"""graphrag.search_entities, search_relationships and search_reports: the graph's own rows, by relevance."""

import json
from collections.abc import Iterator
from typing import Any

from pg_graphrag.search.contexts.best_rows import check_top_k
from pg_graphrag.search.query.query import Query, query_of
from pg_graphrag.search.query.request import SearchOptions
from pg_graphrag.search.retrievers import graph_evidence
from pg_graphrag.search.retrievers.relevant_reports import match_reports, report_rows
from pg_graphrag.server import Database
from pg_graphrag.server.access.caller import caller_of
from pg_graphrag.server.access.entry import as_owner


def entities(
    db: Database, query: str | None, corpus: str | None, top_k: int | None, filter_: str | None, low: list[str] | None
) -> list[tuple[Any, ...]]:
    """Return (rank, entity_id, name, type, description, degree, score, explain) best first."""
    limit = check_top_k(top_k)
    caller = caller_of(db, corpus, filter_)

    def run() -> list[tuple[Any, ...]]:
        return list(_entities(query_of(db, caller, query, SearchOptions(), low), limit, low))

    return as_owner(db, run)


def _entities(search_query: Query, limit: int, low: list[str] | None) -> Iterator[tuple[Any, ...]]:
    if not limit or not (search_query.text or low):
        return
    matches = graph_evidence.match_entities(search_query, 2 * limit)
    rows = graph_evidence.entity_rows(search_query, {key: score for key, (score, _) in matches.items()})
    for rank, (row, score) in enumerate(rows[:limit], 1):
        explain = json.dumps({"because": matches[row["id"]][1], **search_query.notes}, ensure_ascii=False)
        yield (rank, row["id"], row["name"], row["type"], row["description"], row["degree"], score, explain)


def relationships(
    db: Database, query: str | None, corpus: str | None, top_k: int | None, filter_: str | None, high: list[str] | None
) -> list[tuple[Any, ...]]:
    """Return (rank, relationship_id, source, target, keywords, description, weight, score, explain) best first."""
    limit = check_top_k(top_k)
    caller = caller_of(db, corpus, filter_)

    def run() -> list[tuple[Any, ...]]:
        return list(_relationships(query_of(db, caller, query, SearchOptions(), high=high), limit, high))

    return as_owner(db, run)


def _relationships(search_query: Query, limit: int, high: list[str] | None) -> Iterator[tuple[Any, ...]]:
    if not limit or not (search_query.text or high):
        return
    matches = graph_evidence.match_relationships(search_query, 2 * limit)
    rows = graph_evidence.relationship_rows(search_query, {key: score for key, (score, _) in matches.items()})
    for rank, (row, score) in enumerate(rows[:limit], 1):
        explain = json.dumps({"because": matches[row["id"]][1], **search_query.notes}, ensure_ascii=False)
        fields = (row["source"], row["target"], row["keywords"], row["description"], row["weight"])
        yield (rank, row["id"], *fields, score, explain)


def reports(
    db: Database, query: str | None, corpus: str | None, top_k: int | None, filter_: str | None, level: int | None
) -> list[tuple[Any, ...]]:
    """Return (rank, community_id, level, title, summary, rating, score, explain) best first; ties by title."""
    limit = check_top_k(top_k)
    caller = caller_of(db, corpus, filter_)

    def run() -> list[tuple[Any, ...]]:
        return list(_reports(query_of(db, caller, query, SearchOptions()), limit, level))

    return as_owner(db, run)


def _reports(search_query: Query, limit: int, level: int | None) -> Iterator[tuple[Any, ...]]:
    if not search_query.text or not limit:
        return
    matches = match_reports(search_query, limit, level)
    rows = report_rows(search_query.db, [match.community_id for match in matches])
    for rank, match in enumerate(matches, 1):
        row = rows[match.community_id]
        explain: dict[str, Any] = {"lexical": round(match.lexical, 6)}
        if match.cosine is not None:
            explain["cosine"] = round(match.cosine, 6)
        fields = (row["level"], row["title"], row["summary"], row["rating"])
        yield (rank, match.community_id, *fields, match.score, json.dumps(explain))
