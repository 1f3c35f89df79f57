-- Why rows of a table are, or may be, changed past triggers of ours, as (SQLSTATE, message, hint); null: they are not. `name` is the table's.
-- What triggers see is followed all the same, and a pass reads what they did not.
CREATE FUNCTION graphrag_attached._bypass(attached_id int, relation oid, name text) RETURNS text[]
LANGUAGE plpgsql STABLE SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
    is_partitioned boolean;
    is_partition boolean;
    tables oid[];
    other text;
BEGIN
    SELECT c.relkind = 'p', c.relispartition INTO is_partitioned, is_partition FROM pg_class c WHERE c.oid = relation;
    IF is_partition THEN
        RETURN ARRAY['55000', format('table %s is a partition now, and what is written to the table above it is not followed', name),
                     'DETACH PARTITION, or detach it with graphrag.detach_table() and attach the partitioned table.'];
    END IF;
    tables := relation || graphrag_attached._under(relation);
    IF NOT is_partitioned AND (cardinality(tables) > 1 OR cardinality(graphrag_attached._above(relation)) > 1) THEN
        RETURN ARRAY['55000', format('table %s inherits or is inherited now, and triggers do not follow inheritance', name),
                     'ALTER TABLE … NO INHERIT; or use a partitioned table.'];
    END IF;
    SELECT min(c.oid::regclass::text) INTO other FROM pg_class c WHERE c.oid = ANY (tables) AND c.relpersistence = 'u';
    IF other IS NOT NULL THEN
        RETURN ARRAY['55000', format('table %s is unlogged, and a crash would empty it without its documents', other),
                     format('ALTER TABLE %s SET LOGGED.', other)];
    END IF;
    SELECT min(t.tgrelid::regclass::text) INTO other
      FROM pg_trigger t
     WHERE t.tgrelid = ANY (tables) AND (t.tgenabled = 'D' OR t.tgenabled = 'R' AND NOT starts_with(t.tgname, '_'))
       AND t.tgfoid = to_regprocedure(format('graphrag_attached._changed_%s()', attached_id));
    IF other IS NOT NULL THEN
        RETURN ARRAY['55000', format('triggers of table %s are disabled', other), format('ALTER TABLE %s ENABLE TRIGGER USER.', other)];
    END IF;
    RETURN NULL;
END
$$;

-- Why an attachment cannot be followed, as (SQLSTATE, message, hint); null: it can. Reads the catalog alone.
CREATE FUNCTION graphrag_attached._defect(a graphrag_attached._attachments) RETURNS text[]
LANGUAGE plpgsql STABLE SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
    hint text;
BEGIN
    IF a.id IS NOT NULL THEN
        PERFORM graphrag_attached._check_columns(a);
        RETURN graphrag_attached._bypass(a.id, a.relation, format('%I.%I', a.schema_name, a.table_name));
    END IF;
    RETURN NULL;
EXCEPTION WHEN undefined_column OR datatype_mismatch OR object_not_in_prerequisite_state THEN
    GET STACKED DIAGNOSTICS hint = PG_EXCEPTION_HINT;
    RETURN ARRAY[SQLSTATE, SQLERRM, hint];
END
$$;

-- Whether the table of an attachment was dropped here. After a restore nobody has seen it, and nothing is said of it: its table may be
-- still to come.
CREATE FUNCTION graphrag._is_dropped(a graphrag._attached_tables) RETURNS boolean
LANGUAGE plpgsql STABLE SET search_path = pg_catalog, pg_temp
AS $$
BEGIN
    -- Not BEGIN ATOMIC: a parsed body would keep updates from altering the table whose row it takes.
    RETURN graphrag_attached._relation(a) IS NULL
       AND EXISTS (SELECT FROM graphrag._attached_seen s
                    WHERE s.attached_id = a.id AND NOT EXISTS (SELECT FROM pg_class c WHERE c.oid = s.relation));
END
$$;

-- Why the rows of an attached table wait for somebody else than a worker; null: workers may read it.
CREATE FUNCTION graphrag._attached_waits(a graphrag_attached._attachments) RETURNS text
LANGUAGE plpgsql STABLE SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
    extension_owner oid := (SELECT e.extowner FROM pg_extension e WHERE e.extname = 'pg_graphrag');
    source text;
    foreign_code text;
    defect text[];
