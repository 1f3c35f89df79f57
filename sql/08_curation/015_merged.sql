-- The rules of the merge, each once: what mentions, and people, make of entities and relationships. index/curation/recompute.py renews merged
-- rows by them, and who sees a part of the documents gets what they make of it (search/graph_view/visible_texts.py, visible_topology.py).
-- Inserts and deletes count what they change instead (index/graph/merged.py); tests hold the outcome equal.
-- mention_ids: mentions of these items that are merged; null: all. What people say belongs to no document and holds in either case.
-- A statement each, without SET: the planner looks through them.

-- How often mentions and people give each name (n), type (t) and description (d) of entities. relationship_ids: people's fragments
-- of these name their ends; null: of all.
CREATE FUNCTION graphrag._given_entity_values(entity_ids bigint[], mention_ids bigint[], relationship_ids bigint[])
RETURNS TABLE (entity_id bigint, kind "char", value text, count bigint)
LANGUAGE sql STABLE ROWS 1000
BEGIN ATOMIC
    SELECT g.entity_id, g.kind::"char", g.value COLLATE "C", pg_catalog.count(*)
      FROM (SELECT m.entity_id, v.kind, v.value
              FROM (SELECT o.entity_id, o.name, o.type, o.description
                      FROM graphrag.entity_mentions AS o
                     WHERE o.id = ANY (mention_ids) AND o.entity_id IS NOT NULL
                     UNION ALL
                    SELECT o.entity_id, o.name, o.type, o.description
                      FROM graphrag.entity_mentions AS o
                     WHERE mention_ids IS NULL AND o.entity_id = ANY (entity_ids)) AS m
             CROSS JOIN LATERAL (VALUES ('n', m.name), ('t', m.type), ('d', m.description)) AS v (kind, value)
             UNION ALL
            SELECT f.entity_id, v.kind, v.value
              FROM (SELECT e.id AS entity_id, e.corpus_id, c.value, c.other_entity_key AS other_key, c.forward AS is_source
                      FROM graphrag.entities AS e
                      JOIN graphrag.curated AS c ON c.corpus_id = e.corpus_id AND c.entity_key = e.key AND c.effect = 'fragment'
                     WHERE e.id = ANY (entity_ids)
                     UNION ALL
                    SELECT e.id, e.corpus_id, c.value, c.entity_key, NOT c.forward
                      FROM graphrag.entities AS e
                      JOIN graphrag.curated AS c ON c.corpus_id = e.corpus_id AND c.other_entity_key = e.key AND c.effect = 'fragment'
                     WHERE e.id = ANY (entity_ids)) AS f
             CROSS JOIN LATERAL (
                   SELECT s.kind, s.value
                     FROM (VALUES ('n', f.value ->> 'name'), ('t', f.value ->> 'type'), ('d', f.value ->> 'description')) AS s (kind, value)
                    WHERE f.other_key IS NULL
                    UNION ALL
                   SELECT s.kind, s.value
                     FROM (VALUES ('n', f.value ->> CASE WHEN f.is_source THEN 'source' ELSE 'target' END), ('t', 'UNKNOWN')) AS s (kind, value)
                    WHERE f.other_key IS NOT NULL) AS v
             WHERE f.other_key IS NULL
                OR relationship_ids IS NULL
                OR EXISTS (SELECT FROM graphrag.entities AS o
                             JOIN graphrag.relationships AS r ON r.low_id = least(f.entity_id, o.id) AND r.high_id = greatest(f.entity_id, o.id)
                            WHERE o.corpus_id = f.corpus_id AND o.key = f.other_key AND r.id = ANY (relationship_ids))) AS g
     WHERE g.value IS NOT NULL AND (g.kind <> 'd' OR g.value <> '')
     GROUP BY g.entity_id, g.kind, g.value COLLATE "C";
END;
COMMENT ON FUNCTION graphrag._given_entity_values(bigint[], bigint[], bigint[]) IS 'How often mentions and people give each name, type and description';

-- Which types go first, whatever their frequency: what a table or a model calls a thing, what the reader of names does, how it is written.
CREATE FUNCTION graphrag._type_rank(type text) RETURNS int
LANGUAGE sql IMMUTABLE PARALLEL SAFE
RETURN CASE WHEN type = 'UNKNOWN' THEN 3 WHEN type IN ('NAME', 'CONCEPT') THEN 2
            WHEN type IN ('PERSON', 'ORGANIZATION', 'LOCATION', 'PRODUCT', 'WORK', 'EVENT', 'LAW') THEN 1 ELSE 0 END;
