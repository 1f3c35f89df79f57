"""Memory of a session: what was freed is given back, and what is there to stay is not looked through for garbage."""

import ctypes
import gc
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from itertools import count
from typing import Any, ClassVar

# What C's allocator may keep of what a call freed, for the next; and now and then. To touch it again takes a millisecond.
_MOST_FREE, _LEAST_FREE = 2**22, 2**20
# After so many calls Python looks for what only refers to itself: in .6 ms, once what is there to stay is known.
_CALLS, _FIRST = 8, 16
_calls = count(1)


class _Allocated(ctypes.Structure):
    """struct mallinfo2."""

    _names = ("arena", "ordblks", "smblks", "hblks", "hblkhd", "usmblks", "fsmblks", "uordblks", "fordblks", "keepcost")
    _fields_: ClassVar[Any] = [(name, ctypes.c_size_t) for name in _names]


@cache
def _of_libc(name: str) -> Any:
    """Return a function of the C library; None where it has none of that name (another one than glibc, or an old one)."""
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
    """Import modules: what they are made of stays, and to look through it for garbage is a tenth of a first search."""
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
    number, most = next(_calls), _MOST_FREE
    if number >= _FIRST and number % _CALLS == 0:
        gc.collect()
        if number == _FIRST:
            gc.freeze()
        most = _LEAST_FREE
    allocated = _of_libc("mallinfo2")
    if allocated is not None and allocated().fordblks > most:
        release_freed()
