"""The reads of a search: one statement for the state of an index, and arrays of immutable segments from the session
cache.
"""

from collections import OrderedDict
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

from pg_graphrag.ground.numeric import NDArray, np
from pg_graphrag.server import Database
from pg_graphrag.server.corpus.corpora import REVISION

Ids = NDArray[np.int64]
Ordinals = NDArray[np.int32]

# Private memory of a session for lengths, ids and deletions of segments: 20 bytes an item.
CACHE_BYTES = 64 << 20


class Moved(Exception):
    """A row named by an earlier statement is gone: optimize() committed in between. Read the state again."""


@dataclass(slots=True)
class Postings:
    """Items of one source that contain a term.

    `ordinals` ascend, int32 (df,), with `frequencies` (df,) beside them; where `ordinals` is None, `frequencies` has
    one entry for every item, 0 where the term is absent.
    """

    df: int
    ordinals: Ordinals | None
    frequencies: NDArray[np.integer[Any]]

    @classmethod
    def unpack(cls, df: int, ordinals: bytes | None, frequencies: bytes, overflow: bytes | None) -> "Postings":
        """Decode a row of bm25_postings."""
        counts: NDArray[np.integer[Any]] = np.frombuffer(frequencies, np.uint8)
        if overflow is not None:
            places, values = np.frombuffer(overflow, "<i4").reshape(-1, 2).T
            counts = counts.astype(np.int32)
            counts[places] = values
        return cls(df, None if ordinals is None else np.frombuffer(ordinals, "<i4"), counts)

    def at(self, ordinals: NDArray[np.integer[Any]]) -> NDArray[np.integer[Any]]:
        """Return the term's frequency in the items at `ordinals`, 0 where it is absent."""
        frequencies: NDArray[np.integer[Any]]
        if self.ordinals is None:
            frequencies = self.frequencies[ordinals]
        elif not len(self.ordinals):
            frequencies = np.zeros(len(ordinals), self.frequencies.dtype)
        else:
            # With another type, all ordinals of the term would be copied.
            ordinals = ordinals.astype(self.ordinals.dtype, copy=False)
            places = self.ordinals.searchsorted(ordinals)
            frequencies = self.frequencies.take(places, mode="clip")
            frequencies *= self.ordinals.take(places, mode="clip") == ordinals
        return frequencies


@dataclass(slots=True)
class Segment:
    """One segment as a snapshot sees it.

    `dead` is a bool for every ordinal, None where nothing is deleted; `folded_flags` are those of bm25_deletions.
    """

    id: int
    count: int
    length: int
    deletions_id: int | None
    deleted_count: int
    deleted_length: int
    arrays: "Arrays"
    postings: dict[str, Postings] = field(default_factory=dict)
    dead: NDArray[np.bool_] | None = None
    folded_flags: NDArray[np.bool_] | None = None

    @property
    def unfolded(self) -> bool:
        """Whether tombstones name items of this segment."""
        return self.dead is not self.folded_flags

    def live_ordinals(self) -> Ids:
        """Ordinals of items that are not deleted, ascending."""
        return np.arange(self.count) if self.dead is None else np.flatnonzero(~self.dead)

    def item_ids(self) -> Ids:
        """Items in ascending order, (count,)."""
        return self.arrays.of_segment(self.id, "item_ids", "<i8")

    def document_ids(self) -> Ids:
        """Document of each item, (count,)."""
        return self.arrays.of_segment(self.id, "document_ids", "<i8")

    def lengths(self) -> Ordinals:
        """Indexed terms of each item, (count,)."""
        return self.arrays.of_segment(self.id, "lengths", "<i4")

    def df(self, term: str) -> int:
        """Items that contain `term` and are not deleted."""
        postings = self.postings.get(term)
        if postings is None:
            return 0
        if self.dead is None:
            return postings.df
        if postings.ordinals is None:
            return postings.df - int(np.count_nonzero(postings.frequencies[self.dead]))
        return postings.df - int(np.count_nonzero(self.dead[postings.ordinals]))


