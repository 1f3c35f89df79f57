-- What some mentions say of entities and relationships, by the rules of the merge: names and types by frequency, descriptions as their
-- distinct fragments, else the best sentence. What people say belongs to no document and holds for all that is visible; what they say
-- of a relationship names its ends where that relationship is. No summaries: a model wrote them of all documents.
-- description: null where none says more than a sentence. sentence: the best, as its chunk has it (graph/descriptions.py shows it).
-- mention_ids: all visible mentions of these items. relationship_ids: what visible documents state of these entities, if people said
-- anything of it.
CREATE FUNCTION graphrag._entities_as_visible(mention_ids bigint[], relationship_ids bigint[])
RETURNS TABLE (entity_id bigint, name text, type text, description text, sentence text)
LANGUAGE sql STABLE ROWS 1000
BEGIN ATOMIC
    WITH mentions AS MATERIALIZED (
        SELECT m.entity_id, m.chunk_id, m.name, m.type, m.description, m.evidence_rank, m.start_offset, m.end_offset
          FROM graphrag.entity_mentions AS m
         WHERE m.id = ANY (mention_ids) AND m.entity_id IS NOT NULL
    ), mentioned AS (
        SELECT DISTINCT m.entity_id FROM mentions AS m
    ), related AS (
        SELECT pg_catalog.unnest(relationship_ids) AS relationship_id
    ), said AS (
        SELECT c.entity_id, v.kind, v.value
          FROM mentioned AS c
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
        SELECT c.entity_id, v.kind, v.value
          FROM mentioned AS c
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
    SELECT e.id, coalesce(p.value ->> 'name', n.value)::text COLLATE "default", coalesce(p.value ->> 'type', t.value)::text COLLATE "default",
           coalesce(p.value ->> 'description', d.text)::text COLLATE "default", s.text
      FROM mentioned AS c
      JOIN graphrag.entities AS e ON e.id = c.entity_id
     CROSS JOIN LATERAL (
           SELECT CASE WHEN EXISTS (SELECT FROM graphrag.curated AS x
                                     WHERE x.corpus_id = e.corpus_id AND x.entity_key = e.key AND x.effect = 'edit')
                       THEN graphrag._edits(e.corpus_id, e.key) END AS value) AS p
      LEFT JOIN names AS n ON n.entity_id = c.entity_id
      LEFT JOIN types AS t ON t.entity_id = c.entity_id
      LEFT JOIN descriptions AS d ON d.entity_id = c.entity_id
      LEFT JOIN sentences AS s ON s.entity_id = c.entity_id;
END;
COMMENT ON FUNCTION graphrag._entities_as_visible(bigint[], bigint[]) IS 'Names, types and descriptions of entities as these mentions, and people, state them';

CREATE FUNCTION graphrag._relationships_as_visible(mention_ids bigint[])
RETURNS TABLE (relationship_id bigint, keywords text[], description text, sentence text)
LANGUAGE sql STABLE ROWS 1000
BEGIN ATOMIC
    WITH mentions AS MATERIALIZED (
        SELECT m.relationship_id, m.chunk_id, m.keywords, m.description, m.evidence_rank, m.start_offset, m.end_offset
          FROM graphrag.relationship_mentions AS m
         WHERE m.id = ANY (mention_ids) AND m.relationship_id IS NOT NULL
    ), stated AS (
        SELECT r.id, r.corpus_id, least(l.key, h.key) AS key, greatest(l.key, h.key) AS other_key
          FROM (SELECT DISTINCT m.relationship_id AS id FROM mentions AS m) AS c
          JOIN graphrag.relationships AS r ON r.id = c.id
          JOIN graphrag.entities AS l ON l.id = r.low_id
          JOIN graphrag.entities AS h ON h.id = r.high_id
    ), said AS (
        SELECT c.id, x.value
          FROM stated AS c
          JOIN graphrag.curated AS x ON x.corpus_id = c.corpus_id AND x.effect = 'fragment'
                                    AND x.entity_key = c.key AND x.other_entity_key = c.other_key
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
    SELECT c.id,
           CASE WHEN p.value ->> 'keywords' IS NULL THEN coalesce(w.keywords, '{}')
                ELSE ARRAY(SELECT pg_catalog.jsonb_array_elements_text(p.value -> 'keywords')) END COLLATE "default",
           coalesce(p.value ->> 'description', d.text)::text COLLATE "default", s.text
      FROM stated AS c
     CROSS JOIN LATERAL (
           SELECT CASE WHEN EXISTS (SELECT FROM graphrag.curated AS x
                                     WHERE x.corpus_id = c.corpus_id AND x.entity_key = c.key AND x.other_entity_key = c.other_key
                                       AND x.effect = 'edit')
                       THEN graphrag._edits(c.corpus_id, c.key, c.other_key) END AS value) AS p
      LEFT JOIN words AS w ON w.id = c.id
      LEFT JOIN descriptions AS d ON d.id = c.id
      LEFT JOIN sentences AS s ON s.id = c.id;
END;
COMMENT ON FUNCTION graphrag._relationships_as_visible(bigint[]) IS 'Keywords and descriptions of relationships as these mentions, and people, state them';

-- What graph_nodes and graph_edges show of corpora that the caller does not see whole. SECURITY INVOKER: they ask as the caller which
-- documents he may see, then read what these state with the owner's rights (access/entry.py). A row for each corpus; its columns
-- are packed (retrieval/views.py). A name, type or description is null where the merged row says it.
-- ROWS 1000: with unnest() the planner expects ten thousand items, and joins them by hashes.
CREATE FUNCTION graphrag._visible_nodes()
RETURNS TABLE (corpus text, chunks int, entity_ids text, names text[], types text[], entity_descriptions text[], degrees text,
               entity_mention_counts text)
LANGUAGE plpython3u STABLE ROWS 1000 PARALLEL RESTRICTED SET search_path = pg_catalog, pg_temp SET jit = off
AS $$
from pg_graphrag.server import call
return call(plpy, "@extversion@", "retrieval.views:nodes")
$$;
COMMENT ON FUNCTION graphrag._visible_nodes() IS 'Rows of graph_nodes in corpora that the caller sees in part, packed';

CREATE FUNCTION graphrag._visible_edges()
RETURNS TABLE (corpus text, chunks int, entity_ids text, names text[], types text[], entity_mention_counts text,
               merged_relationship_ids text, relationship_ids text, source_ids text, target_ids text, weights text,
               relationship_mention_counts text, keywords text[], relationship_descriptions text[])
LANGUAGE plpython3u STABLE ROWS 1000 PARALLEL RESTRICTED SET search_path = pg_catalog, pg_temp SET jit = off
AS $$
from pg_graphrag.server import call
return call(plpy, "@extversion@", "retrieval.views:edges")
$$;
COMMENT ON FUNCTION graphrag._visible_edges() IS 'Rows of graph_edges in corpora that the caller sees in part, packed';
