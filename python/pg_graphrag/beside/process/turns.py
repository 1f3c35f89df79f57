"""Calls of one process take turns: the modules of the package are written for sessions, which have one thread.

A call gives its turn away while it waits for a model. It goes on when no other is at work, or while a statement of another
takes long, as a function of the extension within a statement does in a server: that statement may wait for what it has locked.
"""

import threading
import time
from collections.abc import Callable, Hashable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from typing import TYPE_CHECKING

from pg_graphrag.beside.process.state import remember

if TYPE_CHECKING:
    from pg_graphrag.beside.process.database import ProcessDatabase

# Seconds that a statement takes before others go on meanwhile.
LONG_STATEMENT = 0.5

_changed = threading.Condition()
_running: "Turn | None" = None


class Turn:
    """The turn of a call over a connection. Within it, its thread may make other calls."""

    def __init__(self, database: "ProcessDatabase", identity: Hashable) -> None:
        self.database = database
        self._identity = identity
        self._thread = threading.get_ident()
        self._outer: Turn | None = None
        self._statement_began: float | None = None

    def __enter__(self) -> None:
        self._outer = _of_thread()
        self._take(lambda: _running is self._outer)

    def __exit__(self, *_: object) -> None:
        self._give(self._outer)

    @contextmanager
    def lent(self) -> Iterator[None]:
        """Let other calls have their turns; not within another call of the thread, which is in the midst of its work."""
        if self._outer is not None:
            yield
            return
        self._give(None)
        try:
            yield
        finally:
            self._take(_may_go_on)

    @contextmanager
    def in_statement(self) -> Iterator[None]:
        """Enclose a statement: while it takes long, others go on."""
        self._statement_began = time.monotonic()
        try:
            yield
        finally:
            with _changed:
                if _running is self:
                    self._statement_began = None
            if self._statement_began is not None:
                self._take(_may_go_on)
                self._statement_began = None

    def _take(self, may: Callable[[], bool]) -> None:
        global _running
        with _changed:
            # How long a statement takes, nobody says.
            while not _changed.wait_for(may, LONG_STATEMENT / 2):
                pass
            _running = self
        remember(self._identity)

    def _give(self, outer: "Turn | None") -> None:
        global _running
        with _changed:
            if _running is self:
                _running = outer
                _changed.notify_all()
        if outer is not None:
            remember(outer._identity)


def _of_thread() -> Turn | None:
    turn = _running
    return turn if turn is not None and turn._thread == threading.get_ident() else None


def _may_go_on() -> bool:
    began = None if _running is None else _running._statement_began
    return _running is None or (began is not None and time.monotonic() - began > LONG_STATEMENT)


def running() -> Turn:
    """Return the turn of the call that is at work."""
    assert _running is not None
    return _running


def in_statement() -> AbstractContextManager[None]:
    """Enclose a statement of the call of this thread."""
    turn = _of_thread()
    return nullcontext() if turn is None else turn.in_statement()
