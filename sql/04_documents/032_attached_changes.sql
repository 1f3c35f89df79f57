-- Where the owner of an attached table hands over what its rows say: an INSERT that a trigger answers, and no row is kept.
-- `caller` is whoever runs the INSERT, and cannot be given: only the owner of the table is heard. All values are of types of
-- PostgreSQL; what made them of the table's own types ran before, with its owner's rights.
CREATE VIEW graphrag_attached._handover AS
SELECT NULL::name AS caller, NULL::text AS action, NULL::int AS attached_id, NULL::oid AS relation, NULL::text[] AS source_keys,
       NULL::text[] AS titles, NULL::text[] AS contents, NULL::jsonb[] AS metadata, NULL::bytea[] AS digests,
       NULL::timestamptz[] AS valid_from, NULL::timestamptz[] AS valid_to
 WHERE false;
ALTER VIEW graphrag_attached._handover ALTER COLUMN caller SET DEFAULT current_user;

-- Seconds and not the text of a time, which the session's time zone changes.
CREATE FUNCTION graphrag_attached._digest(title text, content text, metadata jsonb, valid_from timestamptz, valid_to timestamptz) RETURNS bytea
LANGUAGE sql STABLE
BEGIN ATOMIC
    SELECT pg_catalog.sha256(pg_catalog.convert_to(ROW(title, content, metadata, extract(epoch FROM valid_from), extract(epoch FROM valid_to))::text,
                                                   'UTF8'));
END;

-- Keeps the names of an attached table's schemas where others could change them; for its owner, who reads it by these names. Not
-- to the end of a statement but of the transaction: what is read is locked that long too.
CREATE FUNCTION graphrag_attached._hold_schemas(attached_id int, relation oid, reader oid) RETURNS void
LANGUAGE plpgsql VOLATILE SET search_path = pg_catalog, pg_temp
AS $$
BEGIN
    IF cardinality(graphrag_attached._foreign_schemas(relation, reader)) > 0 THEN
        INSERT INTO graphrag_attached._handover (action, attached_id, relation) VALUES ('hold', attached_id, relation);
    END IF;
END
$$;

-- SQL that hands over the documents of rows as they are now: `keys` is a query that gives their keys (columns k1, k2, …), with $1.
-- In slices, since no array is larger than 1 GB; these in the order of keys, so that no two sessions wait for each other.
CREATE FUNCTION graphrag_attached._write_sql(attached_id int, relation oid, s record, keys text) RETURNS text
LANGUAGE plpgsql IMMUTABLE SET search_path = pg_catalog, pg_temp
AS $$
BEGIN
    RETURN format(
        'INSERT INTO graphrag_attached._handover (action, attached_id, relation, source_keys, titles, contents, metadata, valid_from, valid_to)'
        ' SELECT ''write'', %1$s, %2$s, array_agg(x.source_key), array_agg(x.title), array_agg(x.content), array_agg(x.metadata),'
        '        array_agg(x.valid_from), array_agg(x.valid_to)'
        '   FROM (SELECT x.*, sum(100 + octet_length(x.content) + coalesce(octet_length(x.title), 0) + pg_column_size(x.metadata))'
        '                     OVER (ORDER BY x.source_key ROWS UNBOUNDED PRECEDING) / 8000000 AS slice'
        '           FROM (SELECT %3$s FROM %4$s r JOIN (%5$s) k ON %6$s WHERE %7$s) x) x'
        '  GROUP BY x.slice ORDER BY x.slice',
        attached_id, relation, s.document, s.source, keys,
        graphrag_attached._has_key(s, graphrag_attached._key_names('k', cardinality(s.key_values))), s.condition);
END
$$;

-- Whether the function of an attachment has the settings that _make_attached_function() gave it. Its owner can change them, and where
-- it looks names up.
CREATE FUNCTION graphrag_attached._is_as_made(attached_id int) RETURNS boolean
LANGUAGE plpgsql STABLE SET search_path = pg_catalog, pg_temp
AS $$
BEGIN
    RETURN (SELECT p.prosecdef AND p.proconfig = ARRAY['search_path=pg_catalog, pg_temp', 'row_security=off', 'DateStyle=ISO, YMD',
                                                       'TimeZone=UTC', 'IntervalStyle=postgres', 'extra_float_digits=1', 'bytea_output=hex',
                                                       'quote_all_identifiers=off']
              FROM pg_proc p
             WHERE p.proname = '_changed_' || attached_id AND p.pronamespace = 'graphrag_attached'::regnamespace);