@dataclass(slots=True)
class State:
    """An index in one snapshot: its segments with the postings of the terms asked for, and the items of the tail.

    `relation` is the oid of bm25_segments: after DROP and CREATE EXTENSION ids count from 1 again, and caches are void.
    `revision` is the corpus' (`Corpus.revision`) in that snapshot.
    """

    relation: int
    revision: str | None
    segments: list[Segment]
    tail_items: Ids
    tail_documents: Ids
    tail_lengths: Ordinals
    tombstones: Ids

    @property
    def count(self) -> int:
        """N: live items."""
        return sum(segment.count - segment.deleted_count for segment in self.segments) + len(self.tail_items)

    @property
    def length(self) -> int:
        """Sum of the lengths of live items."""
        live = sum(segment.length - segment.deleted_length for segment in self.segments)
        return live + int(self.tail_lengths.sum(dtype=np.int64))


class Arrays:
    """Arrays of immutable rows, least recently used ones forgotten beyond `CACHE_BYTES`."""

    def __init__(self, db: Database):
        self.db = db
        self.size = 0
        self._cache: OrderedDict[tuple[str, int], NDArray[Any]] = OrderedDict()

    def of_segment(self, segment_id: int, column: str, dtype: str) -> NDArray[Any]:
        """Return a column of bm25_segments as an array."""
        return self._get(
            column, segment_id, lambda: np.frombuffer(self._read_bytes("segments", column, segment_id), dtype)
        )

    def deletions(self, deletions_id: int, count: int) -> NDArray[np.bool_]:
        """Return the deletion map as a bool for each of `count` ordinals."""

        def load() -> NDArray[np.bool_]:
            bits = np.frombuffer(self._read_bytes("deletions", "bitmap", deletions_id), np.uint8)
            return np.unpackbits(bits, count=count).view(np.bool_)

        return self._get("bitmap", deletions_id, load)

    def _read_bytes(self, table: str, column: str, row_id: int) -> bytes:
        rows = self.db.query(f"SELECT {column} FROM graphrag.bm25_{table} WHERE id = $1", ["int8"], [row_id])
        if not rows:
            raise Moved
        return bytes(rows[0][column])

    def _get(self, name: str, row_id: int, load: Callable[[], NDArray[Any]]) -> NDArray[Any]:
        key = (name, row_id)
        if key in self._cache:
            self._cache.move_to_end(key)
            return self._cache[key]
        array = load()
        if array.nbytes <= CACHE_BYTES:
            self._cache[key] = array
            self.size += array.nbytes
            while self.size > CACHE_BYTES:
                self.size -= self._cache.popitem(last=False)[1].nbytes
        return array


# One statement, so that under READ COMMITTED too everything comes from one snapshot.
_STATE = f"""
SELECT 'segment' AS part,
       'graphrag.bm25_segments'::pg_catalog.regclass::pg_catalog.oid AS relation,
       s.id,
       NULL::pg_catalog.text AS term,
       s.item_count AS count,
       s.total_length AS length,
       d.id AS deletions_id,
       d.deleted_count,
       d.deleted_length,
       NULL::pg_catalog.bytea AS a,
       NULL::pg_catalog.bytea AS b,
       NULL::pg_catalog.bytea AS c
  FROM graphrag.bm25_segments s
  LEFT JOIN graphrag.bm25_deletions d ON d.segment_id = s.id
 WHERE s.corpus_id = $1 AND s.kind = $2
UNION ALL
SELECT 'tail', 'graphrag.bm25_segments'::pg_catalog.regclass::pg_catalog.oid, NULL,
       {REVISION.format(corpus="$1")}, NULL, NULL, NULL, NULL, NULL,
       pg_catalog.string_agg(pg_catalog.int8send(t.item_id), '' ORDER BY t.item_id),
       pg_catalog.string_agg(pg_catalog.int8send(t.document_id), '' ORDER BY t.item_id),
       pg_catalog.string_agg(pg_catalog.int4send(t.length), '' ORDER BY t.item_id)
  FROM graphrag.bm25_tail t
 WHERE t.corpus_id = $1 AND t.kind = $2
UNION ALL
SELECT 'tombstones', NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL,
       pg_catalog.string_agg(pg_catalog.int8send(t.item_id), '' ORDER BY t.item_id), NULL, NULL
  FROM graphrag.bm25_tombstones t
 WHERE t.corpus_id = $1 AND t.kind = $2
"""
_POSTINGS = """
UNION ALL
SELECT 'postings', NULL, p.segment_id, p.term, p.df, NULL, NULL, NULL, NULL, p.ordinals, p.frequencies, p.overflow
  FROM graphrag.bm25_segments s
  JOIN graphrag.bm25_postings p ON p.segment_id = s.id
 WHERE s.corpus_id = $1 AND s.kind = $2 AND p.term = ANY ($3)
"""

