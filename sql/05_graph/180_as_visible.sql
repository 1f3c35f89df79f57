-- Entities and relationships as some documents state them, by the rules of the merge: names and types by frequency, descriptions
-- as their distinct fragments, else the best sentence. What people say belongs to no document and holds for all that is visible;
-- what they say of a relationship names its ends where that relationship is.
-- No summaries: a model wrote them of all documents. mention_ids: mentions of entities in visible documents, all that there are of
-- each; null: all of document_ids. relationship_ids: what visible documents state of them.
CREATE FUNCTION graphrag._entities_as_visible(mention_ids bigint[], relationship_ids bigint[], document_ids bigint[])
RETURNS TABLE (entity_id bigint, corpus_id int, key text, name text, type text, description text, degree int, mention_count int)
LANGUAGE sql STABLE ROWS 1000
BEGIN ATOMIC
    WITH mentions AS MATERIALIZED (
        SELECT m.entity_id, m.chunk_id, m.name, m.type, m.description, m.evidence_rank, m.start_offset, m.end_offset
          FROM graphrag.chunks AS k
          JOIN graphrag.entity_mentions AS m ON m.chunk_id = k.id
         WHERE _entities_as_visible.mention_ids IS NULL AND k.document_id = ANY (document_ids) AND m.entity_id IS NOT NULL
         UNION ALL
        SELECT m.entity_id, m.chunk_id, m.name, m.type, m.description, m.evidence_rank, m.start_offset, m.end_offset
          FROM graphrag.entity_mentions AS m
         WHERE m.id = ANY (mention_ids) AND m.entity_id IS NOT NULL
    ), counted AS (
        SELECT m.entity_id, pg_catalog.count(DISTINCT m.chunk_id)::int AS mention_count FROM mentions AS m GROUP BY m.entity_id
    ), related AS (
        SELECT DISTINCT m.relationship_id
          FROM graphrag.chunks AS k
          JOIN graphrag.relationship_mentions AS m ON m.chunk_id = k.id
         WHERE _entities_as_visible.mention_ids IS NULL AND k.document_id = ANY (document_ids) AND m.relationship_id IS NOT NULL
         UNION
        SELECT pg_catalog.unnest(relationship_ids)
    ), degrees AS (
        SELECT u.id AS entity_id, pg_catalog.count(*)::int AS degree
          FROM related AS d
          JOIN graphrag.relationships AS r ON r.id = d.relationship_id
         CROSS JOIN LATERAL (VALUES (r.low_id), (r.high_id)) AS u (id)
         GROUP BY u.id
    ), said AS (
        SELECT c.entity_id, e.corpus_id, e.key, v.kind, v.value
          FROM counted AS c
          JOIN graphrag.entities AS e ON e.id = c.entity_id
          JOIN graphrag.curated AS x ON x.corpus_id = e.corpus_id AND x.entity_key = e.key AND x.effect = 'fragment'
         CROSS JOIN LATERAL (
               SELECT s.kind, s.value
                 FROM (VALUES ('n', x.value ->> 'name'), ('t', x.value ->> 'type'), ('d', x.value ->> 'description')) AS s (kind, value)
                WHERE x.other_entity_key IS NULL
                UNION ALL
               SELECT s.kind, s.value
                 FROM (VALUES ('n', x.value ->> CASE WHEN x.forward THEN 'source' ELSE 'target' END), ('t', 'UNKNOWN')) AS s (kind, value)
                WHERE x.other_entity_key IS NOT NULL) AS v
          LEFT JOIN graphrag.entities AS o ON o.corpus_id = e.corpus_id AND o.key = x.other_entity_key
          LEFT JOIN graphrag.relationships AS r ON r.low_id = least(e.id, o.id) AND r.high_id = greatest(e.id, o.id)
         WHERE x.other_entity_key IS NULL OR r.id IN (SELECT d.relationship_id FROM related AS d)
         UNION ALL
        SELECT c.entity_id, e.corpus_id, e.key, v.kind, v.value
          FROM counted AS c
          JOIN graphrag.entities AS e ON e.id = c.entity_id
          JOIN graphrag.curated AS x ON x.corpus_id = e.corpus_id AND x.other_entity_key = e.key AND x.effect = 'fragment'
          JOIN graphrag.entities AS o ON o.corpus_id = e.corpus_id AND o.key = x.entity_key
          JOIN graphrag.relationships AS r ON r.low_id = least(e.id, o.id) AND r.high_id = greatest(e.id, o.id)
         CROSS JOIN LATERAL (VALUES ('n', x.value ->> CASE WHEN x.forward THEN 'target' ELSE 'source' END), ('t', 'UNKNOWN')) AS v (kind, value)
         WHERE r.id IN (SELECT d.relationship_id FROM related AS d)
    ), frequencies AS (
        SELECT s.entity_id, s.kind, s.value COLLATE "C" AS value, pg_catalog.count(*) AS n
          FROM (SELECT m.entity_id, v.kind, v.value
                  FROM mentions AS m
                 CROSS JOIN LATERAL (VALUES ('n', m.name), ('t', m.type), ('d', m.description)) AS v (kind, value)
                 UNION ALL
                SELECT x.entity_id, x.kind, x.value FROM said AS x) AS s
         WHERE s.value IS NOT NULL AND (s.kind <> 'd' OR s.value <> '')
         GROUP BY s.entity_id, s.kind, s.value COLLATE "C"
    ), names AS (
        SELECT DISTINCT ON (f.entity_id) f.entity_id, f.value
          FROM frequencies AS f WHERE f.kind = 'n' ORDER BY f.entity_id, f.n DESC, f.value
    ), types AS (
        SELECT DISTINCT ON (f.entity_id) f.entity_id, f.value
          FROM frequencies AS f WHERE f.kind = 't' ORDER BY f.entity_id, f.value = 'UNKNOWN', f.n DESC, f.value
    ), fragments AS (
        SELECT f.entity_id, f.value,
               pg_catalog.row_number() OVER ordered AS place,
               pg_catalog.sum(coalesce(v.tokens, 0)) OVER (ordered ROWS UNBOUNDED PRECEDING) AS tokens
          FROM frequencies AS f
          LEFT JOIN graphrag.entity_values AS v
            ON v.entity_id = f.entity_id AND v.kind = 'd' AND pg_catalog.md5(v.value) = pg_catalog.md5(f.value)
         WHERE f.kind = 'd'
        WINDOW ordered AS (PARTITION BY f.entity_id ORDER BY f.n DESC, f.value)
    ), descriptions AS (
        -- As graph/descriptions.py caps them.
        SELECT f.entity_id, pg_catalog.string_agg(f.value, E'\n' ORDER BY f.place) FILTER (WHERE f.place = 1 OR f.tokens <= 1200) AS text
          FROM fragments AS f
         GROUP BY f.entity_id
    ), sentences AS (
        SELECT b.entity_id,
               pg_catalog.substr(k.content, b.start_offset - k.start_offset + 1, b.end_offset - b.start_offset) AS text
          FROM (SELECT DISTINCT ON (m.entity_id) m.entity_id, m.chunk_id, m.start_offset, m.end_offset
                  FROM mentions AS m
                 WHERE m.evidence_rank IS NOT NULL
                 ORDER BY m.entity_id, m.evidence_rank) AS b
          JOIN graphrag.chunks AS k ON k.id = b.chunk_id
    )
    SELECT e.id, e.corpus_id, e.key::text COLLATE "default",
           coalesce(p.value ->> 'name', n.value)::text COLLATE "default", coalesce(p.value ->> 'type', t.value)::text COLLATE "default",
           coalesce(p.value ->> 'description', d.text,
                    pg_catalog.left(pg_catalog.btrim(pg_catalog.regexp_replace(s.text, '\s+', ' ', 'g')), 600), '')::text COLLATE "default",
           coalesce(g.degree, 0), c.mention_count
      FROM counted AS c
      JOIN graphrag.entities AS e ON e.id = c.entity_id
     CROSS JOIN LATERAL (SELECT graphrag._edits(e.corpus_id, e.key) AS value) AS p
      LEFT JOIN names AS n ON n.entity_id = c.entity_id
      LEFT JOIN types AS t ON t.entity_id = c.entity_id
      LEFT JOIN descriptions AS d ON d.entity_id = c.entity_id
      LEFT JOIN sentences AS s ON s.entity_id = c.entity_id
      LEFT JOIN degrees AS g ON g.entity_id = c.entity_id;