COMMENT ON FUNCTION graphrag._type_rank(text) IS 'Types of a lower rank come first in a merge, whatever their frequency';

-- Names and types by frequency; descriptions as their distinct fragments by frequency, the first and what max_tokens hold, null where
-- there are none; the best sentence, as its chunk has it (index/graph/merged.py shows it). Edits win. No summaries: a model
-- wrote them of all documents. Of all mentions it takes what entity_values counts. fragments, tokens: of all descriptions; tokens as
-- they were counted when they were stored.
CREATE FUNCTION graphrag._merged_entities(entity_ids bigint[], mention_ids bigint[], relationship_ids bigint[], max_tokens bigint)
RETURNS TABLE (entity_id bigint, name text, type text, description text, fragments bigint, tokens bigint, mention_count bigint,
               evidence_rank bigint, sentence text)
LANGUAGE sql STABLE ROWS 1000
BEGIN ATOMIC
    WITH given AS MATERIALIZED (
        SELECT g.entity_id, g.kind, g.value COLLATE "C" AS value, g.count
          FROM graphrag._given_entity_values(entity_ids, mention_ids, relationship_ids) AS g
         WHERE mention_ids IS NOT NULL
         UNION ALL
        SELECT v.entity_id, v.kind, v.value, v.count
          FROM graphrag.entity_values AS v
         WHERE mention_ids IS NULL AND v.entity_id = ANY (entity_ids)
    ), names AS (
        SELECT DISTINCT ON (g.entity_id) g.entity_id, g.value
          FROM given AS g WHERE g.kind = 'n' ORDER BY g.entity_id, g.count DESC, g.value
    ), types AS (
        SELECT DISTINCT ON (g.entity_id) g.entity_id, g.value
          FROM given AS g WHERE g.kind = 't' ORDER BY g.entity_id, graphrag._type_rank(g.value), g.count DESC, g.value
    ), fragments AS (
        SELECT g.entity_id, g.value,
               pg_catalog.row_number() OVER ordered AS place,
               pg_catalog.sum(coalesce(v.tokens, 0)) OVER (ordered ROWS UNBOUNDED PRECEDING) AS tokens
          FROM given AS g
          LEFT JOIN graphrag.entity_values AS v
            ON v.entity_id = g.entity_id AND v.kind = 'd' AND pg_catalog.md5(v.value) = pg_catalog.md5(g.value)
         WHERE g.kind = 'd'
        WINDOW ordered AS (PARTITION BY g.entity_id ORDER BY g.count DESC, g.value)
    ), descriptions AS (
        SELECT f.entity_id, pg_catalog.count(*) AS fragments, pg_catalog.max(f.tokens) AS tokens,
               pg_catalog.string_agg(f.value, E'\n' ORDER BY f.place) FILTER (WHERE f.place = 1 OR f.tokens <= max_tokens) AS text
          FROM fragments AS f
         GROUP BY f.entity_id
    ), counts AS (
        -- Aliases may mention an entity several times in a chunk, which counts as one.
        SELECT m.entity_id, pg_catalog.count(DISTINCT m.chunk_id) AS chunks
          FROM (SELECT o.entity_id, o.chunk_id FROM graphrag.entity_mentions AS o WHERE o.id = ANY (mention_ids)
                 UNION ALL
                SELECT o.entity_id, o.chunk_id FROM graphrag.entity_mentions AS o
                 WHERE mention_ids IS NULL AND o.entity_id = ANY (entity_ids)) AS m
         GROUP BY m.entity_id
    ), best AS (
        SELECT DISTINCT ON (m.entity_id) m.entity_id, m.evidence_rank, m.chunk_id, m.start_offset, m.end_offset
          FROM graphrag.entity_mentions AS m
         WHERE m.id = ANY (mention_ids) AND m.evidence_rank IS NOT NULL
         ORDER BY m.entity_id, m.evidence_rank
    ), sentences AS (
        SELECT b.entity_id, b.evidence_rank,
               pg_catalog.substr(k.content, b.start_offset - k.start_offset + 1, b.end_offset - b.start_offset) AS text
          FROM (SELECT * FROM best
                 UNION ALL
                -- Of all mentions, the index has the best first.
                SELECT i.id, o.*
                  FROM pg_catalog.unnest(entity_ids) AS i (id)
                 CROSS JOIN LATERAL (
                       SELECT m.evidence_rank, m.chunk_id, m.start_offset, m.end_offset
                         FROM graphrag.entity_mentions AS m
                        WHERE m.entity_id = i.id AND m.evidence_rank IS NOT NULL
                        ORDER BY m.evidence_rank
                        LIMIT 1) AS o
                 WHERE mention_ids IS NULL) AS b
          JOIN graphrag.chunks AS k ON k.id = b.chunk_id
    )
    SELECT e.id, coalesce(p.value ->> 'name', n.value)::text COLLATE "default", coalesce(p.value ->> 'type', t.value)::text COLLATE "default",
           coalesce(p.value ->> 'description', d.text)::text COLLATE "default", coalesce(d.fragments, 0), coalesce(d.tokens, 0)::bigint,
           coalesce(c.chunks, 0), s.evidence_rank, s.text
      FROM graphrag.entities AS e
     CROSS JOIN LATERAL (
           SELECT CASE WHEN EXISTS (SELECT FROM graphrag.curated AS x
                                     WHERE x.corpus_id = e.corpus_id AND x.entity_key = e.key AND x.effect = 'edit')
                       THEN graphrag._edits(e.corpus_id, e.key) END AS value) AS p
      LEFT JOIN names AS n ON n.entity_id = e.id
      LEFT JOIN types AS t ON t.entity_id = e.id
      LEFT JOIN descriptions AS d ON d.entity_id = e.id
      LEFT JOIN counts AS c ON c.entity_id = e.id
      LEFT JOIN sentences AS s ON s.entity_id = e.id
     WHERE e.id = ANY (entity_ids);
