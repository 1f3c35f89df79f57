-- Queues the removal of whatever was made of documents that are gone, or retracted, past the triggers that would have done it: by a
-- TRUNCATE, or in a restore. Returns how many; what is queued to be indexed, and has gone meanwhile, is queued as its removal.
CREATE FUNCTION graphrag._queue_removals(corpus_id int) RETURNS bigint
LANGUAGE plpgsql VOLATILE SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
    queued bigint;
BEGIN
    SELECT graphrag._requeue_jobs('remove', array_agg(gone.corpus_id), array_agg(gone.document_id)) INTO queued
      FROM (SELECT c.corpus_id, c.document_id FROM graphrag.chunks c WHERE c.corpus_id = _queue_removals.corpus_id
            EXCEPT SELECT d.corpus_id, d.id FROM graphrag.documents d WHERE d.corpus_id = _queue_removals.corpus_id AND d.retracted_at IS NULL
            -- To statistics of an empty queue, NOT EXISTS would be a scan of it for each chunk.
            EXCEPT SELECT j.corpus_id, j.document_id FROM graphrag.jobs j WHERE j.corpus_id = _queue_removals.corpus_id AND j.kind = 'remove') gone
     WHERE NOT EXISTS (SELECT FROM graphrag.documents d WHERE d.id = gone.document_id AND d.retracted_at IS NULL);
    DELETE FROM graphrag.jobs j
     WHERE j.corpus_id = _queue_removals.corpus_id AND j.kind IN ('index', 'embed', 'graph')
       AND NOT EXISTS (SELECT FROM graphrag.documents d WHERE d.id = j.document_id AND d.retracted_at IS NULL);
    RETURN queued;
END
$$;