END
$$;

-- The table of an attachment, of a table that has its triggers: itself, or the partitioned table above it.
CREATE FUNCTION graphrag_attached._attached_above(attached_id int, relation oid) RETURNS oid
LANGUAGE plpgsql STABLE SET search_path = pg_catalog, pg_temp
AS $$
BEGIN
    RETURN (SELECT t.tgrelid
              FROM pg_trigger t
             WHERE t.tgrelid = ANY (graphrag_attached._above(relation))
               AND t.tgfoid = to_regprocedure(format('graphrag_attached._changed_%s()', attached_id))
             ORDER BY cardinality(graphrag_attached._above(t.tgrelid))
             LIMIT 1);
END
$$;

-- What the trigger of an attached table runs, one statement after another. `relation` is the table, also where a partition was written
-- directly. What it hands over is read from the table, not from
-- the transition tables: these only say which keys to look at, so triggers of the application that change rows again, MERGE,
-- and a DELETE and INSERT in one statement all end with documents that say what the table says.
CREATE FUNCTION graphrag_attached._changed_sql(attached_id int, relation oid, event text, trigger name) RETURNS text[]
LANGUAGE plpgsql VOLATILE SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
    is_older boolean := current_setting('transaction_isolation') IN ('repeatable read', 'serializable');
    handover text := format('INSERT INTO graphrag_attached._handover (action, attached_id, relation, source_keys) SELECT %%L, %s, %s, ',
                            attached_id, relation);
    reader oid := quote_ident(current_user)::regrole;
    patience CONSTANT text := '100ms';
    lock_timeout CONSTANT text := current_setting('lock_timeout');
    changed text;
    foreign_code text;
    a graphrag_attached._attachments;
    s record;
    keys text;
    again text;
