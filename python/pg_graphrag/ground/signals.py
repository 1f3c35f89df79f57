"""Threads inside a PostgreSQL backend: none may run the server's signal handlers.

A backend is single-threaded, and its handlers (cancel, terminate, sinval catch-up) assume that. A signal sent to the
process is delivered to any thread that does not block it. Threads inherit the mask of the thread that makes them.
"""

import signal
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def signals_blocked() -> Iterator[None]:
    """Block every signal in the calling thread for the duration; threads started inside never receive any."""
    previous = signal.pthread_sigmask(signal.SIG_BLOCK, signal.valid_signals())
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, previous)
