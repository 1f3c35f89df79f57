"""Dense retrieval over windows, entity names and described mentions: in memory where they are few, HNSW where it is right and
faster, exact in the table otherwise."""

import json
from typing import Any

from pg_graphrag.embedding.text import vector_text
from pg_graphrag.numeric import float64s, int64s, np
from pg_graphrag.retrieval import vectors
from pg_graphrag.retrieval.held_graph import graph_of
from pg_graphrag.retrieval.ids import within
from pg_graphrag.retrieval.query import Query
from pg_graphrag.retrieval.rankings import NOISE, Ranking, leveled, ranking
from pg_graphrag.retrieval.visible_graph import VisibleGraph

# From this many vectors on, an HNSW index answers faster than a scan.
HNSW_ROWS = 5000
# graphrag.search sets hnsw.ef_search to this: an index scan returns at most so many rows.
EF_SEARCH = 200


def windows(query: Query, limit: int) -> Ranking:
    """Rank chunks, at least `limit` where there are so many, by the cosine of the query to their best window."""
    space = query.corpus.space
    if space is None or limit <= 0:
        return Ranking.empty("windows")
    known, found = query.memo.get("windows", (0, None))
    if limit <= known:
        ranked: Ranking = found
        return ranked
    table, seen = f"window_vectors_{space}", "v.document_id = ANY ({visible})"
    best: dict[int, tuple[float, int]] = {}
    if (held := vectors.small(query, "window")) is not None:
        chunks, scores, ids = _best_windows_held(query, held, 2 * limit)
    else:
        for row in _indexed(query, table, "window_id, v.chunk_id", query.vector_text, 2 * limit, seen):
            best.setdefault(row["chunk_id"], (1.0 - row["distance"], row["window_id"]))
        if len(best) < limit:
            row = query.db.literal_query(_best_windows(query, table, 2 * limit, seen))[0]
            chunks, scores, ids = int64s(row["chunks"]), 1.0 - float64s(row["distances"]), int64s(row["windows"])
        else:
            chunks = np.fromiter(best, np.int64, len(best))
            scores = np.array([score for score, _ in best.values()])
            ids = np.array([window for _, window in best.values()])
    window = dict(zip(chunks.tolist(), ids.tolist(), strict=True))
    ranked = ranking("windows", chunks, leveled(scores), lambda chunk: {"window_id": window[chunk]})
    query.memo["windows"] = limit, ranked
    return ranked


def entities(query: Query, nearby: list[Any], limit: int, in_view: int = EF_SEARCH) -> list[dict[int, float]]:
    """Return for each vector the `limit` entities (and all that tie) whose names are nearest, as {entity id: cosine > 0}.

    `in_view`: how many an index scan looks around at a time; with less it is faster, and misses more of those not so near.
    """
    space = query.corpus.space
    if space is None or limit <= 0 or not nearby:
        return [{} for _ in nearby]
    if (held := vectors.small(query, "entity")) is not None:
        graph = graph_of(query)
        visible = graph.entity_ids() if isinstance(graph, VisibleGraph) else None
        return [held.nearest(vector, limit, visible) for vector in nearby]
    seen = (
        "v.entity_id IN (SELECT m.entity_id FROM graphrag.entity_mentions m JOIN graphrag.chunks c ON c.id = m.chunk_id"
    )
    seen += " WHERE c.document_id = ANY ({visible}))"
    if in_view != EF_SEARCH:
        _view(query, in_view)
    near = [_near(query, "entity_vectors", "entity_id", vector, limit, seen) for vector in nearby]
    if in_view != EF_SEARCH:
        _view(query, EF_SEARCH)
    return [
        {entity: cosine for entity, cosine in zip(ids.tolist(), cosines.tolist(), strict=True) if cosine > 0}
        for ids, cosines in near
    ]


