-- Views for BI tools: one row per thing, plain column types, names instead of numbers. They read with the owner's rights and show
-- what the caller may see: of a corpus that he sees whole the merged rows; of others what his documents state.
-- A corpus is seen whole or in part: graphrag._whole_corpora(). security_barrier: a condition of the caller's sees no other rows. It
-- does not hold for a bare UNION ALL, whose parts the planner takes apart: a SELECT stands around it.
-- Nor does it keep out what PostgreSQL knows to leak nothing by itself, as = and <, and EXPLAIN ANALYZE counts the rows for which such
-- a condition held: it would tell hidden texts letter by letter. So it must not meet a row that the caller may not see. Where corpora
-- are seen whole or not at all, each table is asked for its corpus first (_whole_corpora). Where documents are, callers under
-- row-level security read a part of its own, which conditions do not enter: OFFSET 0.
-- While documents that were deleted or retracted wait to be removed, merged rows tell of them: everybody then reads what the others state.
-- Without statistics the planner expects one row in two hundred of IS NULL and of =, and loops over the few. Of num_nulls() <> 0 it
-- expects nearly all, of coalesce() a half, of >= a third.
-- Under a LIMIT it wants the first rows soon, and of each part of a UNION ALL takes the plan that begins cheapest: one that begins for .28
-- less loops over all pairs. So merged rows are joined by keys that have an index, after _costly_start(). What is seen in part has none, and
-- is planned for all its rows: beside generate_series(1, 1) there is no LIMIT.

CREATE FUNCTION graphrag._costly_start() RETURNS boolean
LANGUAGE plpgsql STABLE PARALLEL SAFE COST 400000 SET search_path = pg_catalog, pg_temp
AS $$
BEGIN
    RETURN true;
END
$$;
COMMENT ON FUNCTION graphrag._costly_start() IS 'True. PostgreSQL estimates a cost of 1000: among plans whose start costs differ by 1 %, it then chooses by total cost';

-- The documents whose evidence the caller may see. Not for callers: the other views are made of it.
CREATE VIEW graphrag._visible_documents WITH (security_barrier = true) AS
SELECT u.id, u.corpus_id, u.corpus, u.source_key, u.title, u.indexed_at, u.valid_from, u.created_at, u.metadata
  FROM (
SELECT d.id, d.corpus_id, d.corpus, d.source_key, d.title, d.indexed_at, d.valid_from, d.created_at, d.metadata
  FROM graphrag.documents d
 WHERE graphrag._sees_all() AND pg_catalog.num_nulls(d.retracted_at) <> 0
 UNION ALL
SELECT v.id, v.corpus_id, v.corpus, v.source_key, v.title, v.indexed_at, v.valid_from, v.created_at, v.metadata
  FROM (SELECT d.id, d.corpus_id, d.corpus, d.source_key, d.title, d.indexed_at, d.valid_from, d.created_at, d.metadata
          FROM graphrag.documents d
         WHERE NOT graphrag._sees_all()
           AND pg_catalog.num_nulls(d.retracted_at) <> 0
           AND ((SELECT graphrag._whole_corpora())[d.corpus_id] OR d.id IN (SELECT graphrag.visible_documents()))
        OFFSET 0) v) u;

-- Of which corpora, by their numbers, the caller sees the merged rows: whole, and no removal waits. Asked as a subscript: see above. One
-- row; none, where there is no such corpus: then what reads merged rows is left out (EXISTS).
CREATE VIEW graphrag._merged_corpora WITH (security_barrier = true) AS
SELECT pg_catalog.array_agg(f.flag ORDER BY f.id) AS flags
  FROM (SELECT w.id, w.is_whole AND w.id NOT IN (SELECT r.corpus_id FROM graphrag._removals r) AS flag
          FROM pg_catalog.unnest(graphrag._whole_corpora()) WITH ORDINALITY AS w (is_whole, id)
        OFFSET 0) f
HAVING pg_catalog.bool_or(f.flag);

