"""Native libraries inside a PostgreSQL backend: one thread, and none that could run the server's signal handlers.

A backend is single-threaded, and its handlers (cancel, terminate, sinval catch-up) assume that. A signal sent to the
process is delivered to any thread that does not block it, so a BLAS or HTTP thread made with signals open would run
them concurrently with the main thread. Threads inherit the mask of the thread that makes them.
"""

import os
import signal
from collections.abc import Iterator
from contextlib import contextmanager

# Read once, when a library is loaded. Whatever the postmaster's environment says: sessions are the unit of parallelism.
_ONE_THREAD = {"OPENBLAS_NUM_THREADS": "1", "OMP_NUM_THREADS": "1", "TOKENIZERS_PARALLELISM": "false"}


@contextmanager
def signals_blocked() -> Iterator[None]:
    """Block every signal in the calling thread for the duration; threads started inside never receive any."""
    previous = signal.pthread_sigmask(signal.SIG_BLOCK, signal.valid_signals())
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, previous)


def load_numpy() -> None:
    """Import numpy with one BLAS thread; call it before a process's first ``import numpy``. Later calls are free."""
    os.environ.update(_ONE_THREAD)
    with signals_blocked():
        import numpy  # noqa: F401
