CREATE FUNCTION graphrag.attach_entities(source regclass, corpus text, key_columns name[], name name, aliases name[] DEFAULT '{}',
    type text DEFAULT NULL, attributes name[] DEFAULT '{}', text name[] DEFAULT '{}', options jsonb DEFAULT '{}') RETURNS void
LANGUAGE plpgsql VOLATILE SET search_path = pg_catalog, pg_temp
AS $$
BEGIN
    IF num_nulls(source, corpus, key_columns, name, aliases, attributes, text) > 0 OR cardinality(key_columns) NOT BETWEEN 1 AND 32
        OR array_position(key_columns || aliases || attributes || text, NULL) IS NOT NULL THEN
        RAISE EXCEPTION 'attach_entities() needs a table, a corpus, key columns and a column of names; none can be null'
            USING ERRCODE = 'null_value_not_allowed',
                  HINT = 'For example SELECT graphrag.attach_entities(''machines'', ''default'', ARRAY[''id''], name => ''code'', attributes => ARRAY[''status'']);';
    END IF;
    PERFORM graphrag_attached._check_row_options('attach_entities', options);
    INSERT INTO graphrag._attach_requests (action, kind, source, corpus, key_columns, title_column, alias_columns, entity_type, metadata_columns,
                                           content_columns, key_prefix, where_column, valid_from_column, valid_to_column)
    VALUES ('attach', 'entities', source, corpus, key_columns, name, aliases, type, attributes, text, options ->> 'key_prefix', options ->> 'where',
            options ->> 'valid_from', options ->> 'valid_to');
END
$$;
COMMENT ON FUNCTION graphrag.attach_entities(regclass, text, name[], name, name[], text, name[], name[], jsonb) IS
    'Makes each row of a table an entity of a corpus, with its name, aliases, type (null: the name of the table) and attributes, and a document of it, whose content names them and has the columns of text. It follows the table like attach_table(). If the column of the name alone has a unique index, the row is the entity of that name that documents mention; else an entity "name (key)" that is related to it. Roles that may SELECT these columns of a row see it. Options: key_prefix (stands before the key in source_key; default: the name of the table and "/"), where, valid_from, valid_to. For the owner of the table, who may be granted EXECUTE.';

CREATE FUNCTION graphrag.attach_relationships(source regclass, corpus text, type text, to_columns name[], to_table regclass,
    from_columns name[] DEFAULT '{}', from_table regclass DEFAULT NULL, attributes name[] DEFAULT '{}', options jsonb DEFAULT '{}') RETURNS void
LANGUAGE plpgsql VOLATILE SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
    key_columns name[];
