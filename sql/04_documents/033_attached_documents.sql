CREATE FUNCTION graphrag._refuse_taken_key(key text, corpus text, attached_id int) RETURNS int
LANGUAGE plpgsql VOLATILE SET search_path = pg_catalog, pg_temp
AS $$
BEGIN
    RAISE EXCEPTION 'document "%" of corpus "%" comes from another table, %', key, corpus,
            (SELECT format('%I.%I', a.schema_name, a.table_name) FROM graphrag.attached_tables a WHERE a.id = attached_id)
        USING ERRCODE = 'unique_violation',
              HINT = 'Attach one of the tables to a corpus of its own, or by a key that differs, for example a unique column '
                     'GENERATED ALWAYS AS (''articles/'' || id) STORED.';
END
$$;
REVOKE ALL ON FUNCTION graphrag._refuse_taken_key(text, text, int) FROM PUBLIC;

-- Writes documents that the owner of an attached table hands over. Those that say the same already are left alone; documents
-- of the corpus that no table owns are taken over.
CREATE FUNCTION graphrag._write_attached(handed graphrag_attached._handover, corpus text) RETURNS void
LANGUAGE plpgsql VOLATILE SET search_path = pg_catalog, pg_temp
AS $$
#variable_conflict use_column
BEGIN
    INSERT INTO graphrag.documents AS d (corpus, source_key, title, content, metadata, attached_id)
    SELECT _write_attached.corpus, u.source_key, u.title, u.content, u.metadata, handed.attached_id
      FROM unnest(handed.source_keys, handed.titles, handed.contents, handed.metadata) u (source_key, title, content, metadata)
        ON CONFLICT (corpus, source_key) DO UPDATE
       SET title = excluded.title, content = excluded.content, metadata = excluded.metadata,
           attached_id = CASE WHEN d.attached_id = handed.attached_id OR d.attached_id IS NULL
                                OR NOT EXISTS (SELECT FROM graphrag.attached_tables a WHERE a.id = d.attached_id)
                              THEN handed.attached_id
                              ELSE graphrag._refuse_taken_key(d.source_key, _write_attached.corpus, d.attached_id) END
     WHERE (d.title, d.content, d.metadata, d.attached_id)
           IS DISTINCT FROM (excluded.title, excluded.content, excluded.metadata, handed.attached_id);
END
$$;
REVOKE ALL ON FUNCTION graphrag._write_attached(graphrag_attached._handover, text) FROM PUBLIC;

-- The keys of a handover that are to be gone on with. Of compare: those whose document is not there or says something else;
-- of list: the next documents of the attachment after the one given; of lock: those whose documents are now locked.
CREATE FUNCTION graphrag._select_attached(handed graphrag_attached._handover, corpus text) RETURNS text[]
LANGUAGE plpgsql VOLATILE SET search_path = pg_catalog, pg_temp
AS $$
#variable_conflict use_column
DECLARE
    selected text[];
BEGIN
    CASE handed.action
        WHEN 'compare' THEN
            SELECT array_agg(u.source_key ORDER BY u.n) INTO selected
              FROM unnest(handed.source_keys, handed.digests) WITH ORDINALITY u (source_key, digest, n)
              LEFT JOIN graphrag.documents d
                -- Not "=": the only index to use here is that of the key, whatever old statistics say.
                ON d.corpus = _select_attached.corpus AND d.source_key = u.source_key AND d.attached_id IS NOT DISTINCT FROM handed.attached_id
             WHERE d.id IS NULL OR graphrag_attached._digest(d.title, d.content, d.metadata) IS DISTINCT FROM u.digest;
        WHEN 'list' THEN
            SELECT array_agg(l.source_key ORDER BY l.source_key) INTO selected
              FROM (SELECT d.source_key
                      FROM graphrag.documents d
                     WHERE d.corpus = _select_attached.corpus AND d.attached_id IS NOT DISTINCT FROM handed.attached_id
                       AND d.source_key > handed.source_keys[1]
                     ORDER BY d.corpus, d.source_key
                     LIMIT 2000) l;
        WHEN 'lock' THEN
            SELECT array_agg(l.source_key) INTO selected
              FROM (SELECT d.source_key
                      FROM graphrag.documents d
                     WHERE d.corpus = _select_attached.corpus AND d.source_key = ANY (handed.source_keys)
                       AND d.attached_id IS NOT DISTINCT FROM handed.attached_id
                       FOR UPDATE SKIP LOCKED) l;
    END CASE;
    RETURN coalesce(selected, '{}');
END
$$;
REVOKE ALL ON FUNCTION graphrag._select_attached(graphrag_attached._handover, text) FROM PUBLIC;

-- Refuses what the owner of a table may not do any more: where he attached it himself he needs level write in the corpus, as for
-- an INSERT into documents; where the extension's owner did, its documents go with her rights.
CREATE FUNCTION graphrag._check_may_feed(attached graphrag.attached_tables, owner name) RETURNS void
LANGUAGE plpgsql STABLE SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
    corpus text;
