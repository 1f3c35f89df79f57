"""graphrag.ask and graphrag.ask_stream: an answer from the documents, with citations that exist."""

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from typing import Any, TypeVar

from pg_graphrag.ground.errors import GraphRAGError
from pg_graphrag.ground.json_reading import read_json
from pg_graphrag.llm.asking import tasks
from pg_graphrag.llm.asking.length_limits import MAX_UNDERSTOOD
from pg_graphrag.llm.asking.models import ModelFault, save_accounts
from pg_graphrag.search import modes
from pg_graphrag.search.answer.grounded import Answer, AskRequest, Deadlines, answer_of, pieces_of, total_usage
from pg_graphrag.search.answer.query_log import log_query
from pg_graphrag.search.answer.shown_pictures import shown_pictures
from pg_graphrag.search.answer.table_query import add_rows, check_outcome, table_rows, tables_of
from pg_graphrag.search.contexts.citation_places import with_places
from pg_graphrag.search.contexts.citations import cited_documents
from pg_graphrag.search.contexts.context_packing import assemble, budget
from pg_graphrag.search.contexts.points import NOTHING_NOTED
from pg_graphrag.search.query.mode import Mode
from pg_graphrag.search.query.query import Query
from pg_graphrag.search.query.understanding import Understanding, understand
from pg_graphrag.search.retrievers.lexical import asks_for_the_whole
from pg_graphrag.search.retrievers.relevance import is_known
from pg_graphrag.search.search import Call
from pg_graphrag.server import Database, Rows, to_json
from pg_graphrag.server.access.caller import Caller
from pg_graphrag.server.access.entry import as_owner, at_one_snapshot

MAX_RESPONSE_TYPE = 200
# Tokens of the shortest context that is tried.
SHORTEST_CONTEXT = 200
# Without a model, a question is not answered if no chunk has so much relevance: `python -m bench extracts`.
LEAST_RELEVANCE = 0.08

T = TypeVar("T")


def ask(db: Database, *arguments: Any) -> list[tuple[str, str, str, str]]:
    """Return one row: answer, citations, usage, context. Arguments: those of `Call`, the history, the form of the answer."""

    def run(call: Call, started_at: float) -> tuple[AskRequest, Answer, list[dict[str, Any]]]:
        request = _request(db, call, started_at, *arguments[-2:])

        def answer_with_places() -> tuple[AskRequest, Answer, list[dict[str, Any]]]:
            with _sized(request), request.query.step("answer"):
                answer = answer_of(request)
            cited = cited_documents(answer.cited_sentences, request.context)
            return request, answer, with_places(db, cited, answer.cited_sentences)

        return as_owner(db, answer_with_places)

    # Accounts and cache are written at the end: a fault would take back earlier writes.
    call = Call("ask", *arguments[:-2])
    request, answer, cited = _within_model(db, call, lambda *how: at_one_snapshot(db, partial(run, *how)))
    usage = answer.usage | {"invalid_citations": answer.invalid}
    request.context.update(request.query.profile_notes())
    as_owner(db, lambda: _write_down(db, request, "ask", usage), writes=True)
    return [(answer.text, to_json(cited), to_json(usage), to_json(request.context))]


def ask_stream(db: Database, *arguments: Any) -> Rows:
    """Return the answer of `ask` in pieces, as they come."""

    def begin(call: Call, started_at: float) -> tuple[Iterator[str], str | None]:
        request = at_one_snapshot(db, lambda: _request(db, call, started_at, *arguments[-2:]))
        pieces = _pieces(db, request)
        with _sized(request):
            return pieces, next(pieces, None)

    pieces, first = _within_model(db, Call("ask", *arguments[:-2]), begin)
    return Rows(db, [] if first is None else [first], pieces)


class _TooLong(GraphRAGError):
    """The model cannot read a prompt with a context of so many `tokens`."""

    def __init__(self, fault: ModelFault, tokens: int):
        super().__init__(fault.message, sqlstate=fault.sqlstate, detail=fault.detail, hint=fault.hint)
        self.tokens = tokens


@contextmanager
def _sized(request: AskRequest) -> Iterator[None]:
    """Say of a prompt that is too long how long its context is."""
    try:
        yield
    except ModelFault as fault:
        if not fault.is_too_long:
            raise
        raise _TooLong(fault, request.context.get("tokens", 0)) from None