END;
COMMENT ON FUNCTION graphrag._entities_as_visible(bigint[], bigint[], bigint[]) IS 'Entities as these mentions, or those of these documents, and people, state them';

CREATE FUNCTION graphrag._relationships_as_visible(mention_ids bigint[], document_ids bigint[])
RETURNS TABLE (relationship_id bigint, corpus_id int, low_id bigint, high_id bigint, source_id bigint, target_id bigint,
               keywords text[], description text, weight numeric, mention_count int)
LANGUAGE sql STABLE ROWS 1000
BEGIN ATOMIC
    WITH mentions AS MATERIALIZED (
        SELECT m.relationship_id, m.chunk_id, m.keywords, m.description, m.weight, m.forward, m.evidence_rank, m.start_offset, m.end_offset
          FROM graphrag.chunks AS k
          JOIN graphrag.relationship_mentions AS m ON m.chunk_id = k.id
         WHERE _relationships_as_visible.mention_ids IS NULL AND k.document_id = ANY (document_ids) AND m.relationship_id IS NOT NULL
         UNION ALL
        SELECT m.relationship_id, m.chunk_id, m.keywords, m.description, m.weight, m.forward, m.evidence_rank, m.start_offset, m.end_offset
          FROM graphrag.relationship_mentions AS m
         WHERE m.id = ANY (mention_ids) AND m.relationship_id IS NOT NULL
    ), counted AS (
        SELECT r.id, r.corpus_id, r.low_id, r.high_id, l.key AS low_key, h.key AS high_key, c.mention_count, c.weight, c.direction
          FROM (SELECT m.relationship_id AS id, pg_catalog.count(DISTINCT m.chunk_id)::int AS mention_count,
                       pg_catalog.sum(m.weight) AS weight, pg_catalog.sum(CASE WHEN m.forward THEN 1 ELSE -1 END) AS direction
                  FROM mentions AS m GROUP BY m.relationship_id) AS c
          JOIN graphrag.relationships AS r ON r.id = c.id
          JOIN graphrag.entities AS l ON l.id = r.low_id
          JOIN graphrag.entities AS h ON h.id = r.high_id
    ), said AS (
        SELECT c.id, x.value, CASE WHEN x.forward = (c.low_key < c.high_key) THEN 1 ELSE -1 END AS direction
          FROM counted AS c
          JOIN graphrag.curated AS x ON x.corpus_id = c.corpus_id AND x.effect = 'fragment'
                                    AND x.entity_key = least(c.low_key, c.high_key) AND x.other_entity_key = greatest(c.low_key, c.high_key)
    ), people AS (
        SELECT s.id, pg_catalog.sum((s.value ->> 'weight')::numeric) AS weight, pg_catalog.sum(s.direction) AS direction
          FROM said AS s GROUP BY s.id
    ), frequencies AS (
        SELECT d.id, d.value COLLATE "C" AS value, pg_catalog.count(*) AS n
          FROM (SELECT m.relationship_id AS id, m.description AS value FROM mentions AS m
                 UNION ALL
                SELECT s.id, s.value ->> 'description' FROM said AS s) AS d
         WHERE d.value <> ''
         GROUP BY d.id, d.value COLLATE "C"
    ), fragments AS (
        SELECT f.id, f.value,
               pg_catalog.row_number() OVER ordered AS place,
               pg_catalog.sum(coalesce(v.tokens, 0)) OVER (ordered ROWS UNBOUNDED PRECEDING) AS tokens
          FROM frequencies AS f
          LEFT JOIN graphrag.relationship_values AS v
            ON v.relationship_id = f.id AND v.kind = 'd' AND pg_catalog.md5(v.value) = pg_catalog.md5(f.value)
        WINDOW ordered AS (PARTITION BY f.id ORDER BY f.n DESC, f.value)
    ), descriptions AS (
        SELECT f.id, pg_catalog.string_agg(f.value, E'\n' ORDER BY f.place) FILTER (WHERE f.place = 1 OR f.tokens <= 1200) AS text
          FROM fragments AS f
         GROUP BY f.id
    ), words AS (
        SELECT w.id, pg_catalog.array_agg(DISTINCT w.keyword COLLATE "C") AS keywords
          FROM (SELECT m.relationship_id AS id, pg_catalog.unnest(m.keywords) AS keyword FROM mentions AS m WHERE m.description IS NOT NULL
                 UNION ALL
                SELECT s.id, pg_catalog.jsonb_array_elements_text(s.value -> 'keywords') FROM said AS s) AS w
         GROUP BY w.id
    ), sentences AS (
        SELECT b.relationship_id AS id,
               pg_catalog.substr(k.content, b.start_offset - k.start_offset + 1, b.end_offset - b.start_offset) AS text
          FROM (SELECT DISTINCT ON (m.relationship_id) m.relationship_id, m.chunk_id, m.start_offset, m.end_offset
                  FROM mentions AS m
                 WHERE m.evidence_rank IS NOT NULL
                 ORDER BY m.relationship_id, m.evidence_rank) AS b
          JOIN graphrag.chunks AS k ON k.id = b.chunk_id
    )
    SELECT c.id, c.corpus_id, c.low_id, c.high_id,
           CASE WHEN f.forward THEN c.low_id ELSE c.high_id END, CASE WHEN f.forward THEN c.high_id ELSE c.low_id END,
           CASE WHEN p.value ->> 'keywords' IS NULL THEN coalesce(w.keywords, '{}')
                ELSE ARRAY(SELECT pg_catalog.jsonb_array_elements_text(p.value -> 'keywords')) END COLLATE "default",
           coalesce(p.value ->> 'description', d.text,
                    pg_catalog.left(pg_catalog.btrim(pg_catalog.regexp_replace(s.text, '\s+', ' ', 'g')), 600), '')::text COLLATE "default",
           pg_catalog.trim_scale(coalesce((p.value ->> 'weight')::numeric, c.weight + coalesce(o.weight, 0))), c.mention_count
      FROM counted AS c
     CROSS JOIN LATERAL (SELECT graphrag._edits(c.corpus_id, c.low_key, c.high_key) AS value) AS p
      LEFT JOIN people AS o ON o.id = c.id
     CROSS JOIN LATERAL (
           SELECT CASE c.direction + coalesce(o.direction, 0) WHEN 0 THEN c.low_key < c.high_key
                       ELSE c.direction + coalesce(o.direction, 0) > 0 END AS forward) AS f
      LEFT JOIN words AS w ON w.id = c.id
      LEFT JOIN descriptions AS d ON d.id = c.id
      LEFT JOIN sentences AS s ON s.id = c.id;
