"""Merged values from all mentions and fragments: by definition what the merge's counting comes to (docs/decisions.md)."""

from pg_graphrag.curation.storage import Storage
from pg_graphrag.graph.descriptions import describe
from pg_graphrag.graph.merged import renew_evidence
from pg_graphrag.server import Database, columns, slices

# $1: ids. What mentions say, and what people added.
_ENTITY_VALUES = """
SELECT m.entity_id AS id, v.kind, v.value
  FROM graphrag.entity_mentions m
 CROSS JOIN LATERAL (VALUES ('n', m.name), ('t', m.type), ('d', m.description)) AS v (kind, value)
 WHERE m.entity_id = ANY ($1)
 UNION ALL
SELECT e.id, v.kind, v.value
  FROM graphrag.entities e
  JOIN graphrag.curated c ON c.corpus_id = e.corpus_id AND c.entity_key = e.key AND c.effect = 'fragment'
                         AND c.other_entity_key IS NULL
 CROSS JOIN LATERAL (VALUES ('n', c.value ->> 'name'), ('t', c.value ->> 'type'),
                            ('d', c.value ->> 'description')) AS v (kind, value)
 WHERE e.id = ANY ($1)
 UNION ALL
SELECT e.id, v.kind, v.value
  FROM graphrag.entities e
  JOIN graphrag.curated c ON c.corpus_id = e.corpus_id AND c.entity_key = e.key AND c.effect = 'fragment'
                         AND c.other_entity_key IS NOT NULL
 CROSS JOIN LATERAL (VALUES ('n', c.value ->> CASE WHEN c.forward THEN 'source' ELSE 'target' END),
                            ('t', 'UNKNOWN')) AS v (kind, value)
 WHERE e.id = ANY ($1)
 UNION ALL
SELECT e.id, v.kind, v.value
  FROM graphrag.entities e
  JOIN graphrag.curated c ON c.corpus_id = e.corpus_id AND c.other_entity_key = e.key AND c.effect = 'fragment'
 CROSS JOIN LATERAL (VALUES ('n', c.value ->> CASE WHEN c.forward THEN 'target' ELSE 'source' END),
                            ('t', 'UNKNOWN')) AS v (kind, value)
 WHERE e.id = ANY ($1)
"""
_RELATIONSHIP_FRAGMENTS = """
  FROM graphrag.relationships r
  JOIN graphrag.entities l ON l.id = r.low_id
  JOIN graphrag.entities h ON h.id = r.high_id
  JOIN graphrag.curated c ON c.corpus_id = r.corpus_id AND c.entity_key = least(l.key, h.key)
                         AND c.other_entity_key = greatest(l.key, h.key) AND c.effect = 'fragment'
"""
_RELATIONSHIP_VALUES = f"""
SELECT m.relationship_id AS id, 'd' AS kind, m.description AS value
  FROM graphrag.relationship_mentions m
 WHERE m.relationship_id = ANY ($1)
 UNION ALL
SELECT m.relationship_id, 'k', k.keyword
  FROM graphrag.relationship_mentions m
 CROSS JOIN LATERAL pg_catalog.unnest(m.keywords) AS k (keyword)
 WHERE m.relationship_id = ANY ($1) AND m.description IS NOT NULL
 UNION ALL
SELECT r.id, 'd', c.value ->> 'description'
{_RELATIONSHIP_FRAGMENTS} WHERE r.id = ANY ($1)
 UNION ALL
SELECT r.id, 'k', k.keyword
{_RELATIONSHIP_FRAGMENTS} CROSS JOIN LATERAL pg_catalog.jsonb_array_elements_text(c.value -> 'keywords') AS k (keyword)
 WHERE r.id = ANY ($1)
"""
_VALUES = {"entity": _ENTITY_VALUES, "relationship": _RELATIONSHIP_VALUES}
_INSERT_VALUES = """
INSERT INTO graphrag.{what}_values ({what}_id, kind, value, count, tokens)
SELECT s.id, s.kind::"char", s.value, pg_catalog.count(*), CASE s.kind WHEN 'd' THEN coalesce(pg_catalog.max(t.tokens), -1) END
  FROM ({values}) s
  LEFT JOIN unnest($2, $3) AS t (value, tokens) ON s.kind = 'd' AND t.value = s.value COLLATE "C"
 WHERE s.value IS NOT NULL AND (s.kind <> 'd' OR s.value <> '')
 GROUP BY s.id, s.kind, s.value
"""
_UPDATE = {
    "entity": """
UPDATE graphrag.entities e
   SET mention_count = (SELECT pg_catalog.count(DISTINCT m.chunk_id) FROM graphrag.entity_mentions m WHERE m.entity_id = e.id),
       evidence_rank = (SELECT pg_catalog.min(m.evidence_rank) FROM graphrag.entity_mentions m WHERE m.entity_id = e.id),
       degree        = (SELECT pg_catalog.count(*) FROM graphrag.relationships r WHERE r.low_id = e.id)
                       + (SELECT pg_catalog.count(*) FROM graphrag.relationships r WHERE r.high_id = e.id),
       curated       = NOT EXISTS (SELECT FROM graphrag.curated c WHERE c.corpus_id = e.corpus_id AND c.entity_key = e.key
                                      AND c.other_entity_key IS NULL AND c.effect = 'delete' AND c.own)
                       AND (EXISTS (SELECT FROM graphrag.curated c WHERE c.corpus_id = e.corpus_id AND c.entity_key = e.key
                                       AND c.effect = 'fragment')
                            OR EXISTS (SELECT FROM graphrag.curated c WHERE c.corpus_id = e.corpus_id
                                          AND c.other_entity_key = e.key
                                          AND c.effect = 'fragment')),
       name          = coalesce((SELECT v.value FROM graphrag.entity_values v WHERE v.entity_id = e.id AND v.kind = 'n'
                                  ORDER BY v.count DESC, v.value LIMIT 1), e.name),
       type          = coalesce((SELECT v.value FROM graphrag.entity_values v WHERE v.entity_id = e.id AND v.kind = 't'
                                  ORDER BY v.value = 'UNKNOWN', v.count DESC, v.value LIMIT 1), e.type)
 WHERE e.id = ANY ($1)
""",
    "relationship": """
UPDATE graphrag.relationships t
   SET mention_count = s.mention_count,
       evidence_rank = s.evidence_rank,
       weight        = pg_catalog.trim_scale(s.weight),
       direction     = s.direction,
       curated       = s.curated,
       keywords      = ARRAY(SELECT v.value FROM graphrag.relationship_values v
                              WHERE v.relationship_id = t.id AND v.kind = 'k' ORDER BY v.value),
       source_id     = CASE WHEN s.forward THEN t.low_id ELSE t.high_id END,
       target_id     = CASE WHEN s.forward THEN t.high_id ELSE t.low_id END
  FROM (SELECT x.id, m.mention_count, m.evidence_rank, d.hidden, NOT d.hidden AND f.fragments > 0 AS curated,
               coalesce(m.weight, 0) + coalesce(f.weight, 0) AS weight,
               coalesce(m.direction, 0) + coalesce(f.direction, 0) AS direction,
               CASE coalesce(m.direction, 0) + coalesce(f.direction, 0) WHEN 0 THEN x.low_key < x.high_key
                    ELSE coalesce(m.direction, 0) + coalesce(f.direction, 0) > 0 END AS forward
          FROM (SELECT r.id, r.corpus_id, l.key AS low_key, h.key AS high_key
                  FROM graphrag.relationships r
                  JOIN graphrag.entities l ON l.id = r.low_id
                  JOIN graphrag.entities h ON h.id = r.high_id
                 WHERE r.id = ANY ($1)) x
         CROSS JOIN LATERAL (
               SELECT pg_catalog.count(DISTINCT m.chunk_id) AS mention_count, pg_catalog.min(m.evidence_rank) AS evidence_rank,
                      pg_catalog.sum(m.weight) AS weight, pg_catalog.sum(CASE WHEN m.forward THEN 1 ELSE -1 END) AS direction
                 FROM graphrag.relationship_mentions m WHERE m.relationship_id = x.id) m
         CROSS JOIN LATERAL (
               SELECT pg_catalog.count(*) AS fragments, pg_catalog.sum((c.value ->> 'weight')::numeric) AS weight,
                      pg_catalog.sum(CASE WHEN c.forward = (x.low_key < x.high_key) THEN 1 ELSE -1 END) AS direction
                 FROM graphrag.curated c
                WHERE c.corpus_id = x.corpus_id AND c.entity_key = least(x.low_key, x.high_key)
                  AND c.other_entity_key = greatest(x.low_key, x.high_key) AND c.effect = 'fragment') f
         CROSS JOIN LATERAL (
               SELECT EXISTS (SELECT FROM graphrag.curated c WHERE c.corpus_id = x.corpus_id AND c.effect = 'delete' AND c.own
                                 AND (c.entity_key IN (x.low_key, x.high_key) AND c.other_entity_key IS NULL
                                      OR c.entity_key = least(x.low_key, x.high_key)
                                         AND c.other_entity_key = greatest(x.low_key, x.high_key))) AS hidden) d) s
 WHERE t.id = s.id
""",
}


