"""The rounds of a move: the first copies the corpus, later ones bring what changed in the source, the last opens the
target.

The second round compares the fingerprints of both sides, while the source is still written. From then on each round
compares what has changed on either side, the last one too, when nobody writes. row_changes.py says why that is enough.
"""

import time
from collections.abc import Mapping
from contextlib import ExitStack
from dataclasses import dataclass, replace
from typing import Any

import psycopg

from pg_graphrag.beside.process.copying import Cursor, check_policies, check_version, value
from pg_graphrag.beside.process.corpus_copy import access
from pg_graphrag.beside.process.corpus_copy.both_sides import (
    check_equal,
    check_names,
    document_count,
    reading,
    relations_of,
    writing,
)
from pg_graphrag.beside.process.corpus_copy.providers import choose_providers
from pg_graphrag.beside.process.corpus_copy.reservation import is_exhausted
from pg_graphrag.beside.process.corpus_copy.rows import RowCopy, copy_corpus_rows
from pg_graphrag.beside.process.corpus_copy.settled import grants_and_notes, repair
from pg_graphrag.beside.process.corpus_copy.source_corpus import SourceCorpus
from pg_graphrag.beside.process.corpus_copy.transfer import Transfer
from pg_graphrag.beside.process.corpus_move.marks import Arrival, Mark, mark_of, place, set_mark
from pg_graphrag.beside.process.corpus_move.placements import note_placement
from pg_graphrag.beside.process.corpus_move.row_changes import KeySums, RowChanges
from pg_graphrag.beside.process.corpus_move.switch import check_frozen, meanwhile
from pg_graphrag.ground.errors import GraphRAGError

# So many numbers more than a corpus has are reserved in each table, for rows that come while it moves.
_ROOM = 100_000_000
# Seconds for which the last round waits for other copies into the target, or locks on its documents: writers wait meanwhile.
_PATIENCE = 10.0
# The oldest transaction that is under way.
_OLDEST = "SELECT pg_catalog.pg_snapshot_xmin(pg_catalog.pg_current_snapshot())::text"


@dataclass(frozen=True)
class Round:
    """The result of a round: rows written and deleted, seconds, documents in the target, and sentences on what was left
    out.

    `is_whole`: the whole corpus was read, to copy it or for its fingerprints. `sums`: of the target's keys, for the next
    round.
    """

    rows: int
    seconds: float
    documents: int
    notes: tuple[str, ...]
    is_whole: bool
    sums: Mapping[str, KeySums]


def bring(
    source: psycopg.Connection[Any],
    target: psycopg.Connection[Any],
    name: str,
    providers: Mapping[str, str],
    *,
    is_last: bool = False,
    sums: Mapping[str, KeySums] | None = None,
) -> Round:
    """Bring the target the rows of a corpus that it lacks, in one snapshot of the source and one transaction of the target.

    `is_last`: nobody writes the source; the target, which becomes equal, is opened. `sums`: the result of the round before,
    if the same call of `move_corpus` did it.

    Raises GraphRAGError: as `copy_corpus`, XX001 if the target differs from the source; 55000 for attached tables, for a
      corpus that got or lost a history meanwhile, if the reserved numbers are used up, if another corpus of that name
      arrives, and if the last round finds the move taken back.
    """
    start = time.monotonic()
    with ExitStack() as both:
        if is_last:
            # Until the target is open, nobody takes the move back.
            reader = both.enter_context(reading(source, locks=True))
            writer = both.enter_context(writing(target, seconds=_PATIENCE))
        else:
            writer = both.enter_context(writing(target))
            reader = both.enter_context(reading(source))
        mark = mark_of(writer, name)
        if is_last:
            if mark is None or mark.state != "arriving":
                raise meanwhile(name)
            check_frozen(reader, name, target, mark.number)
        check_policies(reader, writer)
        corpus = SourceCorpus.read(reader, name)
        _check_movable(reader, corpus)
        relations = relations_of(writer)
        seen, before = (value(cursor, _OLDEST) for cursor in (reader, writer))
        changes = None
        if mark is None or mark.state != "arriving":
            transfer, arrival, rows = _first(reader, writer, corpus, relations, providers, seen)
        else:
            arrival = _arrival(mark, corpus, source)
            transfer, changes = _later(reader, writer, corpus, relations, providers, arrival, sums or {})
            rows = changes.count
        grants, notes = grants_and_notes(transfer)
        numbers = [transfer.new_number(number) for number in corpus.ids]
        if is_last:
            for number in corpus.ids:
                repair(transfer, number, with_graph=False)
        is_whole = changes is None or not changes.are_equal()
        if changes is not None:
            if is_whole:
                for number in corpus.ids:
                    check_equal(reader, corpus.name_of(number), writer, transfer.names[number])
            providers = dict(transfer.providers)
            arrival = replace(arrival, providers=providers, seen=seen, written=changes.written, equal=before)
        if is_last:
            note_placement(writer, list(transfer.names.values()), target)
            access.open_again(transfer, grants, _PATIENCE)
        else:
            set_mark(writer, numbers, arrival.as_move(place(source)))
        documents = document_count(writer, numbers[0])
    return Round(
        rows, time.monotonic() - start, documents, tuple(notes), is_whole, {} if changes is None else changes.sums
    )


