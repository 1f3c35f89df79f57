"""Which relationships are strong, and how strong: by weight and PMI together."""

import math

import numpy as np
import pytest
from pg_graphrag.search.graph_view.edge_strength import are_strong, strengths_of


@pytest.mark.parametrize(
    ("weight", "both", "source", "target", "chunks", "expected"),
    [
        (1.0, 1, 1, 2, 8, 2.0),
        (9.0, 3, 4, 6, 8, 0.0),
        # More rarely than by chance: the heavier, the weaker.
        (5.0, 1, 4, 4, 8, -5.0),
        # What people alone relate counts as one mention, of entities and of chunks too.
        (3.0, 0, 0, 0, 0, 0.0),
        (2.0, 1, 3, 1, 9, 2 * math.log2(3)),
    ],
)
def test_strength_is_weight_times_pointwise_mutual_information(
    weight: float, both: int, source: int, target: int, chunks: int, expected: float
) -> None:
    assert strengths_of(weight, both, source, target, chunks) == round(expected, 6)


def test_of_ten_relationships_the_weakest_go() -> None:
    # The weakest that stays is the last within the weakest 40 %.
    low, high = np.arange(10), np.arange(10) + 10
    strong = are_strong(low, high, np.arange(10.0))
    assert np.flatnonzero(strong).tolist() == [3, 4, 5, 6, 7, 8, 9]


def test_equal_relationships_stay_together() -> None:
    low, high = np.arange(5), np.arange(5) + 10
    assert are_strong(low, high, np.ones(5)).all()


def test_relationships_of_a_hub_go_however_strong() -> None:
    # 0 is related to thirty, which are related in pairs besides.
    low = np.array([0] * 30 + list(range(1, 31, 2)))
    high = np.array([*range(1, 31), *range(2, 32, 2)])
    strong = are_strong(low, high, np.array([9.0] * 30 + [1.0] * 15))
    assert not strong[:30].any() and strong[30:].all()