def recompute(db: Database, storage: Storage, what: str, ids: list[int]) -> bool:
    """Renew the values of entities or relationships (`what`); return whether a summary of descriptions is due."""
    due = False
    for part in slices(ids):
        for row in db.query(
            f"SELECT DISTINCT v.value, v.tokens FROM graphrag.{what}_values v"
            f" WHERE v.{what}_id = ANY ($1) AND v.kind = 'd'",
            ["int8[]"],
            [part],
        ):
            storage.tokens[row["value"]] = row["tokens"]
    for part in slices(ids):
        db.query(f"DELETE FROM graphrag.{what}_values v WHERE v.{what}_id = ANY ($1)", ["int8[]"], [part])
        db.query(
            _INSERT_VALUES.format(what=what, values=_VALUES[what]),
            ["int8[]", "text[]", "int4[]"],
            [part, list(storage.tokens), list(storage.tokens.values())],
        )
        _count_tokens(db, storage, what, part)
        db.query(_UPDATE[what], ["int8[]"], [part])
        summary_due, without = describe(db, what, set(part), set(part), storage.corpus.options.llm.has("summary"))
        renew_evidence(db, what, without)
        due |= summary_due
    return due


def _count_tokens(db: Database, storage: Storage, what: str, ids: list[int]) -> None:
    """Count the tokens of descriptions that had none: they come from mentions that were hidden, or from people."""
    rows = db.query(
        f"SELECT DISTINCT v.value FROM graphrag.{what}_values v"
        f" WHERE v.{what}_id = ANY ($1) AND v.kind = 'd' AND v.tokens < 0",
        ["int8[]"],
        [ids],
    )
    for part in slices([(row["value"], storage.count(row["value"])) for row in rows]):
        db.query(
            f"UPDATE graphrag.{what}_values v SET tokens = u.tokens FROM unnest($2, $3) AS u (value, tokens)"
            f" WHERE v.{what}_id = ANY ($1) AND v.kind = 'd' AND v.tokens < 0 AND v.value = u.value COLLATE \"C\"",
            ["int8[]", "text[]", "int4[]"],
            [ids, *columns(part)],
        )


def recount_degrees(db: Database, ids: list[int]) -> None:
    """Count the relationships of entities anew."""
    for part in slices(ids):
        db.query(
            "UPDATE graphrag.entities e SET degree ="
            " (SELECT pg_catalog.count(*) FROM graphrag.relationships r WHERE r.low_id = e.id)"
            " + (SELECT pg_catalog.count(*) FROM graphrag.relationships r WHERE r.high_id = e.id) WHERE e.id = ANY ($1)",
            ["int8[]"],
            [part],
        )
