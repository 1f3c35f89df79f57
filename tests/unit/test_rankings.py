"""Fusion of rankings."""

import numpy as np
import pytest
from pg_graphrag.search.query.rankings import (
    Fused,
    Ranking,
    one_after_the_other,
    ranking,
    reciprocal_rank,
    round_robin,
    shares_of_best,
    single_ranking,
    standard_scores,
)


def made(name: str, **scores: float) -> Ranking:
    return of(name, {int(chunk[1:]): score for chunk, score in scores.items()})


def of(name: str, scores: dict[int, float]) -> Ranking:
    return ranking(name, np.array(list(scores), np.int64), np.array(list(scores.values())))


def scores(fused: Fused) -> dict[int, float]:
    return dict(zip(fused.ids.tolist(), fused.scores.tolist(), strict=True))


def test_a_ranking_is_best_first() -> None:
    assert made("a", c1=0.2, c2=0.9, c3=0.5).ids.tolist() == [2, 3, 1]


def test_equal_scores_share_a_place() -> None:
    result = made("a", c1=2, c2=3, c3=2, c4=1)
    assert dict(zip(result.ids.tolist(), result.ranks.tolist(), strict=True)) == {2: 1, 1: 2, 3: 2, 4: 4}


def test_alone_keeps_the_scores() -> None:
    fused = single_ranking([made("a", c1=0.5, c2=0.7)])
    assert scores(fused) == {1: 0.5, 2: 0.7}
    assert fused.explain(2) == {"a": {"rank": 1, "score": 0.7}}


def test_reciprocal_rank_sums_one_over_k_plus_rank_and_absence_is_0() -> None:
    fused = reciprocal_rank(60)([made("a", c1=9, c2=8), made("b", c2=0.4, c3=0.1)])
    assert scores(fused) == pytest.approx({1: 1 / 61, 2: 1 / 62 + 1 / 61, 3: 1 / 62})
    assert set(fused.explain(2)) == {"a", "b"}
    assert set(fused.explain(3)) == {"b"}


def test_shares_are_of_the_best_and_absence_or_less_is_0() -> None:
    fused = shares_of_best([made("a", c1=8, c2=6, c3=-2), made("b", c2=0.4, c3=0.1), made("c", c1=-1)])
    assert scores(fused) == pytest.approx({1: 1.0, 2: 0.75 + 1.0, 3: 0.25})


def test_what_two_rankings_have_second_stays_before_what_three_have_far_down() -> None:
    far = {number: 0.3 - number / 1000 for number in range(10, 40)}
    lists = [of("a", {1: 1.0} | far), of("b", {1: 1.0, 2: 0.9} | far), of("c", {1: 1.0, 2: 0.9} | far)]
    assert np.argsort(-shares_of_best(lists).scores)[1] == 1
    assert np.argsort(-reciprocal_rank(60)(lists).scores)[1] > 1


def test_standard_scores_are_weighted_z_scores_and_absence_is_the_lowest() -> None:
    a, b = {1: 3.0, 2: 1.0}, {2: 10.0, 3: 30.0, 4: 20.0}
    fused = standard_scores({"a": 1.0, "b": 2.0})([of("a", a), of("b", b)])

    def z(given: dict[int, float], chunk: int) -> float:
        values = np.array(list(given.values()))
        return float((given.get(chunk, values.min()) - values.mean()) / values.std())

    assert scores(fused) == pytest.approx({chunk: z(a, chunk) + 2 * z(b, chunk) for chunk in (1, 2, 3, 4)})


def test_standard_scores_of_equal_scores_are_no_division_by_0() -> None:
    fused = standard_scores({"a": 1.0})([made("a", c1=5, c2=5)])
    assert scores(fused) == {1: 0.0, 2: 0.0}


def test_the_only_chunk_with_a_retrievers_words_is_far_above_those_that_another_finds_near() -> None:
    exact = of("a", {1: 7.0})
    exact.zeros = 99
    near = of("b", {chunk: 0.9 - chunk / 100 for chunk in range(2, 40)} | {1: 0.2})
    fused = standard_scores({"a": 1.0, "b": 1.0})([exact, near])
    assert fused.ids[fused.scores.argmax()] == 1
    # Unless it knows little of the query.
    exact = of("a", {1: 7.0})
    exact.zeros, exact.coverage = 99, lambda chunks: (np.full(len(chunks), 0.1), np.zeros(len(chunks), bool))
    fused = standard_scores({"a": 1.0, "b": 1.0})([exact, near])
    assert fused.ids[fused.scores.argmax()] == 2


def test_round_robin_takes_first_of_each_then_second_and_no_chunk_twice() -> None:
    fused = round_robin([made("a", c1=3, c2=2, c3=1), made("b", c2=9, c4=8), Ranking.empty("c")])
    assert fused.ids[np.argsort(-fused.scores)].tolist() == [1, 2, 4, 3]
    assert scores(fused) == pytest.approx({1: 1, 2: 1 / 2, 4: 1 / 3, 3: 1 / 4})


def test_what_a_retriever_does_not_know_of_a_chunk_is_left_to_windows() -> None:
    words = of("bm25", {1: 5.0, 2: 1.0})
    words.coverage = lambda chunks: (np.where(chunks == 3, 0.25, 1.0), chunks == 3)
    near = of("windows", {1: 0.1, 2: 0.3, 3: 0.5})
    fused = standard_scores({"bm25": 1.0, "windows": 1.0})([words, near])
    of_words, of_windows = -1.0, float(np.sqrt(1.5))
    assert scores(fused)[3] == pytest.approx(0.25 * of_words + 0.75 * of_windows + of_windows)
    assert scores(fused)[2] == pytest.approx(-1.0 + 0.0)


@pytest.mark.parametrize(
    "fuse", [reciprocal_rank(60), standard_scores({"a": 1.0, "b": 1.0}), round_robin, shares_of_best]
)
def test_nothing_fused_is_nothing(fuse: object) -> None:
    assert callable(fuse)
    assert fuse([Ranking.empty("a"), Ranking.empty("b")]).ids.tolist() == []


def test_what_comes_after_another_ranking_stays_below_it_in_its_order() -> None:
    first = Ranking("first", np.array([3, 1]), np.array([0.5, 1e-9]))
    second = Ranking("second", np.array([1, 4, 2, 5]), np.array([40.0, 0.9, -0.2, -0.2]))
    fused = one_after_the_other(first, second)
    scores = dict(zip(fused.ids.tolist(), fused.scores.tolist(), strict=True))
    assert (scores[3], scores[1]) == (0.5, 1e-9)
    assert 1e-9 > scores[4] > scores[2] == scores[5] > 0
    assert set(fused.explain(1)) == {"first"}
