-- Views for BI tools: one row per thing, plain column types, names instead of numbers. They show what the caller may see:
-- under row-level security on documents, what was merged from all of them is made anew from those that are visible, and from
-- what people say: that belongs to no document, and is shown with every entity and relationship that is visible.
CREATE VIEW graphrag.graph_nodes WITH (security_invoker = true) AS
SELECT c.name AS corpus,
       e.id   AS entity_id,
       e.key::text COLLATE "default" AS key,
       e.name,
       e.type,
       e.description,
       e.degree,
       e.mention_count
  FROM graphrag.entities e
  JOIN graphrag.corpora c ON c.id = e.corpus_id
 WHERE NOT pg_catalog.row_security_active('graphrag.documents')
 UNION ALL
SELECT c.name, e.id, e.key::text COLLATE "default", coalesce(p.value ->> 'name', v.name), coalesce(p.value ->> 'type', v.type),
       coalesce(p.value ->> 'description', v.description), g.degree, n.mention_count
  FROM graphrag.entities e
 CROSS JOIN LATERAL (SELECT graphrag._edits(e.corpus_id, e.key) AS value) p
  JOIN graphrag.corpora c ON c.id = e.corpus_id
 CROSS JOIN LATERAL (
       SELECT m.name, m.type,
              coalesce(m.description, pg_catalog.substr(k.content, m.start_offset - k.start_offset + 1, m.end_offset - m.start_offset)) AS description
         FROM graphrag.entity_mentions m
         JOIN graphrag.documents d ON d.id = m.document_id
         JOIN graphrag.chunks k ON k.id = m.chunk_id
        WHERE m.entity_id = e.id
        ORDER BY m.evidence_rank, m.description COLLATE "C", m.name COLLATE "C"
        LIMIT 1) v
 CROSS JOIN LATERAL (
       SELECT pg_catalog.count(*)::int AS mention_count
         FROM graphrag.entity_mentions m
         JOIN graphrag.documents d ON d.id = m.document_id
        WHERE m.entity_id = e.id) n
 CROSS JOIN LATERAL (
       SELECT pg_catalog.count(DISTINCT r.id)::int AS degree
         FROM (SELECT l.id FROM graphrag.relationships l WHERE l.low_id = e.id
               UNION ALL
               SELECT h.id FROM graphrag.relationships h WHERE h.high_id = e.id) r
         JOIN graphrag.relationship_mentions m ON m.relationship_id = r.id
         JOIN graphrag.documents d ON d.id = m.document_id) g
 WHERE pg_catalog.row_security_active('graphrag.documents');

COMMENT ON VIEW graphrag.graph_nodes IS 'Entities of the knowledge graph, one row each';
COMMENT ON COLUMN graphrag.graph_nodes.corpus IS 'Corpus';
COMMENT ON COLUMN graphrag.graph_nodes.entity_id IS 'Number of the entity';
COMMENT ON COLUMN graphrag.graph_nodes.key IS 'Normalised name, unique in the corpus';
COMMENT ON COLUMN graphrag.graph_nodes.name IS 'Most frequent spelling';
COMMENT ON COLUMN graphrag.graph_nodes.type IS 'Most frequent type';
COMMENT ON COLUMN graphrag.graph_nodes.description IS 'What the documents, or people (edit_entity), say of the entity';
COMMENT ON COLUMN graphrag.graph_nodes.degree IS 'Number of relationships';
COMMENT ON COLUMN graphrag.graph_nodes.mention_count IS 'Number of chunks that mention the entity';

