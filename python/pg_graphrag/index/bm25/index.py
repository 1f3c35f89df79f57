"""Search, exact scores and statistics of one BM25 index; a session keeps a small index in memory.

The results depend on the corpus' revision alone, not on how the index is packed.
"""

import math
from collections import Counter, OrderedDict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeVar

from pg_graphrag.ground.errors import GraphRAGError
from pg_graphrag.ground.numeric import np, within
from pg_graphrag.index.bm25.scoring import K1, B, Best, Floats, Saturation, Source, idf, scan
from pg_graphrag.index.bm25.segments import Ids, Moved, Ordinals, Postings, State, locate, read_state
from pg_graphrag.index.bm25.tail import Tail
from pg_graphrag.server import Database
from pg_graphrag.server.caches.session_cache import cache
from pg_graphrag.server.corpus.corpora import Corpus

KINDS = ("chunk", "entity_mention", "relationship_mention")

Terms = Sequence[str] | Mapping[str, float]
# The number of items, and the sum of their lengths.
Totals = tuple[int, int]
Result = TypeVar("Result")

# Under READ COMMITTED each retry means one more optimize() or delete that committed between two statements.
_ATTEMPTS = 10
# Tails a session keeps in memory: a few corpora with three kinds each.
_KEPT_TAILS = 12
_tails: OrderedDict[tuple[int, str], Tail] = OrderedDict()
# Larger indexes are not cached.
MAX_CACHED_ITEMS = 20_000


