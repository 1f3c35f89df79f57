-- The first corpus with a number above `beyond` that has a job due in a stage, and does not move; null: none has. Corpora are stepped through by the index,
-- and so are their turns: what is not due yet, however much, is not read.
CREATE FUNCTION graphrag._next_due_corpus(of_stage int, beyond int, alive int[]) RETURNS int
LANGUAGE plpgsql STABLE SET search_path = pg_catalog, pg_temp SET enable_seqscan = off
AS $$
DECLARE
    next_corpus int := beyond;
BEGIN
    LOOP
        next_corpus := (SELECT j.corpus_id
                          FROM graphrag.jobs j
                         WHERE j.stage = of_stage AND j.corpus_id > next_corpus AND j.state <> 'failed'
                         ORDER BY j.corpus_id
                         LIMIT 1);
        EXIT WHEN next_corpus IS NULL
               OR NOT EXISTS (SELECT FROM graphrag.corpora c WHERE c.id = next_corpus AND c.move IS NOT NULL)
              AND EXISTS (SELECT
                            FROM graphrag.jobs j
                           WHERE j.stage = of_stage AND j.corpus_id = next_corpus AND j.turn IN (0, 1, 2, 3) AND j.next_attempt_at <= now()
                             AND j.state <> 'failed'
                             AND (j.state = 'pending' OR j.lease <> ALL (alive)));
    END LOOP;
    RETURN next_corpus;
END
$$;

-- Leases the jobs of one batch, of one kind of work, of a corpus that has jobs due in a stage, and returns them; with no kind, those whose
-- document an open transaction has locked, which come back after retry_seconds.
-- What workers died over alone_from times is tried alone. A batch has at most `most` documents, or most_short where these are short,
-- short_bytes together; or most_rows where they are rows of attached tables without texts, whose cost no text adds to: where one comes first,
-- as many are looked at. Beyond `most` documents, most_short of these rows, or short_bytes, it has no more than half of what is due for each
-- worker, so that one that begins a moment later has its share, and all end at about the same time. What models find is not told by bytes.
-- The claim sets next_attempt_at, so that what a worker died over comes back behind the others. A part of a long document is leased
-- alone, while others may have other parts of it: so it locks the document as they do, shared.
-- Jobs are updated by index: the plan that a session keeps was made for an empty queue.
CREATE FUNCTION graphrag._claim_corpus_jobs(worker int, of_stage int, of_corpus int, alive int[], most int, most_rows int, most_bytes bigint, most_short int, short_bytes bigint, alone_from int, look int, retry_seconds int)
    RETURNS TABLE (id bigint, corpus_id int, kind text, document_id bigint, first_chunk int, last_chunk int, payload jsonb, attempts int, errors int)
LANGUAGE plpgsql VOLATILE SET search_path = pg_catalog, pg_temp SET enable_seqscan = off
AS $$
#variable_conflict use_column
DECLARE
    share int;
