-- Queues the job that gives rows without a document theirs and deletes documents without a row: of one attachment, or of all
-- (after a restore, which brings no jobs); with `compare`, also rows whose document says something else. Looks for no such job first: an old snapshot may show one that is done. The worker
-- does jobs that say the same as one.
CREATE FUNCTION graphrag._queue_attached(attached_id int DEFAULT NULL, delay interval DEFAULT '0', compare boolean DEFAULT false) RETURNS void
LANGUAGE plpgsql VOLATILE SET search_path = pg_catalog, pg_temp
AS $$
BEGIN
    INSERT INTO graphrag.jobs (corpus_id, kind, payload, next_attempt_at)
    SELECT a.corpus_id, 'attach', jsonb_build_object('attached', a.id, 'after', NULL, 'compare', compare), now() + delay
      FROM graphrag.attached_tables a
     WHERE _queue_attached.attached_id IS NULL OR a.id = _queue_attached.attached_id
     ORDER BY a.id;
END
$$;
REVOKE ALL ON FUNCTION graphrag._queue_attached(int, interval, boolean) FROM PUBLIC;

-- Holds an attached table against DDL and detaching until the transaction ends. Null: detached or dropped; false: somebody
-- else holds it, and a worker does not wait.
CREATE FUNCTION graphrag._hold_attached(attached_id int) RETURNS boolean
LANGUAGE plpgsql VOLATILE SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
    held text := (SELECT s.source FROM graphrag._attached_source(attached_id) s);
BEGIN
    IF held IS NULL THEN
        RETURN NULL;
    END IF;
    BEGIN
        EXECUTE format('LOCK TABLE %s IN ROW SHARE MODE NOWAIT', held);
    EXCEPTION
        WHEN lock_not_available THEN RETURN false;
        WHEN undefined_table OR invalid_schema_name THEN RETURN NULL;
    END;
    -- Looked up again: who held the lock a moment ago may have detached the table, or given its name to another.
    RETURN CASE WHEN EXISTS (SELECT FROM graphrag._attached_source(attached_id) s WHERE s.source = held) THEN true END;
END
$$;
REVOKE ALL ON FUNCTION graphrag._hold_attached(int) FROM PUBLIC;

-- SQL that makes the document of a row r beside it, and the condition that document d says the same; nothing unless asked to.
CREATE FUNCTION graphrag._attached_comparison(s record, compare boolean, OUT document text, OUT same text)
LANGUAGE plpgsql IMMUTABLE SET search_path = pg_catalog, pg_temp
AS $$
BEGIN
    document := CASE WHEN compare THEN format(' CROSS JOIN LATERAL (SELECT %s) x', s.document) ELSE '' END;
    same := CASE WHEN compare THEN ' AND (d.title, d.content, d.metadata) IS NOT DISTINCT FROM (x.title, x.content, x.metadata)' ELSE '' END;
END
$$;
REVOKE ALL ON FUNCTION graphrag._attached_comparison(record, boolean) FROM PUBLIC;

-- One step: the next rows, in key order after `after`, that have no document of this attachment, or one that says something
-- else if the two are to be compared. They are locked first (FOR SHARE), and read afterwards, so that none can be written stale; rows in others' hands are left to the next round.
-- No row: detached or dropped. taken is null: the table is locked.
CREATE FUNCTION graphrag._backfill_attached(attached_id int, after text, max_rows int, compare boolean, OUT taken int, OUT last_key text) RETURNS SETOF record
LANGUAGE plpgsql VOLATILE SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
SET datestyle = 'ISO, YMD' SET timezone = 'UTC' SET intervalstyle = 'postgres' SET extra_float_digits = 1 SET bytea_output = 'hex'
AS $$
DECLARE
    held boolean := graphrag._hold_attached(attached_id);
    s record;
    other record;
    keys text[];
