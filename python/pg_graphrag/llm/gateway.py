"""Many requests at once, from tasks that look sequential: cache, limits, breaker, accounting, cancel.

A task is a generator that yields a `ChatRequest` (or `EmbedRequest`), is sent the reply, and returns its result. Tasks run
in the main thread, between the replies; requests run in the background thread. Everything that touches the database is here.
"""

import time
from collections import deque
from collections.abc import Coroutine, Generator, Iterable, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any

from pg_graphrag.corpus.corpora import Corpus
from pg_graphrag.errors import GraphRAGError
from pg_graphrag.llm import wire
from pg_graphrag.llm.collector import Collector
from pg_graphrag.llm.faults import BudgetReached, ItemFault, ProviderFault
from pg_graphrag.llm.ledger import Ledger, cache_key
from pg_graphrag.llm.limits import Breaker, Pace, Slots
from pg_graphrag.llm.loop import Requests, Stream
from pg_graphrag.llm.providers import Provider, load
from pg_graphrag.llm.requests import ChatRequest, EmbedRequest, Reply, Request, RerankRequest, Task, estimated_tokens
from pg_graphrag.llm.transport import back_off, count_tokens
from pg_graphrag.queue.claim import WORKER_LOCK
from pg_graphrag.server import Database

# Cancel gets through within this time, and what the database costs for it is not felt.
POLL_SECONDS = 0.1
# What is done is written down this often, so that a killed worker's calls are not paid twice.
SAVE_SECONDS = 1.0
# Someone waits for the answer: a fault that may pass is tried again so often, where it may pass so soon.
INTERACTIVE_RETRIES = 2
INTERACTIVE_SECONDS = 20.0
# What who asked is told of an answer that is not whole.
CUT_OFF = "the model's answer was cut off, by its length limit or by a filter"


@dataclass(eq=False)
class _Sending:
    """A request on its way, and the tasks that wait for it (the same prompt is sent once)."""

    request: Request
    model: str
    key: str
    waiting: list[tuple[int, Request]]
    tries: int = 0
    not_before: float = 0.0
    started: float = 0.0


@dataclass(eq=False)
class _Endpoint:
    """A provider in use, and what waits for it."""

    provider: Provider
    slots: Slots
    pace: Pace
    breaker: Breaker
    api_key: str | None = field(default=None, repr=False)
    queue: deque[_Sending] = field(default_factory=deque)
    in_flight: int = 0