BEGIN
    IF num_nulls(source, corpus, type, to_columns, to_table, from_columns, attributes) > 0 OR cardinality(to_columns) NOT BETWEEN 1 AND 32
        OR array_position(to_columns || from_columns || attributes, NULL) IS NOT NULL THEN
        RAISE EXCEPTION 'attach_relationships() needs a table, a corpus, a type, columns and the table to which they lead; none can be null'
            USING ERRCODE = 'null_value_not_allowed',
                  HINT = 'For example SELECT graphrag.attach_relationships(''machines'', ''default'', ''stands in'', ARRAY[''plant_id''], ''plants'');';
    ELSIF (from_columns = '{}') <> (from_table IS NULL) OR cardinality(from_columns) > 32 THEN
        RAISE EXCEPTION 'attach_relationships() takes from_columns and from_table together, for a join table'
            USING ERRCODE = 'invalid_parameter_value',
                  HINT = 'Leave both out where the rows of the table are entities themselves, which attach_entities() attached.';
    END IF;
    PERFORM graphrag_attached._check_row_options('attach_relationships', options);
    IF from_table IS NULL THEN
        IF attributes <> '{}' OR options <> '{}' THEN
            RAISE EXCEPTION 'attach_relationships() takes attributes and options for a join table alone'
                USING ERRCODE = 'invalid_parameter_value', HINT = 'Give attributes of the row to attach_entities().';
        END IF;
        INSERT INTO graphrag._attach_requests (action, source, corpus, reference_type, to_columns, to_table)
        VALUES ('relate', source, corpus, type, to_columns, to_table);
        RETURN;
    END IF;
    key_columns := CASE WHEN options ? 'key_columns' THEN ARRAY(SELECT jsonb_array_elements_text(options -> 'key_columns')::name)
                   ELSE (SELECT array_agg(a.attname ORDER BY k.n)
                           FROM pg_index i
                          CROSS JOIN LATERAL unnest(i.indkey::int2[]) WITH ORDINALITY k (number, n)
                           JOIN pg_attribute a ON a.attrelid = i.indrelid AND a.attnum = k.number
                          WHERE i.indrelid = source AND i.indisprimary AND k.n <= i.indnkeyatts) END;
    -- What is no table is refused for that (_check_relation).
    IF key_columns IS NULL AND (SELECT c.relkind IN ('r', 'p') FROM pg_class c WHERE c.oid = source) THEN
        RAISE EXCEPTION 'table % has no primary key', source
            USING ERRCODE = 'invalid_parameter_value', HINT = 'Name the columns of a unique index: options => ''{"key_columns": ["a", "b"]}''.';
    END IF;
    INSERT INTO graphrag._attach_requests (action, kind, source, corpus, key_columns, metadata_columns, content_columns, key_prefix, where_column,
                                           valid_from_column, valid_to_column, reference_type, from_columns, from_table, to_columns, to_table)
    VALUES ('attach', 'relationships', source, corpus, key_columns, attributes, '{}', options ->> 'key_prefix', options ->> 'where',
            options ->> 'valid_from', options ->> 'valid_to', type, from_columns, from_table, to_columns, to_table);
END
$$;
COMMENT ON FUNCTION graphrag.attach_relationships(regclass, text, text, name[], regclass, name[], regclass, name[], jsonb) IS
    'Makes foreign keys relationships of a type. Without from_columns: from the rows'' own entities (attach_entities() attached the table) to the rows of to_table that to_columns name, in the order of the key columns by which it is attached. With from_columns and from_table: each row of a join table is a relationship from a row of the one to a row of the other, with attributes of its own. Columns need no constraint. Options, for a join table: key_columns (default: its primary key), key_prefix, where, valid_from, valid_to. For the owner of the table, who may be granted EXECUTE, and needs the privilege REFERENCES on the others.';

CREATE FUNCTION graphrag_attached._check_row_options(function text, options jsonb) RETURNS void
LANGUAGE plpgsql IMMUTABLE SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
    wrong text;
BEGIN
    IF jsonb_typeof(options) IS DISTINCT FROM 'object' THEN
        RAISE EXCEPTION 'options of %() must be an object, not %', function, coalesce(jsonb_typeof(options), 'null')
            USING ERRCODE = 'invalid_parameter_value', HINT = 'For example options => ''{"key_prefix": "machines/", "where": "is_public"}''.';
    END IF;
    SELECT min(o.key) INTO wrong
      FROM jsonb_each(options) o
     WHERE NOT (o.key IN ('key_prefix', 'where', 'valid_from', 'valid_to') OR o.key = 'key_columns' AND function = 'attach_relationships')
        OR jsonb_typeof(o.value) IS DISTINCT FROM CASE o.key WHEN 'key_columns' THEN 'array' ELSE 'string' END
        OR o.key = 'key_columns' AND (SELECT count(*) FILTER (WHERE jsonb_typeof(e.value) <> 'string') > 0 OR count(*) = 0 OR count(*) > 32
                                        FROM jsonb_array_elements(CASE jsonb_typeof(o.value) WHEN 'array' THEN o.value ELSE '[]' END) e);
    IF wrong IS NOT NULL THEN
        RAISE EXCEPTION 'option "%" of %() cannot be %', left(wrong, 100), function, left(options ->> wrong, 200) USING ERRCODE = 'invalid_parameter_value',
            HINT = 'Options are key_prefix (a text of at most 200 bytes), where, valid_from and valid_to (a column each), and for a join table key_columns (a list of columns).';
    END IF;
