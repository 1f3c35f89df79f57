"""Rankings and their fusion: a retriever gives (chunk, score, reason), a fuser combines rankings, a mode names both.

Chunks with equal scores are ordered by source key, then ordinal (docs/decisions/ground.md), because ids depend on the
order of ingestion. Scores count as equal if only the order of summation makes them differ.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from pg_graphrag.ground.numeric import Ids, NDArray, Scores, distinct, int64s, np, packed, places_of, within
from pg_graphrag.search.query.query import Query
from pg_graphrag.server import cached_property

# Cosines of equal texts differ by less.
NOISE = 1e-6
# Sums of the same numbers in another order differ by less, as a share of the largest.
SUM_NOISE = 1e-12

Why = Callable[[int], dict[str, Any]]
# From chunks to (how much of the query the retriever knows in such texts, in 0 … 1; whether it leaves the rest to others).
Coverage = Callable[[Ids], tuple[Scores, NDArray[np.bool_]]]
# The retriever that stands in for what others do not know.
STAND_IN = "windows"


def _nothing(_: int) -> dict[str, Any]:
    return {}


@dataclass
class Ranking:
    """Chunks best first: `ids` (n,) int64, `scores` (n,) float64; `reason` returns the explanation of a chunk.

    `zeros`: how many chunks outside of `ids` are known to score 0. `coverage` returns the weight of chunks' scores, if that
    is not 1, and which chunks leave the rest to STAND_IN.
    """

    retriever: str
    ids: Ids
    scores: Scores
    reason: Why = _nothing
    zeros: int = 0
    coverage: Coverage | None = None

    @classmethod
    def empty(cls, retriever: str) -> "Ranking":
        """Return a ranking of nothing."""
        return cls(retriever, np.empty(0, np.int64), np.empty(0))

    @cached_property
    def ranks(self) -> Ids:
        """Rank of each chunk from 1, (n,) int64; equal scores share a rank, so that no order of ids shows."""
        return np.searchsorted(-self.scores, -self.scores) + 1

    def explain(self, chunk: int) -> dict[str, Any] | None:
        """Return rank, score and reason of a chunk; None where it is not ranked."""
        place = self._places.get(chunk)
        if place is None:
            return None
        return {"rank": int(self.ranks[place]), "score": round(float(self.scores[place]), 6)} | self.reason(chunk)

    @cached_property
    def _places(self) -> dict[int, int]:
        return dict(zip(self.ids.tolist(), range(len(self.ids)), strict=True))

    def standard(self, chunks: Ids) -> Scores:
        """Return standard scores of chunks, ids ascending, (n,).

        A chunk that is not ranked has the standard score of 0 if `zeros` are known, else the lowest.
        """
        population = np.append(self.scores, np.zeros(self.zeros))
        mean, deviation = float(population.mean()), float(population.std()) or 1.0
        standard = np.full(len(chunks), (float(population.min()) - mean) / deviation)
        standard[np.searchsorted(chunks, self.ids)] = (self.scores - mean) / deviation
        return standard


@dataclass
class Fused:
    """Chunks in ascending order of `ids` (n,) int64 with their `scores` (n,) float64, and the rankings they were fused from."""

    ids: Ids
    scores: Scores
    rankings: Sequence[Ranking]

    def explain(self, chunk: int) -> dict[str, dict[str, Any]]:
        """Return the explanation of each retriever that found the chunk."""
        explanations = {ranking.retriever: ranking.explain(chunk) for ranking in self.rankings}
        return {retriever: explanation for retriever, explanation in explanations.items() if explanation is not None}

    def ranking(self, retriever: str, **extra: Any) -> Ranking:
        """Return the chunks as a ranking for further fusion, with `extra` in the explanation of each chunk."""
        return ranking(retriever, self.ids, self.scores, lambda chunk: extra | self.explain(chunk))


Fuser = Callable[[Sequence[Ranking]], Fused]


def single_ranking(rankings: Sequence[Ranking]) -> Fused:
    """Return the scores of a single ranking."""
    (ranking,) = rankings
    return _summed(rankings, [(ranking.scores, 0.0)])


def reciprocal_rank(k: int) -> Fuser:
    """RRF (Cormack et al. 2009): sum of 1 / (k + rank); absent: 0."""

    def fuse(rankings: Sequence[Ranking]) -> Fused:
        return _summed(rankings, [(1.0 / (k + ranking.ranks), 0.0) for ranking in rankings])

    return fuse


def shares_of_best(rankings: Sequence[Ranking]) -> Fused:
    """Sum of scores, each as a share of the best of its ranking; absent, or below 0: 0."""
    parts = [np.maximum(ranking.scores, 0.0) / max(ranking.scores.max(initial=0.0), NOISE) for ranking in rankings]
    return _summed(rankings, [(part, 0.0) for part in parts])


def standard_scores(weights: Mapping[str, float]) -> Fuser:
    """Weighted sum of z-scores; a chunk that a retriever did not return has that retriever's lowest score, or its 0.

    So what few chunks have weighs much: the one chunk with a name's words is ten standard deviations above the others, while the
    nearest vector is three. Scores count by how much of the query their retriever knows.
    """

    def fuse(rankings: Sequence[Ranking]) -> Fused:
        ids, parts = standard_parts(rankings)
        scores = np.zeros(len(ids))
        for retriever, part in parts.items():
            scores += part * weights[retriever]
        return Fused(ids, scores, rankings)

    return fuse


def standard_parts(rankings: Sequence[Ranking]) -> tuple[Ids, dict[str, Scores]]:
    """Return all chunks, ids ascending (n,), and by retriever their standard scores as far as these count, (n,)."""
    ids = _all_ids(rankings)
    parts = {ranking.retriever: ranking.standard(ids) for ranking in rankings if len(ranking.ids)}
    stand_in = parts.get(STAND_IN, np.zeros(len(ids)))
    for ranking in rankings:
        if ranking.retriever in parts and ranking.coverage is not None:
            share, leaves_rest = ranking.coverage(ids)
            rest = np.where(leaves_rest, (1 - share) * stand_in, 0.0)
            parts[ranking.retriever] = share * parts[ranking.retriever] + rest
    return ids, parts


def round_robin(rankings: Sequence[Ranking]) -> Fused:
    """LightRAG's merge: first of each, second of each, …; the score is 1 / place in the merged list."""
    order: dict[int, None] = {}
    lists = [ranking.ids.tolist() for ranking in rankings]
    for place in range(max(map(len, lists), default=0)):
        for chunks in lists:
            if place < len(chunks):
                order.setdefault(chunks[place])
    ids = np.array(list(order), np.int64)
    by_id = np.argsort(ids)
    return Fused(ids[by_id], (1.0 / np.arange(1, len(ids) + 1))[by_id], rankings)


