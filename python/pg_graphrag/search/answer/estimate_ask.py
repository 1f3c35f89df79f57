"""graphrag.estimate_ask: what an answer would cost, by a dry run of ask's own code that asks no model."""

import json
from dataclasses import replace
from typing import Any

from pg_graphrag.llm.asking.length_limits import MAX_GRADED, MAX_GRADED_CHARACTERS, MAX_UNDERSTOOD
from pg_graphrag.llm.asking.replies import MAX_QUERIES
from pg_graphrag.llm.endpoints.requests import BYTES_PER_TOKEN
from pg_graphrag.search.answer.ask import build_request
from pg_graphrag.search.answer.grounded import answer_of
from pg_graphrag.search.answer.sql_fence import MAX_CHARACTERS
from pg_graphrag.search.answer.table_query import (
    ATTEMPTS,
    MAX_ERROR,
    MAX_RESULT,
    TableRows,
    Tables,
    arguments_of,
    tables_of,
)
from pg_graphrag.search.contexts import rerank, selection
from pg_graphrag.search.contexts.context_packing import assemble, budget
from pg_graphrag.search.contexts.dry_run import DryRun
from pg_graphrag.search.query.mode import Mode
from pg_graphrag.search.query.query import Query
from pg_graphrag.search.search import Call
from pg_graphrag.server import Database
from pg_graphrag.server.access.entry import as_owner


def estimate(db: Database, *arguments: Any) -> list[tuple[Any, ...]]:
    """Return one row (calls, tokens_in, tokens_out, cost, basis). Arguments as in ask(); no model is asked."""
    call = Call("ask", *arguments[:-2])
    caller = call.caller(db)
    query, mode = as_owner(db, lambda: call.query(db, caller))
    tables = tables_of(db, caller) if query.options.sql else None

    def run() -> DryRun:
        dry_run = DryRun(query, budget(query, call.size))
        if tables is not None:
            _written(dry_run, tables)
        asked = replace(query, models=dry_run)
        request = build_request(asked, mode, call.size, arguments[-2], arguments[-1], _longest_context)
        if request.has_model:
            answer_of(request)
        return dry_run

    dry_run = as_owner(db, run)
    parts = dry_run.parts
    totals = (sum(getattr(part, name) for part in parts.values()) for name in ("calls", "tokens_in", "tokens_out"))
    basis = {
        "parts": {
            name: {"calls": part.calls, "tokens_in": part.tokens_in, "exact": part.exact}
            for name, part in parts.items()
        },
        "calls": "exact" if all(part.exact for part in parts.values()) else "at most",
        "tokens_in": f"{BYTES_PER_TOKEN} bytes each",
        "tokens_out": "a guess",
        "not_included": "what is cached already; requests tried again after a fault, an answer asked for once more",
    }
    return [(*totals, str(round(dry_run.price, 6)), json.dumps(basis))]


def _longest_context(query: Query, mode: Mode, total: int) -> dict[str, Any]:
    """Return the context itself where no model takes part in it, else one of the greatest length."""
    dry_run = query.models
    assert isinstance(dry_run, DryRun)
    dry_run.query = query
    if mode.estimate is not None:
        mode.estimate(dry_run)
    elif mode.answer is not None:
        mode.answer(query, total)
    else:
        _transformed(dry_run)
        _reranked(dry_run)
        _selected(dry_run)
        dry_run.embeds(1)
        if not dry_run.parts:
            return assemble(query, mode, total)
    return {"prompt": "x" * dry_run.room if dry_run.parts else "", "references": []}


def _written(dry_run: DryRun, tables: Tables) -> None:
    """Count the statements that a model may write, and their rows in the context."""
    former = TableRows("x" * MAX_CHARACTERS, error="x" * MAX_ERROR)
    for place in range(ATTEMPTS):
        dry_run.send("sql", exact=False, **arguments_of(dry_run.query, tables, former if place else None))
    dry_run.room += 4 * MAX_RESULT


def _transformed(dry_run: DryRun) -> None:
    """Count the requests of a transform at most."""
    kind = dry_run.query.options.transform
    question = dry_run.query.text[:MAX_UNDERSTOOD]
    if kind in ("hyde", "decompose"):
        dry_run.send(kind, question=question)
        dry_run.embeds(MAX_QUERIES)
    elif kind == "corrective":
        most = sum(min(size, 4 * MAX_GRADED_CHARACTERS) for size in dry_run.largest_chunk_bytes(MAX_GRADED))
        tokens = dry_run.quarter(most) + MAX_GRADED * dry_run.quarter(dry_run.HEADING)
        dry_run.add("grades", 1, dry_run.tokens("grades", question=question) + tokens)
        dry_run.send("rewrite", question=question)
        dry_run.embeds(2)


def _reranked(dry_run: DryRun) -> None:
    """Count the longest texts that may be re-scored."""
    if dry_run.query.options.rerank:
        rows = max(dry_run.query.options.chunk_top_k, rerank.CANDIDATES)
        tokens_each = dry_run.quarter(len(dry_run.question.encode())) + dry_run.quarter(dry_run.HEADING)
        dry_run.add("rerank", 1, rows * tokens_each + dry_run.quarter(sum(dry_run.largest_chunk_bytes(rows))))


def _selected(dry_run: DryRun) -> None:
    """Count the longest candidates that a model may choose from."""
    if dry_run.query.options.select:
        size = selection.MAX_TITLE + selection.MAX_PATH + selection.MAX_TEXT
        candidate = dry_run.quarter(4 * size + len("[40] \n\n\n\n"))
        question = dry_run.query.text[:MAX_UNDERSTOOD]
        dry_run.add("select", 1, dry_run.tokens("select", question=question) + selection.CANDIDATES * candidate)
