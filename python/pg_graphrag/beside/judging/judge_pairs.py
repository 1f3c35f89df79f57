"""A model judges pairs of answers: in both orders, in repeated trials, after an A/A run.

Source: GraphRAG (arXiv 2404.16130) and LightRAG (arXiv 2410.05779) for comprehensiveness, diversity, empowerment and
directness; BenchmarkQED for relevance.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from pg_graphrag.beside.judging.client_model import Model, Unusable
from pg_graphrag.beside.judging.prompts import render

CRITERIA = {
    "comprehensiveness": "how much of what the question asks for is covered, in how much detail",
    "diversity": "how many different perspectives and insights the answer brings",
    "empowerment": "how well it helps the reader to understand the matter and to judge it for themselves",
    "directness": "how specifically and clearly it answers the question, and nothing else",
    "relevance": "how far everything it says bears on the question",
    "overall": "which answer is the better one, all criteria weighed",
}


@dataclass(frozen=True, slots=True)
class Answered:
    """A question with the answer of one system."""

    id: str
    question: str
    answer: str


@dataclass(frozen=True, slots=True)
class Verdict:
    """One reply of the judge: `first` and `second` are systems, `winners` has 1, 2 or 0 (neither) for each criterion."""

    question: str
    first: str
    second: str
    trial: int
    winners: Mapping[str, int]


def same_answers(
    model: Model, answers: Sequence[Answered], system: str, trials: int, criteria: Sequence[str] = tuple(CRITERIA)
) -> list[Verdict]:
    """The A/A run: each answer against itself. A preference of the judge here is a bias for the place."""
    pairs = [(answer, answer, system, system, trial) for answer in answers for trial in range(1, trials + 1)]
    return _judge(model, pairs, criteria)


def compare(
    model: Model,
    answers: Sequence[Answered],
    other_answers: Sequence[Answered],
    names: tuple[str, str],
    trials: int,
    criteria: Sequence[str] = tuple(CRITERIA),
) -> list[Verdict]:
    """Each pair of answers to the same question, in both orders, `trials` times each, by some of CRITERIA.

    Both lists have the same order.
    """
    pairs = []
    for mine, theirs in zip(answers, other_answers, strict=True):
        for trial in range(1, trials + 1):
            pairs.append((mine, theirs, names[0], names[1], trial))
            pairs.append((theirs, mine, names[1], names[0], trial))
    return _judge(model, pairs, criteria)


def _judge(
    model: Model, pairs: Sequence[tuple[Answered, Answered, str, str, int]], criteria: Sequence[str]
) -> list[Verdict]:
    """Return the verdicts; an unusable reply gives none (and is counted in ``model.usage``)."""
    meanings = "\n".join(f"- {name}: {CRITERIA[name]}" for name in criteria)
    form = "{" + ", ".join(f'"{name}": {{"reason": "…", "winner": 0}}' for name in criteria) + "}"
    prompts = [
        (
            f"{first_name}, {second_name}, trial {trial}",
            render(
                "judge",
                criteria=meanings,
                form=form,
                question=first.question,
                first=first.answer.strip(),
                second=second.answer.strip(),
            ),
        )
        for first, second, first_name, second_name, trial in pairs
    ]
    return [
        Verdict(answer.id, first, second, trial, winners)
        for (answer, _, first, second, trial), winners in zip(
            pairs, model.ask_all(prompts, lambda reply: read_winners(reply, criteria)), strict=True
        )
        if winners is not None
    ]


def read_winners(reply: Any, criteria: Sequence[str] = tuple(CRITERIA)) -> dict[str, int]:
    """Return {criterion: 1, 2 or 0} of a judge's reply; `Unusable` when a criterion is missing or says anything else."""
    winners = {}
    for name in criteria:
        winner = reply.get(name)
        winner = winner.get("winner") if isinstance(winner, dict) else winner
        # Models also write "1", "Answer 2" and "tie".
        word = str(winner).strip().lower().removeprefix("answer").strip()
        if isinstance(winner, bool) or word not in ("0", "1", "2", "tie", "neither"):
            raise Unusable(f"{name} is {winner!r}")
        winners[name] = int(word) if word.isdigit() else 0
    return winners
