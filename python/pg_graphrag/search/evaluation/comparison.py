"""graphrag.compare_corpora: the same questions on two corpora, which differ for example in options or extractor."""

import json
from collections.abc import Iterator, Sequence
from typing import Any

from pg_graphrag.ground import bootstrap
from pg_graphrag.ground.numeric import np
from pg_graphrag.search.evaluation.evaluate import METRICS, Measured, depths_of, measure, options_of, systems_of
from pg_graphrag.search.evaluation.questions import parse_questions
from pg_graphrag.server import Database
from pg_graphrag.server.access.caller import caller_of
from pg_graphrag.server.access.entry import as_owner

_COSTS = """
SELECT (SELECT pg_catalog.count(*) FROM graphrag.documents x WHERE x.corpus_id = c.id) AS documents,
       (SELECT pg_catalog.count(*) FROM graphrag.chunks x WHERE x.corpus_id = c.id) AS chunks,
       (SELECT pg_catalog.count(*) FROM graphrag.entities x WHERE x.corpus_id = c.id) AS entities,
       (SELECT pg_catalog.count(*) FROM graphrag.relationships x WHERE x.corpus_id = c.id) AS relationships,
       pg_catalog.count(l.id) AS calls, coalesce(pg_catalog.sum(l.tokens_in), 0)::int8 AS tokens_in,
       coalesce(pg_catalog.sum(l.tokens_out), 0)::int8 AS tokens_out, coalesce(pg_catalog.sum(l.cost), 0)::float8 AS cost
  FROM graphrag.corpora c LEFT JOIN graphrag.llm_calls l ON l.corpus_id = c.id
 WHERE c.name = $1 GROUP BY c.id
"""


def compare(
    db: Database,
    corpus: str | None,
    other: str | None,
    questions: str | None,
    modes: list[str | None] | None,
    k: list[int | None] | None,
    options: str | None,
) -> list[tuple[Any, ...]]:
    """Return the rows of graphrag.compare_corpora, for each mode, k and metric; columns as in the SQL."""
    settings = options_of(options, ("seed", "variants"))
    systems, depths = systems_of(modes, settings["variants"]), depths_of(k)
    all_questions = parse_questions(questions)
    callers = [caller_of(db, name) for name in (corpus, other)]

    def run_all() -> list[tuple[Any, ...]]:
        side, other_side = sides = [measure(db, caller, all_questions, systems, depths) for caller in callers]
        costs = [db.query(_COSTS, ["text"], [caller.corpus])[0] for caller in callers]
        rows: list[tuple[Any, ...]] = []
        for system in systems:
            cost_json = json.dumps(
                {
                    name: dict(cost) | {"p50_ms": each.quantiles(system.name)[0]}
                    for name, cost, each in zip(("corpus", "other"), costs, sides, strict=True)
                }
            )
            rows += (
                (system.name, *row, cost_json) for row in _rows(system.name, depths, side, other_side, settings["seed"])
            )
        return rows

    return as_owner(db, run_all)


def _rows(system: str, depths: Sequence[int], side: Measured, other: Measured, seed: int) -> Iterator[tuple[Any, ...]]:
    """Yield the columns from k to `changed`."""
    scores, other_scores = (np.asarray(each.scores[system], np.float64) for each in (side, other))
    differences = other_scores - scores
    resamples = np.asarray(bootstrap.means(differences, seed))
    bounds = bootstrap.intervals(resamples)
    for place, depth in enumerate(depths):
        for number, metric in enumerate(METRICS):
            column = place * len(METRICS) + number
            changes = np.round(differences[:, column], 12)
            order = sorted(np.flatnonzero(changes).tolist(), key=lambda index: (-abs(changes[index]), index))
            changed = [
                {
                    "id": side.questions[index].id,
                    "question": side.questions[index].question,
                    "value": float(scores[index, column]),
                    "other": float(other_scores[index, column]),
                    "evidence": sorted(side.questions[index].evidence),
                    "found": side.results[system][index].documents[:depth],
                    "other_found": other.results[system][index].documents[:depth],
                }
                for index in order
            ]
            yield (
                *(depth, metric, len(scores)),
                *(float(each[:, column].mean()) for each in (scores, other_scores, differences)),
                *bounds[column],
                bootstrap.p_value(resamples[:, column]),
                *(int((changes > 0).sum()), int((changes < 0).sum())),
                json.dumps(changed, ensure_ascii=False),
            )
