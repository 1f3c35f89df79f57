"""The session's background thread: an event loop that talks HTTP while the main thread keeps watch over cancel.

A blocking call in PL/Python ends only when it wants to (DESIGN.md 6). So requests run in a thread that blocks all signals
and never touches plpy; the main thread waits in short steps and polls the database between them.
"""

import asyncio
import queue
import signal
import threading
from collections.abc import AsyncIterator, Callable, Coroutine
from typing import Any

_lock = threading.Lock()
_loop: asyncio.AbstractEventLoop | None = None


def _running() -> asyncio.AbstractEventLoop:
    global _loop
    with _lock:
        if _loop is None:
            loop = asyncio.new_event_loop()
            # The thread inherits the mask: PostgreSQL's signals stay with the main thread.
            mask = signal.pthread_sigmask(signal.SIG_BLOCK, signal.valid_signals())
            try:
                threading.Thread(target=loop.run_forever, name="pg_graphrag http", daemon=True).start()
            finally:
                signal.pthread_sigmask(signal.SIG_SETMASK, mask)
            _loop = loop
    return _loop


class Requests:
    """Requests under way. Results come back in the order in which they end; `cancel` ends all of them."""

    def __init__(self) -> None:
        self._loop = _running()
        self._done: queue.SimpleQueue[tuple[Any, Any, BaseException | None]] = queue.SimpleQueue()
        self._futures: dict[Any, Any] = {}

    def __len__(self) -> int:
        return len(self._futures)

    def start(self, tag: Any, work: Callable[[], Coroutine[Any, Any, Any]]) -> None:
        """Start `work` (made in the loop: one cancelled before it begins leaves nothing); `take` gives what it comes to."""

        async def run() -> None:
            try:
                self._done.put((tag, await work(), None))
            except asyncio.CancelledError:
                raise
            except BaseException as error:
                self._done.put((tag, None, error))

        self._futures[tag] = asyncio.run_coroutine_threadsafe(run(), self._loop)

    def take(self, timeout: float) -> tuple[Any, Any, BaseException | None] | None:
        """Return (tag, result, error) of a request that has ended, waiting at most `timeout` seconds; else None."""
        try:
            ended = self._done.get(timeout=timeout) if timeout > 0 else self._done.get_nowait()
        except queue.Empty:
            return None
        self._futures.pop(ended[0], None)
        return ended

    def cancel(self) -> None:
        """End what is under way; connections are closed."""
        for future in self._futures.values():
            future.cancel()
        self._futures.clear()


class Stream:
    """Items of an asynchronous iterator, one by one; `take` gives (done, item)."""

    _END = object()

    def __init__(self, items: AsyncIterator[Any]) -> None:
        self._items: queue.SimpleQueue[Any] = queue.SimpleQueue()

        async def run() -> None:
            try:
                async for item in items:
                    self._items.put(item)
                self._items.put(self._END)
            except asyncio.CancelledError:
                raise
            except BaseException as error:
                self._items.put(error)

        self._future = asyncio.run_coroutine_threadsafe(run(), _running())

    def take(self, timeout: float) -> tuple[bool, Any]:
        """Return (False, the next item), (False, None) when none came in time, or (True, None) at the end."""
        try:
            item = self._items.get(timeout=timeout)
        except queue.Empty:
            return False, None
        if item is self._END:
            return True, None
        if isinstance(item, BaseException):
            raise item
        return False, item

    def cancel(self) -> None:
        """Stop reading; the connection is closed."""
        self._future.cancel()
