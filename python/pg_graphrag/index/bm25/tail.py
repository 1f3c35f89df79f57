"""The tail: items that are not packed yet, as postings in the session's memory."""

from collections.abc import Iterator, Sequence

from pg_graphrag.ground.numeric import NDArray, np
from pg_graphrag.index.bm25.segments import Ids, Moved, Ordinals, Postings, State, locate
from pg_graphrag.server import Database

# Postings of a tail that a session caches (12 bytes each); every search reads the items beyond again: exact, but slow.
CACHED_POSTINGS = 4_000_000
ROWS_PER_READ = 500


class Vocabulary(dict[str, int]):
    """Numbers terms in the order they are first asked for."""

    def __missing__(self, term: str) -> int:
        number = self[term] = len(self)
        return number


class TermCounts:
    """Parallel arrays, int32 (m,): the place of an item, the number of a term, the term's frequency in the item."""

    __slots__ = ("frequencies", "places", "terms")

    def __init__(self, places: Ordinals, terms: Ordinals, frequencies: Ordinals):
        self.places = places
        self.terms = terms
        self.frequencies = frequencies

    @classmethod
    def join(cls, parts: Sequence["TermCounts"]) -> "TermCounts":
        """Concatenate."""
        no_rows = np.zeros(0, np.int32)
        return cls(
            np.concatenate([no_rows, *(part.places for part in parts)]),
            np.concatenate([no_rows, *(part.terms for part in parts)]),
            np.concatenate([no_rows, *(part.frequencies for part in parts)]),
        )

    def select(self, which: NDArray[np.bool_] | Ids) -> "TermCounts":
        """Return the entries where `which` is true, or at the places that it lists."""
        return TermCounts(self.places[which], self.terms[which], self.frequencies[which])

    def shifted(self, offset: int) -> "TermCounts":
        """Return the counts with `offset` added to the places."""
        return TermCounts(self.places + np.int32(offset), self.terms, self.frequencies)

    def __len__(self) -> int:
        return len(self.places)


def read_tail(
    db: Database, corpus_id: int, kind: str, items: Ids, vocabulary: Vocabulary
) -> Iterator[tuple[Ids, TermCounts]]:
    """Read items of the tail, `ROWS_PER_READ` at a time; yield those still there and their terms (places from 0)."""
    for start in range(0, len(items), ROWS_PER_READ):
        rows = db.query(
            "SELECT item_id, terms, frequencies FROM graphrag.bm25_tail"
            " WHERE corpus_id = $1 AND kind = $2 AND item_id = ANY ($3) ORDER BY item_id",
            ["int4", "text", "int8[]"],
            [corpus_id, kind, items[start : start + ROWS_PER_READ].tolist()],
        )
        numbers: list[int] = []
        for row in rows:
            numbers.extend(map(vocabulary.__getitem__, row["terms"]))
        counts = np.array([len(row["terms"]) for row in rows], np.int64)
        yield (
            np.array([row["item_id"] for row in rows], np.int64),
            TermCounts(
                np.repeat(np.arange(len(rows), dtype=np.int32), counts),
                np.array(numbers, np.int32),
                np.frombuffer(b"".join(row["frequencies"] for row in rows), ">i4").astype(np.int32),
            ),
        )


class Tail:
    """The tail of one index as last seen by this session, brought up to date by `follow`."""

    def __init__(self, db: Database, corpus_id: int, kind: str, epoch: int):
        self.db = db
        self.epoch = epoch
        self.corpus_id = corpus_id
        self.kind = kind
        self._forget()

    def _forget(self) -> None:
        self._items = np.zeros(0, np.int64)
        self._counts = TermCounts.join([])
        self._vocabulary = Vocabulary()

    def follow(self, state: State, terms: Sequence[str]) -> dict[str, Postings]:
        """Return the postings of `terms` in the tail of `state`; ordinals are places in ``state.tail_items``.

        Items never change, so only new ones are read.
        """
        self._drop_missing(state.tail_items)
        _, is_cached = locate(self._items, state.tail_items)
        new = state.tail_items[~is_cached]
        read_count = self._absorb(new)
        extra = self._counts_of(new[read_count:], terms)
        places = np.searchsorted(state.tail_items, np.concatenate([self._items, new[read_count:]])).astype(np.int32)
        cached_counts = self._counts_of_all(terms)
        postings = {}
        for term in terms:
            cached = cached_counts.select(cached_counts.terms == self._vocabulary.get(term, -1))
            all_counts = TermCounts.join([cached, *(part.shifted(len(self._items)) for part in extra.get(term, ()))])
            if len(all_counts):
                ordinals = places[all_counts.places]
                order = np.argsort(ordinals)
                postings[term] = Postings(len(order), ordinals[order], all_counts.frequencies[order])
        return postings

    def _counts_of_all(self, terms: Sequence[str]) -> TermCounts:
        """Return the cached counts of `terms`, made in one pass over the whole tail, however many there are."""
        is_asked = np.zeros(len(self._vocabulary), np.bool_)
        is_asked[[self._vocabulary[term] for term in terms if term in self._vocabulary]] = True
        return self._counts.select(np.flatnonzero(is_asked[self._counts.terms]))

    def _drop_missing(self, items: Ids) -> None:
        """Forget items that left the tail."""
        _, is_kept = locate(items, self._items)
        if is_kept.all():
            return
        if not is_kept.any():
            self._forget()
            return
        self._counts = self._counts.select(is_kept[self._counts.places])
        self._counts.places = (np.cumsum(is_kept, dtype=np.int32) - np.int32(1))[self._counts.places]
        self._items = self._items[is_kept]

    def _absorb(self, new: Ids) -> int:
        """Read new items as far as there is room; return how many. Keeps items sorted."""
        if not len(new):
            return 0
        items, parts = [self._items], [self._counts]
        item_count, size = len(self._items), len(self._counts)
        for part, counts in self._read_items(new, self._vocabulary):
            size += len(counts)
            if size > CACHED_POSTINGS:
                break
            items.append(part)
            parts.append(counts.shifted(item_count))
            item_count += len(part)
        ids, all_counts = np.concatenate(items), TermCounts.join(parts)
        order = np.argsort(ids)
        rank = np.empty(item_count, np.int32)
        rank[order] = np.arange(item_count, dtype=np.int32)
        all_counts.places = rank[all_counts.places]
        read_count = item_count - len(self._items)
        self._items, self._counts = ids[order], all_counts
        return read_count

    def _counts_of(self, items: Ids, terms: Sequence[str]) -> dict[str, list[TermCounts]]:
        """Read items beyond the cache, and return the counts of `terms`."""
        counts_by_term: dict[str, list[TermCounts]] = {term: [] for term in terms}
        start = 0
        for part, counts in self._read_items(items, vocabulary := Vocabulary()):
            for term in terms:
                counts_by_term[term].append(counts.select(counts.terms == vocabulary.get(term, -1)).shifted(start))
            start += len(part)
        return counts_by_term

    def _read_items(self, items: Ids, vocabulary: Vocabulary) -> Iterator[tuple[Ids, TermCounts]]:
        """Read items of the tail; `Moved` when one of them is there no more."""
        position = 0
        for part, counts in read_tail(self.db, self.corpus_id, self.kind, items, vocabulary):
            if not np.array_equal(part, items[position : position + ROWS_PER_READ]):
                raise Moved
            position += len(part)
            yield part, counts
