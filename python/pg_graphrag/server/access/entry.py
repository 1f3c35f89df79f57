"""The owner's rights, for work of this package alone.

Functions that readers call run with the reader's rights. Only the owner of the extension may read what is made of documents.
`as_owner` bridges the two: it stores the work under a one-time token in this module and calls ``graphrag._enter(token)``, a
SECURITY DEFINER function that takes the work out as its first act and does it. No SQL user can write this memory (PL/Python is
untrusted) or guess a token, so nobody can have other work done. The work takes no SQL from the caller.

A token lives from the call's first instruction to its first act; between them no statement of anybody else can run. Nothing
that outlives one call holds a token: a function that yields its rows one by one enters anew for each.
"""

import os
from collections.abc import Callable
from typing import Any, TypeVar

from pg_graphrag.ground.errors import GraphRAGError
from pg_graphrag.server import Database

T = TypeVar("T")


class _Work:
    """A function to call once, and its result or error."""

    def __init__(self, run: Callable[[], Any]) -> None:
        self.run = run
        self.result: Any = None
        self.error: GraphRAGError | None = None


_pending: dict[str, _Work] = {}


def as_owner(db: Database, run: Callable[[], T], *, writes: bool = False) -> T:
    """Return what `run` returns, run with the rights of the extension's owner.

    `writes`: whether `run` writes. If not, it sees the snapshot of the calling statement.

    Raises GraphRAGError: the error of `run`. Errors of SQL statements, query cancel among them, pass unchanged.
    """
    return _run_in("_enter_writing" if writes else "_enter", db, run)


def at_one_snapshot(db: Database, run: Callable[[], T]) -> T:
    """Return the result of `run`, run with the caller's own rights, reading the snapshot of one statement throughout.

    Otherwise each statement of a function that writes has its own snapshot, but a document's text and permissions must be
    of one moment.
    """
    return _run_in("_at_one_snapshot", db, run)


def _run_in(function: str, db: Database, run: Callable[[], T]) -> T:
    token, work = os.urandom(16).hex(), _Work(run)
    _pending[token] = work
    try:
        db.call(function, ["text"], [token])
    except Exception:
        if work.error is not None:
            raise work.error from None
        raise
    finally:
        _pending.pop(token, None)
    result: T = work.result
    return result


def enter(_: Database, token: str | None) -> None:
    """Do the work that waits under `token`; 42501 if there is none."""
    work = _pending.pop(token or "", None)
    if work is None:
        raise GraphRAGError(
            "this function cannot be called directly",
            sqlstate="42501",
            hint="Call graphrag.search(), graphrag.context() or graphrag.ask().",
        )
    try:
        work.result = work.run()
    except GraphRAGError as error:
        work.error = error
        raise
