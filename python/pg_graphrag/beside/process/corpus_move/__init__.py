"""Moves a corpus to another database while it is read and written; writes stop for some seconds at the end.

The first round copies it as `corpus_copy` does, hidden from everybody. Each later round brings the rows that came,
changed or went since the round before; meanwhile fingerprints are compared. Then the source refuses writes, the last
round brings and compares the rest and opens the target, and the source says where the corpus is. Two databases have no
common commit. Therefore the order of steps makes sure that both are never writable at once. `corpora.move` of both
databases records each step, and the same call goes on after a failure.
"""

import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

import psycopg

from pg_graphrag.beside.process.copying import check_version, prepare
from pg_graphrag.beside.process.corpus_copy.both_sides import document_count, transaction
from pg_graphrag.beside.process.corpus_copy.source_corpus import unknown_corpus
from pg_graphrag.beside.process.corpus_move import rounds
from pg_graphrag.beside.process.corpus_move.marks import Mark, is_open, mark_of, place
from pg_graphrag.beside.process.corpus_move.row_changes import KeySums
from pg_graphrag.beside.process.corpus_move.switch import await_target, freeze, leave, thaw
from pg_graphrag.beside.process.corpus_move.undo import undo_move
from pg_graphrag.ground.errors import GraphRAGError

__all__ = ["CorpusMove", "move_corpus", "undo_move"]

# A round that brought fewer rows is the last but one.
_FEW_ROWS = 1000
# The maximum of rounds, if others write faster than rounds end.
_MOST_ROUNDS = 10


@dataclass(frozen=True)
class CorpusMove:
    """The result of a move: documents in the target, rounds, seconds without writes, and sentences on what was left out.

    Rounds and seconds are None if an earlier call did the move.
    """

    documents: int
    rounds: int | None
    frozen_seconds: float | None
    notes: tuple[str, ...]


def move_corpus(
    source: psycopg.Connection[Any],
    target: psycopg.Connection[Any],
    name: str,
    *,
    providers: Mapping[str, str] | None = None,
    pause: float = 5.0,
    report: Callable[[str], None] = lambda _: None,
) -> CorpusMove:
    """Move a corpus with its history and everything kept of it. Called again, it goes on where it ended.

    Both connections belong to owners, in autocommit mode and outside a transaction. Afterwards use `drop_corpus` for what
    remains in the source.

    `providers`: {provider of the source: provider of the target}, by name.
    `pause`: seconds: after a round that took less, writers wait for the last round.
    `report`: is called with a sentence on each step.

    Raises GraphRAGError: as `copy_corpus`; 55000 for attached tables, and if the corpus moves to another database; 55P03 if
      a transaction keeps the move from its end. Then the source accepts writes as before.
    """
    here, there = _marks(source, target, name)
    if here is None:
        raise unknown_corpus(source, name)
    if here.state == "arriving":
        raise _elsewhere(name, here, "arriving from", "Move it when that move has ended.")
    if here.move is not None and here.move["place"] != place(target):
        raise _elsewhere(
            name, here, "at" if here.state == "moved" else "moving to", "Give that database, or --undo there."
        )
    if here.move is not None and is_open(here, there):
        assert there is not None
        return _finish(source, target, name, here, there, (), None, None)
    if there is not None and there.state == "moving" and there.goes_to(source, here.number):
        raise _elsewhere(name, there, "on its way back to", "The same command with --undo goes on with that.")
    if here.state == "moved":
        hint = "graphrag.drop_corpus() lets go of what is left of it here."
        raise GraphRAGError(f'corpus "{name}" is no more at {place(target)}', sqlstate="42704", hint=hint)
    if here.state == "moving" and there is None:
        # Dropped there; or that is another server by now.
        raise _elsewhere(
            name,
            here,
            "moving, and not arriving, at",
            "--undo --force has it read and written here; then move it anew.",
        )
    count = 0
    sums: Mapping[str, KeySums] = {}
    while not (here.state == "moving" and there is not None):
        is_first = there is None
        done = rounds.bring(source, target, name, providers or {}, sums=sums)
        sums = done.sums
        count += 1
        brought = f"{done.documents} documents" if is_first else f"{done.rows} rows"
        report(f"round {count}: {brought} in {done.seconds:.1f} s")
        here, there = _marks(source, target, name)
        assert here is not None
        # A round that reads the whole corpus takes long and leaves much for the next one.
        is_small = done.seconds < pause or (done.rows < _FEW_ROWS and not done.is_whole)
        if not is_first and (count >= _MOST_ROUNDS or is_small):
            break
    assert there is not None
    await_target(target)
    start = time.monotonic()
    try:
        freeze(source, target, name, here.number, there.number)
        done = rounds.bring(source, target, name, providers or {}, is_last=True, sums=sums)
    except BaseException:
        # Where nobody knows whether the target is open, the same call finds it out later, or what takes the move back.
        with suppress(GraphRAGError, psycopg.Error):
            thaw(source, target, name, here.number)
        raise
    here, there = _marks(source, target, name)
    assert here is not None
    assert there is not None
    return _finish(source, target, name, here, there, done.notes, count + 1, start)


def _marks(
    source: psycopg.Connection[Any], target: psycopg.Connection[Any], name: str
) -> tuple[Mark | None, Mark | None]:
    marks = []
    for connection in (source, target):
        with transaction(connection) as cursor:
            prepare(cursor)
            check_version(cursor)
            marks.append(mark_of(cursor, name))
    return marks[0], marks[1]


def _elsewhere(name: str, mark: Mark, where: str, hint: str) -> GraphRAGError:
    assert mark.move is not None
    return GraphRAGError(f'corpus "{name}" is {where} {mark.move["place"]}', sqlstate="55000", hint=hint)


def _finish(
    source: psycopg.Connection[Any],
    target: psycopg.Connection[Any],
    name: str,
    here: Mark,
    there: Mark,
    notes: tuple[str, ...],
    count: int | None,
    start: float | None,
) -> CorpusMove:
    """Have the source say where the corpus is; then make the target's AGE graph, which no search reads."""
    if here.state != "moved":
        leave(source, target, name, there.number)
    seconds = None if start is None else time.monotonic() - start
    with transaction(target) as cursor:
        prepare(cursor)
        has_graph = here.move is not None and here.move.get("has_graph", False)
        if check_version(cursor) and not has_graph:
            cursor.execute(
                "SELECT graphrag.rebuild_graph(c.name) FROM graphrag.corpora c"
                "  LEFT JOIN graphrag._histories h ON h.history_id = c.id WHERE %s IN (c.id, h.corpus_id)",
                [there.number],
            )
        documents = document_count(cursor, there.number)
    leave(source, target, name, there.number, has_graph=True)
    return CorpusMove(documents, count, seconds, notes)
