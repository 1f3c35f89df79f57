"""Bootstrap over questions: how far a mean, or the difference of two, depends on which questions were asked.

Source: Efron and Tibshirani 1993, percentile intervals; paired, as in Sakai 2006 for retrieval.
"""

from collections.abc import Sequence

from pg_graphrag.ground.numeric import NDArray, np

RESAMPLES = 10_000
CONFIDENCE = 0.95
# Counts of questions held at a time: resamples × questions.
_CELLS = 4_000_000


def means(scores: Sequence[Sequence[float]] | NDArray[np.float64], seed: int) -> object:
    """Return (RESAMPLES, m) means of `scores` (n questions × m values), each over n questions drawn with replacement.

    All values of a resample see the same questions, so differences of columns are paired. The same seed and n draw the
    same questions.
    """
    values = np.asarray(scores, dtype=np.float64)
    questions = len(values)
    random = np.random.default_rng(seed)
    size = max(1, _CELLS // questions)
    parts = []
    for start in range(0, RESAMPLES, size):
        drawn = random.multinomial(questions, np.full(questions, 1 / questions), size=min(size, RESAMPLES - start))
        parts.append(drawn @ values / questions)
    return np.concatenate(parts)


def intervals(resampled: object) -> list[list[float]]:
    """Return [low, high] of each column: the percentile intervals of resampled means (RESAMPLES × m)."""
    tail = (1 - CONFIDENCE) / 2
    bounds: list[list[float]] = np.quantile(np.asarray(resampled), [tail, 1 - tail], axis=0).T.tolist()
    return bounds


def p_value(resampled: object) -> float:
    """Return the two-sided p of "no difference" from resampled mean differences, at least 2 / (RESAMPLES + 1)."""
    # Sums of the same numbers in another order differ in the last bits; no difference is no difference.
    differences = np.round(np.asarray(resampled), 12)
    fewer = min(int((differences <= 0).sum()), int((differences >= 0).sum()))
    return float(min(1.0, 2 * (1 + fewer) / (len(differences) + 1)))