BEGIN
    IF held THEN
        SELECT * INTO s FROM graphrag._attached_source(attached_id);
        SELECT * INTO other FROM graphrag._attached_comparison(s, compare);
        EXECUTE format(
            'SELECT array_agg(p.key) FROM ('
            '    SELECT %1$s AS key FROM %2$s r%6$s'
            '     WHERE %3$s NOT EXISTS (SELECT FROM graphrag.documents d'
            -- Not "=": the only index to use here is that of the key, whatever old statistics say.
            '                             WHERE d.corpus = $1 AND d.source_key = (%1$s) COLLATE "default" AND d.attached_id IS NOT DISTINCT FROM $2%7$s)'
            '     ORDER BY r.%4$s USING %5$s LIMIT $3 FOR SHARE OF r SKIP LOCKED) p',
            s.key_text, s.source,
            CASE WHEN after IS NOT NULL THEN format('r.%s %s $4::%s AND', s.key_column, s.greater, s.key_type) ELSE '' END,
            s.key_column, s.less,
            other.document, other.same)
        INTO keys USING s.corpus, attached_id, max_rows, after;
        taken := coalesce(cardinality(keys), 0);
        last_key := keys[taken];
        IF taken > 0 THEN
            EXECUTE graphrag._attached_upsert(s, format('SELECT u::%s AS key FROM unnest($3) u', s.key_type)) USING s.corpus, attached_id, keys;
        END IF;
    END IF;
    IF held IS NOT NULL THEN
        RETURN NEXT;
    END IF;
END
$$;
REVOKE ALL ON FUNCTION graphrag._backfill_attached(int, text, int, boolean) FROM PUBLIC;

-- Deletes the documents whose row is gone. True when another round is needed: something was locked meanwhile.
-- No nested loops: both tables have just grown, and what the statistics say of them would make the planner choose those.
CREATE FUNCTION graphrag._sweep_attached(attached_id int, compare boolean) RETURNS boolean
LANGUAGE plpgsql VOLATILE SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
SET datestyle = 'ISO, YMD' SET timezone = 'UTC' SET intervalstyle = 'postgres' SET extra_float_digits = 1 SET bytea_output = 'hex'
SET enable_nestloop = off SET jit = off
AS $$
DECLARE
    held boolean := graphrag._hold_attached(attached_id);
    s record;
    other record;
    orphan text;
    orphans bigint[];
    rest boolean;
BEGIN
    IF held IS NOT TRUE THEN
        RETURN held IS NOT NULL;
    END IF;
    SELECT * INTO s FROM graphrag._attached_source(attached_id);
    SELECT * INTO other FROM graphrag._attached_comparison(s, compare);
    orphan := format('d.attached_id = $1 AND NOT EXISTS (SELECT FROM %s r WHERE %s = d.source_key)', s.source, s.key_text);
    -- Locked first and judged again by a later snapshot: a row inserted anew in between keeps its document.
    EXECUTE format('SELECT array_agg(o.id) FROM (SELECT d.id FROM graphrag.documents d WHERE %s FOR UPDATE OF d SKIP LOCKED) o', orphan)
    INTO orphans USING attached_id;
    IF orphans IS NOT NULL THEN
        EXECUTE format('DELETE FROM graphrag.documents d WHERE d.id = ANY ($2) AND %s', orphan) USING attached_id, orphans;
    END IF;
    EXECUTE format(
        'SELECT EXISTS (SELECT FROM graphrag.documents d WHERE %1$s)'
        ' OR EXISTS (SELECT FROM %2$s r%4$s WHERE NOT EXISTS (SELECT FROM graphrag.documents d WHERE d.attached_id = $1 AND d.source_key = %3$s%5$s))',
        orphan, s.source, s.key_text, other.document, other.same)
    INTO rest USING attached_id;
    RETURN rest;
END
$$;
REVOKE ALL ON FUNCTION graphrag._sweep_attached(int, boolean) FROM PUBLIC;