class Gateway:
    """The way to models for one corpus.

    Parameters
    ----------
    worker : bool
        Under a top-level CALL: transactions are committed, and a fault that may pass is left to the queue's back-off.
        Otherwise someone waits: such a fault is tried again, and nothing is committed.
    writes : bool
        Whether calls and answers may be written down.
    patience : float
        Where someone waits: the longest wait, in seconds, before a request is tried again.
    retries : int, optional
        How many times that may be, over all requests; None: as often as each allows.
    """

    def __init__(
        self,
        db: Database,
        corpus: Corpus,
        *,
        worker: bool,
        writes: bool,
        patience: float = INTERACTIVE_SECONDS,
        retries: int | None = None,
    ) -> None:
        self._db = db
        self._corpus = corpus
        self._worker = worker
        self._patience = patience
        self._retries = retries
        self._ledger = Ledger(db, corpus, writes)
        self._endpoints: dict[str, _Endpoint] = {}
        self._collector = Collector(db, corpus, self._ledger)
        self._last_poll = self._last_save = time.monotonic()

    @property
    def usage(self) -> Any:
        """What this gateway's requests came to."""
        return self._ledger.usage

    def run(self, tasks: Sequence[Task]) -> list[Any]:
        """Run the tasks side by side; return each one's result, or the `GraphRAGError` that ended it, in their order.

        Other errors, query cancel among them, end all tasks and pass.
        """
        return _Run(self, tasks).finish()

    def one(self, task: Task) -> Any:
        """Run one task; return its result or raise its error."""
        (result,) = self.run([task])
        if isinstance(result, GraphRAGError):
            raise result
        return result

    def stream(self, request: ChatRequest) -> Generator[str, None, str]:
        """Yield the pieces of an answer as they come, or a known answer in one; return the whole.

        May be closed at any moment, also by the end of the caller's cursor, when no SQL can be run: so what ends with it
        needs none.
        """
        endpoint, model = self._endpoint_of(request)
        key = cache_key(model, request.messages)
        if known := self._ledger.cached([key]):
            self.usage.cache_hits += 1
            self._ledger.save()
            yield known[key]
            return known[key]
        if (cut := self._ledger.cut_off(key)) is not None:
            self.usage.cache_hits += 1
            yield cut
            self._db.warning(CUT_OFF)
            return cut
        self._ledger.check_budget()
        slots = Slots(self._db, endpoint.provider, for_transaction=True)
        tries = 0
        while True:
            if endpoint.breaker.fault is not None:
                raise endpoint.breaker.fault
            estimate = estimated_tokens(request)
            while endpoint.pace.wait(estimate):
                self._poll(POLL_SECONDS)
            while not slots.take(1):
                slots.queue()
            endpoint.pace.note(estimate)
            started, said, whole = time.monotonic(), "", wire.Completion("", "", 0, 0)
            call = wire.Call(model, request.messages, None, request.temperature)
            stream = Stream(wire.chat_stream(endpoint.provider, endpoint.api_key, call))
            slots.serve(stream)
            try:
                while True:
                    done, item = stream.take(POLL_SECONDS)
                    if done:
                        break
                    if isinstance(item, str):
                        said += item
                        yield item
                    elif item is not None:
                        whole = item
                    self._poll()
                request.parse(whole.text, whole.cut_off)
            except GraphRAGError as fault:
                self._note(endpoint, model, request, (whole.tokens_in, whole.tokens_out), started, fault)
                self._ledger.save()
                wait = _wait_to_retry(tries, fault, self._patience)
                if said or wait is None:
                    raise
                tries += 1
                until = time.monotonic() + wait
                while time.monotonic() < until:
                    self._poll(POLL_SECONDS)
                continue
            except GeneratorExit:
                # Left before its end: what was asked for is paid for. The session's next gateway writes it down.
                self._note(endpoint, model, request, (estimate, count_tokens(None, said)), started, None)
                self._ledger.remember()
                raise
            finally:
                stream.cancel()
                slots.leave(stream)
            self._note(endpoint, model, request, (whole.tokens_in, whole.tokens_out), started, None)
            endpoint.breaker.succeeded()
            if request.cacheable and not whole.cut_off:
                self._ledger.keep(key, request.role, model, whole.text)
            self._ledger.save()
            if whole.cut_off:
                self._ledger.keep_cut_off(key, whole.text)
                self._db.warning(CUT_OFF)
            return whole.text

    def _endpoint_of(self, request: Request) -> tuple[_Endpoint, str]:
        if isinstance(request, ChatRequest):
            name, model = self._corpus.options.llm.of(request.role)
        else:
            name, model = request.provider, request.model
        if name not in self._endpoints:
            provider = load(self._db, name, "rerank" if isinstance(request, RerankRequest) else "openai")
            self._endpoints[name] = _Endpoint(
                provider,
                Slots(self._db, provider),
                Pace(self._db, provider, max(1, _workers_alive(self._db) + (not self._worker))),
                Breaker(self._db, provider, self._worker and self._ledger.writes),
                provider.api_key(),
            )
        return self._endpoints[name], model

    def _batches(self, request: Request, endpoint: _Endpoint) -> bool:
        """Whether a request goes through the endpoint's batch API: a worker's, which nobody waits for."""
        return (
            self._worker
            and self._ledger.writes
            and endpoint.provider.batch
            and isinstance(request, ChatRequest)
            and request.cacheable
        )

    def _may_retry(self) -> bool:
        """Take one of the retries that are left."""
        if self._retries is None:
            return True
        self._retries -= 1
        return self._retries >= 0

    def _poll(self, wait: float = 0.0) -> None:
        """Let cancel through when it is time, and write down what is done."""
        if wait:
            time.sleep(wait)
        now = time.monotonic()
        if now - self._last_poll < POLL_SECONDS:
            return
        self._last_poll = now
        self._db.literal_query("SELECT 1")
        if self._worker:
            if now - self._last_save >= SAVE_SECONDS:
                self._save()
                for endpoint in self._endpoints.values():
                    endpoint.breaker.load()
            self._db.rollback()

    def _save(self) -> None:
        self._last_save = time.monotonic()
        self._ledger.save()
        self._collector.save()
        for endpoint in self._endpoints.values():
            endpoint.breaker.save()
        if self._worker:
            self._db.commit()

    def _note(
        self,
        endpoint: _Endpoint,
        model: str,
        request: Request,
        tokens: tuple[int, int],
        started: float,
        fault: GraphRAGError | None,
    ) -> None:
        purpose = "embedding" if isinstance(request, EmbedRequest) else "rerank"
        if isinstance(request, ChatRequest):
            purpose = request.role
        error = None if fault is None else fault.message
        self._ledger.note_call(endpoint.provider, model, purpose, tokens, time.monotonic() - started, error)


def _wait_to_retry(tries: int, fault: GraphRAGError, patience: float) -> float | None:
    """Seconds after which to try again what someone waits for; None: do not."""
    if not isinstance(fault, ProviderFault) or fault.permanent or tries >= INTERACTIVE_RETRIES:
        return None
    wait = back_off(tries, fault.retry_after)
    return wait if wait <= patience else None


