"""A small index in a session's memory: its items, and the postings of the terms searched so far.

The content of an index is a function of the corpus' revision, however it is packed.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from pg_graphrag.ground.numeric import np
from pg_graphrag.index.bm25.scan import Source
from pg_graphrag.index.bm25.segments import Ids, Ordinals, Postings, State
from pg_graphrag.server.caches.session_cache import cache
from pg_graphrag.server.corpus.corpora import Corpus

# Larger indexes are not cached.
MAX_ITEMS = 20_000


@dataclass
class CachedIndex:
    """Live items in ascending order, with their documents and lengths, all (n,), and postings by term (ordinals: places)."""

    items: Ids
    documents: Ids
    lengths: Ordinals
    length: int
    postings: dict[str, Postings] = field(default_factory=dict)

    @classmethod
    def of(cls, sources: Sequence[Source]) -> "CachedIndex":
        """Join the items of segments and tail."""
        live = [slice(None) if source.dead is None else ~source.dead for source in sources]
        items = _concatenated([source.item_ids()[rows] for source, rows in zip(sources, live, strict=True)], np.int64)
        documents = _concatenated(
            [source.document_ids()[rows] for source, rows in zip(sources, live, strict=True)], np.int64
        )
        lengths = _concatenated([source.lengths()[rows] for source, rows in zip(sources, live, strict=True)], np.int32)
        order = np.argsort(items)
        return cls(items[order], documents[order], lengths[order], int(lengths.sum(dtype=np.int64)))

    def absorb(self, terms: Sequence[str], sources: Sequence[Source]) -> None:
        """Take the postings of `terms` over; the sources hold the same items, whatever their packing."""
        for term in terms:
            parts = [_live(source, term) for source in sources if term in source.postings]
            places = np.searchsorted(self.items, _concatenated([ids for ids, _ in parts], np.int64)).astype(np.int32)
            frequencies = _concatenated([tf for _, tf in parts], np.int32)
            order = np.argsort(places)
            self.postings[term] = Postings(len(order), places[order], frequencies[order])

    @property
    def nbytes(self) -> int:
        """Bytes of the arrays, and about those of the objects."""
        return 20 * len(self.items) + sum(8 * posting.df + 200 for posting in self.postings.values())

    def source(self, terms: Sequence[str]) -> Source:
        """Return the cached index as a source for a search of `terms`."""
        postings = {term: posting for term in terms if (posting := self.postings[term]).df}
        return Source(
            len(self.items),
            lambda: self.items,
            lambda: self.documents,
            lambda: self.lengths,
            lambda term: postings[term].df if term in postings else 0,
            postings,
            None,
        )


def cached_index(corpus: Corpus, kind: str) -> CachedIndex | None:
    """Return the index as far as it is cached for this revision."""
    cached: CachedIndex | None = cache.get(corpus, ("bm25", corpus.id, kind))
    return cached


def extend_cached_index(
    corpus: Corpus, kind: str, state: State, terms: Sequence[str], sources: Sequence[Source]
) -> CachedIndex | None:
    """Cache the postings of more terms; None where the index is large, or its revision is asked for the first time.

    The next query begins an index anew that has grown too large.
    """
    cached = cached_index(corpus, kind)
    if cached is None:
        if state.count > MAX_ITEMS or not cache.earlier_queries(corpus):
            return None
        cached = CachedIndex.of(sources)
    cached.absorb(terms, sources)
    cache.put(corpus, ("bm25", corpus.id, kind), cached, cached.nbytes)
    return cached


def _concatenated(parts: Sequence[Any], kind: Any) -> Any:
    return np.concatenate([np.zeros(0, kind), *parts]).astype(kind, copy=False)


def _live(source: Source, term: str) -> tuple[Ids, Any]:
    postings = source.postings[term]
    ordinals, frequencies = postings.ordinals, postings.frequencies
    if ordinals is None:
        ordinals = np.flatnonzero(frequencies).astype(np.int32)
        frequencies = frequencies[ordinals]
    if source.dead is not None:
        alive = ~source.dead[ordinals]
        ordinals, frequencies = ordinals[alive], frequencies[alive]
    return source.item_ids()[ordinals], frequencies
