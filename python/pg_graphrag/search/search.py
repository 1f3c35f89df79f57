"""graphrag.search, and the door of search, context and ask: their arguments, checked, become a query."""

import json
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from time import perf_counter
from typing import Any

from pg_graphrag.ground.errors import GraphRAGError, known_hint
from pg_graphrag.ground.json_reading import read_options
from pg_graphrag.search import modes
from pg_graphrag.search.contexts.best_rows import best_rows, check_top_k
from pg_graphrag.search.contexts.row_tables import TABLE_NAME, key_of
from pg_graphrag.search.nodes.links import load_searches
from pg_graphrag.search.query.found_chunk import FoundChunk
from pg_graphrag.search.query.mode import Mode
from pg_graphrag.search.query.mode_options import ASK_OPTIONS, CHECKS, CONTEXT_OPTIONS, PAPER, TRANSFORMS, SearchOptions
from pg_graphrag.search.query.query import Query, query_of
from pg_graphrag.search.retrievers.empty import lacks_means, warn_of_nothing
from pg_graphrag.server import Database, Row
from pg_graphrag.server.access.caller import Caller, caller_of
from pg_graphrag.server.access.entry import as_owner
from pg_graphrag.server.access.moments import with_as_of
from pg_graphrag.server.corpus.corpora import ElsewhereError
from pg_graphrag.server.profile import Profile

# Transforms that fuse rankings, by RRF, in every mode.
_FUSING = ("decompose", "corrective")
# Options of search alone, with what means nothing elsewhere.
_OF_SEARCH = {"offset": 0, "nodes": "all"}


@dataclass(frozen=True, slots=True)
class Call:
    """The arguments of `function` (search, context, ask), in SQL's types. `size`: top_k or max_tokens."""

    function: str
    text: str | None
    corpus: str | None
    mode: str | None
    size: int | None
    filter: str | None
    low: list[str] | None
    high: list[str] | None
    options: str | None
    start: float = field(default_factory=perf_counter)

    def caller(self, db: Database) -> Caller:
        """Return the caller, and what he may see. It must run with his rights."""
        return caller_of(db, self.corpus, self.whole_filter)

    @property
    def whole_filter(self) -> str | None:
        """The filter, together with the option `as_of`."""
        has_none = self.options is None or self.options == "{}"
        return self.filter if has_none else with_as_of(self.filter, str(self.options))

    def query(self, db: Database, caller: Caller) -> tuple[Query, Mode]:
        """Return the query and its mode. Needs the owner's rights, as do its reads."""
        mode = modes.find(self.mode)
        options = parse_search_options(self.options, mode, self.function)
        if options.as_of is not None and caller.matching is None and caller.condition is None:
            # The option holds only where the call's filter has it: with_as_of().
            raise GraphRAGError(
                'option "as_of" belongs to graphrag.search, context and ask',
                hint='Else give the filter {"$as_of": "2024-02-29"}.',
            )
        query = query_of(db, caller, self.text, options, self.low, self.high, reads_keywords=mode.reads_keywords)
        if options.profile_time:
            query = replace(query, profile=Profile(self.start, "caller"))
            query.models.requests = []
        return query, mode


def search(db: Database, *arguments: Any) -> list[tuple[Any, ...]]:
    """Return (rank, chunk_id, document_id, source_key, title, content, score, explain) best first.

    Ties: source key, then chunk ordinal. An empty query and top_k 0 have no rows. Arguments as in `Call`. A corpus that
    another node holds is searched there.
    """
    call = Call("search", *arguments)
    limit = check_top_k(call.size)
    try:
        caller = call.caller(db)
    except ElsewhereError as elsewhere:
        load_searches()
        from pg_graphrag.search.nodes.searches import Arguments, search_there

        others = Arguments(call.text, call.mode, call.size, call.filter, call.low, call.high, call.options)
        return search_there(db, elsewhere, others)

    def run_search() -> list[tuple[Any, ...]]:
        query, mode = call.query(db, caller)
        if caller.corpus != call.corpus:
            query.notes["history"] = caller.corpus
        return list(_result_rows(query, mode, limit))

    rows = as_owner(db, run_search)
    if not rows and call.text and limit:
        notice_unindexed(db, caller.corpus)
    return rows


# By corpus_id: else a condition of protect() would be asked of documents of other corpora, and could fail there.
_UNINDEXED = """
WITH corpus AS MATERIALIZED (SELECT c.id FROM graphrag.corpora c WHERE c.name = $1)
SELECT true AS is_unindexed
 WHERE EXISTS (SELECT FROM graphrag.documents d
                WHERE d.corpus_id = (SELECT corpus.id FROM corpus) AND d.retracted_at IS NULL)
   AND NOT EXISTS (SELECT FROM graphrag.documents d
                    WHERE d.corpus_id = (SELECT corpus.id FROM corpus) AND d.indexed_hash IS NOT NULL)
"""
# Corpora for which the session was told.
_noticed: set[str] = set()


