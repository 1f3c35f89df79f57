-- Queues the removal of whatever was made of documents that are gone, or retracted, past the triggers that would have done it: by a
-- TRUNCATE, or in a restore. Returns how many; what is queued to be indexed, and has gone meanwhile, is queued as its removal.
CREATE FUNCTION graphrag._queue_removals(corpus_id int) RETURNS bigint
LANGUAGE plpgsql VOLATILE SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
    queued bigint;
BEGIN
    SELECT graphrag._requeue_jobs('remove', array_agg(gone.corpus_id), array_agg(gone.document_id)) INTO queued
      FROM (SELECT DISTINCT c.corpus_id, c.document_id FROM graphrag.chunks c
             WHERE c.corpus_id = _queue_removals.corpus_id
               AND NOT EXISTS (SELECT FROM graphrag.documents d WHERE d.id = c.document_id AND d.retracted_at IS NULL)
               AND NOT EXISTS (SELECT FROM graphrag.jobs j WHERE j.document_id = c.document_id AND j.kind = 'remove')) gone;
    DELETE FROM graphrag.jobs j
     WHERE j.corpus_id = _queue_removals.corpus_id AND j.kind IN ('index', 'embed', 'graph')
       AND NOT EXISTS (SELECT FROM graphrag.documents d WHERE d.id = j.document_id AND d.retracted_at IS NULL);
    RETURN queued;
END
$$;
