"""The BM25 formula, in one place and one order of operations, so that equal inputs give equal bits.

score(q, d) = Σ_t w_t · idf(t) · tf · (k1 + 1) / (tf + k1 · (1 − b + b · |d| / avgdl))

Robertson and Zaragoza, The Probabilistic Relevance Framework: BM25 and Beyond (2009), section 3.4.
"""

import math
from dataclasses import dataclass

from pg_graphrag.ground.errors import GraphRAGError
from pg_graphrag.ground.numeric import NDArray, np

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
