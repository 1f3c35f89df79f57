"""Runs of postings in the order of terms, their k-way merge, and the rows they become."""

import heapq
from collections.abc import Iterable, Iterator, Sequence
from itertools import groupby
from operator import itemgetter
from typing import Any

from pg_graphrag.ground.numeric import NDArray, np
from pg_graphrag.index.bm25.segments import Ordinals, Postings
from pg_graphrag.index.bm25.tail import TermCounts, Vocabulary
from pg_graphrag.server import Database

# Memory of one read or write: about this many postings (5 bytes each), and rows.
_POSTINGS_PER_STEP = 4_000_000
_ROWS_PER_STEP = 4000

# A term with its new ordinals (ascending, int32) and frequencies (int32, or uint8 where none is above 255).
Entry = tuple[str, Ordinals, NDArray[np.integer[Any]]]


def tail_entries(counts: TermCounts, vocabulary: Vocabulary, places: Ordinals) -> Iterator[Entry]:
    """Yield the postings of items of the tail in the order of terms; `places` maps their place to the new ordinal."""
    terms = sorted(vocabulary)
    rank = np.empty(len(terms), np.int64)
    rank[[vocabulary[term] for term in terms]] = np.arange(len(terms))
    ordinals = places[counts.places]
    order = np.argsort((rank[counts.terms] << 32) | ordinals)
    ordinals, frequencies = ordinals[order], counts.frequencies[order]
    if len(frequencies) and int(frequencies.max()) <= 255:
        # Once, where `_stored_form` would do it for each term.
        frequencies = frequencies.astype(np.uint8)
    ends = np.cumsum(np.bincount(rank[counts.terms], minlength=len(terms))).tolist()
    start = 0
    for term, end in zip(terms, ends, strict=True):
        if end > start:
            yield term, ordinals[start:end], frequencies[start:end]
        start = end


def segment_entries(db: Database, segment_id: int, places: Ordinals) -> Iterator[Entry]:
    """Yield the postings of a segment in the order of terms, without items whose place is −1."""
    last, keeps_all = "", bool((places >= 0).all())
    while True:
        rows = db.query(
            "SELECT r.term, r.df, r.ordinals, r.frequencies, r.overflow"
            "  FROM (SELECT p.*, pg_catalog.sum(p.df) OVER (ORDER BY p.term ROWS UNBOUNDED PRECEDING) AS total"
            "          FROM (SELECT * FROM graphrag.bm25_postings"
            "                 WHERE segment_id = $1 AND term > $2 ORDER BY term LIMIT $3) p) r"
            " WHERE r.total - r.df <= $4 ORDER BY r.term",
            ["int8", "text", "int4", "int8"],
            [segment_id, last, _ROWS_PER_STEP, _POSTINGS_PER_STEP],
        )
        if not rows:
            return
        for row in rows:
            postings = Postings.unpack(row["df"], row["ordinals"], row["frequencies"], row["overflow"])
            old, frequencies = postings.ordinals, postings.frequencies
            if old is None:
                old = np.flatnonzero(frequencies).astype(np.int32)
                frequencies = frequencies[old]
            new = places[old]
            if not keeps_all:
                is_kept = new >= 0
                new, frequencies = new[is_kept], frequencies[is_kept]
            if len(new):
                yield row["term"], new, frequencies
        last = rows[-1]["term"]


def merge_runs(runs: Sequence[Iterable[Entry]]) -> Iterator[Entry]:
    """Merge runs that have disjoint ordinals."""
    if len(runs) == 1:
        yield from runs[0]
        return
    for term, group in groupby(heapq.merge(*runs, key=itemgetter(0)), key=itemgetter(0)):
        entries = list(group)
        if len(entries) == 1:
            yield entries[0]
            continue
        ordinals = np.concatenate([entry[1] for entry in entries])
        frequencies = np.concatenate([entry[2] for entry in entries])
        if (ordinals[1:] < ordinals[:-1]).any():
            order = np.argsort(ordinals)
            ordinals, frequencies = ordinals[order], frequencies[order]
        yield term, ordinals, frequencies


def write_postings(db: Database, segment_id: int, item_count: int, entries: Iterable[Entry]) -> None:
    """Insert the rows of a segment, some thousand at a time."""
    rows: list[tuple[str, int, bytes | None, bytes, bytes | None]] = []
    size = 0

    def flush() -> None:
        if rows:
            db.query(
                "INSERT INTO graphrag.bm25_postings (segment_id, term, df, ordinals, frequencies, overflow)"
                " SELECT $1, r.* FROM unnest($2, $3, $4, $5, $6) AS r",
                ["int8", "text[]", "int4[]", "bytea[]", "bytea[]", "bytea[]"],
                [segment_id, *(list(column) for column in zip(*rows, strict=True))],
            )
            rows.clear()

    for term, ordinals, frequencies in entries:
        rows.append((term, len(ordinals), *_stored_form(item_count, ordinals, frequencies)))
        size += len(ordinals)
        if len(rows) >= _ROWS_PER_STEP or size >= _POSTINGS_PER_STEP:
            flush()
            size = 0
    flush()


def _stored_form(
    item_count: int, ordinals: Ordinals, frequencies: NDArray[np.integer[Any]]
) -> tuple[bytes | None, bytes, bytes | None]:
    """Return ordinals, frequencies and overflow as stored: whichever of the list and the full array is smaller."""
    # Most terms are rare, and each numpy call costs a microsecond: hence no more of them than needed.
    is_dense = 5 * len(ordinals) > item_count
    overflow = None
    if frequencies.dtype != np.uint8:
        if int(np.max(frequencies)) > 255:
            big = np.flatnonzero(frequencies > 255)
            overflow = _pairs(ordinals[big] if is_dense else big, frequencies[big])
            frequencies = np.minimum(frequencies, 255)
        frequencies = frequencies.astype(np.uint8)
    if not is_dense:
        return ordinals.astype("<i4", copy=False).tobytes(), frequencies.tobytes(), overflow
    dense = np.zeros(item_count, np.uint8)
    dense[ordinals] = frequencies
    return None, dense.tobytes(), overflow


def _pairs(places: NDArray[np.integer[Any]], frequencies: NDArray[np.integer[Any]]) -> bytes:
    return np.stack([places, frequencies], axis=1).astype("<i4").tobytes()