def _within_model(db: Database, call: Call, ask_within: Callable[[Call, float], T]) -> T:
    """Return what `ask_within` makes of a context as long as asked for; of half, and so on, where the model reads no more."""
    started_at = time.monotonic()
    tokens = call.size
    while True:
        try:
            result = ask_within(replace(call, size=tokens), started_at)
            break
        except _TooLong as fault:
            if fault.tokens // 2 < SHORTEST_CONTEXT:
                raise
            tokens = fault.tokens // 2
    if tokens != call.size:
        db.warning(
            f"the model for answers reads no longer context: it was given one of {tokens:,} tokens",
            hint="Give it a longer context at its server (num_ctx in Ollama, -c in llama.cpp), or ask for this max_tokens.",
        )
    return result


def _pieces(db: Database, request: AskRequest) -> Iterator[str]:
    """Yield the pieces. Between two of them the caller may do anything."""
    yield from pieces_of(db, request)
    as_owner(db, lambda: _write_down(db, request, "ask_stream", None), writes=True)


def _request(db: Database, call: Call, started_at: float, history: str | None, response_type: str | None) -> AskRequest:
    """Return a question with its context. It must run with the caller's rights."""
    caller = call.caller(db)

    def prepared() -> AskRequest:
        query, mode = call.query(db, caller)
        return build_request(query, mode, call.size, history, response_type, _context, started_at)

    return _with_tables(db, caller, as_owner(db, prepared))


def build_request(
    query: Query,
    mode: Mode,
    max_tokens: int | None,
    history: str | None,
    response_type: str | None,
    make_context: Callable[[Query, Mode, int], dict[str, Any]],
    started_at: float | None = None,
) -> AskRequest:
    """Return a question with the context of so many tokens that `make_context` makes for it.

    Requests to models for the context end at its deadline.
    """
    seconds = query.options.answer_timeout or query.corpus.options.answer_timeout
    deadlines = Deadlines(seconds, time.monotonic() if started_at is None else started_at)
    query.models.deadline = deadlines.context
    turns = list(tasks.history(read_json(history) if history is not None else None))
    form = _response_form(response_type)
    if not query.text:
        raise GraphRAGError("the question is empty", hint="Ask something.")
    # Checked before anything is paid for.
    total = budget(query, max_tokens)
    question = query.text
    form_of_answer = {"question": question, "history": turns, "response_type": form} | _asked_form(query)
    if query.options.bypass:
        llm = query.corpus.options.llm
        llm.of("answer")
        if not llm.bypass and not query.caller.is_owner:
            raise GraphRAGError(
                f'corpus "{query.corpus.name}" has no bypass: its model answers from documents alone',
                sqlstate="42501",
                hint="Leave out bypass, or ask the owner of the extension for it (corpus option llm.bypass).",
            )
        # Its reply is from no document of the corpus, and for nobody else.
        form_of_answer["asker"] = query.caller.role
        nothing = {"prompt": "", "references": [], "entities": [], "relationships": [], "chunks": [], "tokens": 0}
        return AskRequest(query, question, mode.name, "chat", nothing, form_of_answer, total_usage({}, {}), deadlines)
    understanding: Understanding | None = None
    # Other modes use the words of a question, or have models read it.
    if mode.reads_keywords and mode.answer is None:
        has_keywords = query.low is not None or query.high is not None
        with query.step("keywords"):
            understanding = understand(query.models, question, has_keywords=has_keywords, history=turns)
        query.model_replies["keywords"] = understanding
    if turns:
        # The question as the model restated it, else with the one before.
        query = query.asking((understanding and understanding.question) or _in_light_of(turns, question))
    if not query.corpus.options.llm.has("answer"):
        query, make_context = _without_model(query, mode), assemble
    total, speed = _read_in_time(query, mode, total, form_of_answer, deadlines)
    context = make_context(query, mode, total)
    if speed and context.get("tokens", 0) > total / 2:
        query.db.warning(
            f"the model for answers reads {speed:,.0f} tokens a second: its context has {context['tokens']:,} tokens, no more",
            hint="Give the option answer_timeout more seconds, or use a faster model.",
        )
    least = context.get("explain", {}).get("least_tokens", None if total else SHORTEST_CONTEXT)
    # What models said is not asked for again.
    of_shortest = context.pop("least", None)
    if least and speed and not context["prompt"]:
        context = make_context(query, mode, least) if of_shortest is None else context | {"explain": {}} | of_shortest
    if least and not context["prompt"]:
        raise GraphRAGError(
            f"max_tokens {total} leaves no room for anything of the documents",
            hint=f"Give max_tokens, or the option max_total_tokens, of at least {least}.",
        )
    if understanding is not None:
        context["understanding"] = understanding.note()
    arguments = form_of_answer | {"context": context["prompt"]}
    if query.options.pictures:
        arguments["pictures"] = shown_pictures(query.db, context)
        context["pictures"] = [picture["picture"] for picture in arguments["pictures"]]
    usage = total_usage(understanding.usage if understanding else {}, {})
    for part in query.usage:
        usage = total_usage(usage, part)
    # Points of models are reduced to an answer; where chunks stand in for them it is made from these.
    task = "reduce" if mode.answer is not None and "instead" not in query.notes else "answer"
    return AskRequest(query, question, mode.name, task, context, arguments, usage, deadlines)