def notice_unindexed(db: Database, corpus: str) -> None:
    """Say, once in a session, that nothing can be found because no worker has run. It concerns documents that the caller
    may see.
    """
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
    # Ranks count rows that are left out, so that pages belong to one answer.
    ranks = {row.chunk_id: rank for rank, row in enumerate(rows, 1)}
    rows = rows[offset:]
    if search_query.options.min_relevance is not None:
        from pg_graphrag.search.retrievers.relevance import relevant  # most searches keep all rows

        rows = relevant(search_query, rows)
    for row, fields in zip(rows, unranked_rows(search_query, mode, rows), strict=True):
        yield (ranks[row.chunk_id], *fields)


def unranked_rows(query: Query, mode: Mode, rows: list[FoundChunk]) -> Iterator[tuple[Any, ...]]:
    """Yield the row that search returns of each chunk, without its rank."""
    documents = _documents(query.db, {row.document_id for row in rows})
    query.notes.update(query.profile_notes())
    for row in rows:
        notes = {"mode": mode.name, **query.notes}
        document = documents.get(row.document_id)
        if document is not None and document["is_unfinished"]:
            notes["graph"] = "pending"
        if document is not None and document["table_name"] is not None:
            notes["row"] = {"table": document["table_name"], "key": key_of(document)}
        explain = json.dumps(notes | row.explain, ensure_ascii=False)
        if document is not None and document["metadata"] != "{}":
            # As it is: read and written again, its numbers could lose digits.
            explain = f'{explain[:-1]}, "metadata": {document["metadata"]}}}'
        yield (row.chunk_id, row.document_id, row.source_key, row.title, row.content, row.score, explain)


def _documents(db: Database, document_ids: set[int]) -> dict[int, Row]:
    """Return {id: metadata, whether its graph is unfinished, table and key} of documents.

    The caller sees these documents.
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


def parse_search_options(options: str | None, mode: Mode, function: str = "search") -> SearchOptions:
    """Check the options of a search in `mode`; `function` is the one called: search, context or ask.

    Raises GraphRAGError: 22023 for an unknown option, one that the mode does not have, or a bad value, naming it.
    """
    values = {} if options in (None, "", "{}") else read_options(options, '{"graph_top_k": 60}')
    for name, value in values.items():
        if name not in CHECKS and name not in mode.own_options and name not in (known_names := known_options()):
            raise GraphRAGError(f'unknown search option "{name[:100]}"', hint=known_hint(name, known_names))
        own_check = mode.own_options.get(name)
        if own_check is not None and own_check.ask_only and function != "ask":
            hint = (
                f"Leave it out: it bounds what a model is asked in mode {mode.name}, and graphrag.{function} asks none."
            )
            raise _of_another(name, "ask", function, hint)
        if name in CONTEXT_OPTIONS and function == "search":
            raise _of_another(name, "context", function)
        if name in _OF_SEARCH and value != _OF_SEARCH[name] and function != "search":
            raise _of_another(name, "search", function)
        if name == "sql" and value is True and function != "ask":
            hint = f"Leave it out: a model writes the statement, and graphrag.{function} asks none."
            raise _of_another(name, "ask", function, hint)
        if name in ("answer_timeout", *ASK_OPTIONS) and function != "ask":
            raise _of_another(name, "ask", function)
        is_off = value is None or value in (False, "none")
        if name in (*TRANSFORMS, "min_relevance") and not is_off and function == "ask" and mode.answer is not None:
            raise GraphRAGError(
                f'graphrag.ask has no option "{name}" in mode "{mode.name}"',
                hint="Leave it out: that mode asks in its own way.",
            )
        if not mode.has(name) and not (name == "rrf_k" and values.get("transform") in _FUSING):
            having = [other_mode.name for other_mode in modes.all_modes() if other_mode.has(name)]
            hint = f"Modes that do: {', '.join(having)}."
            hint += "".join(f" {note}" for other_mode, note in mode.mistaken_for.items() if other_mode in having)
            raise GraphRAGError(f'mode "{mode.name}" has no option "{name}"', hint=hint)
        check = CHECKS[name] if own_check is None else own_check.check
        if not check.allows(value):
            raise GraphRAGError(
                f'search option "{name}" cannot be {json.dumps(value)[:200]}', hint=f"Give {check.expectation}."
            )
    changed: dict[str, Any] = {
        name: tuple(values[name]) for name in ("query_entities", "answer_types") if values.get(name) is not None
    }
    if values.get("fuse") == "rerank":
        # As one of the fusers of `path` a cross-encoder has the last word, too.
        changed["rerank"] = True
    paper = values.get("profile") == "paper"
    common_values = {name: value for name, value in values.items() if name in CHECKS}
    own_values = {name: value for name, value in values.items() if name not in CHECKS}
    return SearchOptions(
        **((PAPER if paper else {}) | dict(mode.defaults) | common_values | changed), own_values=own_values
    )


def _of_another(option: str, owner: str, function: str, hint: str = "Leave it out.") -> GraphRAGError:
    return GraphRAGError(f'option "{option}" is of graphrag.{owner}, not of graphrag.{function}', hint=hint)


def known_options() -> list[str]:
    """Return the names of all options."""
    return sorted({*CHECKS, *(name for mode in modes.all_modes() for name in mode.own_options)})
