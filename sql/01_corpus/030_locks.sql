-- What sessions that write wait for: rows that the owner alone may lock. An advisory lock is open to every user of SQL, who could hold up
-- all workers with it, or play one.
CREATE TABLE graphrag._locks (
    corpus_id int  NOT NULL,
    kind      text NOT NULL,
    forgets   int  NOT NULL DEFAULT 0,
    CONSTRAINT _locks_pkey PRIMARY KEY (corpus_id, kind),
    CONSTRAINT _locks_kind_check CHECK (kind IN ('corpus', 'spaces', 'before spaces', 'batches', 'replies', 'bm25', 'age', 'moves'))
);
COMMENT ON TABLE graphrag._locks IS 'Rows that are locked in the order of _lock_tables(); made on first use, those of replies and moves with their corpus';
COMMENT ON COLUMN graphrag._locks.corpus_id IS 'Corpus; 0: the whole database';
COMMENT ON COLUMN graphrag._locks.forgets IS 'For replies: how many documents forget() has removed from the corpus. A reply to an earlier question is not kept';
COMMENT ON COLUMN graphrag._locks.kind IS 'What the lock orders: corpus (merges), spaces (shared by writers of vectors, exclusive for swaps), before spaces (those who wait for spaces), batches (of requests to models), replies (shared by those who keep a model''s reply, exclusive for forget()), bm25 (optimize), age (closing functions of Apache AGE), moves (shared by writers in an earlier snapshot, written by the mover of the corpus)';

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

-- Whoever asks shares the lock of replies in a transaction of his own, and may leave it open: did he make its row, all others who ask
-- would wait for him. So the row comes with the corpus, as does that of moves, which writers share.
CREATE FUNCTION graphrag._make_locks() RETURNS trigger
LANGUAGE plpgsql VOLATILE SET search_path = pg_catalog, pg_temp
AS $$
BEGIN
    INSERT INTO graphrag._locks (corpus_id, kind) VALUES (NEW.id, 'replies'), (NEW.id, 'moves') ON CONFLICT DO NOTHING;
    RETURN NULL;
END
$$;
COMMENT ON FUNCTION graphrag._make_locks() IS 'Trigger of corpora: makes the locks that are shared by those who ask models, and by writers';
CREATE TRIGGER corpora_added AFTER INSERT ON graphrag.corpora FOR EACH ROW EXECUTE FUNCTION graphrag._make_locks();
ALTER TABLE graphrag.corpora ENABLE ALWAYS TRIGGER corpora_added;
INSERT INTO graphrag._locks (corpus_id, kind) SELECT c.id, k.kind FROM graphrag.corpora c, (VALUES ('replies'), ('moves')) k (kind);

-- A statement of its own reads the number: it sees what was committed while the one before it waited.
CREATE FUNCTION graphrag._hold_replies(corpus_id int) RETURNS int
LANGUAGE plpgsql VOLATILE SET search_path = pg_catalog, pg_temp
AS $$
BEGIN
    PERFORM graphrag._lock(corpus_id, 'replies', true);
    RETURN (SELECT l.forgets FROM graphrag._locks l WHERE l.corpus_id = _hold_replies.corpus_id AND l.kind = 'replies');
END
$$;
COMMENT ON FUNCTION graphrag._hold_replies(int) IS 'Keeps forget() waiting until the transaction ends; returns how many documents it has removed from the corpus';

-- Whoever asked and has not ended his transaction would hold up forget() for as long as he likes.
CREATE FUNCTION graphrag._forget_replies(corpus_id int) RETURNS void
LANGUAGE plpgsql VOLATILE SET search_path = pg_catalog, pg_temp SET lock_timeout = '10s'
AS $$
BEGIN
    PERFORM graphrag._lock(corpus_id, 'replies');
    UPDATE graphrag._locks l SET forgets = l.forgets + 1 WHERE l.corpus_id = _forget_replies.corpus_id AND l.kind = 'replies';
EXCEPTION WHEN lock_not_available THEN
    RAISE EXCEPTION 'a transaction that asked a model is still open, and may keep what it said of the document'
        USING ERRCODE = 'lock_not_available',
              HINT = 'Call forget() again when it has ended: pg_stat_activity shows the oldest by xact_start; pg_terminate_backend() ends it. ROLLBACK PREPARED ends those of pg_prepared_xacts.';
END
$$;
COMMENT ON FUNCTION graphrag._forget_replies(int) IS 'Waits for those who keep a reply, and makes later ones drop replies to earlier questions, once the transaction commits. 55P03 after ten seconds.';

-- Sharers do not queue for a row that others share: who waits for it alone would wait for ever under load. So all pass a gate, which he
-- holds and they let go of at once, by ending a subtransaction.
CREATE FUNCTION graphrag._lock_spaces(corpus_id int, is_shared boolean) RETURNS void
LANGUAGE plpgsql VOLATILE SET search_path = pg_catalog, pg_temp
AS $$
BEGIN
    -- Before it, as in _lock_corpus(): who has documents as a whole may wait for spaces.
    LOCK TABLE graphrag.documents IN ACCESS SHARE MODE;
    PERFORM graphrag._refuse_moved(corpus_id);
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
