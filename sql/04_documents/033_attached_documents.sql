-- Why documents of an attachment do not follow its rows; returns whether nobody said so before.
CREATE FUNCTION graphrag._record_fault(attached_id int, error_code text, message text, hint text, needs_pass boolean) RETURNS boolean
LANGUAGE sql VOLATILE SET search_path = pg_catalog, pg_temp
BEGIN ATOMIC
    WITH recorded AS (
        INSERT INTO graphrag._attached_faults (attached_id, error_code, message, hint, needs_pass)
        SELECT _record_fault.attached_id, left(_record_fault.error_code, 5), left(_record_fault.message, 2000), left(_record_fault.hint, 2000),
               _record_fault.needs_pass
         WHERE NOT EXISTS (SELECT FROM graphrag._attached_faults f
                            WHERE f.attached_id = _record_fault.attached_id AND f.message = left(_record_fault.message, 2000)
                              AND f.needs_pass = _record_fault.needs_pass)
        RETURNING true AS is_new)
    SELECT EXISTS (SELECT FROM recorded);
END;

-- Writes documents that the owner of an attached table hands over. Those that say the same already are left alone; documents
-- of the corpus that no table owns are taken over. Rows that can be no documents are left out, and said.
CREATE FUNCTION graphrag._write_attached(handed graphrag_attached._handover, corpus text) RETURNS void
LANGUAGE plpgsql VOLATILE SET search_path = pg_catalog, pg_temp
AS $$
#variable_conflict use_column
DECLARE
    refused record;
BEGIN
    FOR refused IN
        SELECT r.error_code, min(r.message) AS message, r.hint
          FROM unnest(handed.source_keys, handed.valid_from, handed.valid_to) u (source_key, valid_from, valid_to)
          LEFT JOIN LATERAL (SELECT x.attached_id FROM graphrag.documents x
                              WHERE x.corpus = _write_attached.corpus AND x.source_key = u.source_key AND x.attached_id <> handed.attached_id OFFSET 0) d ON true
          LEFT JOIN graphrag._attached_tables a ON a.id = d.attached_id
         CROSS JOIN LATERAL (
               SELECT '23514' AS error_code, format('the key "%s" of a row cannot name a document: it has %s bytes', left(u.source_key, 100), octet_length(u.source_key)) AS message,
                      'graphrag.documents.source_key takes 1 to 2000 bytes. Change the key, and call graphrag.backfill_table().' AS hint
                WHERE octet_length(u.source_key) NOT BETWEEN 1 AND 2000
                UNION ALL
               SELECT '23514', format('the row of the key "%s" is valid to a time before it is valid from', left(u.source_key, 100)),
                      'Mend the dates of the row, and call graphrag.backfill_table().'
                WHERE u.valid_from > u.valid_to
                UNION ALL
               SELECT '23505', format('document "%s" of corpus "%s" comes from another table, %I.%I', left(u.source_key, 100), _write_attached.corpus, a.schema_name, a.table_name),
                      'Attach one of the tables with options => ''{"key_prefix": "articles/"}'', or to a corpus of its own; then call graphrag.backfill_table().'
                WHERE a.id IS NOT NULL) r
         GROUP BY r.error_code, r.hint
         ORDER BY r.error_code, r.hint
    LOOP
        IF graphrag._record_fault(handed.attached_id, refused.error_code, refused.message, refused.hint, false) THEN
            RAISE WARNING '%', refused.message USING ERRCODE = refused.error_code, HINT = refused.hint;
        END IF;
    END LOOP;
    INSERT INTO graphrag.documents AS d (corpus, source_key, title, content, metadata, valid_from, valid_to, attached_id)
    SELECT _write_attached.corpus, u.source_key, u.title, u.content, u.metadata, u.valid_from, u.valid_to, handed.attached_id
      FROM unnest(handed.source_keys, handed.titles, handed.contents, handed.metadata, handed.valid_from, handed.valid_to)
           u (source_key, title, content, metadata, valid_from, valid_to)
     WHERE octet_length(u.source_key) BETWEEN 1 AND 2000 AND (u.valid_from > u.valid_to) IS NOT TRUE
        ON CONFLICT (corpus, source_key) DO UPDATE
       SET title = excluded.title, content = excluded.content, metadata = excluded.metadata,
           valid_from = excluded.valid_from, valid_to = excluded.valid_to, attached_id = handed.attached_id
     WHERE (d.attached_id = handed.attached_id OR d.attached_id IS NULL
            OR NOT EXISTS (SELECT FROM graphrag._attached_tables a WHERE a.id = d.attached_id))
       AND (d.title, d.content, d.metadata, d.valid_from, d.valid_to, d.attached_id)
           IS DISTINCT FROM (excluded.title, excluded.content, excluded.metadata, excluded.valid_from, excluded.valid_to, handed.attached_id);
