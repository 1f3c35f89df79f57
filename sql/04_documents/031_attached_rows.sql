-- Type of a column, domains looked through. `trusted`: made by a superuser, so that nobody else can have put code of his
-- own into its casts and operators.
-- (PL/pgSQL throughout: it keeps plans, and every statement on an attached table comes here.)
CREATE FUNCTION graphrag_attached._type(relation oid, column_name name, OUT base oid, OUT is_domain boolean, OUT trusted boolean)
LANGUAGE plpgsql STABLE SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
    t record;
BEGIN
    SELECT a.atttypid INTO base
      FROM pg_attribute a WHERE a.attrelid = relation AND a.attname = column_name AND a.attnum > 0 AND NOT a.attisdropped;
    is_domain := false;
    LOOP
        SELECT y.typtype, y.typcategory, y.typelem, y.typbasetype, o.rolsuper INTO t
          FROM pg_type y JOIN pg_roles o ON o.oid = y.typowner WHERE y.oid = base;
        EXIT WHEN t.typtype IS DISTINCT FROM 'd';
        base := t.typbasetype;
        is_domain := true;
    END LOOP;
    trusted := t.typtype <> 'c' AND t.rolsuper;
    IF trusted AND t.typcategory = 'A' THEN
        SELECT y.typtype NOT IN ('c', 'd') AND o.rolsuper INTO trusted
          FROM pg_type y JOIN pg_roles o ON o.oid = y.typowner WHERE y.oid = t.typelem;
    END IF;
END
$$;

-- SQL for the value of a column of row r without its domain, and for its text. Casts of untrusted types are never called:
-- concat() calls the type's output function only.
CREATE FUNCTION graphrag_attached._value(relation oid, column_name name, OUT value text, OUT as_text text)
LANGUAGE plpgsql STABLE SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
    t record := graphrag_attached._type(relation, column_name);
BEGIN
    IF NOT t.trusted THEN
        value := format('CASE WHEN NOT r.%1$I IS NULL THEN concat(r.%1$I) COLLATE "C" END', column_name);
        as_text := value;
    ELSE
        value := format(CASE WHEN t.is_domain THEN 'r.%I::%s' ELSE 'r.%I' END, column_name, format_type(t.base, -1));
        as_text := value || '::text COLLATE "C"';
        IF t.base IN ('json'::regtype, 'json[]'::regtype) THEN
            value := format('graphrag_attached._as_jsonb(to_json(%s), %s)', value, as_text);
        END IF;
    END IF;
END
$$;

-- SQL for the text of a column by which rows are named and found, the same of equal values: a foreign key may have 1 where the key has 1.00.
CREATE FUNCTION graphrag_attached._key_text(relation oid, column_name name) RETURNS text
LANGUAGE plpgsql STABLE SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
    v record := graphrag_attached._value(relation, column_name);
BEGIN
    RETURN CASE WHEN (graphrag_attached._type(relation, column_name)).base = 'numeric'::regtype THEN format('trim_scale(%s)::text COLLATE "C"', v.value)
           ELSE v.as_text END;
END
$$;

-- Whether a column is an array whose elements can be read one by one.
CREATE FUNCTION graphrag_attached._is_list(relation oid, column_name name) RETURNS boolean
LANGUAGE plpgsql STABLE SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
    t record := graphrag_attached._type(relation, column_name);
BEGIN
    RETURN t.trusted AND (SELECT y.typcategory = 'A' FROM pg_type y WHERE y.oid = t.base);
END
$$;

-- A json as jsonb; as its text where jsonb has no place for it (\u0000, half of a surrogate pair, a number or a depth beyond its limits).
CREATE FUNCTION graphrag_attached._as_jsonb(value json, as_text text) RETURNS jsonb
LANGUAGE plpgsql IMMUTABLE SET search_path = pg_catalog, pg_temp
AS $$
BEGIN
    RETURN value::jsonb;
EXCEPTION WHEN data_exception OR program_limit_exceeded THEN
    RETURN to_jsonb(as_text);
END
$$;

-- SQL for a column of dates as a timestamp: a day after the last one is the end of time. Null for no column.
CREATE FUNCTION graphrag_attached._moment(relation oid, column_name name) RETURNS text
LANGUAGE plpgsql STABLE SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
    moment text;
