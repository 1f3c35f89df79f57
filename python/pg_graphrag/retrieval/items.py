"""graphrag.search_entities, search_relationships and search_reports: the graph's own rows, by relevance."""

import json
from collections.abc import Iterator
from typing import Any

from pg_graphrag.retrieval import graph
from pg_graphrag.retrieval.query import Query
from pg_graphrag.retrieval.reports import match_reports, report_rows
from pg_graphrag.retrieval.search import DIGITS, check_top_k, prepare
from pg_graphrag.server import Database, Row

# What was merged from all documents is shown to who may see them all; others get it from what they may see ($2).
_ENTITIES = """
SELECT e.id, e.key, e.name, e.type, e.description, e.degree
  FROM graphrag.entities e
 WHERE e.id = ANY ($1)
"""
# What visible mentions and people say, as the merge would put it together (graph/descriptions.py), up to so many fragments.
_FRAGMENTS = """
       (SELECT pg_catalog.string_agg(f.description, E'\\n' ORDER BY f.n DESC, f.description)
          FROM (SELECT a.description COLLATE "C" AS description, pg_catalog.count(*) AS n
                  FROM (SELECT m.description
                          FROM graphrag.{what}_mentions m
                         WHERE m.{what}_id = {id} AND m.document_id = ANY ($2)
                        UNION ALL
                        SELECT c.value ->> 'description' FROM graphrag.curated c WHERE {curated}) a
                 WHERE a.description <> ''
                 GROUP BY a.description COLLATE "C"
                 ORDER BY n DESC, description
                 LIMIT 20) f)"""
_CURATED = "c.corpus_id = e.corpus_id AND c.entity_key = e.key AND c.other_entity_key IS NULL AND c.effect = 'fragment'"
_CURATED_PAIR = (
    "c.corpus_id = r.corpus_id AND c.entity_key = least(s.key, t.key) AND c.other_entity_key = greatest(s.key, t.key)"
    " AND c.effect = 'fragment'"
)
_VISIBLE_ENTITIES = """
SELECT e.id, e.key, coalesce(p.value ->> 'name', v.name) AS name, coalesce(p.value ->> 'type', v.type) AS type,
       coalesce(p.value ->> 'description', v.description) AS description,
       (SELECT pg_catalog.count(DISTINCT m.relationship_id)::int
          FROM (SELECT r.id FROM graphrag.relationships r WHERE r.low_id = e.id
                UNION ALL SELECT r.id FROM graphrag.relationships r WHERE r.high_id = e.id) r
          JOIN graphrag.relationship_mentions m ON m.relationship_id = r.id AND m.document_id = ANY ($2)) AS degree
  FROM graphrag.entities e
 CROSS JOIN LATERAL (SELECT graphrag._edits(e.corpus_id, e.key) AS value) p
 CROSS JOIN LATERAL (
       SELECT m.name, m.type,
              coalesce({fragments}, pg_catalog.substr(c.content, m.start_offset - c.start_offset + 1,
                                                      m.end_offset - m.start_offset), '') AS description
         FROM graphrag.entity_mentions m
         JOIN graphrag.chunks c ON c.id = m.chunk_id
        WHERE m.entity_id = e.id AND m.document_id = ANY ($2)
        ORDER BY m.evidence_rank, m.type = 'UNKNOWN', m.type COLLATE "C", m.name COLLATE "C"
        LIMIT 1) v
 WHERE e.id = ANY ($1)
""".replace("{fragments}", _FRAGMENTS.format(what="entity", id="e.id", curated=_CURATED))

_RELATIONSHIPS = """
SELECT r.id, s.name AS source, t.name AS target, r.keywords, r.description, r.weight::float8 AS weight,
       s.key AS source_key, t.key AS target_key
  FROM graphrag.relationships r
  JOIN graphrag.entities s ON s.id = r.source_id
  JOIN graphrag.entities t ON t.id = r.target_id
 WHERE r.id = ANY ($1)
"""
_VISIBLE_RELATIONSHIPS = """
SELECT r.id, coalesce(graphrag._edits(s.corpus_id, s.key) ->> 'name', s.key) AS source,
       coalesce(graphrag._edits(t.corpus_id, t.key) ->> 'name', t.key) AS target,
       CASE WHEN p.value ->> 'keywords' IS NULL THEN v.keywords
            ELSE ARRAY(SELECT pg_catalog.jsonb_array_elements_text(p.value -> 'keywords')) END AS keywords,
       coalesce(p.value ->> 'description', v.description) AS description,
       coalesce((p.value ->> 'weight')::float8, w.weight) AS weight, s.key AS source_key, t.key AS target_key
  FROM graphrag.relationships r
  JOIN graphrag.entities s ON s.id = r.source_id
  JOIN graphrag.entities t ON t.id = r.target_id
 CROSS JOIN LATERAL (SELECT graphrag._edits(r.corpus_id, s.key, t.key) AS value) p
 CROSS JOIN LATERAL (
       SELECT ARRAY(SELECT DISTINCT k.keyword COLLATE "C"
                      FROM (SELECT pg_catalog.unnest(x.keywords) FROM graphrag.relationship_mentions x
                             WHERE x.relationship_id = r.id AND x.document_id = ANY ($2)
                            UNION ALL
                            SELECT pg_catalog.jsonb_array_elements_text(c.value -> 'keywords')
                              FROM graphrag.curated c WHERE {curated}) AS k (keyword)
                     ORDER BY 1) AS keywords,
              coalesce({fragments}, pg_catalog.substr(c.content, m.start_offset - c.start_offset + 1,
                                                      m.end_offset - m.start_offset), '') AS description
         FROM graphrag.relationship_mentions m
         JOIN graphrag.chunks c ON c.id = m.chunk_id
        WHERE m.relationship_id = r.id AND m.document_id = ANY ($2)
        ORDER BY m.evidence_rank
        LIMIT 1) v
 CROSS JOIN LATERAL (
       SELECT (pg_catalog.sum(m.weight) + (SELECT coalesce(pg_catalog.sum((c.value ->> 'weight')::numeric), 0)
                                             FROM graphrag.curated c WHERE {curated}))::float8 AS weight
         FROM graphrag.relationship_mentions m
        WHERE m.relationship_id = r.id AND m.document_id = ANY ($2)) w
 WHERE r.id = ANY ($1)
""".replace("{fragments}", _FRAGMENTS.format(what="relationship", id="r.id", curated="{curated}")).replace(
    "{curated}", _CURATED_PAIR
)