BEGIN
    -- That of rows is for replication (_set_attached_firing).
    IF starts_with(trigger, '_') THEN
        RETURN '{}';
    END IF;
    -- The table has changed hands, and is not for this owner to read any more; or the function has (REASSIGN OWNED), with settings of
    -- whoever had it. Workers compare the table, or its new owner does.
    IF (SELECT c.relowner FROM pg_class c WHERE c.oid = relation) <> reader OR NOT graphrag_attached._is_as_made(attached_id) THEN
        RETURN ARRAY[format(handover, 'queue') || 'NULL'];
    END IF;
    PERFORM graphrag_attached._hold_schemas(attached_id, relation, reader);
    -- Partitions too must stay their owners' until they are read; the table itself is locked by the statement. Who has locked another
    -- partition would hold up a statement that needs nothing of it, and waits for this one where both truncate: a pass comes later.
    IF (SELECT c.relhassubclass FROM pg_class c WHERE c.oid = relation) THEN
        BEGIN
            IF lock_timeout = '0' OR lock_timeout::interval > patience::interval THEN
                PERFORM set_config('lock_timeout', patience, true);
            END IF;
            EXECUTE format('LOCK TABLE %s IN ACCESS SHARE MODE%s', relation::regclass, CASE WHEN event = 'TRUNCATE' THEN ' NOWAIT' END);
            PERFORM set_config('lock_timeout', lock_timeout, true);
        EXCEPTION WHEN lock_not_available THEN
            RETURN ARRAY[format(handover, 'queue') || 'NULL'];
        END;
    END IF;
    IF is_older THEN
        SELECT min(pg_describe_object(o.class, o.id, 0)) INTO changed FROM graphrag_attached._owners(relation) o WHERE o.changed;
        IF changed IS NOT NULL THEN
            RAISE EXCEPTION 'the attached table % is not read by an old snapshot: % has changed since', relation::regclass, changed
                USING ERRCODE = 'serialization_failure', HINT = 'Try the transaction again.';
        END IF;
    END IF;
    SELECT v.* INTO a FROM graphrag_attached._attachments v WHERE v.id = attached_id AND v.relation = _changed_sql.relation;
    IF NOT FOUND THEN
        RAISE EXCEPTION 'table % is not attached under number %', relation::regclass, attached_id
            -- A snapshot older than attach_table() does not show it: the same transaction will work when tried again.
            USING ERRCODE = CASE WHEN is_older THEN 'serialization_failure' ELSE 'object_not_in_prerequisite_state' END,
                  HINT = CASE WHEN is_older THEN 'Try the transaction again.'
                         ELSE format('DROP TRIGGER %I on it, and attach it with graphrag.attach_table().', trigger) END;
    END IF;
    foreign_code := graphrag_attached._foreign_code(relation, reader);
    IF foreign_code IS NOT NULL THEN
        RAISE EXCEPTION 'reading the attached table % would run code of others with its owner''s rights: %', relation::regclass, foreign_code
            USING ERRCODE = 'insufficient_privilege',
                  HINT = format('Give it to "%s", the owner of the table, or detach the table with graphrag.detach_table().', pg_get_userbyid(a.owner));
    END IF;
    s := graphrag_attached._source(a);
    IF to_regclass(s.source) IS DISTINCT FROM relation THEN
        RAISE EXCEPTION 'the attached table % has another name now', s.source USING ERRCODE = 'serialization_failure', HINT = 'Try the transaction again.';
    END IF;
    keys := graphrag_attached._as_keys(s.key_values);
    -- Whether a row that is a document now has the key of an old one (o).
    again := format('SELECT FROM %s r WHERE %s AND %s = o.source_key AND %s', s.source,
                    graphrag_attached._has_key(s, graphrag_attached._key_names('o', cardinality(s.key_values))), s.key_text, s.condition);
    RETURN CASE event
        WHEN 'INSERT' THEN ARRAY[
            graphrag_attached._write_sql(attached_id, relation, s, format('SELECT %s FROM inserted r', keys))]
        WHEN 'DELETE' THEN ARRAY[
            format(handover, 'delete')
            || format('array_agg(o.source_key) FROM (SELECT %s, %s AS source_key FROM deleted r WHERE %s) o'
                      ' WHERE NOT EXISTS (%s) HAVING count(*) > 0',
                      keys, s.key_text, s.condition, again)]
        -- Rows whose key and document are as before are not looked at again. A key may equal the old one, and have another text.
        WHEN 'UPDATE' THEN ARRAY[
            format(handover, 'delete')
            || format('array_agg(o.source_key)'
                      '  FROM (SELECT %1$s, %2$s AS source_key FROM updated_old r'
                      '         WHERE %3$s AND %2$s NOT IN (SELECT %2$s FROM updated_new r WHERE %3$s)) o'
                      ' WHERE NOT EXISTS (%4$s) HAVING count(*) > 0',
                      keys, s.key_text, s.condition, again),
            graphrag_attached._write_sql(attached_id, relation, s, format(
                'SELECT %1$s, x.source_key AS new_key, x.digest FROM updated_new r %2$s WHERE %3$s'
                ' EXCEPT SELECT %1$s, x.source_key, x.digest FROM updated_old r %2$s WHERE %3$s',
                keys,
                format('CROSS JOIN LATERAL (SELECT w.source_key, graphrag_attached._digest(w.title, w.content, w.metadata, w.valid_from, w.valid_to)'
                       ' FROM (SELECT %s) w) x (source_key, digest)', s.document),
                s.condition))]
        -- The rows that there are again.
        WHEN 'TRUNCATE' THEN ARRAY[
            format(handover, 'truncate') || format('array_agg(%s) FROM %s r WHERE %s', s.key_text, s.source, s.condition)]
    END;
END
$$;

-- Called where documents could not follow a statement, which goes on: records why, queues a pass through the table, and warns. What is
-- recorded already is not said again. What cannot be recorded fails the statement: else who writes the table could keep documents of rows
-- that are gone (in a transaction that he makes read only, near the limit of the stack, without views), and nobody would know. But where
-- the owner has made the function another one, which may not record, workers see that it is.
CREATE FUNCTION graphrag_attached._not_followed(attached_id int, relation oid, error_code text, message text, hint text) RETURNS void
LANGUAGE plpgsql VOLATILE SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
    is_new boolean := true;