class BM25Index:
    """The items of one kind of one corpus.

    `corpus_id`: corpus. One without items, or unknown, is an empty index.
    `kind`: ``chunk``, ``entity_mention`` or ``relationship_mention``; each has its own N, df and avgdl.
    `corpus`: the same corpus as a query found it: a small index is then cached in the session.

    Terms are lexemes, as they stand in the items' tsvectors. A sequence counts a term as often as it occurs in it
    (query term frequency as a linear weight); a mapping gives each term's weight: finite, not negative, 0: left out.
    Scores are sums in one order (df, then term) of one formula: the same bits wherever an item lies.
    An object caches its last read for searches of the same terms: make one for each query.
    """

    def __init__(self, db: Database, corpus_id: int, kind: str, corpus: Corpus | None = None):
        if kind not in KINDS:
            raise GraphRAGError(f'unknown kind of BM25 item "{kind}"', hint=f"Use one of {', '.join(KINDS)}.")
        self.db = db
        self.corpus_id = corpus_id
        self.kind = kind
        self.corpus = corpus
        self._last: tuple[list[str], Totals, list[Source]] | None = None

    def search(
        self,
        terms: Terms,
        limit: int,
        *,
        documents: Ids | None = None,
        idf: str = "lucene",
        k1: float = K1,
        b: float = B,
    ) -> tuple[Ids, Floats]:
        """Return the best items that contain at least one of `terms`.

        `terms` (sequence of str, or mapping of str to float): query lexemes, see above.
        `limit`: items wanted. *All* items that tie with the last of them are returned too: the caller breaks ties.
        `documents` (array of int64, shape (m,)): documents in ascending order that may appear in the result. Statistics
          ignore it.
        `idf`: ``lucene``, ``robertson`` or ``robertson_clipped``.
        `k1`, `b`: saturation of the term frequency; share of length normalisation.

        Returns (item_ids, scores), (n,) int64 and float64, by score, best first, then by id.
        """
        if limit < 0:
            raise GraphRAGError(f"limit must not be negative, it is {limit}", hint="0 returns no rows.")
        weights = _weights(terms)

        def run() -> tuple[Ids, Floats]:
            totals, sources = self._read_sources(weights)
            saturation, factors = _plan(totals, sources, weights, idf, k1, b)
            best = Best(limit, documents)
            if limit:
                for source in sources:
                    scan(source, factors, saturation, best)
            return best.result()

        return self._with_retries(run)

    def matching(self, terms: Terms, *, documents: Ids | None = None, idf: str = "lucene") -> tuple[Ids, Floats]:
        """Return (item ids ascending, scores), (n,) each, of *all* items that contain at least one of `terms`.

        Parameters are those of `search`, and so are the scores, to the bit; for callers that need no order.
        """
        weights = _weights(terms)

        def run() -> tuple[Ids, Floats]:
            totals, sources = self._read_sources(weights)
            saturation, factors = _plan(totals, sources, weights, idf, K1, B)
            ids: list[Ids] = [np.empty(0, np.int64)]
            scores: list[Floats] = [np.empty(0)]
            for source in sources:
                ordinals, item_scores = source.matching(factors, saturation)
                if documents is not None:
                    is_visible = within(source.document_ids()[ordinals], documents)
                    ordinals, item_scores = ordinals[is_visible], item_scores[is_visible]
                ids.append(source.item_ids()[ordinals])
                scores.append(item_scores)
            items = np.concatenate(ids)
            order = np.argsort(items)
            return items[order], np.concatenate(scores)[order]

        return self._with_retries(run)

    def score_items(self, terms: Terms, item_ids: Ids, *, idf: str = "lucene") -> Floats:
        """Return the scores of given items, float64 (n,): 0 without any of the terms, NaN for items that are not in the
        index.

        Parameters as in `search`; the scores by K1 and B are the same bits.
        """
        weights = _weights(terms)

        def run() -> Floats:
            totals, sources = self._read_sources(weights)
            saturation, factors = _plan(totals, sources, weights, idf, K1, B)
            scores: Floats = np.full(len(item_ids), np.nan)
            for source in sources:
                places, is_present = locate(source.item_ids(), np.asarray(item_ids, np.int64))
                if source.dead is not None:
                    is_present &= ~source.dead[places]
                scores[is_present] = source.scores_at(places[is_present], factors, saturation)
            return scores

        return self._with_retries(run)

    def term_counts(self, terms: Sequence[str], item_ids: Ids) -> tuple[Floats, Floats]:
        """Return (how often each term occurs in each item, (terms, n) float64; lengths of the items in terms, (n,)
        float64).

        0 for items that are not in the index.
        """

        def run() -> tuple[Floats, Floats]:
            _, sources = self._read_sources(dict.fromkeys(terms, 1.0))
            counts: Floats = np.zeros((len(terms), len(item_ids)))
            lengths: Floats = np.zeros(len(item_ids))
            for source in sources:
                places, is_present = locate(source.item_ids(), np.asarray(item_ids, np.int64))
                if source.dead is not None:
                    is_present &= ~source.dead[places]
                places = places[is_present]
                lengths[is_present] = source.lengths()[places]
                for row, term in zip(counts, terms, strict=True):
                    if term in source.postings:
                        row[is_present] = source.postings[term].at(places)
            return counts, lengths

        return self._with_retries(run)

    def statistics(self) -> tuple[int, float]:
        """Return (N, avgdl): the number of items and their mean length in terms (0.0 when there are none)."""
        if self._last is not None:
            count, length = self._last[1]
        elif self.corpus is not None and (cached := cached_index(self.corpus, self.kind)) is not None:
            count, length = len(cached.items), cached.length
        else:
            state = self._with_retries(lambda: read_state(self.db, self.corpus_id, self.kind))
            count, length = state.count, state.length
        return count, length / count if count else 0.0

    def items_of(self, documents: Ids) -> Ids:
        """Return the items of documents, both ascending int64, from the cached index: no row is read."""

        def run() -> Ids:
            cached = None if self.corpus is None else cached_index(self.corpus, self.kind)
            if cached is not None:
                return cached.items[within(cached.documents, documents)]
            state = read_state(self.db, self.corpus_id, self.kind)
            parts = [state.tail_items[within(state.tail_documents, documents)]]
            for segment in state.segments:
                is_visible = within(segment.document_ids(), documents)
                if segment.dead is not None:
                    is_visible &= ~segment.dead
                parts.append(segment.item_ids()[is_visible])
            return np.sort(np.concatenate(parts))

        return self._with_retries(run)

    def document_frequencies(self, terms: Sequence[str]) -> dict[str, int]:
        """Return df, the number of items that contain it, of each term."""

        def run() -> dict[str, int]:
            _, sources = self._read_sources(dict.fromkeys(terms, 1.0))
            return {term: sum(source.df(term) for source in sources) for term in terms}

        return self._with_retries(run)

    def _read_sources(self, weights: Mapping[str, float]) -> tuple[Totals, list[Source]]:
        terms = sorted(weights)
        if self._last is None or self._last[0] != terms:
            self._last = terms, *(self._cached_sources(terms) or self._stored_sources(terms)[1:])
        return self._last[1:]

    def _cached_sources(self, terms: list[str]) -> tuple[Totals, list[Source]] | None:
        """Return the index from the session's cache, extended where needed; None where it is not cached."""
        if self.corpus is None or self.corpus.revision is None:
            return None
        cached = cached_index(self.corpus, self.kind)
        missing_terms = terms if cached is None else [term for term in terms if term not in cached.postings]
        if missing_terms or cached is None:
            state, totals, sources = self._stored_sources(missing_terms)
            # Outside a transaction block a volatile function may by now see a later revision.
            if state.revision != self.corpus.revision:
                return None
            cached = extend_cached_index(self.corpus, self.kind, state, missing_terms, sources)
            if cached is None:
                return totals, sources
        return (len(cached.items), cached.length), [cached.source(terms)]

    def _stored_sources(self, terms: list[str]) -> tuple[State, Totals, list[Source]]:
        """Return the index as stored in the tables, with its totals and the postings of `terms`."""
        state = read_state(self.db, self.corpus_id, self.kind, terms)
        sources = [Source.of_segment(segment) for segment in state.segments]
        if len(state.tail_items):
            key = (self.corpus_id, self.kind)
            tail = _tails.get(key)
            if tail is None or tail.epoch != state.relation:
                tail = _tails[key] = Tail(self.db, self.corpus_id, self.kind, state.relation)
                if len(_tails) > _KEPT_TAILS:
                    _tails.popitem(last=False)
            _tails.move_to_end(key)
            sources.append(Source.of_tail(state, tail.follow(state, terms)))
        return state, (state.count, state.length), sources

    def _with_retries(self, run: Callable[[], Result]) -> Result:
        for _ in range(_ATTEMPTS):
            try:
                return run()
            except Moved:
                self._last = None
        raise GraphRAGError(
            f"the BM25 index changed {_ATTEMPTS} times while it was read",
            sqlstate="40001",
            hint="Try again; in a REPEATABLE READ transaction this cannot happen.",
        )