-- Mentions that the caller may see, of entities as the views show them: names of rows are the row's entity. What a row says of its own
-- names it says of itself. First of corpora of which the caller sees the merged rows; then of those that are seen in part, where names are
-- those that visible documents give. The latter has no barrier: what shows it puts one around it, OFFSET 0.
-- LEFT JOIN: what each mention has costs nothing where no column of it is asked for.
CREATE VIEW graphrag._merged_mentions WITH (security_barrier = true) AS
WITH whole AS MATERIALIZED (
    SELECT c.flags FROM graphrag._merged_corpora c
)
SELECT u.*
  FROM (
SELECT k.name AS corpus, m.entity_id, e.name, e.type, m.document_id, m.chunk_id, m.attributes, d.source_key, d.title,
       (coalesce(d.valid_from, d.created_at) AT TIME ZONE 'UTC')::date AS day, d.metadata, c.extraction, c.is_row
  FROM graphrag.entity_mentions m
  JOIN graphrag.documents d ON d.id = m.document_id AND (SELECT w.flags FROM whole w)[d.corpus_id]
  LEFT JOIN graphrag.corpora k ON k.id = m.corpus_id
  LEFT JOIN graphrag.entities e ON e.id = m.entity_id AND (SELECT w.flags FROM whole w)[e.corpus_id]
  LEFT JOIN graphrag.chunks c ON c.id = m.chunk_id AND (SELECT w.flags FROM whole w)[c.corpus_id]
 WHERE EXISTS (SELECT FROM whole) AND graphrag._costly_start() AND (SELECT w.flags FROM whole w)[m.corpus_id] AND m.entity_id IS NOT NULL
   AND NOT EXISTS (SELECT FROM graphrag._row_names n WHERE n.name_id = m.entity_id)
 UNION ALL
SELECT k.name, n.entity_id, e.name, e.type, m.document_id, m.chunk_id, m.attributes, d.source_key, d.title,
       (coalesce(d.valid_from, d.created_at) AT TIME ZONE 'UTC')::date, d.metadata, c.extraction, c.is_row
  FROM graphrag._row_names n
  JOIN graphrag.entity_mentions m ON m.entity_id = n.name_id AND m.name_of IS NULL AND (SELECT w.flags FROM whole w)[m.corpus_id]
  JOIN graphrag.documents d ON d.id = m.document_id AND (SELECT w.flags FROM whole w)[d.corpus_id]
  LEFT JOIN graphrag.corpora k ON k.id = m.corpus_id
  LEFT JOIN graphrag.entities e ON e.id = n.entity_id AND (SELECT w.flags FROM whole w)[e.corpus_id]
  LEFT JOIN graphrag.chunks c ON c.id = m.chunk_id AND (SELECT w.flags FROM whole w)[c.corpus_id]
 WHERE EXISTS (SELECT FROM whole) AND graphrag._costly_start() AND (SELECT w.flags FROM whole w)[n.corpus_id]) u;

CREATE VIEW graphrag._visible_mentions AS
WITH visible AS MATERIALIZED (
    SELECT v.* FROM graphrag._visible_documents v
     WHERE (SELECT c.flags FROM graphrag._merged_corpora c)[v.corpus_id] IS NOT TRUE
       AND (NOT graphrag._sees_all() OR EXISTS (SELECT FROM graphrag._removals))
), names AS MATERIALIZED (
    SELECT n.entity_id AS name_id, pg_catalog.min(o.entity_id) AS entity_id
      FROM visible v
      JOIN graphrag.entity_mentions n ON n.document_id = v.id AND n.name_of IS NOT NULL AND n.entity_id IS NOT NULL
      JOIN graphrag.entity_mentions o ON o.chunk_id = n.chunk_id AND o.raw_key = n.name_of
     WHERE EXISTS (SELECT FROM graphrag._attached_tables t WHERE t.kind <> 'documents')
     GROUP BY n.entity_id
    HAVING pg_catalog.bool_and(n.raw_key <> n.name_of AND o.entity_id IS NOT NULL AND o.entity_id <> n.entity_id)
       AND pg_catalog.min(o.entity_id) >= pg_catalog.max(o.entity_id)
)
SELECT coalesce(n.entity_id, m.entity_id) AS entity_id, m.document_id, m.chunk_id, m.attributes, v.source_key, v.title,
       (coalesce(v.valid_from, v.created_at) AT TIME ZONE 'UTC')::date AS day, v.metadata
  FROM visible v
  JOIN graphrag.entity_mentions m ON m.document_id = v.id
  LEFT JOIN names n ON n.name_id = m.entity_id
 WHERE m.entity_id IS NOT NULL AND coalesce(n.name_id IS NULL OR m.name_of IS NULL, false);

