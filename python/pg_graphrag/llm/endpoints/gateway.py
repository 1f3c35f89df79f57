"""Sends many requests at once, for tasks written as if sequential: cache, limits, breaker, accounting, cancel.

A task is a generator: it yields a request, is sent the reply (or thrown the fault), and returns its result. The main
thread runs the tasks between replies, and everything that touches the database; the background thread sends the
requests. Streams take the same path; they only hand out pieces of the reply as they come.
"""

import time
from collections import deque
from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, Any

from pg_graphrag.ground.errors import GraphRAGError
from pg_graphrag.ground.reasoning import begins_unmarked
from pg_graphrag.llm.endpoints.collector import Collector
from pg_graphrag.llm.endpoints.faults import (
    BudgetReached,
    DeadlineReached,
    ItemFault,
    ProviderFault,
    Repetition,
    StreamExpired,
    TimedOut,
)
from pg_graphrag.llm.endpoints.ledger import Ledger, cache_key
from pg_graphrag.llm.endpoints.provider_limits import Breaker, OpenStream, Pace, Slots, back_off
from pg_graphrag.llm.endpoints.providers import IS_LLAMA_CPP, THINKS_UNMARKED, ModelHabits, Provider, load_provider
from pg_graphrag.llm.endpoints.requests import (
    PROBE_SECONDS,
    ChatRequest,
    EmbedRequest,
    ModelsRequest,
    Reply,
    Request,
    RerankRequest,
    Task,
    asked,
    count_tokens,
    estimated_tokens,
    probe_of,
)
from pg_graphrag.server import Database
from pg_graphrag.server.access.caller import Caller
from pg_graphrag.server.corpus.corpora import Corpus

if TYPE_CHECKING:
    from pg_graphrag.llm.endpoints.loop import Requests
    from pg_graphrag.llm.endpoints.wire import Call, Completion

# The WARNING for an incomplete answer.
CUT_OFF = "the model's answer was cut off, by its length limit or by a filter"
# Cancel takes effect within this time; polling the database so often costs next to nothing.
POLL_SECONDS = 0.1
# Finished calls are saved this often, so that those of a killed worker are not paid twice.
SAVE_SECONDS = 1.0
# Where someone waits for the answer: retries after a temporary fault, and the longest wait before one.
INTERACTIVE_RETRIES = 2
INTERACTIVE_SECONDS = 20.0
# So long before a deadline an answer is cut off, so that its beginning arrives in time.
LAST_SECONDS = 0.3
FORBIDDEN_HINT = "The endpoint answers other texts: it, or a firewall before it, forbids this one."
# Time for a whole answer where a search can do without it.
ROLE_SECONDS = {"keywords": 10.0, "relevance": 10.0}


@dataclass(eq=False)
class Sending:
    """A request on its way, and the tasks that wait for it (equal prompts are sent once).

    `text` is the part of its reply that was handed out, `open_stream` the places of a reply that is streamed.
    """

    request: Request
    endpoint: "Endpoint"
    model: str
    key: str
    waiters: list[tuple[int, Request]]
    tries: int = 0
    not_before: float = 0.0
    started_at: float = 0.0
    reserved: float = 0.0
    text: str = ""
    open_stream: OpenStream | None = None
    # For a chat model.
    habits: ModelHabits | None = None
    # The fault of the original request, while `request` is the probe that tells whether the text or the endpoint is at
    # fault.
    suspect: ProviderFault | None = None

    @property
    def tokens_so_far(self) -> tuple[int, int]:
        """The tokens of a request that ended before its reply did: it is paid for all the same."""
        return estimated_tokens(self.request), count_tokens(None, self.text) if self.text else 0

    def release(self) -> None:
        """Free the places of a stream; needs no SQL."""
        if self.open_stream is not None:
            self.open_stream.release()
        self.open_stream = None


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
    # For each kind of request and model: those with a suspect fault. The first is the probe.
    doubted: dict[tuple[type[Request], str], list[Sending]] = field(default_factory=dict)