BEGIN
    IF a.id IS NULL THEN
        RETURN NULL;
    END IF;
    source := format('%I.%I', a.schema_name, a.table_name);
    foreign_code := graphrag_attached._foreign_code(a.relation, extension_owner);
    defect := graphrag_attached._defect(a);
    RETURN CASE
        WHEN defect IS NOT NULL THEN concat_ws(' ', defect[2] || '.', defect[3])
        WHEN foreign_code IS NULL THEN NULL
        WHEN pg_has_role(a.owner, extension_owner, 'USAGE') THEN format('reading %s would run code of others: %s; give it to "%s"',
                                                                      source, foreign_code, pg_get_userbyid(a.owner))
        ELSE format('role "%s" owns %s and must CALL graphrag.backfill_table(%L, %L)', pg_get_userbyid(a.owner), source, source, a.corpus)
    END;
END
$$;

-- Why the documents of a dropped table wait; null: workers may delete them.
CREATE FUNCTION graphrag._dropped_waits(a graphrag._attached_tables) RETURNS text
LANGUAGE plpgsql STABLE SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
    owner oid := (SELECT s.owner FROM graphrag._attached_seen s WHERE s.attached_id = a.id);
BEGIN
    IF a.needs_grant AND graphrag._may_write((SELECT r.rolname FROM pg_roles r WHERE r.oid = owner), a.corpus_id) IS NOT TRUE THEN
        RETURN format('the table was dropped, and its owner may not write the corpus any more: SELECT graphrag.detach_table(''%s'', keep_documents => false); deletes its documents, true keeps them',
                      a.relation::bigint);
    END IF;
    RETURN NULL;
END
$$;

-- Queues the job that gives rows their documents and deletes documents without a row: of one attachment, or of all (after a
-- restore, which brings no jobs). No worker takes the job of a table that is not the extension owner's: it is there to say
-- what waits, and for whom. Looks for no such job first: an old snapshot may show one that is done.
CREATE FUNCTION graphrag._queue_attached(attached_id int DEFAULT NULL, delay interval DEFAULT '0') RETURNS void
LANGUAGE plpgsql VOLATILE SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
    attached record;
BEGIN
    FOR attached IN
        SELECT t.id, t.corpus_id, CASE WHEN graphrag._is_dropped(t) THEN graphrag._dropped_waits(t) ELSE graphrag._attached_waits(v) END AS waits
          FROM graphrag._attached_tables t
          LEFT JOIN graphrag_attached._attachments v ON v.id = t.id
         WHERE _queue_attached.attached_id IS NULL OR t.id = _queue_attached.attached_id
         ORDER BY t.id
    LOOP
        PERFORM graphrag._queue_jobs('attach', ARRAY[attached.corpus_id], payload => jsonb_build_object('attached', attached.id),
                                     next_attempt_at => CASE WHEN attached.waits IS NULL THEN now() + delay ELSE 'infinity' END,
                                     last_error => attached.waits);
    END LOOP;
END
$$;

-- Looks at all attached tables, as workers do before they look at the queue: remembers their columns, and makes due what waited for a
-- defect that is gone, or for a table that was dropped. One table stops no other, and its owner no worker: what he keeps locked is
-- looked at by the next worker.
-- SECURITY DEFINER: a worker need not own the extension.
CREATE FUNCTION graphrag._watch_attached() RETURNS void
LANGUAGE plpgsql VOLATILE SECURITY DEFINER SET search_path = pg_catalog, pg_temp SET lock_timeout = '200ms'
AS $$
DECLARE
    attached record;
    has_unfollowed boolean;
    hint text;
