"""The one way of readers to a corpus' models, with the owner's rights: graphrag._model…, _embed, _rerank.

A reader may neither see providers nor write caches and accounts, and yet search and ask. What passes is a task of
`pg_graphrag.answer.tasks` with its arguments, and its outcome. Of a fault, only who belongs to the owner is told what the
endpoint said.
"""

import json
from collections.abc import Generator, Iterator
from typing import Any

from pg_graphrag.answer import streams, tasks
from pg_graphrag.answer.call import MAX_REQUESTS, MAX_RERANKED
from pg_graphrag.corpus.corpora import Corpus, by_id
from pg_graphrag.errors import GraphRAGError
from pg_graphrag.llm.channel import INTERACTIVE_SECONDS
from pg_graphrag.llm.embedding import embedding
from pg_graphrag.llm.faults import BudgetReached, ContextTooLong, ItemFault, ProviderFault
from pg_graphrag.llm.gateway import Gateway
from pg_graphrag.llm.requests import ChatRequest, Reply, RerankRequest, Task
from pg_graphrag.server import Database

# Keywords and transforms of a query are worth a moment; the query as it is costs none.
PATIENCE_SECONDS = {"keywords": 2.0, "relevance": 2.0}


def model(db: Database, corpus_id: int, task: str | None, arguments: str | None, record: bool | None) -> str:
    """Return {value, cached, usage}, or {fault, usage} when the model failed, as JSON.

    A fault is a value: an error would take the account of what it cost with it.
    """
    corpus, request = _asked(db, corpus_id, task, arguments)
    gateway = _gateway(db, corpus, request, record)
    try:
        reply = gateway.one(_ask(request))
        outcome: dict[str, Any] = {"value": reply.value, "cached": reply.cached}
    except GraphRAGError as fault:
        outcome = {"fault": _shown(db, corpus, request.role, fault)}
    return json.dumps(outcome | {"usage": gateway.usage.as_dict()}, ensure_ascii=False)


def models(
    db: Database, corpus_id: int, task: str | None, arguments: str | None, record: bool | None, retries: int | None
) -> str:
    """Return {outcomes: [{value} or {fault}, …], usage} of one task for each of several arguments, as JSON.

    `retries`: how many requests may be sent again, all together; None: each as often as the gateway does.
    """
    corpus = by_id(db, corpus_id)
    if corpus is None:
        raise GraphRAGError(f"corpus number {corpus_id} does not exist", sqlstate="42704", hint="It has been dropped.")
    given = json.loads(arguments) if arguments else []
    if not isinstance(given, list) or not 0 < len(given) <= MAX_REQUESTS:
        raise GraphRAGError(f"a task is done for 1 to {MAX_REQUESTS} arguments at once", hint="Give a JSON array.")
    requests = [tasks.request(corpus.options, task, one if isinstance(one, dict) else {}) for one in given]
    gateway = _gateway(db, corpus, requests[0], record, retries)
    outcomes = [
        {"fault": _shown(db, corpus, request.role, reply)}
        if isinstance(reply, GraphRAGError)
        else {"value": reply.value}
        for request, reply in zip(requests, gateway.run([_ask(one) for one in requests]), strict=True)
    ]
    return json.dumps({"outcomes": outcomes, "usage": gateway.usage.as_dict()}, ensure_ascii=False)


def open_stream(db: Database, corpus_id: int, task: str | None, arguments: str | None, record: bool | None) -> str:
    """Return the name of a stream for `streams.next_piece`; nothing is asked before the first piece."""
    corpus, request = _asked(db, corpus_id, task, arguments)
    return streams.begin(_pieces(db, corpus, request, record))


def _pieces(db: Database, corpus: Corpus, request: ChatRequest, record: bool | None) -> Generator[str, None, None]:
    try:
        for piece in _after_reasoning(_gateway(db, corpus, request, record).stream(request)):
            if piece:
                yield piece
    except GraphRAGError as fault:
        raise _told(_shown(db, corpus, request.role, fault)) from None


# Texts of one query, and characters of each: models see no more.
MAX_TEXTS = 32
MAX_CHARACTERS = 8000


def embed(db: Database, corpus_id: int, texts: list[str] | None) -> tuple[bytes, str]:
    """Return (the vectors of texts by the corpus' embedding model at an endpoint, float32 row by row; usage as JSON).

    Of a long text its beginning. One request, unless the endpoint refuses one of so many texts, or of such a length.
    """
    corpus = by_id(db, corpus_id)
    if corpus is None or corpus.options.embedding.local:
        raise GraphRAGError(
            f"corpus number {corpus_id} has no embedding model at an endpoint", sqlstate="55000", hint="Search again."
        )
    if not texts or len(texts) > MAX_TEXTS or not all(texts):
        raise GraphRAGError(
            f"1 to {MAX_TEXTS} texts are embedded at once, none of them empty", hint="Give fewer texts."
        )
    gateway = Gateway(db, corpus, worker=False, writes=False)
    try:
        made = gateway.one(embedding(corpus.options.embedding, [text[:MAX_CHARACTERS] for text in texts]))
        for vector in made:
            if isinstance(vector, GraphRAGError):
                raise vector
    except GraphRAGError as fault:
        raise _told(_shown(db, corpus, "embedding", fault)) from None
    return b"".join(vector.tobytes() for vector in made), json.dumps(gateway.usage.as_dict())


