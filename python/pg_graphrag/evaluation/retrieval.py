"""graphrag.evaluate: modes of search against questions with known evidence.

Protocol: documents are judged, a ranking of chunks collapses to documents (best chunk wins); macro means over questions;
questions without evidence are left out and counted. Beside it, the first k chunks as they are: whether any, or all, of
a question's evidence is among their documents (Takami et al., Table 1).
"""

import json
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from pg_graphrag import bootstrap
from pg_graphrag.access.caller import Caller, caller_of
from pg_graphrag.access.entry import as_owner
from pg_graphrag.corpus.corpora import Corpus, find
from pg_graphrag.errors import GraphRAGError
from pg_graphrag.evaluation.metrics import ndcg, recall, reciprocal_rank
from pg_graphrag.evaluation.questions import JudgedQuestion, check_evidence, parse
from pg_graphrag.json_reading import read_json
from pg_graphrag.model_access.models import Models
from pg_graphrag.modes import find as find_mode
from pg_graphrag.numeric import np
from pg_graphrag.retrieval.mode import Mode
from pg_graphrag.retrieval.query import forget_vectors
from pg_graphrag.retrieval.rows import MAX_TOP_K, best_rows
from pg_graphrag.retrieval.understanding import understand
from pg_graphrag.search.options import parse as parse_options
from pg_graphrag.search.search import prepare
from pg_graphrag.server import Database

METRICS = ("recall", "ndcg", "mrr", "any_hit", "all_hit")
MAX_K = 1000


@dataclass(frozen=True, slots=True)
class System:
    """What is compared: a mode with its options, under the name it is asked for by."""

    name: str
    mode: Mode
    options: Mapping[str, Any]

    def options_for(self, question: JudgedQuestion) -> str:
        """Return its options, with those of the question's that its mode has and that are not set for all questions."""
        own = {name: value for name, value in question.options.items() if self.mode.has(name)}
        return json.dumps({**own, **self.options})


@dataclass(slots=True)
class Found:
    """What a system found for one question: documents of its chunks, best first, and the milliseconds it took."""

    chunks: list[str]
    milliseconds: float
    documents: list[str] = field(init=False)

    def __post_init__(self) -> None:
        self.documents = list(dict.fromkeys(self.chunks))


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
    given = _options(options)
    systems = _systems(modes, given["variants"])
    depths = _depths(k)
    base = _baseline(baseline, systems)
    asked = parse(questions)
    caller = caller_of(db, corpus)

    def run_all() -> list[tuple[Any, ...]]:
        return list(_evaluated(db, caller, asked, given, systems, depths, base))

    return as_owner(db, run_all)


def _evaluated(
    db: Database,
    caller: Caller,
    asked: Sequence[JudgedQuestion],
    given: dict[str, Any],
    systems: Sequence[System],
    depths: Sequence[int],
    base: str,
) -> Iterator[tuple[Any, ...]]:
    found_corpus = find(db, caller.corpus)
    judged = [question for question in asked if question.evidence]
    if not judged:
        raise GraphRAGError(
            f"none of the {len(asked)} questions has evidence",
            hint='Give the source keys of the documents that answer them: {"question": …, "evidence": ["a", "b"]}.',
        )
    check_evidence(db, caller, found_corpus, judged)
    found = _ask_all(db, caller, found_corpus, judged, systems, max(depths))
    scores = {
        system.name: [
            [value for depth in depths for value in _scores(one, question, depth)]
            for one, question in zip(found[system.name], judged, strict=True)
        ]
        for system in systems
    }
    resampled = {name: np.asarray(bootstrap.means(values, given["seed"])) for name, values in scores.items()}
    for system in systems:
        times = [one.milliseconds for one in found[system.name]]
        p50, p95 = (float(value) for value in np.quantile(times, [0.5, 0.95]))
        for place, depth in enumerate(depths):
            part = slice(place * len(METRICS), (place + 1) * len(METRICS))
            means = np.mean(scores[system.name], axis=0)[part].tolist()
            drawn = resampled[system.name][:, part]
            intervals = dict(zip(METRICS, map(bootstrap.interval, drawn.T), strict=True))
            differences = None
            if system.name != base:
                before = np.mean(scores[base], axis=0)[part].tolist()
                differences = _differences(means, before, drawn - resampled[base][:, part])
            details = None
            if given["per_question"]:
                details = [
                    {"id": question.id, **dict(zip(METRICS, row[part], strict=True)), "milliseconds": one.milliseconds}
                    | {"found": one.documents[:depth], "evidence": sorted(question.evidence)}
                    for question, one, row in zip(judged, found[system.name], scores[system.name], strict=True)
                ]
            yield (
                *(system.name, depth, len(judged), len(asked) - len(judged), *means, p50, p95, base),
                *(
                    None if one is None else json.dumps(one, ensure_ascii=False)
                    for one in (intervals, differences, details)
                ),
            )