def _asked_form(query: Query) -> dict[str, Any]:
    """Return what else the caller says about the form of the answer."""
    options = query.options
    asked = {
        "instructions": options.instructions,
        "schema": options.answer_schema,
        "max_tokens": options.max_answer_tokens,
    }
    return {name: value for name, value in asked.items() if value is not None}


def _without_model(query: Query, mode: Mode) -> Query:
    """Return the query of extracts, which have no model to say that documents do not answer: relevance says it."""
    if mode.answer is not None:
        # No model makes points of reports.
        query.notes["instead"] = "chunks: the corpus has no model for answers"
    if query.options.min_relevance is not None or not is_known(query):
        return query
    is_judged = not asks_for_the_whole(query)
    return replace(query, options=replace(query.options, min_relevance=LEAST_RELEVANCE)) if is_judged else query


def _read_in_time(
    query: Query, mode: Mode, total: int, arguments: dict[str, Any], deadlines: Deadlines
) -> tuple[int, float | None]:
    """Return the tokens of context that the model for answers reads in time, and its speed if these are fewer than `total`.

    If models make the context, the time that they may take is not the answer's.
    """
    if not query.models.sends or not total or not query.corpus.options.llm.has("answer"):
        return total, None
    begins = time.monotonic() if mode.answer is None else max(time.monotonic(), deadlines.context)
    readable = query.models.readable("answer", arguments | {"context": ""}, deadlines.first_token - begins)
    if readable is None or readable[1] >= total:
        return total, None
    speed, tokens = readable
    return min(total, max(tokens, SHORTEST_CONTEXT)), speed


def _with_tables(db: Database, caller: Caller, request: AskRequest) -> AskRequest:
    """Put rows of tables into the context, where the caller asks for that. It must run with the caller's rights."""
    if request.is_chat or not request.query.options.sql:
        return request
    with request.query.step("sql"):
        outcome, usages = table_rows(request.query, tables_of(db, caller))
    for part in usages:
        request.usage = total_usage(request.usage, part)
    if outcome is not None:
        check_outcome(db, outcome)
        add_rows(request.context, outcome)
        request.arguments["context"] = request.context["prompt"]
    return request


def _context(query: Query, mode: Mode, total: int) -> dict[str, Any]:
    """Return the context of an answer. What its models give too late or unusable is done without: chunks stand in for it."""
    make = mode.answer or partial(_assembled, mode)
    for instead in (partial(_assembled, mode), partial(_assembled, modes.find("bm25"))):
        try:
            context = make(query, total)
        except ModelFault as fault:
            if fault.reason is None:
                raise
            reason = fault.message
        else:
            reason = context.get("explain", {}).get("empty")
            # A bad model finds that nothing helps.
            if reason != NOTHING_NOTED:
                return context
        query.notes["instead"] = f"chunks: {reason}"
        query.db.warning(
            f'the models that mode "{mode.name}" asks gave no context: {reason}',
            hint="Chunks stand in for it, found without them.",
        )
        make = instead
    return make(query, total)


def _assembled(mode: Mode, query: Query, total: int) -> dict[str, Any]:
    return assemble(query, mode, total)


def _in_light_of(turns: list[dict[str, str]], question: str) -> str:
    """Return a question together with the one before it, which may explain it."""
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


def _write_down(db: Database, request: AskRequest, kind: str, usage: dict[str, Any] | None) -> None:
    """Write accounts, cache and query log, where the transaction may write."""
    save_accounts(db, request.query.corpus)
    if request.query.corpus.options.query_log:
        counts = [len(request.context[part]) for part in ("entities", "relationships", "chunks")]
        log_query(
            db,
            request.query.corpus,
            kind,
            request.mode,
            request.question,
            time.monotonic() - request.deadlines.started_at,
            counts,
            usage,
        )
