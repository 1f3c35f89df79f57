-- How attach_table(), attach_entities(), attach_relationships() and detach_table() prove who calls them. Inside SECURITY DEFINER nobody can tell: session_user is the
-- superuser whose ANALYZE or REFRESH MATERIALIZED VIEW runs an attacker's function. A column default says it: `caller` is
-- whoever runs the INSERT, and cannot be given. The trigger does the work and keeps no row.
CREATE TABLE graphrag._attach_requests (
    caller            name    NOT NULL DEFAULT current_user,
    action            text    NOT NULL,
    source            oid     NOT NULL,
    corpus            text,
    key_columns       name[],
    content_columns   name[],
    title_column      name,
    metadata_columns  name[],
    keep_documents    boolean,
    key_prefix        text,
    where_column      name,
    valid_from_column name,
    valid_to_column   name,
    kind              text,
    entity_type       text,
    alias_columns     name[],
    reference_type    text,
    from_columns      name[],
    from_table        oid,
    to_columns        name[],
    to_table          oid,
    CONSTRAINT attach_requests_action_check CHECK (action IN ('attach', 'relate', 'detach'))
);

CREATE FUNCTION graphrag.attach_table(source regclass, corpus text, key_column name, content_columns name[],
    title_column name DEFAULT NULL, metadata_columns name[] DEFAULT '{}', options jsonb DEFAULT '{}') RETURNS void
LANGUAGE plpgsql VOLATILE SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
    wrong text;
    key_columns name[];
