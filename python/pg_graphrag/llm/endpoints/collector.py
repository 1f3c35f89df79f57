"""The gateway's side of the batch API: collects new requests, and reads the answers that came back.

The other side, which takes the collected requests to the endpoint, is `pg_graphrag.index.indexing.batch`.
"""

import json
from collections.abc import Sequence
from dataclasses import dataclass

from pg_graphrag.ground.errors import GraphRAGError
from pg_graphrag.llm.endpoints.faults import ContextTooLong, ItemFault, Waiting
from pg_graphrag.llm.endpoints.ledger import Ledger, cost, hold_replies
from pg_graphrag.llm.endpoints.providers import Provider
from pg_graphrag.llm.endpoints.requests import ChatRequest, Reply, estimated_tokens
from pg_graphrag.server import Database, columns
from pg_graphrag.server.corpus.corpora import Corpus
from pg_graphrag.server.queue import queue


@dataclass(slots=True)
class _BatchRequest:
    """The state of a request: a row of llm_batch_requests."""

    id: int
    state: str
    provider: str
    reply: str | None = None
    cut_off: bool = False
    error: str | None = None
    too_long: bool = False
    call_id: int | None = None


class Collector:
    """The requests of one corpus that go through batches. All writes wait for `save`."""

    def __init__(self, db: Database, corpus: Corpus, ledger: Ledger) -> None:
        self._db = db
        self._corpus = corpus
        self._ledger = ledger
        self._by_key: dict[str, _BatchRequest] = {}
        self._new: dict[str, tuple[object, ...]] = {}
        self._read_ids: list[int] = []
        self._spoiled: list[tuple[int, str, int | None]] = []
        self._ahead: float | None = None
        self._waited_for = False

    def look(self, keys: Sequence[str]) -> None:
        """Read the states of requests before `ask` is called for them."""
        rows = self._db.query(
            "SELECT r.key, r.id, r.state, r.provider, r.reply, r.cut_off, r.error, r.too_long, r.call_id"
            "  FROM graphrag.llm_batch_requests r WHERE r.corpus_id = $1 AND r.key = ANY ($2)",
            ["int4", "text[]"],
            [self._corpus.id, [key for key in keys if key not in self._by_key]],
        )
        self._by_key |= {row.pop("key"): _BatchRequest(**row) for row in map(dict, rows)}

    def ask(
        self, request: ChatRequest, provider: Provider, model: str, key: str, fault: GraphRAGError | None
    ) -> Reply | GraphRAGError:
        """Return the answer that came with a batch, or its fault; else collect the request: `Waiting`.

        `fault` keeps new requests from being collected: they fail with it.
        """
        batch_request = self._by_key.get(key)
        if batch_request is not None and batch_request.state in ("answered", "spoiled"):
            # After a spoiled answer, another request asks in another way.
            return self._answer(batch_request, request, model, key)
        elsewhere = (
            batch_request is not None and batch_request.state == "unsent" and batch_request.provider != provider.name
        )
        if batch_request is None or elsewhere:
            if fault is None:
                fault = self._over_budget()
            if fault is not None:
                return fault
            # A guess at the answer's length: that of the last message.
            tokens = (estimated_tokens(request), len(request.messages[-1]["content"].encode()) // 4 + 1)
            estimate = cost(provider, *tokens) * provider.batch_price
            schema = None if request.schema is None else json.dumps(request.schema)
            self._new[key] = (
                key,
                provider.name,
                model,
                request.role,
                json.dumps(list(request.messages)),
                schema,
                request.temperature,
                request.max_tokens,
                estimate,
            )
            self._ahead = (self._ahead or 0.0) + estimate
            self._by_key[key] = _BatchRequest(0, "unsent", provider.name)
        self._waited_for = True
        return Waiting(f'the answer comes by the batch API of provider "{provider.name}"', [key])

    def _answer(
        self, batch_request: _BatchRequest, request: ChatRequest, model: str, key: str
    ) -> Reply | GraphRAGError:
        fault: ItemFault
        try:
            if batch_request.too_long:
                raise ContextTooLong(batch_request.error or "", raw=batch_request.reply or "")
            if batch_request.error is not None:
                raise ItemFault(batch_request.error, raw=batch_request.reply or "")
            text = batch_request.reply or ""
            reply = Reply(request.parse(text, batch_request.cut_off), text)
        except ItemFault as error:
            fault = error
            fault.raw = fault.raw or batch_request.reply or ""
        else:
            self._ledger.keep(key, request.role, model, text)
            self._read_ids.append(batch_request.id)
            # Another task of this run that asks the same finds it here.
            return reply
        if batch_request.state == "answered":
            batch_request.state = "spoiled"
            self._spoiled.append((batch_request.id, fault.message, batch_request.call_id))
        return fault

    def _over_budget(self) -> GraphRAGError | None:
        if self._ahead is None:
            row = self._db.query(
                "SELECT coalesce(pg_catalog.sum(r.estimate), 0) AS ahead FROM graphrag.llm_batch_requests r"
                " WHERE r.corpus_id = $1 AND r.state IN ('unsent', 'sent')",
                ["int4"],
                [self._corpus.id],
            )[0]
            self._ahead = float(row["ahead"])
        try:
            self._ledger.check_budget(self._ahead)
        except GraphRAGError as error:
            return error
        return None

    def save(self) -> None:
        """Write collected requests and read answers, in the caller's transaction; make sure that a job continues."""
        if (self._new or self._spoiled) and hold_replies(self._db, self._corpus) != self._corpus.forgets:
            # Texts of before forget(): the documents that remain are asked for again.
            self._new.clear()
            self._spoiled = []
        if self._read_ids or self._spoiled or self._waited_for:
            lock(self._db, self._corpus.id)
        if self._read_ids:
            self._db.query("DELETE FROM graphrag.llm_batch_requests WHERE id = ANY ($1)", ["int8[]"], [self._read_ids])
        if self._spoiled:
            self._db.query(
                "UPDATE graphrag.llm_batch_requests r SET state = 'spoiled', faults = r.faults + 1"
                " WHERE r.id = ANY ($1)",
                ["int8[]"],
                [[number for number, _, _ in self._spoiled]],
            )
            self._db.query(
                "UPDATE graphrag.llm_calls c SET error = u.error FROM unnest($1, $2) AS u (id, error) WHERE c.id = u.id",
                ["int8[]", "text[]"],
                columns([(call, error[:500]) for _, error, call in self._spoiled]),
            )
        if self._new:
            self._db.query(
                "INSERT INTO graphrag.llm_batch_requests AS r"
                " (corpus_id, key, provider, model, purpose, messages, schema, temperature, max_tokens, estimate)"
                " SELECT $1, u.key, u.provider, u.model, u.purpose, u.messages::jsonb, u.schema::jsonb, u.temperature,"
                " u.max_tokens, u.estimate FROM unnest($2, $3, $4, $5, $6, $7, $8, $9, $10)"
                " AS u (key, provider, model, purpose, messages, schema, temperature, max_tokens, estimate)"
                " ON CONFLICT (corpus_id, key) DO UPDATE SET state = 'unsent', provider = excluded.provider,"
                " temperature = excluded.temperature, max_tokens = excluded.max_tokens,"
                " tries = 0, not_before = pg_catalog.now(), reply = NULL,"
                " cut_off = false, error = NULL, call_id = NULL"
                " WHERE r.state = 'unsent' AND r.provider <> excluded.provider",
                ["int4", "text[]", "text[]", "text[]", "text[]", "text[]", "text[]", "float8[]", "int4[]", "float8[]"],
                [self._corpus.id, *columns([row for _, row in sorted(self._new.items())])],
            )
        if self._waited_for:
            _queue_batch(self._db, self._corpus.id)
        self._read_ids, self._spoiled, self._waited_for = [], [], False
        self._new.clear()


def lock(db: Database, corpus_id: int) -> None:
    """Order, until the end of the transaction, those who begin to wait, who bring answers, and the end of the job."""
    db.query("SELECT graphrag._lock($1, 'batches')", ["int4"], [corpus_id])


def _queue_batch(db: Database, corpus_id: int) -> None:
    """Queue the job that takes requests to the endpoint and brings the answers, once; a failed one begins again."""
    queue(db, "batch", corpus_id)
    db.query(
        "UPDATE graphrag.jobs j SET state = 'pending', next_attempt_at = pg_catalog.now(), attempts = 0, errors = 0"
        " WHERE j.corpus_id = $1 AND j.kind = 'batch'"
        "   AND (j.state = 'failed' OR (j.state = 'pending' AND j.next_attempt_at > pg_catalog.now() AND EXISTS"
        " (SELECT FROM graphrag.llm_batch_requests r WHERE r.corpus_id = $1 AND r.state = 'unsent'"
        "     AND r.not_before <= pg_catalog.now())))",
        ["int4"],
        [corpus_id],
    )