-- Entities of corpora that are seen in part, as of graph_nodes. No barrier either.
CREATE VIEW graphrag._visible_entities AS
WITH visible AS MATERIALIZED (
    SELECT v.*, v.entity_ids::bigint[] AS ids
      FROM graphrag._visible_nodes((SELECT s.secret FROM graphrag._view_secret s)) v
     WHERE NOT graphrag._sees_all() OR EXISTS (SELECT FROM graphrag._removals)
)
SELECT e.corpus, e.id AS entity_id, (e.key || '')::text COLLATE "default" AS key, coalesce(n.name, e.name) AS name, coalesce(n.type, e.type) AS type,
       coalesce(n.description, e.description) AS description, coalesce(n.degree, e.degree) AS degree,
       coalesce(n.mention_count, e.mention_count) AS mention_count, NULL::bigint AS community_id, NULL::text AS community,
       NULL::bigint[] AS community_ids,
       coalesce(n.origin, CASE coalesce(n.mention_count, e.mention_count) WHEN 0 THEN 'people' ELSE 'documents' END) AS origin
  FROM (SELECT v.corpus, x.* FROM visible v JOIN graphrag.entities x ON x.id = ANY (v.ids)) e
  LEFT JOIN (SELECT x.*
               FROM visible v
              CROSS JOIN LATERAL ROWS FROM (pg_catalog.unnest(v.ids), pg_catalog.unnest(v.names), pg_catalog.unnest(v.types),
                                            pg_catalog.unnest(v.entity_descriptions), pg_catalog.unnest(v.degrees::int[]),
                                            pg_catalog.unnest(v.entity_mention_counts::int[]), pg_catalog.unnest(v.entity_origins))
                         AS x (id, name, type, description, degree, mention_count, origin)) n ON n.id = e.id;

-- Communities tell of all documents together: only rows of corpora that are seen whole look for them, and where a column is asked for.
CREATE VIEW graphrag.graph_nodes WITH (security_barrier = true) AS
WITH whole AS MATERIALIZED (
    SELECT c.flags FROM graphrag._merged_corpora c
)
SELECT u.corpus, u.entity_id, u.key, u.name, u.type, u.description, u.degree, u.mention_count, u.community_id, u.community, u.community_ids,
       u.origin
  FROM (
SELECT c.name AS corpus,
       e.id   AS entity_id,
       -- Planned without the statistics of keys, which EXPLAIN would tell.
       (e.key || '')::text COLLATE "default" AS key,
       e.name,
       e.type,
       e.description,
       coalesce(r.degree, e.degree) AS degree,
       coalesce(r.mention_count, e.mention_count) AS mention_count,
       i.community_id,
       i.community,
       i.community_ids,
       CASE WHEN coalesce(r.mention_count, e.mention_count) = 0 THEN 'people'
            WHEN coalesce(r.row_mention_count, e.row_mention_count) = 0 THEN 'documents'
            WHEN coalesce(r.row_mention_count, e.row_mention_count) = coalesce(r.mention_count, e.mention_count) THEN 'rows'
            ELSE 'documents, rows' END AS origin
  FROM graphrag.entities e
  JOIN graphrag.corpora c ON c.id = e.corpus_id
  LEFT JOIN graphrag._named_rows r ON r.entity_id = e.id
  -- One row: where no column of it is asked for, the planner leaves it out.
  LEFT JOIN LATERAL (SELECT pg_catalog.max(q.id) FILTER (WHERE q.level = 0) AS community_id,
                            pg_catalog.max(p.title) FILTER (WHERE q.level = 0) AS community,
                            pg_catalog.array_agg(q.id ORDER BY q.level) AS community_ids
                       FROM graphrag.community_members m
                       JOIN graphrag.communities q ON q.id = m.community_id
                       LEFT JOIN graphrag.community_reports p ON p.community_id = q.id
                      WHERE m.entity_id = e.id) i ON true
 WHERE EXISTS (SELECT FROM whole) AND graphrag._costly_start()
   AND (SELECT w.flags FROM whole w)[e.corpus_id]
   AND NOT EXISTS (SELECT FROM graphrag._row_names n WHERE n.name_id = e.id)
 UNION ALL
SELECT p.* FROM (SELECT e.* FROM graphrag._visible_entities e OFFSET 0) p CROSS JOIN pg_catalog.generate_series(1, 1)) u;

