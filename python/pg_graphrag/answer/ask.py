"""graphrag.ask and graphrag.ask_stream: an answer from the documents, with citations that exist."""

import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

from pg_graphrag import modes
from pg_graphrag.access.caller import Caller, caller_of
from pg_graphrag.access.entry import as_owner, at_one_snapshot
from pg_graphrag.access.filters import with_as_of
from pg_graphrag.answer.query_log import log_query
from pg_graphrag.answer.table_query import add_rows, check_outcome, table_rows, tables_of
from pg_graphrag.errors import GraphRAGError
from pg_graphrag.json_reading import read_json
from pg_graphrag.llm.gateway import CUT_OFF
from pg_graphrag.model_access import tasks
from pg_graphrag.model_access.limits import MAX_UNDERSTOOD
from pg_graphrag.model_access.models import error_from, save_accounts
from pg_graphrag.retrieval.citations import Citations, cited_documents
from pg_graphrag.retrieval.context import assemble, budget
from pg_graphrag.retrieval.mode import MadeContext, Mode
from pg_graphrag.retrieval.places import with_places
from pg_graphrag.retrieval.query import Query
from pg_graphrag.retrieval.understanding import Understanding, understand
from pg_graphrag.search.search import prepare
from pg_graphrag.server import Database, Rows, to_json

MAX_RESPONSE_TYPE = 200
_USAGE = ("calls", "tokens_in", "tokens_out", "cost", "cache_hits")


@dataclass
class AskRequest:
    """A question with its context, ready for the model; `usage` is that of understanding and context."""

    query: Query
    question: str
    mode: Mode
    context: dict[str, Any]
    arguments: dict[str, Any]
    usage: dict[str, Any]
    started_at: float

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
    arguments = (question, mode_name, max_tokens, low, high, options, history, response_type)

    def run() -> tuple[AskRequest, str, list[dict[str, Any]], dict[str, Any]]:
        caller = caller_of(db, corpus, with_as_of(filter_, options))

        prepared = _with_tables(db, caller, as_owner(db, lambda: _prepare(db, caller, *arguments)))

        def answered() -> tuple[AskRequest, str, list[dict[str, Any]], dict[str, Any]]:
            request, answer, citations, usage = answer_request(prepared)
            usage["invalid_citations"] = citations.invalid
            cited = cited_documents(citations.cited_sentences, request.context)
            return request, answer, with_places(db, cited, citations.cited_sentences), usage

        return as_owner(db, answered)

    # Accounts and cache are written at the end: a fault would take back what is written before it.
    request, answer, cited, usage = at_one_snapshot(db, run)
    as_owner(db, lambda: _write_down(db, request, "ask", usage), writes=True)
    return [
        (
            answer,
            to_json(cited),
            to_json(usage),
            to_json(request.context),
        )
    ]


def answer_request(request: AskRequest) -> tuple[AskRequest, str, Citations, dict[str, Any]]:
    """Return (the request, the answer, its citations, the usage of everything)."""
    citations = Citations(reference["number"] for reference in request.context["references"])
    if not request.context["prompt"]:
        return request, tasks.not_found(request.question), citations, request.usage
    outcome = request.query.models.ask(request.task, request.arguments)
    if "fault" in outcome:
        raise error_from(outcome["fault"])
    if outcome["value"]["cut_off"]:
        request.query.db.warning(CUT_OFF)
    answer = citations.feed(outcome["value"]["text"]) + citations.finish()
    return request, answer, citations, _sum(request.usage, outcome["usage"])


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
    arguments = (question, mode_name, max_tokens, low, high, options, history, response_type)

    def run() -> AskRequest:
        caller = caller_of(db, corpus, with_as_of(filter_, options))
        return _with_tables(db, caller, as_owner(db, lambda: _prepare(db, caller, *arguments)))

    pieces = _pieces(db, at_one_snapshot(db, run))
    first = next(pieces, None)
    return Rows(db, [] if first is None else [first], pieces)


def _pieces(db: Database, request: AskRequest) -> Iterator[str]:
    """Yield the pieces, none empty, without invalid citations. Between two of them the caller may do anything."""
    if request.context["prompt"]:
        citations = Citations(reference["number"] for reference in request.context["references"])
        stream = request.query.models.stream(request.task, request.arguments)
        try:
            while (piece := as_owner(db, lambda: next(stream, None))) is not None:
                if text := citations.feed(piece):
                    yield text
        finally:
            stream.close()
        if text := citations.finish():
            yield text
    else:
        yield tasks.not_found(request.question)
    as_owner(db, lambda: _write_down(db, request, "ask_stream", None), writes=True)


