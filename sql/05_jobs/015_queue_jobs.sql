-- The writers of the queue: every job that is to be done comes by one of these three, so that what keeps a job the only one of its
-- kind, and what a new one begins with, are written once. Jobs of documents have a document, or a part of one, each; the others of a
-- corpus stand alone. (index/indexing/outcomes.py writes the dead letter of a document that is indexed.)

-- Queues jobs. Where there is one already it stays as it is, leased, failed or in its back-off. Returns how many are new.
CREATE FUNCTION graphrag._queue_jobs(kind text, corpus_ids int[], document_ids bigint[] DEFAULT NULL, next_attempt_at timestamptz DEFAULT now(), payload jsonb DEFAULT '{}', last_error text DEFAULT NULL) RETURNS bigint
LANGUAGE plpgsql VOLATILE SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
    queued bigint;
BEGIN
    INSERT INTO graphrag.jobs (corpus_id, kind, document_id, next_attempt_at, payload, last_error)
    SELECT u.corpus_id, _queue_jobs.kind, u.document_id, _queue_jobs.next_attempt_at, _queue_jobs.payload, _queue_jobs.last_error
      FROM unnest(corpus_ids, document_ids) AS u (corpus_id, document_id)
     ORDER BY u.document_id, u.corpus_id
        ON CONFLICT DO NOTHING;
    GET DIAGNOSTICS queued = ROW_COUNT;
    RETURN queued;
END
$$;

-- Queues jobs that begin anew: one that waits, is leased or failed is superseded, and its worker's lease void; so are the parts of a
-- document. Rows are locked in one order. What a job begins with are the defaults of its columns. Returns how many.
-- By index alone: the plan that a session keeps was made for an empty queue.
CREATE FUNCTION graphrag._requeue_jobs(kind text, corpus_ids int[], document_ids bigint[] DEFAULT NULL) RETURNS bigint
LANGUAGE plpgsql VOLATILE SET search_path = pg_catalog, pg_temp SET enable_seqscan = off
AS $$
#variable_conflict use_column
DECLARE
    queued bigint;
BEGIN
    IF document_ids IS NOT NULL THEN
        -- Who changes the same documents waits for their rows before: no order is needed here.
        DELETE FROM graphrag.jobs j WHERE j.chunks IS NOT NULL AND j.document_id = ANY (_requeue_jobs.document_ids);
        INSERT INTO graphrag.jobs (corpus_id, kind, document_id)
        SELECT u.corpus_id, _requeue_jobs.kind, u.document_id
          FROM unnest(corpus_ids, document_ids) AS u (corpus_id, document_id)
         ORDER BY u.document_id
            ON CONFLICT (document_id) WHERE document_id IS NOT NULL AND chunks IS NULL
            DO UPDATE SET (kind, state, lease, attempts, errors, next_attempt_at, last_error, payload)
                        = (EXCLUDED.kind, EXCLUDED.state, EXCLUDED.lease, EXCLUDED.attempts, EXCLUDED.errors,
                           EXCLUDED.next_attempt_at, EXCLUDED.last_error,
                           -- Until this one writes the text, the index has what the removal would have taken out.
                           CASE WHEN EXCLUDED.kind = 'index' AND (jobs.kind = 'remove' OR jobs.payload ? 'removes')
                                THEN '{"removes": true}' ELSE EXCLUDED.payload END);
    ELSE
        INSERT INTO graphrag.jobs (corpus_id, kind)
        SELECT u.corpus_id, _requeue_jobs.kind FROM unnest(corpus_ids) AS u (corpus_id) ORDER BY u.corpus_id
            ON CONFLICT (corpus_id, kind) WHERE document_id IS NULL AND kind <> 'attach'
            DO UPDATE SET (state, lease, attempts, errors, next_attempt_at, last_error, payload)
                        = (EXCLUDED.state, EXCLUDED.lease, EXCLUDED.attempts, EXCLUDED.errors,
                           EXCLUDED.next_attempt_at, EXCLUDED.last_error, EXCLUDED.payload);
    END IF;
    GET DIAGNOSTICS queued = ROW_COUNT;
    -- A hint for workers that LISTEN. Off unless ALTER DATABASE … SET graphrag.notify = on: a NOTIFY breaks the application's
    -- PREPARE TRANSACTION, and workers poll anyway.
    IF current_setting('graphrag.notify', true) = 'on' AND graphrag._may_notify(0) THEN
        PERFORM pg_notify('graphrag_jobs', '');
    END IF;
    RETURN queued;
END
$$;

-- Queues what is left to do of a long document whose text is written: jobs of a kind, each for a range of chunks. Those there are stay:
-- a dead letter of the whole may be tried again before its parts are done.
CREATE FUNCTION graphrag._queue_parts(kind text, corpus_id int, document_id bigint, parts int4range[]) RETURNS void
LANGUAGE sql VOLATILE
BEGIN ATOMIC
    INSERT INTO graphrag.jobs (corpus_id, kind, document_id, chunks)
    SELECT _queue_parts.corpus_id, _queue_parts.kind, _queue_parts.document_id, p.chunks
      FROM pg_catalog.unnest(parts) WITH ORDINALITY AS p (chunks, place)
     ORDER BY p.place
        ON CONFLICT DO NOTHING;
END;