def entities(
    db: Database, query: str | None, corpus: str | None, top_k: int | None, filter_: str | None, low: list[str] | None
) -> Iterator[tuple[Any, ...]]:
    """Yield (rank, entity_id, name, type, description, degree, score, explain) best first."""
    asked = prepare(db, query, corpus, "local", filter_, low, None, None)
    wanted = check_top_k(top_k)
    if not wanted or not (asked.text or low):
        return
    matched = graph.match_entities(asked, 2 * wanted)
    rows = entity_rows(asked, {key: score for key, (score, _) in matched.items()})
    for rank, row in enumerate(rows[:wanted], 1):
        explain = json.dumps({"because": matched[row["id"]][1], **asked.notes}, ensure_ascii=False)
        yield (rank, row["id"], row["name"], row["type"], row["description"], row["degree"], row["score"], explain)


def relationships(
    db: Database, query: str | None, corpus: str | None, top_k: int | None, filter_: str | None, high: list[str] | None
) -> Iterator[tuple[Any, ...]]:
    """Yield (rank, relationship_id, source, target, keywords, description, weight, score, explain) best first."""
    asked = prepare(db, query, corpus, "global", filter_, None, high, None)
    wanted = check_top_k(top_k)
    if not wanted or not (asked.text or high):
        return
    matched = graph.match_relationships(asked, 2 * wanted)
    rows = relationship_rows(asked, {key: score for key, (score, _) in matched.items()})
    for rank, row in enumerate(rows[:wanted], 1):
        explain = json.dumps({"because": matched[row["id"]][1], **asked.notes}, ensure_ascii=False)
        named = (row["source"], row["target"], row["keywords"], row["description"], row["weight"])
        yield (rank, row["id"], *named, row["score"], explain)


def reports(
    db: Database, query: str | None, corpus: str | None, top_k: int | None, filter_: str | None, level: int | None
) -> Iterator[tuple[Any, ...]]:
    """Yield (rank, community_id, level, title, summary, rating, score, explain) best first; ties by title."""
    asked = prepare(db, query, corpus, "naive", filter_, None, None, None)
    wanted = check_top_k(top_k)
    if not asked.text or not wanted:
        return
    matched = match_reports(asked, wanted, level)
    rows = report_rows(db, [one.community_id for one in matched])
    for rank, one in enumerate(matched, 1):
        row = rows[one.community_id]
        explain: dict[str, Any] = {"lexical": round(one.lexical, 6)}
        if one.cosine is not None:
            explain["cosine"] = round(one.cosine, 6)
        fields = (row["level"], row["title"], row["summary"], row["rating"])
        yield (rank, one.community_id, *fields, one.score, json.dumps(explain))


def entity_rows(query: Query, scores: dict[int, float]) -> list[Row]:
    """Return the entities of `scores` that the caller may see, best first, ties by key."""
    rows = _rows(query, _ENTITIES if query.visible is None else _VISIBLE_ENTITIES, scores)
    rows.sort(key=lambda row: (-row["score"], row["key"].encode()))
    return rows


def relationship_rows(query: Query, scores: dict[int, float]) -> list[Row]:
    """Return the relationships of `scores` that the caller may see, best first, ties by key."""
    rows = _rows(query, _RELATIONSHIPS if query.visible is None else _VISIBLE_RELATIONSHIPS, scores)
    rows.sort(key=lambda row: (-row["score"], row["source_key"].encode(), row["target_key"].encode()))
    return rows


def _rows(query: Query, sql: str, scores: dict[int, float]) -> list[Row]:
    if not scores:
        return []
    rows = query.db.query(sql, ["int8[]", "int8[]"], [list(scores), query.visible_ids])
    for row in rows:
        row["score"] = round(scores[row["id"]], DIGITS)
        row["description"] = " ".join(row["description"].split())
    return rows
