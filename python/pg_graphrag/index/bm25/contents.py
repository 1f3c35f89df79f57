"""All entries of an index in the order of terms, for the check of its invariants."""

from collections.abc import Iterable, Iterator
from typing import Any

from pg_graphrag.ground.numeric import NDArray, np
from pg_graphrag.index.bm25.packing import Entry, merge_runs, segment_entries, tail_entries
from pg_graphrag.index.bm25.segments import Ids, State, read_state
from pg_graphrag.index.bm25.tail import TermCounts, Vocabulary, read_tail
from pg_graphrag.server import Database


def statistics(db: Database, corpus_id: int, kind: str) -> tuple[int, int]:
    """Return N and the sum of lengths, as searches count them."""
    state = read_state(db, corpus_id, kind)
    return state.count, state.length


def items(state: State) -> tuple[Ids, Ids, Ids]:
    """Return the live items in ascending order, with their documents and lengths, (n,) each."""
    parts = [(state.tail_items, state.tail_documents, state.tail_lengths.astype(np.int64))]
    for segment in state.segments:
        live = segment.live_ordinals()
        parts.append((segment.item_ids()[live], segment.document_ids()[live], segment.lengths()[live].astype(np.int64)))
    columns = [np.concatenate(column).astype(np.int64) for column in zip(*parts, strict=True)]
    order = np.argsort(columns[0], kind="stable")
    return columns[0][order], columns[1][order], columns[2][order]


def entries(db: Database, corpus_id: int, kind: str) -> Iterator[tuple[str, Ids, NDArray[np.integer[Any]]]]:
    """Yield (term, live items that contain it in ascending order, frequencies), in the order of terms.

    The tail is in memory (12 bytes a posting), segments are not.
    """
    state = read_state(db, corpus_id, kind)
    item_ids, _, _ = items(state)
    runs: list[Iterable[Entry]] = []
    for segment in state.segments:
        live = segment.live_ordinals()
        places = np.full(segment.count, -1, np.int32)
        places[live] = np.searchsorted(item_ids, segment.item_ids()[live])
        runs.append(segment_entries(db, segment.id, places))
    vocabulary = Vocabulary()
    counts: list[TermCounts] = []
    tail: list[Ids] = [np.zeros(0, np.int64)]
    item_count = 0
    for part, terms in read_tail(db, corpus_id, kind, state.tail_items, vocabulary):
        tail.append(part)
        counts.append(terms.shifted(item_count))
        item_count += len(part)
    if item_count:
        places = np.searchsorted(item_ids, np.concatenate(tail)).astype(np.int32)
        runs.append(tail_entries(TermCounts.join(counts), vocabulary, places))
    if runs:
        for term, ordinals, frequencies in merge_runs(runs):
            yield term, item_ids[ordinals], frequencies