BEGIN
    BEGIN
        INSERT INTO graphrag_attached._handover (action, attached_id, relation, titles)
        VALUES ('fault', attached_id, relation, ARRAY[error_code, message, hint])
        RETURNING source_keys IS NOT NULL INTO is_new;
    EXCEPTION WHEN insufficient_privilege THEN
        hint := format('%s This could not be recorded: %s.', hint, SQLERRM);
    END;
    IF is_new THEN
        RAISE WARNING 'documents do not follow table %: %', relation::regclass, message
            USING ERRCODE = error_code, HINT = concat_ws(' ', nullif(hint, ''),
                'The table was changed; graphrag.attached_tables says what is behind, graphrag.backfill_table() brings it up to date.');
    END IF;
END
$$;

-- Have schemas keep their names until this transaction ends. Rows of the catalog, locked as a foreign key locks: a schema that is
-- renamed waits; with an old snapshot, one that was renamed is a serialization failure. `owner`: of the table in question; it matters
-- where nobody may lock these rows (a database without the extension).
CREATE FUNCTION graphrag._hold_schemas(schemas oid[], owner oid) RETURNS void
LANGUAGE plpgsql VOLATILE SET search_path = pg_catalog, pg_temp
AS $$
BEGIN
    PERFORM FROM pg_namespace n WHERE n.oid = ANY (schemas) ORDER BY n.oid FOR KEY SHARE;
END
$$;

-- What an attached table needs belongs to its owner. Superusers make it; beside a database without the extension, who owns the schema
-- graphrag must be a member.
CREATE FUNCTION graphrag._check_may_act_for(owner name) RETURNS void
LANGUAGE plpgsql STABLE SET search_path = pg_catalog, pg_temp
AS $$
BEGIN
    IF NOT pg_has_role(current_user, owner, 'USAGE') THEN
        RAISE EXCEPTION 'role "%", who owns the schema graphrag, cannot act for role "%", who owns the table', current_user, owner
            USING ERRCODE = 'insufficient_privilege', HINT = format('GRANT %I TO %I; then try again.', owner, current_user);
    END IF;
END
$$;

-- The trigger function of an attachment. SECURITY DEFINER, of the owner of the table: who writes the table need have no rights
-- to read it, nor any in our schemas, and nobody's rights but the owner's are lent to the code that reading it runs.
-- The statement of the application never fails because of it, but by its own cancel (which OTHERS leaves out), deadlock or lock_timeout, or
-- where nothing can be recorded (_not_followed).
-- The settings make text of dates, numbers and names the same in every session; of a table whose policies hide rows even from its
-- owner, row_security = off makes an error. With quote_all_identifiers PostgreSQL would write its search_path otherwise.
CREATE FUNCTION graphrag._make_attached_function(attached_id int, relation oid, is_made_again boolean DEFAULT false) RETURNS void
LANGUAGE plpgsql VOLATILE SET search_path = pg_catalog, pg_temp SET quote_all_identifiers = off
AS $$
DECLARE
    name  text := format('graphrag_attached._changed_%s()', attached_id);
    owner name := (SELECT pg_get_userbyid(c.relowner) FROM pg_class c WHERE c.oid = relation);