def _ask_all(
    db: Database,
    caller: Caller,
    corpus: Corpus,
    questions: Sequence[JudgedQuestion],
    systems: Sequence[System],
    depth: int,
) -> dict[str, list[Found]]:
    """Ask every system every question, in turns, so that what the session remembers favours none."""
    for system in systems:
        _search(db, caller, questions[0], system, depth)  # loads models and postings
    understood = any(system.mode.reads_keywords for system in systems)
    found: dict[str, list[Found]] = {system.name: [] for system in systems}
    for place, question in enumerate(questions):
        if understood:
            # A model that understands questions would be timed with the first system: asked before, it is remembered.
            given = question.low is not None or question.high is not None
            understand(Models(db, corpus, caller), question.question.strip(), given=given)
        for turn in range(len(systems)):
            system = systems[(place + turn) % len(systems)]
            found[system.name].append(_find(db, caller, question, system, depth))
    return found


def _find(db: Database, caller: Caller, question: JudgedQuestion, system: System, depth: int) -> Found:
    forget_vectors()
    start = time.perf_counter()
    chunks = _search(db, caller, question, system, depth)
    found = Found(chunks, (time.perf_counter() - start) * 1e3)
    # Several chunks of a document count as one: look deeper until there are enough documents, or no more chunks.
    wanted = depth
    while len(found.documents) < depth and len(chunks) == wanted < MAX_TOP_K:
        wanted = min(2 * wanted, MAX_TOP_K)
        chunks = _search(db, caller, question, system, wanted)
        found = Found(chunks, found.milliseconds)
    return found


def _search(db: Database, caller: Caller, question: JudgedQuestion, system: System, top_k: int) -> list[str]:
    """Return the source keys of the chunks found."""
    low, high = question.low, question.high
    asked = prepare(db, caller, question.question, system.mode, None, low, high, system.options_for(question))
    _, rows = best_rows(asked, system.mode, top_k)
    return [row["source_key"] for row in rows]


def _scores(found: Found, question: JudgedQuestion, depth: int) -> list[float]:
    """Return the values of METRICS."""
    evidence, hit = question.evidence, set(found.chunks[:depth])
    return [
        recall(found.documents, evidence, depth),
        ndcg(found.documents, evidence, depth),
        reciprocal_rank(found.documents, evidence, depth),
        float(not hit.isdisjoint(evidence)),
        float(hit.issuperset(evidence)),
    ]


def _differences(means: list[float], before: list[float], drawn: Any) -> dict[str, dict[str, float]]:
    made = {}
    for place, metric in enumerate(METRICS):
        low, high = bootstrap.interval(drawn[:, place])
        p = bootstrap.p_value(drawn[:, place])
        made[metric] = {"difference": means[place] - before[place], "low": low, "high": high, "p": p}
    return made


def _options(options: str | None) -> dict[str, Any]:
    given = read_json(options) if options else {}
    if not isinstance(given, dict):
        raise GraphRAGError(f"options must be a JSON object, not {options}", hint='For example {"seed": 1}.')
    for name, value in given.items():
        match name:
            case "seed":
                good, wanted = isinstance(value, int) and not isinstance(value, bool) and value >= 0, "a whole number"
            case "per_question":
                good, wanted = isinstance(value, bool), "true or false"
            case "variants":
                good = isinstance(value, dict) and all(isinstance(one, dict) for one in value.values())
                wanted = 'an object such as {"paper": {"mode": "hybrid", "profile": "paper"}}'
            case _:
                raise GraphRAGError(f'unknown option "{name}" of evaluate', hint="Known: per_question, seed, variants.")
        if not good:
            raise GraphRAGError(f'option "{name}" cannot be {json.dumps(value)}', hint=f"Give {wanted}.")
    return {"seed": 0, "per_question": False, "variants": {}} | given


def _systems(modes: Sequence[str | None] | None, variants: Mapping[str, Mapping[str, Any]]) -> list[System]:
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
        found = find_mode(mode)
        parse_options(json.dumps(settings), found)
        systems.append(System(str(name), found, settings))
    return systems


def _depths(k: Sequence[int | None] | None) -> list[int]:
    if not k or any(one is None or not 1 <= one <= MAX_K for one in k):
        raise GraphRAGError(
            f"k cannot be {json.dumps(k)}", hint=f"Give depths from 1 to {MAX_K}, such as ARRAY[5, 10]."
        )
    return sorted({one for one in k if one is not None})


def _baseline(baseline: str | None, systems: Sequence[System]) -> str:
    names = [system.name for system in systems]
    if baseline is not None and baseline not in names:
        raise GraphRAGError(
            f'the baseline "{baseline}" is not among the modes compared', hint=f"Modes: {', '.join(names)}."
        )
    return baseline or names[0]
