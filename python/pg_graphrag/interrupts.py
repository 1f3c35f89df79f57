"""Cancel, timeout and terminate take effect while Python runs, not only at the next statement.

PostgreSQL's signal handlers only set a flag, which SQL statements look at and Python code does not (DESIGN.md 6). While a
call of the extension runs, a timer of the processor time it takes has Python look at the flag too: between two instructions,
and in a regular expression that goes on. What waits inside one call of a library in C is short, or runs in a thread
(`in_thread`). Nothing in the package has to poll.
"""

import ctypes
import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import cache
from types import FrameType
from typing import Any, TypeVar

from pg_graphrag.signals import signals_blocked

T = TypeVar("T")

# Seconds of processor time between two looks at the flag, and of waiting for a thread.
STEP_SECONDS = 0.03
# Where Python's own code for imports says it comes from.
_IMPORTING = "<frozen importlib._bootstrap>"

# The calls under way, and the plpy that they were given.
_calls: list[Any] = []
_put_off = 0


@cache
def _server() -> tuple[Any, Any, Callable[[], bool]]:
    """Return the server's flag, its count of places that must not be interrupted, and whether a transaction is at work."""
    server = ctypes.PyDLL(None)
    in_transaction = server.IsTransactionState
    in_transaction.restype = ctypes.c_bool
    pending, held_off = (ctypes.c_int.in_dll(server, name) for name in ("InterruptPending", "InterruptHoldoffCount"))
    return pending, held_off, in_transaction


def check() -> None:
    """Have the server act on a cancel, timeout or terminate that waits. Without one it takes a microsecond, and no snapshot.

    Raises
    ------
    plpy.SPIError
        57014 when the statement is cancelled. Terminate ends the process.
    """
    if not _calls or _put_off:
        return
    pending, held_off, in_transaction = _server()
    if pending.value and not held_off.value and in_transaction():
        _calls[-1].execute("SELECT 1")


def _look(_number: int, frame: FrameType | None) -> None:
    """Look at the flag, but not within an import: a package that is imported by half cannot be imported again."""
    while frame is not None:
        if frame.f_code.co_filename == _IMPORTING:
            return
        frame = frame.f_back
    check()


@contextmanager
def watched(plpy: Any) -> Iterator[None]:
    """Let cancel, timeout and terminate end what runs inside, within a step of processor time. May be nested."""
    global _put_off
    if not _calls:
        signal.signal(signal.SIGVTALRM, _look)
        # System calls of the server go on as if nothing had been.
        signal.siginterrupt(signal.SIGVTALRM, False)
        signal.setitimer(signal.ITIMER_VIRTUAL, STEP_SECONDS, STEP_SECONDS)
    _calls.append(plpy)
    # A statement may call a function of the extension, which is to be heard in again.
    outer, _put_off = _put_off, 0
    try:
        yield
    finally:
        _put_off = outer
        _calls.pop()
        if not _calls:
            signal.setitimer(signal.ITIMER_VIRTUAL, 0)


@contextmanager
def undisturbed() -> Iterator[None]:
    """Put off, for a moment, what `watched` does: between taking something of the server and noting that it is taken.

    Also while PL/Python is at work, which hears of cancel by itself: its code in C takes for granted that str() of a number
    succeeds, and a look at the flag within it that raises an error takes the whole server down.
    """
    global _put_off
    _put_off += 1
    try:
        yield
    finally:
        _put_off -= 1


# A library that is deaf to everything cannot be stopped, only left alone: one at a time, however often its caller is cancelled.
_one_thread = threading.Lock()


def in_thread(function: Callable[[], T]) -> T:
    """Return what `function` returns, called in a thread: for native code that runs long and releases the interpreter.

    It must not touch plpy. When the statement is cancelled the thread is left to end by itself, and its result is dropped.
    """
    while not _one_thread.acquire(timeout=STEP_SECONDS):
        check()
    results: list[T] = []
    errors: list[BaseException] = []

    def run() -> None:
        try:
            results.append(function())
        except BaseException as error:
            errors.append(error)
        finally:
            _one_thread.release()

    with signals_blocked():
        thread = threading.Thread(target=run, name="pg_graphrag library", daemon=True)
        thread.start()
    while thread.is_alive():
        thread.join(STEP_SECONDS)
        check()
    if errors:
        raise errors[0]
    return results[0]