class Gateway:
    """The way to models for one corpus.

    `worker`: under a top-level CALL: transactions are committed, and a temporary fault is left to the queue's back-off.
      Otherwise a caller waits: such a fault is retried, and nothing is committed.
    `writes`: whether calls and answers may be recorded.
    `caller`: who asks; None: a worker, or the package itself.
    `patience`: for a waiting caller: the longest wait, in seconds, before a request is retried.
    `retries`: how many retries there may be over all requests; None: as many as each allows.
    `deadline`: when the caller stops waiting, by time.monotonic(): then requests end with `DeadlineReached`.
    `first_token`: the same for requests that have no part of an answer by then.
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
        self._patience, self._retries = patience, retries
        self._deadline, self._first_token = deadline, first_token
        self.ledger = Ledger(db, corpus, writes, caller)
        self.endpoints: dict[str, Endpoint] = {}
        # For requests that nobody waits for.
        self.collector = Collector(db, corpus, self.ledger) if worker and writes else None
        self._last_poll = self._last_save = time.monotonic()

    @property
    def usage(self) -> Any:
        """The usage of this gateway's requests."""
        return self.ledger.usage

    @property
    def visible_usage(self) -> dict[str, Any]:
        """The usage that the caller may see."""
        return self.ledger.visible_usage.as_dict()

    def run(self, tasks: Sequence[Task]) -> list[Any]:
        """Run the tasks side by side; return each one's result, or the `GraphRAGError` that ended it, in their order.

        Other errors, such as query cancel, end all tasks and are raised.
        """
        run = _Run(self, tasks)
        for _ in run.pieces():
            pass
        return run.results

    def run_one(self, task: Task) -> Any:
        """Run one task; return its result or raise its error."""
        return _result(self.run([task]))

    def stream(self, request: ChatRequest) -> Generator[str, None, str]:
        """Yield the pieces of an answer as they come, or a known answer in one; return the whole answer.

        May be closed at any moment, also by the end of the caller's cursor, when no SQL can be run: so what ends with it
        needs none.
        """
        run, has_begun = _Run(self, [asked(request)], streams=True), False
        for piece in run.pieces():
            has_begun = True
            yield piece
        reply: Reply = _result(run.results)
        if not has_begun:
            yield reply.text
        if reply.cut_off:
            self.db.warning(CUT_OFF)
        return reply.text

    def endpoint_of(self, request: Request) -> tuple[Endpoint, str]:
        """Return the endpoint that a request is for, and the model."""
        name, model = self._names(request)
        if name not in self.endpoints:
            provider = load_provider(self.db, name, "rerank" if isinstance(request, RerankRequest) else "openai")
            self.endpoints[name] = Endpoint(
                provider,
                Slots(self.db, provider),
                Pace(self.db, provider, lambda: max(1, _workers_alive(self.db) + (not self.worker))),
                Breaker(self.db, provider, self.worker and self.ledger.writes),
                provider.api_key(),
            )
        return self.endpoints[name], model

    def _names(self, request: Request) -> tuple[str, str]:
        """Return the names of a request's provider and model."""
        if isinstance(request, ChatRequest):
            return self.corpus.options.llm.of(request.role)
        return request.provider, request.model

    def batches(self, request: Request) -> bool:
        """Whether a request goes through the endpoint's batch API, where nobody waits for it."""
        if self.collector is None or (isinstance(request, ChatRequest) and request.pictures):
            return False
        return self.endpoint_of(request)[0].provider.batch

    def cache_key(self, request: Request) -> str | None:
        """Return the key of a request's reply; None where each is sent."""
        if not isinstance(request, ChatRequest):
            return None
        return cache_key(self._names(request)[1], request.messages, request.retry, request.whole_variant)

    @property
    def is_late(self) -> bool:
        """Whether the caller no longer waits."""
        return self._deadline is not None and time.monotonic() >= self._deadline

    @property
    def is_late_to_begin(self) -> bool:
        """Whether the caller no longer waits for requests that have not begun."""
        return self.is_late or (self._first_token is not None and time.monotonic() >= self._first_token)

    def fault_of(self, fault: GraphRAGError) -> GraphRAGError:
        """Return the fault of a request; `DeadlineReached` for one whose time-out was what the caller had left."""
        late = time.monotonic() + LAST_SECONDS + POLL_SECONDS
        over = self.is_late_to_begin or (self._deadline is not None and late >= self._deadline)
        return DeadlineReached() if isinstance(fault, TimedOut) and over else fault

    def call_of(self, request: ChatRequest, sending: Sending) -> "Call":
        """Return the request to send: with the limits of its role, and in the time that is left."""
        from pg_graphrag.llm.endpoints.wire import Call

        llm = self.corpus.options.llm
        seconds = llm.timeout_of(request.role) or ROLE_SECONDS.get(request.role)
        if self._deadline is not None:
            left = max(LAST_SECONDS, self._deadline - time.monotonic() - LAST_SECONDS)
            seconds = left if seconds is None else min(seconds, left)
        if sending.suspect is not None:
            seconds = min(PROBE_SECONDS, sending.endpoint.provider.timeout, seconds or PROBE_SECONDS)
        first = None if self._first_token is None else max(LAST_SECONDS, self._first_token - time.monotonic())
        max_tokens = llm.max_output_tokens_of(request.role) or request.max_tokens
        if request.asked_tokens is not None:
            max_tokens = min(max_tokens, request.asked_tokens)
        return Call(
            sending.model,
            request.messages,
            request.schema,
            request.temperature,
            max_tokens,
            request.retry,
            seconds,
            first,
            pictures=request.pictures,
            is_llama_cpp=sending.habits is not None and sending.habits.has(IS_LLAMA_CPP),
        )

    def wait_to_retry(self, sending: Sending, fault: GraphRAGError | None) -> float | None:
        """Return the seconds until a request that someone waits for is sent again; None: it is not."""
        if self.worker or sending.text or not isinstance(fault, ProviderFault) or fault.permanent:
            return None
        # After a time-out whoever waits has waited long enough.
        if sending.tries >= INTERACTIVE_RETRIES or isinstance(fault, TimedOut) or fault.is_forbidden:
            return None
        wait = back_off(sending.tries, fault.retry_after)
        return wait if wait <= self._patience else None

    def may_retry(self, wait: float) -> bool:
        """Whether a request may be sent again after so many seconds; uses up one of the remaining retries."""
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

    def save(self) -> None:
        """Save finished calls; a worker commits them."""
        self._last_save = time.monotonic()
        self.ledger.save()
        if self.collector is not None:
            self.collector.save()
        for endpoint in self.endpoints.values():
            endpoint.breaker.save(keeps_words=not self.ledger.is_outdated)
        if self.worker:
            self.db.commit()

    def note(self, sending: Sending, tokens: tuple[int, int], fault: GraphRAGError | None) -> None:
        """Note the cost or the fault of a request that was sent."""
        self.ledger.note_call(
            sending.endpoint.provider,
            sending.model,
            sending.request.purpose,
            tokens,
            time.monotonic() - sending.started_at,
            None if fault is None else fault.message,
            sending.reserved,
            sending.key,
        )

    def note_habits(self, sending: Sending, outcome: Any) -> None:
        """Note how a chat's prompt was read, by its `Completion`, or that it was not, by its fault; and how its model replies."""
        request, habits = sending.request, sending.habits
        if not isinstance(request, ChatRequest) or habits is None:
            return
        if isinstance(outcome, TimedOut) and not outcome.has_begun:
            habits.missed(estimated_tokens(request), time.monotonic() - sending.started_at)
        elif not isinstance(outcome, BaseException):
            habits.read(outcome.read_tokens, outcome.read_seconds)
            if begins_unmarked(outcome.text, is_prose=request.schema is None):
                habits.note(THINKS_UNMARKED)
            if outcome.is_llama_cpp:
                habits.note(IS_LLAMA_CPP)


