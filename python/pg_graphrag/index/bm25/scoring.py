"""The BM25 formula, and the best `limit` items of a source, block by block; items that cannot reach them are skipped.

score(q, d) = Σ_t w_t · idf(t) · tf · (k1 + 1) / (tf + k1 · (1 − b + b · |d| / avgdl)), in one place and one order of
operations, so that equal inputs give equal bits.

Robertson and Zaragoza, The Probabilistic Relevance Framework: BM25 and Beyond (2009), section 3.4. The pruning is
MaxScore: Turtle and Flood, Query evaluation: strategies and optimizations (1995).
"""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from pg_graphrag.ground.errors import GraphRAGError
from pg_graphrag.ground.numeric import NDArray, distinct, np, within
from pg_graphrag.index.bm25.segments import Ids, Ordinals, Postings, Segment, State

Floats = NDArray[np.float64]

IDF_VARIANTS = ("lucene", "robertson", "robertson_clipped")
# Saturation of the term frequency, and the share of length normalisation.
K1, B = 1.5, 0.75
# Keeps 0 / 0 (an absent term where k1 or the length is 0) at 0; added to a frequency of at least 1 it changes no bit.
_TINY = np.finfo(np.float64).tiny


def idf(variant: str, count: int, df: int) -> float:
    """Inverse document frequency of a term in `df` of `count` items.

    ``lucene`` is ln(1 + (N − df + .5) / (df + .5)), never negative; ``robertson`` has no 1 and is negative for a term
    in more than half of the items (Takami et al., eq. 3); ``robertson_clipped`` is the same, at least 0.
    """
    odds = (count - df + 0.5) / (df + 0.5)
    if variant == "lucene":
        return math.log(1.0 + odds)
    if variant == "robertson":
        return math.log(odds)
    if variant == "robertson_clipped":
        return max(0.0, math.log(odds))
    raise GraphRAGError(
        f'unknown bm25_idf "{variant}"', detail=f"Known: {', '.join(IDF_VARIANTS)}.", hint="Use one of these names."
    )


@dataclass(frozen=True, slots=True)
class Saturation:
    """Term-frequency saturation and length normalisation for one query: k1, b and the average length."""

    k1: float
    b: float
    average_length: float

    def __post_init__(self) -> None:
        if not (math.isfinite(self.k1) and self.k1 >= 0):
            raise GraphRAGError(
                f"k1 must be a finite number of at least 0, not {self.k1}", hint=f"The default is {K1}."
            )
        if not 0 <= self.b <= 1:
            raise GraphRAGError(f"b must be between 0 and 1, not {self.b}", hint=f"The default is {B}.")

    def norms(self, lengths: NDArray[np.int32]) -> Floats:
        """Return k1 · (1 − b + b · |d| / avgdl) for `lengths`, shape (n,)."""
        slope = self.k1 * self.b / self.average_length if self.average_length else 0.0
        norms: Floats = lengths.astype(np.float64)
        norms *= slope
        norms += self.k1 * (1.0 - self.b)
        return np.maximum(norms, _TINY, out=norms)

    @staticmethod
    def shares(tf: Floats, norms: Floats, weight: float) -> Floats:
        """Return weight · tf / (tf + norm), (n,), in the memory of `tf`; `weight` is w · idf · (k1 + 1) of a term."""
        total = tf + norms
        tf /= total
        tf *= weight
        return tf


# Items scored at a time: three float64 arrays of this size stay in a core's second-level cache.
BLOCK = 1 << 15
# So few items are scored all at once: to leave some out takes longer.
FEW_ITEMS = 1 << 10
# Where the rarest terms together have fewer postings than this share of the items, the items that have them come first.
_FEW_POSTINGS = 1 / 64
# Upper bounds are raised by this share of the threshold, far more than sums of float64 can be off.
_SLACK = 1e-9

# Below this a share could underflow to 0, which elsewhere means that a term is absent.
_FAINT = 1e-100

Factors = Sequence[tuple[str, float]]


