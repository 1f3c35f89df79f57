CREATE FUNCTION graphrag.detach_table(source regclass, corpus text DEFAULT NULL, keep_documents boolean DEFAULT true) RETURNS void
LANGUAGE plpgsql VOLATILE SET search_path = pg_catalog, pg_temp
AS $$
BEGIN
    IF num_nulls(source, keep_documents) > 0 THEN
        RAISE EXCEPTION 'detach_table() needs a table, and keep_documents true or false' USING ERRCODE = 'null_value_not_allowed',
            HINT = 'For example SELECT graphrag.detach_table(''articles'');';
    END IF;
    INSERT INTO graphrag._attach_requests (action, source, corpus, keep_documents) VALUES ('detach', source, corpus, keep_documents);
END
$$;
COMMENT ON FUNCTION graphrag.detach_table(regclass, text, boolean) IS
    'Ends attach_table(), attach_entities() and attach_relationships() for one corpus or all: the table''s documents stay unchanged and no longer follow it, or are deleted (keep_documents => false, and always if rows are entities or relationships). For the owner of the table. For a dropped table, use the number in the hint of attached_tables as its name.';

-- Ends one attachment. The table is locked before anything else, as by those who write it: no deadlock with them.
CREATE FUNCTION graphrag._detach(attached_id int, keep_documents boolean) RETURNS void
LANGUAGE plpgsql VOLATILE SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
    source regclass := (SELECT graphrag_attached._relation(a) FROM graphrag._attached_tables a WHERE a.id = attached_id);
    changed text := format('graphrag_attached._changed_%s()', attached_id);
    -- A row's document is for who may read the row; nobody can be asked any more.
    keeps boolean := keep_documents AND (SELECT a.kind = 'documents' FROM graphrag._attached_tables a WHERE a.id = attached_id);
    name text;
    trigger name;
BEGIN
    IF source IS NOT NULL THEN
        name := graphrag._lock_attached(source, 'ACCESS EXCLUSIVE');
        FOR trigger IN
            SELECT t.tgname FROM pg_trigger t
             WHERE t.tgrelid = source AND t.tgparentid = 0 AND t.tgfoid = to_regprocedure(changed)
        LOOP
            EXECUTE format('DROP TRIGGER %I ON %s', trigger, name);
        END LOOP;
    END IF;
    -- CASCADE: its owner can have made triggers of it too.
    EXECUTE format('DROP FUNCTION IF EXISTS %s CASCADE', changed);
    DELETE FROM graphrag._attached_tables a WHERE a.id = attached_id;
    DELETE FROM graphrag._attached_seen x WHERE x.attached_id = _detach.attached_id;
    DELETE FROM graphrag._attached_faults x WHERE x.attached_id = _detach.attached_id;
    DELETE FROM graphrag_attached._replicated x WHERE x.attached_id = _detach.attached_id;
    DELETE FROM graphrag.jobs j WHERE j.kind = 'attach' AND (j.payload ->> 'attached')::int = attached_id;
    IF NOT keeps THEN
        DELETE FROM graphrag.documents d WHERE d.attached_id = _detach.attached_id;
    END IF;
END
$$;

-- Ends every attachment of a corpus, or of all corpora; for drop_corpus() and uninstall().
CREATE FUNCTION graphrag._detach_all(corpus_id int) RETURNS void
LANGUAGE sql VOLATILE SET search_path = pg_catalog, pg_temp
BEGIN ATOMIC
    SELECT graphrag._detach(a.id, true)
      FROM graphrag._attached_tables a
     WHERE _detach_all.corpus_id IS NULL OR a.corpus_id = _detach_all.corpus_id
     ORDER BY a.id;
END;