COMMENT ON VIEW graphrag.graph_nodes IS 'Entities of the knowledge graph, one row each. Names of a row of an attached table belong to the row''s entity';
COMMENT ON COLUMN graphrag.graph_nodes.corpus IS 'Corpus';
COMMENT ON COLUMN graphrag.graph_nodes.entity_id IS 'Number of the entity';
COMMENT ON COLUMN graphrag.graph_nodes.key IS 'Normalised name, unique in the corpus';
COMMENT ON COLUMN graphrag.graph_nodes.name IS 'Most frequent spelling';
COMMENT ON COLUMN graphrag.graph_nodes.type IS 'Most frequent type that says what it is, else NAME or CONCEPT';
COMMENT ON COLUMN graphrag.graph_nodes.description IS 'Description by documents or people (edit_entity)';
COMMENT ON COLUMN graphrag.graph_nodes.degree IS 'Number of relationships';
COMMENT ON COLUMN graphrag.graph_nodes.mention_count IS 'Number of chunks that mention the entity';
COMMENT ON COLUMN graphrag.graph_nodes.community_id IS 'Its community of level 0, the coarsest; null: it is in none, the caller sees a part of the corpus, or deleted documents wait to be removed';
COMMENT ON COLUMN graphrag.graph_nodes.community IS 'Title of the report on that community; null: none is written yet';
COMMENT ON COLUMN graphrag.graph_nodes.community_ids IS 'Its communities, of level 0 first; null like community_id';
COMMENT ON COLUMN graphrag.graph_nodes.origin IS 'What mentions it: documents, rows of attached tables, "documents, rows", or people if only people added it';