BEGIN
    PERFORM graphrag._queue_jobs('attach', ARRAY[a.corpus_id], payload => w.payload)
       FROM graphrag._attached_tables a
      CROSS JOIN LATERAL (SELECT jsonb_build_object('attached', a.id, 'replicated', true) AS payload) w
      WHERE EXISTS (SELECT FROM graphrag_attached._replicated r WHERE r.attached_id = a.id)
        AND NOT EXISTS (SELECT FROM graphrag.jobs j WHERE j.corpus_id = a.corpus_id AND j.kind = 'attach' AND j.payload @> w.payload);
    FOR attached IN
        SELECT a.id, v.relation, v.id IS NULL AS is_gone, p.proowner <> v.owner OR NOT graphrag_attached._is_as_made(a.id) AS is_changed,
               d.is_dropped, p.prosrc <> graphrag_attached._body(a.id) AS is_other, graphrag_attached._defect(v) AS defect, j.id AS job, j.last_error, j.is_waiting, j.is_dead,
               CASE WHEN d.is_dropped THEN graphrag._dropped_waits(a) ELSE graphrag._attached_waits(v) END AS waits
          FROM graphrag._attached_tables a
          LEFT JOIN graphrag_attached._attachments v ON v.id = a.id
          LEFT JOIN pg_proc p ON p.proname = '_changed_' || a.id AND p.pronamespace = 'graphrag_attached'::regnamespace
         CROSS JOIN LATERAL (SELECT graphrag._is_dropped(a) AS is_dropped) d
          LEFT JOIN LATERAL (SELECT x.id, x.last_error, x.next_attempt_at = 'infinity' AS is_waiting, x.state = 'failed' AS is_dead FROM graphrag.jobs x
                              WHERE x.kind = 'attach' AND (x.payload ->> 'attached')::int = a.id AND NOT x.payload ? 'replicated'
                              ORDER BY x.state = 'failed', x.next_attempt_at LIMIT 1) j ON true
         ORDER BY a.id
    LOOP
        BEGIN
            PERFORM FROM graphrag._attached_tables a WHERE a.id = attached.id FOR UPDATE SKIP LOCKED;
            CONTINUE WHEN NOT FOUND;
            IF NOT attached.is_gone THEN
                PERFORM graphrag._see_attached(attached.id);
            END IF;
            IF attached.is_changed OR attached.is_other AND NOT attached.is_gone THEN
                PERFORM graphrag._make_attached_function(attached.id, attached.relation);
            END IF;
            has_unfollowed := NOT attached.is_gone AND graphrag._follow_partitions(attached.id, attached.relation);
            IF attached.is_changed OR has_unfollowed OR attached.defect IS NOT NULL AND graphrag._record_fault(attached.id, attached.defect[1], attached.defect[2], attached.defect[3], true)
               OR attached.is_dead AND attached.is_dropped
               OR attached.job IS NULL AND (attached.is_dropped OR EXISTS (SELECT FROM graphrag._attached_faults f
                                                                            WHERE f.attached_id = attached.id AND f.needs_pass))
               -- What it waited for is no more, or is something else. A pass that failed has its back-off.
               OR attached.last_error IS DISTINCT FROM attached.waits AND attached.last_error IS NOT NULL AND NOT (attached.is_gone AND NOT attached.is_dropped)
                  AND (attached.is_waiting OR attached.waits IS NOT NULL)
            THEN
                DELETE FROM graphrag.jobs j WHERE j.id = attached.job AND j.state <> 'leased' AND j.last_error IS NOT NULL;
                PERFORM graphrag._queue_attached(attached.id);
            END IF;
        EXCEPTION
            WHEN lock_not_available THEN
                NULL;
            WHEN OTHERS THEN
                GET STACKED DIAGNOSTICS hint = PG_EXCEPTION_HINT;
                IF graphrag._record_fault(attached.id, SQLSTATE, SQLERRM, hint, true) THEN
                    RAISE WARNING 'attached table % is not looked at: %', attached.relation::regclass, SQLERRM USING ERRCODE = SQLSTATE, HINT = hint;
                END IF;
        END;
    END LOOP;
END
$$;

-- Deletes documents of a dropped table, a batch at a time, and ends its attachment with the last; returns whether there are no more.
-- Its owner must still be allowed to write the corpus, as for a TRUNCATE before the DROP. What somebody keeps locked comes later.
-- SECURITY DEFINER: a worker need not own the extension.
CREATE FUNCTION graphrag._remove_dropped(attached_id int) RETURNS boolean
LANGUAGE plpgsql VOLATILE SECURITY DEFINER SET search_path = pg_catalog, pg_temp SET lock_timeout = '200ms'
AS $$
DECLARE
    a graphrag._attached_tables;
    removed bigint;