END
$$;

-- Does what attach_entities() and attach_relationships() ask for. Anyone may have written the request: everything is checked here.
CREATE FUNCTION graphrag._attach_rows(request graphrag._attach_requests) RETURNS void
LANGUAGE plpgsql VOLATILE SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
    function CONSTANT text := CASE WHEN request.action = 'attach' AND request.kind = 'entities'
        THEN 'graphrag.attach_entities(regclass, text, name[], name, name[], text, name[], name[], jsonb)'
        ELSE 'graphrag.attach_relationships(regclass, text, text, name[], regclass, name[], regclass, name[], jsonb)' END;
    owner name := (SELECT pg_get_userbyid(c.relowner) FROM pg_class c WHERE c.oid = request.source);
    attached int;
    ends graphrag._attached_tables[];
    wrong text;
BEGIN
    IF NOT has_function_privilege(request.caller, function, 'EXECUTE') THEN
        RAISE EXCEPTION 'role "%" may not call %', request.caller, regexp_replace(function, '\(.*', '()')
            USING ERRCODE = 'insufficient_privilege',
                  HINT = format('The owner of the extension gives it: GRANT EXECUTE ON FUNCTION %s TO the role.', regexp_replace(function, '\(.*', ''));
    END IF;
    PERFORM graphrag._check_may_act_for(owner);
    IF request.action = 'attach' THEN
        -- A policy of documents is made under a lock that stops everybody, to the end of the transaction.
        IF NOT pg_has_role(request.caller, (SELECT c.relowner FROM pg_class c WHERE c.oid = 'graphrag.corpora'::regclass), 'USAGE')
            AND NOT graphrag._has_row_policy() THEN
            RAISE EXCEPTION 'documents have no row-level security for rows yet'
                USING ERRCODE = 'object_not_in_prerequisite_state',
                      HINT = 'The owner of the extension calls SELECT graphrag.repair(); once, after the GRANT on this function.';
        END IF;
        request.key_prefix := coalesce(request.key_prefix, (SELECT c.relname FROM pg_class c WHERE c.oid = request.source) || '/');
        IF request.kind = 'entities' THEN
            request.entity_type := coalesce(request.entity_type, (SELECT c.relname FROM pg_class c WHERE c.oid = request.source));
        END IF;
        request.alias_columns := coalesce(request.alias_columns, '{}');
        -- A view has no keys to ask for, and what it is of is for its owner to know.
        PERFORM graphrag._check_owner(request.caller, request.source);
        PERFORM graphrag._check_relation(request.source);
        wrong := CASE
            WHEN request.kind NOT IN ('entities', 'relationships') THEN format('kind %s', request.kind)
            WHEN num_nulls(request.corpus, request.key_columns, request.content_columns, request.metadata_columns) > 0
                OR array_position(request.key_columns || request.content_columns || request.metadata_columns || request.alias_columns, NULL) IS NOT NULL
                OR cardinality(request.key_columns) NOT BETWEEN 1 AND 32 THEN 'columns that are null'
            WHEN request.kind = 'entities' AND request.title_column IS NULL THEN 'no column of names'
            WHEN request.kind = 'relationships' AND request.alias_columns || request.content_columns || request.title_column <> ARRAY[NULL::name]
                THEN 'names or texts of a join table'
            WHEN octet_length(request.key_prefix) NOT BETWEEN 1 AND 200 THEN format('the key_prefix "%s"', left(request.key_prefix, 250))
            WHEN request.kind = 'entities' AND NOT graphrag._is_label(request.entity_type) THEN format('the type "%s"', left(request.entity_type, 250))
        END;
        IF wrong IS NOT NULL THEN
            RAISE EXCEPTION 'rows cannot be attached with %', wrong USING ERRCODE = 'invalid_parameter_value',
                HINT = 'Give a key_prefix of 1 to 200 bytes, and a type of at most 64 characters on one line without ":".';
        END IF;
    ELSE
        SELECT a.id INTO attached
          FROM graphrag._attached_tables a JOIN graphrag.corpora c ON c.id = a.corpus_id
         WHERE a.kind = 'entities' AND graphrag_attached._relation(a) = request.source AND c.name = request.corpus
           FOR UPDATE OF a;
        IF NOT FOUND THEN
            RAISE EXCEPTION 'rows of table % are not entities of corpus "%"', request.source::regclass, request.corpus
                USING ERRCODE = 'object_not_in_prerequisite_state',
                      HINT = 'Attach it first with graphrag.attach_entities(), or as a join table with from_columns and from_table.';
        END IF;
        PERFORM graphrag._check_owner(request.caller, request.source);
        PERFORM graphrag._check_may_feed(a, owner) FROM graphrag._attached_tables a WHERE a.id = attached;
    END IF;
    IF request.action = 'relate' OR request.kind = 'relationships' THEN
        IF NOT graphrag._is_label(request.reference_type) THEN
            RAISE EXCEPTION 'relationships cannot have the type "%"', left(request.reference_type, 250) USING ERRCODE = 'invalid_parameter_value',
                HINT = 'Give a type of at most 64 characters on one line without ":".';
        END IF;
        ends := CASE request.action WHEN 'attach' THEN ARRAY[graphrag._referenced(request, request.from_table, request.from_columns)] END
                || graphrag._referenced(request, request.to_table, request.to_columns);
    END IF;
    IF request.action = 'attach' THEN
        PERFORM graphrag._check_attachable(request);
        IF EXISTS (SELECT FROM graphrag._attachments v WHERE v.corpus = request.corpus AND v.key_prefix = request.key_prefix) THEN
            RAISE EXCEPTION 'corpus "%" has an attached table whose keys begin with "%" already', request.corpus, request.key_prefix
                USING ERRCODE = 'object_not_in_prerequisite_state', HINT = 'Give another: options => ''{"key_prefix": "sales.orders/"}''.';
        END IF;
        PERFORM graphrag._attach(request);
        SELECT v.id INTO attached FROM graphrag._attachments v WHERE v.corpus = request.corpus AND v.relation = request.source;
    END IF;
    IF ends IS NOT NULL THEN
        UPDATE graphrag._attached_tables a
           SET reference_columns = a.reference_columns || request.from_columns || request.to_columns,
               reference_types = a.reference_types || CASE request.action WHEN 'attach' THEN ARRAY['from'] END || request.reference_type,
               reference_prefixes = a.reference_prefixes || ARRAY(SELECT e.key_prefix FROM unnest(ends) WITH ORDINALITY e ORDER BY e.ordinality),
               reference_by_name = a.reference_by_name
                                   || ARRAY(SELECT e.key_columns = ARRAY[e.title_column] FROM unnest(ends) WITH ORDINALITY e ORDER BY e.ordinality),
               reference_widths = a.reference_widths || CASE request.action WHEN 'attach' THEN ARRAY[cardinality(request.from_columns)] END || cardinality(request.to_columns)
         WHERE a.id = attached;
    END IF;
    PERFORM graphrag._settle_references(a.corpus_id) FROM graphrag._attached_tables a WHERE a.id = attached;
    SELECT min(u.name) INTO wrong
      FROM (SELECT u.name FROM graphrag._attached_tables a
             CROSS JOIN LATERAL unnest(a.metadata_keys::text[] || a.reference_types || CASE WHEN a.alias_columns = '{}' THEN '{}' ELSE ARRAY['aliases', 'alias'] END) u (name)
             WHERE a.id = attached GROUP BY u.name HAVING count(*) > 1) u;
    IF wrong IS NOT NULL THEN
        RAISE EXCEPTION 'the rows would have two values called "%"', wrong USING ERRCODE = 'duplicate_column',
            HINT = 'Attributes, types of relationships, "alias", "aliases" and of a join table "from" are fields of a row: give the relationship another type, or leave the attribute out.';
    END IF;
    PERFORM graphrag_attached._check_columns(v) FROM graphrag_attached._attachments v WHERE v.id = attached;
    PERFORM graphrag._see_attached(attached);
    PERFORM graphrag._queue_attached(attached);
    IF request.action = 'attach' THEN
        PERFORM graphrag._warn_of_unseen(ARRAY[attached]);
    END IF;
