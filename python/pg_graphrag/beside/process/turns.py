"""Calls of one process take turns, because the modules of the package are written for sessions with one thread.

A call gives its turn away while it waits for a model. It takes the turn again when no other call is at work, or while a
statement of another call takes long: that statement may wait for a lock of the first call. A call that is cancelled
before its turn ends at once. A call that must go on in order to end does so at the next statement of another call.
"""

import threading
import time
from collections.abc import Hashable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from typing import TYPE_CHECKING

from pg_graphrag.beside.process.state import remember
from pg_graphrag.ground.errors import GraphRAGError

if TYPE_CHECKING:
    from pg_graphrag.beside.process.database import ProcessDatabase

# Seconds that a statement takes before others go on meanwhile.
LONG_STATEMENT = 0.5

_changed = threading.Condition()
_running: "Turn | None" = None
# Connections with a call that waits for its turn, or is under way and may have given it away: {id of its database: thread}.
_at_work: dict[int, int] = {}
# Cancelled calls that wait to go on.
_ending: set["Turn"] = set()


class Turn:
    """The turn of a call over a connection. Within it, its thread may make other calls."""

    def __init__(self, database: "ProcessDatabase", identity: Hashable, *, is_end: bool = False) -> None:
        self.database = database
        self._identity = identity
        # Whether it must end the work under way: it hears no cancel while it waits.
        self._is_end = is_end
        self._thread = threading.get_ident()
        self._outer: Turn | None = None
        # Whether it is the outermost call over its connection.
        self._has_connection = False
        self._statement_began: float | None = None

    def __enter__(self) -> None:
        self._outer = _of_thread()
        if self._outer is not None and not self._is_connection_free():
            # To wait would be for ever: the other goes on when this thread's turn is over.
            raise self.database.error(
                GraphRAGError(
                    "a call of another thread is under way over this connection",
                    sqlstate="55000",
                    hint="Give each thread a connection of its own.",
                )
            )
        with _changed:
            # A cancel meanwhile is meant for the call that has the connection.
            while not _changed.wait_for(self._is_connection_free, LONG_STATEMENT / 2):
                pass
            self._has_connection = id(self.database) not in _at_work
            if self._has_connection:
                _at_work[id(self.database)] = self._thread
            self.database.begin_call()
            try:
                while not _changed.wait_for(lambda: _running is self._outer, LONG_STATEMENT / 2):
                    if not self._is_end:
                        self.database.check_cancelled()
            except BaseException:
                self._leave()
                raise
            self._begin()
        remember(self._identity)

    def __exit__(self, *_: object) -> None:
        with _changed:
            self._leave()
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
            self._go_on()

    @contextmanager
    def in_statement(self) -> Iterator[None]:
        """Enclose a statement: while it takes long, others go on."""
        if _ending:
            with self.lent():
                pass
        self._statement_began = time.monotonic()
        try:
            yield
        finally:
            with _changed:
                if _running is self:
                    self._statement_began = None
            if self._statement_began is not None:
                self._go_on()

    def _is_connection_free(self) -> bool:
        return _at_work.get(id(self.database), self._thread) == self._thread

    def _leave(self) -> None:
        if self._has_connection:
            del _at_work[id(self.database)]
            _changed.notify_all()

    def _may_go_on(self) -> bool:
        if _ending and self not in _ending:
            return False
        began = None if _running is None else _running._statement_began
        return _running is None or (began is not None and time.monotonic() - began > LONG_STATEMENT)

    def _begin(self) -> None:
        global _running
        _running = self
        self._statement_began = None

    def _go_on(self) -> None:
        """Take the turn again. An interrupt is raised when it is there: what ends a call uses its connection."""
        interrupt: BaseException | None = None
        with _changed:
            try:
                while True:
                    try:
                        # How long a statement of another takes, nobody says.
                        if _changed.wait_for(self._may_go_on, LONG_STATEMENT / 2):
                            break
                    except BaseException as error:
                        interrupt = error
                    if self.database.is_cancelled:
                        _ending.add(self)
            finally:
                _ending.discard(self)
            self._begin()
        remember(self._identity)
        if interrupt is not None:
            raise interrupt

    def _give(self, outer: "Turn | None") -> None:
        global _running
        with _changed:
            was_running = _running is self
            if was_running:
                _running = outer
            _changed.notify_all()
        if was_running and outer is not None:
            remember(outer._identity)


def _of_thread() -> Turn | None:
    turn = _running
    return turn if turn is not None and turn._thread == threading.get_ident() else None


def running() -> Turn:
    """Return the turn of this thread's call, which is at work: a statement goes over no other's connection."""
    turn = _of_thread()
    if turn is None:
        raise RuntimeError("this thread has no turn")
    return turn


def in_statement() -> AbstractContextManager[None]:
    """Enclose a statement of the call of this thread."""
    turn = _of_thread()
    return nullcontext() if turn is None else turn.in_statement()