BEGIN
    IF column_name IS NULL THEN
        RETURN 'NULL::timestamptz';
    END IF;
    moment := (graphrag_attached._value(relation, column_name)).value;
    IF (graphrag_attached._type(relation, column_name)).base = 'date'::regtype THEN
        moment := format('CASE WHEN %1$s > ''294276-12-30''::date THEN ''infinity'' ELSE %1$s END', moment);
    END IF;
    RETURN moment || '::timestamptz';
END
$$;

-- The unique index that makes a column a key: of this column alone or, on a partitioned table, led by it and completed by
-- columns of the partition key, without which no index there can be unique. Null when there is none.
CREATE FUNCTION graphrag_attached._key_index(relation oid, column_name name) RETURNS oid
LANGUAGE plpgsql STABLE SET search_path = pg_catalog, pg_temp
AS $$
BEGIN
    RETURN (SELECT i.indexrelid
      FROM pg_index i
      JOIN pg_attribute a ON a.attrelid = i.indrelid AND a.attnum = i.indkey[0]
      LEFT JOIN pg_partitioned_table p ON p.partrelid = i.indrelid
     WHERE i.indrelid = relation AND a.attname = column_name AND a.attnotnull
       AND i.indisunique AND i.indisvalid AND i.indimmediate AND i.indpred IS NULL AND i.indexprs IS NULL
       AND NOT EXISTS (SELECT FROM generate_series(1, i.indnkeyatts - 1) n
                        WHERE (i.indkey[n] = ANY (p.partattrs::int2[])) IS NOT TRUE)
     ORDER BY i.indnkeyatts, i.indisprimary DESC, i.indexrelid
     LIMIT 1);
END
$$;

-- The unique index of the key: of one column as above; of several, of exactly these in any order, each NOT NULL. Null when there is none.
CREATE FUNCTION graphrag_attached._keys_index(relation oid, column_names name[]) RETURNS oid
LANGUAGE plpgsql STABLE SET search_path = pg_catalog, pg_temp
AS $$
BEGIN
    IF cardinality(column_names) = 1 THEN
        RETURN graphrag_attached._key_index(relation, column_names[1]);
    END IF;
    RETURN (SELECT i.indexrelid
      FROM pg_index i
     WHERE i.indrelid = relation AND i.indisunique AND i.indisvalid AND i.indimmediate AND i.indpred IS NULL AND i.indexprs IS NULL
       AND i.indnkeyatts = cardinality(column_names)
       AND i.indnkeyatts = (SELECT count(*) FROM pg_attribute a
                             WHERE a.attrelid = relation AND a.attnum = ANY ((i.indkey::int2[])[0:i.indnkeyatts - 1])
                               AND a.attnotnull AND a.attname = ANY (column_names))
     ORDER BY i.indisprimary DESC, i.indexrelid
     LIMIT 1);
END
$$;