def one_after_the_other(first: Ranking, second: Ranking) -> Fused:
    """All chunks of a ranking with positive scores, unchanged; then those that another ranking adds, in its order.

    Their scores are brought below those of the first by a function of the score alone, so that they do not depend on how
    many chunks are asked for.
    """
    added = ~within(second.ids, distinct(first.ids))
    ids, scores = second.ids[added], second.scores[added]
    # Increasing, and between 0 and 1/2, for any score.
    below = (0.5 + np.arctan(scores) / np.pi) / 2 * first.scores.min(initial=1.0)
    rest = Ranking(second.retriever, ids, scores, second.reason)
    return _summed([first, rest], [(first.scores, 0.0), (below, 0.0)])


def one_behind_the_other(rankings: Sequence[Ranking]) -> Fused:
    """All chunks of the first ranking, then those that others add; the score is 1 / rank in the first ranking that has the
    chunk, less the number of rankings before it."""
    scores: dict[int, float] = {}
    for number, ranking in enumerate(rankings):
        for chunk, rank in zip(ranking.ids.tolist(), ranking.ranks.tolist(), strict=True):
            scores.setdefault(chunk, 1.0 / rank - number)
    ids = np.array(sorted(scores), np.int64)
    return Fused(ids, np.array([scores[chunk] for chunk in ids.tolist()]), rankings)