-- PMI depends on the whole corpus, so it is computed here. Probabilities are shares of the corpus' chunks, for the pair and for each entity alike.
-- The LEFT JOIN for N costs nothing where pmi is not asked for.
CREATE VIEW graphrag.graph_edges WITH (security_invoker = true) AS
SELECT c.name AS corpus,
       r.id   AS relationship_id,
       r.source_id,
       s.name AS source,
       s.type AS source_type,
       r.target_id,
       t.name AS target,
       t.type AS target_type,
       pg_catalog.array_to_string(r.keywords, ', ') AS keywords,
       r.keywords AS keyword_list,
       r.description,
       r.weight::double precision AS weight,
       r.mention_count,
       CASE WHEN r.mention_count > 0 AND s.mention_count > 0 AND t.mention_count > 0 AND n.chunks > 0 THEN
            r.mention_count::double precision / n.chunks
            * pg_catalog.ln(r.mention_count::double precision * n.chunks / s.mention_count / t.mention_count) / pg_catalog.ln(2::double precision)
       END AS pmi
  FROM (SELECT r.id, r.corpus_id, r.source_id, r.target_id, r.keywords, r.description, r.weight, r.mention_count
          FROM graphrag.relationships r
         WHERE NOT pg_catalog.row_security_active('graphrag.documents')
         UNION ALL
        SELECT r.id, r.corpus_id, r.source_id, r.target_id,
               CASE WHEN p.value ->> 'keywords' IS NULL THEN w.keywords
                    ELSE ARRAY(SELECT pg_catalog.jsonb_array_elements_text(p.value -> 'keywords')) END,
               coalesce(p.value ->> 'description', v.description),
               coalesce((p.value ->> 'weight')::numeric, a.weight), a.mention_count
          FROM graphrag.relationships r
          JOIN graphrag.entities l ON l.id = r.low_id
          JOIN graphrag.entities h ON h.id = r.high_id
         CROSS JOIN LATERAL (SELECT graphrag._edits(r.corpus_id, l.key, h.key) AS value) p
         CROSS JOIN LATERAL (
               SELECT coalesce(m.description, pg_catalog.substr(k.content, m.start_offset - k.start_offset + 1, m.end_offset - m.start_offset)) AS description
                 FROM graphrag.relationship_mentions m
                 JOIN graphrag.documents d ON d.id = m.document_id
                 JOIN graphrag.chunks k ON k.id = m.chunk_id
                WHERE m.relationship_id = r.id
                ORDER BY m.evidence_rank, m.description COLLATE "C"
                LIMIT 1) v
         CROSS JOIN LATERAL (
               SELECT pg_catalog.sum(m.weight)
                      + (SELECT coalesce(pg_catalog.sum((x.value ->> 'weight')::numeric), 0)
                           FROM graphrag.curated x
                          WHERE x.corpus_id = r.corpus_id AND x.effect = 'fragment'
                            AND x.entity_key = least(l.key, h.key) AND x.other_entity_key = greatest(l.key, h.key)) AS weight,
                      pg_catalog.count(DISTINCT m.chunk_id)::int AS mention_count
                 FROM graphrag.relationship_mentions m
                 JOIN graphrag.documents d ON d.id = m.document_id
                WHERE m.relationship_id = r.id
               HAVING pg_catalog.count(*) > 0) a
         CROSS JOIN LATERAL (
               SELECT coalesce(pg_catalog.array_agg(DISTINCT u.keyword COLLATE "C"), '{}') COLLATE "default" AS keywords
                 FROM (SELECT pg_catalog.unnest(m.keywords)
                         FROM graphrag.relationship_mentions m
                         JOIN graphrag.documents d ON d.id = m.document_id
                        WHERE m.relationship_id = r.id
                       UNION ALL
                       SELECT pg_catalog.jsonb_array_elements_text(x.value -> 'keywords')
                         FROM graphrag.curated x
                        WHERE x.corpus_id = r.corpus_id AND x.effect = 'fragment'
                          AND x.entity_key = least(l.key, h.key) AND x.other_entity_key = greatest(l.key, h.key)) AS u (keyword)) w
         WHERE pg_catalog.row_security_active('graphrag.documents')) r
  JOIN graphrag.corpora c ON c.id = r.corpus_id
  JOIN graphrag.graph_nodes s ON s.entity_id = r.source_id
  JOIN graphrag.graph_nodes t ON t.entity_id = r.target_id
  LEFT JOIN (SELECT x.corpus_id, pg_catalog.count(*) AS chunks
               FROM graphrag.chunks x JOIN graphrag.documents d ON d.id = x.document_id
              GROUP BY x.corpus_id) n ON n.corpus_id = r.corpus_id;

COMMENT ON VIEW graphrag.graph_edges IS 'Relationships of the knowledge graph, one row each, in the direction most mentions have';
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
COMMENT ON COLUMN graphrag.graph_edges.description IS 'What the documents, or people (edit_relationship), say of the relationship';
COMMENT ON COLUMN graphrag.graph_edges.weight IS 'Sum of the mentions'' weights; for concepts the number of sentences that say both';
COMMENT ON COLUMN graphrag.graph_edges.mention_count IS 'Number of chunks that state the relationship';
COMMENT ON COLUMN graphrag.graph_edges.pmi IS 'p(x,y) log2(p(x,y) / (p(x) p(y))), p = share of the corpus'' chunks: above 0 when the two occur together more often than by chance';

