"""graphrag.evaluate: modes of search on questions with known evidence.

Protocol: documents are judged, so a ranking of chunks becomes one of documents (the best chunk of each counts). Means
over questions are macro means. Questions without evidence are left out and counted. any_hit and all_hit look at the
first k chunks: whether their documents include any, or all, of a question's evidence (Takami et al., Table 1).
"""

import json
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from pg_graphrag.ground import bootstrap
from pg_graphrag.ground.errors import GraphRAGError
from pg_graphrag.ground.json_reading import read_options
from pg_graphrag.ground.numeric import NDArray, np
from pg_graphrag.llm.asking.models import Models
from pg_graphrag.search.contexts.best_rows import MAX_TOP_K, best_rows
from pg_graphrag.search.evaluation.questions import JudgedQuestion, check_evidence, parse_questions
from pg_graphrag.search.evaluation.ranking_metrics import ndcg, recall, reciprocal_rank
from pg_graphrag.search.modes import find as find_mode
from pg_graphrag.search.query.mode import Mode
from pg_graphrag.search.query.query import forget_vectors
from pg_graphrag.search.query.understanding import understand
from pg_graphrag.search.search import Call
from pg_graphrag.search.search import parse_search_options as parse_options
from pg_graphrag.server import Database
from pg_graphrag.server.access.caller import Caller, caller_of
from pg_graphrag.server.access.entry import as_owner
from pg_graphrag.server.corpus.corpora import Corpus, find_corpus

METRICS = ("recall", "ndcg", "mrr", "any_hit", "all_hit")
MAX_K = 1000


@dataclass(frozen=True, slots=True)
class System:
    """A mode with its options, and its name in the call."""

    name: str
    mode: Mode
    options: Mapping[str, Any]

    def options_for(self, question: JudgedQuestion) -> str:
        """Return its options, and those of the question that its mode knows and that are not set for all questions."""
        question_options = {name: value for name, value in question.options.items() if self.mode.has(name)}
        return json.dumps({**question_options, **self.options})


@dataclass(slots=True)
class Result:
    """A system's ranking for one question: the documents of its chunks, best first, and the milliseconds it took."""

    chunks: list[str]
    milliseconds: float
    documents: list[str] = field(init=False)

    def __post_init__(self) -> None:
        self.documents = list(dict.fromkeys(self.chunks))


@dataclass(frozen=True, slots=True)
class Measured:
    """What the systems found for the questions that have evidence, and how good that is.

    `results`: {system: a result for each question}. `scores`: {system: for each question the METRICS of each depth}.
    """

    questions: Sequence[JudgedQuestion]
    results: Mapping[str, Sequence[Result]]
    scores: Mapping[str, Sequence[Sequence[float]]]

    def quantiles(self, system: str) -> tuple[float, float]:
        """Return median and 95th percentile of a system's milliseconds."""
        p50, p95 = np.quantile([result.milliseconds for result in self.results[system]], [0.5, 0.95])
        return float(p50), float(p95)


def evaluate(
    db: Database,
    corpus: str | None,
    questions: str | None,
    modes: list[str | None] | None,
    k: list[int | None] | None,
    baseline: str | None,
    options: str | None,
) -> list[tuple[Any, ...]]:
    """Return the rows of graphrag.evaluate, for each mode and k; columns as in the SQL."""
    settings = options_of(options, ("per_question", "seed", "variants"))
    systems = systems_of(modes, settings["variants"])
    depths = depths_of(k)
    base = _baseline(baseline, systems)
    all_questions = parse_questions(questions)
    caller = caller_of(db, corpus)

    def run_all() -> list[tuple[Any, ...]]:
        return list(_evaluate_systems(db, caller, all_questions, settings, systems, depths, base))

    return as_owner(db, run_all)