def _all_ids(rankings: Sequence[Ranking]) -> Ids:
    return distinct(np.concatenate([ranking.ids for ranking in rankings]))


def _summed(rankings: Sequence[Ranking], parts: Sequence[tuple[Scores, float]]) -> Fused:
    """Add up, over the rankings, (the parts of their chunks, the part of a chunk that is absent)."""
    all_ids = _all_ids(rankings)
    scores = np.zeros(len(all_ids))
    for ranking, (values, absent) in zip(rankings, parts, strict=True):
        part = np.full(len(all_ids), absent)
        part[np.searchsorted(all_ids, ranking.ids)] = values
        scores += part
    return Fused(all_ids, scores, rankings)


def leveled_sums(sums: Scores) -> Scores:
    """Return sums, (n,) in any order, with those equal that differ by the order of summation alone."""
    largest = np.abs(sums).max(initial=0.0) or 1.0
    return leveled(sums / largest, SUM_NOISE) * largest


def leveled(scores: Scores, noise: float = NOISE) -> Scores:
    """Return scores, (n,) in any order, where scores that differ by no more than noise (by default that of cosines) are
    equal.

    The same text in another batch gets a vector with other last bits. Each run of neighbours closer than the noise takes
    its highest value.
    """
    if not len(scores):
        return scores
    order = np.argsort(-scores)
    descending = scores[order]
    first = np.zeros(len(descending), np.intp)
    starts = np.flatnonzero(descending[:-1] - descending[1:] > noise) + 1
    first[starts] = starts
    level = np.empty_like(scores)
    level[order] = descending[np.maximum.accumulate(first)]
    return level


def ranking(retriever: str, ids: Ids, scores: Scores, reason: Why = _nothing) -> Ranking:
    """Return chunks by score, best first; `ids` and `scores` (n,) in any order."""
    order = np.argsort(-scores, kind="stable")
    return Ranking(retriever, ids[order], scores[order], reason)


_ORDER = f"""
SELECT {packed('d.source_key COLLATE "C", c.ordinal, c.id', ids="c.id")}
  FROM graphrag.chunks c
  LEFT JOIN graphrag.documents d ON d.id = c.document_id
 WHERE c.id = ANY ($1)
"""


def best_places(query: Query, ids: Ids, scores: Scores, limit: int) -> Ids:
    """Return the places of the `limit` best chunks, best first. `ids` (n,) int64, `scores` (n,) float64.

    The source keys are read only where a tie makes a difference.
    """
    if not len(ids) or limit <= 0:
        return np.empty(0, np.intp)
    value = leveled_sums(scores)
    order = np.argsort(-value, kind="stable")
    if limit < len(order):
        order = order[: np.searchsorted(-value[order], -value[order[limit - 1]], side="right")]
    equal = np.diff(value[order]) == 0
    tied = np.append(equal, False) | np.append(False, equal)
    if tied.any():
        order = order[np.lexsort((_places(query, ids[order], tied), -value[order]))]
    return order[:limit]


def among_best(query: Query, ids: Ids, scores: Scores, limit: int) -> Ids:
    """Return what `best_places` does, in no order: source keys are read of the chunks alone that tie with the last."""
    if len(ids) <= limit:
        return np.arange(len(ids))
    value = leveled_sums(scores)
    last = np.partition(value, -limit)[-limit]
    above, tied = np.flatnonzero(value > last), np.flatnonzero(value == last)
    if len(above) + len(tied) > limit:
        tied = tied[order_of(query, ids[tied]) < limit - len(above)]
    return np.append(above, tied)


def _places(query: Query, ids: Ids, tied: Ids) -> Ids:
    """Return sort keys, (n,) int64, that put the tied chunks in order."""
    places = np.zeros(len(ids), np.int64)
    places[tied] = order_of(query, ids[tied])
    return places


def order_of(query: Query, ids: Ids) -> Ids:
    """Return the places, (n,) int64, of distinct chunks in the order of source keys and ordinals."""
    return places_of(ids, int64s(query.db.value(_ORDER, ["int8[]"], [ids.tolist()])))