-- PMI depends on the whole corpus, so it is computed here. Probabilities are shares of the corpus' chunks, for the pair and for each entity alike.
-- LEFT JOIN: N and the entities, which every relationship has, cost nothing where no column of theirs is asked for.
CREATE VIEW graphrag.graph_edges WITH (security_barrier = true) AS
WITH whole AS MATERIALIZED (
    SELECT c.flags FROM graphrag._merged_corpora c
), visible AS MATERIALIZED (
    SELECT v.*, v.entity_ids::bigint[] AS entities, v.relationship_ids::bigint[] AS relationships
      FROM graphrag._visible_edges((SELECT s.secret FROM graphrag._view_secret s)) v
     WHERE NOT graphrag._sees_all() OR EXISTS (SELECT FROM graphrag._removals)
), visible_entities AS MATERIALIZED (
    SELECT e.id, coalesce(n.name, e.name) AS name, coalesce(n.type, e.type) AS type, coalesce(n.mention_count, e.mention_count) AS mention_count
      FROM (SELECT x.* FROM visible v JOIN graphrag.entities x ON x.id = ANY (v.entities)) e
      LEFT JOIN (SELECT x.*
                   FROM visible v
                  CROSS JOIN LATERAL ROWS FROM (pg_catalog.unnest(v.entities), pg_catalog.unnest(v.names),
                                                pg_catalog.unnest(v.types), pg_catalog.unnest(v.entity_mention_counts::int[]))
                             AS x (id, name, type, mention_count)) n ON n.id = e.id
)
SELECT u.corpus, u.relationship_id, u.source_id, u.source, u.source_type, u.target_id, u.target, u.target_type, u.keywords, u.keyword_list,
       u.description, u.weight, u.mention_count, u.pmi, u.strength, u.origin
  FROM (
SELECT c.name AS corpus,
       r.id   AS relationship_id,
       coalesce(a.entity_id, r.source_id) AS source_id,
       s.name AS source,
       s.type AS source_type,
       coalesce(b.entity_id, r.target_id) AS target_id,
       t.name AS target,
       t.type AS target_type,
       pg_catalog.array_to_string(r.keywords, ', ') AS keywords,
       r.keywords AS keyword_list,
       r.description,
       r.weight::double precision AS weight,
       r.mention_count,
       CASE WHEN r.mention_count > 0 AND k.source > 0 AND k.target > 0 AND n.chunks > 0 THEN
            r.mention_count::double precision / n.chunks
            * pg_catalog.ln(r.mention_count::double precision * n.chunks / k.source / k.target) / pg_catalog.ln(2::double precision)
       END AS pmi,
       CASE WHEN r.mention_count > 0 AND k.source > 0 AND k.target > 0 AND n.chunks > 0 THEN
            graphrag._strength(r.weight::double precision, r.mention_count, k.source, k.target, n.chunks)
       END AS strength,
       CASE WHEN r.mention_count = 0 THEN 'people'
            WHEN r.row_mention_count = 0 THEN 'documents'
            WHEN r.row_mention_count = r.mention_count THEN 'rows'
            ELSE 'documents, rows' END AS origin
  FROM graphrag.relationships r
  JOIN graphrag.corpora c ON c.id = r.corpus_id
  LEFT JOIN graphrag._row_names a ON a.name_id = r.source_id
  LEFT JOIN graphrag._row_names b ON b.name_id = r.target_id
  LEFT JOIN graphrag.entities s ON s.id = coalesce(a.entity_id, r.source_id) AND (SELECT w.flags FROM whole w)[s.corpus_id]
  LEFT JOIN graphrag.entities t ON t.id = coalesce(b.entity_id, r.target_id) AND (SELECT w.flags FROM whole w)[t.corpus_id]
  LEFT JOIN graphrag._named_rows x ON x.entity_id = coalesce(a.entity_id, r.source_id)
  LEFT JOIN graphrag._named_rows y ON y.entity_id = coalesce(b.entity_id, r.target_id)
 CROSS JOIN LATERAL (SELECT coalesce(x.mention_count, s.mention_count) AS source, coalesce(y.mention_count, t.mention_count) AS target) k
  LEFT JOIN (SELECT x.corpus_id, pg_catalog.sum(x.count)::bigint AS chunks FROM graphrag._index_counts x WHERE x.relation = 'chunks'
              GROUP BY x.corpus_id) n ON n.corpus_id = r.corpus_id
 WHERE EXISTS (SELECT FROM whole) AND graphrag._costly_start()
   AND (SELECT w.flags FROM whole w)[r.corpus_id]
   AND (a.name_id IS NULL AND b.name_id IS NULL OR coalesce(a.entity_id, r.source_id) <> coalesce(b.entity_id, r.target_id))
 UNION ALL
SELECT p.*
  FROM (
SELECT e.corpus, e.id, s.id, s.name, s.type, t.id, t.name, t.type, pg_catalog.array_to_string(e.keywords, ', '), e.keywords, e.description,
       e.weight, e.mention_count,
       CASE WHEN e.mention_count > 0 AND s.mention_count > 0 AND t.mention_count > 0 AND e.chunks > 0 THEN
            e.mention_count::double precision / e.chunks
            * pg_catalog.ln(e.mention_count::double precision * e.chunks / s.mention_count / t.mention_count) / pg_catalog.ln(2::double precision)
       END,
       CASE WHEN e.mention_count > 0 AND s.mention_count > 0 AND t.mention_count > 0 AND e.chunks > 0 THEN
            graphrag._strength(e.weight, e.mention_count, s.mention_count, t.mention_count, e.chunks)
       END,
       coalesce(e.origin, CASE e.mention_count WHEN 0 THEN 'people' ELSE 'documents' END)
  FROM (SELECT r.corpus, r.chunks, r.id, coalesce(x.source_id, r.source_id) AS source_id, coalesce(x.target_id, r.target_id) AS target_id,
               coalesce(x.keywords::text[], r.keywords) AS keywords, coalesce(x.description, r.description) AS description,
               coalesce(x.weight, r.weight::double precision) AS weight, coalesce(x.mention_count, r.mention_count) AS mention_count, x.origin
          FROM (SELECT v.corpus, v.chunks, x.* FROM visible v JOIN graphrag.relationships x ON x.id = ANY (v.relationships)) r
          LEFT JOIN (SELECT x.*
                       FROM visible v
                      CROSS JOIN LATERAL ROWS FROM (pg_catalog.unnest(v.relationships), pg_catalog.unnest(v.source_ids::bigint[]),
                                                    pg_catalog.unnest(v.target_ids::bigint[]), pg_catalog.unnest(v.weights::double precision[]),
                                                    pg_catalog.unnest(v.relationship_mention_counts::int[]), pg_catalog.unnest(v.keywords),
                                                    pg_catalog.unnest(v.relationship_descriptions), pg_catalog.unnest(v.relationship_origins))
                                 AS x (id, source_id, target_id, weight, mention_count, keywords, description, origin)) x ON x.id = r.id) e
  JOIN visible_entities s ON s.id = e.source_id
  JOIN visible_entities t ON t.id = e.target_id
OFFSET 0) p CROSS JOIN pg_catalog.generate_series(1, 1)) u;