END;
COMMENT ON FUNCTION graphrag._merged_entities(bigint[], bigint[], bigint[], bigint) IS 'Entities by mentions and curations';

-- How often mentions and people give each keyword (k) and description (d) of relationships.
CREATE FUNCTION graphrag._given_relationship_values(relationship_ids bigint[], mention_ids bigint[])
RETURNS TABLE (relationship_id bigint, kind "char", value text, count bigint)
LANGUAGE sql STABLE ROWS 1000
BEGIN ATOMIC
    SELECT g.relationship_id, g.kind::"char", g.value COLLATE "C", pg_catalog.count(*)
      FROM (SELECT m.relationship_id, v.kind, v.value
              FROM (SELECT o.relationship_id, o.description, o.keywords
                      FROM graphrag.relationship_mentions AS o
                     WHERE o.id = ANY (mention_ids) AND o.relationship_id IS NOT NULL
                     UNION ALL
                    SELECT o.relationship_id, o.description, o.keywords
                      FROM graphrag.relationship_mentions AS o
                     WHERE mention_ids IS NULL AND o.relationship_id = ANY (relationship_ids)) AS m
             CROSS JOIN LATERAL (
                   SELECT 'd' AS kind, m.description AS value
                    UNION ALL
                   SELECT 'k', w.keyword FROM pg_catalog.unnest(m.keywords) AS w (keyword)) AS v
             UNION ALL
            SELECT r.id, v.kind, v.value
              FROM graphrag.relationships AS r
              JOIN graphrag.entities AS l ON l.id = r.low_id
              JOIN graphrag.entities AS h ON h.id = r.high_id
              JOIN graphrag.curated AS c ON c.corpus_id = r.corpus_id AND c.entity_key = least(l.key, h.key)
                                        AND c.other_entity_key = greatest(l.key, h.key) AND c.effect = 'fragment'
             CROSS JOIN LATERAL (
                   SELECT 'd' AS kind, c.value ->> 'description' AS value
                    UNION ALL
                   SELECT 'k', w.keyword FROM pg_catalog.jsonb_array_elements_text(c.value -> 'keywords') AS w (keyword)) AS v
             WHERE r.id = ANY (relationship_ids)) AS g
     WHERE g.value IS NOT NULL AND (g.kind <> 'd' OR g.value <> '')
     GROUP BY g.relationship_id, g.kind, g.value COLLATE "C";
END;
COMMENT ON FUNCTION graphrag._given_relationship_values(bigint[], bigint[]) IS 'How often mentions and people give each keyword and description';