def _weights(terms: Terms) -> dict[str, float]:
    if not isinstance(terms, Mapping):
        return {term: float(count) for term, count in Counter(terms).items()}
    for term, weight in terms.items():
        if not (math.isfinite(weight) and weight >= 0):
            raise GraphRAGError(
                f'the weight of the term "{term}" is {weight}', hint="Give a finite number of at least 0."
            )
    return {term: float(weight) for term, weight in terms.items() if weight > 0}


def _plan(
    totals: Totals, sources: Sequence[Source], weights: Mapping[str, float], variant: str, k1: float, b: float
) -> tuple[Saturation, list[tuple[str, float]]]:
    """Return the saturation, and (term, w · idf · (k1 + 1)) of the terms that occur, in the order of summation."""
    count, length = totals
    saturation = Saturation(k1, b, length / count if count else 0.0)
    frequencies = {term: sum(source.df(term) for source in sources) for term in weights}
    order = sorted((df, term) for term, df in frequencies.items() if df)
    idf(variant, 1, 1)  # an unknown variant is an error on an empty index too
    return saturation, [(term, weights[term] * idf(variant, count, df) * (k1 + 1.0)) for df, term in order]


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
    """Cache the postings of more terms; None if the index is large, or its revision is asked for the first time.

    When an index has grown too large, the next query starts a new one.
    """
    cached = cached_index(corpus, kind)
    if cached is None:
        if state.count > MAX_CACHED_ITEMS or not cache.earlier_queries(corpus):
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
