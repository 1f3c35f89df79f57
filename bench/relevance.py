"""Whether the relevance of a row means what it says: curves fitted on other documents' question sets, and what came of them.

    python -m bench relevance [--data FOLDER] [--questions 150] [--strangers 50] [--sets NAME …]

The first ten rows of `hybrid` are judged: one whose document answers is relevant. Each corpus is also asked questions about the
documents of other sets, which it cannot answer: none of their rows is relevant. Half of the weight is theirs, and sets count
alike. A curve is a logistic regression on the cosine of a row's best window and the share of the question's words that it has.
It is fitted for each set on the sets of its embedding model that ask of other documents.

Tables: (1) by set and curve (both figures; one alone; the curve in use): the area under the ROC curve, .5 of which says nothing;
Brier's score beside that of saying the others' mean always; the mean gap between what was said and what was, over ten bins.
(2) The reliability diagram: what was said, what was, and how many rows, by tenths. (3) By threshold: questions with an answer
that keep a row, and one that answers; rows that answer and are kept; questions without an answer that keep a row. (4) The curves
fitted on all sets, for `pg_graphrag/retrieval/relevance.py`.
"""

import argparse
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from corpora import ALL_SETS, at_hand, judged, kept, remembered, spread
from numpy.typing import NDArray
from pg_graphrag import GraphRAG
from pg_graphrag.retrieval import relevance

Floats = NDArray[np.float64]
MULTILINGUAL = ("jsquad", "drcd", "cmrc")
# Sets that ask of the same documents.
SOURCES = {"musique-own": "musique", "lihua-jan-jun": "lihua", "lihua-other": "lihua"}
DEPTH = 10
TENTHS = 10
THRESHOLDS = (0.05, 0.1, 0.2, 0.3, 0.5)
# Which figures a curve has: cosine, share of words.
BOTH, COSINE, WORDS = (1.0, 1.0), (1.0, 0.0), (0.0, 1.0)
_LABELS = {BOTH: "both", COSINE: "cosine", WORDS: "words"}


@dataclass
class Judged:
    """The rows of a set's questions: `figures` (n, 2), cosine and share of words; whether each answers (n,); its question (n,).

    Questions from `answerable` on are about other documents.
    """

    figures: Floats
    answers: Floats
    questions: NDArray[np.int64]
    answerable: int

    @property
    def is_own(self) -> NDArray[np.bool_]:
        """Whether the question of each row can be answered, (n,)."""
        return self.questions < self.answerable

    @property
    def weights(self) -> Floats:
        """The weight of each row, (n,): half of 1 for those of questions with an answer, half for the others."""
        own = self.is_own
        return np.where(own, 0.5 / max(own.sum(), 1), 0.5 / max((~own).sum(), 1))


def model_of(name: str) -> str:
    """Return the embedding model that the documents of a set get."""
    return "multilingual-e5-small" if name in MULTILINGUAL else "all-MiniLM-L6-v2"


def source_of(name: str) -> str:
    """Return which documents a set asks of."""
    return SOURCES.get(name, name)


def figures(rag: GraphRAG, questions: Sequence[str]) -> list[list[tuple[str, float, float]]]:
    """Return for each question its rows: (source key, cosine, share of words)."""
    searches = (rag.search(question, top_k=DEPTH, min_relevance=0) for question in questions)
    return [[(row.source_key, *_parts(row.explain["relevance_from"])) for row in rows] for rows in searches]


def _parts(made_of: dict[str, float]) -> tuple[float, float]:
    return made_of.get("cosine", 0.0), made_of.get("words", 0.0)


def judged_set(rag: GraphRAG, asked: Sequence[dict[str, Any]], strangers: Sequence[str]) -> Judged:
    """Return the judged rows of a set's own questions and of those about other documents."""
    questions = [*(question["question"] for question in asked), *strangers]
    found = remembered(["relevance", rag.corpus, questions], lambda: figures(rag, questions))
    evidence = [*(set(question["evidence"]) for question in asked), *(set[str]() for _ in strangers)]
    rows = [
        (number, cosine, words, key in evidence[number])
        for number, its_rows in enumerate(found)
        for key, cosine, words in its_rows
    ]
    table = np.array(rows, float)
    return Judged(table[:, 1:3], table[:, 3], table[:, 0].astype(np.int64), len(asked))


def fitted(sets: Sequence[Judged], use: tuple[float, float]) -> relevance.Curve:
    """Return the curve of these sets by Newton's method, of the figures in `use`."""
    design = np.concatenate([np.c_[np.ones(len(each.answers)), each.figures * use] for each in sets])
    answers = np.concatenate([each.answers for each in sets])
    weights = np.concatenate([each.weights for each in sets])
    curve = np.zeros(3)
    for _ in range(100):
        said = 1 / (1 + np.exp(-design @ curve))
        curvature = (design * (weights * said * (1 - said))[:, None]).T @ design + 1e-9 * np.eye(3)
        curve -= np.linalg.solve(curvature, design.T @ (weights * (said - answers)) + 1e-9 * curve)
    return relevance.Curve(*curve.round(2).tolist())


def said_by(curve: relevance.Curve, judged_rows: Judged) -> Floats:
    """Return the relevance of each row by a curve, (n,)."""
    return np.asarray(curve.shares(judged_rows.figures[:, 0], judged_rows.figures[:, 1]))


