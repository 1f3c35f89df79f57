"""graphrag.estimate_ask: what an answer would cost, counted before anybody is asked: ask's own code, run dry."""

import json
from dataclasses import replace
from typing import Any

from pg_graphrag import modes
from pg_graphrag.access.caller import caller_of
from pg_graphrag.access.entry import as_owner
from pg_graphrag.answer.ask import answered, prepared
from pg_graphrag.llm.requests import BYTES_PER_TOKEN
from pg_graphrag.model_access.limits import MAX_GRADED, MAX_GRADED_CHARACTERS, MAX_UNDERSTOOD
from pg_graphrag.model_access.replies import MAX_QUERIES
from pg_graphrag.retrieval import rerank
from pg_graphrag.retrieval.context import assemble, budget
from pg_graphrag.retrieval.dry_run import DryRun
from pg_graphrag.retrieval.mode import Mode
from pg_graphrag.retrieval.query import Query
from pg_graphrag.search.search import prepare
from pg_graphrag.server import Database


def estimate(
    db: Database,
    question: str | None,
    corpus: str | None,
    mode_name: str | None,
    max_tokens: int | None,
    filter_: str | None,
    low: list[str] | None,
    high: list[str] | None,
    options: str | None,
    history: str | None,
    response_type: str | None,
) -> list[tuple[Any, ...]]:
    """Return one row (calls, tokens_in, tokens_out, cost, basis). Arguments as of ask(); no model is asked."""
    caller = caller_of(db, corpus, filter_)

    def run() -> DryRun:
        mode = modes.find(mode_name)
        query = prepare(db, caller, question, mode, filter_, low, high, options, of="ask")
        made = DryRun(query, budget(query, max_tokens))
        answered(prepared(replace(query, models=made), mode, max_tokens, history, response_type, _longest_context))
        return made

    made = as_owner(db, run)
    parts = made.parts
    whole = (sum(getattr(part, name) for part in parts.values()) for name in ("calls", "tokens_in", "tokens_out"))
    basis = {
        "parts": {
            name: {"calls": part.calls, "tokens_in": part.tokens_in, "exact": part.exact}
            for name, part in parts.items()
        },
        "calls": "exact" if all(part.exact for part in parts.values()) else "at most",
        "tokens_in": f"{BYTES_PER_TOKEN} bytes each",
        "tokens_out": "a guess",
        "not_included": "what is cached already; requests tried again after a fault",
    }
    return [(*whole, str(round(made.price, 6)), json.dumps(basis))]


def _longest_context(query: Query, mode: Mode, total: int) -> tuple[dict[str, Any], list[dict[str, Any]]]:
    """Return the context itself where no model has a say in it, else one as long as it may be."""
    made = query.models
    assert isinstance(made, DryRun)
    made.asked = query
    if mode.estimate is not None:
        mode.estimate(made)
    elif mode.answer is not None:
        mode.answer(query, query.text, total)
    else:
        _transformed(made)
        _reranked(made)
        made.embeds(1)
        if not made.parts:
            return assemble(query, mode, total), []
    return {"prompt": "x" * made.room if made.parts else "", "references": []}, []


def _transformed(made: DryRun) -> None:
    """Count what a transform asks at most."""
    kind = made.asked.options.transform
    question = made.asked.text[:MAX_UNDERSTOOD]
    if kind in ("hyde", "decompose"):
        made.send(kind, question=question)
        made.embeds(MAX_QUERIES)
    elif kind == "corrective":
        most = sum(min(size, 4 * MAX_GRADED_CHARACTERS) for size in made.largest_chunks(MAX_GRADED))
        read = made.quarter(most) + MAX_GRADED * made.quarter(made.HEADING)
        made.add("grades", 1, made.tokens("grades", question=question) + read)
        made.send("rewrite", question=question)
        made.embeds(2)


def _reranked(made: DryRun) -> None:
    """Count the longest texts that may be re-scored."""
    if made.asked.options.reranks:
        rows = max(made.asked.options.chunk_top_k, rerank.CANDIDATES)
        each = made.quarter(len(made.question.encode())) + made.quarter(made.HEADING)
        made.add("rerank", 1, rows * each + made.quarter(sum(made.largest_chunks(rows))))