def entity_vectors(query: Query, ids: list[int]) -> dict[int, Any]:
    """Return {entity id: vector of its name, (dimensions,) float32} of those of `ids` that have one, ascending."""
    if not ids:
        return {}
    if (held := vectors.small(query, "entity")) is not None:
        return {entity: vector for entity in sorted(ids) if (vector := held.vector(entity)) is not None}
    rows = query.db.query(
        f"SELECT v.entity_id, v.embedding::text AS vector FROM graphrag.entity_vectors_{query.corpus.space} v"
        " WHERE v.entity_id = ANY ($1) ORDER BY v.entity_id",
        ["int8[]"],
        [ids],
    )
    return {row["entity_id"]: np.array(json.loads(row["vector"]), np.float32) for row in rows}


def nearest_mentions(query: Query, kind: str, text: str, limit: int) -> tuple[Any, Any]:
    """Return (ids ascending, cosines), (n,) each, of the `limit` described mentions nearest to a text (and all that tie)."""
    ids, cosines = _near(
        query, f"{kind}_vectors", "mention_id", query.embed([text])[0], limit, "v.document_id = ANY ({visible})"
    )
    order = np.argsort(ids)
    return ids[order], cosines[order]


def _near(query: Query, stem: str, column: str, vector: Any, limit: int, seen: str) -> tuple[Any, Any]:
    """Return (ids, cosines), (n,) each, of the `limit` rows nearest to a vector."""
    table, literal = f"{stem}_{query.corpus.space}", vector_text(vector)
    rows = _indexed(query, table, column, literal, limit, seen)
    if len(rows) < limit:
        rows = query.db.literal_query(
            f"SELECT * FROM ({_select(query, table, column, literal, seen)} OFFSET 0) v"
            f" ORDER BY v.distance FETCH FIRST {limit} ROWS WITH TIES"
        )
    ids = np.array([row[column] for row in rows], np.int64)
    return ids, 1.0 - np.array([row["distance"] for row in rows], float)


def _view(query: Query, rows: int) -> None:
    """Set hnsw.ef_search for as long as the SQL function runs at most."""
    query.db.query("SELECT pg_catalog.set_config('hnsw.ef_search', $1, true)", ["text"], [str(rows)])


def _nearest(scores: Any, limit: int) -> Any:
    """Return the places of the `limit` highest scores, and of all that tie with the last."""
    if len(scores) <= limit:
        return np.arange(len(scores))
    return np.flatnonzero(scores >= np.partition(scores, -limit)[-limit] - NOISE)


def _best_windows_held(query: Query, held: vectors.Vectors, limit: int | None) -> tuple[Any, Any, Any]:
    """Return (chunks ascending, the cosines of their best windows, these windows): `limit` nearest and ties, None: all."""
    memo = "windows held"
    if memo not in query.memo:
        scores = held.cosines(query.vector)
        chunks, windows = held.chunks, held.ids
        if query.visible is not None:
            seen = within(held.documents, query.visible)
            scores, chunks, windows = scores[seen], chunks[seen], windows[seen]
        # By chunk; in a chunk the best last, and of equal ones the first.
        order = np.lexsort((-windows, scores, chunks))
        last = order[np.append(np.diff(chunks[order]) != 0, True)] if len(order) else order
        query.memo[memo] = chunks[last], scores[last], windows[last]
    chunks, scores, windows = query.memo[memo]
    if limit is None:
        return chunks, scores, windows
    near = _nearest(scores, limit)
    return chunks[near], scores[near], windows[near]


def _select(query: Query, table: str, column: str, vector: str, seen: str) -> str:
    """Distances of the rows that the caller may see, for which `seen` is the condition.

    The literal, not a parameter, lets the planner see the index (docs/decisions.md).
    """
    where = ""
    if query.visible_ids is not None:
        where = "WHERE " + seen.format(visible=f"'{{{','.join(map(str, query.visible_ids))}}}'::int8[]")
    return f"SELECT v.{column}, {distance(query, vector)} AS distance FROM graphrag.{table} v {where}"