@dataclass(slots=True)
class Source:
    """A segment or the tail: `count` items by ordinal, and the postings of the query's terms."""

    count: int
    item_ids: Callable[[], Ids]
    document_ids: Callable[[], Ids]
    lengths: Callable[[], Ordinals]
    df: Callable[[str], int]
    postings: Mapping[str, Postings]
    dead: NDArray[np.bool_] | None

    @classmethod
    def of_segment(cls, segment: Segment) -> "Source":
        """Wrap a segment."""
        return cls(
            segment.count,
            segment.item_ids,
            segment.document_ids,
            segment.lengths,
            segment.df,
            segment.postings,
            segment.dead,
        )

    @classmethod
    def of_tail(cls, state: State, postings: Mapping[str, Postings]) -> "Source":
        """Wrap the tail of `state`."""
        return cls(
            len(state.tail_items),
            lambda: state.tail_items,
            lambda: state.tail_documents,
            lambda: state.tail_lengths,
            lambda term: postings[term].df if term in postings else 0,
            postings,
            None,
        )

    def scores_at(self, ordinals: NDArray[np.integer], factors: Factors, saturation: Saturation) -> Floats:
        """Return the scores of the items at `ordinals`, 0 where no term occurs."""
        scores: Floats = np.zeros(len(ordinals))
        if len(ordinals):
            self.add_at(ordinals, scores, factors, saturation)
        return scores

    def matching(self, factors: Factors, saturation: Saturation) -> tuple[NDArray[np.integer], Floats]:
        """Return (ordinals ascending, scores) of all items that have a term and were not deleted."""
        scores: Floats = np.zeros(self.count)
        is_match = np.zeros(self.count, np.bool_)
        norms = saturation.norms(self.lengths())
        for term, factor in factors:
            if term in self.postings:
                postings = self.postings[term]
                rows = slice(None) if postings.ordinals is None else postings.ordinals
                tf = postings.frequencies.astype(np.float64)
                is_match[rows] |= tf > 0
                scores[rows] += saturation.shares(tf, norms[rows], factor)
        if self.dead is not None:
            is_match &= ~self.dead
        ordinals = np.flatnonzero(is_match)
        return ordinals, scores[ordinals]

    def add_at(self, ordinals: NDArray[np.integer], scores: Floats, factors: Factors, saturation: Saturation) -> None:
        """Add the shares of `factors` to `scores` of the items at `ordinals`, in place."""
        norms = saturation.norms(self.lengths()[ordinals])
        for term, factor in factors:
            if term in self.postings:
                tf = self.postings[term].at(ordinals).astype(np.float64)
                scores += saturation.shares(tf, norms, factor)


class Best:
    """The best items so far: at least `limit` where there are that many, and all that tie with the last.

    `limit`: items wanted.
    `documents` (array of int64, ascending): only items of these documents count.
    """

    def __init__(self, limit: int, documents: Ids | None):
        self.limit = limit
        self.documents = documents
        self.threshold = -np.inf
        self._scores: Floats = np.zeros(0)
        self._places: Ids = np.zeros(0, np.int64)
        self._sources: NDArray[np.int32] = np.zeros(0, np.int32)
        self._known_sources: list[Source] = []

    def add(self, source: Source, ordinals: NDArray[np.integer], scores: Floats) -> None:
        """Offer items of a source, without deleted and invisible ones."""
        keep = scores >= self.threshold
        if source.dead is not None:
            keep &= ~source.dead[ordinals]
        ordinals, scores = ordinals[keep], scores[keep]
        if self.documents is not None and len(ordinals):
            is_visible = within(source.document_ids()[ordinals], self.documents)
            ordinals, scores = ordinals[is_visible], scores[is_visible]
        if not len(ordinals):
            return
        if not self._known_sources or self._known_sources[-1] is not source:
            self._known_sources.append(source)
        self._scores = np.concatenate([self._scores, scores])
        self._places = np.concatenate([self._places, ordinals])
        self._sources = np.concatenate([self._sources, np.full(len(scores), len(self._known_sources) - 1, np.int32)])
        if len(self._scores) >= self.limit:
            last = len(self._scores) - self.limit
            self.threshold = max(self.threshold, float(np.partition(self._scores, last)[last]))
            best = self._scores >= self.threshold
            self._scores, self._places, self._sources = self._scores[best], self._places[best], self._sources[best]

    @property
    def is_full(self) -> bool:
        """Whether there are as many items as are wanted."""
        return len(self._scores) >= self.limit

    def result(self) -> tuple[Ids, Floats]:
        """Return item ids and scores, best first, then by id."""
        items: Ids = np.zeros(len(self._scores), np.int64)
        for number, source in enumerate(self._known_sources):
            from_source = self._sources == number
            if from_source.any():
                items[from_source] = source.item_ids()[self._places[from_source]]
        order = np.lexsort((items, -self._scores))
        return items[order], self._scores[order]


