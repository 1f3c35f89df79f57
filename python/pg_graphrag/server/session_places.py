"""Places that sessions of one database share, each a lock on a file of the server's.

An advisory lock would do, but for two things: any user of SQL can take it, and only SQL frees it, which no session runs that
sits idle with an open stream. The kernel frees a file's lock with its process. And a place has a deadline, written in its
file: once it has passed, others take the place, although its holder is still there (a new file of the name takes over).

The files lie in the host's folder for what need not outlive the server: in a server ``pg_stat_tmp``, which PostgreSQL gives to
extensions.
"""

import contextlib
import fcntl
import os
import struct
import threading
import time
from functools import cache
from pathlib import Path

from pg_graphrag.ground.errors import GraphRAGError
from pg_graphrag.server import Database
from pg_graphrag.server.backend import undisturbed

_FOLDER = "pg_stat_tmp"
_DEADLINE = struct.Struct("<d")


@cache
def installation(db: Database) -> str:
    """Return the prefix of this installation's files: the unique numbers of the database, and of extension or schema."""
    row = db.query(
        "SELECT d.oid::text AS database, coalesce(e.oid, n.oid)::text AS installed FROM pg_catalog.pg_database d"
        " CROSS JOIN pg_catalog.pg_namespace n LEFT JOIN pg_catalog.pg_extension e ON e.extname = 'pg_graphrag'"
        " WHERE d.datname = pg_catalog.current_database() AND n.nspname = 'graphrag'"
    )[0]
    return f"pg_graphrag_{row['database']}_{row['installed']}"


class Place:
    """A place that is taken. It may be extended and released in any thread, without SQL."""

    def __init__(self, file: int) -> None:
        self._file: int | None = file
        # After a second close the number could be that of another file.
        self._lock = threading.Lock()

    def __del__(self) -> None:
        """Free a place that an error left behind."""
        self.release()

    def extend(self, until: float) -> None:
        """Let nobody else have the place before `until` (monotonic seconds)."""
        with self._lock:
            if self._file is not None:
                os.pwrite(self._file, _DEADLINE.pack(until), 0)

    def release(self) -> None:
        """Free the place."""
        with self._lock:
            if self._file is not None:
                os.close(self._file)
            self._file = None


class Places:
    """A number of places of one name.

    A waiting session holds the lock of the turn; others take a place only where nobody waits.
    """

    def __init__(self, db: Database, name: str, count: int) -> None:
        self._path = db.folder(_FOLDER) / f"{installation(db)}_{name}"
        self._count = count
        # Where the search for a free place begins: what this session took before it is likely to hold still.
        self._first = 0

    def take(self, seconds: float = 0.0) -> Place | None:
        """Take a free place, waiting at most so long for it, in turn with others who wait; None: there was none."""
        until = time.monotonic() + seconds
        turn: int | None = None
        try:
            while True:
                # A cancel between opening a file and noting it would leave a lock that nobody frees.
                with undisturbed():
                    if turn is None:
                        turn = _lock_file(self._path.with_name(f"{self._path.name}_turn"))
                    place = self._free() if turn is not None else None
                if place is not None or time.monotonic() >= until:
                    return place
                time.sleep(_WAIT)
        except OSError as error:
            raise GraphRAGError(
                f"the places at a provider cannot be counted: {error.strerror}",
                sqlstate="58030",
                hint=f"It must be possible to write files in {self._path.parent} (of a server: in its data directory).",
            ) from None
        finally:
            if turn is not None:
                os.close(turn)

    def _free(self) -> Place | None:
        """Take a free place, or one whose deadline has passed. Only under the turn's lock."""
        for offset in range(self._count):
            number = (self._first + offset) % self._count
            path = self._path.with_name(f"{self._path.name}_{number}")
            file, deadline = _lock_or_deadline(path)
            if file is None and deadline < time.monotonic():
                with contextlib.suppress(FileNotFoundError):
                    path.unlink()
                file = _lock_file(path)
            if file is not None:
                os.pwrite(file, _DEADLINE.pack(float("inf")), 0)
                self._first = number + 1
                return Place(file)
        return None


_WAIT = 0.01


def _lock_file(path: Path) -> int | None:
    """Open a file and lock it; None if another process has the lock."""
    return _lock_or_deadline(path)[0]


def _lock_or_deadline(path: Path) -> tuple[int | None, float]:
    """Open a file and lock it; if another process has the lock, return its deadline (monotonic seconds) instead."""
    file = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        data = os.pread(file, _DEADLINE.size, 0)
        os.close(file)
        return None, _DEADLINE.unpack(data)[0] if len(data) == _DEADLINE.size else float("inf")
    return file, float("inf")
