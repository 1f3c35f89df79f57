"""Many tasks side by side: each distinct request is sent once, as limits allow, and its reply goes to all waiting tasks."""

import time
from collections.abc import Callable, Coroutine, Iterable, Sequence
from functools import partial
from typing import Any

from pg_graphrag.ground.errors import GraphRAGError
from pg_graphrag.llm.endpoints import embed_rerank, wire
from pg_graphrag.llm.endpoints.channel import POLL_SECONDS, Channel, Endpoint, Sending, wait_to_retry
from pg_graphrag.llm.endpoints.faults import (
    BudgetReached,
    DeadlineReached,
    ItemFault,
    ProviderFault,
    Repetition,
    TimedOut,
)
from pg_graphrag.llm.endpoints.ledger import cache_key
from pg_graphrag.llm.endpoints.loop import Requests
from pg_graphrag.llm.endpoints.requests import (
    PROBE_SECONDS,
    ChatRequest,
    EmbedRequest,
    ModelsRequest,
    Reply,
    Request,
    Task,
    estimated_tokens,
)


class Run:
    """One `Gateway.run`: tasks by number, requests by key."""

    def __init__(self, channel: Channel, tasks: Sequence[Task]) -> None:
        self._channel = channel
        self._tasks = list(tasks)
        self._results: list[Any] = [None] * len(tasks)
        self._new_requests: list[tuple[int, Request]] = []
        self._by_key: dict[str, Sending] = {}
        self._requests = Requests()
        self._unfinished = len(tasks)

    def finish(self) -> list[Any]:
        channel = self._channel
        try:
            for number in range(len(self._tasks)):
                self._step(number, None)
                channel.poll()
            while self._unfinished:
                if self._new_requests:
                    # Also when it is late: what is in the cache is known.
                    self._dispatch()
                    self._send()
                    # What was looked up is known; the endpoint may take minutes.
                    channel.end_reading()
                    continue
                if channel.is_late or (channel.is_late_to_begin and not len(self._requests)):
                    self._end_all()
                    continue
                self._send()
                self._receive()
                channel.poll()
            channel.save()
        except BaseException:
            if channel.worker:
                # Most likely cancelled; answers that came are paid for.
                channel.db.rollback()
                channel.save()
            raise
        finally:
            self._requests.cancel()
            for task in self._tasks:
                task.close()
            for endpoint in channel.endpoints.values():
                endpoint.queue.clear()
                endpoint.in_flight = 0
                endpoint.slots.give_back()
        return self._results

    def _end_all(self) -> None:
        """End all requests, sent or not, since their caller no longer waits."""
        self._requests.cancel()
        self._requests = Requests()
        for used in self._channel.endpoints.values():
            used.queue.clear()
            used.in_flight = 0
            used.slots.give_back()
        new, self._new_requests = self._new_requests, []
        sendings, self._by_key = list(self._by_key.values()), {}
        for sending in sendings:
            if (endpoint := sending.endpoint) is not None:
                # It is paid for all the same.
                request, tokens = sending.request, (estimated_tokens(sending.request), 0)
                self._channel.note(
                    endpoint, sending.model, request, tokens, sending.started_at, DeadlineReached(), sending.reserved
                )
        for number in [number for number, _ in new] + [number for sending in sendings for number, _ in sending.waiters]:
            self._step(number, DeadlineReached())

    def _step(self, number: int, reply: Reply | GraphRAGError | None) -> None:
        """Resume a task with a reply or a fault, up to its next request or its end."""
        task = self._tasks[number]
        try:
            if isinstance(reply, GraphRAGError):
                self._new_requests.append((number, task.throw(reply)))
            else:
                self._new_requests.append((number, next(task) if reply is None else task.send(reply)))
        except StopIteration as end:
            self._results[number] = end.value
            self._unfinished -= 1
        except GraphRAGError as error:
            self._results[number] = error
            self._unfinished -= 1

    def _dispatch(self) -> None:
        """Answer new requests from the cache; put the others into the endpoints' queues."""
        channel, requests = self._channel, self._new_requests
        self._new_requests = []
        ready: list[tuple[int, Reply | GraphRAGError]] = []
        new: list[tuple[int, Request, Endpoint, str, str]] = []
        for number, request in requests:
            try:
                endpoint, model = channel.endpoint_of(request)
            except GraphRAGError as error:
                ready.append((number, error))
                continue
            # Only chat requests are shared.
            key = (
                cache_key(model, request.messages, request.retry)
                if isinstance(request, ChatRequest)
                else f"of task {number}"
            )
            new.append((number, request, endpoint, model, key))
        cached = channel.ledger.cached(
            [key for _, request, _, _, key in new if isinstance(request, ChatRequest) and request.cacheable]
        )
        by_batch = {
            key for _, request, endpoint, _, key in new if channel.batches(request, endpoint) and key not in cached
        }
        if by_batch:
            channel.collector.look(sorted(by_batch))
        # An error at a limit must not reveal to a reader what is cached.
        blocked: GraphRAGError | None = self._over_budget() if channel.ledger.discreet else None
        for number, request, endpoint, model, key in new:
            limit_fault = (blocked if channel.ledger.discreet else None) or self._over_rate()
            if limit_fault is not None:
                ready.append((number, limit_fault))
                continue
            if isinstance(request, ChatRequest) and key in cached:
                try:
                    ready.append((number, Reply(request.parse(cached[key], False), cached[key], cached=True)))
                    channel.usage.cache_hits += 1
                    channel.ledger.note_answer(endpoint.provider, request, cached[key])
                    continue
                except ItemFault:  # cached by a version with another format: ask again
                    pass
            chats = isinstance(request, ChatRequest) and not channel.worker
            if isinstance(request, ChatRequest) and chats and (cut := channel.ledger.cut_off(key)) is not None:
                ready.append((number, _parsed(request, wire.Completion(cut, "length", 0, 0), cached=True)))
                channel.usage.cache_hits += 1
                channel.ledger.note_answer(endpoint.provider, request, cut)
                continue
            if key in self._by_key:
                self._by_key[key].waiters.append((number, request))
                continue
            if blocked is None:
                blocked = self._over_budget()
            fault = blocked or endpoint.breaker.fault
            if key in by_batch and isinstance(request, ChatRequest):
                ready.append((number, channel.collector.ask(request, endpoint.provider, model, key, fault)))
                continue
            if fault is not None:
                ready.append((number, fault))
                continue
            sending = self._by_key[key] = Sending(request, model, key, [(number, request)])
            endpoint.queue.append(sending)
        for number, reply in ready:
            self._step(number, reply)

    def _send(self) -> None:
        """Start the requests that limits allow."""
        for endpoint in self._channel.endpoints.values():
            while endpoint.queue and not self._channel.is_late_to_begin:
                # Checked each time: an answer that came meanwhile may have used the budget up.
                fault = endpoint.breaker.fault or self._over_budget()
                if fault is not None:
                    sending = endpoint.queue.popleft()
                    self._end(sending, [(number, fault) for number, _ in sending.waiters])
                    continue
                sending = endpoint.queue[0]
                if sending.not_before > time.monotonic():
                    endpoint.queue.rotate(-1)
                    if all(queued_sending.not_before > time.monotonic() for queued_sending in endpoint.queue):
                        break
                    continue
                estimate = estimated_tokens(sending.request)
                if endpoint.pace.wait(estimate) or not self._take_slot(endpoint):
                    break
                endpoint.queue.popleft()
                endpoint.pace.note(estimate)
                endpoint.in_flight += 1
                sending.started_at, sending.endpoint = time.monotonic(), endpoint
                sending.reserved = self._channel.ledger.reserve(endpoint.provider, estimate)
                self._requests.start((endpoint, sending), _work(self._channel, endpoint, sending))

    def _over_budget(self) -> BudgetReached | None:
        try:
            self._channel.ledger.check_budget()
        except BudgetReached as error:
            return error
        return None

    def _over_rate(self) -> BudgetReached | None:
        try:
            self._channel.ledger.admit()
        except BudgetReached as error:
            return error
        return None

    def _take_slot(self, endpoint: Endpoint) -> bool:
        """Take a place for one more request; wait for it in turn where there is nothing else to wait for."""
        if not endpoint.slots.take(endpoint.in_flight + 1) and not len(self._requests):
            endpoint.slots.queue()
        return len(endpoint.slots) > endpoint.in_flight

    def _receive(self) -> None:
        """Take finished requests, waiting a moment for the first."""
        if not self._unfinished:
            return
        with self._channel.db.waiting():
            outcome = self._requests.take(POLL_SECONDS)
        while outcome is not None:
            (endpoint, sending), result, error = outcome
            endpoint.in_flight -= 1
            sending.endpoint = None
            # Also when more is to be sent: the place goes to the next waiting session.
            endpoint.slots.give_back(endpoint.in_flight)
            self._finish(endpoint, sending, result, error)
            outcome = self._requests.take(0)

    def _finish(self, endpoint: Endpoint, sending: Sending, result: Any, error: BaseException | None) -> None:
        channel, request = self._channel, sending.request
        if error is not None and not isinstance(error, GraphRAGError):
            raise error
        replies: list[tuple[int, Reply | GraphRAGError]]
        tokens = (0, 0)
        fault: GraphRAGError | None = None
        channel.note_reading(endpoint, sending.model, request, error or result, sending.started_at)
        if error is not None:
            fault = channel.fault_of(error)
            replies = [(number, fault) for number, _ in sending.waiters]
        elif isinstance(request, ChatRequest):
            tokens = (result.tokens_in, result.tokens_out)
            replies = [(number, _parsed(own_request, result)) for number, own_request in sending.waiters]
            for (_, own_request), (_, reply) in zip(sending.waiters, replies, strict=True):
                if isinstance(own_request, ChatRequest) and isinstance(reply, Reply):
                    channel.ledger.note_answer(endpoint.provider, own_request, result.text)
            fault = next((reply for _, reply in replies if isinstance(reply, GraphRAGError)), None)
            # A cut-off answer may be of use, but the next caller should get a complete one.
            if request.cacheable and fault is None and not result.cut_off:
                channel.ledger.keep(sending.key, request.role, sending.model, result.text)
            if fault is None and result.cut_off and not channel.worker:
                channel.ledger.keep_cut_off(sending.key, result.text)
        else:
            tokens = (result[1], 0)
            replies = [(number, Reply(result[0])) for number, _ in sending.waiters]
        channel.note(endpoint, sending.model, request, tokens, sending.started_at, fault, sending.reserved)
        if not isinstance(fault, (ProviderFault, DeadlineReached)):
            endpoint.breaker.succeeded()
        is_probe = isinstance(request, EmbedRequest) and request.is_probe
        # What a text does closes no endpoint to others: whether it is the text, a probe says, which is tried again in its place.
        is_of_text = isinstance(request, EmbedRequest) and not is_probe and getattr(fault, "may_be_of_text", False)
        wait = (
            None
            if channel.worker or fault is None or is_of_text
            else wait_to_retry(sending.tries, fault, channel.patience)
        )
        if wait is not None and channel.may_retry(wait):
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
            endpoint.breaker.failed(fault, sending.started_at)
        self._end(sending, replies)

    def _end(self, sending: Sending, replies: Iterable[tuple[int, Reply | GraphRAGError]]) -> None:
        del self._by_key[sending.key]
        for number, reply in replies:
            self._step(number, reply)


def _parsed(request: Request, result: wire.Completion, cached: bool = False) -> Reply | GraphRAGError:
    assert isinstance(request, ChatRequest)
    if result.repeats:
        return Repetition(result.text)
    try:
        return Reply(request.parse(result.text, result.cut_off), result.text, cached, None if cached else result)
    except ItemFault as fault:
        fault.raw = fault.raw or result.text
        return fault


def _work(channel: Channel, endpoint: Endpoint, sending: Sending) -> Callable[[], Coroutine[Any, Any, Any]]:
    request, provider, key = sending.request, endpoint.provider, endpoint.api_key
    if isinstance(request, ChatRequest):
        return partial(wire.chat, provider, key, channel.call_of(request, sending.model))
    if isinstance(request, EmbedRequest):
        seconds = min(PROBE_SECONDS, provider.timeout) if request.is_probe else None
        return partial(embed_rerank.embed, provider, key, sending.model, request.texts, request.dimensions, seconds)
    if isinstance(request, ModelsRequest):
        return partial(embed_rerank.models, provider, key)
    return partial(embed_rerank.rerank, provider, key, sending.model, request.query, request.texts)
