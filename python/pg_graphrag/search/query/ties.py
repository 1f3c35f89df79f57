"""Chunks with equal scores: by source key, then ordinal (docs/decisions/ground.md). Ids depend on the order of ingestion.

Scores are equal if they differ by the order of summation alone.
"""

from pg_graphrag.ground.numeric import Ids, Scores, int64s, np
from pg_graphrag.search.query.query import Query
from pg_graphrag.search.query.rankings import leveled_sums

_ORDER = """
SELECT pg_catalog.string_agg(pg_catalog.int8send(c.id), ''::bytea ORDER BY d.source_key COLLATE "C", c.ordinal, c.id) AS ids
  FROM graphrag.chunks c
  LEFT JOIN graphrag.documents d ON d.id = c.document_id
 WHERE c.id = ANY ($1)
"""


def best(query: Query, ids: Ids, scores: Scores, limit: int) -> Ids:
    """Return the places of the `limit` best chunks, best first. `ids` (n,) int64, `scores` (n,) float64.

    The source keys are read only where a tie makes a difference.
    """
    if not len(ids) or limit <= 0:
        return np.empty(0, np.intp)
    value = leveled_sums(scores)
    order = np.argsort(-value, kind="stable")
    if limit < len(order):
        order = order[: np.searchsorted(-value[order], -value[order[limit - 1]], side="right")]
    equal = np.diff(value[order]) == 0
    tied = np.append(equal, False) | np.append(False, equal)
    if tied.any():
        order = order[np.lexsort((_places(query, ids[order], tied), -value[order]))]
    return order[:limit]


def among_best(query: Query, ids: Ids, scores: Scores, limit: int) -> Ids:
    """Return the places that `best` returns, in no order: source keys are read of the chunks alone that tie with the last."""
    if len(ids) <= limit:
        return np.arange(len(ids))
    value = leveled_sums(scores)
    last = np.partition(value, -limit)[-limit]
    above, tied = np.flatnonzero(value > last), np.flatnonzero(value == last)
    if len(above) + len(tied) > limit:
        tied = tied[order_of(query, ids[tied]) < limit - len(above)]
    return np.append(above, tied)


def _places(query: Query, ids: Ids, tied: Ids) -> Ids:
    """Return sort keys, (n,) int64, that put the tied chunks in order."""
    places = np.zeros(len(ids), np.int64)
    places[tied] = order_of(query, ids[tied])
    return places


def order_of(query: Query, ids: Ids) -> Ids:
    """Return the places, (n,) int64, of distinct chunks in the order of source keys and ordinals."""
    sorted_ids = int64s(query.db.query(_ORDER, ["int8[]"], [ids.tolist()])[0]["ids"])
    by_id = np.argsort(sorted_ids)
    return by_id[np.searchsorted(sorted_ids, ids, sorter=by_id)]