-- Claims with the entities they are about: aliases lead there, whenever people merged or renamed.
CREATE VIEW graphrag.graph_claims WITH (security_invoker = true) AS
SELECT d.corpus,
       x.id AS claim_id,
       x.document_id,
       x.chunk_id,
       s.id AS subject_id,
       x.subject,
       o.id AS object_id,
       x.object,
       x.type,
       x.status,
       x.start_date,
       x.end_date,
       x.description,
       x.source_text
  FROM graphrag.claims x
  JOIN graphrag.documents d ON d.id = x.document_id
  LEFT JOIN graphrag.aliases a ON a.corpus_id = x.corpus_id AND a.key = x.subject_key
  LEFT JOIN graphrag.aliases b ON b.corpus_id = x.corpus_id AND b.key = x.object_key
  LEFT JOIN graphrag.entities s ON s.corpus_id = x.corpus_id AND s.key = coalesce(a.entity_key, x.subject_key)
  LEFT JOIN graphrag.entities o ON o.corpus_id = x.corpus_id AND o.key = coalesce(b.entity_key, x.object_key);

COMMENT ON VIEW graphrag.graph_claims IS 'Claims that a model found, where the corpus option claims is true, and the entities they are about';
COMMENT ON COLUMN graphrag.graph_claims.corpus IS 'Corpus';
COMMENT ON COLUMN graphrag.graph_claims.claim_id IS 'Number of the claim';
COMMENT ON COLUMN graphrag.graph_claims.document_id IS 'Document that makes the claim';
COMMENT ON COLUMN graphrag.graph_claims.chunk_id IS 'Chunk that makes it';
COMMENT ON COLUMN graphrag.graph_claims.subject_id IS 'Entity the claim is about, aliases resolved; null: there is no such entity, or somebody deleted it';
COMMENT ON COLUMN graphrag.graph_claims.subject IS 'Its name, as the chunk gave it';
COMMENT ON COLUMN graphrag.graph_claims.object_id IS 'Entity that is concerned besides, likewise';
COMMENT ON COLUMN graphrag.graph_claims.object IS 'Its name, as the chunk gave it; null: nobody';
COMMENT ON COLUMN graphrag.graph_claims.type IS 'Kind of claim';
COMMENT ON COLUMN graphrag.graph_claims.status IS 'TRUE, FALSE or SUSPECTED, according to the chunk';
COMMENT ON COLUMN graphrag.graph_claims.start_date IS 'From when it holds, as the model wrote it; null: not said';
COMMENT ON COLUMN graphrag.graph_claims.end_date IS 'Until when it holds, likewise';
COMMENT ON COLUMN graphrag.graph_claims.description IS 'The claim';
COMMENT ON COLUMN graphrag.graph_claims.source_text IS 'Words of the chunk that make it';

-- Each count is a subquery of its own: a tool that does not select it does not pay for it.
CREATE VIEW graphrag.document_coverage WITH (security_invoker = true) AS
SELECT d.corpus,
       d.id AS document_id,
       d.source_key,
       d.title,
       d.status,
       d.error,
       pg_catalog.char_length(d.content) AS characters,
       (SELECT pg_catalog.count(*) FROM graphrag.chunks c WHERE c.document_id = d.id) AS chunks,
       (SELECT pg_catalog.count(*)
          FROM graphrag.chunks c JOIN graphrag.chunk_windows w ON w.chunk_id = c.id
         WHERE c.document_id = d.id) AS windows,
       (SELECT coalesce(pg_catalog.sum(c.token_count), 0) FROM graphrag.chunks c WHERE c.document_id = d.id) AS tokens,
       (SELECT pg_catalog.count(DISTINCT m.entity_id)
          FROM graphrag.chunks c JOIN graphrag.entity_mentions m ON m.chunk_id = c.id
         WHERE c.document_id = d.id) AS entities,
       (SELECT pg_catalog.count(DISTINCT m.relationship_id)
          FROM graphrag.chunks c JOIN graphrag.relationship_mentions m ON m.chunk_id = c.id
         WHERE c.document_id = d.id) AS relationships,
       d.created_at,
       d.updated_at,
       d.indexed_at
  FROM graphrag.documents d;

COMMENT ON VIEW graphrag.document_coverage IS 'What has been made of each document';
COMMENT ON COLUMN graphrag.document_coverage.corpus IS 'Corpus';
COMMENT ON COLUMN graphrag.document_coverage.document_id IS 'Number of the document';
COMMENT ON COLUMN graphrag.document_coverage.source_key IS 'The application''s own key';
COMMENT ON COLUMN graphrag.document_coverage.title IS 'Title';
COMMENT ON COLUMN graphrag.document_coverage.status IS 'pending, indexed or failed';
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
