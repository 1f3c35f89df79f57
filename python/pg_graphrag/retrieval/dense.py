"""Dense retrieval over windows and entity names: HNSW where it is right and faster, exact otherwise."""

import json
from typing import Any

from pg_graphrag.embedding.text import vector_text
from pg_graphrag.numeric import np
from pg_graphrag.retrieval.query import Query, int64s
from pg_graphrag.retrieval.rankings import Ranking, ranking

# From this many vectors on, an HNSW index answers faster than a scan.
HNSW_ROWS = 5000
# graphrag.search sets hnsw.ef_search to this: an index scan returns at most so many rows.
EF_SEARCH = 200
# Below this share of visible documents a scan of just their vectors is faster than an index scan that skips the others.
INDEX_SHARE = 0.2


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
    rows = _indexed(query, table, "window_id, v.chunk_id", query.vector, 2 * limit, seen)
    if len({row["chunk_id"] for row in rows}) < limit:
        rows = _best_windows(query, table, 2 * limit, seen)
    scores: dict[int, float] = {}
    why: dict[int, dict[str, Any]] = {}
    for row in rows:
        if row["chunk_id"] not in scores:
            scores[row["chunk_id"]] = 1.0 - row["distance"]
            why[row["chunk_id"]] = {"window_id": row["window_id"]}
    best = ranking("windows", scores, why)
    query.memo["windows"] = limit, best
    return best


def entities(query: Query, vector: Any, limit: int) -> list[tuple[int, float]]:
    """Return the `limit` entities whose names are nearest, as (entity id, cosine)."""
    space = query.corpus.space
    if space is None or limit <= 0:
        return []
    seen = (
        "v.entity_id IN (SELECT m.entity_id FROM graphrag.entity_mentions m JOIN graphrag.chunks c ON c.id = m.chunk_id"
    )
    seen += " WHERE c.document_id = ANY ({visible}))"
    table = f"entity_vectors_{space}"
    rows = _indexed(query, table, "entity_id", vector, limit, seen)
    if len(rows) < limit:
        rows = query.db.literal_query(
            f"SELECT * FROM ({_select(query, table, 'entity_id', vector, seen)} OFFSET 0) v ORDER BY v.distance LIMIT {limit}"
        )
    return [(row["entity_id"], 1.0 - row["distance"]) for row in rows]


def name_vectors(query: Query, keys: list[str]) -> dict[str, Any]:
    """Return {key: vector} of entities with these very names, which need no embedding."""
    space = query.corpus.space
    if space is None:
        return {}
    rows = query.db.query(
        f"SELECT e.key, v.embedding::text AS vector FROM graphrag.entities e"
        f" JOIN graphrag.entity_vectors_{space} v ON v.entity_id = e.id"
        ' WHERE e.corpus_id = $1 AND e.key = ANY ($2 COLLATE "C")',
        ["int4", "text[]"],
        [query.corpus.id, keys],
    )
    return {row["key"]: np.array(json.loads(row["vector"]), np.float32) for row in rows}


def _select(query: Query, table: str, column: str, vector: Any, seen: str) -> str:
    """Distances of the rows that the caller may see, for which `seen` is the condition.

    The literal, not a parameter, lets the planner see the index (DESIGN.md 6).
    """
    where = ""
    if query.visible_ids is not None:
        where = "WHERE " + seen.format(visible=f"'{{{','.join(map(str, query.visible_ids))}}}'::int8[]")
    return f"SELECT v.{column}, {_distance(query, vector)} AS distance FROM graphrag.{table} v {where}"


def _distance(query: Query, vector: Any) -> str:
    kind = f"{query.db.vector_type}({query.corpus.options.embedding.dimensions})"
    return f"(v.embedding::{kind} {query.db.cosine_distance} '{vector_text(vector)}'::{kind})"


def _indexed(query: Query, table: str, column: str, vector: Any, limit: int, seen: str) -> list[dict[str, Any]]:
    """Return the nearest rows by HNSW; none where there is no index, or where a scan is right or faster."""
    if limit > EF_SEARCH or not _is_indexed(query, table) or not _mostly_visible(query):
        return []
    select = _select(query, table, column, vector, seen)
    return query.db.literal_query(f"{select} ORDER BY {_distance(query, vector)} LIMIT {limit}")


def _best_windows(query: Query, table: str, limit: int, seen: str) -> list[dict[str, Any]]:
    """Return the best window of each of the `limit` nearest chunks, exactly: behind OFFSET 0 the planner sees no index."""
    return query.db.literal_query(
        "SELECT b.chunk_id, b.best[1] AS distance, b.best[2]::int8 AS window_id FROM"
        " (SELECT v.chunk_id, pg_catalog.min(ARRAY[v.distance, v.window_id]) AS best"
        f"   FROM ({_select(query, table, 'window_id, v.chunk_id', query.vector, seen)} OFFSET 0) v GROUP BY v.chunk_id) b"
        f" ORDER BY b.best LIMIT {limit}"
    )


def _is_indexed(query: Query, table: str) -> bool:
    rows = query.db.query(
        "SELECT pg_catalog.to_regclass($1) IS NOT NULL AS yes", ["text"], [f"graphrag.{table}_hnsw_idx"]
    )
    return bool(rows[0]["yes"])


def _mostly_visible(query: Query) -> bool:
    if query.visible_ids is None:
        return True
    rows = query.db.query(
        "SELECT pg_catalog.count(*) AS n FROM (SELECT FROM graphrag.documents d WHERE d.corpus_id = $1 LIMIT $2) d",
        ["int4", "int8"],
        [query.corpus.id, int(len(query.visible_ids) / INDEX_SHARE) + 1],
    )
    return bool(len(query.visible_ids) >= INDEX_SHARE * rows[0]["n"])


def score_chunks(query: Query, chunk_ids: Any) -> dict[int, float]:
    """Return {chunk id: cosine of the query to its best window} for given chunks."""
    space = query.corpus.space
    if space is None or not len(chunk_ids):
        return {}
    db = query.db
    kind = f"{db.vector_type}({query.corpus.options.embedding.dimensions})"
    row = db.literal_query(
        "SELECT pg_catalog.string_agg(pg_catalog.int8send(s.chunk_id), ''::bytea ORDER BY s.chunk_id) AS ids,"
        "       pg_catalog.string_agg(pg_catalog.float8send(s.cosine), ''::bytea ORDER BY s.chunk_id) AS cosines"
        f"  FROM (SELECT v.chunk_id, 1 - pg_catalog.min(v.embedding::{kind} {db.cosine_distance}"
        f"               '{vector_text(query.vector)}'::{kind}) AS cosine FROM graphrag.window_vectors_{space} v"
        f"         WHERE v.chunk_id = ANY ('{{{','.join(map(str, chunk_ids))}}}'::int8[]) GROUP BY v.chunk_id) s"
    )[0]
    cosines = np.frombuffer(row["cosines"] or b"", ">f8").tolist()
    return dict(zip(int64s(row["ids"]).tolist(), cosines, strict=True))