BEGIN
    SELECT greatest(count(*) / (2 * greatest(cardinality(alive), 1)), 1)
      INTO share
      FROM (SELECT FROM graphrag.jobs j
             WHERE j.stage = of_stage AND j.corpus_id = of_corpus
               AND j.state = 'pending' AND j.next_attempt_at <= now() AND j.document_id IS NOT NULL
             LIMIT 2 * greatest(cardinality(alive), 1) * greatest(most_short, most_rows)) d;
    most_rows := least(most_rows, greatest(most_short, share));
    most_short := least(most_short, greatest(most, share));
    look := greatest(look, most_short);
    IF EXISTS (SELECT FROM (SELECT j.document_id
                              FROM graphrag.jobs j
                             WHERE j.stage = of_stage AND j.corpus_id = of_corpus AND j.state = 'pending' AND j.next_attempt_at <= now()
                             ORDER BY j.turn, j.next_attempt_at, j.id
                             LIMIT 1) f
                 JOIN graphrag.documents doc ON doc.id = f.document_id
                WHERE graphrag._is_lines(doc.attached_id, doc.content))
    THEN
        look := greatest(look, most_rows);
    END IF;
    RETURN QUERY
    WITH due AS (
        SELECT j.id, j.kind, j.document_id, j.chunks IS NOT NULL AS is_part, j.attempts, j.next_attempt_at, j.turn
          FROM graphrag.jobs j
         WHERE j.stage = of_stage
           AND j.corpus_id = of_corpus
           AND j.state <> 'failed'
           AND j.next_attempt_at <= now()
           AND (j.state = 'pending' OR j.lease <> ALL (alive))
         ORDER BY j.turn, j.next_attempt_at, j.id
         LIMIT look
           FOR UPDATE SKIP LOCKED
    ), free AS MATERIALIZED (
        SELECT doc.id
          FROM graphrag.documents doc
         WHERE doc.id IN (SELECT d.document_id FROM due d WHERE NOT d.is_part)
           FOR NO KEY UPDATE SKIP LOCKED
    ), shared AS MATERIALIZED (
        SELECT doc.id
          FROM graphrag.documents doc
         WHERE doc.id IN (SELECT d.document_id FROM due d WHERE d.is_part)
           FOR SHARE SKIP LOCKED
    ), held AS (
        SELECT d.id
          FROM due d
          JOIN graphrag.documents doc ON doc.id = d.document_id
         WHERE d.kind IN ('index', 'embed', 'graph')
           AND NOT EXISTS (SELECT FROM free f WHERE NOT d.is_part AND f.id = d.document_id)
           AND NOT EXISTS (SELECT FROM shared s WHERE d.is_part AND s.id = d.document_id)
    ), sized AS (
        SELECT d.id, d.kind, d.is_part,
               row_number() OVER same AS place,
               count(*) FILTER (WHERE NOT graphrag._is_lines(doc.attached_id, doc.content)) OVER (same ROWS UNBOUNDED PRECEDING) AS documents,
               max(d.attempts) OVER (same ROWS UNBOUNDED PRECEDING) AS attempts,
               coalesce(sum(octet_length(doc.content)) OVER (same ROWS UNBOUNDED PRECEDING), 0)
                   AS bytes,
               first_value(d.kind) OVER turns AS first_kind,
               first_value(d.is_part) OVER turns AS first_is_part
          FROM due d
          LEFT JOIN graphrag.documents doc ON doc.id = d.document_id AND NOT d.is_part
         WHERE NOT EXISTS (SELECT FROM held h WHERE h.id = d.id)
        WINDOW same AS (PARTITION BY d.kind, d.is_part ORDER BY d.id),
               turns AS (ORDER BY d.turn, d.next_attempt_at, d.id)
    ), postponed AS (
        UPDATE graphrag.jobs j
           SET state = 'pending', lease = NULL, next_attempt_at = now() + retry_seconds * interval '1 second'
         WHERE j.id = ANY (ARRAY(SELECT h.id FROM held h))
        RETURNING j.id
    ), leased AS (
        UPDATE graphrag.jobs j
           SET state = 'leased', lease = _claim_corpus_jobs.worker, attempts = j.attempts + 1, next_attempt_at = now()
         WHERE j.id = ANY (ARRAY(
                   SELECT s.id
                     FROM sized s
                    WHERE s.kind = s.first_kind
                      AND s.is_part = s.first_is_part
                      AND (s.place = 1
                           OR (NOT s.is_part AND s.place <= greatest(most, most_short, most_rows) AND s.bytes <= most_bytes AND s.attempts < alone_from
                               AND (s.documents <= most OR s.documents <= most_short AND s.bytes <= short_bytes)
                               AND (of_stage > 1 OR s.place <= share OR s.bytes <= short_bytes)
                               AND s.kind IN ('index', 'graph', 'remove')))))
        RETURNING j.id, j.corpus_id, j.kind, j.document_id, lower(j.chunks), upper(j.chunks) - 1, j.payload, j.attempts, j.errors
    )
    SELECT l.* FROM leased l
     UNION ALL
    SELECT p.id, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL FROM postponed p;
END
$$;

-- The first of a worker's three transactions: leases the jobs of one batch, of the first stage in which anything is due, and there of the
-- next corpus after after_corpus, which had the last batch; with null, of one that differs from worker to worker. So each corpus has its
-- turn, however much others have, also where a run does few jobs. Nothing is returned where nothing is due, or others are leasing it.
CREATE FUNCTION graphrag._claim_jobs(worker int, after_corpus int, most int, most_rows int, most_bytes bigint, most_short int, short_bytes bigint, alone_from int, look int, retry_seconds int)
    RETURNS TABLE (id bigint, corpus_id int, kind text, document_id bigint, first_chunk int, last_chunk int, payload jsonb, attempts int, errors int)
LANGUAGE plpgsql VOLATILE SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
    alive int[] := ARRAY(SELECT w.worker FROM graphrag._workers w);
    due_corpus int;
    is_wrapped boolean;
BEGIN
    after_corpus := coalesce(after_corpus, worker % (SELECT coalesce(max(c.id), 0) + 1 FROM graphrag.corpora c));
    FOR due_stage IN 1..3 LOOP
        due_corpus := after_corpus;
        is_wrapped := false;
        LOOP
            due_corpus := graphrag._next_due_corpus(due_stage, due_corpus, alive);
            IF due_corpus IS NULL AND NOT is_wrapped THEN
                is_wrapped := true;
                due_corpus := graphrag._next_due_corpus(due_stage, 0, alive);
            END IF;
            EXIT WHEN due_corpus IS NULL OR is_wrapped AND due_corpus > after_corpus;
            RETURN QUERY
            SELECT * FROM graphrag._claim_corpus_jobs(worker, due_stage, due_corpus, alive, most, most_rows, most_bytes, most_short, short_bytes, alone_from, look, retry_seconds);
            IF FOUND THEN
                RETURN;
            END IF;
        END LOOP;
    END LOOP;
END
$$;