END
$$;

-- Deletes documents of an attachment by their keys; returns how many there were.
CREATE FUNCTION graphrag._delete_attached(attached_id int, corpus text, source_keys text[]) RETURNS bigint
LANGUAGE plpgsql VOLATILE SET search_path = pg_catalog, pg_temp
AS $$
#variable_conflict use_column
DECLARE
    removed bigint;
BEGIN
    DELETE FROM graphrag.documents d
     WHERE d.id = ANY (ARRAY(SELECT x.id
                               FROM unnest(_delete_attached.source_keys) u (source_key)
                              CROSS JOIN LATERAL (SELECT k.id FROM graphrag.documents k
                                                   WHERE k.corpus = _delete_attached.corpus AND k.source_key = u.source_key
                                                     AND k.attached_id IS NOT DISTINCT FROM _delete_attached.attached_id OFFSET 0) x))
       AND d.attached_id IS NOT DISTINCT FROM _delete_attached.attached_id;
    GET DIAGNOSTICS removed = ROW_COUNT;
    RETURN removed;
END
$$;

-- The keys of a handover that are to be gone on with. LATERAL and OFFSET 0 find each document by its key: statistics of a table that was
-- empty a moment ago would have each key compared with all documents. Not "=" for attached_id: the only index to use is that of the key.
-- Of compare: those whose document is not there or says something else;
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
              LEFT JOIN LATERAL (SELECT x.* FROM graphrag.documents x
                                  WHERE x.corpus = _select_attached.corpus AND x.source_key = u.source_key
                                    AND x.attached_id IS NOT DISTINCT FROM handed.attached_id OFFSET 0) d ON true
             WHERE d.id IS NULL OR graphrag_attached._digest(d.title, d.content, d.metadata, d.valid_from, d.valid_to) IS DISTINCT FROM u.digest;
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

-- Refuses what the owner of a table may not do any more: where he attached it himself he needs level write in the corpus, as for
-- an INSERT into documents; where the extension's owner did, its documents go with her rights.
CREATE FUNCTION graphrag._check_may_feed(attached graphrag._attached_tables, owner name) RETURNS void
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

-- Values of the enumerations that types are made of, each with its number, in order.
CREATE FUNCTION graphrag_attached._labels(types oid[]) RETURNS text[]
LANGUAGE plpgsql STABLE SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
    first_of_users CONSTANT oid := 16384;
BEGIN
    -- Every statement on an attached table comes here.
    IF (SELECT max(u.id) FROM unnest(types) u (id)) >= first_of_users IS NOT TRUE THEN
        RETURN '{}';
    END IF;
    RETURN ARRAY(
        WITH RECURSIVE parts (id) AS (
            SELECT u.id FROM unnest(types) u (id) WHERE u.id >= first_of_users
             UNION
            -- Under domains, arrays, composite types, ranges and multiranges.
            SELECT o.id
              FROM parts p
              JOIN pg_type y ON y.oid = p.id
             CROSS JOIN LATERAL (
                   SELECT y.typbasetype AS id
                    UNION ALL
                   SELECT y.typelem
                    UNION ALL
                   SELECT a.atttypid FROM pg_attribute a WHERE a.attrelid = y.typrelid AND a.attnum > 0 AND NOT a.attisdropped
                    UNION ALL
                   SELECT r.rngsubtype FROM pg_range r WHERE y.oid IN (r.rngtypid, r.rngmultitypid)) o
             WHERE o.id >= first_of_users
        )
        SELECT format('%s %s', e.oid, e.enumlabel) FROM parts p JOIN pg_enum e ON e.enumtypid = p.id ORDER BY e.oid);
END
$$;

-- Remembers what an attached table is called and what its columns are, for a dump and for the next look. A column that has another
-- number or type now, or whose enumeration has another value, has other values: a pass through the table brings the documents up to date.
CREATE FUNCTION graphrag._see_attached(attached_id int) RETURNS void
LANGUAGE plpgsql VOLATILE SET search_path = pg_catalog, pg_temp
AS $$
#variable_conflict use_column
DECLARE
    v graphrag_attached._attachments;
    a graphrag._attached_tables;
    before graphrag._attached_seen;
    now graphrag._attached_seen;
