"""Metrics against trec_eval itself, the bootstrap against scipy's."""

import random

import numpy as np
import pytest
import pytrec_eval
import scipy
from pg_graphrag.ground import bootstrap
from pg_graphrag.search.evaluation.ranking_metrics import ndcg, recall, reciprocal_rank

DEPTHS = (1, 2, 5, 10)


def trec_eval(ranked: list[str], evidence: set[str]) -> dict[str, float]:
    run = {"q": {key: float(len(ranked) - place) for place, key in enumerate(ranked)}}
    measures = {f"{name}.{k}" for name in ("recall", "ndcg_cut") for k in DEPTHS} | {"recip_rank"}
    evaluator = pytrec_eval.RelevanceEvaluator({"q": dict.fromkeys(evidence, 1)}, measures)
    values: dict[str, float] = evaluator.evaluate(run)["q"]
    return values


def test_recall_ndcg_and_reciprocal_rank_are_those_of_trec_eval() -> None:
    draw = random.Random(5)
    documents = [f"d{number}" for number in range(30)]
    seen = set()
    for _ in range(300):
        result = draw.sample(documents, draw.randint(1, 20))
        evidence = set(draw.sample(documents, draw.randint(1, 12)))
        wanted = trec_eval(result, evidence)
        for k in DEPTHS:
            assert recall(result, evidence, k) == pytest.approx(wanted[f"recall_{k}"])
            assert ndcg(result, evidence, k) == pytest.approx(wanted[f"ndcg_cut_{k}"])
            seen.add(round(wanted[f"ndcg_cut_{k}"], 3))
        assert reciprocal_rank(result, evidence, 30) == pytest.approx(wanted["recip_rank"])
    assert len(seen) > 100


def test_reciprocal_rank_is_cut_at_k() -> None:
    assert reciprocal_rank(["a", "b", "c"], {"c"}, 3) == pytest.approx(1 / 3)
    assert reciprocal_rank(["a", "b", "c"], {"c"}, 2) == 0


def test_nothing_found_scores_0() -> None:
    assert recall([], {"a"}, 5) == ndcg([], {"a"}, 5) == reciprocal_rank([], {"a"}, 5) == 0


def test_an_interval_is_that_of_scipys_percentile_bootstrap() -> None:
    scores = np.random.default_rng(1).beta(2, 1, size=60)
    (mine,) = bootstrap.intervals(bootstrap.means(scores[:, None].tolist(), seed=0))
    theirs = scipy.stats.bootstrap(
        (scores,), np.mean, n_resamples=10_000, method="percentile", rng=2
    ).confidence_interval
    assert mine == pytest.approx([theirs.low, theirs.high], abs=0.004)


def test_the_same_seed_draws_the_same_questions_and_another_seed_others() -> None:
    scores = np.random.default_rng(1).random((40, 2)).tolist()
    first, again, other = (np.asarray(bootstrap.means(scores, seed)) for seed in (3, 3, 4))
    assert (first == again).all()
    assert (first != other).any()


def test_all_columns_of_a_resample_see_the_same_questions() -> None:
    column = np.random.default_rng(1).random(50)
    drawn = np.asarray(bootstrap.means(np.stack([column, column + 0.25], axis=1).tolist(), seed=0))
    assert drawn[:, 1] - drawn[:, 0] == pytest.approx(0.25)


@pytest.mark.slow
def test_many_questions_are_drawn_in_parts() -> None:
    drawn = np.asarray(bootstrap.means([[1.0]] * 3001, seed=0))
    assert drawn.shape == (bootstrap.RESAMPLES, 1)
    assert drawn == pytest.approx(1.0)


def test_p_is_small_for_a_clear_difference_1_for_none_and_near_the_t_test_between() -> None:
    noise = np.random.default_rng(2).normal(size=80)
    noise -= noise.mean()
    for shift, low, high in ((2.0, 0, 0.001), (0.0, 0.9, 1.0)):
        drawn = np.asarray(bootstrap.means((noise + shift)[:, None].tolist(), seed=0))
        assert low < bootstrap.p_value(drawn) <= high
    drawn = np.asarray(bootstrap.means((noise + 0.2)[:, None].tolist(), seed=0))
    assert bootstrap.p_value(drawn) == pytest.approx(scipy.stats.ttest_1samp(noise + 0.2, 0).pvalue, abs=0.02)
    assert bootstrap.p_value(np.asarray(bootstrap.means([[0.1 + 0.2 - 0.3]] * 10, seed=0))) == 1
