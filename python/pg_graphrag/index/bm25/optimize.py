"""Maintenance: pack the tail, merge segments, fold tombstones. Searches are exact before, during and after.

One transaction, one optimize() of a corpus at a time. What runs beside it:

- Inserts add tail rows this run does not see: they stay.
- A delete that commits while this run packs takes its tail row with it. Rows are therefore claimed last (deleted, those
  that are locked passed over); a packed item whose row was not claimed is marked deleted in the new segment. If its
  row is still there, the item is still in the tail; else it is gone. No waiting for others, so no deadlock.
- A delete that finds its row claimed waits until this transaction ends, and then writes a tombstone.
- Only the tombstones that this run has read are removed.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from pg_graphrag.ground.numeric import NDArray, np
from pg_graphrag.index.bm25.index import KINDS
from pg_graphrag.index.bm25.packing import Entry, merge_runs, segment_entries, tail_entries, write_postings
from pg_graphrag.index.bm25.segments import Ids, Ordinals, Segment, State, locate, read_state
from pg_graphrag.index.bm25.tail import ROWS_PER_READ, TermCounts, Vocabulary, read_tail
from pg_graphrag.server import Database

# Items of the tail, or tombstones, of one kind that make packing worth while (bench/load/bm25.py).
LONG_TAIL = 1000
# From this length on packing does not wait for pending documents, because every search reads the tail.
LONGEST_TAIL = 2000
# Segments larger than this are not merged with others: a column of 8 bytes an item stays far below 1 GB.
_MAX_ITEMS = 1 << 23
# The share of deleted items from which on a segment is rewritten in ordinary upkeep.
_MAX_DELETED = 0.2
# Tail items packed at a time, by their postings (about 40 bytes each while they are sorted).
_POSTINGS_PER_BATCH = 4_000_000
_IDS_PER_DELETE = 10_000


def optimize(db: Database, corpus_id: int, max_deleted: float = _MAX_DELETED) -> dict[str, int]:
    """Pack, merge and clean the BM25 indexes of a corpus.

    `max_deleted`: a segment with a larger share of deleted items is rewritten; with 0 nothing deleted stays in any.

    Returns {packed (items taken from the tail), merged (segments that were merged or rewritten), segments (there are now),
      tombstones_removed}, summed over the kinds of items.
    """
    db.query("SELECT graphrag._bm25_lock($1)", ["int4"], [corpus_id])
    indexes = [_Kind(db, corpus_id, kind, max_deleted) for kind in KINDS]
    for kind in indexes:
        kind.build()
    # Last and together: a delete that needs a row claimed here waits until the transaction ends.
    counts = [kind.finish() for kind in indexes]
    segments = db.value(
        "SELECT pg_catalog.count(*) FROM graphrag.bm25_segments WHERE corpus_id = $1", ["int4"], [corpus_id]
    )
    return {
        "packed": sum(packed_count for packed_count, _ in counts),
        "merged": sum(kind.merged_count for kind in indexes),
        "segments": segments,
        "tombstones_removed": sum(removed_count for _, removed_count in counts),
    }


def tail_length(db: Database, corpus_id: int) -> int:
    """Return the items in the tail, or tombstones if these are more, of the kind that has most; LONGEST_TAIL: or more."""
    row = db.query(
        "SELECT pg_catalog.max(greatest("
        " (SELECT pg_catalog.count(*) FROM (SELECT FROM graphrag.bm25_tail t"
        "   WHERE t.corpus_id = $1 AND t.kind = kind LIMIT $3) AS tail),"
        " (SELECT pg_catalog.count(*) FROM (SELECT FROM graphrag.bm25_tombstones t"
        "   WHERE t.corpus_id = $1 AND t.kind = kind LIMIT $3) AS dead))) AS length FROM pg_catalog.unnest($2) AS kind",
        ["int4", "text[]", "int4"],
        [corpus_id, list(KINDS), LONGEST_TAIL],
    )[0]
    return int(row["length"])


def to_merge(live: Sequence[int], limit: int = _MAX_ITEMS) -> int:
    """Return how many of the smallest parts to merge, given live item counts in ascending order; 0 or 1: none.

    The longest prefix whose last part is less than twice all before it together (and that fits `limit`). What stays
    is at least twice the sum of all smaller parts, so there are O(log n) parts; a merged item gets into a part half as
    large again, so it is rewritten O(log n) times.
    """
    best, total = 0, 0
    for number, size in enumerate(live):
        if total + size > limit:
            break
        if number and size < 2 * total:
            best = number + 1
        total += size
    return best


@dataclass(slots=True)
class _Batch:
    """Items of the tail, in memory."""

    items: Ids
    documents: Ids
    lengths: Ordinals
    counts: TermCounts
    vocabulary: Vocabulary


_Part = Segment | _Batch


def _live(part: _Part) -> int:
    return len(part.items) if isinstance(part, _Batch) else part.count - part.deleted_count


class _Kind:
    """The run over one kind of items: `build` takes long and locks nothing; `finish` is short and claims rows."""

    def __init__(self, db: Database, corpus_id: int, kind: str, max_deleted: float):
        self.db = db
        self.max_deleted = max_deleted
        self.corpus_id = corpus_id
        self.kind = kind
        self.merged_count = 0
        self.packed_items: Ids = np.zeros(0, np.int64)
        self.tombstones: Ids = np.zeros(0, np.int64)

    def build(self) -> None:
        """Write the tail into segments, and merge segments that are due."""
        state = read_state(self.db, self.corpus_id, self.kind)
        last: _Batch | None = None
        for batch in self._batches(state):
            if last is not None:
                self._replace([last])
            self.packed_items = np.concatenate([self.packed_items, batch.items])
            last = batch
        # Read again, with the rows just written. Only this run makes or removes segments of the corpus.
        state = read_state(self.db, self.corpus_id, self.kind)
        self.tombstones = state.tombstones
        parts: list[_Part] = [*state.segments]
        if last is not None:
            parts.append(last)
        parts.sort(key=_live)
        together = to_merge([_live(part) for part in parts])
        self._replace(parts[:together])
        for part in parts[together:]:
            if isinstance(part, _Batch) or part.deleted_count > self.max_deleted * part.count:
                self._replace([part])
            elif part.unfolded:
                assert part.dead is not None
                self._fold(part, part.dead)

    def finish(self) -> tuple[int, int]:
        """Claim the tail rows that were packed and drop the tombstones that were applied; return how many of each."""
        claimed_items = self._delete("bm25_tail", self.packed_items)
        _, is_present = locate(claimed_items, self.packed_items)
        unclaimed = self.packed_items[~is_present]
        if len(unclaimed):
            for segment in read_state(self.db, self.corpus_id, self.kind).segments:
                places, is_present = locate(segment.item_ids(), unclaimed)
                if segment.folded_flags is not None:
                    is_present &= ~segment.folded_flags[places]
                if is_present.any():
                    dead = (
                        np.zeros(segment.count, np.bool_)
                        if segment.folded_flags is None
                        else segment.folded_flags.copy()
                    )
                    dead[places[is_present]] = True
                    self._fold(segment, dead)
        return len(claimed_items), len(self._delete("bm25_tombstones", self.tombstones))

    def _batches(self, state: State) -> Iterator[_Batch]:
        """Yield the tail of `state` in parts that fit in memory; items deleted meanwhile are left out."""
        start = 0
        while start < len(state.tail_items):
            vocabulary = Vocabulary()
            items: list[Ids] = [np.zeros(0, np.int64)]
            counts: list[TermCounts] = []
            item_count = size = 0
            for part, terms in read_tail(self.db, self.corpus_id, self.kind, state.tail_items[start:], vocabulary):
                items.append(part)
                counts.append(terms.shifted(item_count))
                item_count += len(part)
                size += len(terms)
                start += ROWS_PER_READ
                if size >= _POSTINGS_PER_BATCH:
                    break
            ids = np.concatenate(items)
            places, _ = locate(state.tail_items, ids)
            documents, lengths = state.tail_documents[places], state.tail_lengths[places]
            if len(ids):
                yield _Batch(ids, documents, lengths, TermCounts.join(counts), vocabulary)

    def _replace(self, parts: Sequence[_Part]) -> None:
        """Write one segment with the live items of `parts`; remove those that are segments."""
        if not parts:
            return
        live = [np.arange(len(p.items)) if isinstance(p, _Batch) else p.live_ordinals() for p in parts]
        columns = [
            (p.items, p.documents, p.lengths)
            if isinstance(p, _Batch)
            else (p.item_ids()[ordinals], p.document_ids()[ordinals], p.lengths()[ordinals])
            for p, ordinals in zip(parts, live, strict=True)
        ]
        items, documents, lengths = (np.concatenate(column) for column in zip(*columns, strict=True))
        if len(items):
            order = np.argsort(items)
            rank = np.empty(len(items), np.int32)
            rank[order] = np.arange(len(items), dtype=np.int32)
            segment_id = self._insert(items[order], documents[order], lengths[order])
            runs: list[Iterable[Entry]] = []
            start = 0
            for part, ordinals in zip(parts, live, strict=True):
                places = rank[start : start + len(ordinals)]
                start += len(ordinals)
                if isinstance(part, _Batch):
                    runs.append(tail_entries(part.counts, part.vocabulary, places))
                else:
                    new = np.full(part.count, -1, np.int32)
                    new[ordinals] = places
                    runs.append(segment_entries(self.db, part.id, new))
            write_postings(self.db, segment_id, len(items), merge_runs(runs))
        old = [part.id for part in parts if isinstance(part, Segment)]
        if old:
            self.db.query("DELETE FROM graphrag.bm25_segments WHERE id = ANY ($1)", ["int8[]"], [old])
            self.merged_count += len(old)

    def _insert(self, items: Ids, documents: Ids, lengths: Ordinals) -> int:
        segment_id: int = self.db.value(
            "INSERT INTO graphrag.bm25_segments"
            " (corpus_id, kind, item_count, total_length, item_ids, document_ids, lengths)"
            " VALUES ($1, $2, $3, $4, $5, $6, $7) RETURNING id",
            ["int4", "text", "int4", "int8", "bytea", "bytea", "bytea"],
            [
                self.corpus_id,
                self.kind,
                len(items),
                int(lengths.sum(dtype=np.int64)),
                items.astype("<i8").tobytes(),
                documents.astype("<i8").tobytes(),
                lengths.astype("<i4").tobytes(),
            ],
        )
        return segment_id

    def _fold(self, segment: Segment, dead: NDArray[np.bool_]) -> None:
        """Replace the deletions of a segment."""
        self.db.query("DELETE FROM graphrag.bm25_deletions WHERE segment_id = $1", ["int8"], [segment.id])
        self.db.query(
            "INSERT INTO graphrag.bm25_deletions (segment_id, deleted_count, deleted_length, bitmap)"
            " VALUES ($1, $2, $3, $4)",
            ["int8", "int4", "int8", "bytea"],
            [
                segment.id,
                int(np.count_nonzero(dead)),
                int(segment.lengths()[dead].sum(dtype=np.int64)),
                np.packbits(dead).tobytes(),
            ],
        )

    def _delete(self, table: str, items: Ids) -> Ids:
        """Delete rows of these items that nobody has locked; return the items deleted, ascending."""
        parts = [np.zeros(0, np.int64)]
        for start in range(0, len(items), _IDS_PER_DELETE):
            rows = self.db.query(
                f"WITH gone AS (DELETE FROM graphrag.{table} WHERE ctid = ANY (ARRAY("
                f" SELECT t.ctid FROM graphrag.{table} t"
                "   WHERE t.corpus_id = $1 AND t.kind = $2 AND t.item_id = ANY ($3) FOR UPDATE SKIP LOCKED))"
                " RETURNING item_id)"
                " SELECT pg_catalog.string_agg(pg_catalog.int8send(item_id), '') AS items FROM gone",
                ["int4", "text", "int8[]"],
                [self.corpus_id, self.kind, items[start : start + _IDS_PER_DELETE].tolist()],
            )
            parts.append(np.frombuffer(rows[0]["items"] or b"", ">i8").astype(np.int64))
        return np.sort(np.concatenate(parts))