BEGIN
    SELECT x.* INTO v FROM graphrag_attached._attachments x WHERE x.id = _see_attached.attached_id;
    IF NOT FOUND THEN
        RETURN;
    END IF;
    SELECT x.* INTO a FROM graphrag._attached_tables x WHERE x.id = v.id;
    SELECT x.* INTO before FROM graphrag._attached_seen x WHERE x.attached_id = v.id;
    SELECT v.id, v.relation, v.owner, coalesce(array_agg(k.attname ORDER BY k.attnum), '{}'), coalesce(array_agg(k.attnum ORDER BY k.attnum), '{}'),
           coalesce(array_agg(k.atttypid ORDER BY k.attnum), '{}'), graphrag_attached._under(v.relation),
           graphrag_attached._labels(array_agg(k.atttypid))
      INTO now
      FROM pg_attribute k
     WHERE k.attrelid = v.relation AND k.attnum > 0 AND NOT k.attisdropped
       AND k.attname = ANY (ARRAY[v.title_column, v.where_column, v.valid_from_column, v.valid_to_column]
                            || graphrag_attached._listed_columns(v));
    IF now IS DISTINCT FROM before THEN
        -- Nobody waits here, and a transaction with an old snapshot does not fail: whoever looks next will see it.
        PERFORM FROM graphrag._attached_tables x WHERE x.id = v.id FOR UPDATE SKIP LOCKED;
        IF NOT FOUND THEN
            RETURN;
        END IF;
        IF before.attached_id IS NULL THEN
            INSERT INTO graphrag._attached_seen SELECT now.* ON CONFLICT DO NOTHING;
        ELSE
            PERFORM FROM graphrag._attached_seen x WHERE x.attached_id = v.id FOR UPDATE SKIP LOCKED;
            IF NOT FOUND THEN
                RETURN;
            END IF;
            UPDATE graphrag._attached_seen x
               SET relation = now.relation, owner = now.owner, names = now.names, numbers = now.numbers, types = now.types,
                   partitions = now.partitions, labels = now.labels
             WHERE x.attached_id = v.id;
            -- Rows of partitions that are gone are gone. Those of new ones: _follow_partitions(). No row has a label that is new.
            IF (now.numbers, now.types) IS DISTINCT FROM (before.numbers, before.types) OR NOT before.partitions <@ now.partitions
                OR NOT before.labels <@ now.labels THEN
                PERFORM graphrag._queue_attached(v.id);
            END IF;
        END IF;
    END IF;
    IF (a.relation, a.schema_name, a.table_name, a.key_columns, a.content_columns, a.title_column, a.metadata_columns, a.where_column,
        a.valid_from_column, a.valid_to_column, a.alias_columns, a.reference_columns)
       IS DISTINCT FROM
       (v.relation, v.schema_name, v.table_name, v.key_columns, v.content_columns, v.title_column, v.metadata_columns, v.where_column,
        v.valid_from_column, v.valid_to_column, v.alias_columns, v.reference_columns)
    THEN
        UPDATE graphrag._attached_tables x
           SET relation = v.relation, schema_name = v.schema_name, table_name = v.table_name, key_columns = v.key_columns,
               content_columns = v.content_columns, title_column = v.title_column, metadata_columns = v.metadata_columns,
               where_column = v.where_column, valid_from_column = v.valid_from_column, valid_to_column = v.valid_to_column,
               alias_columns = v.alias_columns, reference_columns = v.reference_columns
         WHERE x.id IN (SELECT y.id FROM graphrag._attached_tables y WHERE y.id = v.id FOR UPDATE SKIP LOCKED);
    END IF;
END
$$;

-- Does what a handover asks for.
-- SECURITY DEFINER: documents are written with the rights of the extension's owner, for the owner of the attached table alone.
CREATE FUNCTION graphrag._attached_handed_over() RETURNS trigger
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
    attached graphrag._attached_tables;
    t record;
    corpus_name text;
    is_older boolean := current_setting('transaction_isolation') IN ('repeatable read', 'serializable');
    missed boolean := false;