-- The source key of several key values: joined by "/"; what is "/" or "\" in a value has a "\" before it.
CREATE FUNCTION graphrag_attached._joined(key_values text[]) RETURNS text
LANGUAGE sql IMMUTABLE
BEGIN ATOMIC
    SELECT pg_catalog.string_agg(pg_catalog.replace(pg_catalog.replace(u.value, '\', '\\'), '/', '\/'), '/' ORDER BY u.n)
      FROM pg_catalog.unnest(key_values) WITH ORDINALITY u (value, n);
END;

-- The values that _joined() made the key of.
CREATE FUNCTION graphrag_attached._split(source_key text) RETURNS text[]
LANGUAGE sql IMMUTABLE
BEGIN ATOMIC
    SELECT pg_catalog.array_agg(pg_catalog.regexp_replace(m.match[1], '\\(.)', '\1', 'g') ORDER BY m.n)
      FROM pg_catalog.regexp_matches(source_key || '/', '((?:[^\\/]|\\.)*)/', 'g') WITH ORDINALITY m (match, n);
END;

-- SQL for the values of the key columns, as text, of what `source_key` is SQL for.
CREATE FUNCTION graphrag_attached._parsed(key_prefix text, count int, source_key text) RETURNS text[]
LANGUAGE plpgsql IMMUTABLE SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
    rest text := CASE key_prefix WHEN '' THEN source_key
                 ELSE format('CASE WHEN starts_with(%1$s, %2$L) THEN substr(%1$s, %3$s) END', source_key, key_prefix, length(key_prefix) + 1) END;
BEGIN
    RETURN CASE count WHEN 1 THEN ARRAY[rest]
           ELSE ARRAY(SELECT format('(graphrag_attached._split(%s))[%s]', rest, n) FROM generate_series(1, count) n) END;
END
$$;

-- Refuses an attachment that cannot be followed: 42703 where a column is gone, 42804 where one has a type that it cannot have, 55000
-- where the key is no longer one.
CREATE FUNCTION graphrag_attached._check_columns(a graphrag_attached._attachments) RETURNS void
LANGUAGE plpgsql STABLE SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
    source text := format('%I.%I', a.schema_name, a.table_name);
    wrong text;
BEGIN
    SELECT string_agg(format('"%s"', u.name), ', ' ORDER BY u.name) INTO wrong
      FROM (SELECT DISTINCT x.name
              FROM unnest(ARRAY[a.title_column, a.where_column, a.valid_from_column, a.valid_to_column]
                          || graphrag_attached._listed_columns(a)) x (name)) u
     WHERE u.name IS NOT NULL AND (graphrag_attached._type(a.relation, u.name)).base IS NULL;
    IF wrong IS NOT NULL THEN
        RAISE EXCEPTION 'table % is attached to corpus "%" by columns it no longer has: %', source, a.corpus, wrong
            USING ERRCODE = 'undefined_column',
                  HINT = format('SELECT graphrag.detach_table(%L, %L); then attach it again with the columns it has. Unchanged documents are not indexed anew.',
                                source, a.corpus);
    END IF;
    SELECT string_agg(format('"%s" (%s)', u.name, format_type(y.oid, NULL)), ', ' ORDER BY u.name) INTO wrong
      FROM (SELECT a.where_column AS name, ARRAY['bool'::regtype] AS types
             UNION ALL
            SELECT x.name, ARRAY['date'::regtype, 'timestamp'::regtype, 'timestamptz'::regtype]
              FROM unnest(ARRAY[a.valid_from_column, a.valid_to_column]) x (name)
             UNION ALL
            SELECT x.name, NULL FROM unnest(a.content_columns || a.alias_columns || a.title_column) x (name)) u
     CROSS JOIN LATERAL (SELECT (graphrag_attached._type(a.relation, u.name)).base AS oid) y
     WHERE u.name IS NOT NULL AND CASE WHEN u.types IS NULL THEN y.oid = 'bytea'::regtype ELSE y.oid <> ALL (u.types::oid[]) END;
    IF wrong IS NOT NULL THEN
        RAISE EXCEPTION 'table % cannot be attached to corpus "%" by the types of these columns: %', source, a.corpus, wrong
            USING ERRCODE = 'datatype_mismatch',
                  HINT = 'Text must not be bytea (of text kept as bytes make a column GENERATED ALWAYS AS (convert_from(…, ''UTF8'')) STORED), '
                         'the column of "where" must be boolean, those of "valid_from" and "valid_to" date or timestamp.';
    END IF;
    IF graphrag_attached._keys_index(a.relation, a.key_columns) IS NULL
       OR EXISTS (SELECT FROM unnest(a.key_columns) u (name) WHERE NOT (graphrag_attached._type(a.relation, u.name)).trusted) THEN
        RAISE EXCEPTION 'column % is no longer a key of table %, by which it is attached to corpus "%"',
                (SELECT string_agg(format('"%s"', u.name), ', ' ORDER BY u.n) FROM unnest(a.key_columns) WITH ORDINALITY u (name, n)), source, a.corpus
            USING ERRCODE = 'object_not_in_prerequisite_state',
                  HINT = 'Make a unique index on it and make it NOT NULL, or detach the table with graphrag.detach_table().';
    END IF;
    IF a.name_is_unique AND NOT graphrag_attached._is_unique(a.relation, a.title_column) THEN
        RAISE EXCEPTION 'column "%" of table % is no longer unique, so that it names no entity of corpus "%"', a.title_column, source, a.corpus
            USING ERRCODE = 'object_not_in_prerequisite_state',
                  HINT = 'Make a unique index on it, or detach the table with graphrag.detach_table() and attach it again.';
    END IF;
END
$$;

-- Columns of an attachment, but for those that stand alone.
CREATE FUNCTION graphrag_attached._listed_columns(a graphrag_attached._attachments) RETURNS name[]
LANGUAGE plpgsql IMMUTABLE SET search_path = pg_catalog, pg_temp
AS $$
BEGIN
    RETURN a.key_columns || a.content_columns || a.metadata_columns || a.alias_columns || a.reference_columns;
END
$$;

-- Whether no two rows have one value of a column.
CREATE FUNCTION graphrag_attached._is_unique(relation oid, column_name name) RETURNS boolean
LANGUAGE plpgsql STABLE SET search_path = pg_catalog, pg_temp
AS $$
BEGIN
    RETURN EXISTS (SELECT FROM pg_index i
                     JOIN pg_attribute a ON a.attrelid = i.indrelid AND a.attnum = i.indkey[0]
                    WHERE i.indrelid = relation AND a.attname = column_name AND i.indisunique AND i.indisvalid
                      AND i.indnkeyatts = 1 AND i.indpred IS NULL AND i.indexprs IS NULL);
END
$$;

-- What is needed to read an attached table: its name, and SQL for keys and documents of its row r. `key_values` are those of the key
-- columns without their domains: an operator made for the domain is not the key's. `key_text` is the source key. `condition` says which
-- rows are documents.
CREATE FUNCTION graphrag_attached._source(a graphrag_attached._attachments,
    OUT source text, OUT condition text, OUT key_prefix text, OUT key_values text[], OUT key_types text[], OUT key_text text,
    OUT equals text[], OUT less text[], OUT greater text[], OUT at_least text[], OUT document text)
LANGUAGE plpgsql STABLE SET search_path = pg_catalog, pg_temp
AS $$
BEGIN
    PERFORM graphrag_attached._check_columns(a);
    source := format('%I.%I', a.schema_name, a.table_name);
    SELECT array_agg(o.equals ORDER BY u.n), array_agg(o.less ORDER BY u.n), array_agg(o.greater ORDER BY u.n), array_agg(o.at_least ORDER BY u.n)
      INTO equals, less, greater, at_least
      FROM unnest(a.key_columns) WITH ORDINALITY u (name, n)
      JOIN pg_attribute t ON t.attrelid = a.relation AND t.attname = u.name
      JOIN pg_index i ON i.indexrelid = graphrag_attached._keys_index(a.relation, a.key_columns)
      JOIN LATERAL unnest(i.indkey::int2[], i.indclass::oid[]) k (number, class) ON k.number = t.attnum AND k.class IS NOT NULL
     CROSS JOIN LATERAL (
           SELECT min(format('OPERATOR(%I.%s)', n.nspname, o.oprname)) FILTER (WHERE m.amopstrategy = 1) AS less,
                  min(format('OPERATOR(%I.%s)', n.nspname, o.oprname)) FILTER (WHERE m.amopstrategy = 3) AS equals,
                  min(format('OPERATOR(%I.%s)', n.nspname, o.oprname)) FILTER (WHERE m.amopstrategy = 5) AS greater,
                  min(format('OPERATOR(%I.%s)', n.nspname, o.oprname)) FILTER (WHERE m.amopstrategy = 4) AS at_least
             FROM pg_opclass c
             JOIN pg_amop m ON m.amopfamily = c.opcfamily AND m.amoplefttype = c.opcintype AND m.amoprighttype = c.opcintype
             JOIN pg_operator o ON o.oid = m.amopopr
             JOIN pg_namespace n ON n.oid = o.oprnamespace
            WHERE c.oid = k.class) o;
    SELECT array_agg(v.value ORDER BY u.n), array_agg(format_type((graphrag_attached._type(a.relation, u.name)).base, -1) ORDER BY u.n),
           CASE WHEN count(*) = 1 THEN min(k.text) ELSE format('graphrag_attached._joined(ARRAY[%s])', string_agg(k.text, ', ' ORDER BY u.n)) END
      INTO key_values, key_types, key_text
      FROM unnest(a.key_columns) WITH ORDINALITY u (name, n)
     CROSS JOIN LATERAL graphrag_attached._value(a.relation, u.name) v
     CROSS JOIN LATERAL (SELECT CASE a.kind WHEN 'documents' THEN v.as_text ELSE graphrag_attached._key_text(a.relation, u.name) END AS text) k;
    key_prefix := a.key_prefix;
    IF key_prefix <> '' THEN
        key_text := format('(%L || %s)', key_prefix, key_text);
    END IF;
    condition := coalesce('r.' || quote_ident(a.where_column) || ' IS TRUE', 'true');
    IF a.kind <> 'documents' THEN
        document := graphrag_attached._row_document(a, key_text);
        RETURN;
    END IF;
    document := format(
        '%1$s AS source_key, %2$s AS title, array_to_string(ARRAY[%3$s], E''\n\n'') AS content, %4$s AS metadata,'
        ' %5$s AS valid_from, %6$s AS valid_to',
        key_text,
        CASE WHEN a.title_column IS NULL THEN 'NULL::text' ELSE (graphrag_attached._value(a.relation, a.title_column)).as_text END,
        (SELECT string_agg((graphrag_attached._value(a.relation, u.name)).as_text, ', ' ORDER BY u.n)
           FROM unnest(a.content_columns) WITH ORDINALITY u (name, n)),
        coalesce((SELECT format('(SELECT to_jsonb(m.*) FROM (SELECT %s) m)',
                                string_agg(format('%s AS %I', (graphrag_attached._value(a.relation, u.name)).value, u.field), ', ' ORDER BY u.n))
                    FROM unnest(a.metadata_columns, a.metadata_keys) WITH ORDINALITY u (name, field, n) HAVING count(*) > 0), '''{}''::jsonb'),
        graphrag_attached._moment(a.relation, a.valid_from_column),
        graphrag_attached._moment(a.relation, a.valid_to_column));
END
$$;

-- SQL for the document of a row that is an entity or a relationship. Its content is a line "name: value" for everything that it says, then
-- its texts; its metadata have the same values by these names. The package makes its mentions of both (index/indexing/attached_rows.py).
CREATE FUNCTION graphrag_attached._row_document(a graphrag_attached._attachments, key_text text) RETURNS text
LANGUAGE plpgsql STABLE SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
    name text := CASE a.kind WHEN 'entities' THEN format('coalesce(nullif(btrim(%s), ''''), %s)', (graphrag_attached._value(a.relation, a.title_column)).as_text, key_text)
                 ELSE 'NULL::text' END;
    -- A line has no line ends.
    line text := $line$CASE WHEN %2$s IS NOT NULL THEN %1$L || translate(%2$s, E'\n\r\f', '   ') END$line$;
    lines text[] := CASE a.kind WHEN 'entities' THEN ARRAY[format(line, a.entity_type || ': ', name)] ELSE '{}' END;
    fields text[] := '{}';
    texts text[] := '{}';
    place int := 1;
    reference text;
    item record;
BEGIN
    FOR i IN 1..cardinality(a.reference_types) LOOP
        -- Null where one of its columns is.
        SELECT CASE WHEN count(*) = 1 THEN min(k.text)
                    ELSE format('CASE WHEN num_nulls(%1$s) = 0 THEN graphrag_attached._joined(ARRAY[%1$s]) END', string_agg(k.text, ', ' ORDER BY u.n)) END
          INTO reference
          FROM unnest(a.reference_columns[place:place + a.reference_widths[i] - 1]) WITH ORDINALITY u (name, n)
         CROSS JOIN LATERAL graphrag_attached._key_text(a.relation, u.name) k (text);
        place := place + a.reference_widths[i];
        -- A name says more than a key with the name of its table before it.
        lines := lines || format(line, a.reference_types[i] || ': ',
                                 CASE WHEN a.reference_by_name[i] THEN reference ELSE format('(%L || %s)', a.reference_prefixes[i], reference) END);
        fields := fields || format('(%L, to_jsonb(%L || %s))', a.reference_types[i], a.reference_prefixes[i], reference);
    END LOOP;
    FOR item IN SELECT v.*, graphrag_attached._is_list(a.relation, u.name) AS is_list
                  FROM unnest(a.alias_columns) WITH ORDINALITY u (name, n), graphrag_attached._value(a.relation, u.name) v ORDER BY u.n LOOP
        IF item.is_list THEN
            lines := lines || format($list$(SELECT string_agg(%s, E'\n' ORDER BY u.n) FROM unnest((%s)::text[]) WITH ORDINALITY u (name, n) WHERE btrim(u.name) <> '')$list$,
                                     format(line, 'alias: ', 'u.name'), item.value);
            texts := texts || format($list$ARRAY(SELECT btrim(u.name) FROM unnest((%s)::text[]) WITH ORDINALITY u (name, n) WHERE btrim(u.name) <> '' ORDER BY u.n)$list$,
                                     item.value);
        ELSE
            lines := lines || format(line, 'alias: ', item.as_text);
            texts := texts || format($field$ARRAY[nullif(btrim(%s), '')]$field$, item.as_text);
        END IF;
    END LOOP;
    IF texts <> '{}' THEN
        fields := fields || format($field$('aliases', nullif(to_jsonb(array_remove(%s, NULL)), '[]'))$field$, array_to_string(texts, ' || '));
    END IF;
    FOR item IN SELECT u.field, v.* FROM unnest(a.metadata_columns, a.metadata_keys) WITH ORDINALITY u (name, field, n), graphrag_attached._value(a.relation, u.name) v
                 ORDER BY u.n LOOP
        lines := lines || format(line, item.field || ': ', item.as_text);
        fields := fields || format('(%L, to_jsonb(%s))', item.field, item.value);
    END LOOP;
    texts := ARRAY[format($text$array_to_string(ARRAY[%s]::text[], E'\n')$text$, array_to_string(lines, ', '))]
             || ARRAY(SELECT v.as_text FROM unnest(a.content_columns) WITH ORDINALITY u (name, n), graphrag_attached._value(a.relation, u.name) v ORDER BY u.n);
    RETURN format($document$%s AS source_key, %s AS title, array_to_string(ARRAY[%s], E'\n\n') AS content, %s AS metadata,
                  %s AS valid_from, %s AS valid_to$document$,
                  key_text, name, array_to_string(texts, ', '),
                  CASE WHEN fields = '{}' THEN '''{}''::jsonb'
                       ELSE format($fields$(SELECT coalesce(jsonb_object_agg(f.name, f.value), '{}') FROM (VALUES %s) f (name, value) WHERE f.value IS NOT NULL)$fields$,
                                   array_to_string(fields, ', ')) END,
                  graphrag_attached._moment(a.relation, a.valid_from_column),
                  graphrag_attached._moment(a.relation, a.valid_to_column));
END
$$;

-- Whether a document is a row that has no texts: its lines alone.
CREATE FUNCTION graphrag._is_lines(attached_id int, content text) RETURNS boolean
LANGUAGE sql STABLE SET search_path = pg_catalog, pg_temp
RETURN strpos(content, E'\n\n') = 0
       AND EXISTS (SELECT FROM graphrag._attached_tables a WHERE a.id = attached_id AND a.kind <> 'documents');
COMMENT ON FUNCTION graphrag._is_lines(int, text) IS 'Whether a document is a row of an attached table without texts';

-- SQL that compares the key of row r with other values, one for each key column.
CREATE FUNCTION graphrag_attached._has_key(s record, others text[]) RETURNS text
LANGUAGE plpgsql IMMUTABLE SET search_path = pg_catalog, pg_temp
AS $$
BEGIN
    RETURN (SELECT string_agg(format('%s %s %s', u.value, u.equals, u.other), ' AND ' ORDER BY u.n)
              FROM unnest(s.key_values, s.equals, others) WITH ORDINALITY u (value, equals, other, n));
END
$$;

-- SQL for values of the key columns under the names k1, k2, …
CREATE FUNCTION graphrag_attached._as_keys(key_values text[]) RETURNS text
LANGUAGE plpgsql IMMUTABLE SET search_path = pg_catalog, pg_temp
AS $$
BEGIN
    RETURN (SELECT string_agg(format('%s AS k%s', u.value, u.n), ', ' ORDER BY u.n) FROM unnest(key_values) WITH ORDINALITY u (value, n));
END
$$;

-- These names, of a row that is called `alias`.
CREATE FUNCTION graphrag_attached._key_names(alias text, count int) RETURNS text[]
LANGUAGE plpgsql IMMUTABLE SET search_path = pg_catalog, pg_temp
AS $$
BEGIN
    RETURN ARRAY(SELECT format('%s.k%s', alias, n) FROM generate_series(1, count) n);
END
$$;

-- SQL for the values of the key columns, by their types, of what `source_key` is SQL for.
CREATE FUNCTION graphrag_attached._typed(s record, source_key text) RETURNS text[]
LANGUAGE plpgsql IMMUTABLE SET search_path = pg_catalog, pg_temp
AS $$
BEGIN
    RETURN ARRAY(SELECT format('(%s)::%s', u.part, u.type)
                   FROM unnest(graphrag_attached._parsed(s.key_prefix, cardinality(s.key_values), source_key), s.key_types)
                        WITH ORDINALITY u (part, type, n)
                  ORDER BY u.n);
END
$$;