def _evaluate_systems(
    db: Database,
    caller: Caller,
    all_questions: Sequence[JudgedQuestion],
    settings: dict[str, Any],
    systems: Sequence[System],
    depths: Sequence[int],
    base: str,
) -> Iterator[tuple[Any, ...]]:
    measured = measure(db, caller, all_questions, systems, depths)
    judged, results, scores = measured.questions, measured.results, measured.scores
    # Drawn once: the same questions for all systems.
    columns = np.concatenate([np.asarray(values, dtype=np.float64) for values in scores.values()], axis=1)
    parts = np.split(np.asarray(bootstrap.means(columns, settings["seed"])), len(scores), axis=1)
    resampled = dict(zip(scores, parts, strict=True))
    for system in systems:
        p50, p95 = measured.quantiles(system.name)
        for place, depth in enumerate(depths):
            part = slice(place * len(METRICS), (place + 1) * len(METRICS))
            means = np.mean(scores[system.name], axis=0)[part].tolist()
            resamples = resampled[system.name][:, part]
            intervals = dict(zip(METRICS, bootstrap.intervals(resamples), strict=True))
            differences = None
            if system.name != base:
                base_means = np.mean(scores[base], axis=0)[part].tolist()
                differences = _differences(means, base_means, resamples - resampled[base][:, part])
            details = None
            if settings["per_question"]:
                details = [
                    {"id": question.id, **dict(zip(METRICS, row[part], strict=True)), "milliseconds": item.milliseconds}
                    | {"found": item.documents[:depth], "evidence": sorted(question.evidence)}
                    for question, item, row in zip(judged, results[system.name], scores[system.name], strict=True)
                ]
            yield (
                *(system.name, depth, len(judged), len(all_questions) - len(judged), *means, p50, p95, base),
                *(
                    None if item is None else json.dumps(item, ensure_ascii=False)
                    for item in (intervals, differences, details)
                ),
            )


def measure(
    db: Database,
    caller: Caller,
    all_questions: Sequence[JudgedQuestion],
    systems: Sequence[System],
    depths: Sequence[int],
) -> Measured:
    """Ask every system all questions that have evidence. Needs the owner's rights.

    Raises GraphRAGError: 22023 where none has evidence, or a document of the evidence is not there.
    """
    corpus = find_corpus(db, caller.corpus)
    judged = [question for question in all_questions if question.evidence]
    if not judged:
        raise GraphRAGError(
            f"none of the {len(all_questions)} questions has evidence",
            hint='Give the source keys of the documents that answer them: {"question": …, "evidence": ["a", "b"]}.',
        )
    check_evidence(db, caller, corpus, judged)
    results = _ask_all(db, caller, corpus, judged, systems, max(depths))
    scores = {
        system.name: [
            [value for depth in depths for value in _scores(item, question, depth)]
            for item, question in zip(results[system.name], judged, strict=True)
        ]
        for system in systems
    }
    return Measured(judged, results, scores)


def _ask_all(
    db: Database,
    caller: Caller,
    corpus: Corpus,
    questions: Sequence[JudgedQuestion],
    systems: Sequence[System],
    depth: int,
) -> dict[str, list[Result]]:
    """Ask every system every question, in turns, so that caches of the session favour none."""
    for system in systems:
        _search(db, caller, questions[0], system, depth)  # loads models and postings
    uses_keywords = any(system.mode.reads_keywords for system in systems)
    results: dict[str, list[Result]] = {system.name: [] for system in systems}
    for place, question in enumerate(questions):
        if uses_keywords:
            # The first system's time would include the model that extracts keywords: ask it before, so that it is cached.
            has_keywords = question.low is not None or question.high is not None
            understand(Models(db, corpus, caller), question.question.strip(), has_keywords=has_keywords)
        for turn in range(len(systems)):
            system = systems[(place + turn) % len(systems)]
            results[system.name].append(_find(db, caller, question, system, depth))
    return results


def _find(db: Database, caller: Caller, question: JudgedQuestion, system: System, depth: int) -> Result:
    forget_vectors()
    start = time.perf_counter()
    chunks = _search(db, caller, question, system, depth)
    result = Result(chunks, (time.perf_counter() - start) * 1e3)
    # Several chunks may be of one document: look deeper until there are enough documents, or no more chunks.
    top_k = depth
    while len(result.documents) < depth and len(chunks) == top_k < MAX_TOP_K:
        top_k = min(2 * top_k, MAX_TOP_K)
        chunks = _search(db, caller, question, system, top_k)
        result = Result(chunks, result.milliseconds)
    return result