_caches: dict[int, Arrays] = {}


def forget() -> None:
    """Hold nothing of any segment."""
    _caches.clear()


def arrays_of(db: Database, relation: int) -> Arrays:
    """Return the session's cache for the extension whose bm25_segments has that oid."""
    cache = _caches.get(relation)
    if cache is None or cache.db is not db:
        _caches.clear()
        cache = _caches[relation] = Arrays(db)
    return cache


def read_state(db: Database, corpus_id: int, kind: str, terms: Sequence[str] = ()) -> State:
    """Read the state of an index, with the postings of `terms`.

    Raises Moved: optimize() replaced a segment while it was being read (only where each statement has a snapshot of its own).
    """
    if terms:
        types, values = ["int4", "text", "text[]"], [corpus_id, kind, list(terms)]
        rows = db.query(_STATE + _POSTINGS, types, values)
    else:
        rows = db.query(_STATE, ["int4", "text"], [corpus_id, kind])
    tail = next(row for row in rows if row["part"] == "tail")
    arrays = arrays_of(db, tail["relation"])
    segments = {
        row["id"]: Segment(
            row["id"],
            row["count"],
            row["length"],
            row["deletions_id"],
            row["deleted_count"] or 0,
            row["deleted_length"] or 0,
            arrays,
        )
        for row in rows
        if row["part"] == "segment"
    }
    for row in rows:
        if row["part"] == "postings":
            segments[row["id"]].postings[row["term"]] = Postings.unpack(row["count"], row["a"], row["b"], row["c"])
    tombstones = next(row["a"] for row in rows if row["part"] == "tombstones")
    state = State(
        tail["relation"],
        tail["term"],
        sorted(segments.values(), key=lambda segment: segment.id),
        np.frombuffer(tail["a"] or b"", ">i8").astype(np.int64),
        np.frombuffer(tail["b"] or b"", ">i8").astype(np.int64),
        np.frombuffer(tail["c"] or b"", ">i4").astype(np.int32),
        np.frombuffer(tombstones or b"", ">i8").astype(np.int64),
    )
    for segment in state.segments:
        _bury(segment, state.tombstones)
    return state


def locate(sorted_ids: Ids, ids: Ids) -> tuple[Ids, NDArray[np.bool_]]:
    """Return the places of `ids` in `sorted_ids` and which of them are there."""
    if not len(sorted_ids):
        return np.zeros(len(ids), np.int64), np.zeros(len(ids), np.bool_)
    places = sorted_ids.searchsorted(ids)
    np.minimum(places, len(sorted_ids) - 1, out=places)
    return places, sorted_ids.take(places) == ids


def _bury(segment: Segment, tombstones: Ids) -> None:
    """Set `dead` from the folded deletions and the tombstones, and count the latter in."""
    if segment.deletions_id is not None:
        segment.dead = segment.folded_flags = segment.arrays.deletions(segment.deletions_id, segment.count)
    if len(tombstones):
        places, is_present = locate(segment.item_ids(), tombstones)
        places = places[is_present]
        if segment.dead is not None:
            places = places[~segment.dead[places]]
        if len(places):
            dead = np.zeros(segment.count, np.bool_) if segment.dead is None else segment.dead.copy()
            dead[places] = True
            segment.dead = dead
            segment.deleted_count += len(places)
            segment.deleted_length += int(segment.lengths()[places].sum(dtype=np.int64))
