"""The switch of a move: the source is written by nobody, then read by nobody; or as before, where it is taken back."""

import time
from typing import Any

import psycopg

from pg_graphrag.beside.process.copying import Cursor, prepare
from pg_graphrag.beside.process.corpus_copy.both_sides import is_plain, transaction
from pg_graphrag.beside.process.corpus_move.marks import place, set_mark
from pg_graphrag.beside.process.corpus_move.placements import note_placement
from pg_graphrag.beside.process.host import process_of
from pg_graphrag.ground.errors import GraphRAGError

# Seconds for which writers that are at work are waited for.
_PATIENCE = 30.0
# Seconds for which those who hold the target's documents are waited for before: everybody is served meanwhile.
_LONG_PATIENCE = 300.0
_HISTORY = "SELECT h.history_id FROM graphrag._histories h WHERE h.corpus_id = %s"


def freeze(
    source: psycopg.Connection[Any], target: psycopg.Connection[Any], name: str, number: int, new_number: int
) -> None:
    """Have nobody write a corpus, and its history, and wait for who does.

    Raises
    ------
    GraphRAGError
        55P03 where writers stay.
    """
    with transaction(source) as cursor:
        prepare(cursor)
        numbers = _with_history(cursor, number)
        set_mark(cursor, numbers, {"state": "moving", "place": place(target), "number": new_number})
    _drain(source, numbers, name)


def await_documents(target: psycopg.Connection[Any]) -> None:
    """Wait until nobody holds the documents of a target: its end locks them for a moment, when nobody writes the source.

    Raises
    ------
    psycopg.errors.LockNotAvailable
        Somebody holds them for minutes.
    """
    deadline = time.monotonic() + _LONG_PATIENCE
    while True:
        try:
            with transaction(target) as cursor:
                prepare(cursor)
                cursor.execute("SELECT graphrag._lock_grants()")
                cursor.execute("SELECT graphrag._lock_tables('graphrag.documents')")
            return
        except (psycopg.errors.LockNotAvailable, psycopg.errors.DeadlockDetected):
            if time.monotonic() > deadline:
                raise


def _with_history(cursor: Cursor, number: int) -> list[int]:
    return [number, *(row[0] for row in cursor.execute(_HISTORY, [number]).fetchall())]


def _drain(source: psycopg.Connection[Any], numbers: list[int], name: str) -> None:
    """Wait for those who were let in to write before the mark was there (sql/01_corpus/025_moves.sql)."""
    deadline = time.monotonic() + _PATIENCE
    while True:
        try:
            with transaction(source) as cursor:
                prepare(cursor)
                # In short tries: who waits for such a lock makes others wait, who wait for less than deadlock_timeout.
                cursor.execute("SET LOCAL lock_timeout = '250ms'")
                cursor.execute(
                    "SELECT FROM graphrag.corpora c WHERE c.id = ANY (%s) ORDER BY c.id FOR UPDATE", [numbers]
                )
                cursor.execute(
                    "UPDATE graphrag._locks l SET forgets = l.forgets WHERE l.kind = 'moves' AND l.corpus_id = ANY (%s)",
                    [numbers],
                )
            return
        except psycopg.errors.LockNotAvailable as error:
            if time.monotonic() > deadline:
                raise GraphRAGError(
                    f'others do not let go of corpus "{name}"',
                    sqlstate="55P03",
                    hint="A transaction writes to it since half a minute; pg_stat_activity and pg_prepared_xacts say which. What"
                    " has arrived stays: try again when it has ended.",
                ) from error
        time.sleep(0.1)


def thaw(source: psycopg.Connection[Any], number: int) -> None:
    """Have a corpus, and its history, read and written as before."""
    with transaction(source) as cursor:
        prepare(cursor)
        numbers = _with_history(cursor, number)
        set_mark(cursor, numbers, None)
        note_placement(cursor, names_of(cursor, numbers), source)


def names_of(cursor: Cursor, numbers: list[int]) -> list[str]:
    """Return the names of corpora."""
    names = "SELECT c.name FROM graphrag.corpora c WHERE c.id = ANY (%s) ORDER BY c.id"
    return [row[0] for row in cursor.execute(names, [numbers]).fetchall()]


def leave(
    source: psycopg.Connection[Any],
    target: psycopg.Connection[Any],
    number: int,
    new_number: int,
    *,
    has_graph: bool = False,
) -> None:
    """Have nobody read a corpus whose target is open. `has_graph`: whether the target has the AGE graph, so that all is done."""
    with transaction(source) as cursor:
        prepare(cursor)
        move = {"state": "moved", "place": place(target), "number": new_number, "has_graph": has_graph}
        numbers = _with_history(cursor, number)
        set_mark(cursor, numbers, move)
        note_placement(cursor, names_of(cursor, numbers), target)


def drop(target: psycopg.Connection[Any], number: int, source: psycopg.Connection[Any]) -> None:
    """Drop a corpus, and its history, whatever its mark says: they are in the source."""
    with transaction(target) as cursor:
        prepare(cursor)
        numbers = _with_history(cursor, number)
        set_mark(cursor, numbers, None)
        names = names_of(cursor, numbers)
        note_placement(cursor, names, source)
        for name in names:
            if is_plain(target):
                process_of(target).call("drop_corpus", {"name": name})
            else:
                cursor.execute("SELECT graphrag.drop_corpus(%s)", [name])