BEGIN
    PERFORM graphrag._check_may_act_for(owner);
    EXECUTE format('CREATE OR REPLACE FUNCTION %s RETURNS trigger LANGUAGE plpgsql SECURITY DEFINER'
                   ' SET search_path = pg_catalog, pg_temp SET row_security = off'
                   ' SET datestyle = ''ISO, YMD'' SET timezone = ''UTC'' SET intervalstyle = ''postgres'' SET extra_float_digits = 1 SET bytea_output = ''hex'''
                   ' SET quote_all_identifiers = off AS %L', name, graphrag_attached._body(attached_id));
    -- Made by an update of the extension, it would be its member, and not be dumped. What is no member an update may not replace.
    IF NOT is_made_again AND EXISTS (SELECT FROM pg_depend d WHERE d.classid = 'pg_proc'::regclass AND d.objid = name::regprocedure AND d.deptype = 'e') THEN
        EXECUTE format('ALTER EXTENSION pg_graphrag DROP FUNCTION %s', name);
    END IF;
    EXECUTE format('REVOKE ALL ON FUNCTION %s FROM PUBLIC', name);
    EXECUTE format('COMMENT ON FUNCTION %s IS ''Trigger of attached table %s: its rows become documents''', name, attached_id);
    -- DROP EXTENSION takes it along instead of stopping at it.
    IF EXISTS (SELECT FROM pg_extension x WHERE x.extname = 'pg_graphrag') THEN
        EXECUTE format('ALTER FUNCTION %s DEPENDS ON EXTENSION pg_graphrag', name);
    END IF;
    -- To own a function takes CREATE on its schema, where no superuser gives it: in this transaction alone.
    IF has_schema_privilege(owner, 'graphrag_attached', 'CREATE') OR (SELECT r.rolsuper FROM pg_roles r WHERE r.rolname = current_user) THEN
        EXECUTE format('ALTER FUNCTION %s OWNER TO %I', name, owner);
    ELSE
        EXECUTE format('GRANT CREATE ON SCHEMA graphrag_attached TO %I', owner);
        EXECUTE format('ALTER FUNCTION %s OWNER TO %I', name, owner);
        EXECUTE format('REVOKE CREATE ON SCHEMA graphrag_attached FROM %I', owner);
    END IF;
END
$$;

-- The triggers of an attachment on its table and the partitions, one per event: makes those that are not there, and drops those on tables
-- that are no partitions any more. Returns whether rows may have been written past them: a table that had none has rows, or somebody dropped one.
-- Statement triggers see what names their table. Partitions have some of their own, for what names them.
CREATE FUNCTION graphrag._follow_partitions(attached_id int, relation oid) RETURNS boolean
LANGUAGE plpgsql VOLATILE SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
    changed oid := to_regprocedure(format('graphrag_attached._changed_%s()', attached_id));
    tables oid[] := relation || graphrag_attached._under(relation);
    missed boolean := false;
    source oid;
    name text;
    event record;
BEGIN
    FOR source IN
        SELECT c.oid FROM pg_class c
         WHERE c.oid = ANY (tables) AND (c.oid = relation OR c.relispartition AND c.relkind IN ('r', 'p'))
           AND (SELECT count(*) FROM pg_trigger t WHERE t.tgrelid = c.oid AND t.tgfoid = changed) < 5
         ORDER BY c.oid <> relation, c.oid
    LOOP
        PERFORM graphrag._check_may_act_for(pg_get_userbyid(c.relowner)) FROM pg_class c WHERE c.oid = source;
        name := graphrag._lock_attached(source, 'SHARE ROW EXCLUSIVE');
        -- Nobody writes it now. A partition that is empty on disk, and had none of them, is new.
        missed := missed OR source = relation OR pg_relation_size(source) > 0 OR EXISTS (SELECT FROM pg_trigger t WHERE t.tgrelid = source AND t.tgfoid = changed AND t.tgparentid = 0);
        FOR event IN
            SELECT CASE v.level WHEN 'ROW' THEN format('_graphrag_%s_replicated', attached_id) ELSE format('graphrag_%s_%s', attached_id, lower(v.name)) END
                       AS trigger, v.*
              FROM (VALUES ('INSERT', 'REFERENCING NEW TABLE AS inserted', 'STATEMENT'),
                           ('UPDATE', 'REFERENCING OLD TABLE AS updated_old NEW TABLE AS updated_new', 'STATEMENT'),
                           ('DELETE', 'REFERENCING OLD TABLE AS deleted', 'STATEMENT'),
                           ('TRUNCATE', '', 'STATEMENT'),
                           -- Partitions have it of the table above them. It comes before triggers of the application that change the row again.
                           ('INSERT OR UPDATE OR DELETE', '', 'ROW')) v (name, rows, level)
        LOOP
            CONTINUE WHEN EXISTS (SELECT FROM pg_trigger t WHERE t.tgrelid = source AND t.tgfoid = changed AND t.tgname = event.trigger);
            EXECUTE format('CREATE TRIGGER %I AFTER %s ON %s %s FOR EACH %s EXECUTE FUNCTION graphrag_attached._changed_%s()',
                           event.trigger, event.name, name, event.rows, event.level, attached_id);
            IF EXISTS (SELECT FROM pg_extension x WHERE x.extname = 'pg_graphrag') THEN
                EXECUTE format('ALTER TRIGGER %I ON %s DEPENDS ON EXTENSION pg_graphrag', event.trigger, name);
            END IF;
        END LOOP;
    END LOOP;
    FOR event IN
        SELECT t.tgrelid AS source, t.tgname AS trigger FROM pg_trigger t
         WHERE t.tgfoid = changed AND t.tgrelid <> ALL (tables) AND starts_with(t.tgname, format('graphrag_%s_', attached_id))
    LOOP
        name := graphrag._lock_attached(event.source, 'ACCESS EXCLUSIVE');
        EXECUTE format('DROP TRIGGER IF EXISTS %I ON %s', event.trigger, name);
    END LOOP;
    PERFORM graphrag._set_attached_firing(attached_id, tables);
    RETURN missed;
