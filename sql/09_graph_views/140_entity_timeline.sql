-- When documents speak of entities, for BI tools: by the day a document begins to hold, else the day it came.
CREATE VIEW graphrag.entity_timeline WITH (security_barrier = true) AS
SELECT n.corpus,
       n.entity_id,
       n.name,
       n.type,
       t.day,
       pg_catalog.date_trunc('month', t.day::timestamp)::date AS month,
       t.documents,
       t.mentions
  FROM graphrag.graph_nodes n
  JOIN (SELECT m.entity_id,
               m.day,
               pg_catalog.count(DISTINCT m.document_id) AS documents,
               pg_catalog.count(*) AS mentions
          FROM graphrag._shown_mentions m
         GROUP BY 1, 2) t ON t.entity_id = n.entity_id;

COMMENT ON VIEW graphrag.entity_timeline IS 'How often documents of a day mention an entity; a document is of the day of its valid_from, else of its created_at (UTC)';
COMMENT ON COLUMN graphrag.entity_timeline.corpus IS 'Corpus';
COMMENT ON COLUMN graphrag.entity_timeline.entity_id IS 'Number of the entity';
COMMENT ON COLUMN graphrag.entity_timeline.name IS 'Most frequent spelling';
COMMENT ON COLUMN graphrag.entity_timeline.type IS 'Most frequent type that says what it is, else NAME or CONCEPT';
COMMENT ON COLUMN graphrag.entity_timeline.day IS 'Day';
COMMENT ON COLUMN graphrag.entity_timeline.month IS 'First day of its month, to group by';
COMMENT ON COLUMN graphrag.entity_timeline.documents IS 'Documents of the day that mention the entity';
COMMENT ON COLUMN graphrag.entity_timeline.mentions IS 'Chunks of these documents that do';