BEGIN
    IF NEW.action = 'fault' THEN
        -- A snapshot may be older than the attachment: whose function it is, is asked of what there is now. Nobody else may execute it.
        IF has_function_privilege(NEW.caller, to_regprocedure(format('graphrag_attached._changed_%s()', NEW.attached_id)), 'EXECUTE') IS NOT TRUE THEN
            RAISE EXCEPTION 'role "%" may not hand over rows of attachment %', NEW.caller, NEW.attached_id
                USING ERRCODE = 'insufficient_privilege', HINT = 'Only the owner of the attached table may; its triggers do.';
        END IF;
        IF graphrag._record_fault(NEW.attached_id, NEW.titles[1], NEW.titles[2], NEW.titles[3], true) THEN
            PERFORM graphrag._queue_attached(NEW.attached_id);
            NEW.source_keys := '{}';
        END IF;
        RETURN NEW;
    END IF;
    SELECT a.* INTO attached FROM graphrag._attached_tables a WHERE a.id = NEW.attached_id;
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
            -- First, as workers do: what is noted is locked before documents are.
            PERFORM graphrag._supersede_replicated(attached.id, NEW.source_keys);
            PERFORM graphrag._write_attached(NEW, corpus_name);
        -- orphans: of a pass. A row of such a key may have come by replication since.
        WHEN 'delete', 'orphans' THEN
            IF NEW.action = 'delete' THEN
                PERFORM graphrag._supersede_replicated(attached.id, NEW.source_keys);
            END IF;
            missed := graphrag._delete_attached(attached.id, corpus_name, NEW.source_keys) < cardinality(NEW.source_keys);
        WHEN 'truncate' THEN
            DELETE FROM graphrag_attached._replicated r
             WHERE r.attached_id = attached.id AND r.source_key NOT IN (SELECT u.source_key FROM unnest(NEW.source_keys) u (source_key));
            -- Of a partition the keys of all others are handed over. Not "<> ALL": a generic plan would compare each document with each key.
            DELETE FROM graphrag.documents d
             WHERE d.attached_id = attached.id AND d.source_key NOT IN (SELECT u.source_key FROM unnest(NEW.source_keys) u (source_key));
            missed := true;
        WHEN 'compare', 'list', 'lock' THEN
            NEW.source_keys := graphrag._select_attached(NEW, corpus_name);
            RETURN NEW;
        WHEN 'hold' THEN
            PERFORM graphrag._hold_schemas(graphrag_attached._foreign_schemas(t.oid, t.relowner), t.relowner);
        WHEN 'begin' THEN
            DELETE FROM graphrag._attached_faults f WHERE f.attached_id = attached.id;
            DELETE FROM graphrag.jobs j WHERE j.kind = 'attach' AND (j.payload ->> 'attached')::int = attached.id AND j.state <> 'leased';
        WHEN 'later' THEN
            PERFORM graphrag._queue_attached(attached.id, '5 seconds');
        WHEN 'queue' THEN
            -- The table has changed hands: so does the function, made anew. Likewise where its settings are not ours. One session is enough.
            PERFORM FROM graphrag._attached_tables a WHERE a.id = attached.id FOR UPDATE SKIP LOCKED;
            IF FOUND AND (t.proowner <> t.relowner OR NOT graphrag_attached._is_as_made(attached.id)) THEN
                PERFORM graphrag._make_attached_function(attached.id, t.oid);
            END IF;
            PERFORM graphrag._queue_attached(attached.id);
    END CASE;
    IF missed AND is_older THEN
        -- Documents that the backfill wrote after this transaction's snapshot cannot be seen from here.
        PERFORM graphrag._queue_attached(attached.id);
    END IF;
    PERFORM graphrag._see_attached(attached.id);
    RETURN NEW;
END
$$;

-- Who hands over, or asks to attach, is who inserts, whatever the row says: a role may write all tables (pg_write_all_data), and is not
-- all roles. SECURITY INVOKER, to tell who it is. Its triggers come first, by name.
CREATE FUNCTION graphrag._set_caller() RETURNS trigger
LANGUAGE plpgsql VOLATILE SET search_path = pg_catalog, pg_temp
AS $$
BEGIN
    NEW.caller := current_user;
    RETURN NEW;
END
$$;
COMMENT ON FUNCTION graphrag._set_caller() IS 'Trigger of rows that others insert: records their role';
CREATE TRIGGER attached_by INSTEAD OF INSERT ON graphrag_attached._handover
    FOR EACH ROW EXECUTE FUNCTION graphrag._set_caller();
CREATE TRIGGER attached_handed_over INSTEAD OF INSERT ON graphrag_attached._handover
    FOR EACH ROW EXECUTE FUNCTION graphrag._attached_handed_over();
