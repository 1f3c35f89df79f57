"""Entities and relationships have the values that mentions and curations give them."""

from collections.abc import Iterator

from pg_graphrag.operate.admin.invariants.violations import violations
from pg_graphrag.server import Database
from pg_graphrag.server.corpus.corpora import Corpus

_ENTITY = "pg_catalog.format('entity %s (%s)', e.id, e.key)"
_RELATIONSHIP = "pg_catalog.format('relationship %s', r.id)"
# The last of several edits counts, for each value by itself.
EDITS = """
  FROM (SELECT c.entity_key, c.other_entity_key,
               pg_catalog.jsonb_object_agg(v.key, v.value ORDER BY c.curation_id, c.ordinal) AS value
          FROM graphrag.curated c
         CROSS JOIN LATERAL pg_catalog.jsonb_each(c.value) v
         WHERE c.corpus_id = $1 AND c.effect = 'edit' AND c.own AND {keys}
         GROUP BY c.entity_key, c.other_entity_key) o
"""
_DELETED = """
SELECT DISTINCT d.entity_key
  FROM graphrag.curated d WHERE d.corpus_id = $1 AND d.other_entity_key IS NULL AND d.effect = 'delete' AND d.own
"""
# Keys that do not lead to the entity of the same key: entity_key is another's, or null where the entity was deleted.
_LED = f"""
SELECT a.key, CASE WHEN d.entity_key IS NULL THEN a.entity_key END AS entity_key
  FROM (SELECT a.key, a.entity_key FROM graphrag.aliases a WHERE a.corpus_id = $1
         UNION ALL
        SELECT d.entity_key, d.entity_key
          FROM ({_DELETED}) d
         WHERE NOT EXISTS (SELECT FROM graphrag.aliases a WHERE a.corpus_id = $1 AND a.key = d.entity_key)) a
  LEFT JOIN ({_DELETED}) d ON d.entity_key = a.entity_key
"""

