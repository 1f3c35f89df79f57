"""What all requests of one corpus to models share: endpoints in use, cache, accounts, and cancel that gets through."""

import time
from collections import deque
from dataclasses import dataclass, field
from typing import Any

from pg_graphrag.ground.errors import GraphRAGError
from pg_graphrag.llm.endpoints.collector import Collector
from pg_graphrag.llm.endpoints.faults import DeadlineReached, ProviderFault, TimedOut
from pg_graphrag.llm.endpoints.ledger import Ledger
from pg_graphrag.llm.endpoints.provider_limits import Breaker, Pace, Slots, back_off
from pg_graphrag.llm.endpoints.providers import Provider, load
from pg_graphrag.llm.endpoints.reading_speed import ReadingSpeed
from pg_graphrag.llm.endpoints.requests import (
    CHECK,
    ChatRequest,
    EmbedRequest,
    ModelsRequest,
    Request,
    RerankRequest,
    estimated_tokens,
)
from pg_graphrag.server import Database
from pg_graphrag.server.access.caller import Caller
from pg_graphrag.server.corpus.corpora import Corpus

# Cancel takes effect within this time; polling the database so often costs next to nothing.
POLL_SECONDS = 0.1
# Finished calls are saved this often, so that those of a killed worker are not paid twice.
SAVE_SECONDS = 1.0
# Where someone waits for the answer: retries after a temporary fault, and the longest wait before one.
INTERACTIVE_RETRIES = 2
INTERACTIVE_SECONDS = 20.0
# So long before a deadline an answer is cut off, so that what came of it is there in time.
LAST_SECONDS = 0.3
# Time for a whole answer where a search can do without it.
ROLE_SECONDS = {"keywords": 10.0, "relevance": 10.0}


@dataclass(eq=False)
class Sending:
    """A request on its way, and the tasks that wait for it (the same prompt is sent once)."""

    request: Request
    model: str
    key: str
    waiters: list[tuple[int, Request]]
    tries: int = 0
    not_before: float = 0.0
    started_at: float = 0.0
    reserved: float = 0.0
    # Where it is under way.
    endpoint: "Endpoint | None" = None


@dataclass(eq=False)
class Endpoint:
    """A provider in use, and the requests queued for it."""

    provider: Provider
    slots: Slots
    pace: Pace
    breaker: Breaker
    api_key: str | None = field(default=None, repr=False)
    queue: deque[Sending] = field(default_factory=deque)
    in_flight: int = 0