-- Keywords as their sorted union; descriptions and sentences as of entities.
CREATE FUNCTION graphrag._merged_relationships(relationship_ids bigint[], mention_ids bigint[], max_tokens bigint)
RETURNS TABLE (relationship_id bigint, keywords text[], description text, fragments bigint, tokens bigint, sentence text)
LANGUAGE sql STABLE ROWS 1000
BEGIN ATOMIC
    WITH given AS MATERIALIZED (
        SELECT g.relationship_id, g.kind, g.value COLLATE "C" AS value, g.count
          FROM graphrag._given_relationship_values(relationship_ids, mention_ids) AS g
         WHERE mention_ids IS NOT NULL
         UNION ALL
        SELECT v.relationship_id, v.kind, v.value, v.count
          FROM graphrag.relationship_values AS v
         WHERE mention_ids IS NULL AND v.relationship_id = ANY (relationship_ids)
    ), words AS (
        SELECT g.relationship_id, pg_catalog.array_agg(g.value ORDER BY g.value) AS keywords
          FROM given AS g WHERE g.kind = 'k' GROUP BY g.relationship_id
    ), fragments AS (
        SELECT g.relationship_id, g.value,
               pg_catalog.row_number() OVER ordered AS place,
               pg_catalog.sum(coalesce(v.tokens, 0)) OVER (ordered ROWS UNBOUNDED PRECEDING) AS tokens
          FROM given AS g
          LEFT JOIN graphrag.relationship_values AS v
            ON v.relationship_id = g.relationship_id AND v.kind = 'd' AND pg_catalog.md5(v.value) = pg_catalog.md5(g.value)
         WHERE g.kind = 'd'
        WINDOW ordered AS (PARTITION BY g.relationship_id ORDER BY g.count DESC, g.value)
    ), descriptions AS (
        SELECT f.relationship_id, pg_catalog.count(*) AS fragments, pg_catalog.max(f.tokens) AS tokens,
               pg_catalog.string_agg(f.value, E'\n' ORDER BY f.place) FILTER (WHERE f.place = 1 OR f.tokens <= max_tokens) AS text
          FROM fragments AS f
         GROUP BY f.relationship_id
    ), best AS (
        SELECT DISTINCT ON (m.relationship_id) m.relationship_id, m.chunk_id, m.start_offset, m.end_offset
          FROM graphrag.relationship_mentions AS m
         WHERE m.id = ANY (mention_ids) AND m.evidence_rank IS NOT NULL
         ORDER BY m.relationship_id, m.evidence_rank
    ), sentences AS (
        SELECT b.relationship_id,
               pg_catalog.substr(k.content, b.start_offset - k.start_offset + 1, b.end_offset - b.start_offset) AS text
          FROM (SELECT * FROM best
                 UNION ALL
                SELECT i.id, o.*
                  FROM pg_catalog.unnest(relationship_ids) AS i (id)
                 CROSS JOIN LATERAL (
                       SELECT m.chunk_id, m.start_offset, m.end_offset
                         FROM graphrag.relationship_mentions AS m
                        WHERE m.relationship_id = i.id AND m.evidence_rank IS NOT NULL
                        ORDER BY m.evidence_rank
                        LIMIT 1) AS o
                 WHERE mention_ids IS NULL) AS b
          JOIN graphrag.chunks AS k ON k.id = b.chunk_id
    )
    SELECT r.id,
           CASE WHEN p.value ->> 'keywords' IS NULL THEN coalesce(w.keywords, '{}')
                ELSE ARRAY(SELECT pg_catalog.jsonb_array_elements_text(p.value -> 'keywords')) END COLLATE "default",
           coalesce(p.value ->> 'description', d.text)::text COLLATE "default", coalesce(d.fragments, 0), coalesce(d.tokens, 0)::bigint, s.text
      FROM graphrag.relationships AS r
      JOIN graphrag.entities AS l ON l.id = r.low_id
      JOIN graphrag.entities AS h ON h.id = r.high_id
     CROSS JOIN LATERAL (
           SELECT CASE WHEN EXISTS (SELECT FROM graphrag.curated AS x
                                     WHERE x.corpus_id = r.corpus_id AND x.entity_key = least(l.key, h.key)
                                       AND x.other_entity_key = greatest(l.key, h.key) AND x.effect = 'edit')
                       THEN graphrag._edits(r.corpus_id, l.key, h.key) END AS value) AS p
      LEFT JOIN words AS w ON w.relationship_id = r.id
      LEFT JOIN descriptions AS d ON d.relationship_id = r.id
      LEFT JOIN sentences AS s ON s.relationship_id = r.id
     WHERE r.id = ANY (relationship_ids);
END;
COMMENT ON FUNCTION graphrag._merged_relationships(bigint[], bigint[], bigint) IS 'Keywords and descriptions of relationships by mentions and curations';

