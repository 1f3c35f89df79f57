"""The session's background thread: an event loop for HTTP, while the main thread watches for cancel.

Nothing can interrupt a blocking call in PL/Python (docs/decisions/server.md). So requests run in a thread that blocks
all signals and never touches plpy. The main thread waits in short steps, and polls the database between them.
"""

import asyncio
import contextlib
import queue
import threading
from collections.abc import Callable, Coroutine
from typing import Any, Protocol

from pg_graphrag.ground.errors import GraphRAGError
from pg_graphrag.ground.signals import signals_blocked

# Longest wait for cancelled requests to end.
CLOSE_SECONDS = 0.2
# How often the deadline of a stream is checked.
WATCH_SECONDS = 0.5

_lock = threading.Lock()
_loop: asyncio.AbstractEventLoop | None = None


def _running() -> asyncio.AbstractEventLoop:
    global _loop
    with _lock:
        if _loop is None:
            loop = asyncio.new_event_loop()
            with signals_blocked():
                threading.Thread(target=loop.run_forever, name="pg_graphrag http", daemon=True).start()
            _loop = loop
    return _loop


class Lease(Protocol):
    """The remaining time of the work under way."""

    def expired(self) -> GraphRAGError | None:
        """Return the fault once the time is over."""

    def release(self) -> None:
        """Note that nothing more is read."""


class Piece(str):
    """A part of a result that is still to come."""


class Requests:
    """Requests under way. Results come back in the order in which they end; `cancel` ends all of them."""

    def __init__(self) -> None:
        self._loop = _running()
        self._tasks: set[asyncio.Task[None]] = set()
        self._outcomes: queue.SimpleQueue[tuple[Any, Any, BaseException | None]] = queue.SimpleQueue()
        self._under_way = 0

    def __len__(self) -> int:
        return self._under_way

    def start(self, tag: Any, work: Callable[[], Coroutine[Any, Any, Any]], lease: Lease | None = None) -> None:
        """Start `work`; its result, or its error, comes out of `take` with `tag`.

        With a `lease` it ends, in the background, once its time is over, even if nobody takes anything.
        """

        async def run() -> None:
            try:
                self._outcomes.put((tag, await (work() if lease is None else _leased(work(), lease)), None))
            except asyncio.CancelledError:
                raise
            except BaseException as error:
                self._outcomes.put((tag, None, error))

        def begin() -> None:
            # Created in the loop: a cancel before that leaves nothing behind.
            task = self._loop.create_task(run())
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)

        self._under_way += 1
        self._loop.call_soon_threadsafe(begin)

    def give(self, tag: Any, piece: str) -> None:
        """Put a piece of a result before it; may be called in the background."""
        self._outcomes.put((tag, Piece(piece), None))

    def take(self, timeout: float) -> tuple[Any, Any, BaseException | None] | None:
        """Return (tag, result, error) of a request that has ended, or a `Piece` of one, waiting at most `timeout` seconds."""
        try:
            outcome = self._outcomes.get(timeout=timeout) if timeout > 0 else self._outcomes.get_nowait()
        except queue.Empty:
            return None
        self._under_way -= not isinstance(outcome[1], Piece)
        return outcome

    def cancel(self) -> None:
        """End the work under way and wait a moment until its connections are closed.

        A session that goes idle keeps the interpreter's lock, and the thread would not get to it.
        """

        async def end() -> None:
            tasks = list(self._tasks)
            for task in tasks:
                task.cancel()
            if tasks:
                await asyncio.wait(tasks, timeout=2 * CLOSE_SECONDS)

        if self._under_way:
            with contextlib.suppress(TimeoutError):
                asyncio.run_coroutine_threadsafe(end(), self._loop).result(3 * CLOSE_SECONDS)
        self._under_way = 0


async def _leased(work: Coroutine[Any, Any, Any], lease: Lease) -> Any:
    task = asyncio.ensure_future(work)
    try:
        while not (await asyncio.wait([task], timeout=WATCH_SECONDS))[0]:
            if (fault := lease.expired()) is not None:
                raise fault
        return await task
    finally:
        task.cancel()
        await asyncio.wait([task], timeout=CLOSE_SECONDS)
        lease.release()