def _prepare(
    db: Database,
    caller: Caller,
    question: str | None,
    mode_name: str | None,
    max_tokens: int | None,
    low: list[str] | None,
    high: list[str] | None,
    options: str | None,
    history: str | None,
    response_type: str | None,
) -> AskRequest:
    mode = modes.find(mode_name)
    query = prepare(db, caller, question, mode, low, high, options, function="ask")
    return build_request(query, mode, max_tokens, history, response_type, _context)


def build_request(
    query: Query,
    mode: Mode,
    max_tokens: int | None,
    history: str | None,
    response_type: str | None,
    make_context: Callable[[Query, Mode, int], MadeContext],
) -> AskRequest:
    """Return a question with the context that `make_context` makes for it, of so many tokens."""
    started_at = time.monotonic()
    turns = list(tasks.history(read_json(history) if history is not None else None))
    form = _response_form(response_type)
    if not query.text:
        raise GraphRAGError("the question is empty", hint="Ask something.")
    # Checked before anything is paid for.
    total = budget(query, max_tokens)
    query.corpus.options.llm.of("answer")
    question = query.text
    understanding: Understanding | None = None
    if mode.understands:
        has_keywords = query.request.low is not None or query.request.high is not None
        understanding = understand(query.models, question, has_keywords=has_keywords, history=turns)
        query.model_replies["keywords"] = understanding
    if turns:
        # The question as the model restated it, else with the one before.
        query = query.asking((understanding and understanding.question) or _in_light_of(turns, question))
    context, step_usages = make_context(query, mode, total)
    if understanding is not None:
        context["understanding"] = understanding.note()
    arguments = {"question": question, "context": context["prompt"], "history": turns, "response_type": form}
    usage = _sum(understanding.usage if understanding else {}, {})
    for part in (*step_usages, *query.usage):
        usage = _sum(usage, part)
    return AskRequest(query, question, mode, context, arguments, usage, started_at)


def _with_tables(db: Database, caller: Caller, request: AskRequest) -> AskRequest:
    """Put rows of tables into the context, where the caller asks for that. It must run with the caller's rights."""
    if not request.query.options.sql:
        return request
    outcome, usages = table_rows(request.query, tables_of(db, caller))
    for part in usages:
        request.usage = _sum(request.usage, part)
    if outcome is not None:
        check_outcome(db, outcome)
        add_rows(request.context, outcome)
        request.arguments["context"] = request.context["prompt"]
    return request


def _context(query: Query, mode: Mode, total: int) -> MadeContext:
    if mode.answer is not None:
        return mode.answer(query, total)
    return assemble(query, mode, total), []


def _in_light_of(turns: list[dict[str, str]], question: str) -> str:
    """Return a question with the one before it, which may say what it means."""
    previous = next((turn["content"] for turn in reversed(turns) if turn["role"] == "user"), "")
    return f"{previous[-MAX_UNDERSTOOD:]}\n{question}".strip() if turns else question


def _response_form(form: str | None) -> str:
    """Return the form that an answer is to have, in words; 22023 for a bad one."""
    text = " ".join((form or "").split())
    if not text or len(text) > MAX_RESPONSE_TYPE:
        raise GraphRAGError(
            f"response_type cannot be {(form or '')[:50]!r}",
            hint=f'For example "multiple paragraphs", "single sentence", "bullet list": at most {MAX_RESPONSE_TYPE} characters.',
        )
    return text


def _sum(first: dict[str, Any], second: dict[str, Any]) -> dict[str, Any]:
    total = {name: first.get(name, 0) + second.get(name, 0) for name in _USAGE}
    return total | {"cost": round(float(total["cost"]), 8)}


def _write_down(db: Database, request: AskRequest, kind: str, usage: dict[str, Any] | None) -> None:
    """Write accounts, cache and query log, where the transaction may write."""
    save_accounts(db, request.query.corpus)
    if request.query.corpus.options.query_log:
        counts = [len(request.context[part]) for part in ("entities", "relationships", "chunks")]
        log_query(
            db,
            request.query.corpus,
            kind,
            request.mode.name,
            request.question,
            time.monotonic() - request.started_at,
            counts,
            usage,
        )
