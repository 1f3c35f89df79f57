"""Memory that was freed, which C's allocator keeps for the process."""

from functools import cache
from typing import Any


@cache
def _libc() -> Any:
    # numpy has imported it; bm25 alone needs neither.
    import ctypes

    return ctypes.CDLL(None)


def release_freed() -> None:
    """Give freed memory back to the system, where the C library can (glibc): in about a millisecond."""
    if hasattr(_libc(), "malloc_trim"):
        _libc().malloc_trim(0)