END
$$;

-- Notes of a corpus' attachments whether relationships lead to their rows: those are mentioned by their keys too. Where that has changed,
-- the rows are indexed again, also those that a worker has at hand.
CREATE FUNCTION graphrag._settle_references(corpus_id int) RETURNS void
LANGUAGE plpgsql VOLATILE SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
    changed int[];
BEGIN
    WITH led AS (
        SELECT a.id, EXISTS (SELECT FROM graphrag._attached_tables o
                              WHERE o.corpus_id = a.corpus_id AND a.key_prefix = ANY (o.reference_prefixes)) AS is_referenced
          FROM graphrag._attached_tables a
         WHERE a.corpus_id = _settle_references.corpus_id AND a.kind = 'entities'
    ), settled AS (
        UPDATE graphrag._attached_tables a SET is_referenced = led.is_referenced
          FROM led WHERE a.id = led.id AND a.is_referenced <> led.is_referenced RETURNING a.id
    )
    SELECT array_agg(s.id) INTO changed FROM settled s;
    UPDATE graphrag.documents d SET indexed_at = NULL WHERE d.attached_id = ANY (changed) AND d.indexed_at IS NOT NULL;
    PERFORM graphrag._requeue_jobs('index', array_agg(j.corpus_id), array_agg(j.document_id))
       FROM graphrag.documents d
       JOIN graphrag.jobs j ON j.document_id = d.id AND j.chunks IS NULL AND j.kind IN ('index', 'graph')
      WHERE d.attached_id = ANY (changed) AND d.indexed_at IS NULL;
