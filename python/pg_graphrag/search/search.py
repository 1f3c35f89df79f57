"""graphrag.search: one argument chooses the mode, one shape holds every result."""

import json
from collections.abc import Iterator
from dataclasses import replace
from time import perf_counter
from typing import Any

from pg_graphrag.ground.errors import GraphRAGError
from pg_graphrag.search import modes
from pg_graphrag.search.contexts.best_rows import best_rows, check_top_k
from pg_graphrag.search.contexts.row_tables import TABLE_NAME, key_of
from pg_graphrag.search.option_parsing import parse
from pg_graphrag.search.query.mode import Mode
from pg_graphrag.search.query.query import Query, query_of
from pg_graphrag.search.retrievers.empty import lacks_means, warn_of_nothing
from pg_graphrag.search.retrievers.relevance import relevant
from pg_graphrag.server import Database, Row
from pg_graphrag.server.access.caller import Caller, caller_of
from pg_graphrag.server.access.entry import as_owner
from pg_graphrag.server.access.moments import with_as_of
from pg_graphrag.server.profile import Profile


def search(
    db: Database,
    query: str | None,
    corpus: str | None,
    mode_name: str | None,
    top_k: int | None,
    filter_: str | None,
    low: list[str] | None,
    high: list[str] | None,
    options: str | None,
) -> list[tuple[Any, ...]]:
    """Return (rank, chunk_id, document_id, source_key, title, content, score, explain) best first.

    Ties: source key, then chunk ordinal. An empty query and top_k 0 have no rows.
    """
    start = perf_counter()
    limit = check_top_k(top_k)
    caller = caller_of(db, corpus, with_as_of(filter_, options))

    def run_search() -> list[tuple[Any, ...]]:
        mode = modes.find(mode_name)
        search_query = prepare(db, caller, query, mode, low, high, options, start=start)
        if caller.corpus != corpus:
            search_query.notes["history"] = caller.corpus
        return list(_result_rows(search_query, mode, limit))

    rows = as_owner(db, run_search)
    if not rows and query and limit:
        _notice_unindexed(db, caller.corpus)
    return rows


_UNINDEXED = """
SELECT c.id
  FROM graphrag.corpora c
 WHERE c.name = $1 AND EXISTS (SELECT FROM graphrag.documents d WHERE d.corpus_id = c.id AND d.retracted_at IS NULL)
   AND NOT EXISTS (SELECT FROM graphrag.documents d WHERE d.corpus_id = c.id AND d.indexed_hash IS NOT NULL)
"""
# Corpora of which the session was told.
_noticed: set[str] = set()


def _notice_unindexed(db: Database, corpus: str) -> None:
    """Say, once in a session, that nothing can be found since no worker has run. Of what the caller may see."""
    if corpus not in _noticed and db.query(_UNINDEXED, ["text"], [corpus]):
        _noticed.add(corpus)
        db.notice(
            f'no document of corpus "{corpus}" is indexed yet',
            hint="A worker indexes them: CALL graphrag.process_jobs(), pg-graphrag worker or graphrag.schedule_worker().",
        )


def _result_rows(search_query: Query, mode: Mode, top_k: int) -> Iterator[tuple[Any, ...]]:
    offset = search_query.options.offset
    search_query, rows = best_rows(search_query, mode, offset + top_k if top_k else 0)
    if top_k and not rows and lacks_means(search_query, mode):
        warn_of_nothing(search_query, mode)
    # Ranks count what is left out, so that pages are of one answer.
    places = range(offset + 1, len(rows) + 1)
    ranks = {row["chunk_id"]: rank for row, rank in zip(rows[offset:], places, strict=True)}
    rows = relevant(search_query, rows[offset:])
    documents = _documents(search_query.db, {row["document_id"] for row in rows})
    if search_query.profile is not None:
        search_query.notes["profile_time"] = search_query.profile.milliseconds()
    for row in rows:
        notes = {"mode": mode.name, **search_query.notes}
        document = documents.get(row["document_id"])
        if document is not None and document["is_unfinished"]:
            notes["graph"] = "pending"
        if document is not None and document["table_name"] is not None:
            notes["row"] = {"table": document["table_name"], "key": key_of(document)}
        explain = json.dumps(notes | row["explain"], ensure_ascii=False)
        if document is not None and document["metadata"] != "{}":
            # As it is: read and written again, its numbers could lose digits.
            explain = f'{explain[:-1]}, "metadata": {document["metadata"]}}}'
        fields = (row["chunk_id"], row["document_id"], row["source_key"], row["title"], row["content"])
        yield (ranks[row["chunk_id"]], *fields, row["score"], explain)


def _documents(db: Database, document_ids: set[int]) -> dict[int, Row]:
    """Return {id: metadata, whether the graph is still to come or to be made anew, table and key} of documents.

    They are documents that the caller sees.
    """
    if not document_ids:
        return {}
    rows = db.query(
        "SELECT d.id, d.metadata::text AS metadata, d.indexed_at IS NULL AS is_unfinished,"
        f"      d.source_key, a.key_prefix, {TABLE_NAME} AS table_name"
        "  FROM graphrag.documents d"
        "  LEFT JOIN graphrag._attached_tables a ON a.id = d.attached_id AND a.kind <> 'documents'"
        " WHERE d.id = ANY ($1)",
        ["int8[]"],
        [list(document_ids)],
    )
    return {row["id"]: row for row in rows}


def prepare(
    db: Database,
    caller: Caller,
    query: str | None,
    mode: Mode,
    low: list[str] | None,
    high: list[str] | None,
    options: str | None,
    function: str = "search",
    start: float | None = None,
) -> Query:
    """Check the arguments of a search by `function` and return its query. Needs the owner's rights, as do its reads.

    `start`: when the call began, for the option `profile_time`.
    """
    parsed = parse(options, mode, function)
    if parsed.as_of is not None and caller.matching is None and caller.condition is None:
        # The option holds only where the call's filter has it: with_as_of().
        raise GraphRAGError(
            'option "as_of" belongs to graphrag.search, context and ask',
            hint='Else give the filter {"$as_of": "2024-02-29"}.',
        )
    search_query = query_of(db, caller, query, parsed, low, high, reads_keywords=mode.reads_keywords)
    if not parsed.profile_time:
        return search_query
    return replace(search_query, profile=Profile(perf_counter() if start is None else start, "caller"))