def distance(query: Query, vector: str) -> str:
    """SQL of the distance of a row of a vector table, `v`, to a vector in pgvector's form."""
    kind = f"{query.db.vector_type}({query.corpus.options.embedding.dimensions})"
    return f"(v.embedding::{kind} {query.db.cosine_distance} '{vector}'::{kind})"


def _indexed(query: Query, table: str, column: str, vector: str, limit: int, seen: str) -> list[dict[str, Any]]:
    """Return the nearest rows by HNSW; none where there is no index, or where a scan is right.

    What an index finds depends on all its rows, also on those that are not to be searched.
    """
    if limit > EF_SEARCH or query.visible is not None or not _is_indexed(query, table):
        return []
    select = _select(query, table, column, vector, seen)
    return query.db.literal_query(f"{select} ORDER BY distance LIMIT {limit}")


def _best_windows(query: Query, table: str, limit: int, seen: str) -> str:
    """SQL of the best window of each of the `limit` nearest chunks and all that tie, exactly: OFFSET 0 hides the index."""
    return (
        "WITH b AS MATERIALIZED (SELECT v.chunk_id, pg_catalog.min(ARRAY[v.distance, v.window_id]) AS best FROM"
        f"  ({_select(query, table, 'window_id, v.chunk_id', query.vector_text, seen)} OFFSET 0) v GROUP BY v.chunk_id)"
        " SELECT pg_catalog.string_agg(pg_catalog.int8send(b.chunk_id), ''::bytea) AS chunks,"
        "        pg_catalog.string_agg(pg_catalog.float8send(b.best[1]), ''::bytea) AS distances,"
        "        pg_catalog.string_agg(pg_catalog.int8send(b.best[2]::int8), ''::bytea) AS windows FROM b"
        "  WHERE b.best[1] <= (SELECT pg_catalog.max(l.distance) FROM"
        f"        (SELECT b.best[1] AS distance FROM b ORDER BY distance LIMIT {limit}) l) + {NOISE}"
    )


def _is_indexed(query: Query, table: str) -> bool:
    memo = f"indexed {table}"
    if memo not in query.memo:
        query.memo[memo] = _has_index(query, table)
    return bool(query.memo[memo])


def _has_index(query: Query, table: str) -> bool:
    rows = query.db.query(
        "SELECT pg_catalog.to_regclass($1) IS NOT NULL AS yes", ["text"], [f"graphrag.{table}_hnsw_idx"]
    )
    return bool(rows[0]["yes"])


def score_chunks(query: Query, chunk_ids: Any) -> Any:
    """Return the cosine of the query to the best window of each chunk, (n,) float64; 0.0 without one. Ids ascend."""
    scores = np.zeros(len(chunk_ids))
    if (held := vectors.small(query, "window")) is not None:
        chunks, cosines, _ = _best_windows_held(query, held, None)
        here = within(chunk_ids, chunks)
        scores[here] = cosines[np.searchsorted(chunks, chunk_ids[here])]
        return leveled(scores)
    db = query.db
    kind = f"{db.vector_type}({query.corpus.options.embedding.dimensions})"
    row = db.literal_query(
        "SELECT pg_catalog.string_agg(pg_catalog.int8send(s.chunk_id), ''::bytea) AS ids,"
        "       pg_catalog.string_agg(pg_catalog.float8send(s.cosine), ''::bytea) AS cosines"
        f"  FROM (SELECT v.chunk_id, 1 - pg_catalog.min(v.embedding::{kind} {db.cosine_distance}"
        f"               '{query.vector_text}'::{kind}) AS cosine FROM graphrag.window_vectors_{query.corpus.space} v"
        f"         WHERE v.chunk_id = ANY ('{{{','.join(map(str, chunk_ids.tolist()))}}}'::int8[]) GROUP BY v.chunk_id) s"
    )[0]
    scores[np.searchsorted(chunk_ids, int64s(row["ids"]))] = float64s(row["cosines"])
    return leveled(scores)
