"""Dense retrieval over windows and entity names: HNSW where it is right and faster, exact otherwise."""

import json
from typing import Any

from pg_graphrag.embedding.text import vector_text
from pg_graphrag.numeric import np
from pg_graphrag.retrieval.query import Query, int64s
from pg_graphrag.retrieval.rankings import Ranking, ranking

# graphrag.search sets hnsw.ef_search to this: an index scan returns at most so many rows.
EF_SEARCH = 200
# Below this share of visible documents a scan of just their vectors is faster than an index scan that skips the others.
INDEX_SHARE = 0.2


def windows(query: Query, limit: int) -> Ranking:
    """Rank chunks by the cosine of the query to their best window."""
    space = query.corpus.space
    if space is None or limit <= 0:
        return Ranking.empty("windows")
    known, found = query.memo.get("windows", (0, None))
    if limit <= known:
        return Ranking("windows", found.ids[:limit], found.scores[:limit], found.why)
    wanted = 2 * limit
    while True:
        seen = "v.document_id = ANY ({visible})"
        rows = _nearest(query, f"window_vectors_{space}", "window_id, v.chunk_id", query.vector, wanted, seen)
        scores: dict[int, float] = {}
        why: dict[int, dict[str, Any]] = {}
        for row in rows:
            if row["chunk_id"] not in scores:
                scores[row["chunk_id"]] = 1.0 - row["distance"]
                why[row["chunk_id"]] = {"window_id": row["window_id"]}
        if len(scores) >= limit or len(rows) < wanted:
            break
        wanted *= 4
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
    rows = _nearest(query, f"entity_vectors_{space}", "entity_id", vector, limit, seen)
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


def _nearest(query: Query, table: str, column: str, vector: Any, limit: int, seen: str) -> list[dict[str, Any]]:
    """Nearest rows of one partition; `seen` is the condition for rows that the caller may see.

    The literal, not a parameter, lets the planner see the index (DESIGN.md 6).
    """
    db = query.db
    dimensions = query.corpus.options.embedding.dimensions
    kind = f"{db.vector_type}({dimensions})"
    distance = f"(v.embedding::{kind} {db.cosine_distance} '{vector_text(vector)}'::{kind})"
    where = ""
    if query.visible_ids is not None:
        where = "WHERE " + seen.format(visible=f"'{{{','.join(map(str, query.visible_ids))}}}'::int8[]")
    indexed = limit <= EF_SEARCH and _is_indexed(query, table) and _mostly_visible(query)
    select = f"SELECT v.{column}, {distance} AS distance FROM graphrag.{table} v {where}"
    if indexed:
        rows = db.literal_query(f"{select} ORDER BY {distance} LIMIT {limit}")
        if len(rows) == limit:
            return rows
    # Behind OFFSET 0 the planner cannot see the index: exact, and never fewer rows than there are.
    return db.literal_query(f"SELECT * FROM ({select} OFFSET 0) v ORDER BY v.distance LIMIT {limit}")


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
