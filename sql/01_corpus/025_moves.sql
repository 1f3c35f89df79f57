-- A corpus that moves to another database is written by nobody in its last seconds here, read by nobody once it is there, and neither
-- read nor written there before. `corpora.move` says which. Whoever moves it takes the mark off in his own transactions.

-- Says where a corpus is, by its mark.
CREATE FUNCTION graphrag._say_moved(corpus text, move jsonb) RETURNS void
LANGUAGE plpgsql STABLE SET search_path = pg_catalog, pg_temp
AS $$
BEGIN
    CASE move ->> 'state'
    WHEN 'moved' THEN
        -- A node that clients follow.
        PERFORM graphrag._unknown_corpus(corpus) FROM graphrag._placed(corpus) p WHERE p.node IS NOT NULL;
        RAISE EXCEPTION 'corpus "%" is at %', corpus, move ->> 'place'
            USING ERRCODE = 'undefined_object', HINT = 'Connect to that database. What is still here of it goes with graphrag.drop_corpus().';
    WHEN 'arriving' THEN
        RAISE EXCEPTION 'corpus "%" is still arriving from %', corpus, move ->> 'place'
            USING ERRCODE = 'object_not_in_prerequisite_state', HINT = 'It is read and written there until pg-graphrag move has ended; the command repeated goes on.';
    ELSE
        RAISE EXCEPTION 'corpus "%" is moving to %', corpus, move ->> 'place'
            USING ERRCODE = 'read_only_sql_transaction', HINT = 'It is only read for some seconds. Try again: then it is written there, or here where the move was undone.';
    END CASE;
END
$$;
COMMENT ON FUNCTION graphrag._say_moved(text, jsonb) IS 'Raises that a corpus has moved (42704), is arriving (55000) or is moving (25006), with the place';

-- A restore brings the marks first, and then writes the rows: the marks are in force from repair() on.
CREATE FUNCTION graphrag._move_restored() RETURNS trigger
LANGUAGE plpgsql VOLATILE SET search_path = pg_catalog, pg_temp
AS $$
BEGIN
    NEW.move := NEW.move || '{"is_restored": true}';
    RETURN NEW;
END
$$;
COMMENT ON FUNCTION graphrag._move_restored() IS 'Trigger of corpora: a restored mark of a move does not keep the rest of the restore from writing';
CREATE TRIGGER corpora_move_restored BEFORE INSERT ON graphrag.corpora FOR EACH ROW
    WHEN (NEW.move IS NOT NULL) EXECUTE FUNCTION graphrag._move_restored();

-- Whoever writes anything of a corpus comes here, before or after he writes: who moves it waits for those who were here, and those who
-- come later see the mark. A snapshot of before does not see it, but fails at a row that was written since (40001).
CREATE FUNCTION graphrag._refuse_moved(VARIADIC corpus_ids int[]) RETURNS void
LANGUAGE plpgsql VOLATILE SET search_path = pg_catalog, pg_temp
AS $$
BEGIN
    -- Refused at once, not behind who waits for the row.
    PERFORM graphrag._say_moved(c.name, c.move) FROM graphrag.corpora c WHERE c.id = ANY (corpus_ids) AND NOT c.move ? 'is_restored';
    IF current_setting('transaction_isolation') IN ('read committed', 'read uncommitted') THEN
        -- The row that is locked may be of before the mark, which changes no key: a statement of its own sees what has come meanwhile.
        PERFORM FROM graphrag.corpora c WHERE c.id = ANY (corpus_ids) ORDER BY c.id FOR KEY SHARE;
        PERFORM graphrag._say_moved(c.name, c.move) FROM graphrag.corpora c WHERE c.id = ANY (corpus_ids) AND NOT c.move ? 'is_restored';
    ELSE
        PERFORM graphrag._lock(x.corpus_id, 'moves', true) FROM (SELECT unnest(corpus_ids) AS corpus_id ORDER BY 1) x;
    END IF;
END
$$;
COMMENT ON FUNCTION graphrag._refuse_moved(int[]) IS 'Keeps corpora in this database until the transaction ends; raises if one is moving or has moved';

-- The same for what is noted beside a search or an answer, which go on.
CREATE FUNCTION graphrag._may_note(corpus_id int) RETURNS boolean
LANGUAGE plpgsql VOLATILE SET search_path = pg_catalog, pg_temp
AS $$
BEGIN
    PERFORM graphrag._refuse_moved(corpus_id);
    RETURN true;
EXCEPTION WHEN read_only_sql_transaction OR undefined_object OR object_not_in_prerequisite_state OR serialization_failure THEN
    RETURN false;
END
$$;
COMMENT ON FUNCTION graphrag._may_note(int) IS 'Whether requests about a corpus may be logged: not while it moves';

-- What decides how a corpus is read and written stays as it is while it moves.
CREATE FUNCTION graphrag._corpora_moving() RETURNS trigger
LANGUAGE plpgsql VOLATILE SET search_path = pg_catalog, pg_temp
AS $$
BEGIN
    PERFORM graphrag._say_moved(OLD.name, OLD.move);
    RETURN NULL;
END
$$;
COMMENT ON FUNCTION graphrag._corpora_moving() IS 'Trigger of corpora: forbids changes of a corpus that moves';
CREATE TRIGGER corpora_moving BEFORE UPDATE ON graphrag.corpora FOR EACH ROW
    WHEN (OLD.move IS NOT NULL AND NEW.move IS NOT DISTINCT FROM OLD.move) EXECUTE FUNCTION graphrag._corpora_moving();