END
$$;

-- Whether a text can stand before the ":" of a line.
CREATE FUNCTION graphrag._is_label(label text) RETURNS boolean
LANGUAGE sql IMMUTABLE
BEGIN ATOMIC
    SELECT coalesce(pg_catalog.char_length(label) BETWEEN 1 AND 64 AND label !~ '[:[:cntrl:]]' AND label = pg_catalog.btrim(label), false);
END;

-- The attachment to whose rows columns lead.
CREATE FUNCTION graphrag._referenced(request graphrag._attach_requests, target oid, columns name[]) RETURNS graphrag._attached_tables
LANGUAGE plpgsql STABLE SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
    attached graphrag._attached_tables;
BEGIN
    SELECT a.* INTO attached
      FROM graphrag._attached_tables a JOIN graphrag.corpora c ON c.id = a.corpus_id
     WHERE a.kind = 'entities' AND graphrag_attached._relation(a) = target AND c.name = request.corpus;
    IF NOT FOUND THEN
        RAISE EXCEPTION 'rows of table % are not entities of corpus "%"', coalesce(target::regclass::text, 'null'), request.corpus
            USING ERRCODE = 'object_not_in_prerequisite_state', HINT = 'Attach it first with graphrag.attach_entities().';
    ELSIF NOT has_table_privilege(request.caller, target, 'REFERENCES') THEN
        RAISE EXCEPTION 'permission denied for table %', target::regclass USING ERRCODE = 'insufficient_privilege',
            HINT = format('Its owner can GRANT REFERENCES ON %s TO %I.', target::regclass, request.caller);
    ELSIF cardinality(columns) IS DISTINCT FROM cardinality(attached.key_columns) OR array_position(columns, NULL) IS NOT NULL THEN
        RAISE EXCEPTION 'table % has a key of % columns, and % are given', target::regclass, cardinality(attached.key_columns), coalesce(cardinality(columns), 0)
            USING ERRCODE = 'invalid_parameter_value',
                  HINT = format('Give them in the order of %s.', (SELECT string_agg(format('"%s"', k), ', ') FROM unnest(attached.key_columns) k));
    END IF;
    RETURN attached;
END
$$;
