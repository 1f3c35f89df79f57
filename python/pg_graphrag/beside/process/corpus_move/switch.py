"""The switch of a move: nobody writes the source any more, then nobody reads it; and the way back."""

import time
from typing import Any

import psycopg

from pg_graphrag.beside.process.copying import Cursor, prepare
from pg_graphrag.beside.process.corpus_copy.both_sides import is_plain, transaction
from pg_graphrag.beside.process.corpus_move.marks import Mark, is_open, mark_of, place, set_mark
from pg_graphrag.beside.process.corpus_move.placements import note_placement
from pg_graphrag.beside.process.host import process_of
from pg_graphrag.ground.errors import GraphRAGError

# Seconds for which writers that are at work are waited for.
_PATIENCE = 30.0
# Seconds for which those who hold the target's documents are waited for before: everybody is served meanwhile.
_LONG_PATIENCE = 300.0
# As long is a mark waited for that somebody holds: he opens the other side meanwhile.
_PATIENTLY = "SET LOCAL lock_timeout = '30s'"
_HISTORY = "SELECT h.history_id FROM graphrag._histories h WHERE h.corpus_id = %s"


def freeze(
    source: psycopg.Connection[Any], target: psycopg.Connection[Any], name: str, number: int, new_number: int
) -> None:
    """Stop writes of a corpus and its history, and wait for writers to end.

    Raises GraphRAGError: 55P03 if writers stay; 55000 if it moves to another target, or has moved.
    """
    with transaction(source) as cursor:
        prepare(cursor)
        mark = mark_of(cursor, name, is_locked=True)
        if (
            mark is None
            or mark.number != number
            or (mark.move is not None and not _is_frozen(mark, target, new_number))
        ):
            raise meanwhile(name)
        numbers = _with_history(cursor, number)
        if mark.move is None:
            set_mark(cursor, numbers, {"state": "moving", "place": place(target), "number": new_number})
    _drain(source, numbers, name)


def check_frozen(cursor: Cursor, name: str, target: psycopg.Connection[Any], new_number: int) -> None:
    """Keep a corpus unwritten until the transaction ends, while the target is opened; 55000 where it is not frozen for it."""
    mark = mark_of(cursor, name, is_locked=True)
    if mark is None or not _is_frozen(mark, target, new_number):
        raise meanwhile(name)


def _is_frozen(mark: Mark, target: psycopg.Connection[Any], new_number: int) -> bool:
    return mark.state == "moving" and mark.goes_to(target, new_number)


def meanwhile(name: str) -> GraphRAGError:
    """Return the error of a command that finds another one's marks."""
    return GraphRAGError(
        f'another command moved corpus "{name}" meanwhile, or took its move back',
        sqlstate="55000",
        hint="The column move of graphrag.corpora says where it is. Repeat the command when the other has ended.",
    )


def await_target(target: psycopg.Connection[Any]) -> None:
    """Wait until nobody copies into a target or holds its documents, as its end does when nobody writes the source.

    Raises psycopg.errors.LockNotAvailable: somebody holds them for minutes.
    """
    deadline = time.monotonic() + _LONG_PATIENCE
    while True:
        try:
            with transaction(target) as cursor:
                prepare(cursor)
                cursor.execute("LOCK TABLE graphrag.corpora IN SHARE UPDATE EXCLUSIVE MODE")
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
                for number in numbers:
                    cursor.execute("SELECT graphrag._lock(%s, 'moves')", [number])
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


def thaw(source: psycopg.Connection[Any], target: psycopg.Connection[Any] | None, name: str, number: int) -> None:
    """Have a corpus, and its history, read and written as before. `target`: None where it cannot be asked.

    Whoever opens a side has locked the mark of the other: who comes second sees what the first has done.

    Raises GraphRAGError: 55000 where it is read and written in the target, moves elsewhere or was dropped.
    """
    with transaction(source) as cursor:
        prepare(cursor)
        cursor.execute(_PATIENTLY)
        here = mark_of(cursor, name, is_locked=True)
        if here is None or here.number != number:
            raise meanwhile(name)
        if here.move is None:
            return
        if target is not None:
            with transaction(target) as asked:
                prepare(asked)
                asked.execute(_PATIENTLY)
                there = mark_of(asked, name, is_locked=True)
            if here.move["place"] != place(target) or is_open(here, there):
                raise meanwhile(name)
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
    name: str,
    new_number: int,
    *,
    has_graph: bool = False,
) -> None:
    """Have nobody read a corpus whose target is open. `has_graph`: whether the target has the AGE graph, so that all is done.

    Raises GraphRAGError: 55000 where the move was taken back meanwhile.
    """
    with transaction(source) as cursor:
        prepare(cursor)
        mark = mark_of(cursor, name, is_locked=True)
        if mark is None or not mark.goes_to(target, new_number):
            raise meanwhile(name)
        move = {"state": "moved", "place": place(target), "number": new_number, "has_graph": has_graph}
        numbers = _with_history(cursor, mark.number)
        set_mark(cursor, numbers, move)
        note_placement(cursor, names_of(cursor, numbers), target)


def drop(target: psycopg.Connection[Any], name: str, source: psycopg.Connection[Any]) -> None:
    """Drop a corpus that arrives or is frozen, and its history: they are in the source.

    Raises GraphRAGError: 55000 where it was opened meanwhile.
    """
    with transaction(target) as cursor:
        prepare(cursor)
        mark = mark_of(cursor, name, is_locked=True)
        if mark is None or mark.move is None or mark.move["place"] != place(source):
            raise meanwhile(name)
        numbers = _with_history(cursor, mark.number)
        set_mark(cursor, numbers, None)
        names = names_of(cursor, numbers)
        note_placement(cursor, names, source)
        for dropped in names:
            if is_plain(target):
                process_of(target).call("drop_corpus", {"name": dropped})
            else:
                cursor.execute("SELECT graphrag.drop_corpus(%s)", [dropped])