def area(said: Floats, answers: Floats) -> float:
    """Return how often a row that answers is said to be more relevant than one that does not; ties count half."""
    yes, no = said[answers > 0], np.sort(said[answers == 0])
    below, upto = np.searchsorted(no, yes, "left"), np.searchsorted(no, yes, "right")
    return float((below + upto).sum() / 2 / (len(yes) * len(no)))


def tenths(said: Floats, each: Judged) -> list[tuple[float, float, float, int]]:
    """Return (mean of what was said, of what was, the weight, how many) of each tenth that has rows."""
    bins = np.minimum((said * TENTHS).astype(int), TENTHS - 1)
    parts = [(bins == tenth, each.weights) for tenth in range(TENTHS)]
    return [
        (
            float(np.average(said[rows], weights=weights[rows])),
            float(np.average(each.answers[rows], weights=weights[rows])),
            float(weights[rows].sum()),
            int(rows.sum()),
        )
        for rows, weights in parts
        if rows.any()
    ]


def quality(said: Floats, each: Judged, mean: float) -> str:
    """Return area, Brier's scores and gap in words."""
    brier = np.average((said - each.answers) ** 2, weights=each.weights)
    constant = np.average((mean - each.answers) ** 2, weights=each.weights)
    gap = sum(abs(was - mean_said) * weight for mean_said, was, weight, _ in tenths(said, each))
    return f"{area(said, each.answers):.3f} | {brier:.4f} | {constant:.4f} | {gap:.3f}"


def kept_shares(said: Floats, each: Judged, threshold: float) -> str:
    """Return the shares of table 3 at a threshold."""

    def share_of_questions(rows: NDArray[np.bool_], first: int, last: int) -> float:
        return len(np.unique(each.questions[rows])) / max(last - first, 1)

    count = int(each.questions.max()) + 1
    is_kept = said >= threshold
    any_row = share_of_questions(is_kept & each.is_own, 0, each.answerable)
    answering = share_of_questions(is_kept & (each.answers > 0), 0, each.answerable)
    evidence = is_kept[each.answers > 0].mean()
    stranger = share_of_questions(is_kept & ~each.is_own, each.answerable, count)
    return f"{any_row:.2f} | {answering:.2f} | {evidence:.2f} | {stranger:.2f}"


def tables(given: argparse.Namespace) -> Iterator[str]:
    names, absent = at_hand(given.data, given.sets)
    if absent:
        yield f"Left out, since their data are not there: {', '.join(absent)}."
        yield ""
    asked = {name: judged(given.data, name, given.questions) for name in names}
    by_set: dict[str, Judged] = {}
    for name in names:
        others = [other for other in names if model_of(other) == model_of(name) and source_of(other) != source_of(name)]
        strangers = [question["question"] for other in others for question in spread(asked[other], given.strangers)]
        with GraphRAG(given.url, kept(given.url, given.data, name, "nlp")) as rag:
            by_set[name] = judged_set(rag, asked[name], strangers)
    others_of = {
        name: [by_set[o] for o in names if model_of(o) == model_of(name) and source_of(o) != source_of(name)]
        for name in names
    }
    names = [name for name in names if others_of[name]]
    curves = {(name, use): fitted(others_of[name], use) for name in names for use in _LABELS}
    yield "| set (questions, of others) | curve | area | Brier | of the mean | gap |"
    yield "|---|---|---|---|---|---|"
    for name in names:
        each = by_set[name]
        mean = float(np.mean([np.average(other.answers, weights=other.weights) for other in others_of[name]]))
        label = f"{name} ({each.answerable}, {int(each.questions.max()) + 1 - each.answerable})"
        in_use = relevance.CURVES[model_of(name)][0]
        for use_label, curve in [
            *((_LABELS[use], curves[name, use]) for use in _LABELS),
            ("in use", in_use),
        ]:
            yield f"| {label} | {use_label} | {quality(said_by(curve, each), each, mean)} |"
    yield ""
    yield "said → was (rows), by tenths; a # is .02 of what was"
    for name in names:
        yield ""
        yield name
        for said, was, _, count in tenths(said_by(curves[name, BOTH], by_set[name]), by_set[name]):
            yield f"    {said:.2f} → {was:.2f} ({count:>4}) {'#' * round(50 * was)}"
    yield ""
    yield "| set | threshold | a row | a row that answers | rows that answer | a row, no answer there |"
    yield "|---|---|---|---|---|---|"
    for name in names:
        for threshold in THRESHOLDS:
            shares = kept_shares(said_by(curves[name, BOTH], by_set[name]), by_set[name], threshold)
            yield f"| {name} | {threshold} | {shares} |"
    yield ""
    for model in dict.fromkeys(map(model_of, names)):
        sets = [by_set[name] for name in names if model_of(name) == model]
        yield f"{model}: {fitted(sets, BOTH)}, between languages {fitted(sets, COSINE)}"
    yield f"by words: {fitted([by_set[name] for name in names], WORDS)}"


def main() -> None:
    arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    arguments.add_argument("--url", required=True)
    arguments.add_argument("--data", type=Path, default=Path("../shared/data"))
    arguments.add_argument("--sets", nargs="+", choices=ALL_SETS, default=ALL_SETS, metavar="NAME", help="some of them")
    arguments.add_argument("--questions", type=int, default=150, help="at most so many of each set (150)")
    arguments.add_argument("--strangers", type=int, default=50, help="at most so many of each other set (50)")
    for line in tables(arguments.parse_args()):
        print(line, flush=True)


if __name__ == "__main__":
    main()
