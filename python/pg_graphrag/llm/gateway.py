"""Many requests at once, from tasks that look sequential: cache, limits, breaker, accounting, cancel.

A task is a generator that yields a `ChatRequest` (or `EmbedRequest`), is sent the reply, and returns its result. Tasks run
in the main thread, between the replies, and so does all that touches the database; requests run in the background thread.
"""

import time
from collections.abc import Generator, Sequence
from typing import Any

from pg_graphrag.errors import GraphRAGError
from pg_graphrag.llm import wire
from pg_graphrag.llm.channel import POLL_SECONDS, Channel, wait_to_retry
from pg_graphrag.llm.faults import StreamExpired
from pg_graphrag.llm.ledger import cache_key
from pg_graphrag.llm.limits import OpenStream, Slots
from pg_graphrag.llm.loop import Stream
from pg_graphrag.llm.requests import ChatRequest, Task, estimated_tokens
from pg_graphrag.llm.run import Run
from pg_graphrag.llm.transport import count_tokens

# What who asked is told of an answer that is not whole.
CUT_OFF = "the model's answer was cut off, by its length limit or by a filter"


class Gateway(Channel):
    """The way to models for one corpus."""

    def run(self, tasks: Sequence[Task]) -> list[Any]:
        """Run the tasks side by side; return each one's result, or the `GraphRAGError` that ended it, in their order.

        Other errors, query cancel among them, end all tasks and pass.
        """
        return Run(self, tasks).finish()

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
        endpoint, model = self.endpoint_of(request)
        key = cache_key(model, request.messages)
        if self.ledger.discreet:
            # Before the cache: that a limit is reached must not tell a reader what it knows.
            self.ledger.check_budget()
            self.ledger.admit()
        if known := self.ledger.cached([key]):
            self.usage.cache_hits += 1
            self.ledger.note_answer(endpoint.provider, request, known[key])
            self.ledger.save()
            yield known[key]
            return known[key]
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
                self.poll(POLL_SECONDS)
            held = OpenStream(self.db, endpoint.provider, self.ledger.limited_role)
            held.begin()
            try:
                while not slots.take(1):
                    slots.queue()
                    self.poll()
            except BaseException:
                held.release()
                raise
            held.add(slots.hand_over())
            endpoint.pace.note(estimate)
            reserved = self.ledger.reserve(endpoint.provider, estimate)
            started, said, whole = time.monotonic(), "", wire.Completion("", "", 0, 0)
            call = wire.Call(model, request.messages, None, request.temperature)
            stream = Stream(wire.chat_stream(endpoint.provider, endpoint.api_key, call), held.expired, held.release)
            try:
                while True:
                    done, item = stream.take(POLL_SECONDS)
                    if done:
                        break
                    if isinstance(item, str):
                        said += item
                        held.rest()
                        yield item
                        if not stream.received:
                            held.go_on()
                    elif item is not None:
                        whole = item
                    self.poll()
                request.parse(whole.text, whole.cut_off)
            except GraphRAGError as fault:
                used = whole.tokens_in, whole.tokens_out
                if isinstance(fault, StreamExpired):
                    used = estimate, count_tokens(None, said)
                self.note(endpoint, model, request, used, started, fault, reserved)
                self.ledger.save()
                wait = wait_to_retry(tries, fault, self.patience)
                if said or wait is None:
                    raise
                tries += 1
                until = time.monotonic() + wait
                while time.monotonic() < until:
                    self.poll(POLL_SECONDS)
                continue
            except GeneratorExit:
                # Left before its end: what was asked for is paid for. The session's next gateway writes it down.
                self.note(endpoint, model, request, (estimate, count_tokens(None, said)), started, None, reserved)
                self.ledger.remember()
                raise
            finally:
                stream.cancel()
                held.release()
            self.note(endpoint, model, request, (whole.tokens_in, whole.tokens_out), started, None, reserved)
            self.ledger.note_answer(endpoint.provider, request, whole.text)
            endpoint.breaker.succeeded()
            if request.cacheable and not whole.cut_off:
                self.ledger.keep(key, request.role, model, whole.text)
            self.ledger.save()
            if whole.cut_off:
                self.ledger.keep_cut_off(key, whole.text)
                self.db.warning(CUT_OFF)
            return whole.text
