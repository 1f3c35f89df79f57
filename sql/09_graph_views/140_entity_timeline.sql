-- When documents speak of entities, for BI tools: by the day a document begins to hold, else the day it came.
CREATE VIEW graphrag.entity_timeline WITH (security_barrier = true) AS
WITH whole AS MATERIALIZED (
    SELECT c.flags FROM graphrag._merged_corpora c
)
SELECT u.corpus, u.entity_id, u.name, u.type, u.day, pg_catalog.date_trunc('month', u.day::timestamp)::date AS month, u.documents, u.mentions
  FROM (
SELECT t.corpus, t.entity_id, e.name, e.type, t.day, t.documents, t.mentions
  FROM (SELECT m.corpus, m.entity_id, m.day, pg_catalog.count(DISTINCT m.document_id) AS documents, pg_catalog.count(*) AS mentions
          FROM graphrag._merged_mentions m
         GROUP BY 2, 3, 1) t
  LEFT JOIN graphrag.entities e ON e.id = t.entity_id AND (SELECT w.flags FROM whole w)[e.corpus_id]
 WHERE EXISTS (SELECT FROM whole)
 UNION ALL
SELECT p.*
  FROM (SELECT n.corpus, n.entity_id, n.name, n.type, t.day, t.documents, t.mentions
          FROM (SELECT m.entity_id, m.day, pg_catalog.count(DISTINCT m.document_id) AS documents, pg_catalog.count(*) AS mentions
                  FROM graphrag._visible_mentions m
                 GROUP BY 1, 2) t
          JOIN graphrag._visible_entities n ON n.entity_id = t.entity_id
        OFFSET 0) p CROSS JOIN pg_catalog.generate_series(1, 1)) u;

COMMENT ON VIEW graphrag.entity_timeline IS 'How often documents of a day mention an entity; a document is of the day of its valid_from, else of its created_at (UTC)';
COMMENT ON COLUMN graphrag.entity_timeline.corpus IS 'Corpus';
COMMENT ON COLUMN graphrag.entity_timeline.entity_id IS 'Number of the entity';
COMMENT ON COLUMN graphrag.entity_timeline.name IS 'Most frequent spelling';
COMMENT ON COLUMN graphrag.entity_timeline.type IS 'Most frequent type that says what it is, else NAME or CONCEPT';
COMMENT ON COLUMN graphrag.entity_timeline.day IS 'Day';
COMMENT ON COLUMN graphrag.entity_timeline.month IS 'First day of its month, to group by';
COMMENT ON COLUMN graphrag.entity_timeline.documents IS 'Documents of the day that mention the entity';
COMMENT ON COLUMN graphrag.entity_timeline.mentions IS 'Chunks of these documents that mention the entity';
