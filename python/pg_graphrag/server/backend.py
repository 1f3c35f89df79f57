"""The server's process while Python runs in it: makes cancel take effect, and gives freed memory back.

PostgreSQL's signal handlers only set a flag, which SQL checks and Python does not (docs/decisions/server.md). While a
call of the extension runs, a timer of processor time makes Python check the flag too: between two instructions, and
within a long regular expression. A single call of a C library is short, or runs in a thread (`in_thread`). Nothing in
the package polls.
"""

import ctypes
import gc
import signal
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import cache
from itertools import count
from types import FrameType
from typing import Any, ClassVar, TypeVar

from pg_graphrag.ground.errors import OutOfTimeError
from pg_graphrag.ground.signals import signals_blocked

T = TypeVar("T")

# Seconds of processor time between two looks at the flag, and of waiting for a thread.
STEP_SECONDS = 0.03
# The file name of Python's own code for imports.
_IMPORTING = "<frozen importlib._bootstrap>"

# The plpy of each call under way.
_calls: list[Any] = []
_suspensions = 0


@cache
def _server() -> tuple[Any, Any, Callable[[], bool]]:
    """Return the server's flag, its count of sections that must not be interrupted, and its test for a transaction."""
    server = ctypes.PyDLL(None)
    in_transaction = server.IsTransactionState
    in_transaction.restype = ctypes.c_bool
    pending, held_off = (ctypes.c_int.in_dll(server, name) for name in ("InterruptPending", "InterruptHoldoffCount"))
    return pending, held_off, in_transaction


def check() -> None:
    """Have the server act on a pending cancel, timeout or terminate. Without one this takes a microsecond and no snapshot.

    Raises plpy.SPIError: 57014 when the statement is cancelled. Terminate ends the process.
    """
    if not _calls or _suspensions:
        return
    pending, held_off, in_transaction = _server()
    if pending.value and not held_off.value and in_transaction():
        _calls[-1].execute("SELECT 1")


def _check_on_timer(_number: int, frame: FrameType | None) -> None:
    """Look at the flag, except during an import: a half-imported package cannot be imported again."""
    while frame is not None:
        if frame.f_code.co_filename == _IMPORTING:
            return
        frame = frame.f_back
    check()


@contextmanager
def watched(plpy: Any) -> Iterator[None]:
    """Let cancel, timeout and terminate end what runs inside, within a step of processor time. May be nested."""
    global _suspensions
    if not _calls:
        signal.signal(signal.SIGVTALRM, _check_on_timer)
        # System calls of the server are restarted.
        signal.siginterrupt(signal.SIGVTALRM, False)
        signal.setitimer(signal.ITIMER_VIRTUAL, STEP_SECONDS, STEP_SECONDS)
    _calls.append(plpy)
    # A statement may call a function of the extension, which must be interruptible again.
    outer, _suspensions = _suspensions, 0
    try:
        yield
    finally:
        _suspensions = outer
        _calls.pop()
        if not _calls:
            signal.setitimer(signal.ITIMER_VIRTUAL, 0)


@contextmanager
def undisturbed() -> Iterator[None]:
    """Suspend `watched` for a moment: between acquiring something from the server and recording that it is acquired.

    PL/Python's own code needs this too. It checks for cancel by itself, and its C code assumes that str() of a number
    succeeds: an error raised within would crash the whole server.
    """
    global _suspensions
    _suspensions += 1
    try:
        yield
    finally:
        _suspensions -= 1


class _Notice(ctypes.Structure):
    """struct sigevent of Linux: a signal to the process."""

    _fields_: ClassVar[Any] = [
        ("value", ctypes.c_void_p),
        ("signal", ctypes.c_int),
        ("kind", ctypes.c_int),
        ("padding", ctypes.c_char * 48),
    ]


class _Times(ctypes.Structure):
    """struct itimerspec: the interval, which is zero here, and the remaining time, each in seconds and nanoseconds."""

    _fields_: ClassVar[Any] = [(name, ctypes.c_long) for name in ("every", "every_nano", "after", "after_nano")]


