"""Graph evidence: entities and relationships that a query is about, and the chunks that mention them.

Source: LightRAG (arXiv 2410.05779), dual-level retrieval; SYSTEMS.md "local, global, hybrid, mix".
"""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from pg_graphrag.numeric import np
from pg_graphrag.retrieval import dense
from pg_graphrag.retrieval.bm25 import BM25Index
from pg_graphrag.retrieval.lexical import bm25
from pg_graphrag.retrieval.query import Query, int64s
from pg_graphrag.retrieval.rankings import Ranking, ranking
from pg_graphrag.server import Row
from pg_graphrag.text.concepts import key

# A hub entity or relationship is followed to this many chunks, those that mention it most.
MAX_CHUNKS_EACH = 200
# Names are looked up near so many keywords; the very names are found for all.
MAX_KEYWORDS = 8
# How many windows (or, without dense retrieval, chunks) are read for the relationships they state, per one wanted.
WINDOWS_PER_RELATIONSHIP = 3


@dataclass
class Evidence:
    """Entities and relationships, best first (ties by key), each with its score; and where each came from."""

    entities: dict[int, float] = field(default_factory=dict)
    relationships: dict[int, float] = field(default_factory=dict)
    why: dict[tuple[str, int], str] = field(default_factory=dict)


EvidenceSource = Callable[[Query], Evidence]


