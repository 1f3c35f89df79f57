-- The statement that writes the documents of rows as they are now: `keys` is a query that gives their keys (column key).
-- Its parameters: corpus, attachment, and whatever `keys` takes. Documents that say the same already are left alone; documents
-- of the corpus that no table owns are taken over. (A statement, because only the trigger function sees transition tables.)
CREATE FUNCTION graphrag._attached_upsert(s record, keys text) RETURNS text
LANGUAGE plpgsql IMMUTABLE SET search_path = pg_catalog, pg_temp
AS $$
BEGIN
    RETURN format(
        'INSERT INTO graphrag.documents AS d (corpus, source_key, title, content, metadata, attached_id)'
        ' SELECT $1, x.source_key, x.title, x.content, x.metadata, $2'
        '   FROM (SELECT %1$s FROM %2$s r JOIN (%3$s) k ON r.%4$s %5$s k.key) x'
        '  ORDER BY x.source_key'
        ' ON CONFLICT (corpus, source_key) DO UPDATE'
        '    SET title = excluded.title, content = excluded.content, metadata = excluded.metadata,'
        '        attached_id = CASE WHEN d.attached_id = $2 OR d.attached_id IS NULL'
        '                             OR NOT EXISTS (SELECT FROM graphrag.attached_tables a WHERE a.id = d.attached_id)'
        '                           THEN $2 ELSE graphrag._refuse_taken_key(d.source_key, $1, d.attached_id) END'
        '  WHERE (d.title, d.content, d.metadata, d.attached_id)'
        '        IS DISTINCT FROM (excluded.title, excluded.content, excluded.metadata, $2)',
        s.document, s.source, keys, s.key_column, s.equals);
END
$$;
REVOKE ALL ON FUNCTION graphrag._attached_upsert(record, text) FROM PUBLIC;

-- Trigger of attached tables, one per event. What it writes is read from the table, not from the transition tables: these
-- only say which keys to look at, so triggers of the application that change rows again, MERGE, and a DELETE and INSERT
-- in one statement all end with documents that say what the table says.
-- SECURITY DEFINER: an application that writes its own table need not have rights in this schema.
-- The settings make text of dates and numbers the same in every session.
CREATE FUNCTION graphrag._attached_changed() RETURNS trigger
LANGUAGE plpgsql SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
SET datestyle = 'ISO, YMD' SET timezone = 'UTC' SET intervalstyle = 'postgres' SET extra_float_digits = 1 SET bytea_output = 'hex'
AS $$
DECLARE
    attached int := TG_ARGV[0]::int;
    later_snapshot_needed boolean := current_setting('transaction_isolation') IN ('repeatable read', 'serializable');
    s record;
    missed boolean;
BEGIN
    SELECT * INTO s FROM graphrag._attached_source(attached);
    IF s.relation IS DISTINCT FROM TG_RELID THEN
        RAISE EXCEPTION 'table %.% is not attached under number %', quote_ident(TG_TABLE_SCHEMA), quote_ident(TG_TABLE_NAME), attached
            -- A snapshot older than attach_table() does not show it: the same transaction will work when tried again.
            USING ERRCODE = CASE WHEN later_snapshot_needed THEN 'serialization_failure' ELSE 'object_not_in_prerequisite_state' END,
                  HINT = CASE WHEN later_snapshot_needed THEN 'Try the transaction again.'
                         ELSE format('DROP TRIGGER %I on it, and attach it with graphrag.attach_table().', TG_NAME) END;
    END IF;
    UPDATE graphrag.attached_tables a
       SET relation = TG_RELID, schema_name = TG_TABLE_SCHEMA, table_name = TG_TABLE_NAME
     WHERE a.id IN (SELECT b.id FROM graphrag.attached_tables b
                     WHERE b.id = attached AND (b.relation, b.schema_name, b.table_name) <> (TG_RELID, TG_TABLE_SCHEMA, TG_TABLE_NAME)
                       FOR UPDATE SKIP LOCKED);

    IF TG_OP = 'TRUNCATE' THEN
        EXECUTE format('DELETE FROM graphrag.documents d WHERE d.attached_id = $1'
                       ' AND NOT EXISTS (SELECT FROM %s r WHERE %s = d.source_key)', s.source, s.key_text)
        USING attached;
        missed := true;
    ELSIF TG_OP IN ('UPDATE', 'DELETE') THEN
        EXECUTE format(
            'WITH gone AS MATERIALIZED ('
            '    SELECT o.source_key'
            '      FROM (SELECT r.%1$s AS key, %2$s AS source_key FROM %3$s r) o'
            '     WHERE NOT EXISTS (SELECT FROM (SELECT r.%1$s AS key, %2$s AS source_key FROM %4$s r) l'
            '                        WHERE l.key %5$s o.key AND l.source_key = o.source_key) %6$s'
            '), removed AS ('
            '    DELETE FROM graphrag.documents d USING gone g'
            -- Not "=": the only index to use here is that of the key, whatever old statistics say.
            '     WHERE d.corpus = $1 AND d.source_key = g.source_key COLLATE "default" AND d.attached_id IS NOT DISTINCT FROM $2 RETURNING d.id'
            ') SELECT (SELECT count(*) FROM gone) > (SELECT count(*) FROM removed)',
            s.key_column, s.key_text, CASE TG_OP WHEN 'DELETE' THEN 'deleted' ELSE 'updated_old' END, s.source, s.equals,
            CASE TG_OP WHEN 'UPDATE' THEN format('AND o.source_key NOT IN (SELECT %s FROM updated_new r)', s.key_text) ELSE '' END)
        INTO missed USING s.corpus, attached;
    END IF;
    IF later_snapshot_needed AND missed THEN
        -- Documents that the backfill wrote after this transaction's snapshot cannot be seen from here.
        PERFORM graphrag._queue_attached(attached);
    END IF;

    IF TG_OP = 'INSERT' THEN
        EXECUTE graphrag._attached_upsert(s, format('SELECT i.%s AS key FROM inserted i', s.key_column)) USING s.corpus, attached;
    ELSIF TG_OP = 'UPDATE' THEN
        -- Rows whose key and document are as before are not looked at again.
        EXECUTE graphrag._attached_upsert(s, format(
            'SELECT r.%1$s AS key, x.digest FROM updated_new r %2$s EXCEPT SELECT r.%1$s, x.digest FROM updated_old r %2$s',
            s.key_column,
            format('CROSS JOIN LATERAL (SELECT sha256(convert_to(w::text, ''UTF8'')) FROM (SELECT %s) w) x (digest)', s.document)))
        USING s.corpus, attached;
    END IF;
    RETURN NULL;
END
$$;
REVOKE ALL ON FUNCTION graphrag._attached_changed() FROM PUBLIC;
COMMENT ON FUNCTION graphrag._attached_changed() IS 'Trigger of attached tables: their rows become documents';
