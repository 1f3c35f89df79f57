-- What sessions that write wait for: rows that the owner alone may lock. An advisory lock is open to every user of SQL, who could hold up
-- all workers with it, or play one.
CREATE TABLE graphrag._locks (
    corpus_id int  NOT NULL,
    kind      text NOT NULL,
    CONSTRAINT _locks_pkey PRIMARY KEY (corpus_id, kind),
    CONSTRAINT _locks_kind_check CHECK (kind IN ('corpus', 'spaces', 'before spaces', 'batches', 'bm25', 'age'))
);
COMMENT ON TABLE graphrag._locks IS 'Rows that are locked in the order of _lock_tables(); made when they are first wanted';
COMMENT ON COLUMN graphrag._locks.corpus_id IS 'Corpus; 0: of the whole database';
COMMENT ON COLUMN graphrag._locks.kind IS 'What the lock orders: corpus (merges), spaces (writers of vectors, who share it, and swaps), before spaces (who waits for spaces), batches (of requests to models), bm25 (optimize), age (closing functions of Apache AGE)';

CREATE FUNCTION graphrag._lock(corpus_id int, kind text, is_shared boolean DEFAULT false) RETURNS void
LANGUAGE plpgsql VOLATILE SET search_path = pg_catalog, pg_temp
AS $$
BEGIN
    FOR attempt IN 1..2 LOOP
        IF is_shared THEN
            PERFORM FROM graphrag._locks l WHERE l.corpus_id = _lock.corpus_id AND l.kind = _lock.kind FOR SHARE;
        ELSE
            PERFORM FROM graphrag._locks l WHERE l.corpus_id = _lock.corpus_id AND l.kind = _lock.kind FOR UPDATE;
        END IF;
        EXIT WHEN FOUND;
        INSERT INTO graphrag._locks (corpus_id, kind) VALUES (_lock.corpus_id, _lock.kind) ON CONFLICT DO NOTHING;
    END LOOP;
END
$$;
COMMENT ON FUNCTION graphrag._lock(int, text, boolean) IS 'Waits for a lock of a corpus, and holds it until the transaction ends';

-- Sharers do not queue for a row that others share: who waits for it alone would wait for ever under load. So all pass a gate, which he
-- holds and they let go of at once, by ending a subtransaction.
CREATE FUNCTION graphrag._lock_spaces(corpus_id int, is_shared boolean) RETURNS void
LANGUAGE plpgsql VOLATILE SET search_path = pg_catalog, pg_temp
AS $$
BEGIN
    IF is_shared THEN
        BEGIN
            PERFORM graphrag._lock(corpus_id, 'before spaces', true);
            RAISE EXCEPTION USING ERRCODE = 'GR001';
        EXCEPTION WHEN SQLSTATE 'GR001' THEN
            NULL;
        END;
    ELSE
        PERFORM graphrag._lock(corpus_id, 'before spaces');
    END IF;
    PERFORM graphrag._lock(corpus_id, 'spaces', is_shared);
END
$$;
COMMENT ON FUNCTION graphrag._lock_spaces(int, boolean) IS 'Keeps the active space of a corpus until the transaction ends (shared), or waits for all who keep it (not shared)';
