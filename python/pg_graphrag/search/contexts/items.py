"""graphrag.search_entities, search_relationships and search_reports: rows of the graph by relevance."""

import json
from collections.abc import Callable, Iterator
from functools import partial
from itertools import islice
from typing import Any

from pg_graphrag.search.contexts.best_rows import check_top_k
from pg_graphrag.search.query.mode_options import SearchOptions
from pg_graphrag.search.query.query import Query, query_of
from pg_graphrag.search.retrievers import graph_evidence
from pg_graphrag.search.retrievers.relevant_reports import match_reports, read_reports
from pg_graphrag.search.retrievers.rough_names import rough_matches
from pg_graphrag.server import Database
from pg_graphrag.server.access.caller import caller_of
from pg_graphrag.server.access.entry import as_owner


def _found(
    db: Database,
    find: Callable[[Query, int], Iterator[tuple[Any, ...]]],
    query: str | None,
    corpus: str | None,
    top_k: int | None,
    filter_: str | None,
    low: list[str] | None = None,
    high: list[str] | None = None,
) -> list[tuple[Any, ...]]:
    """Return the rows, ranks before them, that `find` yields of a query without text or keywords none."""
    limit = check_top_k(top_k)
    caller = caller_of(db, corpus, filter_)

    def run() -> list[tuple[Any, ...]]:
        asked = query_of(db, caller, query, SearchOptions(), low, high)
        if not limit or not (asked.text or low or high):
            return []
        return [(rank, *row) for rank, row in enumerate(islice(find(asked, limit), limit), 1)]

    return as_owner(db, run)


def entities(
    db: Database, query: str | None, corpus: str | None, top_k: int | None, filter_: str | None, low: list[str] | None
) -> list[tuple[Any, ...]]:
    """Return (rank, entity_id, name, type, description, degree, score, explain) best first."""
    return _found(db, _entities, query, corpus, top_k, filter_, low=low)


def _entities(query: Query, limit: int) -> Iterator[tuple[Any, ...]]:
    matches = graph_evidence.match_entities(query, 2 * limit)
    for entity, match in rough_matches(query).items():
        if match[0] > matches.get(entity, (0.0,))[0]:
            matches[entity] = match
    for row, score in graph_evidence.entity_rows(query, {key: score for key, (score, _) in matches.items()}):
        fields = (row["id"], row["name"], row["type"], row["description"], row["degree"])
        yield (*fields, score, _because(query, matches[row["id"]]))


def relationships(
    db: Database, query: str | None, corpus: str | None, top_k: int | None, filter_: str | None, high: list[str] | None
) -> list[tuple[Any, ...]]:
    """Return (rank, relationship_id, source, target, keywords, description, weight, score, explain) best first."""
    return _found(db, _relationships, query, corpus, top_k, filter_, high=high)


def _relationships(query: Query, limit: int) -> Iterator[tuple[Any, ...]]:
    matches = graph_evidence.match_relationships(query, 2 * limit)
    for row, score in graph_evidence.relationship_rows(query, {key: score for key, (score, _) in matches.items()}):
        fields = (row["id"], row["source"], row["target"], row["keywords"], row["description"], row["weight"])
        yield (*fields, score, _because(query, matches[row["id"]]))


def _because(query: Query, match: tuple[float, str]) -> str:
    return json.dumps({"because": match[1], **query.notes}, ensure_ascii=False)


def reports(
    db: Database, query: str | None, corpus: str | None, top_k: int | None, filter_: str | None, level: int | None
) -> list[tuple[Any, ...]]:
    """Return (rank, community_id, level, title, summary, rating, score, explain) best first; ties by title."""
    return _found(db, partial(_reports, level), query, corpus, top_k, filter_)


def _reports(level: int | None, query: Query, limit: int) -> Iterator[tuple[Any, ...]]:
    matches = match_reports(query, limit, level)
    reports_found = read_reports(query.db, [match.community_id for match in matches])
    for match, report in zip(matches, reports_found, strict=True):
        explain: dict[str, Any] = {"lexical": round(match.lexical, 6)}
        if match.cosine is not None:
            explain["cosine"] = round(match.cosine, 6)
        fields = (match.community_id, report.level, report.title, report.summary, report.rating)
        yield (*fields, match.score, json.dumps(explain))
