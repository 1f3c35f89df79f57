-- Of what is there now: a document counts on the day its current content was indexed, an entity on the day of its first document.
CREATE VIEW graphrag.graph_growth WITH (security_barrier = true) AS
WITH indexed AS (
    SELECT d.id, d.corpus_id, (d.indexed_at AT TIME ZONE pg_catalog.current_setting('TimeZone'))::date AS day
      FROM graphrag._visible_documents d
     WHERE d.indexed_at IS NOT NULL
), grown AS (
    SELECT i.corpus_id, i.day, 1 AS documents, 0::bigint AS chunks, 0 AS entities, 0 AS relationships FROM indexed i
    UNION ALL
    SELECT i.corpus_id, i.day, 0, 1, 0, 0 FROM graphrag.chunks c JOIN indexed i ON i.id = c.document_id
    UNION ALL
    SELECT m.corpus_id, pg_catalog.min(i.day), 0, 0, 1, 0
      FROM graphrag.entity_mentions m JOIN indexed i ON i.id = m.document_id
     WHERE m.entity_id IS NOT NULL
     GROUP BY m.corpus_id, m.entity_id
    UNION ALL
    SELECT m.corpus_id, pg_catalog.min(i.day), 0, 0, 0, 1
      FROM graphrag.relationship_mentions m JOIN indexed i ON i.id = m.document_id
     WHERE m.relationship_id IS NOT NULL
     GROUP BY m.corpus_id, m.relationship_id
)
SELECT c.name AS corpus,
       g.day,
       pg_catalog.sum(g.documents)::bigint     AS documents,
       pg_catalog.sum(g.chunks)::bigint        AS chunks,
       pg_catalog.sum(g.entities)::bigint      AS entities,
       pg_catalog.sum(g.relationships)::bigint AS relationships
  FROM grown g
  JOIN graphrag.corpora c ON c.id = g.corpus_id
 GROUP BY 1, 2;

COMMENT ON VIEW graphrag.graph_growth IS 'Additions of each day to the current graph: an edited document counts on the day of its last indexing';
COMMENT ON COLUMN graphrag.graph_growth.corpus IS 'Corpus';
COMMENT ON COLUMN graphrag.graph_growth.day IS 'Day, in the session''s time zone';
COMMENT ON COLUMN graphrag.graph_growth.documents IS 'Documents indexed';
COMMENT ON COLUMN graphrag.graph_growth.chunks IS 'Their chunks';
COMMENT ON COLUMN graphrag.graph_growth.entities IS 'Entities first mentioned in them';
COMMENT ON COLUMN graphrag.graph_growth.relationships IS 'Relationships first stated in them';
