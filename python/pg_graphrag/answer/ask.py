"""graphrag.ask and graphrag.ask_stream: an answer from the documents, with citations that exist."""

import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

from pg_graphrag import modes
from pg_graphrag.access.caller import Caller, caller_of
from pg_graphrag.access.entry import as_owner, at_one_snapshot
from pg_graphrag.answer.query_log import log_query
from pg_graphrag.errors import GraphRAGError
from pg_graphrag.json_reading import read_json
from pg_graphrag.llm.gateway import CUT_OFF
from pg_graphrag.model_access import tasks
from pg_graphrag.model_access.limits import MAX_UNDERSTOOD
from pg_graphrag.model_access.models import save_accounts
from pg_graphrag.retrieval.citations import Citations, listed
from pg_graphrag.retrieval.context import assemble, budget
from pg_graphrag.retrieval.mode import Mode
from pg_graphrag.retrieval.query import Query
from pg_graphrag.retrieval.understanding import Understanding, understand
from pg_graphrag.search.search import prepare
from pg_graphrag.server import Database, Rows, to_json

MAX_RESPONSE_TYPE = 200
# (a query, its mode, tokens) to (the context of the answer, what each step cost).
ContextMaker = Callable[[Query, Mode, int], tuple[dict[str, Any], list[dict[str, Any]]]]
_USAGE = ("calls", "tokens_in", "tokens_out", "cost", "cache_hits")


@dataclass
class Asked:
    """A question with its context, ready for the model; `usage` is what understanding and context came to."""

    query: Query
    question: str
    mode: Mode
    context: dict[str, Any]
    arguments: dict[str, Any]
    usage: dict[str, Any]
    started: float

    @property
    def task(self) -> str:
        """What the model is to do with the context."""
        return "reduce" if self.mode.answer else "answer"


def ask(
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
) -> list[tuple[str, str, str, str]]:
    """Return one row: answer, citations, usage, context."""
    given = (question, mode_name, max_tokens, filter_, low, high, options, history, response_type)

    def run() -> tuple[Asked, str, Citations, dict[str, Any]]:
        caller = caller_of(db, corpus, filter_)
        return as_owner(db, lambda: answered(_prepare(db, caller, *given)))

    # Accounts and cache are written at the end: a fault would take back what is written before it.
    asked, answer, citations, usage = at_one_snapshot(db, run)
    usage["invalid_citations"] = citations.invalid
    as_owner(db, lambda: _write_down(db, asked, "ask", usage), writes=True)
    made = (listed(citations.found, asked.context), usage, asked.context)
    cited, used, context = map(to_json, made)
    return [(answer, cited, used, context)]


def answered(asked: Asked) -> tuple[Asked, str, Citations, dict[str, Any]]:
    """Return (what was asked, the answer, what it cites, what everything came to)."""
    citations = Citations(reference["number"] for reference in asked.context["references"])
    if not asked.context["prompt"]:
        return asked, tasks.not_found(asked.question), citations, asked.usage
    outcome = asked.query.models.ask(asked.task, asked.arguments)
    if "fault" in outcome:
        fault = outcome["fault"]
        raise GraphRAGError(fault["message"], sqlstate=fault["sqlstate"], detail=fault["detail"], hint=fault["hint"])
    if outcome["value"]["cut_off"]:
        asked.query.db.warning(CUT_OFF)
    answer = citations.feed(outcome["value"]["text"]) + citations.finish()
    return asked, answer, citations, _sum(asked.usage, outcome["usage"])


def ask_stream(
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
) -> Rows:
    """Return the answer of `ask` in pieces, as they come."""
    given = (question, mode_name, max_tokens, filter_, low, high, options, history, response_type)

    def run() -> Asked:
        caller = caller_of(db, corpus, filter_)
        return as_owner(db, lambda: _prepare(db, caller, *given))

    pieces = _pieces(db, at_one_snapshot(db, run))
    first = next(pieces, None)
    return Rows(db, [] if first is None else [first], pieces)