COMMENT ON VIEW graphrag.graph_edges IS 'Relationships of the knowledge graph, one row each, in the direction most mentions have. Statements about a name of a row count for the row''s entity';
COMMENT ON COLUMN graphrag.graph_edges.corpus IS 'Corpus';
COMMENT ON COLUMN graphrag.graph_edges.relationship_id IS 'Number of the relationship';
COMMENT ON COLUMN graphrag.graph_edges.source_id IS 'Number of the source entity';
COMMENT ON COLUMN graphrag.graph_edges.source IS 'Name of the source entity';
COMMENT ON COLUMN graphrag.graph_edges.source_type IS 'Type of the source entity';
COMMENT ON COLUMN graphrag.graph_edges.target_id IS 'Number of the target entity';
COMMENT ON COLUMN graphrag.graph_edges.target IS 'Name of the target entity';
COMMENT ON COLUMN graphrag.graph_edges.target_type IS 'Type of the target entity';
COMMENT ON COLUMN graphrag.graph_edges.keywords IS 'Keywords, separated by comma and space';
COMMENT ON COLUMN graphrag.graph_edges.keyword_list IS 'Keywords as an array';
COMMENT ON COLUMN graphrag.graph_edges.description IS 'Description by documents or people (edit_relationship)';
COMMENT ON COLUMN graphrag.graph_edges.weight IS 'Sum of the mentions'' weights; for concepts the number of sentences that name both';
COMMENT ON COLUMN graphrag.graph_edges.mention_count IS 'Number of chunks that state the relationship';
COMMENT ON COLUMN graphrag.graph_edges.pmi IS 'p(x,y) log2(p(x,y) / (p(x) p(y))), p = share of the corpus'' chunks: above 0 when the two occur together more often than by chance';
COMMENT ON COLUMN graphrag.graph_edges.strength IS 'weight * log2(p(x,y) / (p(x) p(y))): weight and pmi together. A pair that occurs together more rarely than by chance has less than 0, whatever its weight';
COMMENT ON COLUMN graphrag.graph_edges.origin IS 'What states it: documents, rows of attached tables, "documents, rows", or people if only people added it';

-- Claims with the entities they are about: aliases lead there, whenever people merged or renamed. Where documents are hidden, with those
-- alone that visible ones state: whether hidden ones have a name, they do not tell.
CREATE VIEW graphrag.graph_claims WITH (security_barrier = true) AS
WITH whole AS MATERIALIZED (
    SELECT c.flags FROM graphrag._merged_corpora c
)
SELECT u.corpus, u.claim_id, u.document_id, u.chunk_id, u.subject_id, u.subject, u.object_id, u.object, u.type, u.status, u.start_date, u.end_date,
       u.description, u.source_text
  FROM (
SELECT d.corpus, y.id AS claim_id, y.document_id, y.chunk_id, s.id AS subject_id, y.subject, o.id AS object_id, y.object, y.type, y.status,
       y.start_date, y.end_date, y.description, y.source_text
  FROM graphrag.claims y
  JOIN graphrag.documents d ON d.id = y.document_id AND (SELECT w.flags FROM whole w)[d.corpus_id] AND pg_catalog.num_nulls(d.retracted_at) <> 0
  LEFT JOIN graphrag.aliases a ON a.corpus_id = y.corpus_id AND a.key = y.subject_key
  LEFT JOIN graphrag.aliases b ON b.corpus_id = y.corpus_id AND b.key = y.object_key
  -- The alias' corpus, for what is looked up by the corpus alone has all entities.
  LEFT JOIN graphrag.entities s ON s.corpus_id = coalesce(a.corpus_id, y.corpus_id) AND s.key = coalesce(a.entity_key, y.subject_key)
  LEFT JOIN graphrag.entities o ON o.corpus_id = coalesce(b.corpus_id, y.corpus_id) AND o.key = coalesce(b.entity_key, y.object_key)
 WHERE EXISTS (SELECT FROM whole) AND graphrag._costly_start() AND (SELECT w.flags FROM whole w)[y.corpus_id]
 UNION ALL
SELECT p.*
  FROM (
  WITH visible AS MATERIALIZED (
      -- As of _visible_documents, of whose documents nothing is read where no removal waits.
      SELECT d.id FROM graphrag.documents d
       WHERE EXISTS (SELECT FROM graphrag._removals) AND pg_catalog.num_nulls(d.retracted_at) <> 0
         AND (SELECT graphrag._whole_corpora())[d.corpus_id] AND (SELECT w.flags FROM whole w)[d.corpus_id] IS NOT TRUE
       UNION
      SELECT v.id FROM graphrag.visible_documents() v (id) WHERE NOT graphrag._sees_all()
  ), stated AS (
      SELECT m.entity_id AS id FROM visible v JOIN graphrag.entity_mentions m ON m.document_id = v.id
       UNION
      SELECT e.id
        FROM visible v
        JOIN graphrag.relationship_mentions m ON m.document_id = v.id
        JOIN graphrag.relationships r ON r.id = m.relationship_id
       CROSS JOIN LATERAL (VALUES (r.low_id), (r.high_id)) AS e (id)
  ), stated_keys AS MATERIALIZED (
      -- By number first: by key entities would be found, and counted in plans, that hidden documents alone state.
      SELECT e.corpus_id, e.key, e.id FROM stated t JOIN graphrag.entities e ON e.id = t.id
  ), named AS MATERIALIZED (
      -- Mostly the chunk that makes a claim mentions what it is about: then this is not read.
      SELECT pg_catalog.jsonb_object_agg(k.corpus_id || ' ' || k.key, k.id ORDER BY k.is_alias) AS ids
        FROM (SELECT e.*, false AS is_alias FROM stated_keys e
               UNION ALL
              SELECT e.corpus_id, a.key, e.id, true
                FROM stated_keys e
                JOIN graphrag.aliases a ON a.corpus_id = e.corpus_id AND a.entity_key = e.key) k
  )
  SELECT c.name, y.id, y.document_id, y.chunk_id,
         coalesce(s.entity_id, ((SELECT n.ids FROM named n) ->> (y.corpus_id || ' ' || y.subject_key))::bigint), y.subject,
         coalesce(o.entity_id, CASE WHEN y.object_key IS NOT NULL THEN
                  ((SELECT n.ids FROM named n) ->> (y.corpus_id || ' ' || y.object_key))::bigint END), y.object,
         y.type, y.status, y.start_date, y.end_date, y.description, y.source_text
    FROM graphrag.claims y
    JOIN graphrag.corpora c ON c.id = y.corpus_id
    LEFT JOIN graphrag.entity_mentions s ON s.chunk_id = y.chunk_id AND s.raw_key = y.subject_key
    -- Most have no object, and are not looked up.
    LEFT JOIN LATERAL (SELECT m.entity_id FROM graphrag.entity_mentions m
                        WHERE m.chunk_id = y.chunk_id AND m.raw_key = y.object_key OFFSET 0) o ON true
   WHERE (NOT graphrag._sees_all() OR EXISTS (SELECT FROM graphrag._removals))
     -- Numbers, since of a boolean the planner expects a half, and then looks mentions up one by one.
     AND coalesce((SELECT w.flags FROM whole w)[y.corpus_id], false)::int <> 1
     AND (y.document_id IN (SELECT v.id FROM visible v))::int <> 0
  OFFSET 0) p CROSS JOIN pg_catalog.generate_series(1, 1)) u;

