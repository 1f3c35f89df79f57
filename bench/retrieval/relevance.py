"""Whether the relevance of a row means what it says: curves fitted on other documents' question sets, and what came of them.

    python -m bench relevance [--data FOLDER] [--questions 150] [--strangers 50] [--sets NAME …]

The first ten rows of `hybrid` are judged: one whose document answers is relevant. Each corpus is also asked questions about the
documents of other sets, which it cannot answer: none of their rows is relevant. Half of the weight is theirs, and sets count
alike. A curve is a logistic regression on the cosine of a row's best window and the share of the question's words that it has:
each embedding model has an intercept and a weight of the cosine, and all share the weight of words. For each set it is fitted on
the sets that ask of other documents.

Tables: (1) by set and curve (both figures, one alone, the curve in use, which knew the set): the area under the ROC curve, .5 of
which says nothing; Brier's score beside that of saying the others' mean always; the mean gap between what was said and what was,
over ten bins. (2) The reliability diagrams of both figures: what was said, what was, and how many rows, by tenths. (3) By
threshold, fitted on the others and in use: questions with an answer that keep a row, and one that answers; rows that answer and
are kept; questions without an answer that keep a row. (4) The curves fitted on all sets, which
`pg_graphrag/search/retrievers/relevance.py` has.
"""

import argparse
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from pg_graphrag import GraphRAG
from pg_graphrag.search.retrievers import relevance

from bench.data.corpora import ALL_SETS, at_hand, judged, kept, remembered, spread

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


def fitted(sets: Mapping[str, Judged], use: tuple[float, float]) -> dict[str, relevance.Curve]:
    """Return {embedding model: its curve} of these sets, of the figures in `use`."""
    models = list(dict.fromkeys(map(model_of, sets)))
    design = np.concatenate([_design(each.figures * use, models, model_of(name)) for name, each in sets.items()])
    answers = np.concatenate([each.answers for each in sets.values()])
    weights = np.concatenate([each.weights for each in sets.values()])
    words, *by_model = _regression(design, answers, weights)
    return {
        model: relevance.Curve(by_model[2 * place], by_model[2 * place + 1], words)
        for place, model in enumerate(models)
    }


def _regression(design: Floats, answers: Floats, weights: Floats) -> list[float]:
    """Return the coefficients of a logistic regression by Newton's method."""
    curve = np.zeros(design.shape[1])
    for _ in range(100):
        said = 1 / (1 + np.exp(-design @ curve))
        curvature = (design * (weights * said * (1 - said))[:, None]).T @ design + 1e-9 * np.eye(len(curve))
        curve -= np.linalg.solve(curvature, design.T @ (weights * (said - answers)) + 1e-9 * curve)
    coefficients: list[float] = curve.round(2).tolist()
    return coefficients


def _design(figures: Floats, models: Sequence[str], model: str) -> Floats:
    """Return the columns of a regression: the share of words; for each model, where the rows are its own, 1 and the cosine."""
    columns = [figures[:, 1]]
    for other in models:
        columns += [np.full(len(figures), float(other == model)), figures[:, 0] * (other == model)]
    return np.stack(columns, axis=1)


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
        name: {other: by_set[other] for other in names if source_of(other) != source_of(name)} for name in names
    }
    # A model's curve needs another set of the model.
    names = [name for name in names if model_of(name) in map(model_of, others_of[name])]
    curves = {(name, use): fitted(others_of[name], use)[model_of(name)] for name in names for use in _LABELS}
    in_use = {name: relevance.CURVES[model_of(name)][0] for name in names}
    yield "| set (questions, of others) | curve | area | Brier | of the mean | gap |"
    yield "|---|---|---|---|---|---|"
    for name in names:
        each = by_set[name]
        mean = float(np.mean([np.average(other.answers, weights=other.weights) for other in others_of[name].values()]))
        label = f"{name} ({each.answerable}, {int(each.questions.max()) + 1 - each.answerable})"
        for use in _LABELS:
            yield f"| {label} | {_LABELS[use]} | {quality(said_by(curves[name, use], each), each, mean)} |"
        yield f"| {label} | in use | {quality(said_by(in_use[name], each), each, mean)} |"
    yield ""
    yield "said → was (rows), by tenths, fitted on the others; a # is .02 of what was"
    for name in names:
        yield ""
        yield name
        for said, was, _, count in tenths(said_by(curves[name, BOTH], by_set[name]), by_set[name]):
            yield f"    {said:.2f} → {was:.2f} ({count:>4}) {'#' * round(50 * was)}"
    yield ""
    yield "| set | threshold | curve | a row | a row that answers | rows that answer | a row, no answer there |"
    yield "|---|---|---|---|---|---|---|"
    for name in names:
        for threshold in THRESHOLDS:
            for label, curve in (("of the others", curves[name, BOTH]), ("in use", in_use[name])):
                shares = kept_shares(said_by(curve, by_set[name]), by_set[name], threshold)
                yield f"| {name} | {threshold} | {label} | {shares} |"
    yield ""
    everything = {name: by_set[name] for name in names}
    between_languages, by_words = fitted(everything, COSINE), fitted_words(everything)
    for model, curve in fitted(everything, BOTH).items():
        yield f"{model}: {curve}; between languages {between_languages[model]}"
    yield f"by words: {by_words}"


def fitted_words(sets: Mapping[str, Judged]) -> relevance.Curve:
    """Return the curve of words alone, one for all models."""
    design = np.concatenate([np.c_[np.ones(len(each.answers)), each.figures[:, 1]] for each in sets.values()])
    answers = np.concatenate([each.answers for each in sets.values()])
    weights = np.concatenate([each.weights for each in sets.values()])
    intercept, words = _regression(design, answers, weights)
    return relevance.Curve(intercept, words=words)


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