def _search(db: Database, caller: Caller, question: JudgedQuestion, system: System, top_k: int) -> list[str]:
    """Return the source keys of the chunks found."""
    options = system.options_for(question)
    asked = question.question, caller.corpus, system.mode.name, top_k, None, question.low, question.high, options
    _, rows = best_rows(*Call("search", *asked).query(db, caller), top_k)
    return [row.source_key for row in rows]


def _scores(result: Result, question: JudgedQuestion, depth: int) -> list[float]:
    """Return the values of METRICS."""
    evidence, hit = question.evidence, set(result.chunks[:depth])
    return [
        recall(result.documents, evidence, depth),
        ndcg(result.documents, evidence, depth),
        reciprocal_rank(result.documents, evidence, depth),
        float(not hit.isdisjoint(evidence)),
        float(hit.issuperset(evidence)),
    ]


def _differences(
    means: list[float], base_means: list[float], resamples: NDArray[np.float64]
) -> dict[str, dict[str, float]]:
    differences = {}
    for place, (metric, (low, high)) in enumerate(zip(METRICS, bootstrap.intervals(resamples), strict=True)):
        p = bootstrap.p_value(resamples[:, place])
        differences[metric] = {"difference": means[place] - base_means[place], "low": low, "high": high, "p": p}
    return differences


def options_of(options: str | None, names: Sequence[str]) -> dict[str, Any]:
    """Return the options, whose allowed names are `names`, with defaults; 22023 for bad ones."""
    settings = read_options(options, '{"seed": 1}')
    for name, value in settings.items():
        if name not in names:
            raise GraphRAGError(f'unknown option "{name}" of evaluation', hint=f"Known: {', '.join(names)}.")
        match name:
            case "seed":
                is_valid, expected = (
                    isinstance(value, int) and not isinstance(value, bool) and value >= 0,
                    "a whole number",
                )
            case "per_question":
                is_valid, expected = isinstance(value, bool), "true or false"
            case _:
                is_valid = isinstance(value, dict) and all(isinstance(variant, dict) for variant in value.values())
                expected = 'an object such as {"paper": {"mode": "hybrid", "profile": "paper"}}'
        if not is_valid:
            raise GraphRAGError(f'option "{name}" cannot be {json.dumps(value)}', hint=f"Give {expected}.")
    return {"seed": 0, "per_question": False, "variants": {}} | settings


def systems_of(modes: Sequence[str | None] | None, variants: Mapping[str, Mapping[str, Any]]) -> list[System]:
    """Return the systems to measure: modes, and variants of modes with their options.

    Raises GraphRAGError if there are none, or a mode or option is unknown.
    """
    if not modes:
        raise GraphRAGError("there are no modes to compare", hint="For example ARRAY['bm25', 'hybrid'].")
    systems = []
    for name in dict.fromkeys(modes):
        settings = dict(variants.get(str(name), {}))
        mode = settings.pop("mode", name)
        if name not in variants:
            find_mode(name)
        elif not isinstance(mode, str):
            raise GraphRAGError(f'variant "{name}": mode cannot be {json.dumps(mode)}', hint="Give the name of a mode.")
        mode_ = find_mode(mode)
        parse_options(json.dumps(settings), mode_)
        systems.append(System(str(name), mode_, settings))
    return systems


def depths_of(k: Sequence[int | None] | None) -> list[int]:
    """Return depths, ascending and each once.

    Raises GraphRAGError if there are none, or one is not 1 to MAX_K.
    """
    if not k or any(depth is None or not 1 <= depth <= MAX_K for depth in k):
        raise GraphRAGError(
            f"k cannot be {json.dumps(k)}", hint=f"Give depths from 1 to {MAX_K}, such as ARRAY[5, 10]."
        )
    return sorted({depth for depth in k if depth is not None})


def _baseline(baseline: str | None, systems: Sequence[System]) -> str:
    names = [system.name for system in systems]
    if baseline is not None and baseline not in names:
        raise GraphRAGError(
            f'the baseline "{baseline}" is not among the modes compared', hint=f"Modes: {', '.join(names)}."
        )
    return baseline or names[0]
