CREATE FUNCTION graphrag.retry_failed(corpus text DEFAULT NULL) RETURNS bigint
LANGUAGE plpgsql VOLATILE SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
    retried bigint;
BEGIN
    IF corpus IS NOT NULL AND NOT EXISTS (SELECT FROM graphrag.corpora c WHERE c.name = retry_failed.corpus) THEN
        PERFORM graphrag._unknown_corpus(corpus);
    END IF;
    PERFORM graphrag._say_moved(c.name, c.move) FROM graphrag.corpora c WHERE c.name = retry_failed.corpus AND c.move IS NOT NULL;
    -- Documents before their pictures: lock_tables.sql.
    PERFORM FROM graphrag.documents d
      WHERE d.id IN (SELECT p.document_id
                       FROM graphrag.pictures p
                       JOIN graphrag.corpora c ON c.id = p.corpus_id
                      WHERE c.move IS NULL AND (retry_failed.corpus IS NULL OR c.name = retry_failed.corpus) AND p.error IS NOT NULL)
      ORDER BY d.id FOR NO KEY UPDATE;
    -- Breakers are closed for all: a provider serves any corpus.
    DELETE FROM graphrag.provider_state;
    UPDATE graphrag.llm_batches b SET next_poll_at = now() WHERE b.next_poll_at > now();
    -- What was answered badly is asked again.
    DELETE FROM graphrag.llm_batch_requests r
     USING graphrag.corpora c
     WHERE c.id = r.corpus_id AND c.move IS NULL AND (retry_failed.corpus IS NULL OR c.name = retry_failed.corpus) AND r.state = 'spoiled';
    WITH cleared AS (
        UPDATE graphrag.pictures p SET error = NULL
          FROM graphrag.corpora c
         WHERE c.id = p.corpus_id AND c.move IS NULL AND (retry_failed.corpus IS NULL OR c.name = retry_failed.corpus) AND p.error IS NOT NULL
        RETURNING p.corpus_id)
    SELECT graphrag._queue_jobs('describe', array_agg(DISTINCT x.corpus_id)) INTO retried FROM cleared x;
    WITH queued AS (
        UPDATE graphrag.jobs j
           SET state = 'pending', attempts = 0, errors = 0, next_attempt_at = now(), payload = j.payload - '{faults,timeouts,unembeddable,skipped}'::text[]
          FROM graphrag.corpora c
         WHERE c.id = j.corpus_id
           AND c.move IS NULL AND (retry_failed.corpus IS NULL OR c.name = retry_failed.corpus)
           AND (j.state = 'failed' OR j.state = 'pending' AND j.next_attempt_at > now())
        RETURNING j.document_id
    ), documents AS (
        UPDATE graphrag.documents d SET status = 'pending', error = NULL
          FROM queued q WHERE d.id = q.document_id AND d.status = 'failed'
    )
    SELECT count(*) INTO retried FROM queued;
    RETURN retried;
END
$$;
COMMENT ON FUNCTION graphrag.retry_failed(text) IS 'Queues dead letters again and ends the back-off of waiting jobs, of one corpus or of all (null); failed providers are asked again at once; returns how many jobs';
