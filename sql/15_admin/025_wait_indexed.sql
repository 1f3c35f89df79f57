-- Each statement sees what workers have committed since the one before. The pause grows with what a look costs, so that waiting
-- takes a tenth of a processor at most.
CREATE FUNCTION graphrag.wait_indexed(corpus text DEFAULT 'default', keys text[] DEFAULT NULL, timeout interval DEFAULT '1 minute')
RETURNS TABLE (indexed bigint, failed bigint, pending bigint)
LANGUAGE plpgsql VOLATILE ROWS 1 SET search_path = pg_catalog, pg_temp
AS $$
#variable_conflict use_column
DECLARE
    deadline CONSTANT timestamptz := clock_timestamp() + timeout;
    this_corpus       int;
    looked_at         timestamptz;
    documents         record;
    missing           text;
BEGIN
    IF timeout IS NULL OR timeout < interval '0' THEN
        RAISE EXCEPTION 'timeout cannot be %', coalesce(timeout::text, 'null')
            USING ERRCODE = 'invalid_parameter_value', HINT = 'Give an interval, such as ''30 seconds''.';
    END IF;
    SELECT c.id INTO this_corpus FROM graphrag.corpora c WHERE c.name = corpus;
    IF NOT FOUND THEN
        PERFORM graphrag._unknown_corpus(corpus);
    END IF;
    SELECT k.key INTO missing
      FROM unnest(keys) k (key)
     WHERE NOT EXISTS (SELECT FROM graphrag.documents d WHERE d.corpus = wait_indexed.corpus AND d.source_key = k.key)
     LIMIT 1;
    IF FOUND THEN
        RAISE EXCEPTION 'corpus "%" has no document "%"', corpus, coalesce(missing, 'null')
            USING ERRCODE = 'no_data_found', HINT = 'Insert it first, and commit; or leave out keys, to wait for all documents.';
    END IF;
    LOOP
        looked_at := clock_timestamp();
        SELECT count(*) FILTER (WHERE d.status = 'indexed') AS indexed, count(*) FILTER (WHERE d.status = 'failed') AS failed,
               count(*) FILTER (WHERE d.status = 'pending') AS pending,
               coalesce(bool_or(d.status = 'pending' AND d.xmin = pg_current_xact_id_if_assigned()::xid), false) AS own
          INTO documents
          FROM graphrag.documents d
         WHERE d.corpus_id = this_corpus AND (keys IS NULL OR d.corpus = wait_indexed.corpus AND d.source_key = ANY (keys));
        EXIT WHEN documents.pending = 0 OR clock_timestamp() >= deadline;
        IF documents.own THEN
            RAISE EXCEPTION 'documents of this transaction cannot be indexed before it commits'
                USING ERRCODE = 'active_sql_transaction', HINT = 'COMMIT, then call wait_indexed().';
        ELSIF current_setting('transaction_isolation') IN ('repeatable read', 'serializable') THEN
            RAISE EXCEPTION 'a transaction that is % does not see what workers commit', upper(current_setting('transaction_isolation'))
                USING ERRCODE = 'active_sql_transaction', HINT = 'Use BEGIN ISOLATION LEVEL READ COMMITTED.';
        END IF;
        PERFORM pg_sleep(least(greatest(0.05, 10 * extract(epoch FROM clock_timestamp() - looked_at)),
                               extract(epoch FROM deadline - clock_timestamp())));
    END LOOP;
    RETURN QUERY SELECT documents.indexed, documents.failed, documents.pending;
END
$$;
COMMENT ON FUNCTION graphrag.wait_indexed(text, text[], interval) IS 'Waits until no document of a corpus, or of some keys of it, is pending, up to a timeout; returns how many are indexed, failed for good, and still pending, among those that the caller sees. Some worker must be at work; while it waits, its statement holds back vacuum: CALL wait_until_indexed() does not. 42704 unknown corpus; P0002 unknown key; 25001 for documents of its own transaction, and if it does not see what others commit; 22023 a bad timeout.';

-- No SET clause: it would forbid the commits. Every look is a transaction of its own, and so is every pause of a second at most, so that
-- no snapshot is older. Nothing but pg_catalog and graphrag is named.
CREATE PROCEDURE graphrag.wait_until_indexed(corpus text DEFAULT 'default', keys text[] DEFAULT NULL, timeout interval DEFAULT '1 minute',
    INOUT indexed bigint DEFAULT NULL, INOUT failed bigint DEFAULT NULL, INOUT pending bigint DEFAULT NULL)
LANGUAGE plpgsql
AS $$
#variable_conflict use_variable
DECLARE
    deadline CONSTANT pg_catalog.timestamptz := pg_catalog.clock_timestamp() OPERATOR(pg_catalog.+) coalesce(timeout, '0'::pg_catalog.interval);
    pause double precision := 0.05;
BEGIN
    IF (timeout OPERATOR(pg_catalog.>=) '0'::pg_catalog.interval) IS NOT TRUE THEN
        PERFORM FROM graphrag.wait_indexed(corpus, keys, timeout);  -- which refuses it
    END IF;
    LOOP
        SELECT w.indexed, w.failed, w.pending INTO indexed, failed, pending FROM graphrag.wait_indexed(corpus, keys, '0') w;
        EXIT WHEN pending OPERATOR(pg_catalog.=) 0 OR pg_catalog.clock_timestamp() OPERATOR(pg_catalog.>=) deadline;
        COMMIT;
        PERFORM pg_catalog.pg_sleep(pause);
        COMMIT;
        pause := least(pause OPERATOR(pg_catalog.*) 1.5, 1.0);
    END LOOP;
END
$$;
COMMENT ON PROCEDURE graphrag.wait_until_indexed(text, text[], interval, bigint, bigint, bigint) IS 'Like wait_indexed(), without holding back vacuum: it commits after each look. CALL it as a statement of its own; 2D000 within a transaction. The application''s client gets indexed, failed and pending as the row of the CALL.';