COMMENT ON VIEW graphrag.graph_claims IS 'Claims that a model found, where the corpus option claims is true, and the entities they are about';
COMMENT ON COLUMN graphrag.graph_claims.corpus IS 'Corpus';
COMMENT ON COLUMN graphrag.graph_claims.claim_id IS 'Number of the claim';
COMMENT ON COLUMN graphrag.graph_claims.document_id IS 'Document that makes the claim';
COMMENT ON COLUMN graphrag.graph_claims.chunk_id IS 'Chunk that makes it';
COMMENT ON COLUMN graphrag.graph_claims.subject_id IS 'Entity the claim is about, aliases resolved; null: no document that the caller sees mentions one, or somebody deleted it';
COMMENT ON COLUMN graphrag.graph_claims.subject IS 'Its name, as the chunk gave it';
COMMENT ON COLUMN graphrag.graph_claims.object_id IS 'Further entity concerned, aliases resolved; null as for subject_id';
COMMENT ON COLUMN graphrag.graph_claims.object IS 'Its name, as the chunk gave it; null: nobody';
COMMENT ON COLUMN graphrag.graph_claims.type IS 'Kind of claim';
COMMENT ON COLUMN graphrag.graph_claims.status IS 'TRUE, FALSE or SUSPECTED, according to the chunk';
COMMENT ON COLUMN graphrag.graph_claims.start_date IS 'Start of validity, as the model wrote it; null: not said';
COMMENT ON COLUMN graphrag.graph_claims.end_date IS 'End of validity, as the model wrote it; null: not said';
COMMENT ON COLUMN graphrag.graph_claims.description IS 'The claim';
COMMENT ON COLUMN graphrag.graph_claims.source_text IS 'The chunk''s words';