BEGIN
    IF attached.needs_grant AND NOT graphrag._may_write(owner, attached.corpus_id) THEN
        corpus := (SELECT c.name FROM graphrag.corpora c WHERE c.id = attached.corpus_id);
        RAISE EXCEPTION 'role "%" may no longer write corpus "%", to which table %.% is attached',
                owner, corpus, quote_ident(attached.schema_name), quote_ident(attached.table_name)
            USING ERRCODE = 'insufficient_privilege',
                  HINT = format('The owner of the extension gives it with SELECT graphrag.grant_corpus(%L, %L, ''write''); the owner of the table ends'
                                ' the attachment with SELECT graphrag.detach_table(''%I.%I'', %L).',
                                corpus, owner, attached.schema_name, attached.table_name, corpus);
    END IF;
END
$$;
REVOKE ALL ON FUNCTION graphrag._check_may_feed(graphrag.attached_tables, name) FROM PUBLIC;

-- Does what a handover asks for.
-- SECURITY DEFINER: documents are written with the rights of the extension's owner, for the owner of the attached table alone.
CREATE FUNCTION graphrag._attached_handed_over() RETURNS trigger
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
    attached graphrag.attached_tables;
    t record;
    corpus_name text;
    is_older boolean := current_setting('transaction_isolation') IN ('repeatable read', 'serializable');
    removed bigint;
    missed boolean := false;
BEGIN
    SELECT a.* INTO attached FROM graphrag.attached_tables a WHERE a.id = NEW.attached_id;
    SELECT c.oid, c.relname, n.nspname, c.relowner, p.proowner INTO t
      FROM pg_class c
      JOIN pg_namespace n ON n.oid = c.relnamespace
      JOIN pg_proc p ON p.proname = '_changed_' || attached.id AND p.pronamespace = 'graphrag_attached'::regnamespace
     WHERE c.oid = graphrag_attached._relation(attached) AND c.oid = NEW.relation;
    IF pg_has_role(NEW.caller, CASE NEW.action WHEN 'queue' THEN t.proowner ELSE t.relowner END, 'USAGE') IS NOT TRUE THEN
        RAISE EXCEPTION 'role "%" may not hand over rows of attachment %', NEW.caller, NEW.attached_id
            USING ERRCODE = CASE WHEN is_older THEN 'serialization_failure' ELSE 'insufficient_privilege' END,
                  HINT = CASE WHEN is_older THEN 'Try the transaction again. ' ELSE '' END
                         || 'Only the owner of the attached table may; its triggers do.';
    END IF;
    IF NEW.action NOT IN ('hold', 'queue', 'later') THEN
        PERFORM graphrag._check_may_feed(attached, pg_get_userbyid(t.relowner));
    END IF;
    SELECT c.name INTO corpus_name FROM graphrag.corpora c WHERE c.id = attached.corpus_id;

    CASE NEW.action
        WHEN 'write' THEN
            PERFORM graphrag._write_attached(NEW, corpus_name);
        WHEN 'delete' THEN
            WITH gone AS (
                DELETE FROM graphrag.documents d
                 USING unnest(NEW.source_keys) u (source_key)
                 WHERE d.corpus = corpus_name AND d.source_key = u.source_key AND d.attached_id IS NOT DISTINCT FROM attached.id
                RETURNING d.id
            ) SELECT count(*) INTO removed FROM gone;
            missed := removed < cardinality(NEW.source_keys);
        WHEN 'truncate' THEN
            DELETE FROM graphrag.documents d
             WHERE d.attached_id = attached.id AND d.source_key <> ALL (coalesce(NEW.source_keys, '{}'));
            missed := true;
        WHEN 'compare', 'list', 'lock' THEN
            NEW.source_keys := graphrag._select_attached(NEW, corpus_name);
            RETURN NEW;
        WHEN 'hold' THEN
            PERFORM graphrag._hold_schemas(graphrag_attached._foreign_schemas(t.oid, t.relowner), t.relowner);
        WHEN 'begin' THEN
            DELETE FROM graphrag.jobs j WHERE j.kind = 'attach' AND (j.payload ->> 'attached')::int = attached.id AND j.state <> 'leased';
        WHEN 'later' THEN
            PERFORM graphrag._queue_attached(attached.id, '5 seconds');
        WHEN 'queue' THEN
            -- The table has changed hands: so does the function, made anew. Likewise where its settings are not ours. One session is enough.
            PERFORM FROM graphrag.attached_tables a WHERE a.id = attached.id FOR UPDATE SKIP LOCKED;
            IF FOUND AND (t.proowner <> t.relowner OR NOT graphrag_attached._is_as_made(attached.id)) THEN
                PERFORM graphrag._make_attached_function(attached.id, t.oid);
            END IF;
            PERFORM graphrag._queue_attached(attached.id);
    END CASE;
    IF missed AND is_older THEN
        -- Documents that the backfill wrote after this transaction's snapshot cannot be seen from here.
        PERFORM graphrag._queue_attached(attached.id);
    END IF;
    UPDATE graphrag.attached_tables a
       SET relation = t.oid, schema_name = t.nspname, table_name = t.relname
     WHERE a.id IN (SELECT b.id FROM graphrag.attached_tables b
                     WHERE b.id = attached.id AND (b.relation, b.schema_name, b.table_name) <> (t.oid, t.nspname, t.relname)
                       FOR UPDATE SKIP LOCKED);
    RETURN NEW;
END
$$;
REVOKE ALL ON FUNCTION graphrag._attached_handed_over() FROM PUBLIC;
CREATE TRIGGER attached_handed_over INSTEAD OF INSERT ON graphrag_attached._handover
    FOR EACH ROW EXECUTE FUNCTION graphrag._attached_handed_over();