def scan(source: Source, factors: Factors, saturation: Saturation, best: Best) -> None:
    """Offer every item of `source` that could be among the best.

    Terms come rarest first. Once what the remaining terms can add at most (w · idf · (k1 + 1) each) is below the score
    of the worst item kept, only items that have one of the earlier terms are looked at further. The result is the same.
    Items with the rarest terms are looked at first, all at once: often they are all that can be among the best, and else
    their scores say what the others must reach.
    """
    present_terms = [(source.postings[term], factor) for term, factor in factors if term in source.postings]
    if not present_terms:
        return
    if source.count <= FEW_ITEMS:
        best.add(source, *source.matching(factors, saturation))
        return
    names = [(term, factor) for term, factor in factors if term in source.postings]
    has_negative = any(factor < _FAINT for _, factor in present_terms)
    rest = np.cumsum([factor for _, factor in reversed(present_terms)])[::-1]
    if not has_negative and _scan_rare(source, present_terms, names, rest, saturation, best):
        return
    edges = np.arange(0, source.count + BLOCK, BLOCK, dtype=np.int32)
    bounds = [
        None if postings.ordinals is None else np.searchsorted(postings.ordinals, edges)
        for postings, _ in present_terms
    ]
    lengths = source.lengths()
    buffer: Floats = np.empty(min(BLOCK, source.count))
    for block, start in enumerate(range(0, source.count, BLOCK)):
        stop = min(start + BLOCK, source.count)
        scores = buffer[: stop - start]
        scores.fill(0.0)
        is_match = np.zeros(stop - start, np.bool_) if has_negative else None
        norms: Floats | None = None
        applied = len(present_terms)
        for number, (postings, factor) in enumerate(present_terms):
            if not has_negative and rest[number] < best.threshold * (1.0 - _SLACK):
                applied = number
                break
            if postings.ordinals is None:
                frequencies = postings.frequencies[start:stop]
                if norms is None:
                    norms = saturation.norms(lengths[start:stop])
                scores += saturation.shares(frequencies.astype(np.float64), norms, factor)
                if is_match is not None:
                    is_match |= frequencies > 0
                continue
            block_bounds = bounds[number]
            assert block_bounds is not None
            first, last = block_bounds[block], block_bounds[block + 1]
            if first == last:
                continue
            ordinals = postings.ordinals[first:last]
            local = ordinals - start
            local_norms = saturation.norms(lengths[ordinals]) if norms is None else norms[local]
            scores[local] += saturation.shares(postings.frequencies[first:last].astype(np.float64), local_norms, factor)
            if is_match is not None:
                is_match[local] = True
        if is_match is not None:
            block_ordinals = np.flatnonzero(is_match)
            block_ordinals = block_ordinals[scores[block_ordinals] >= best.threshold]
        elif applied < len(present_terms):
            block_ordinals = np.flatnonzero(scores >= (best.threshold - rest[applied]) - best.threshold * _SLACK / 2)
        else:
            block_ordinals = np.flatnonzero(scores >= best.threshold) if best.threshold > 0 else np.flatnonzero(scores)
        if len(block_ordinals):
            totals = scores[block_ordinals]
            candidates = block_ordinals + start
            if applied < len(present_terms):
                source.add_at(candidates, totals, names[applied:], saturation)
            best.add(source, candidates, totals)


def _scan_rare(
    source: Source,
    present_terms: Sequence[tuple[Postings, float]],
    names: Factors,
    rest: Floats,
    saturation: Saturation,
    best: Best,
) -> bool:
    """Offer the items that have one of the rarest terms; return whether no other can be among the best.

    `rest`: what each term and those after it can add at most. Where others can, nothing was offered, but the threshold raised
    to a score that enough items have.
    """
    most = source.count * (_FEW_POSTINGS if len(present_terms) > 1 else 1)
    rare = postings_count = 0
    for postings, _ in present_terms:
        postings_count += postings.df
        if postings.ordinals is None or postings_count > most:
            break
        rare += 1
    if not rare:
        return False
    lists = [postings.ordinals for postings, _ in present_terms[:rare] if postings.ordinals is not None]
    ordinals = lists[0] if rare == 1 else distinct(np.concatenate(lists))
    scores: Floats = np.zeros(len(ordinals))
    norms = saturation.norms(source.lengths()[ordinals])
    for number, (postings, factor) in enumerate(present_terms[:rare]):
        places = slice(None) if rare == 1 else np.searchsorted(ordinals, lists[number])
        scores[places] += saturation.shares(postings.frequencies.astype(np.float64), norms[places], factor)
    remaining = names[rare:]
    first = Best(best.limit, best.documents)
    first.threshold = best.threshold
    if remaining:
        # What the best of them so far come to bounds the others.
        top = np.arange(len(scores))
        if best.limit < len(scores):
            top = np.argpartition(scores, -best.limit)[-best.limit :]
        totals = scores[top]
        source.add_at(ordinals[top], totals, remaining, saturation)
        first.add(source, ordinals[top], totals)
        if first.is_full:
            best.threshold = max(best.threshold, first.threshold)
        if rest[rare] >= best.threshold * (1.0 - _SLACK):
            return False
        for number, term in enumerate(remaining, rare):
            possible = np.flatnonzero(scores >= (best.threshold - rest[number]) - best.threshold * _SLACK / 2)
            if len(possible) < len(ordinals):
                ordinals, scores = ordinals[possible], scores[possible]
            source.add_at(ordinals, scores, [term], saturation)
    best.add(source, ordinals, scores)
    return True