_STATEMENTS = {
    "entities and relationships have mentions, or people added them": f"""
        SELECT {_ENTITY} AS object,
               pg_catalog.format('mention_count is %s, chunks that mention it %s; of rows %s, %s; curated is %s, should be %s',
                                 e.mention_count, m.mentions, e.row_mention_count, m.row_mentions, e.curated, f.curated) AS detail
          FROM graphrag.entities e
          LEFT JOIN (SELECT m.entity_id, pg_catalog.count(DISTINCT m.chunk_id) AS mentions,
                            pg_catalog.count(DISTINCT m.chunk_id) FILTER (WHERE c.is_row) AS row_mentions
                       FROM graphrag.entity_mentions m LEFT JOIN graphrag.chunks c ON c.id = m.chunk_id
                      WHERE m.corpus_id = $1 GROUP BY m.entity_id) m ON m.entity_id = e.id
          LEFT JOIN (SELECT c.entity_key AS key FROM graphrag.curated c WHERE c.corpus_id = $1 AND c.effect = 'fragment'
                      UNION
                     SELECT c.other_entity_key FROM graphrag.curated c WHERE c.corpus_id = $1 AND c.effect = 'fragment') x
            ON x.key = e.key
         CROSS JOIN LATERAL (SELECT x.key IS NOT NULL AS curated) f
         WHERE e.corpus_id = $1
           AND ((e.mention_count, e.row_mention_count) <> (coalesce(m.mentions, 0), coalesce(m.row_mentions, 0))
                OR e.mention_count = 0 AND NOT e.curated OR e.curated <> f.curated)
         UNION ALL
        SELECT {_RELATIONSHIP},
               pg_catalog.format('mention_count is %s, chunks that state it %s; of rows %s, %s; weight is %s, should be %s;'
                                 ' direction is %s, should be %s; curated is %s, should be %s', r.mention_count, m.mentions,
                                 r.row_mention_count, m.row_mentions, r.weight, n.weight,
                                 r.direction, n.direction, r.curated, coalesce(f.fragments, 0) > 0)
          FROM graphrag.relationships r
          JOIN graphrag.entities l ON l.id = r.low_id JOIN graphrag.entities h ON h.id = r.high_id
          LEFT JOIN (SELECT m.relationship_id, pg_catalog.count(DISTINCT m.chunk_id) AS mentions,
                            pg_catalog.count(DISTINCT m.chunk_id) FILTER (WHERE c.is_row) AS row_mentions,
                            pg_catalog.sum(m.weight) AS weight,
                            pg_catalog.sum(CASE WHEN m.forward THEN 1 ELSE -1 END) AS direction
                       FROM graphrag.relationship_mentions m LEFT JOIN graphrag.chunks c ON c.id = m.chunk_id
                      WHERE m.corpus_id = $1
                      GROUP BY m.relationship_id) m ON m.relationship_id = r.id
          LEFT JOIN (SELECT c.entity_key, c.other_entity_key, pg_catalog.count(*) AS fragments,
                            pg_catalog.sum((c.value ->> 'weight')::numeric) AS weight,
                            pg_catalog.sum(CASE WHEN c.forward THEN 1 ELSE -1 END) AS direction
                       FROM graphrag.curated c
                      WHERE c.corpus_id = $1 AND c.effect = 'fragment' AND c.other_entity_key IS NOT NULL
                      GROUP BY c.entity_key, c.other_entity_key) f
            ON f.entity_key = least(l.key, h.key) AND f.other_entity_key = greatest(l.key, h.key)
          LEFT JOIN (SELECT o.* {EDITS.format(keys="c.other_entity_key IS NOT NULL")}) o
            ON o.entity_key = least(l.key, h.key) AND o.other_entity_key = greatest(l.key, h.key)
         CROSS JOIN LATERAL (
               SELECT coalesce((o.value ->> 'weight')::numeric, coalesce(m.weight, 0) + coalesce(f.weight, 0)) AS weight,
                      coalesce(m.direction, 0)
                      + CASE WHEN l.key < h.key THEN 1 ELSE -1 END * coalesce(f.direction, 0) AS direction) n
         WHERE r.corpus_id = $1
           AND ((r.mention_count, r.row_mention_count) <> (coalesce(m.mentions, 0), coalesce(m.row_mentions, 0))
                OR r.mention_count = 0 AND NOT r.curated
                OR (r.weight, r.direction) <> (n.weight, n.direction) OR r.curated <> (coalesce(f.fragments, 0) > 0))
         UNION ALL
        SELECT pg_catalog.format('%s mention %s', m.what, m.id), 'is of another corpus than what it mentions'
          FROM (SELECT 'entity' AS what, m.id FROM graphrag.entity_mentions m JOIN graphrag.entities e ON e.id = m.entity_id
                 WHERE m.corpus_id = $1 AND e.corpus_id <> $1
                 UNION ALL
                SELECT 'relationship', m.id FROM graphrag.relationship_mentions m
                  JOIN graphrag.relationships r ON r.id = m.relationship_id
                 WHERE m.corpus_id = $1 AND r.corpus_id <> $1) m
         UNION ALL
        SELECT {_RELATIONSHIP}, 'is of another corpus than one of its ends'
          FROM graphrag.relationships r
          JOIN graphrag.entities l ON l.id = r.low_id JOIN graphrag.entities h ON h.id = r.high_id
         WHERE r.corpus_id = $1 AND (l.corpus_id <> $1 OR h.corpus_id <> $1)""",
    "a mention has the key of what it mentions, or an alias of it": f"""
        WITH led AS MATERIALIZED ({_LED})
        SELECT pg_catalog.format('entity mention %s', m.id) AS object,
               pg_catalog.format('its key %s leads to %s, it mentions %s', m.raw_key, coalesce(k.key, 'nothing'),
                                 coalesce(e.key, 'nothing')) AS detail
          FROM graphrag.entity_mentions m
          LEFT JOIN graphrag.entities e ON e.id = m.entity_id
          LEFT JOIN led a ON a.key = m.raw_key
         CROSS JOIN LATERAL (SELECT CASE WHEN a.key IS NULL THEN m.raw_key ELSE a.entity_key END AS key) k
         WHERE m.corpus_id = $1 AND e.key IS DISTINCT FROM k.key
         UNION ALL
        SELECT pg_catalog.format('relationship mention %s', m.id),
               pg_catalog.format('%s and %s lead to %s and %s; it states the relationship of %s and %s',
                                 m.source_key, m.target_key,
                                 coalesce(n.source, 'nothing'), coalesce(n.target, 'nothing'),
                                 coalesce(x.source, 'nothing'), coalesce(x.target, 'nothing'))
          FROM graphrag.relationship_mentions m
          LEFT JOIN graphrag.relationships r ON r.id = m.relationship_id
          LEFT JOIN graphrag.entities l ON l.id = r.low_id
          LEFT JOIN graphrag.entities h ON h.id = r.high_id
         CROSS JOIN LATERAL (SELECT CASE WHEN m.forward THEN l.key ELSE h.key END AS source,
                                    CASE WHEN m.forward THEN h.key ELSE l.key END AS target) x
          LEFT JOIN led a ON a.key = m.source_key
          LEFT JOIN led b ON b.key = m.target_key
         CROSS JOIN LATERAL (SELECT CASE WHEN a.key IS NULL THEN m.source_key ELSE a.entity_key END AS source,
                                    CASE WHEN b.key IS NULL THEN m.target_key ELSE b.entity_key END AS target) y
          LEFT JOIN (SELECT DISTINCT d.entity_key, d.other_entity_key
                       FROM graphrag.curated d
                      WHERE d.corpus_id = $1 AND d.effect = 'delete' AND d.own AND d.other_entity_key IS NOT NULL) d
                 ON d.entity_key = least(y.source, y.target) AND d.other_entity_key = greatest(y.source, y.target)
         CROSS JOIN LATERAL (
               SELECT CASE WHEN c.stated THEN y.source END AS source, CASE WHEN c.stated THEN y.target END AS target
                 FROM (SELECT y.source <> y.target AND d.entity_key IS NULL AS stated) c) n
         WHERE m.corpus_id = $1 AND (x.source, x.target) IS DISTINCT FROM (n.source, n.target)""",
    "spellings, types, keywords and descriptions are counted": """
        SELECT pg_catalog.format('%s %s', x.what, x.id) AS object,
               pg_catalog.format('%s “%s” is counted %s times, and given %s times',
                                 CASE x.kind WHEN 'n' THEN 'name' WHEN 't' THEN 'type' WHEN 'k' THEN 'keyword'
                                             ELSE 'description' END,
                                 pg_catalog.left(x.value, 100), x.counted, x.given) AS detail
          FROM (SELECT coalesce(v.what, g.what) AS what, coalesce(v.id, g.id) AS id, coalesce(v.kind, g.kind) AS kind,
                       coalesce(v.value, g.value) AS value, coalesce(v.count, 0) AS counted, coalesce(g.count, 0) AS given
                  FROM (SELECT 'entity' AS what, e.id, v.kind::text AS kind, v.value, v.count
                          FROM graphrag.entities e JOIN graphrag.entity_values v ON v.entity_id = e.id WHERE e.corpus_id = $1
                         UNION ALL
                        SELECT 'relationship', r.id, v.kind::text, v.value, v.count
                          FROM graphrag.relationships r JOIN graphrag.relationship_values v ON v.relationship_id = r.id
                         WHERE r.corpus_id = $1) v
                  FULL JOIN (SELECT g.what, g.id, g.kind, g.value COLLATE "C" AS value, pg_catalog.count(*)::int AS count
                          FROM (SELECT 'entity' AS what, m.entity_id AS id, u.kind, u.value
                                  FROM graphrag.entity_mentions m,
                                       ROWS FROM (pg_catalog.unnest(ARRAY['n', 't', 'd']),
                                                  pg_catalog.unnest(ARRAY[m.name, m.type, m.description])) AS u (kind, value)
                                 WHERE m.corpus_id = $1 AND m.entity_id IS NOT NULL
                                 UNION ALL
                                SELECT 'relationship', m.relationship_id, 'd', m.description
                                  FROM graphrag.relationship_mentions m
                                 WHERE m.corpus_id = $1 AND m.relationship_id IS NOT NULL
                                 UNION ALL
                                SELECT 'relationship', m.relationship_id, 'k', u.value
                                  FROM graphrag.relationship_mentions m, pg_catalog.unnest(m.keywords) AS u (value)
                                 WHERE m.corpus_id = $1 AND m.relationship_id IS NOT NULL
                                 UNION ALL
                                -- OFFSET 0: joined inside the loop, all entities would be read for each curation.
                                SELECT 'entity', e.id, n.kind, n.value
                                  FROM (SELECT n.key, u.kind, u.value
                                          FROM graphrag.curated c
                                         CROSS JOIN LATERAL (VALUES (c.entity_key, c.value ->>
                                                   CASE WHEN c.other_key IS NULL THEN 'name' WHEN c.forward THEN 'source'
                                                        ELSE 'target' END),
                                                (c.other_entity_key, c.value ->>
                                                   CASE WHEN c.forward THEN 'target' ELSE 'source' END)) AS n (key, name)
                                         CROSS JOIN LATERAL (VALUES ('n', n.name),
                                                                    ('t', CASE WHEN c.other_key IS NULL THEN c.value ->> 'type'
                                                           ELSE 'UNKNOWN' END),
                                                ('d', CASE WHEN c.other_key IS NULL THEN c.value ->> 'description' END))
                                               AS u (kind, value)
                                         WHERE c.corpus_id = $1 AND c.effect = 'fragment'
                                        OFFSET 0) n
                                  JOIN graphrag.entities e ON e.corpus_id = $1 AND e.key = n.key
                                 UNION ALL
                                SELECT 'relationship', r.id, u.kind, u.value
                                  FROM graphrag.curated c
                                  JOIN graphrag.entities s ON s.corpus_id = $1 AND s.key = c.entity_key
                                  JOIN graphrag.entities t ON t.corpus_id = $1 AND t.key = c.other_entity_key
                                  JOIN graphrag.relationships r ON r.low_id = least(s.id, t.id)
                                                              AND r.high_id = greatest(s.id, t.id)
                                 CROSS JOIN LATERAL (SELECT 'd' AS kind, c.value ->> 'description' AS value UNION ALL
                                       SELECT 'k', k.value
                                         FROM pg_catalog.jsonb_array_elements_text(c.value -> 'keywords') k (value)) u
                                 WHERE c.corpus_id = $1 AND c.effect = 'fragment') g
                         WHERE g.value <> '' OR g.kind <> 'd' AND g.value IS NOT NULL
                         GROUP BY g.what, g.id, g.kind, g.value COLLATE "C") g
                    ON (g.what, g.id, g.kind, g.value) = (v.what, v.id, v.kind, v.value)) x
         WHERE x.counted <> x.given""",
    "name and type are the most frequent, or what people wrote": f"""
        SELECT {_ENTITY} AS object,
               pg_catalog.format('is called “%s” (%s), should be “%s” (%s)', e.name, e.type, w.name, w.type) AS detail
          FROM graphrag.entities e
          LEFT JOIN (SELECT o.* {EDITS.format(keys="c.other_entity_key IS NULL")}) o ON o.entity_key = e.key
          LEFT JOIN LATERAL (SELECT v.value FROM graphrag.entity_values v WHERE v.entity_id = e.id AND v.kind = 'n'
                              ORDER BY v.count DESC, v.value LIMIT 1) n ON true
          LEFT JOIN LATERAL (SELECT v.value FROM graphrag.entity_values v WHERE v.entity_id = e.id AND v.kind = 't'
                              ORDER BY graphrag._type_rank(v.value), v.count DESC, v.value LIMIT 1) t ON true
         CROSS JOIN LATERAL (SELECT coalesce(o.value ->> 'name', n.value) AS name,
                                    coalesce(o.value ->> 'type', t.value) AS type) w
         WHERE e.corpus_id = $1 AND (e.name, e.type) IS DISTINCT FROM (w.name, w.type)""",
    "names of rows are those that one row alone gives": """
        SELECT pg_catalog.format('entity %s', coalesce(r.name_id, g.name_id)) AS object,
               pg_catalog.format('is kept as a name of entity %s, should be of %s', coalesce(r.entity_id::text, 'none'),
                                 coalesce(g.entity_id::text, 'none')) AS detail
          FROM (SELECT r.name_id, r.entity_id FROM graphrag._row_names r WHERE r.corpus_id = $1) r
          FULL JOIN (SELECT n.entity_id AS name_id, pg_catalog.min(o.entity_id) AS entity_id
                       FROM graphrag.entity_mentions n
                       JOIN graphrag.entity_mentions o ON o.chunk_id = n.chunk_id AND o.raw_key = n.name_of
                      WHERE n.corpus_id = $1 AND n.name_of IS NOT NULL AND n.entity_id IS NOT NULL
                      GROUP BY n.entity_id
                     HAVING pg_catalog.bool_and(o.entity_id IS DISTINCT FROM n.entity_id AND o.entity_id IS NOT NULL)
                        AND pg_catalog.min(o.entity_id) = pg_catalog.max(o.entity_id)) g ON g.name_id = r.name_id
         WHERE r.entity_id IS DISTINCT FROM g.entity_id""",
    "a row with names is counted as one with them": """
        SELECT pg_catalog.format('entity %s', coalesce(n.entity_id, g.entity_id)) AS object,
               pg_catalog.format('degree, mention_count and row_mention_count with its names are %s, should be %s',
                                 coalesce(n.numbers::text, 'none'), coalesce(g.numbers::text, 'none')) AS detail
          FROM (SELECT n.entity_id, ARRAY[n.degree, n.mention_count, n.row_mention_count] AS numbers
                  FROM graphrag._named_rows n WHERE n.corpus_id = $1) n
          FULL JOIN (
               SELECT d.entity_id, ARRAY[d.degree, m.mentions, m.row_mentions] AS numbers
                 FROM (SELECT w.entity_id,
                              (pg_catalog.sum(e.degree)
                               - 2 * coalesce((SELECT pg_catalog.count(*)
                                                 FROM graphrag.relationships r
                                                WHERE r.low_id = ANY (pg_catalog.array_agg(e.id))
                                                  AND r.high_id = ANY (pg_catalog.array_agg(e.id))), 0))::int AS degree
                         FROM (SELECT r.entity_id, r.name_id AS id FROM graphrag._row_names r WHERE r.corpus_id = $1
                                UNION
                               SELECT r.entity_id, r.entity_id FROM graphrag._row_names r WHERE r.corpus_id = $1) w
                         JOIN graphrag.entities e ON e.id = w.id
                        GROUP BY w.entity_id) d
                 JOIN (SELECT coalesce(r.entity_id, x.entity_id) AS entity_id,
                              pg_catalog.count(DISTINCT x.chunk_id)::int AS mentions,
                              (pg_catalog.count(DISTINCT x.chunk_id) FILTER (WHERE c.is_row))::int AS row_mentions
                         FROM graphrag.entity_mentions x
                         JOIN graphrag.chunks c ON c.id = x.chunk_id
                         LEFT JOIN graphrag._row_names r ON r.name_id = x.entity_id
                        WHERE x.corpus_id = $1
                        GROUP BY 1) m ON m.entity_id = d.entity_id) g ON g.entity_id = n.entity_id
         WHERE n.numbers IS DISTINCT FROM g.numbers""",
    "degree is the number of relationships": f"""
        SELECT {_ENTITY} AS object, pg_catalog.format('degree is %s, there are %s', e.degree, coalesce(r.degree, 0)) AS detail
          FROM graphrag.entities e
          LEFT JOIN (SELECT x.id, pg_catalog.count(*) AS degree
                       FROM (SELECT r.low_id AS id FROM graphrag.relationships r WHERE r.corpus_id = $1
                              UNION ALL
                             SELECT r.high_id FROM graphrag.relationships r WHERE r.corpus_id = $1) x
                      GROUP BY x.id) r ON r.id = e.id
         WHERE e.corpus_id = $1 AND e.degree <> coalesce(r.degree, 0)""",
    "a relationship is shown in its most frequent direction, with all keywords": f"""
        SELECT {_RELATIONSHIP} AS object,
               pg_catalog.format('goes from %s to %s with direction %s; keywords {{%s}}, of the mentions {{%s}}', r.source_id,
                                 r.target_id, r.direction, pg_catalog.array_to_string(r.keywords, ', '),
                                 pg_catalog.array_to_string(k.keywords, ', ')) AS detail
          FROM graphrag.relationships r
          JOIN graphrag.entities l ON l.id = r.low_id JOIN graphrag.entities h ON h.id = r.high_id
          LEFT JOIN (SELECT o.* {EDITS.format(keys="c.other_entity_key IS NOT NULL")}) o
            ON o.entity_key = least(l.key, h.key) AND o.other_entity_key = greatest(l.key, h.key)
         CROSS JOIN LATERAL (
               SELECT CASE WHEN o.value OPERATOR(pg_catalog.?) 'keywords'
                           THEN ARRAY(SELECT pg_catalog.jsonb_array_elements_text(o.value -> 'keywords'))
                           ELSE ARRAY(SELECT v.value FROM graphrag.relationship_values v
                                       WHERE v.relationship_id = r.id AND v.kind = 'k' ORDER BY v.value) END AS keywords) k
         WHERE r.corpus_id = $1
           AND (r.source_id <> CASE WHEN r.direction > 0 OR r.direction = 0 AND l.key < h.key THEN r.low_id ELSE r.high_id END
                OR r.keywords <> k.keywords)""",
}


def check(db: Database, corpus: Corpus) -> Iterator[tuple[str, Iterator[tuple[str, str]]]]:
    """Yield each invariant with its violations."""
    for invariant, sql in _STATEMENTS.items():
        yield invariant, violations(db, sql, ["int4"], [corpus.id])
