"""Freed memory goes back to the system."""

import ctypes
from pathlib import Path

import pytest
from pg_graphrag.server.backend import release_freed

MEGABYTES = 40


def private_megabytes() -> float:
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith("RssAnon")) / 1024


@pytest.mark.skipif(
    not hasattr(ctypes.CDLL(None), "malloc_trim"), reason="the C library keeps nothing, or cannot be asked"
)
def test_freed_memory_is_given_back() -> None:
    # Too large for Python's own allocator, too small for a mapping of their own.
    blocks = [bytes(4096) for _ in range(MEGABYTES * 256)]
    last_block = blocks[-1]  # The allocator gives back what is above it by itself.
    del blocks
    before = private_megabytes()

    release_freed()

    assert before - private_megabytes() > MEGABYTES / 2
    assert len(last_block) == 4096
