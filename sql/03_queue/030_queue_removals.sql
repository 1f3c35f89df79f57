-- Queues the removal of whatever was made of documents that are gone past the triggers that would have done it: by a TRUNCATE,
-- or in a restore. Returns how many; what is queued to be indexed, and has gone meanwhile, is queued as its removal.
CREATE FUNCTION graphrag._queue_removals(corpus_id int) RETURNS bigint
LANGUAGE plpgsql VOLATILE SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
    queued bigint;
BEGIN
    INSERT INTO graphrag.jobs AS j (corpus_id, kind, document_id)
    SELECT DISTINCT c.corpus_id, 'remove', c.document_id FROM graphrag.chunks c
     WHERE c.corpus_id = _queue_removals.corpus_id
       AND NOT EXISTS (SELECT FROM graphrag.documents d WHERE d.id = c.document_id)
     ORDER BY c.document_id
        ON CONFLICT (document_id) WHERE document_id IS NOT NULL
        DO UPDATE SET kind = 'remove', state = 'pending', lease = NULL, attempts = 0, errors = 0, next_attempt_at = now(), last_error = NULL, payload = '{}'
     WHERE j.kind = 'index';
    GET DIAGNOSTICS queued = ROW_COUNT;
    DELETE FROM graphrag.jobs j
     WHERE j.corpus_id = _queue_removals.corpus_id AND j.kind = 'index'
       AND NOT EXISTS (SELECT FROM graphrag.documents d WHERE d.id = j.document_id);
    RETURN queued;
END
$$;
REVOKE ALL ON FUNCTION graphrag._queue_removals(int) FROM PUBLIC;
