"""Many requests at once, from tasks that look sequential: cache, limits, breaker, accounting, cancel.

A task is a generator that yields a `ChatRequest` (or `EmbedRequest`), is sent the reply, and returns its result. Tasks run
in the main thread, between the replies, and so does all that touches the database; requests run in the background thread.
"""

import time
from collections.abc import Generator, Sequence
from typing import Any

from pg_graphrag.ground.errors import GraphRAGError
from pg_graphrag.llm.endpoints.channel import POLL_SECONDS, Channel, wait_to_retry
from pg_graphrag.llm.endpoints.faults import DeadlineReached, Repetition, StreamExpired
from pg_graphrag.llm.endpoints.ledger import cache_key
from pg_graphrag.llm.endpoints.model_answers import count_tokens
from pg_graphrag.llm.endpoints.provider_limits import OpenStream, Slots
from pg_graphrag.llm.endpoints.requests import ChatRequest, Task, estimated_tokens

# The WARNING for an incomplete answer.
CUT_OFF = "the model's answer was cut off, by its length limit or by a filter"


class Gateway(Channel):
    """The way to models for one corpus."""

    def run(self, tasks: Sequence[Task]) -> list[Any]:
        """Run the tasks side by side; return each one's result, or the `GraphRAGError` that ended it, in their order.

        Other errors, such as query cancel, end all tasks and are raised.
        """
        from pg_graphrag.llm.endpoints.run import Run  # with asyncio and HTTP, which sessions without endpoints save

        return Run(self, tasks).finish()

    def run_one(self, task: Task) -> Any:
        """Run one task; return its result or raise its error."""
        (result,) = self.run([task])
        if isinstance(result, GraphRAGError):
            raise result
        return result

    def _refuse_late(self) -> None:
        if self.is_late_to_begin:
            raise DeadlineReached

    def stream(self, request: ChatRequest) -> Generator[str, None, str]:
        """Yield the pieces of an answer as they come, or a cached answer in one; return the whole answer.

        May be closed at any moment, also by the end of the caller's cursor, when no SQL can be run: so what ends with it
        needs none.
        """
        from pg_graphrag.llm.endpoints import wire
        from pg_graphrag.llm.endpoints.loop import Stream

        endpoint, model = self.endpoint_of(request)
        key = cache_key(model, request.messages, request.retry)
        if self.ledger.discreet:
            # Checked before the cache is read: an error at the limit must not reveal what is cached.
            self.ledger.check_budget()
            self.ledger.admit()
        if cached := self.ledger.cached([key]):
            self.usage.cache_hits += 1
            self.ledger.note_answer(endpoint.provider, request, cached[key])
            self.ledger.save()
            yield cached[key]
            return cached[key]
        if (cut := self.ledger.cut_off(key)) is not None:
            self.usage.cache_hits += 1
            self.ledger.note_answer(endpoint.provider, request, cut)
            yield cut
            self.db.warning(CUT_OFF)
            return cut
        self.ledger.check_budget()
        slots = Slots(self.db, endpoint.provider)
        tries = 0
        while True:
            if endpoint.breaker.fault is not None:
                raise endpoint.breaker.fault
            estimate = estimated_tokens(request)
            while endpoint.pace.wait(estimate):
                self._refuse_late()
                self.poll(POLL_SECONDS)
            open_stream = OpenStream(self.db, endpoint.provider, self.ledger.limited_role)
            open_stream.begin()
            try:
                while not slots.take(1):
                    self._refuse_late()
                    slots.queue()
                    self.poll()
            except BaseException:
                open_stream.release()
                raise
            open_stream.add(slots.hand_over())
            endpoint.pace.note(estimate)
            reserved = self.ledger.reserve(endpoint.provider, estimate)
            start, text, completion = time.monotonic(), "", wire.Completion("", "", 0, 0)
            stream = Stream(
                wire.chat_stream(endpoint.provider, endpoint.api_key, self.call_of(request, model)),
                open_stream.expired,
                open_stream.release,
            )
            try:
                while True:
                    with self.db.waiting():
                        at_end, item = stream.take(POLL_SECONDS)
                    if at_end:
                        break
                    if isinstance(item, str):
                        text += item
                        open_stream.rest()
                        yield item
                        if not stream.is_received:
                            open_stream.go_on()
                    elif item is not None:
                        completion = item
                    self.poll()
                if completion.repeats:
                    raise Repetition(completion.text)
                request.parse(completion.text, completion.cut_off)
            except GraphRAGError as fault:
                tokens = completion.tokens_in, completion.tokens_out
                if isinstance(fault, StreamExpired):
                    tokens = estimate, count_tokens(None, text)
                self.note(endpoint, model, request, tokens, start, fault, reserved)
                self.note_reading(endpoint, model, request, fault, start)
                self.ledger.save()
                wait = wait_to_retry(tries, fault, self.patience)
                if isinstance(self.fault_of(fault), DeadlineReached):
                    raise DeadlineReached from None
                if text or wait is None or not self.may_retry(wait):
                    raise
                tries += 1
                until = time.monotonic() + wait
                while time.monotonic() < until:
                    self.poll(POLL_SECONDS)
                continue
            except GeneratorExit:
                # Closed before its end: the request is paid for all the same. The session's next gateway saves it.
                self.note(endpoint, model, request, (estimate, count_tokens(None, text)), start, None, reserved)
                self.ledger.remember()
                raise
            finally:
                stream.cancel()
                open_stream.release()
            self.note(endpoint, model, request, (completion.tokens_in, completion.tokens_out), start, None, reserved)
            self.note_reading(endpoint, model, request, completion, start)
            self.ledger.note_answer(endpoint.provider, request, completion.text)
            endpoint.breaker.succeeded()
            if request.cacheable and not completion.cut_off:
                self.ledger.keep(key, request.role, model, completion.text)
            self.ledger.save()
            if completion.cut_off:
                self.ledger.keep_cut_off(key, completion.text)
                self.db.warning(CUT_OFF)
            return completion.text
