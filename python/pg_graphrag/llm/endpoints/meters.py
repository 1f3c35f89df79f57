"""Meters of cost and requests, which neither a rollback nor the end of a session takes back.

A rollback of the caller's transaction also takes back its rows in `llm_calls`. So each corpus, and each role of it, has
a meter besides: a file of 40 bytes, changed under the kernel's lock. It lies in the host's folder for files that
outlive the server: in a server ``pg_stat``, which PostgreSQL gives to extensions. It also counts in read-only
transactions and on a standby (which has its own). A crash of the machine may cost the last seconds; a restored database
begins with the sums of `llm_calls`.
"""

import fcntl
import hashlib
import os
import struct
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from pg_graphrag.ground.errors import GraphRAGError
from pg_graphrag.server import Database
from pg_graphrag.server.session_places import installation

_FOLDER = "pg_stat"
_RECORD = struct.Struct("<qdqqq")
MINUTE = 60.0


@dataclass
class _Count:
    """The month (since the year 0) and its cost; the minute (since 1970), and the requests in it and in the one before."""

    month: int = 0
    spent: float = 0.0
    minute: int = 0
    requests: int = 0
    requests_before: int = 0


class Meter:
    """The cost of a corpus, or of one of its roles, in a calendar month (UTC), and the role's requests in a minute."""

    def __init__(self, db: Database, corpus_id: int, role: str | None = None) -> None:
        # A role's name may have characters that a file's may not.
        suffix = "" if role is None else "_" + hashlib.sha256(role.encode()).hexdigest()[:32]
        self._path = db.folder(_FOLDER) / f"{installation(db)}_spent_{corpus_id}{suffix}"

    def spent(self) -> float | None:
        """Return this month's cost; None if unknown."""
        try:
            data = self._path.read_bytes()
        except FileNotFoundError:
            return None
        count = _Count(*_RECORD.unpack(data)) if len(data) == _RECORD.size else _Count()
        return count.spent if count.month == _month() else None

    def add(self, cost: float, *, initial: float = 0.0) -> None:
        """Add a cost, to `initial` where nothing is known of the month."""
        with self._locked_count() as count:
            if count.month != _month():
                count.month, count.spent = _month(), initial
            count.spent += cost

    def admit(self, per_minute: int) -> bool:
        """Count a request, unless `per_minute` were made in the last minute; return whether there were fewer."""
        with self._locked_count() as count:
            minute, seconds = divmod(time.time(), MINUTE)
            if count.minute != int(minute):
                count.requests_before = count.requests if count.minute == int(minute) - 1 else 0
                count.minute, count.requests = int(minute), 0
            # The minute before counts by its part within the last sixty seconds.
            if count.requests + count.requests_before * (1 - seconds / MINUTE) >= per_minute:
                return False
            count.requests += 1
            return True

    @contextmanager
    def _locked_count(self) -> Iterator[_Count]:
        try:
            file = os.open(self._path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        except OSError as error:
            raise GraphRAGError(
                f"what models cost cannot be counted: {error.strerror}",
                sqlstate="58030",
                hint=f"It must be possible to write files in {self._path.parent} (of a server: in its data directory).",
            ) from None
        try:
            fcntl.flock(file, fcntl.LOCK_EX)
            data = os.pread(file, _RECORD.size, 0)
            count = _Count(*_RECORD.unpack(data)) if len(data) == _RECORD.size else _Count()
            yield count
            os.pwrite(
                file, _RECORD.pack(count.month, count.spent, count.minute, count.requests, count.requests_before), 0
            )
        finally:
            os.close(file)


def _month() -> int:
    now = time.gmtime()
    return 12 * now.tm_year + now.tm_mon


def metered(db: Database, corpus_id: int, role: str | None) -> float | None:
    """Serve graphrag._metered()."""
    return Meter(db, corpus_id, role).spent()
