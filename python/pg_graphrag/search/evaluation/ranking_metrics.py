"""Metrics of one ranking against the documents that hold the evidence.

A ranking is a list of document keys, best first, without repetition; relevance is binary.
"""

import math
from collections.abc import Collection, Sequence


def recall(ranking: Sequence[str], evidence: Collection[str], k: int) -> float:
    """Share of the evidence in the first `k`."""
    return len(set(ranking[:k]).intersection(evidence)) / len(evidence)


def ndcg(ranking: Sequence[str], evidence: Collection[str], k: int) -> float:
    """Normalised discounted cumulative gain of the first `k`; the ideal has min(k, evidence) documents first.

    Source: Järvelin and Kekäläinen 2002, with gain 1 and discount log2(rank + 1), as trec_eval's ndcg_cut.
    """
    gain = sum(1 / math.log2(place + 1) for place, key in enumerate(ranking[:k], 1) if key in evidence)
    return gain / sum(1 / math.log2(place + 1) for place in range(1, min(k, len(evidence)) + 1))


def reciprocal_rank(ranking: Sequence[str], evidence: Collection[str], k: int) -> float:
    """One over the place of the first evidence in the first `k`, 0 if there is none."""
    return next((1 / place for place, key in enumerate(ranking[:k], 1) if key in evidence), 0.0)