BEGIN
    IF jsonb_typeof(options) IS DISTINCT FROM 'object' THEN
        RAISE EXCEPTION 'options of attach_table() must be an object, not %', coalesce(jsonb_typeof(options), 'null')
            USING ERRCODE = 'invalid_parameter_value', HINT = 'For example options => ''{"key_prefix": "articles/", "where": "is_public"}''.';
    END IF;
    SELECT min(o.key) INTO wrong
      FROM jsonb_each(options) o
     WHERE o.key NOT IN ('key_columns', 'key_prefix', 'where', 'valid_from', 'valid_to')
        OR jsonb_typeof(o.value) IS DISTINCT FROM CASE o.key WHEN 'key_columns' THEN 'array' ELSE 'string' END
        OR o.key = 'key_columns' AND (SELECT count(*) FILTER (WHERE jsonb_typeof(e.value) <> 'string') > 0 OR count(*) = 0 OR count(*) > 32
                                        FROM jsonb_array_elements(CASE jsonb_typeof(o.value) WHEN 'array' THEN o.value ELSE '[]' END) e)
        OR o.key = 'key_prefix' AND (octet_length(o.value #>> '{}') > 200 OR o.value #>> '{}' = '');
    IF wrong IS NOT NULL THEN
        RAISE EXCEPTION 'option "%" of attach_table() cannot be %', left(wrong, 100), left(options ->> wrong, 200) USING ERRCODE = 'invalid_parameter_value',
            HINT = 'Options are key_columns (a list of columns), key_prefix (a text of at most 200 bytes), where, valid_from and valid_to (a column each).';
    END IF;
    IF options ? 'key_columns' AND key_column IS NOT NULL THEN
        RAISE EXCEPTION 'attach_table() takes key_column or the option key_columns, not both' USING ERRCODE = 'invalid_parameter_value',
            HINT = 'For a key of several columns: key_column => NULL, options => ''{"key_columns": ["a", "b"]}''.';
    END IF;
    key_columns := CASE WHEN options ? 'key_columns' THEN ARRAY(SELECT jsonb_array_elements_text(options -> 'key_columns')::name) ELSE ARRAY[key_column] END;
    IF num_nulls(source, corpus, content_columns, metadata_columns) > 0 OR cardinality(content_columns) = 0
        OR array_position(content_columns || metadata_columns || key_columns, NULL) IS NOT NULL THEN
        RAISE EXCEPTION 'attach_table() needs a table, a corpus, a key column and one content column at least; none can be null'
            USING ERRCODE = 'null_value_not_allowed',
                  HINT = 'For example SELECT graphrag.attach_table(''articles'', ''default'', ''id'', ARRAY[''body''], title_column => ''headline'');'
                         ' for a key of several columns: key_column => NULL, options => ''{"key_columns": ["a", "b"]}''.';
    END IF;
    INSERT INTO graphrag._attach_requests (action, source, corpus, key_columns, content_columns, title_column, metadata_columns, key_prefix, where_column,
                                           valid_from_column, valid_to_column)
    VALUES ('attach', source, corpus, key_columns, content_columns, title_column, metadata_columns, coalesce(options ->> 'key_prefix', ''),
            options ->> 'where', options ->> 'valid_from', options ->> 'valid_to');
END
$$;
COMMENT ON FUNCTION graphrag.attach_table(regclass, text, name, name[], name, name[], jsonb) IS
    'Makes the rows of a table documents of a corpus (source_key: the key as text) and keeps them so: INSERT, UPDATE, DELETE, COPY, MERGE and TRUNCATE follow in the same transaction. Workers bring in existing rows if the extension''s owner owns the table; else its owner does: CALL backfill_table(). Options: key_columns (a key of several columns, joined by "/"; key_column is null then), key_prefix (stands before the key), where (a boolean column that says which rows are documents), valid_from and valid_to (columns of dates). Columns are followed when they are renamed; a change that cannot be followed marks the attachment in attached_tables, and never fails a statement on the table. For the owner of the table, who may be granted EXECUTE. Partitions may be written directly, attached and detached. Rows that logical replication applies follow with the next worker.';

-- Does what a request asks for, with the rights of the extension's owner and for the caller the row names.
CREATE FUNCTION graphrag._attach_requested() RETURNS trigger
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
    attached record;
    found_one boolean := false;
    had_rows boolean := false;
    referring text;
BEGIN
    IF NEW.action = 'relate' OR NEW.action = 'attach' AND NEW.kind <> 'documents' THEN
        PERFORM graphrag._attach_rows(NEW);
        RETURN NULL;
    END IF;
    IF NEW.action = 'attach' THEN
        IF NOT has_function_privilege(NEW.caller, 'graphrag.attach_table(regclass, text, name, name[], name, name[], jsonb)', 'EXECUTE') THEN
            RAISE EXCEPTION 'role "%" may not call graphrag.attach_table()', NEW.caller
                USING ERRCODE = 'insufficient_privilege', HINT = 'The owner of the extension gives it: GRANT EXECUTE ON FUNCTION graphrag.attach_table TO the role.';
        END IF;
        PERFORM graphrag._check_may_act_for(pg_get_userbyid(c.relowner)) FROM pg_class c WHERE c.oid = NEW.source;
        PERFORM graphrag._check_attachable(NEW);
        PERFORM graphrag._attach(NEW);
        RETURN NULL;
    END IF;
    IF NOT has_function_privilege(NEW.caller, 'graphrag.detach_table(regclass, text, boolean)', 'EXECUTE') THEN
        RAISE EXCEPTION 'role "%" may not call graphrag.detach_table()', NEW.caller
            USING ERRCODE = 'insufficient_privilege', HINT = 'The owner of the extension gives it: GRANT EXECUTE ON FUNCTION graphrag.detach_table TO the role.';
    END IF;
    FOR attached IN
        SELECT a.id, a.corpus_id, a.kind, a.key_prefix, graphrag_attached._relation(a) AS relation
          FROM graphrag._attached_tables a
          JOIN graphrag.corpora c ON c.id = a.corpus_id
         WHERE coalesce(graphrag_attached._relation(a), a.relation) = NEW.source AND (NEW.corpus IS NULL OR c.name = NEW.corpus)
         ORDER BY a.id
    LOOP
        -- The owner of a table that is gone is unknown; the extension's owner cleans up.
        PERFORM graphrag._check_owner(NEW.caller, coalesce(attached.relation, 'graphrag._attached_tables'::regclass));
        IF NOT NEW.keep_documents THEN
            PERFORM graphrag._check_may_feed(a, NEW.caller) FROM graphrag._attached_tables a WHERE a.id = attached.id;
        END IF;
        PERFORM graphrag._detach(attached.id, NEW.keep_documents);
        PERFORM graphrag._settle_references(attached.corpus_id);
        SELECT string_agg(format('%I.%I', o.schema_name, o.table_name), ', ' ORDER BY o.id) INTO referring
          FROM graphrag._attached_tables o
         WHERE o.corpus_id = attached.corpus_id AND attached.key_prefix = ANY (o.reference_prefixes);
        IF attached.kind = 'entities' AND referring IS NOT NULL THEN
            RAISE NOTICE 'relationships of % still lead to rows of table %, whose keys begin with "%"', referring, NEW.source::regclass, attached.key_prefix
                USING HINT = 'Attach it again by the same key and key_prefix, or detach and attach them too.';
        END IF;
        found_one := true;
        had_rows := had_rows OR attached.kind <> 'documents';
    END LOOP;
    -- Not for others to lock documents by: their policy stays until the owner changes something.
    IF had_rows AND pg_has_role(NEW.caller, (SELECT c.relowner FROM pg_class c WHERE c.oid = 'graphrag.corpora'::regclass), 'USAGE') THEN
        PERFORM graphrag._settle_policies();
    END IF;
    IF NOT found_one THEN
        RAISE EXCEPTION 'table % is not attached%', NEW.source::regclass, ' to corpus ' || quote_ident(NEW.corpus)
            USING ERRCODE = 'undefined_object', HINT = 'See graphrag.attached_tables.';
    END IF;
    RETURN NULL;
END
$$;
CREATE TRIGGER attach_by BEFORE INSERT ON graphrag._attach_requests
    FOR EACH ROW EXECUTE FUNCTION graphrag._set_caller();
CREATE TRIGGER attach_requested BEFORE INSERT ON graphrag._attach_requests
    FOR EACH ROW EXECUTE FUNCTION graphrag._attach_requested();

-- Whether a role may write the documents of a corpus: as the owner of the extension, or by an INSERT on documents that policies of
-- ours let through.
CREATE FUNCTION graphrag._may_write(role name, corpus_id int) RETURNS boolean
LANGUAGE plpgsql STABLE SET search_path = pg_catalog, pg_temp
AS $$
BEGIN
    RETURN pg_has_role(role, (SELECT e.extowner FROM pg_extension e WHERE e.extname = 'pg_graphrag'), 'USAGE')
        OR (SELECT bool_and(has_column_privilege(role, 'graphrag.documents', c.name, 'INSERT'))
              FROM unnest(ARRAY['corpus', 'source_key', 'title', 'content', 'metadata']) c (name))
           AND (NOT pg_has_role(role, 'graphrag_writer', 'USAGE')
                OR EXISTS (SELECT FROM graphrag.corpus_grants g
                             JOIN pg_roles r ON r.oid = g.role_oid AND r.rolname = g.role
                            WHERE g.corpus_id = _may_write.corpus_id AND g.level = 'write' AND pg_has_role(_may_write.role, r.oid, 'USAGE')));
END
$$;

-- The name of a relation whose schema keeps its name until this transaction ends: nobody puts another under it meanwhile.
CREATE FUNCTION graphrag._held_name(relation oid) RETURNS text
LANGUAGE plpgsql VOLATILE SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
    schema_id oid := (SELECT c.relnamespace FROM pg_class c WHERE c.oid = relation);
BEGIN
    PERFORM graphrag._hold_schemas(ARRAY[schema_id], (SELECT c.relowner FROM pg_class c WHERE c.oid = relation));
    RETURN (SELECT quote_ident(n.nspname) || '.' || quote_ident(c.relname)
              FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace WHERE c.oid = relation AND n.oid = schema_id);
END
$$;

-- Locks a table for its number: whatever has its name.
CREATE FUNCTION graphrag._lock_attached(relation oid, mode text) RETURNS text
LANGUAGE plpgsql VOLATILE SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
    name text := graphrag._held_name(relation);
BEGIN
    EXECUTE format('LOCK TABLE %s IN %s MODE', name, mode);
    IF to_regclass(name) IS DISTINCT FROM relation THEN
        RAISE EXCEPTION 'table % was changed by others meanwhile', name
            USING ERRCODE = 'object_not_in_prerequisite_state', HINT = 'Try again.';
    END IF;
    RETURN name;
END
$$;

CREATE FUNCTION graphrag._check_owner(caller name, relation oid) RETURNS void
LANGUAGE plpgsql STABLE SET search_path = pg_catalog, pg_temp
AS $$
BEGIN
    IF NOT (SELECT pg_has_role(caller, c.relowner, 'USAGE') FROM pg_class c WHERE c.oid = relation) THEN
        RAISE EXCEPTION 'must be owner of table %', relation::regclass USING ERRCODE = 'insufficient_privilege',
            HINT = format('Role "%s" owns it.', (SELECT pg_get_userbyid(c.relowner) FROM pg_class c WHERE c.oid = relation));
    END IF;
END
$$;

-- Registers a checked request: the attachment, its triggers, and the job for the rows that exist.
CREATE FUNCTION graphrag._attach(request graphrag._attach_requests) RETURNS void
LANGUAGE plpgsql VOLATILE SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
    attached int;
BEGIN
    INSERT INTO graphrag._attached_tables (corpus_id, relation, schema_name, table_name, content_columns, title_column, metadata_columns, needs_grant,
                                           key_columns, key_prefix, metadata_keys, where_column, valid_from_column, valid_to_column,
                                           kind, entity_type, name_is_unique, alias_columns)
    SELECT k.id, c.oid, n.nspname, c.relname, request.content_columns, request.title_column, request.metadata_columns,
           NOT pg_has_role(request.caller, e.extowner, 'USAGE'),
           request.key_columns, request.key_prefix, request.metadata_columns, request.where_column, request.valid_from_column, request.valid_to_column,
           coalesce(request.kind, 'documents'), request.entity_type,
           coalesce(request.kind = 'entities' AND graphrag_attached._is_unique(request.source, request.title_column), false),
           coalesce(request.alias_columns, '{}')
      FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace, graphrag.corpora k, pg_extension e
     WHERE c.oid = request.source AND k.name = request.corpus AND e.extname = 'pg_graphrag'
    RETURNING id INTO attached;
    PERFORM graphrag._make_attached_triggers(attached, request.source);
    PERFORM graphrag_attached._check_columns(v) FROM graphrag_attached._attachments v WHERE v.id = attached;
    PERFORM graphrag._see_attached(attached);
    PERFORM graphrag._queue_attached(attached);
    PERFORM graphrag._notice_waiting(attached);
END
$$;

-- An update from a version whose triggers were other ones says which tables had them. A new installation has no attachment, whatever
-- somebody (ALTER DATABASE … SET) has the setting say.
SELECT graphrag._make_attached_triggers(a.id, u.value::oid)
  FROM graphrag._attached_tables a
  JOIN pg_catalog.jsonb_each_text(coalesce(nullif(pg_catalog.current_setting('graphrag.attached_relations', true), ''), '{}')::jsonb) u
    ON u.key = a.id::text;