-- Weights, counts and directions: of relationship_ids by mention_ids (null: by all mentions), or of all that document_ids state by theirs
-- (one of the two is null). forward: from low to high, in the direction that most mentions have, else that of the keys. An edited weight wins.
CREATE FUNCTION graphrag._counted_relationships(relationship_ids bigint[], mention_ids bigint[], document_ids bigint[])
RETURNS TABLE (relationship_id bigint, mention_count bigint, evidence_rank bigint, weight numeric, direction bigint, forward boolean,
               fragments bigint, is_edited boolean)
LANGUAGE sql STABLE ROWS 1000
BEGIN ATOMIC
    WITH stated AS (
        -- Aliases may state a relationship several times in a chunk, which counts as one.
        SELECT m.relationship_id, pg_catalog.count(DISTINCT m.chunk_id) AS mention_count, pg_catalog.min(m.evidence_rank) AS evidence_rank,
               pg_catalog.sum(m.weight) AS weight, pg_catalog.sum(CASE WHEN m.forward THEN 1 WHEN NOT m.forward THEN -1 END) AS direction
          FROM (SELECT o.relationship_id, o.chunk_id, o.evidence_rank, o.weight, o.forward
                  FROM graphrag.chunks AS k
                  JOIN graphrag.relationship_mentions AS o ON o.chunk_id = k.id
                 WHERE k.document_id = ANY (document_ids) AND o.relationship_id IS NOT NULL
                 UNION ALL
                SELECT o.relationship_id, o.chunk_id, o.evidence_rank, o.weight, o.forward
                  FROM graphrag.relationship_mentions AS o
                 WHERE o.relationship_id = ANY (relationship_ids) AND mention_ids IS NULL
                 UNION ALL
                SELECT o.relationship_id, o.chunk_id, o.evidence_rank, o.weight, o.forward
                  FROM graphrag.relationship_mentions AS o
                 WHERE o.id = ANY (mention_ids) AND o.relationship_id IS NOT NULL
                 UNION ALL
                -- Also what nothing mentions.
                SELECT u.id, NULL, NULL, NULL, NULL FROM pg_catalog.unnest(relationship_ids) AS u (id)) AS m
         GROUP BY m.relationship_id
    ), ends AS (
        SELECT s.*, r.corpus_id, l.key AS low_key, h.key AS high_key
          FROM stated AS s
          JOIN graphrag.relationships AS r ON r.id = s.relationship_id
          JOIN graphrag.entities AS l ON l.id = r.low_id
          JOIN graphrag.entities AS h ON h.id = r.high_id
    ), said AS (
        SELECT e.relationship_id, pg_catalog.count(*) FILTER (WHERE c.effect = 'fragment') AS fragments,
               pg_catalog.sum((c.value ->> 'weight')::numeric) FILTER (WHERE c.effect = 'fragment') AS weight,
               pg_catalog.sum(CASE WHEN c.forward = (e.low_key < e.high_key) THEN 1 ELSE -1 END) FILTER (WHERE c.effect = 'fragment') AS direction,
               pg_catalog.bool_or(c.effect = 'edit' AND c.own) AS is_edited
          FROM ends AS e
          JOIN graphrag.curated AS c ON c.corpus_id = e.corpus_id AND c.entity_key = least(e.low_key, e.high_key)
                                    AND c.other_entity_key = greatest(e.low_key, e.high_key)
         GROUP BY e.relationship_id
    ), summed AS (
        SELECT e.relationship_id, e.mention_count, e.evidence_rank, e.corpus_id, e.low_key, e.high_key,
               coalesce(e.weight, 0) + coalesce(p.weight, 0) AS weight, coalesce(e.direction, 0) + coalesce(p.direction, 0) AS direction,
               coalesce(p.fragments, 0) AS fragments, coalesce(p.is_edited, false) AS is_edited
          FROM ends AS e
          LEFT JOIN said AS p ON p.relationship_id = e.relationship_id
    )
    SELECT s.relationship_id, s.mention_count, s.evidence_rank,
           pg_catalog.trim_scale(coalesce(CASE WHEN s.is_edited
                                               THEN (graphrag._edits(s.corpus_id, s.low_key, s.high_key) ->> 'weight')::numeric END, s.weight)),
           s.direction, CASE s.direction WHEN 0 THEN s.low_key < s.high_key ELSE s.direction > 0 END, s.fragments, s.is_edited
      FROM summed AS s;
END;
COMMENT ON FUNCTION graphrag._counted_relationships(bigint[], bigint[], bigint[]) IS 'Weights, counts and directions of relationships by mentions and curations';