def rerank(db: Database, corpus_id: int, query: str | None, texts: list[str] | None) -> tuple[list[float], str]:
    """Return (relevance of each text to the query by the corpus' cross-encoder; usage as JSON); of long texts their beginning."""
    corpus = by_id(db, corpus_id)
    if corpus is None:
        raise GraphRAGError(f"corpus number {corpus_id} does not exist", sqlstate="42704", hint="It has been dropped.")
    if not query or not texts or len(texts) > MAX_RERANKED or not all(texts):
        raise GraphRAGError(
            f"1 to {MAX_RERANKED} texts are re-ranked at once, none of them empty", hint="Give fewer texts."
        )
    gateway = Gateway(db, corpus, worker=False, writes=False)
    cut = tuple(text[:MAX_CHARACTERS] for text in texts)
    try:
        scores: list[float] = gateway.one(
            _scores(RerankRequest(*corpus.options.reranker(), query[:MAX_CHARACTERS], cut))
        )
    except GraphRAGError as fault:
        raise _told(_shown(db, corpus, "rerank", fault)) from None
    return scores, json.dumps(gateway.usage.as_dict())


def _scores(request: RerankRequest) -> Task:
    reply: Reply = yield request
    return reply.value


def _told(shown: dict[str, str | None]) -> GraphRAGError:
    message, sqlstate = str(shown["message"]), str(shown["sqlstate"])
    return GraphRAGError(message, sqlstate=sqlstate, detail=shown["detail"], hint=shown["hint"])


def _asked(db: Database, corpus_id: int, task: str | None, arguments: str | None) -> tuple[Corpus, ChatRequest]:
    corpus = by_id(db, corpus_id)
    if corpus is None:
        raise GraphRAGError(f"corpus number {corpus_id} does not exist", sqlstate="42704", hint="It has been dropped.")
    given = json.loads(arguments) if arguments else {}
    return corpus, tasks.request(corpus.options, task, given if isinstance(given, dict) else {})


def _gateway(
    db: Database, corpus: Corpus, request: ChatRequest, record: bool | None, retries: int | None = None
) -> Gateway:
    read_only = db.query("SELECT pg_catalog.current_setting('transaction_read_only')::boolean AS yes")[0]["yes"]
    writes = bool(record) and not read_only
    patience = PATIENCE_SECONDS.get(request.role, INTERACTIVE_SECONDS)
    return Gateway(db, corpus, worker=False, writes=writes, patience=patience, retries=retries)


def _ask(request: ChatRequest) -> Task:
    reply: Reply = yield request
    return reply


_OPENING = ("<think>", "<thinking>")
_CLOSING = ("</think>", "</thinking>")


def _after_reasoning(pieces: Iterator[str]) -> Iterator[str]:
    """Leave out the reasoning that an answer may begin with, as `replies.without_reasoning` does of a whole one."""
    begun = ""
    for piece in pieces:
        begun += piece
        start = begun.lstrip()
        if any(opening.startswith(start) for opening in _OPENING):
            continue
        if start.startswith(_OPENING):
            ends = [(begun.find(closing), closing) for closing in _CLOSING if closing in begun]
            if not ends:
                continue
            at, closing = min(ends)
            begun = begun[at + len(closing) :]
        yield begun
        yield from pieces
        return
    if not begun.lstrip().startswith(_OPENING):
        yield begun


def _shown(db: Database, corpus: Corpus, role: str, fault: GraphRAGError) -> dict[str, str | None]:
    """A fault as the caller may see it. `kind`: item, budget, provider or setting."""
    kind = "setting"
    for name, of in (("item", ItemFault), ("budget", BudgetReached), ("provider", ProviderFault)):
        kind = name if isinstance(fault, of) else kind
    told = {"message": fault.message, "detail": fault.detail, "hint": fault.hint or _OWNERS_HINTS.get(kind)}
    if not _belongs_to_owner(db):
        told = {"message": _plain(corpus, role, kind, fault), "detail": None, "hint": _HINTS[kind]}
        if isinstance(fault, ContextTooLong):
            told["hint"] = _SHORTEN
    elif isinstance(fault, ContextTooLong):
        told["hint"] = _SHORTEN
    return {"kind": kind, "sqlstate": fault.sqlstate, **told}


_OWNER = "Who owns the extension finds the reason in graphrag.llm_calls."
_HINTS = {
    "item": "Ask again, or otherwise.",
    "budget": "Who owns the extension can raise it.",
    "provider": f"Ask again later. {_OWNER}",
    "setting": "Who owns the extension must set the model up: graphrag.set_provider(…), graphrag.alter_corpus(…).",
}
_OWNERS_HINTS = {
    "item": _HINTS["item"],
    "provider": "Ask again later, or check the endpoint and what graphrag.set_provider(…) says of it (base_url, timeout).",
}
_SHORTEN = "Give a smaller max_tokens, or a shorter question or history."


def _plain(corpus: Corpus, role: str, kind: str, fault: GraphRAGError) -> str:
    if isinstance(fault, ContextTooLong):
        return f'the prompt is too long for the model of the role "{role}"'
    return {
        "item": f'the model of the role "{role}" gave no usable answer',
        "budget": f'the monthly budget of corpus "{corpus.name}" is reached',
        "provider": f'the model of the role "{role}" cannot be reached',
        "setting": f'the model of the role "{role}" is not set up',
    }[kind]


def _belongs_to_owner(db: Database) -> bool:
    """Whether who called the door has the rights of the extension's owner (here everybody has: it is SECURITY DEFINER)."""
    rows = db.query(
        "SELECT pg_catalog.pg_has_role(CASE pg_catalog.current_setting('role') WHEN 'none' THEN session_user"
        " ELSE pg_catalog.current_setting('role')::name END, e.extowner, 'USAGE') AS yes"
        "  FROM pg_catalog.pg_extension e WHERE e.extname = 'pg_graphrag'"
    )
    return bool(rows and rows[0]["yes"])