BEGIN
    SELECT x.* INTO a FROM graphrag._attached_tables x WHERE x.id = attached_id;
    IF graphrag._is_dropped(a) IS NOT TRUE OR graphrag._dropped_waits(a) IS NOT NULL THEN
        RETURN true;
    END IF;
    DELETE FROM graphrag.documents d
     WHERE d.id IN (SELECT x.id FROM graphrag.documents x WHERE x.attached_id = _remove_dropped.attached_id ORDER BY x.corpus, x.source_key LIMIT 2000);
    GET DIAGNOSTICS removed = ROW_COUNT;
    IF removed < 2000 THEN
        DELETE FROM graphrag._attached_tables x WHERE x.id = attached_id;
        DELETE FROM graphrag._attached_seen x WHERE x.attached_id = _remove_dropped.attached_id;
        DELETE FROM graphrag._attached_faults x WHERE x.attached_id = _remove_dropped.attached_id;
        DELETE FROM graphrag_attached._replicated x WHERE x.attached_id = _remove_dropped.attached_id;
        EXECUTE format('DROP FUNCTION IF EXISTS graphrag_attached._changed_%s() CASCADE', attached_id);
        PERFORM graphrag._settle_references(a.corpus_id);
        RETURN true;
    END IF;
    RETURN false;
EXCEPTION
    WHEN lock_not_available THEN
        PERFORM graphrag._queue_attached(attached_id, '5 seconds');
        RETURN true;
END
$$;

-- Says which attached tables wait for their owners: of one attachment, or of all.
CREATE FUNCTION graphrag._notice_waiting(attached_id int DEFAULT NULL) RETURNS void
LANGUAGE plpgsql VOLATILE SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
    waits text;
BEGIN
    FOR waits IN
        SELECT graphrag._attached_waits(v)
          FROM graphrag_attached._attachments v
         WHERE _notice_waiting.attached_id IS NULL OR v.id = _notice_waiting.attached_id
         ORDER BY v.id
    LOOP
        IF waits IS NOT NULL THEN
            RAISE NOTICE 'rows that exist are not read by workers: %', waits
                USING HINT = 'Workers run with the rights of the extension''s owner and read no table of others. The owner needs USAGE on schema graphrag and EXECUTE on the procedure.';
        END IF;
    END LOOP;
END
$$;