-- Each count is a subquery of its own: a tool that does not select it does not pay for it. OFFSET 0: a chunk is looked up. Without statistics
-- the planner expects of a document one chunk in two hundred, and of those few that are in a range.
CREATE VIEW graphrag.document_coverage WITH (security_barrier = true) AS
SELECT d.corpus,
       d.id AS document_id,
       d.source_key,
       d.title,
       d.status,
       d.error,
       pg_catalog.char_length(d.content) AS characters,
       (SELECT pg_catalog.count(*) FROM graphrag.chunks c WHERE c.document_id = d.shown_id) AS chunks,
       (SELECT pg_catalog.count(*)
          FROM graphrag.chunks c
         CROSS JOIN LATERAL (SELECT FROM graphrag.chunk_windows x WHERE x.chunk_id = c.id OFFSET 0) w
         WHERE c.document_id = d.shown_id AND c.ordinal BETWEEN 0 AND 2147483647) AS windows,
       (SELECT coalesce(pg_catalog.sum(c.token_count), 0) FROM graphrag.chunks c WHERE c.document_id = d.shown_id) AS tokens,
       (SELECT pg_catalog.count(DISTINCT m.entity_id)
          FROM graphrag.chunks c
         CROSS JOIN LATERAL (SELECT x.entity_id FROM graphrag.entity_mentions x WHERE x.chunk_id = c.id OFFSET 0) m
         WHERE c.document_id = d.shown_id AND c.ordinal BETWEEN 0 AND 2147483647) AS entities,
       (SELECT pg_catalog.count(DISTINCT m.relationship_id)
          FROM graphrag.chunks c
         CROSS JOIN LATERAL (SELECT x.relationship_id FROM graphrag.relationship_mentions x WHERE x.chunk_id = c.id OFFSET 0) m
         WHERE c.document_id = d.shown_id AND c.ordinal BETWEEN 0 AND 2147483647) AS relationships,
       d.created_at,
       d.updated_at,
       d.indexed_at,
       d.retracted_at,
       d.retraction_reason
  FROM (
SELECT y.*, CASE WHEN y.retracted_at IS NULL THEN y.id END AS shown_id
  FROM graphrag.documents y
 WHERE graphrag._sees_all()
 UNION ALL
SELECT v.*
  FROM (SELECT y.*, CASE WHEN (SELECT graphrag._whole_corpora())[y.corpus_id] AND y.retracted_at IS NULL OR y.indexed_hash = y.content_hash THEN y.id END AS shown_id
          FROM graphrag.documents y
         WHERE NOT graphrag._sees_all()
           AND y.id = ANY (ARRAY(SELECT graphrag.visible_documents(false)))
        OFFSET 0) v) d;

COMMENT ON VIEW graphrag.document_coverage IS 'What was indexed of each document';
COMMENT ON COLUMN graphrag.document_coverage.corpus IS 'Corpus';
COMMENT ON COLUMN graphrag.document_coverage.document_id IS 'Number of the document';
COMMENT ON COLUMN graphrag.document_coverage.source_key IS 'The application''s own key';
COMMENT ON COLUMN graphrag.document_coverage.title IS 'Title';
COMMENT ON COLUMN graphrag.document_coverage.status IS 'pending, indexed, failed or retracted';
COMMENT ON COLUMN graphrag.document_coverage.error IS 'Last error of a failed document';
COMMENT ON COLUMN graphrag.document_coverage.characters IS 'Length of the content';
COMMENT ON COLUMN graphrag.document_coverage.chunks IS 'Chunks of the version that is indexed';
COMMENT ON COLUMN graphrag.document_coverage.windows IS 'Windows of these chunks';
COMMENT ON COLUMN graphrag.document_coverage.tokens IS 'Tokens of these chunks, overlaps counted twice';
COMMENT ON COLUMN graphrag.document_coverage.entities IS 'Distinct entities they mention';
COMMENT ON COLUMN graphrag.document_coverage.relationships IS 'Distinct relationships they state';
COMMENT ON COLUMN graphrag.document_coverage.created_at IS 'Time of the INSERT';
COMMENT ON COLUMN graphrag.document_coverage.updated_at IS 'Time of the last change by the application';
COMMENT ON COLUMN graphrag.document_coverage.indexed_at IS 'Time the current content was indexed; null: it is not indexed yet';
COMMENT ON COLUMN graphrag.document_coverage.retracted_at IS 'Time since when it is retracted; null: it is not';
COMMENT ON COLUMN graphrag.document_coverage.retraction_reason IS 'Why it is retracted';
