"""graphrag.ask and graphrag.ask_stream: an answer from the documents, with citations that exist."""

import time
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from pg_graphrag.access.caller import Caller, caller_of
from pg_graphrag.access.entry import as_owner, at_one_snapshot
from pg_graphrag.answer import drift_answers, global_answers, lazy_answers
from pg_graphrag.answer.citations import Citations, listed
from pg_graphrag.answer.query_log import log_query
from pg_graphrag.corpus.corpora import Corpus
from pg_graphrag.errors import GraphRAGError
from pg_graphrag.json_reading import read_json
from pg_graphrag.llm.gateway import CUT_OFF
from pg_graphrag.model_access import tasks
from pg_graphrag.model_access.limits import MAX_UNDERSTOOD
from pg_graphrag.model_access.models import ask_model, save_accounts, stream_model
from pg_graphrag.retrieval.context import assemble, budget
from pg_graphrag.retrieval.query import Query
from pg_graphrag.retrieval.search import prepare
from pg_graphrag.retrieval.understanding import Understanding, understand
from pg_graphrag.server import Database, Rows, to_json

MAX_RESPONSE_TYPE = 200
# Modes in which models make the context of the answer: (a query, the question, tokens) to (context, what each step cost).
_MADE = {
    "graph_global": global_answers.mapped,
    "drift": drift_answers.mapped,
    "lazy": lazy_answers.mapped,
}
_USAGE = ("calls", "tokens_in", "tokens_out", "cost", "cache_hits")
# Modes that use a question's keywords; the others look at its words alone.
_UNDERSTOOD = ("local", "global", "hybrid", "mix", "path", "ppr", "graph_local")


@dataclass
class _Asked:
    """A question with its context, ready for the model; `usage` is what understanding and context came to."""

    corpus: Corpus
    caller: Caller
    question: str
    mode: str
    context: dict[str, Any]
    arguments: dict[str, Any]
    usage: dict[str, Any]
    started: float

    @property
    def task(self) -> str:
        """What the model is to do with the context."""
        return "reduce" if self.mode in _MADE else "answer"


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

    def run() -> tuple[_Asked, str, Citations, dict[str, Any]]:
        caller = caller_of(db, corpus, filter_)
        return as_owner(db, lambda: _answered(db, _prepare(db, caller, *given)))

    # Accounts and cache are written at the end: a fault would take back what is written before it.
    asked, answer, citations, usage = at_one_snapshot(db, run)
    usage["invalid_citations"] = citations.invalid
    as_owner(db, lambda: _write_down(db, asked, "ask", usage), writes=True)
    made = (listed(citations.found, asked.context), usage, asked.context)
    cited, used, context = map(to_json, made)
    return [(answer, cited, used, context)]


def _answered(db: Database, asked: _Asked) -> tuple[_Asked, str, Citations, dict[str, Any]]:
    """Return (what was asked, the answer, what it cites, what everything came to)."""
    citations = Citations(reference["number"] for reference in asked.context["references"])
    if not asked.context["prompt"]:
        return asked, tasks.not_found(asked.question), citations, asked.usage
    outcome = ask_model(db, asked.corpus, asked.caller, asked.task, asked.arguments)
    if "fault" in outcome:
        fault = outcome["fault"]
        raise GraphRAGError(fault["message"], sqlstate=fault["sqlstate"], detail=fault["detail"], hint=fault["hint"])
    if outcome["value"]["cut_off"]:
        db.warning(CUT_OFF)
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

    def run() -> _Asked:
        caller = caller_of(db, corpus, filter_)
        return as_owner(db, lambda: _prepare(db, caller, *given))

    pieces = _pieces(db, at_one_snapshot(db, run))
    first = next(pieces, None)
    return Rows(db, [] if first is None else [first], pieces)


def _pieces(db: Database, asked: _Asked) -> Iterator[str]:
    """Yield the pieces, none empty; invalid citations are left out on the way. Between two the caller does as he likes."""
    if asked.context["prompt"]:
        citations = Citations(reference["number"] for reference in asked.context["references"])
        stream = stream_model(db, asked.corpus, asked.caller, asked.task, asked.arguments)
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
) -> _Asked:
    started = time.monotonic()
    asked = prepare(db, caller, question, mode_name, filter_, low, high, options, of="ask")
    turns = list(tasks.history(read_json(history) if history is not None else None))
    form = response_form(response_type)
    if not asked.text:
        raise GraphRAGError("the question is empty", hint="Ask something.")
    # Before anything is paid for.
    budget(asked, max_tokens)
    asked.corpus.options.llm.of("answer")
    whole = asked.text
    understood: Understanding | None = None
    given = low is not None or high is not None
    if mode_name in _UNDERSTOOD:
        understood = understand(db, asked.corpus, caller, whole, given=given, history=turns)
        asked.understanding = understood
    if turns:
        # As the model restated it, else with the question before.
        asked.text = (understood and understood.question) or in_light_of(turns, whole)
    used: list[dict[str, Any]] = []
    if mode_name in _MADE:
        context, used = _MADE[mode_name](asked, asked.text, budget(asked, max_tokens))
    else:
        context = assemble(asked, mode_name, max_tokens)
    if understood is not None:
        context["understanding"] = understood.note()
    arguments = {"question": whole, "context": context["prompt"], "history": turns, "response_type": form}
    usage = _sum(understood.usage if understood else {}, {})
    for part in (*used, *asked.usage):
        usage = _sum(usage, part)
    return _Asked(asked.corpus, caller, whole, str(mode_name), context, arguments, usage, started)


def understands(asked: Query, mode_name: str, given: bool) -> bool:
    """Whether a model is asked for the keywords of a question; `given`: the caller gave some."""
    return mode_name in _UNDERSTOOD and not given and asked.corpus.options.llm.has("keywords")


def in_light_of(turns: list[dict[str, str]], question: str) -> str:
    """Return a question with the one before it: what it means may lie there."""
    before = next((turn["content"] for turn in reversed(turns) if turn["role"] == "user"), "")
    return f"{before[-MAX_UNDERSTOOD:]}\n{question}".strip() if turns else question


def response_form(form: str | None) -> str:
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


def _write_down(db: Database, asked: _Asked, kind: str, usage: dict[str, Any] | None) -> None:
    """Write accounts, cache and query log, where the transaction may write."""
    save_accounts(db, asked.corpus)
    if asked.corpus.options.query_log:
        counts = [len(asked.context[part]) for part in ("entities", "relationships", "chunks")]
        log_query(
            db, asked.corpus.id, kind, asked.mode, asked.question, time.monotonic() - asked.started, counts, usage
        )