END;
COMMENT ON FUNCTION graphrag._relationships_as_visible(bigint[], bigint[]) IS 'Relationships as these mentions, or those of these documents, and people, state them';

-- What graph_nodes and graph_edges show of corpora that the caller does not see whole. SECURITY INVOKER: they ask as the caller which
-- documents he may see, then read what these state with the owner's rights (access/entry.py).
CREATE FUNCTION graphrag._visible_nodes()
RETURNS TABLE (corpus text, entity_id bigint, key text, name text, type text, description text, degree int, mention_count int)
LANGUAGE plpython3u STABLE ROWS 1000 PARALLEL RESTRICTED SET search_path = pg_catalog, pg_temp SET jit = off
AS $$
from pg_graphrag.server import call
return call(plpy, "@extversion@", "retrieval.views:nodes")
$$;
COMMENT ON FUNCTION graphrag._visible_nodes() IS 'Rows of graph_nodes in corpora that the caller sees in part';

CREATE FUNCTION graphrag._visible_edges()
RETURNS TABLE (corpus text, relationship_id bigint, source_id bigint, source text, source_type text, target_id bigint, target text, target_type text,
               keywords text[], description text, weight double precision, mention_count int, pmi double precision)
LANGUAGE plpython3u STABLE ROWS 1000 PARALLEL RESTRICTED SET search_path = pg_catalog, pg_temp SET jit = off
AS $$
from pg_graphrag.server import call
return call(plpy, "@extversion@", "retrieval.views:edges")
$$;
COMMENT ON FUNCTION graphrag._visible_edges() IS 'Rows of graph_edges in corpora that the caller sees in part';
