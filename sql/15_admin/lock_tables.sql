-- The order of locks, for whatever takes several: the row of corpora (FOR NO KEY UPDATE), the grants (_lock_grants), the table documents as a whole, rows of documents in the order of
-- their ids, rows of their pictures (which go with new content, under the lock of the document), the locks of a corpus (_locks: before spaces, spaces, corpus, bm25; batches and age are held alone), its graph's tables, jobs.
-- Tables as a whole are taken in short tries: who waits for such a lock makes everybody after him wait too, and who waits less
-- than deadlock_timeout never ends anybody. Now and then a longer one, by which autovacuum gives way.
CREATE FUNCTION graphrag._lock_tables(VARIADIC tables regclass[]) RETURNS void
LANGUAGE plpgsql VOLATILE SET search_path = pg_catalog, pg_temp SET lock_timeout = '200ms'
AS $$
DECLARE
    names CONSTANT text := array_to_string(tables, ', ');
BEGIN
    IF cardinality(tables) = 0 THEN
        RETURN;
    END IF;
    FOR attempt IN 1..24 LOOP
        BEGIN
            PERFORM set_config('lock_timeout', CASE WHEN attempt % 8 = 0 THEN '1100ms' ELSE '200ms' END, true);
            EXECUTE format('LOCK TABLE %s IN ACCESS EXCLUSIVE MODE', names);
            RETURN;
        EXCEPTION WHEN lock_not_available OR deadlock_detected THEN
            PERFORM pg_sleep(0.1 + 0.2 * random());
        END;
    END LOOP;
    RAISE EXCEPTION 'others do not let go of %', names
        USING ERRCODE = 'lock_not_available',
              HINT = 'A transaction holds a lock since seconds; pg_blocking_pids() and pg_stat_activity say which, pg_prepared_xacts which is prepared. Try again when it has ended.';
END
$$;
COMMENT ON FUNCTION graphrag._lock_tables(regclass[]) IS 'Locks tables exclusively, in short tries; 55P03 after some seconds';

-- Rows of documents: all or none, so that it never waits while it holds some. Their holders may wait for us.
CREATE FUNCTION graphrag._lock_rows(document_ids bigint[]) RETURNS void
LANGUAGE plpgsql VOLATILE SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
    others bigint;
BEGIN
    FOR attempt IN 1..24 LOOP
        BEGIN
            SELECT count(*) INTO others
              FROM graphrag.documents d
             WHERE d.id = ANY (document_ids)
               AND d.id NOT IN (SELECT x.id FROM graphrag.documents x WHERE x.id = ANY (document_ids) ORDER BY x.id FOR NO KEY UPDATE SKIP LOCKED);
            IF others = 0 THEN
                RETURN;
            END IF;
            RAISE lock_not_available;   -- lets go of the rows
        EXCEPTION WHEN lock_not_available THEN
            NULL;
        END;
        PERFORM pg_sleep(0.2);
    END LOOP;
    RAISE EXCEPTION 'others are changing % of the documents to repair', others
        USING ERRCODE = 'lock_not_available', HINT = 'Try again when their transactions, or the workers'' batches, have ended.';
END
$$;
COMMENT ON FUNCTION graphrag._lock_rows(bigint[]) IS 'Locks documents against changes; 55P03 if others hold some of them for seconds';

-- All that writes to a corpus, for who drops it, or has all of it indexed anew. Its documents' writers may hold what comes later in the order, as a transaction that
-- inserts one and then changes another does: so it lets go of everything, and tries again, before anybody is ended by a deadlock.
CREATE FUNCTION graphrag._lock_writers_out(corpus_id int, is_dropped boolean) RETURNS void
LANGUAGE plpgsql VOLATILE SET search_path = pg_catalog, pg_temp SET lock_timeout = '250ms'
AS $$
BEGIN
    FOR attempt IN 1..96 LOOP
        BEGIN
            PERFORM FROM graphrag.documents d WHERE d.corpus_id = _lock_writers_out.corpus_id ORDER BY d.id FOR UPDATE;
            PERFORM graphrag._lock_spaces(corpus_id, false);
            PERFORM graphrag._lock_corpus(corpus_id);
            PERFORM graphrag._bm25_lock(corpus_id);
            IF is_dropped THEN
                -- Who inserts a document now waits, and finds no corpus; what others inserted is deleted with the rest. Replies first: who
                -- asked a model, or gave a verdict, has them in that order.
                PERFORM graphrag._lock(corpus_id, 'replies');
                PERFORM FROM graphrag.corpora c WHERE c.id = corpus_id FOR UPDATE;
            END IF;
            RETURN;
        EXCEPTION WHEN lock_not_available THEN
            NULL;
        END;
        PERFORM pg_sleep((0.25 + 0.25 * random()) * extract(epoch FROM current_setting('lock_timeout')::interval));
    END LOOP;
    RAISE EXCEPTION 'others do not let go of the corpus'
        USING ERRCODE = 'lock_not_available',
              HINT = 'A transaction writes to it since seconds; pg_blocking_pids() and pg_stat_activity say which, pg_prepared_xacts which is prepared. Try again when it has ended.';
END
$$;
COMMENT ON FUNCTION graphrag._lock_writers_out(int, boolean) IS 'Keeps all writers of a corpus out until the transaction ends, in short tries; 55P03 after half a minute';