class _Run:
    """Tasks side by side: each distinct request is sent once, as limits allow, and its reply goes to all waiting tasks.

    `streams`: whether the pieces of replies are handed out.
    """

    def __init__(self, gateway: Gateway, tasks: Sequence[Task], *, streams: bool = False) -> None:
        self._gateway = gateway
        self._tasks = list(tasks)
        self._streams = streams
        self.results: list[Any] = [None] * len(tasks)
        self._unfinished = len(tasks)
        self._new_requests: list[tuple[int, Request]] = []
        # By key: those that wait to be sent, and those that are under way.
        self._sendings: dict[str, Sending] = {}
        self._under_way: set[Sending] = set()
        self._requests: Requests | None = None

    def pieces(self) -> Iterator[str]:
        """Run the tasks to their ends; yield the pieces of replies meanwhile."""
        gateway = self._gateway
        try:
            for number in range(len(self._tasks)):
                self._step(number, None)
                gateway.poll()
            while self._unfinished:
                if self._new_requests:
                    # Even when it is late: cached answers are free.
                    self._dispatch()
                    self._send()
                    if gateway.worker:
                        # Look-ups are done; the endpoint may take minutes, and a snapshot would hold back vacuum.
                        gateway.db.rollback()
                    continue
                self._send()
                has_come = yield from self._receive()
                # What came in time is taken, however late it is taken.
                if not has_come and (gateway.is_late or (gateway.is_late_to_begin and not self._under_way)):
                    self._end_all()
                gateway.poll()
            gateway.save()
        except BaseException:
            # Cancelled, closed, or stopped: requests that were sent cost money.
            if gateway.worker:
                gateway.db.rollback()
                gateway.save()
            else:
                # No SQL can be run: the session's next gateway saves it.
                for sending in self._under_way:
                    gateway.note(sending, sending.tokens_so_far, None)
                gateway.ledger.remember()
            raise
        finally:
            self._let_go()
            for task in self._tasks:
                task.close()

    def _let_go(self) -> None:
        """End requests under way or waiting to be sent; needs no SQL."""
        if self._requests is not None:
            self._requests.cancel()
        self._requests = None
        self._under_way.clear()
        for sending in self._sendings.values():
            sending.release()
        for endpoint in self._gateway.endpoints.values():
            endpoint.queue.clear()
            endpoint.doubted.clear()
            endpoint.in_flight = 0
            endpoint.slots.give_back()

    def _end_all(self) -> None:
        """End all requests, sent or not, since their caller no longer waits."""
        for sending in self._under_way:
            self._gateway.note(sending, sending.tokens_so_far, DeadlineReached())
        self._let_go()
        sendings, self._sendings = list(self._sendings.values()), {}
        for number, fault in [(number, sending.suspect) for sending in sendings for number, _ in sending.waiters]:
            self._step(number, fault or DeadlineReached())

    def _step(self, number: int, reply: Reply | GraphRAGError | None) -> None:
        """Resume a task with a reply or a fault, up to its next request or its end."""
        task = self._tasks[number]
        try:
            if isinstance(reply, GraphRAGError):
                self._new_requests.append((number, task.throw(reply)))
            else:
                self._new_requests.append((number, next(task) if reply is None else task.send(reply)))
        except StopIteration as end:
            self.results[number] = end.value
            self._unfinished -= 1
        except GraphRAGError as error:
            self.results[number] = error
            self._unfinished -= 1

    def _dispatch(self) -> None:
        """Answer new requests from caches; put the others into the endpoints' queues."""
        gateway, requests = self._gateway, self._new_requests
        self._new_requests = []
        ready: list[tuple[int, Reply | GraphRAGError]] = []
        new: list[tuple[int, Request, str]] = []
        keys: list[str] = []
        by_batch: set[str] = set()
        for number, request in requests:
            try:
                key = gateway.cache_key(request) or f"of task {number}"
                if isinstance(request, ChatRequest) and request.cacheable:
                    keys.append(key)
                    by_batch |= {key} if gateway.batches(request) else set()
                new.append((number, request, key))
            except GraphRAGError as error:
                ready.append((number, error))
        cached = gateway.ledger.cached(keys)
        by_batch -= cached.keys()
        if by_batch and gateway.collector is not None:
            gateway.collector.look(sorted(by_batch))
        # An error at a limit must not show a reader what is cached.
        blocked = _limit(gateway.ledger.check_budget) if gateway.ledger.discreet else None
        for number, request, key in new:
            if (fault := blocked or _limit(gateway.ledger.admit)) is not None:
                ready.append((number, fault))
                continue
            try:
                if (known := self._known(request, cached.get(key), key)) is not None:
                    ready.append((number, known))
                    continue
                endpoint, model = gateway.endpoint_of(request)
            except GraphRAGError as error:
                ready.append((number, error))
                continue
            if key in self._sendings:
                self._sendings[key].waiters.append((number, request))
                continue
            stop = _limit(gateway.ledger.check_budget) or endpoint.breaker.fault
            if key in by_batch and isinstance(request, ChatRequest) and gateway.collector is not None:
                ready.append((number, gateway.collector.ask(request, endpoint.provider, model, key, stop)))
            elif stop is not None:
                ready.append((number, stop))
            else:
                self._sendings[key] = Sending(request, endpoint, model, key, [(number, request)])
                endpoint.queue.append(self._sendings[key])
        for number, reply in ready:
            self._step(number, reply)

    def _known(self, request: Request, text: str | None, key: str) -> Reply | GraphRAGError | None:
        """Return the reply to a request from its cached text, or one that was cut off before; None: it is to be sent."""
        gateway = self._gateway
        if not isinstance(request, ChatRequest):
            return None
        # The usage of readers counts cached answers, too. A missing provider must not show what is cached.
        provider = gateway.endpoint_of(request)[0].provider if gateway.ledger.discreet else None
        reply = None if text is None else _parsed(request, text)
        if not isinstance(reply, Reply):
            # An answer that another version cached in another form is requested again.
            text = None if gateway.worker else gateway.ledger.cut_off(key)
            if text is None:
                return None
            reply = _parsed(request, text, cut_off=True)
        gateway.usage.cache_hits += 1
        if provider is not None:
            gateway.ledger.note_answer(provider, request, str(text), key)
        else:
            gateway.ledger.note_known(key)
        return reply

    def _send(self) -> None:
        """Start the requests that limits allow."""
        gateway = self._gateway
        for endpoint in gateway.endpoints.values():
            while endpoint.queue and not gateway.is_late_to_begin:
                sending = endpoint.queue[0]
                # Checked each time: an answer that came meanwhile may have used the budget up.
                fault = endpoint.breaker.fault or _limit(gateway.ledger.check_budget)
                if fault is not None:
                    endpoint.queue.popleft()
                    if sending.suspect is not None:
                        self._end_doubted(sending, is_of_text=False)
                    else:
                        self._end(sending, [(number, fault) for number, _ in sending.waiters])
                    continue
                if endpoint.doubted and sending.suspect is None:
                    # A probe, which goes first, says whether it is to be sent.
                    break
                if sending.not_before > time.monotonic():
                    endpoint.queue.rotate(-1)
                    if all(queued_sending.not_before > time.monotonic() for queued_sending in endpoint.queue):
                        break
                    continue
                if endpoint.pace.wait(estimated_tokens(sending.request)):
                    break
                # Its time begins here: not while it waits for the pace.
                if self._streams and sending.open_stream is None and sending.suspect is None:
                    sending.open_stream = OpenStream(gateway.db, endpoint.provider, gateway.ledger.limited_role)
                    sending.open_stream.begin()
                if not self._take_slot(endpoint):
                    break
                endpoint.queue.popleft()
                self._start(sending)

    def _start(self, sending: Sending) -> None:
        # With asyncio and HTTP, which sessions without endpoints save.
        from pg_graphrag.llm.endpoints.loop import Requests

        endpoint, estimate = sending.endpoint, estimated_tokens(sending.request)
        if self._requests is None:
            self._requests = Requests()
        if sending.open_stream is not None:
            # Its thread frees the place, also where the session sits idle.
            sending.open_stream.add(endpoint.slots.hand_over())
        endpoint.pace.note(estimate)
        endpoint.in_flight += 1
        self._under_way.add(sending)
        sending.started_at = time.monotonic()
        sending.reserved = self._gateway.ledger.reserve(endpoint.provider, estimate)
        self._requests.start(sending, self._work(sending, self._requests), sending.open_stream)

    def _work(self, sending: Sending, requests: "Requests") -> Callable[[], Any]:
        from pg_graphrag.llm.endpoints import embed_rerank, wire

        request, provider, key = sending.request, sending.endpoint.provider, sending.endpoint.api_key
        if isinstance(request, ChatRequest):
            sending.habits = ModelHabits(self._gateway.db, provider, sending.model)
            give = None if sending.open_stream is None else partial(requests.give, sending)
            return partial(wire.chat, provider, key, self._gateway.call_of(request, sending), give)
        if isinstance(request, EmbedRequest):
            seconds = min(PROBE_SECONDS, provider.timeout) if request.is_probe else None
            return partial(embed_rerank.embed, provider, key, sending.model, request.texts, request.dimensions, seconds)
        if isinstance(request, ModelsRequest):
            return partial(embed_rerank.models, provider, key)
        return partial(embed_rerank.rerank, provider, key, sending.model, request.query, request.texts)

    def _take_slot(self, endpoint: Endpoint) -> bool:
        """Take a place for one more request; wait for it in turn where there is nothing else to wait for."""
        if not endpoint.slots.take(endpoint.in_flight + 1) and not self._under_way:
            endpoint.slots.queue()
        return len(endpoint.slots) > endpoint.in_flight

    def _receive(self) -> Generator[str, None, bool]:
        """Take results, waiting a moment for the first; return whether there was any, and yield a stream's next piece."""
        if not self._unfinished or self._new_requests:
            return True
        if self._requests is None or not self._under_way:
            self._gateway.poll(POLL_SECONDS)
            return False
        from pg_graphrag.llm.endpoints.loop import Piece

        with self._gateway.db.waiting():
            outcome = self._requests.take(POLL_SECONDS)
        has_come = outcome is not None
        while outcome is not None:
            sending, result, error = outcome
            if isinstance(result, Piece):
                yield from self._hand_out(sending, result)
                return True
            self._finish(sending, result, error)
            outcome = self._requests.take(0)
        return has_come

    def _hand_out(self, sending: Sending, piece: str) -> Iterator[str]:
        """Yield a piece of a stream. Whoever takes it may do so when the stream's time is over."""
        open_stream = sending.open_stream
        assert open_stream is not None
        sending.text += piece
        open_stream.rest()
        yield piece
        if (fault := open_stream.go_on()) is not None:
            self._finish(sending, None, fault)
            self._let_go()

    def _finish(self, sending: Sending, result: Any, error: BaseException | None) -> None:
        gateway, request, endpoint = self._gateway, sending.request, sending.endpoint
        self._under_way.discard(sending)
        endpoint.in_flight -= 1
        # Also when more is to be sent: the place goes to the next waiting session.
        endpoint.slots.give_back(endpoint.in_flight)
        sending.release()
        if error is not None and not isinstance(error, GraphRAGError):
            raise error
        if sending.suspect is not None:
            self._judge(sending, result, error)
            return
        replies: list[tuple[int, Reply | GraphRAGError]]
        tokens = (0, 0)
        fault: GraphRAGError | None = None
        gateway.note_habits(sending, error or result)
        if error is not None:
            fault = gateway.fault_of(error)
            tokens = sending.tokens_so_far if isinstance(error, StreamExpired) else tokens
            replies = [(number, fault) for number, _ in sending.waiters]
        elif isinstance(request, ChatRequest):
            tokens = (result.tokens_in, result.tokens_out)
            replies = [(number, _reply(own_request, result)) for number, own_request in sending.waiters]
            for (_, own_request), (_, reply) in zip(sending.waiters, replies, strict=True):
                if isinstance(own_request, ChatRequest) and isinstance(reply, Reply):
                    seconds = time.monotonic() - sending.started_at
                    gateway.ledger.note_answer(endpoint.provider, own_request, result.text, sending.key, seconds)
            fault = next((reply for _, reply in replies if isinstance(reply, GraphRAGError)), None)
            # A cut-off answer may be of use, but the next caller should get a complete one.
            if request.cacheable and fault is None and not result.cut_off:
                gateway.ledger.keep(sending.key, request.role, sending.model, result.text)
            if fault is None and result.cut_off and not gateway.worker:
                gateway.ledger.keep_cut_off(sending.key, result.text)
        else:
            tokens = (result[1], 0)
            replies = [(number, Reply(result[0])) for number, _ in sending.waiters]
        gateway.note(sending, tokens, fault)
        if not isinstance(fault, (ProviderFault, DeadlineReached)):
            endpoint.breaker.succeeded()
        is_probe = isinstance(request, EmbedRequest) and request.is_probe
        # What a text does closes no endpoint to others: whether it is the text, a probe says, which is tried again in its place.
        is_of_text = isinstance(request, EmbedRequest) and not is_probe and getattr(fault, "may_be_of_text", False)
        wait = None if is_of_text else gateway.wait_to_retry(sending, fault)
        if wait is not None and gateway.may_retry(wait):
            sending.tries += 1
            sending.not_before = time.monotonic() + wait
            endpoint.queue.append(sending)
            return
        # A fault that was not retried because no retries were left says little about the provider.
        # Nor does one that was given less time than the provider has.
        is_blamed = not isinstance(request, ChatRequest) or request.blames_endpoint
        is_short = isinstance(fault, TimedOut) and fault.seconds < endpoint.provider.timeout and not is_probe
        in_haste = is_short or (isinstance(fault, TimedOut) and not is_blamed)
        if isinstance(fault, ProviderFault) and not (in_haste or is_of_text) and (wait is None or sending.tries):
            is_doubtful = fault.is_forbidden or (fault.may_be_of_text and endpoint.breaker.would_open(fault))
            if is_doubtful and (probe := probe_of(request)) is not None:
                doubted = endpoint.doubted.setdefault((type(request), sending.model), [])
                doubted.append(sending)
                sending.suspect, sending.request = fault, probe
                if len(doubted) == 1:
                    endpoint.queue.appendleft(sending)
                return
            endpoint.breaker.failed(fault, sending.started_at)
        self._end(sending, replies)

    def _judge(self, sending: Sending, result: Any, error: GraphRAGError | None) -> None:
        """End the requests that a probe was sent for: where that has an answer, the endpoint is open to others."""
        breaker, fault = sending.endpoint.breaker, None if error is None else self._gateway.fault_of(error)
        tokens = (0, 0)
        if error is None:
            is_chat = isinstance(sending.request, ChatRequest)
            tokens = (result.tokens_in, result.tokens_out) if is_chat else (result[1], 0)
        self._gateway.note(sending, tokens, fault)
        if isinstance(fault, ProviderFault) and sending.suspect is not None:
            breaker.failed(sending.suspect, sending.started_at)
        is_of_text = not isinstance(fault, (ProviderFault, DeadlineReached))
        if is_of_text:
            breaker.succeeded()
        self._end_doubted(sending, is_of_text=is_of_text)

    def _end_doubted(self, sending: Sending, *, is_of_text: bool) -> None:
        """End a probe's requests by their own faults; what a text alone is forbidden for is the item's."""
        for doubted in sending.endpoint.doubted.pop((type(sending.request), sending.model)):
            fault: GraphRAGError | None = doubted.suspect
            if is_of_text and doubted.suspect is not None and doubted.suspect.is_forbidden:
                fault = ItemFault(doubted.suspect.message, hint=FORBIDDEN_HINT)
            if fault is not None:
                self._end(doubted, [(number, fault) for number, _ in doubted.waiters])

    def _end(self, sending: Sending, replies: Iterable[tuple[int, Reply | GraphRAGError]]) -> None:
        del self._sendings[sending.key]
        sending.release()
        for number, reply in replies:
            self._step(number, reply)


def _limit(check: Callable[[], None]) -> BudgetReached | None:
    """Return the fault of a limit that is reached."""
    try:
        check()
    except BudgetReached as fault:
        return fault
    return None


def _reply(request: Request, completion: "Completion") -> Reply | GraphRAGError:
    assert isinstance(request, ChatRequest)
    if completion.repeats:
        return Repetition(completion.text)
    return _parsed(request, completion.text, completion.cut_off, completion)


def _parsed(
    request: ChatRequest, text: str, cut_off: bool = False, completion: "Completion | None" = None
) -> Reply | GraphRAGError:
    try:
        return Reply(request.parse(text, cut_off), text, completion is None, completion, cut_off)
    except ItemFault as fault:
        fault.raw = fault.raw or text
        return fault


def _workers_alive(db: Database) -> int:
    return int(db.value("SELECT pg_catalog.count(*) FROM graphrag._workers"))


def _result(results: list[Any]) -> Any:
    """Return the one result, or raise it where it is an error."""
    (result,) = results
    if isinstance(result, GraphRAGError):
        raise result
    return result