def _arrival(mark: Mark, corpus: SourceCorpus, source: psycopg.Connection[Any]) -> Arrival:
    """Return how much of a corpus has arrived; 55000 if it is another corpus."""
    assert mark.move is not None
    if (mark.created_at, mark.move["place"]) != (corpus.corpora[0]["created_at"], place(source)):
        raise GraphRAGError(
            f'another corpus "{corpus.corpora[0]["name"]}" is arriving from {mark.move["place"]}',
            sqlstate="55000",
            hint="Give that database as --url, to move it or with --undo.",
        )
    return Arrival.read(mark.move)


def _check_movable(reader: Cursor, corpus: SourceCorpus) -> None:
    name = corpus.corpora[0]["name"]
    if (tables := corpus.attached_tables(reader)) is not None:
        raise GraphRAGError(
            f'corpus "{name}" has attached tables, which are written here: {tables}',
            sqlstate="55000",
            hint="End these attachments with graphrag.detach_table(), which can leave the documents; attach the tables where"
            " they are, in the target.",
        )
    if corpus.is_history:
        raise GraphRAGError(
            f'corpus "{name}" is the history of another, and moves with it',
            sqlstate="55000",
            hint="Move the other, or end the history with graphrag.end_history().",
        )


def _first(
    reader: Cursor, writer: Cursor, corpus: SourceCorpus, relations: Any, providers: Mapping[str, str], seen: str
) -> tuple[Transfer, Arrival, int]:
    """Copy the corpus, hidden from everybody but the owner."""
    names = corpus.names(None, None)
    check_names(
        writer, list(names.values()), "Of one that has moved away the rest goes with graphrag.drop_corpus() there."
    )
    copy = copy_corpus_rows(reader, writer, corpus, relations, names, providers, room=_ROOM)
    transfer = copy.transfer
    access.close(transfer)
    return transfer, Arrival(transfer.numbers, dict(transfer.providers), seen, [copy.first_transaction()], None), 0


def _later(
    reader: Cursor,
    writer: Cursor,
    corpus: SourceCorpus,
    relations: Any,
    providers: Mapping[str, str],
    arrival: Arrival,
    sums: Mapping[str, KeySums],
) -> tuple[Transfer, RowChanges]:
    numbers = arrival.numbers
    if set(numbers.maps["corpora"]) != set(corpus.ids):
        raise _changed(corpus, "got or lost a history, or is another than the one that arrives")
    if is_exhausted(reader, numbers, relations):
        raise _changed(corpus, "got more rows than numbers were reserved for")
    set_mark(writer, list(numbers.maps["corpora"].values()), None)
    chosen = choose_providers(reader, writer, corpus, providers, chosen_before=arrival.providers)
    transfer = Transfer(reader, writer, corpus, corpus.names(None, None), chosen, numbers)
    _renew_corpora(transfer)
    _renew_spaces(transfer)
    changes = RowChanges(transfer, relations, arrival, sums)
    changes.bring()
    changes.queue()
    return transfer, changes


def _changed(corpus: SourceCorpus, what: str) -> GraphRAGError:
    name = corpus.corpora[0]["name"]
    return GraphRAGError(
        f'corpus "{name}" {what} while it moved',
        sqlstate="55000",
        hint="pg-graphrag move --undo takes back what arrived; then move it anew.",
    )


def _renew_corpora(transfer: Transfer) -> None:
    rows = RowCopy(transfer)
    for row in transfer.corpus.corpora:
        transfer.writer.execute(
            "UPDATE graphrag.corpora SET options = %s, tokenizer = %s, tokenizer_fingerprint = %s, needs_reindex = %s"
            " WHERE id = %s",
            [
                rows.options_of(row, with_cypher=check_version(transfer.writer)),
                row["tokenizer"],
                row["tokenizer_fingerprint"],
                row["needs_reindex"],
                transfer.new_number(row["id"]),
            ],
        )


def _renew_spaces(transfer: Transfer) -> None:
    """Have the spaces that the source has: reembed() makes one, and takes another away."""
    maps = transfer.numbers.maps["embedding_spaces"]
    spaces_here = {space[0]: space for space in transfer.corpus.spaces}
    for number in maps.keys() - spaces_here.keys():
        transfer.writer.execute("SELECT graphrag._drop_space(%s)", [maps.pop(number)])
    rows = RowCopy(transfer)
    for number, space in spaces_here.items():
        if number in maps:
            state = "UPDATE graphrag.embedding_spaces SET state = %s WHERE id = %s"
            transfer.writer.execute(state, [space[5], maps[number]])
        else:
            maps[number] = value(transfer.writer, "SELECT pg_catalog.nextval('graphrag.embedding_spaces_id_seq')::int")
            rows.make_space(space)
