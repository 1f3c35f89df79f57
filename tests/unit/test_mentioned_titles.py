"""What the first chunk of an answer mentions by its title comes next, in the order that it had."""

from typing import cast

import pytest
from pg_graphrag.ground.numeric import np
from pg_graphrag.search.graph_view.seeds import Mentions
from pg_graphrag.search.query.query import Query
from pg_graphrag.search.query.rankings import Fused
from pg_graphrag.search.retrievers.hybrid_retrieval import MAX_MENTIONED, MENTIONED, _with_mentioned_titles

# It is asked for source keys alone, of chunks that tie.
QUERY = cast(Query, None)


def raised(scores: list[float], titles: list[int], *, own: int | None = None) -> Fused:
    """Fuse chunks 0, 1, … with these scores: 0 mentions the titles of some, and may have one itself, as chunk `own` has."""
    mentioned = [(title, 0, False) for title in titles] + [(title, title, True) for title in titles]
    mentioned += [] if own is None else [(99, 0, True), (99, own, True)]
    entities, chunks, are_titles = zip(*mentioned, strict=True) if mentioned else ((), (), ())
    walked = Mentions(
        *(np.array(ids, np.int64) for ids in (entities, entities, chunks)),
        np.array(are_titles, np.bool_),
        np.zeros(len(chunks), np.bool_),
    )
    return _with_mentioned_titles(QUERY, Fused(np.arange(len(scores)), np.array(scores), []), walked)


def order(fused: Fused) -> list[int]:
    return [int(place) for place in np.argsort(-fused.scores, kind="stable")]


def test_they_keep_their_order_behind_the_first() -> None:
    fused = raised([10.0, 6.0, 8.0, 9.5, -20.0], [1, 2, 4])

    assert order(fused) == [0, 2, 1, 3, 4]
    assert len(set(fused.scores)) == 5
    # As far as it goes.
    assert fused.scores[4] == -20.0 + MENTIONED
    assert fused.explain(4) == {"titles": {"rank": 1, "score": MENTIONED, "mentioned_by": 0}}


def test_scores_that_differ_by_the_order_of_summation_are_equal() -> None:
    # 3.3 + 5 − 3.3 is not 5 in floating point.
    fused = raised([20.0, -9.3, -9.3 + 2e-15, 3.3, 0.7], [1, 2, 3, 4])

    assert fused.scores[1] == fused.scores[2]
    assert {fused.explain(place)["titles"]["rank"] for place in (1, 2, 3, 4)} == {1}


@pytest.mark.parametrize("titles", [[], list(range(1, MAX_MENTIONED + 2)), [50]], ids=["none", "a list", "not found"])
def test_none_or_many_are_left_where_they_were(titles: list[int]) -> None:
    scores = [10.0, *(float(-place) for place in range(MAX_MENTIONED + 2))]

    assert raised(scores, titles).scores.tolist() == scores


def test_what_has_the_first_ones_own_title_stays() -> None:
    assert raised([10.0, 2.0, 1.0], [2], own=1).scores.tolist() == [10.0, 2.0, 1.0 + MENTIONED]


def test_nothing_is_left_as_it_is() -> None:
    assert len(raised([], []).ids) == 0