# Whether the time of the whole statement has passed: its own limit cancels once, and must not be taken for another.
_IS_OVER = """
SELECT s.setting::int8 > 0
       AND pg_catalog.clock_timestamp()
           >= pg_catalog.statement_timestamp() + s.setting::int8 * interval '1 millisecond' AS is_over
  FROM pg_catalog.pg_settings s
 WHERE s.name = 'statement_timeout'
"""


@contextmanager
def cancelled_after(plpy: Any, seconds: float) -> Iterator[None]:
    """Cancel a statement after so many seconds; statement_timeout cannot, because inside a function it began long before.

    The kernel sends the cancel signal: Python does not run while a statement does. The server uses ITIMER_REAL itself.

    Raises OutOfTimeError: by the statement that is cancelled then. Other cancels pass unchanged.
    """
    library = ctypes.CDLL(None, use_errno=True)
    timer, notice = ctypes.c_void_p(), _Notice(signal=signal.SIGINT, kind=0)
    if library.timer_create(time.CLOCK_MONOTONIC, ctypes.byref(notice), ctypes.byref(timer)):
        raise OSError(ctypes.get_errno(), "timer_create")
    whole = int(seconds)
    # Nothing at all would be no limit.
    limit = _Times(after=whole, after_nano=max(int((seconds - whole) * 1e9), 1))
    deadline = time.monotonic() + seconds
    library.timer_settime(timer, 0, ctypes.byref(limit), None)
    has_come = False
    try:
        yield
    except plpy.SPIError as error:
        has_come = error.sqlstate == "57014" and time.monotonic() >= deadline
        if not has_come or plpy.execute(_IS_OVER)[0]["is_over"]:
            raise
        raise OutOfTimeError(seconds) from error
    finally:
        library.timer_delete(timer)
        if not has_come and time.monotonic() >= deadline:
            # It may have come after the statement's end: it must not reach the next one.
            try:
                plpy.execute("SELECT 1")
            except plpy.SPIError as error:
                if error.sqlstate != "57014":
                    raise


# A library that ignores signals cannot be stopped. One runs at a time, however often its caller is cancelled.
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


# How much freed memory C's allocator may keep for the next call, usually and now and then. Touching it again takes a
# millisecond.
_MOST_FREE, _LEAST_FREE = 2**22, 2**20
# After so many calls Python looks for cyclic garbage: in .6 ms, once permanent objects are known.
_EACH, _FIRST = 8, 16
_counted = count(1)


class _Allocated(ctypes.Structure):
    """struct mallinfo2."""

    _names = ("arena", "ordblks", "smblks", "hblks", "hblkhd", "usmblks", "fsmblks", "uordblks", "fordblks", "keepcost")
    _fields_: ClassVar[Any] = [(name, ctypes.c_size_t) for name in _names]


@cache
def _of_libc(name: str) -> Any:
    """Return a function of the C library; None if it has none of that name (another one than glibc, or an old one)."""
    function = getattr(ctypes.CDLL(None), name, None)
    if name == "mallinfo2" and function is not None:
        function.restype = _Allocated
    return function


def release_freed() -> None:
    """Give freed memory back to the system, where the C library can: in about a millisecond."""
    if (trim := _of_libc("malloc_trim")) is not None:
        trim(0)


@contextmanager
def loading() -> Iterator[None]:
    """Import modules without garbage collection: their objects stay, and searching them for garbage takes a tenth of a
    first search.
    """
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        gc.freeze()
        if was_enabled:
            gc.enable()


def after_call() -> None:
    """Give back what a call has left; a query's results know each other, so that only a search finds them unused."""
    number, most = next(_counted), _MOST_FREE
    if number >= _FIRST and number % _EACH == 0:
        gc.collect()
        if number == _FIRST:
            gc.freeze()
        most = _LEAST_FREE
    allocated = _of_libc("mallinfo2")
    if allocated is not None and allocated().fordblks > most:
        release_freed()