def match_entities(query: Query, limit: int) -> dict[int, tuple[float, str]]:
    """Entities that the low-level keywords name: {entity id: (score, reason)}, best first.

    Score: 1 for the very name, else the cosine of name and keyword. The very names come from every phrase of the query, too.
    """
    found: dict[int, tuple[float, str]] = {}
    for row in query.db.query(
        'SELECT e.id, e.name FROM graphrag.entities e WHERE e.corpus_id = $1 AND e.key = ANY ($2 COLLATE "C")'
        " AND ($4 IS NULL OR EXISTS"
        "      (SELECT FROM graphrag.entity_mentions m WHERE m.entity_id = e.id AND m.document_id = ANY ($4)))"
        " ORDER BY pg_catalog.length(e.key) DESC, e.key LIMIT $3",
        ["int4", "text[]", "int4", "int8[]"],
        [query.corpus.id, query.phrase_keys, limit, query.visible_ids],
    ):
        found[row["id"]] = (1.0, f"named: {row['name']}")
    if query.dense_works and query.low_level:
        # LightRAG embeds the keywords joined; each on its own finds rare names beside frequent ones.
        paper = query.options.profile == "paper"
        texts = [", ".join(query.low_level)] if paper else query.low_level[:MAX_KEYWORDS]
        stored = {} if paper else dense.name_vectors(query, [key(text) for text in texts])
        for text in texts:
            vector = stored[key(text)] if key(text) in stored else query.embed([text])[0]
            for entity, cosine in dense.entities(query, vector, max(limit // len(texts), 5)):
                if cosine > found.get(entity, (0.0, ""))[0]:
                    found[entity] = (cosine, f"name near: {text}")
    order = _by_score(query, _ENTITY_ORDER, {entity: score for entity, (score, _) in found.items()})
    return {entity: found[entity] for entity in order[:limit]}


# Scores that differ by less are equal.
_BY_SCORE = "ORDER BY pg_catalog.round(u.score::numeric, 9) DESC, "
_ENTITY_ORDER = (
    "SELECT u.id FROM unnest($1, $2) AS u (id, score) JOIN graphrag.entities e ON e.id = u.id " + _BY_SCORE + "e.key"
)
_RELATIONSHIP_ORDER = (
    "SELECT u.id FROM unnest($1, $2) AS u (id, score) JOIN graphrag.relationships r ON r.id = u.id"
    " JOIN graphrag.entities l ON l.id = r.low_id JOIN graphrag.entities h ON h.id = r.high_id "
    + _BY_SCORE
    + "r.weight DESC, least(l.key, h.key), greatest(l.key, h.key)"
)


def _by_score(query: Query, sql: str, scores: dict[int, float]) -> list[int]:
    """Return ids by score, ties by key: ids themselves depend on the order of ingestion."""
    rows = query.db.query(sql, ["int8[]", "float8[]"], [list(scores), list(scores.values())])
    return [row["id"] for row in rows]


def match_relationships(query: Query, limit: int) -> dict[int, tuple[float, str]]:
    """Relationships that the high-level keywords are about: {relationship id: (score, reason)}, best first.

    A relationship scores as its best mention, and a concept's mention as the window that says it.
    """
    text = ", ".join(query.high_level)
    themed = query
    if text != query.text:
        themed = Query(query.db, query.corpus, text, query.options, query.filter, query.low_level, query.high_level)
        themed.existing_only = query.existing_only
    depth = limit * WINDOWS_PER_RELATIONSHIP
    if query.dense_works:
        source = dense.windows(themed, depth)
        sql, places = _OF_WINDOWS, [source.why[chunk]["window_id"] for chunk in source.ids.tolist()]
    else:
        source = bm25(themed, depth)
        sql, places = _OF_CHUNKS, source.ids.tolist()
    nearness = source.scores.tolist()
    # Places are in order, and most state several relationships: the first few are usually enough, and exactly so.
    for cut in (limit // 2, depth):
        rows = query.db.query(sql, ["int8[]", "float8[]"], [places[:cut], nearness[:cut]])
        if len(rows) >= limit:
            break
    scores = {row["id"]: float(row["score"]) for row in _with_ties(rows, limit)}
    order = _by_score(query, _RELATIONSHIP_ORDER, scores)
    return {relationship: (scores[relationship], f"stated near: {text[:80]}") for relationship in order[:limit]}


def _with_ties(rows: list[Row], limit: int) -> list[Row]:
    """Return the first `limit` rows and all that tie with the last of them."""
    cut = limit
    while 0 < cut < len(rows) and (rows[cut]["score"], rows[cut]["weight"]) == (
        rows[cut - 1]["score"],
        rows[cut - 1]["weight"],
    ):
        cut += 1
    return rows[:cut]


_STATED = """
SELECT m.relationship_id AS id, pg_catalog.max(u.score) AS score, pg_catalog.max(r.weight) AS weight
  FROM {places}
  JOIN graphrag.relationship_mentions m ON {stated}
  JOIN graphrag.relationships r ON r.id = m.relationship_id
 GROUP BY m.relationship_id
 ORDER BY score DESC, weight DESC
"""
_OF_WINDOWS = _STATED.format(
    places="unnest($1, $2) AS u (window_id, score) JOIN graphrag.chunk_windows w ON w.id = u.window_id",
    stated="m.chunk_id = w.chunk_id AND w.ordinal = ANY (m.windows)",
)
_OF_CHUNKS = _STATED.format(places="unnest($1, $2) AS u (chunk_id, score)", stated="m.chunk_id = u.chunk_id")


def local_evidence(query: Query) -> Evidence:
    """LightRAG local: entities by the low-level keywords, and their relationships by (degree sum, weight)."""
    return _once(query, "local", _local_evidence)


def global_evidence(query: Query) -> Evidence:
    """LightRAG global: relationships by the high-level keywords, and their endpoints."""
    return _once(query, "global", _global_evidence)


def _once(query: Query, name: str, source: EvidenceSource) -> Evidence:
    """Context and chunks of one query share their evidence."""
    if name not in query.memo:
        query.memo[name] = source(query)
    evidence: Evidence = query.memo[name]
    return evidence


def _local_evidence(query: Query) -> Evidence:
    limit = query.options.graph_top_k
    entities = match_entities(query, limit)
    found = Evidence({entity: score for entity, (score, _) in entities.items()})
    found.why = {("entity", entity): reason for entity, (_, reason) in entities.items()}
    rows = query.db.query(_INCIDENT, ["int8[]", "int4"], [list(entities), limit])
    for row in rows:
        through = row["low_id"] if row["low_id"] in entities else row["high_id"]
        both = [entities[end][0] for end in (row["low_id"], row["high_id"]) if end in entities]
        found.relationships[row["id"]] = max(both)
        found.why["relationship", row["id"]] = f"of entity {through}"
    return found


# Each entity brings its strongest relationships, so that one hub does not crowd out the others.
_INCIDENT = """
SELECT DISTINCT ON (s.degrees, s.weight, s.low_key, s.high_key) s.id, s.low_id, s.high_id
  FROM pg_catalog.unnest($1) AS u (entity_id)
 CROSS JOIN LATERAL (
       SELECT r.id, r.low_id, r.high_id, r.weight, l.degree + h.degree AS degrees,
              least(l.key, h.key) AS low_key, greatest(l.key, h.key) AS high_key
         FROM (SELECT * FROM graphrag.relationships x WHERE x.low_id = u.entity_id
               UNION ALL
               SELECT * FROM graphrag.relationships x WHERE x.high_id = u.entity_id) r
         JOIN graphrag.entities l ON l.id = r.low_id
         JOIN graphrag.entities h ON h.id = r.high_id
        ORDER BY degrees DESC, r.weight DESC, low_key, high_key
        LIMIT $2) s
 ORDER BY s.degrees DESC, s.weight DESC, s.low_key, s.high_key
 LIMIT $2
"""


def _global_evidence(query: Query) -> Evidence:
    relationships = match_relationships(query, query.options.graph_top_k)
    found = Evidence(relationships={key: score for key, (score, _) in relationships.items()})
    found.why = {("relationship", key): reason for key, (_, reason) in relationships.items()}
    for row in query.db.query(
        "SELECT r.id, r.source_id, r.target_id FROM graphrag.relationships r WHERE r.id = ANY ($1)",
        ["int8[]"],
        [list(relationships)],
    ):
        for entity in (row["source_id"], row["target_id"]):
            score = relationships[row["id"]][0]
            if score > found.entities.get(entity, 0.0):
                found.entities[entity] = score
                found.why["entity", entity] = f"endpoint of relationship {row['id']}"
    found.entities = {entity: found.entities[entity] for entity in _by_score(query, _ENTITY_ORDER, found.entities)}
    return found


def chunks(query: Query, name: str, evidence: Evidence, limit: int) -> Ranking:
    """Rank the chunks that mention the evidence: by their own nearness to the query, and by how much evidence they hold.

    Nearness is the best window's cosine (LightRAG's VECTOR) with BM25; evidence counts with linear decay over the ranks
    (LightRAG's WEIGHT).
    """
    weights: dict[int, float] = {}
    why: dict[int, dict[str, Any]] = {}
    for kind, items in (("entity", evidence.entities), ("relationship", evidence.relationships)):
        order = list(items)
        decay = {item: items[item] * (1 - place / (len(order) + 1)) for place, item in enumerate(order)}
        for chunk, item in _mentions(query, kind, order):
            weights[chunk] = weights.get(chunk, 0.0) + decay[item]
            through = why.setdefault(chunk, {}).setdefault(
                kind, {"id": item, "because": evidence.why.get((kind, item))}
            )
            if decay[item] > decay[through["id"]]:
                why[chunk][kind] = {"id": item, "because": evidence.why.get((kind, item))}
    if not weights:
        return Ranking.empty(name)
    near = _nearness(query, sorted(weights))
    scores = {chunk: near.get(chunk, 0.0) + 0.1 * float(np.log1p(weight)) for chunk, weight in weights.items()}
    best = ranking(name, scores, why)
    return Ranking(name, best.ids[:limit], best.scores[:limit], why)


def _mentions(query: Query, kind: str, items: list[int]) -> list[tuple[int, int]]:
    """Return (chunk id, item id) of visible mentions, at most MAX_CHUNKS_EACH per item."""
    if not items:
        return []
    tf = "m.tf DESC" if kind == "entity" else "m.weight DESC"
    row = query.db.query(
        "SELECT pg_catalog.string_agg(pg_catalog.int8send(m.chunk_id), ''::bytea) AS chunks,"
        "       pg_catalog.string_agg(pg_catalog.int8send(u.id), ''::bytea) AS items"
        "  FROM pg_catalog.unnest($1) AS u (id)"
        f" CROSS JOIN LATERAL (SELECT m.chunk_id FROM graphrag.{kind}_mentions m WHERE m.{kind}_id = u.id"
        f"                        AND ($3 IS NULL OR m.document_id = ANY ($3))"
        f"                      ORDER BY {tf}, m.chunk_id LIMIT $2) m",
        ["int8[]", "int4", "int8[]"],
        [items, MAX_CHUNKS_EACH, query.visible_ids],
    )[0]
    return list(zip(int64s(row["chunks"]).tolist(), int64s(row["items"]).tolist(), strict=True))


def _nearness(query: Query, chunk_ids: list[int]) -> dict[int, float]:
    """Return {chunk id: nearness to the query in 0 … 1}: cosine, and for the profile best its mean with BM25."""
    cosines = dense.score_chunks(query, chunk_ids) if query.dense_works else {}
    if query.options.profile == "paper" and cosines:
        return cosines
    index = BM25Index(query.db, query.corpus.id, "chunk")
    scores = np.nan_to_num(index.score_items(query.terms, np.array(chunk_ids, np.int64), idf=query.options.bm25_idf))
    scores = scores / (scores.max() or 1.0)
    if not cosines:
        return dict(zip(chunk_ids, scores.tolist(), strict=True))
    return {
        chunk: (cosines.get(chunk, 0.0) + score) / 2 for chunk, score in zip(chunk_ids, scores.tolist(), strict=True)
    }