END
$$;

-- When the triggers of an attachment fire: those of statements where sessions write, that of rows where replication does, which fires none of
-- statements but of TRUNCATE. So no row is followed twice. pg_restore --disable-triggers and ENABLE TRIGGER leave all firing where sessions write.
CREATE FUNCTION graphrag._set_attached_firing(attached_id int, tables oid[]) RETURNS void
LANGUAGE plpgsql VOLATILE SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
    -- Our own event trigger need not look at it.
    silences boolean := current_setting('event_triggers', true) = 'on' AND (SELECT r.rolsuper FROM pg_roles r WHERE r.rolname = current_user);
    odd record;
BEGIN
    FOR odd IN
        SELECT t.tgrelid AS source, t.tgname AS trigger, w.firing
          FROM pg_trigger t
          JOIN (VALUES (format('_graphrag_%s_replicated', attached_id), 'REPLICA'),
                       (format('graphrag_%s_truncate', attached_id), 'ALWAYS')) w (name, firing) ON w.name = t.tgname
         WHERE t.tgfoid = to_regprocedure(format('graphrag_attached._changed_%s()', attached_id)) AND t.tgrelid = ANY (tables)
           AND t.tgparentid = 0 AND t.tgenabled = 'O'
         ORDER BY t.tgrelid, t.tgname
    LOOP
        IF silences THEN
            PERFORM set_config('event_triggers', 'off', true);
        END IF;
        EXECUTE format('ALTER TABLE %s ENABLE %s TRIGGER %I', graphrag._lock_attached(odd.source, 'SHARE ROW EXCLUSIVE'), odd.firing, odd.trigger);
        IF silences THEN
            PERFORM set_config('event_triggers', 'on', true);
        END IF;
    END LOOP;
END
$$;

-- The function of an attachment and its triggers.
CREATE FUNCTION graphrag._make_attached_triggers(attached_id int, relation oid) RETURNS void
LANGUAGE plpgsql VOLATILE SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
    left_behind record;
BEGIN
    -- A restore of schemas brought them without their attachment, which had another number.
    FOR left_behind IN
        SELECT t.tgname AS trigger, t.tgrelid AS source
          FROM pg_trigger t
          JOIN pg_proc p ON p.oid = t.tgfoid AND p.pronamespace = 'graphrag_attached'::regnamespace
         WHERE t.tgrelid = ANY (relation || graphrag_attached._under(relation)) AND t.tgparentid = 0 AND p.proname ~ '^_changed_[0-9]+$'
           AND NOT EXISTS (SELECT FROM graphrag._attached_tables a WHERE p.proname = '_changed_' || a.id)
    LOOP
        EXECUTE format('DROP TRIGGER %I ON %s', left_behind.trigger, graphrag._lock_attached(left_behind.source, 'ACCESS EXCLUSIVE'));
    END LOOP;
    PERFORM graphrag._make_attached_function(attached_id, relation, is_made_again => true);
    PERFORM graphrag._follow_partitions(attached_id, relation);
    -- Again: by its triggers the table is known, and by the table what its rows are.
    PERFORM graphrag._make_attached_function(attached_id, relation);
END
$$;