def _workers_alive(db: Database) -> int:
    rows = db.query(
        "SELECT pg_catalog.count(*) AS n FROM pg_catalog.pg_locks l WHERE l.locktype = 'advisory' AND l.classid = $1::oid"
        " AND l.database = (SELECT d.oid FROM pg_catalog.pg_database d WHERE d.datname = pg_catalog.current_database())",
        ["int4"],
        [WORKER_LOCK],
    )
    return int(rows[0]["n"])


class _Run:
    """One `Gateway.run`: tasks by number, requests by key."""

    def __init__(self, gateway: Gateway, tasks: Sequence[Task]) -> None:
        self._gateway = gateway
        self._tasks = list(tasks)
        self._results: list[Any] = [None] * len(tasks)
        self._asked: list[tuple[int, Request]] = []
        self._by_key: dict[str, _Sending] = {}
        self._requests = Requests()
        self._left = len(tasks)

    def finish(self) -> list[Any]:
        gateway = self._gateway
        try:
            for number in range(len(self._tasks)):
                self._step(number, None)
                gateway._poll()
            while self._left:
                if self._asked:
                    self._dispatch()
                    continue
                self._send()
                self._receive()
                gateway._poll()
            gateway._save()
        except BaseException:
            if gateway._worker:
                # Cancelled, most likely: what was answered is paid for.
                gateway._db.rollback()
                gateway._save()
            raise
        finally:
            self._requests.cancel()
            for task in self._tasks:
                task.close()
            for endpoint in gateway._endpoints.values():
                endpoint.queue.clear()
                endpoint.in_flight = 0
                endpoint.slots.give_back()
        return self._results

    def _step(self, number: int, reply: Reply | GraphRAGError | None) -> None:
        """Resume a task with a reply or a fault, up to its next request or its end."""
        task = self._tasks[number]
        try:
            if isinstance(reply, GraphRAGError):
                self._asked.append((number, task.throw(reply)))
            else:
                self._asked.append((number, next(task) if reply is None else task.send(reply)))
        except StopIteration as end:
            self._results[number] = end.value
            self._left -= 1
        except GraphRAGError as error:
            self._results[number] = error
            self._left -= 1

    def _dispatch(self) -> None:
        """Answer what was asked from the cache; put the rest into the endpoints' queues."""
        gateway, asked = self._gateway, self._asked
        self._asked = []
        ready: list[tuple[int, Reply | GraphRAGError]] = []
        new: list[tuple[int, Request, _Endpoint, str, str]] = []
        for number, request in asked:
            try:
                endpoint, model = gateway._endpoint_of(request)
            except GraphRAGError as error:
                ready.append((number, error))
                continue
            # What is not a chat is not shared.
            key = cache_key(model, request.messages) if isinstance(request, ChatRequest) else f"of task {number}"
            new.append((number, request, endpoint, model, key))
        known = gateway._ledger.cached(
            [key for _, request, _, _, key in new if isinstance(request, ChatRequest) and request.cacheable]
        )
        by_batch = {
            key for _, request, endpoint, _, key in new if gateway._batches(request, endpoint) and key not in known
        }
        if by_batch:
            gateway._collector.look(sorted(by_batch))
        blocked: GraphRAGError | None = None
        for number, request, endpoint, model, key in new:
            if isinstance(request, ChatRequest) and key in known:
                try:
                    ready.append((number, Reply(request.parse(known[key], False), known[key], cached=True)))
                    gateway.usage.cache_hits += 1
                    continue
                except ItemFault:  # kept by a version that read it otherwise: ask again
                    pass
            chats = isinstance(request, ChatRequest) and not gateway._worker
            if chats and (cut := gateway._ledger.cut_off(key)) is not None:
                ready.append((number, _parsed(request, wire.Completion(cut, "length", 0, 0), cached=True)))
                gateway.usage.cache_hits += 1
                continue
            if key in self._by_key:
                self._by_key[key].waiting.append((number, request))
                continue
            if blocked is None:
                blocked = self._over_budget()
            fault = blocked or endpoint.breaker.fault
            if key in by_batch and isinstance(request, ChatRequest):
                ready.append((number, gateway._collector.ask(request, endpoint.provider, model, key, fault)))
                continue
            if fault is not None:
                ready.append((number, fault))
                continue
            sending = self._by_key[key] = _Sending(request, model, key, [(number, request)])
            endpoint.queue.append(sending)
        for number, reply in ready:
            self._step(number, reply)

    def _send(self) -> None:
        """Start what limits allow."""
        for endpoint in self._gateway._endpoints.values():
            while endpoint.queue:
                # Looked at each time: what was answered meanwhile may have been the last that the budget pays.
                fault = endpoint.breaker.fault or self._over_budget()
                if fault is not None:
                    sending = endpoint.queue.popleft()
                    self._end(sending, [(number, fault) for number, _ in sending.waiting])
                    continue
                sending = endpoint.queue[0]
                if sending.not_before > time.monotonic():
                    endpoint.queue.rotate(-1)
                    if all(other.not_before > time.monotonic() for other in endpoint.queue):
                        break
                    continue
                estimate = estimated_tokens(sending.request)
                if endpoint.pace.wait(estimate) or not self._take_slot(endpoint):
                    break
                endpoint.queue.popleft()
                endpoint.pace.note(estimate)
                endpoint.in_flight += 1
                sending.started = time.monotonic()
                self._requests.start((endpoint, sending), partial(_work, endpoint, sending))

    def _over_budget(self) -> BudgetReached | None:
        try:
            self._gateway._ledger.check_budget()
        except BudgetReached as error:
            return error
        return None

    def _take_slot(self, endpoint: _Endpoint) -> bool:
        """Take a place for one more request; wait for it in turn where there is nothing else to wait for."""
        if not endpoint.slots.take(endpoint.in_flight + 1) and not len(self._requests):
            endpoint.slots.queue()
        return len(endpoint.slots) > endpoint.in_flight

    def _receive(self) -> None:
        """Take what has ended; wait for it a moment."""
        if not self._left:
            return
        ended = self._requests.take(POLL_SECONDS)
        while ended is not None:
            (endpoint, sending), result, error = ended
            endpoint.in_flight -= 1
            # Also when more is to be sent: the place is the next session's that waits for it.
            endpoint.slots.give_back(endpoint.in_flight)
            self._ended(endpoint, sending, result, error)
            ended = self._requests.take(0)

    def _ended(self, endpoint: _Endpoint, sending: _Sending, result: Any, error: BaseException | None) -> None:
        gateway, request = self._gateway, sending.request
        if error is not None and not isinstance(error, GraphRAGError):
            raise error
        replies: list[tuple[int, Reply | GraphRAGError]]
        tokens = (0, 0)
        fault: GraphRAGError | None = error
        if error is not None:
            replies = [(number, error) for number, _ in sending.waiting]
        elif isinstance(request, ChatRequest):
            tokens = (result.tokens_in, result.tokens_out)
            replies = [(number, _parsed(same, result)) for number, same in sending.waiting]
            fault = next((reply for _, reply in replies if isinstance(reply, GraphRAGError)), None)
            # What was cut off may be of use, but the next one who asks deserves the whole.
            if request.cacheable and fault is None and not result.cut_off:
                gateway._ledger.keep(sending.key, request.role, sending.model, result.text)
            if fault is None and result.cut_off and not gateway._worker:
                gateway._ledger.keep_cut_off(sending.key, result.text)
        else:
            tokens = (result[1], 0)
            replies = [(number, Reply(result[0])) for number, _ in sending.waiting]
        gateway._note(endpoint, sending.model, request, tokens, sending.started, fault)
        if not isinstance(fault, ProviderFault):
            endpoint.breaker.succeeded()
        wait = None if gateway._worker or fault is None else _wait_to_retry(sending.tries, fault, gateway._patience)
        if wait is not None and gateway._may_retry():
            sending.tries += 1
            sending.not_before = time.monotonic() + wait
            endpoint.queue.append(sending)
            return
        # What was not tried again for want of retries says little of the provider.
        if isinstance(fault, ProviderFault) and (wait is None or sending.tries):
            endpoint.breaker.failed(fault, sending.started)
        self._end(sending, replies)

    def _end(self, sending: _Sending, replies: Iterable[tuple[int, Reply | GraphRAGError]]) -> None:
        del self._by_key[sending.key]
        for number, reply in replies:
            self._step(number, reply)


def _parsed(request: Request, result: wire.Completion, cached: bool = False) -> Reply | GraphRAGError:
    assert isinstance(request, ChatRequest)
    try:
        return Reply(request.parse(result.text, result.cut_off), result.text, cached=cached)
    except ItemFault as fault:
        fault.raw = fault.raw or result.text
        return fault


def _work(endpoint: _Endpoint, sending: _Sending) -> Coroutine[Any, Any, Any]:
    request, provider, key = sending.request, endpoint.provider, endpoint.api_key
    if isinstance(request, ChatRequest):
        call = wire.Call(sending.model, request.messages, request.schema, request.temperature)
        return wire.chat(provider, key, call)
    if isinstance(request, EmbedRequest):
        return wire.embed(provider, key, sending.model, request.texts, request.dimensions)
    return wire.rerank(provider, key, sending.model, request.query, request.texts)
