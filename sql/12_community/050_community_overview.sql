-- For BI tools. Communities tell of all documents of a corpus together: they are shown to who sees it whole.
CREATE VIEW graphrag.community_overview WITH (security_barrier = true) AS
WITH whole AS MATERIALIZED (SELECT graphrag._whole_corpora() AS corpora)
SELECT c.name AS corpus,
       o.id   AS community_id,
       o.level,
       o.parent_id,
       o.size,
       -- Each member is looked up (OFFSET 0), whatever else there is: no community reads a table whole.
       (SELECT pg_catalog.count(*)
          FROM graphrag.community_members l
         CROSS JOIN LATERAL (SELECT x.low_id, x.high_id FROM graphrag.relationships x WHERE x.low_id = l.entity_id OFFSET 0) r
          JOIN graphrag.community_members h ON h.entity_id = r.high_id AND h.community_id = o.id
          LEFT JOIN LATERAL (SELECT n.entity_id FROM graphrag._row_names n WHERE n.name_id = r.low_id OFFSET 0) a ON true
          LEFT JOIN LATERAL (SELECT n.entity_id FROM graphrag._row_names n WHERE n.name_id = r.high_id OFFSET 0) b ON true
         WHERE l.community_id = o.id AND coalesce(a.entity_id, r.low_id) <> coalesce(b.entity_id, r.high_id)) AS relationships,
       (SELECT pg_catalog.count(DISTINCT x.document_id)
          FROM graphrag.community_members l
         CROSS JOIN LATERAL (SELECT m.document_id FROM graphrag.entity_mentions m WHERE m.entity_id = l.entity_id OFFSET 0) x
         WHERE l.community_id = o.id) AS documents,
       r.title,
       r.summary,
       r.rating,
       r.model,
       r.written_at
  FROM graphrag.communities o
  JOIN graphrag.corpora c ON c.id = o.corpus_id
  LEFT JOIN graphrag.community_reports r ON r.community_id = o.id AND (SELECT w.corpora FROM whole w)[r.corpus_id]
 WHERE (SELECT w.corpora FROM whole w)[o.corpus_id];

COMMENT ON VIEW graphrag.community_overview IS 'Communities with their reports, one row each; only of corpora that the caller sees whole, because reports are about all documents';
COMMENT ON COLUMN graphrag.community_overview.corpus IS 'Corpus';
COMMENT ON COLUMN graphrag.community_overview.community_id IS 'Number of the community';
COMMENT ON COLUMN graphrag.community_overview.level IS '0 is the coarsest';
COMMENT ON COLUMN graphrag.community_overview.parent_id IS 'The community one level up';
COMMENT ON COLUMN graphrag.community_overview.size IS 'Number of member entities';
COMMENT ON COLUMN graphrag.community_overview.relationships IS 'Relationships among its members';
COMMENT ON COLUMN graphrag.community_overview.documents IS 'Documents that mention a member';
COMMENT ON COLUMN graphrag.community_overview.title IS 'Title of its report; null: none is written yet';
COMMENT ON COLUMN graphrag.community_overview.summary IS 'Summary of its report';
COMMENT ON COLUMN graphrag.community_overview.rating IS 'Importance, 0 to 10';
COMMENT ON COLUMN graphrag.community_overview.model IS 'Model that wrote the report; null: put together without a model';
COMMENT ON COLUMN graphrag.community_overview.written_at IS 'Time the report was written';

CREATE VIEW graphrag.community_entities WITH (security_barrier = true) AS
SELECT c.name AS corpus,
       o.id   AS community_id,
       o.level,
       m.entity_id
  FROM graphrag.community_members m
  JOIN graphrag.communities o ON o.id = m.community_id
  JOIN graphrag.corpora c ON c.id = o.corpus_id
 WHERE (SELECT graphrag._whole_corpora())[o.corpus_id]
   AND NOT EXISTS (SELECT FROM graphrag._row_names n WHERE n.name_id = m.entity_id);

COMMENT ON VIEW graphrag.community_entities IS 'Entities of each community; only of corpora that the caller sees whole';
COMMENT ON COLUMN graphrag.community_entities.corpus IS 'Corpus';
COMMENT ON COLUMN graphrag.community_entities.community_id IS 'Number of the community';
COMMENT ON COLUMN graphrag.community_entities.level IS '0 is the coarsest';
COMMENT ON COLUMN graphrag.community_entities.entity_id IS 'Number of the entity';
