-- What documents say is not sampled by ANALYZE: EXPLAIN of a view, with a condition on a column, would tell its most common values and
-- its histogram, hidden rows among them. No statement is planned by these columns.
ALTER TABLE graphrag.documents
    ALTER COLUMN title SET STATISTICS 0, ALTER COLUMN content SET STATISTICS 0, ALTER COLUMN error SET STATISTICS 0,
    ALTER COLUMN content_hash SET STATISTICS 0, ALTER COLUMN indexed_hash SET STATISTICS 0,
    ALTER COLUMN retraction_reason SET STATISTICS 0;
ALTER TABLE graphrag.pictures
    ALTER COLUMN document_id SET STATISTICS 0, ALTER COLUMN document_key SET STATISTICS 0, ALTER COLUMN content SET STATISTICS 0,
    ALTER COLUMN alternative_text SET STATISTICS 0, ALTER COLUMN caption SET STATISTICS 0, ALTER COLUMN recognised_text SET STATISTICS 0,
    ALTER COLUMN description SET STATISTICS 0, ALTER COLUMN error SET STATISTICS 0;
ALTER TABLE graphrag.chunks
    ALTER COLUMN content SET STATISTICS 0, ALTER COLUMN unfit SET STATISTICS 0,
    ALTER COLUMN concepts SET STATISTICS 0;
ALTER TABLE graphrag.entity_mentions
    ALTER COLUMN attributes SET STATISTICS 0, ALTER COLUMN name_of SET STATISTICS 0;
ALTER TABLE graphrag.entities
    ALTER COLUMN name SET STATISTICS 0, ALTER COLUMN type SET STATISTICS 0, ALTER COLUMN description SET STATISTICS 0;
ALTER TABLE graphrag.relationships
    ALTER COLUMN keywords SET STATISTICS 0, ALTER COLUMN description SET STATISTICS 0;
ALTER TABLE graphrag.claims
    ALTER COLUMN subject SET STATISTICS 0, ALTER COLUMN object SET STATISTICS 0, ALTER COLUMN type SET STATISTICS 0,
    ALTER COLUMN status SET STATISTICS 0, ALTER COLUMN start_date SET STATISTICS 0, ALTER COLUMN end_date SET STATISTICS 0,
    ALTER COLUMN description SET STATISTICS 0, ALTER COLUMN source_text SET STATISTICS 0;
ALTER TABLE graphrag.community_reports
    ALTER COLUMN title SET STATISTICS 0, ALTER COLUMN summary SET STATISTICS 0;
-- Nor what people and models said, nor what is packed: of a table that is empty, ANALYZE keeps the old sample, which forget() cannot remove.
ALTER TABLE graphrag.query_log
    ALTER COLUMN question SET STATISTICS 0;
ALTER TABLE graphrag.answer_feedback
    ALTER COLUMN question SET STATISTICS 0, ALTER COLUMN evidence SET STATISTICS 0, ALTER COLUMN answer SET STATISTICS 0,
    ALTER COLUMN comment SET STATISTICS 0;
ALTER TABLE graphrag.llm_cache
    ALTER COLUMN reply SET STATISTICS 0;
ALTER TABLE graphrag.llm_batch_requests
    ALTER COLUMN messages SET STATISTICS 0, ALTER COLUMN reply SET STATISTICS 0, ALTER COLUMN error SET STATISTICS 0;
ALTER TABLE graphrag.imported_extractions
    ALTER COLUMN chunks SET STATISTICS 0;
ALTER TABLE graphrag.bm25_tail
    ALTER COLUMN terms SET STATISTICS 0;
