"""The session's background thread: an event loop for HTTP, while the main thread watches for cancel.

Nothing can interrupt a blocking call in PL/Python (docs/decisions/server.md). So requests run in a thread that blocks all signals
and never touches plpy; the main thread waits in short steps and polls the database between them.
"""

import asyncio
import contextlib
import queue
import threading
from collections.abc import AsyncIterator, Callable, Coroutine
from typing import Any

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


class _Work:
    """Coroutines under way in the background thread."""

    def __init__(self) -> None:
        self._loop = _running()
        self._tasks: set[asyncio.Task[None]] = set()

    def begin(self, work: Callable[[], Coroutine[Any, Any, None]]) -> None:
        """Begin with `work`, which the loop creates: a cancel before that leaves nothing behind."""

        def make() -> None:
            task = self._loop.create_task(work())
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)

        self._loop.call_soon_threadsafe(make)

    def cancel(self) -> None:
        """End what is under way and wait a moment until its connections are closed.

        A session that goes idle keeps the interpreter's lock, and the thread would not get to it.
        """

        async def end() -> None:
            tasks = list(self._tasks)
            for task in tasks:
                task.cancel()
            if tasks:
                await asyncio.wait(tasks, timeout=2 * CLOSE_SECONDS)

        with contextlib.suppress(TimeoutError):
            asyncio.run_coroutine_threadsafe(end(), self._loop).result(3 * CLOSE_SECONDS)


class Requests:
    """Requests under way. Results come back in the order in which they end; `cancel` ends all of them."""

    def __init__(self) -> None:
        self._work = _Work()
        self._outcomes: queue.SimpleQueue[tuple[Any, Any, BaseException | None]] = queue.SimpleQueue()
        self._under_way = 0

    def __len__(self) -> int:
        return self._under_way

    def start(self, tag: Any, work: Callable[[], Coroutine[Any, Any, Any]]) -> None:
        """Start `work`; its result, or its error, comes out of `take` with `tag`."""

        async def run() -> None:
            try:
                self._outcomes.put((tag, await work(), None))
            except asyncio.CancelledError:
                raise
            except BaseException as error:
                self._outcomes.put((tag, None, error))

        self._under_way += 1
        self._work.begin(run)

    def take(self, timeout: float) -> tuple[Any, Any, BaseException | None] | None:
        """Return (tag, result, error) of a request that has ended, waiting at most `timeout` seconds; else None."""
        try:
            outcome = self._outcomes.get(timeout=timeout) if timeout > 0 else self._outcomes.get_nowait()
        except queue.Empty:
            return None
        self._under_way -= 1
        return outcome

    def cancel(self) -> None:
        """End what is under way; connections are closed."""
        if self._under_way:
            self._work.cancel()
        self._under_way = 0


class Stream:
    """Items of an asynchronous iterator, one by one; `take` gives (done, item).

    Parameters
    ----------
    expired : Callable[[], GraphRAGError | None]
        Returns the fault once the stream's time is over; the stream then ends even if nobody takes an item.
    on_end : Callable[[], None]
        Called in the background thread when nothing more is read.
    """

    _END = object()

    def __init__(
        self,
        items: AsyncIterator[Any],
        expired: Callable[[], GraphRAGError | None],
        on_end: Callable[[], None],
    ) -> None:
        self._work = _Work()
        self._items: queue.SimpleQueue[Any] = queue.SimpleQueue()
        self._is_over = False
        self._is_received = False

        async def read_items() -> None:
            async for item in items:
                self._items.put(item)

        async def run() -> None:
            reader = asyncio.create_task(read_items())
            try:
                while not (await asyncio.wait([reader], timeout=WATCH_SECONDS))[0]:
                    if (fault := expired()) is not None:
                        raise fault
                await reader
                self._items.put(self._END)
            except asyncio.CancelledError:
                raise
            except BaseException as error:
                self._items.put(error)
            finally:
                reader.cancel()
                await asyncio.wait([reader], timeout=CLOSE_SECONDS)
                self._is_received = True
                on_end()

        self._work.begin(run)

    @property
    def is_received(self) -> bool:
        """Whether the endpoint has sent everything; the rest can be taken without it."""
        return self._is_received or self._is_over

    def take(self, timeout: float) -> tuple[bool, Any]:
        """Return (False, the next item), (False, None) when none came in time, or (True, None) at the end."""
        try:
            item = self._items.get(timeout=timeout)
        except queue.Empty:
            return False, None
        self._is_over = item is self._END or isinstance(item, BaseException)
        if item is self._END:
            return True, None
        if isinstance(item, BaseException):
            raise item
        return False, item

    def cancel(self) -> None:
        """Stop reading; the connection is closed."""
        if not self._is_over:
            self._work.cancel()
        self._is_over = True
