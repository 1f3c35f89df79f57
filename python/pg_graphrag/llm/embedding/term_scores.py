"""How much of a term each token of a text is, by the states that a local model's encoder has of it.

One direction of the states for each model, fitted with the gate (`python -m bench gate`): the mean of a concept's tokens tells
names and terms from pieces, clauses and words that say nothing, by what stands around them.
"""

from bisect import bisect_left, bisect_right
from collections.abc import Sequence
from functools import cache
from pathlib import Path
from typing import NamedTuple

from pg_graphrag.ground.numeric import np
from pg_graphrag.llm.embedding.tensors import Floats, multiply
from pg_graphrag.text.naming.spelling import Span


class TermScores(NamedTuple):
    """The scores of the tokens of a text, in the logarithm of the odds.

    Attributes
    ----------
    starts, ends : list of int
        Characters that each token stands for, ascending.
    scores : array, (tokens,)
    """

    starts: list[int]
    ends: list[int]
    scores: Floats

    def of(self, start: int, end: int) -> float | None:
        """Return the mean over the tokens of some characters; None where the encoder has not seen all of them."""
        first, last = bisect_right(self.ends, start), bisect_left(self.starts, end)
        if first >= last or self.ends[last - 1] < end:
            return None
        return float(self.scores[first:last].mean())


def term_scores(model: str, spans: Sequence[Span], states: Floats) -> TermScores:
    """Return the scores of one text.

    Parameters
    ----------
    spans
        The characters that each token stands for, ascending.
    states : array, (tokens, layers * width)
        Of the layers that the model's reader of names reads.
    """
    direction, constant = _direction(model)
    scores = np.empty((len(states), 1), np.float32)
    multiply(states, direction, scores)
    return TermScores([start for start, _ in spans], [end for _, end in spans], scores[:, 0] + constant)


@cache
def _direction(model: str) -> tuple[Floats, np.float32]:
    """Return (the direction, (1, layers * width); what is added)."""
    with np.load(Path(__file__).with_name("term_directions.npz")) as arrays:
        *direction, constant = arrays[model]
    return np.array([direction], np.float32), np.float32(constant)
