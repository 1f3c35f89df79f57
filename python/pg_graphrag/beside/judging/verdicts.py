"""Statistics of verdicts: win rates with counts and intervals, their significance, and the judge's bias."""

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cache

from pg_graphrag.beside.judging.judge_pairs import Verdict
from pg_graphrag.ground import bootstrap
from pg_graphrag.ground.numeric import np

SIGNIFICANT = 0.05
_SEED = 0


@dataclass(frozen=True, slots=True)
class PlaceBias:
    """What a judge prefers between equal answers: counts, p of an exact binomial test, and p by Holm over all criteria."""

    criterion: str
    first: int
    second: int
    neither: int
    p: float
    p_holm: float


@dataclass(frozen=True, slots=True)
class Comparison:
    """A system against the baseline by one criterion.

    `wins`, `ties`, `losses` count verdicts, of both orders and all trials. `win_rate` is the mean over questions of the
    system's share (a tie is half a win), `low` and `high` its 95 % bootstrap interval. `p` is from Wilcoxon's signed-rank
    test on the questions' shares, as in GraphRAG's paper; `p_holm` is corrected for all criteria and systems. `consistent`:
    share of trials in which both orders name the same winner; None when no trial has both.
    """

    system: str
    baseline: str
    criterion: str
    questions: int
    wins: int
    ties: int
    losses: int
    win_rate: float
    low: float
    high: float
    p: float
    p_holm: float
    consistent: float | None


def place_bias(verdicts: Sequence[Verdict]) -> list[PlaceBias]:
    """Return the bias of the A/A run by criterion."""
    from scipy.stats import binomtest

    counts = []
    for criterion in verdicts[0].winners if verdicts else ():
        winners = [verdict.winners[criterion] for verdict in verdicts]
        first, second = winners.count(1), winners.count(2)
        p = float(binomtest(first, first + second).pvalue) if first + second else 1.0
        counts.append((criterion, first, second, winners.count(0), p))
    corrected = holm([row[-1] for row in counts])
    return [PlaceBias(*row, p_holm) for row, p_holm in zip(counts, corrected, strict=True)]


def comparisons(verdicts: Sequence[Verdict], baseline: str) -> list[Comparison]:
    """Return every system that was compared to the baseline, by every criterion."""
    systems = dict.fromkeys(
        name for verdict in verdicts for name in (verdict.first, verdict.second) if name != baseline
    )
    results = [
        _compare([verdict for verdict in verdicts if system in (verdict.first, verdict.second)], system, baseline, name)
        for system in systems
        for name in verdicts[0].winners
    ]
    corrected = holm([result.p for result in results])
    return [replace(result, p_holm=p) for result, p in zip(results, corrected, strict=True)]


def _compare(verdicts: Sequence[Verdict], system: str, baseline: str, criterion: str) -> Comparison:
    shares: dict[str, list[float]] = defaultdict(list)
    orders: dict[tuple[str, int], dict[bool, float]] = defaultdict(dict)
    for verdict in verdicts:
        is_first = verdict.first == system
        share = {0: 0.5, 1: float(is_first), 2: float(not is_first)}[verdict.winners[criterion]]
        shares[verdict.question].append(share)
        orders[verdict.question, verdict.trial][is_first] = share
    all_shares = [share for of_question in shares.values() for share in of_question]
    means = np.array([np.mean(shares[question]) for question in sorted(shares)])
    ((low, high),) = bootstrap.intervals(bootstrap.means(means[:, None].tolist(), _SEED))
    p = _signed_rank_p(tuple((means - 0.5).tolist()))
    agreements = [pair[True] == pair[False] for pair in orders.values() if len(pair) == 2]
    return Comparison(
        system=system,
        baseline=baseline,
        criterion=criterion,
        questions=len(means),
        wins=all_shares.count(1.0),
        ties=all_shares.count(0.5),
        losses=all_shares.count(0.0),
        win_rate=float(means.mean()),
        low=low,
        high=high,
        p=p,
        p_holm=p,
        consistent=sum(agreements) / len(agreements) if agreements else None,
    )


@cache  # criteria often agree, and of few questions scipy tries every permutation
def _signed_rank_p(deviations: tuple[float, ...]) -> float:
    from scipy.stats import wilcoxon

    return float(wilcoxon(deviations).pvalue) if any(deviations) else 1.0


def holm(p_values: Sequence[float]) -> list[float]:
    """Return p values corrected for their number, in their order.

    Source: Holm 1979, the step-down Bonferroni procedure.
    """
    corrected = [1.0] * len(p_values)
    highest = 0.0
    for place, index in enumerate(sorted(range(len(p_values)), key=p_values.__getitem__)):
        highest = max(highest, min(1.0, (len(p_values) - place) * p_values[index]))
        corrected[index] = highest
    return corrected
