"""Rankings and how they are fused: a retriever gives (chunk, score, why), a fuser combines, a mode names both."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

from pg_graphrag.numeric import np


@dataclass
class Ranking:
    """Chunks best first. `ids` (n,) int64, `scores` (n,) float64, `why`: {chunk id: what to explain}."""

    retriever: str
    ids: Any
    scores: Any
    why: dict[int, dict[str, Any]] = field(default_factory=dict)

    @classmethod
    def empty(cls, retriever: str) -> "Ranking":
        """Return a ranking of nothing."""
        return cls(retriever, np.empty(0, np.int64), np.empty(0))

    def places(self) -> dict[int, int]:
        """Return {chunk id: rank from 1}; equal scores share a rank, so that no order of ids shows."""
        ranks: dict[int, int] = {}
        rank, last = 0, None
        for place, (chunk, score) in enumerate(zip(self.ids.tolist(), self.scores.tolist(), strict=True), 1):
            if score != last:
                rank, last = place, score
            ranks[chunk] = rank
        return ranks


@dataclass
class Fused:
    """Chunk scores after fusion, and per chunk what each retriever said."""

    scores: dict[int, float]
    explain: dict[int, dict[str, Any]]


Fuser = Callable[[Sequence[Ranking]], Fused]


def alone(rankings: Sequence[Ranking]) -> Fused:
    """Keep the scores of the one ranking."""
    (ranking,) = rankings
    return _fused(rankings, dict(zip(ranking.ids.tolist(), ranking.scores.tolist(), strict=True)))


def reciprocal_rank(k: int) -> Fuser:
    """RRF (Cormack et al. 2009): sum of 1 / (k + rank); absent: 0."""

    def fuse(rankings: Sequence[Ranking]) -> Fused:
        scores: dict[int, float] = {}
        for ranking in rankings:
            for chunk, rank in ranking.places().items():
                scores[chunk] = scores.get(chunk, 0.0) + 1.0 / (k + rank)
        return _fused(rankings, scores)

    return fuse


def standard_scores(weights: dict[str, float]) -> Fuser:
    """Weighted sum of z-scores; a chunk that a retriever did not return has that retriever's lowest score."""

    def fuse(rankings: Sequence[Ranking]) -> Fused:
        scores = {chunk: 0.0 for ranking in rankings for chunk in ranking.ids.tolist()}
        for ranking in rankings:
            if not len(ranking.ids):
                continue
            spread = float(ranking.scores.std()) or 1.0
            standard = (ranking.scores - ranking.scores.mean()) / spread * weights[ranking.retriever]
            given = dict(zip(ranking.ids.tolist(), standard.tolist(), strict=True))
            lowest = float(standard.min())
            for chunk in scores:
                scores[chunk] += given.get(chunk, lowest)
        return _fused(rankings, scores)

    return fuse


def round_robin(rankings: Sequence[Ranking]) -> Fused:
    """LightRAG's merge: first of each, second of each, …; the score is 1 / place in the merged list."""
    order: dict[int, None] = {}
    lists = [ranking.ids.tolist() for ranking in rankings]
    for place in range(max(map(len, lists), default=0)):
        for chunks in lists:
            if place < len(chunks):
                order.setdefault(chunks[place])
    return _fused(rankings, {chunk: 1.0 / place for place, chunk in enumerate(order, 1)})


def _fused(rankings: Sequence[Ranking], scores: dict[int, float]) -> Fused:
    explain: dict[int, dict[str, Any]] = {chunk: {} for chunk in scores}
    for ranking in rankings:
        places = ranking.places()
        for chunk, score in zip(ranking.ids.tolist(), ranking.scores.tolist(), strict=True):
            said = {"rank": places[chunk], "score": round(score, 6)} | ranking.why.get(chunk, {})
            explain[chunk][ranking.retriever] = said
    return Fused(scores, explain)


def ranking(retriever: str, scores: dict[int, float], why: dict[int, dict[str, Any]] | None = None) -> Ranking:
    """Return chunks by score, best first."""
    order = sorted(scores, key=lambda chunk: -scores[chunk])
    return Ranking(retriever, np.array(order, np.int64), np.array([scores[chunk] for chunk in order], float), why or {})