def _pieces(db: Database, asked: Asked) -> Iterator[str]:
    """Yield the pieces, none empty; invalid citations are left out on the way. Between two the caller does as he likes."""
    if asked.context["prompt"]:
        citations = Citations(reference["number"] for reference in asked.context["references"])
        stream = asked.query.models.stream(asked.task, asked.arguments)
        try:
            while (piece := as_owner(db, lambda: next(stream, None))) is not None:
                if shown := citations.feed(piece):
                    yield shown
        finally:
            stream.close()
        if shown := citations.finish():
            yield shown
    else:
        yield tasks.not_found(asked.question)
    as_owner(db, lambda: _write_down(db, asked, "ask_stream", None), writes=True)


def _prepare(
    db: Database,
    caller: Caller,
    question: str | None,
    mode_name: str | None,
    max_tokens: int | None,
    filter_: str | None,
    low: list[str] | None,
    high: list[str] | None,
    options: str | None,
    history: str | None,
    response_type: str | None,
) -> Asked:
    mode = modes.find(mode_name)
    query = prepare(db, caller, question, mode, filter_, low, high, options, of="ask")
    return prepared(query, mode, max_tokens, history, response_type, _context)


def prepared(
    query: Query,
    mode: Mode,
    max_tokens: int | None,
    history: str | None,
    response_type: str | None,
    make_context: ContextMaker,
) -> Asked:
    """Return a question with the context that `make_context` makes for it."""
    started = time.monotonic()
    turns = list(tasks.history(read_json(history) if history is not None else None))
    form = _response_form(response_type)
    if not query.text:
        raise GraphRAGError("the question is empty", hint="Ask something.")
    # Before anything is paid for.
    total = budget(query, max_tokens)
    query.corpus.options.llm.of("answer")
    whole = query.text
    understood: Understanding | None = None
    if mode.understands:
        given = query.request.low is not None or query.request.high is not None
        understood = understand(query.models, whole, given=given, history=turns)
        query.said["keywords"] = understood
    if turns:
        # As the model restated it, else with the question before.
        query = query.asking((understood and understood.question) or _in_light_of(turns, whole))
    context, used = make_context(query, mode, total)
    if understood is not None:
        context["understanding"] = understood.note()
    arguments = {"question": whole, "context": context["prompt"], "history": turns, "response_type": form}
    usage = _sum(understood.usage if understood else {}, {})
    for part in (*used, *query.usage):
        usage = _sum(usage, part)
    return Asked(query, whole, mode, context, arguments, usage, started)


def _context(query: Query, mode: Mode, total: int) -> tuple[dict[str, Any], list[dict[str, Any]]]:
    if mode.answer is not None:
        return mode.answer(query, query.text, total)
    return assemble(query, mode, total), []


def _in_light_of(turns: list[dict[str, str]], question: str) -> str:
    """Return a question with the one before it: what it means may lie there."""
    before = next((turn["content"] for turn in reversed(turns) if turn["role"] == "user"), "")
    return f"{before[-MAX_UNDERSTOOD:]}\n{question}".strip() if turns else question


def _response_form(form: str | None) -> str:
    """Return the form that an answer is to have, in words; 22023 for a bad one."""
    text = " ".join((form or "").split())
    if not text or len(text) > MAX_RESPONSE_TYPE:
        raise GraphRAGError(
            f"response_type cannot be {(form or '')[:50]!r}",
            hint=f'For example "multiple paragraphs", "single sentence", "bullet list": at most {MAX_RESPONSE_TYPE} characters.',
        )
    return text


def _sum(one: dict[str, Any], other: dict[str, Any]) -> dict[str, Any]:
    whole = {name: one.get(name, 0) + other.get(name, 0) for name in _USAGE}
    return whole | {"cost": round(float(whole["cost"]), 8)}


def _write_down(db: Database, asked: Asked, kind: str, usage: dict[str, Any] | None) -> None:
    """Write accounts, cache and query log, where the transaction may write."""
    save_accounts(db, asked.query.corpus)
    if asked.query.corpus.options.query_log:
        counts = [len(asked.context[part]) for part in ("entities", "relationships", "chunks")]
        log_query(
            db,
            asked.query.corpus.id,
            kind,
            asked.mode.name,
            asked.question,
            time.monotonic() - asked.started,
            counts,
            usage,
        )