-- Holds an attached table against DDL and detaching until the transaction ends, for whoever may read it here: its owner, and
-- neither a superuser nor who can act as the extension's owner, unless nothing of others is run. `state` is held, gone
-- (detached, dropped, or not the caller's), locked (by somebody else), or refused for `reason`.
CREATE FUNCTION graphrag_attached._hold(attached_id int, OUT state text, OUT reason text, OUT held graphrag_attached._attachments)
LANGUAGE plpgsql VOLATILE SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
    name text;
BEGIN
    -- Looked up again under the lock: somebody may have changed anything a moment ago.
    FOR look IN 1..2 LOOP
        SELECT v.* INTO held FROM graphrag_attached._attachments v WHERE v.id = attached_id;
        IF held.relation IS NULL OR name <> format('%I.%I', held.schema_name, held.table_name) THEN
            state := 'gone';
            RETURN;
        END IF;
        SELECT min(graphrag_attached._foreign_code(held.relation, r.oid)) INTO reason
          FROM pg_roles r
         WHERE r.oid = held.owner OR r.rolname IN (current_user, session_user) AND graphrag_attached._is_privileged(r.oid);
        IF reason IS NOT NULL THEN
            state := 'refused';
            RETURN;
        END IF;
        name := format('%I.%I', held.schema_name, held.table_name);
        PERFORM graphrag_attached._hold_schemas(attached_id, held.relation, held.owner);
        BEGIN
            EXECUTE format('LOCK TABLE %s IN ROW SHARE MODE NOWAIT', name);
        EXCEPTION
            WHEN lock_not_available THEN
                state := 'locked';
                RETURN;
            WHEN undefined_table OR invalid_schema_name THEN
                state := 'gone';
                RETURN;
        END;
    END LOOP;
    state := CASE WHEN to_regclass(name) = held.relation THEN 'held' ELSE 'locked' END;
END
$$;

-- The next rows, in key order after `after`: those whose document is not there or says something else are locked (FOR SHARE) and
-- read afterwards, so that none can be written stale; rows in others' hands are left over.
CREATE FUNCTION graphrag_attached._write_rows(a graphrag_attached._attachments, after text, OUT last_key text, OUT left_over boolean)
LANGUAGE plpgsql VOLATILE SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
    s record := graphrag_attached._source(a);
    max_rows int := 1000;
    width int := cardinality(s.key_values);
    typed text[] := graphrag_attached._typed(s, '$1');
    keys text[];
    digests bytea[];
    differing text[];
    locked text[];
    beyond text := format('%s %s %s', s.key_values[width], s.greater[width], typed[width]);
BEGIN
    IF after IS NULL THEN
        beyond := 'true';
    ELSIF width > 1 THEN
        -- The first column is greater, or equal and the second is, and so on. What comes first is for the index.
        FOR n IN REVERSE width - 1..1 LOOP
            beyond := format('(%1$s %2$s %3$s OR %1$s %4$s %3$s AND %5$s)', s.key_values[n], s.greater[n], typed[n], s.equals[n], beyond);
        END LOOP;
        beyond := format('%s %s %s AND %s', s.key_values[1], s.at_least[1], typed[1], beyond);
    END IF;
    EXECUTE format(
        'SELECT array_agg(w.source_key), array_agg(graphrag_attached._digest(w.title, w.content, w.metadata, w.valid_from, w.valid_to))'
        '  FROM (SELECT %1$s FROM (SELECT r.* FROM %2$s r WHERE %3$s AND %4$s ORDER BY %5$s LIMIT $2) r) w',
        s.document, s.source, s.condition, beyond,
        (SELECT string_agg(format('%s USING %s', u.value, u.less), ', ' ORDER BY u.n) FROM unnest(s.key_values, s.less) WITH ORDINALITY u (value, less, n)))
    INTO keys, digests USING after, max_rows;
    last_key := CASE WHEN cardinality(keys) = max_rows THEN keys[max_rows] END;
    INSERT INTO graphrag_attached._handover (action, attached_id, relation, source_keys, digests)
    VALUES ('compare', a.id, a.relation, keys, digests)
    RETURNING source_keys INTO differing;
    typed := graphrag_attached._typed(s, 'u.key');
    EXECUTE format('SELECT array_agg(l.key) FROM (SELECT u.key FROM unnest($1) u (key) JOIN %s r ON %s WHERE %s FOR SHARE OF r SKIP LOCKED) l',
                   s.source, graphrag_attached._has_key(s, typed), s.condition)
    INTO locked USING differing;
    left_over := cardinality(differing) > coalesce(cardinality(locked), 0);
    EXECUTE graphrag_attached._write_sql(a.id, a.relation, s, format('SELECT %s FROM unnest($1) u (key)', graphrag_attached._as_keys(typed)))
      USING locked;
END
$$;

-- The next documents of the attachment, in key order after `after`: those whose row is gone are deleted. They are locked first
-- and judged again by a later snapshot: a row inserted anew in between keeps its document.
CREATE FUNCTION graphrag_attached._delete_orphans(a graphrag_attached._attachments, after text, OUT last_key text, OUT left_over boolean)
LANGUAGE plpgsql VOLATILE SET search_path = pg_catalog, pg_temp
-- By the key's index: the table has just grown, and what the statistics say of it would make the planner choose otherwise.
SET enable_hashjoin = off SET enable_mergejoin = off SET enable_seqscan = off SET jit = off
AS $$
DECLARE
    s record := graphrag_attached._source(a);
    judged text := format(
        'SELECT array_agg(u.key) FROM unnest($1) u (key)'
        ' WHERE NOT EXISTS (SELECT FROM %1$s r WHERE %2$s AND %3$s = u.key AND %4$s)',
        s.source,
        graphrag_attached._has_key(s, ARRAY(
            SELECT format('CASE WHEN pg_input_is_valid(%1$s, %2$L) THEN (%1$s)::%2$s END', u.part, u.type)
              FROM unnest(graphrag_attached._parsed(s.key_prefix, cardinality(s.key_values), 'u.key'), s.key_types) WITH ORDINALITY u (part, type, n)
             ORDER BY u.n)),
        s.key_text, s.condition);
    keys text[];
    orphans text[];
    locked text[];
BEGIN
    INSERT INTO graphrag_attached._handover (action, attached_id, relation, source_keys)
    VALUES ('list', a.id, a.relation, ARRAY[coalesce(after, '')])
    RETURNING source_keys INTO keys;
    last_key := keys[cardinality(keys)];
    EXECUTE judged INTO orphans USING keys;
    left_over := false;
    IF orphans IS NOT NULL THEN
        INSERT INTO graphrag_attached._handover (action, attached_id, relation, source_keys)
        VALUES ('lock', a.id, a.relation, orphans)
        RETURNING source_keys INTO locked;
        left_over := cardinality(locked) < cardinality(orphans);
        EXECUTE judged INTO orphans USING locked;
        INSERT INTO graphrag_attached._handover (action, attached_id, relation, source_keys)
        VALUES ('orphans', a.id, a.relation, coalesce(orphans, '{}'));
    END IF;
END
$$;

-- One step of a pass through an attached table: `sweeps` false: rows that come after the key `after`; true: documents that do.
-- `state` is done (this step), or as _hold() has it; last_key is null at the end. The pass is for READ COMMITTED: what
-- is looked at again under a lock must be seen as it is then.
CREATE FUNCTION graphrag_attached._step(attached_id int, after text, sweeps boolean,
    OUT state text, OUT reason text, OUT last_key text, OUT left_over boolean)
LANGUAGE plpgsql VOLATILE
SET search_path = pg_catalog, pg_temp SET row_security = off
SET datestyle = 'ISO, YMD' SET timezone = 'UTC' SET intervalstyle = 'postgres' SET extra_float_digits = 1 SET bytea_output = 'hex'
SET quote_all_identifiers = off
AS $$
DECLARE
    h record;
BEGIN
    IF current_setting('transaction_isolation') IN ('repeatable read', 'serializable') THEN
        RAISE EXCEPTION 'an attached table is not read at isolation level %', current_setting('transaction_isolation')
            USING ERRCODE = 'active_sql_transaction', HINT = 'SET default_transaction_isolation = ''read committed'' first.';
    END IF;
    h := graphrag_attached._hold(attached_id);
    state := CASE h.state WHEN 'held' THEN 'done' ELSE h.state END;
    reason := h.reason;
    IF h.state = 'held' THEN
        IF sweeps THEN
            SELECT d.last_key, d.left_over INTO last_key, left_over FROM graphrag_attached._delete_orphans(h.held, after) d;
        ELSE
            SELECT w.last_key, w.left_over INTO last_key, left_over FROM graphrag_attached._write_rows(h.held, after) w;
        END IF;
    END IF;
END
$$;

-- As _step, for workers. SECURITY DEFINER: a worker need not be the extension's owner. Reads what is the extension owner's alone.
CREATE FUNCTION graphrag._backfill_attached(attached_id int, after text, sweeps boolean,
    OUT state text, OUT reason text, OUT last_key text, OUT left_over boolean)
LANGUAGE plpgsql VOLATILE SECURITY DEFINER SET search_path = pg_catalog, pg_temp
AS $$
BEGIN
    IF after IS NULL AND NOT sweeps THEN
        DELETE FROM graphrag._attached_faults f WHERE f.attached_id = _backfill_attached.attached_id;
    END IF;
    SELECT s.* INTO state, reason, last_key, left_over FROM graphrag_attached._step(attached_id, after, sweeps) s;
END
$$;

-- Numbers of the attachments of a table, for its owner.
CREATE FUNCTION graphrag_attached._attachment_ids(source oid, corpus text) RETURNS int[]
LANGUAGE plpgsql STABLE SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
    owner oid := (SELECT c.relowner FROM pg_class c WHERE c.oid = source);
    ids int[] := (SELECT array_agg(v.id ORDER BY v.id) FROM graphrag_attached._attachments v
                   WHERE v.relation = source AND (_attachment_ids.corpus IS NULL OR v.corpus = _attachment_ids.corpus));
BEGIN
    IF NOT pg_has_role(current_user, owner, 'USAGE') THEN
        RAISE EXCEPTION 'must be owner of table %', source::regclass USING ERRCODE = 'insufficient_privilege',
            HINT = format('Role "%s" owns it.', pg_get_userbyid(owner));
    ELSIF ids IS NULL THEN
        RAISE EXCEPTION 'table % is not attached%', source::regclass, coalesce(' to corpus ' || quote_ident(corpus), '')
            USING ERRCODE = 'undefined_object', HINT = 'Attach it with graphrag.attach_table().';
    END IF;
    RETURN ids;
END
$$;

-- In the owner's own session, which commits each step. No SET clause: it would forbid the commits.
CREATE PROCEDURE graphrag.backfill_table(source regclass, corpus text DEFAULT NULL)
LANGUAGE plpython3u
AS $$
from pg_graphrag.server import call
call(plpy, "@extversion@", "index.documents.attach:backfill_table", source, corpus)
$$;
COMMENT ON PROCEDURE graphrag.backfill_table(regclass, text) IS
    'Brings the documents of an attached table up to date with its rows, for one corpus or all: after attach_table(), and after writes that bypassed the triggers. For the owner of the table, in a session of its own (a superuser may not, unless a superuser owns the table); workers do the same for tables of the extension''s owner. Commits step by step: call it as a statement of its own. 42501 if the caller is not the owner, 42704 for a table that is not attached.';