class Channel:
    """What all requests of one corpus share.

    Parameters
    ----------
    worker : bool
        Under a top-level CALL: transactions are committed, and a fault that may pass is left to the queue's back-off.
        Otherwise someone waits: such a fault is tried again, and nothing is committed.
    writes : bool
        Whether calls and answers may be written down.
    caller : Caller, optional
        Who asks, where someone does; None: a worker, or the package itself.
    patience : float
        Where someone waits: the longest wait, in seconds, before a request is tried again.
    retries : int, optional
        How many times that may be, over all requests; None: as often as each allows.
    deadline : float, optional
        When the caller no longer waits, by time.monotonic(): then requests end with `DeadlineReached`.
    first_token : float, optional
        The same for requests that have not been answered at all by then.
    """

    def __init__(
        self,
        db: Database,
        corpus: Corpus,
        *,
        worker: bool,
        writes: bool,
        caller: Caller | None = None,
        patience: float = INTERACTIVE_SECONDS,
        retries: int | None = None,
        deadline: float | None = None,
        first_token: float | None = None,
    ) -> None:
        self.db = db
        self.corpus = corpus
        self.worker = worker
        self.patience = patience
        self._retries = retries
        self._deadline, self._first_token = deadline, first_token
        self.ledger = Ledger(db, corpus, writes, caller)
        self.endpoints: dict[str, Endpoint] = {}
        self.collector = Collector(db, corpus, self.ledger)
        self._last_poll = self._last_save = time.monotonic()

    @property
    def usage(self) -> Any:
        """The usage of this gateway's requests."""
        return self.ledger.usage

    @property
    def visible_usage(self) -> dict[str, Any]:
        """The usage that the caller may see."""
        return self.ledger.visible_usage.as_dict()

    def endpoint_of(self, request: Request) -> tuple[Endpoint, str]:
        """Return the endpoint that a request is for, and the model."""
        if isinstance(request, ChatRequest):
            name, model = self.corpus.options.llm.of(request.role)
        else:
            name, model = request.provider, request.model
        if name not in self.endpoints:
            provider = load(self.db, name, "rerank" if isinstance(request, RerankRequest) else "openai")
            self.endpoints[name] = Endpoint(
                provider,
                Slots(self.db, provider),
                Pace(self.db, provider, lambda: max(1, _workers_alive(self.db) + (not self.worker))),
                Breaker(self.db, provider, self.worker and self.ledger.writes),
                provider.api_key(),
            )
        return self.endpoints[name], model

    def batches(self, request: Request, endpoint: Endpoint) -> bool:
        """Whether a request goes through the endpoint's batch API: a worker's, which nobody waits for."""
        return (
            self.worker
            and self.ledger.writes
            and endpoint.provider.batch
            and isinstance(request, ChatRequest)
            and request.cacheable
        )

    @property
    def is_late(self) -> bool:
        """Whether the caller no longer waits."""
        return self._deadline is not None and time.monotonic() >= self._deadline

    @property
    def is_late_to_begin(self) -> bool:
        """Whether the caller no longer waits for what has not begun."""
        return self.is_late or (self._first_token is not None and time.monotonic() >= self._first_token)

    def fault_of(self, fault: GraphRAGError) -> GraphRAGError:
        """Return the fault of a request; `DeadlineReached` for one whose time-out was what the caller had left."""
        late = time.monotonic() + LAST_SECONDS + POLL_SECONDS
        over = self.is_late_to_begin or (self._deadline is not None and late >= self._deadline)
        return DeadlineReached() if isinstance(fault, TimedOut) and over else fault

    def call_of(self, request: ChatRequest, model: str) -> Any:
        """Return the request to send: with the limits of its role, and in the time that is left."""
        from pg_graphrag.llm.endpoints.wire import Call

        llm = self.corpus.options.llm
        seconds = llm.timeout_of(request.role) or ROLE_SECONDS.get(request.role)
        if self._deadline is not None:
            left = max(LAST_SECONDS, self._deadline - time.monotonic() - LAST_SECONDS)
            seconds = left if seconds is None else min(seconds, left)
        first = None if self._first_token is None else max(LAST_SECONDS, self._first_token - time.monotonic())
        max_tokens = llm.max_output_tokens_of(request.role) or request.max_tokens
        return Call(
            model, request.messages, request.schema, request.temperature, max_tokens, request.retry, seconds, first
        )

    def may_retry(self, wait: float) -> bool:
        """Whether a request may be sent again after so many seconds; takes one of the retries that are left."""
        if self._deadline is not None and time.monotonic() + wait >= self._deadline:
            return False
        if self._retries is None:
            return True
        self._retries -= 1
        return self._retries >= 0

    def poll(self, wait: float = 0.0) -> None:
        """Let cancel through when it is time, and save finished calls."""
        if wait:
            with self.db.waiting():
                time.sleep(wait)
        now = time.monotonic()
        if now - self._last_poll < POLL_SECONDS:
            return
        self._last_poll = now
        self.db.poll()
        if self.worker:
            if now - self._last_save >= SAVE_SECONDS:
                self.save()
                for endpoint in self.endpoints.values():
                    endpoint.breaker.load()
            self.db.rollback()

    def end_reading(self) -> None:
        """End the transaction in which a worker has read: it would keep a snapshot, which pins vacuum."""
        if self.worker:
            self.db.rollback()

    def save(self) -> None:
        """Save finished calls; a worker commits them."""
        self._last_save = time.monotonic()
        self.ledger.save()
        self.collector.save()
        for endpoint in self.endpoints.values():
            endpoint.breaker.save(keeps_words=not self.ledger.is_outdated)
        if self.worker:
            self.db.commit()

    def note(
        self,
        endpoint: Endpoint,
        model: str,
        request: Request,
        tokens: tuple[int, int],
        started_at: float,
        fault: GraphRAGError | None,
        reserved: float,
    ) -> None:
        """Note the cost or the fault of a request; `reserved` is the cost counted when it was sent."""
        purpose = "embedding" if isinstance(request, EmbedRequest) else "rerank"
        if isinstance(request, ModelsRequest):
            purpose = CHECK
        if isinstance(request, ChatRequest):
            purpose = request.role
        error = None if fault is None else fault.message
        seconds = time.monotonic() - started_at
        self.ledger.note_call(endpoint.provider, model, purpose, tokens, seconds, error, reserved)

    def note_reading(self, endpoint: Endpoint, model: str, request: Request, outcome: Any, started_at: float) -> None:
        """Note how fast the prompt of a chat was read, by its `Completion`; or that it was not, by its fault."""
        if not isinstance(request, ChatRequest):
            return
        speed = ReadingSpeed(self.db, endpoint.provider, model)
        if isinstance(outcome, TimedOut) and not outcome.has_begun:
            speed.missed(estimated_tokens(request), time.monotonic() - started_at)
        elif not isinstance(outcome, BaseException):
            speed.read(outcome.read_tokens, outcome.read_seconds)


def wait_to_retry(tries: int, fault: GraphRAGError, patience: float) -> float | None:
    """Return the seconds until a request that someone waits for is tried again; None: do not try again."""
    if not isinstance(fault, ProviderFault) or fault.permanent or tries >= INTERACTIVE_RETRIES:
        return None
    if isinstance(fault, TimedOut):
        # Whoever waits has waited long enough.
        return None
    wait = back_off(tries, fault.retry_after)
    return wait if wait <= patience else None


def _workers_alive(db: Database) -> int:
    return int(db.query("SELECT pg_catalog.count(*) AS n FROM graphrag._workers")[0]["n"])
