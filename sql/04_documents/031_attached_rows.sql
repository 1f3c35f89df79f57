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
    END IF;
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

CREATE FUNCTION graphrag_attached._refuse_source_key(key text, source text) RETURNS text
LANGUAGE plpgsql VOLATILE SET search_path = pg_catalog, pg_temp
AS $$
BEGIN
    RAISE EXCEPTION 'the key "%" of a row of % cannot name a document', left(key, 100), source
        USING ERRCODE = 'check_violation', DETAIL = format('It has %s bytes.', octet_length(key)),
              HINT = 'graphrag.documents.source_key takes 1 to 2000 bytes.';
END
$$;

-- What is needed to read an attached table: its name, and SQL for keys and documents of its row r. `key_value` is the key
-- without its domain: an operator made for the domain is not the key's.
CREATE FUNCTION graphrag_attached._source(a graphrag_attached._attachments,
    OUT source text, OUT key_value text, OUT key_type text, OUT key_text text, OUT equals text, OUT less text, OUT greater text, OUT document text)
LANGUAGE plpgsql STABLE SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
    missing text;
BEGIN
    source := format('%I.%I', a.schema_name, a.table_name);
    SELECT string_agg(format('"%s"', u.name), ', ' ORDER BY u.name) INTO missing
      FROM unnest(array_cat(ARRAY[a.key_column, a.title_column], array_cat(a.content_columns, a.metadata_columns))) u (name)
     WHERE u.name IS NOT NULL AND (graphrag_attached._type(a.relation, u.name)).base IS NULL;
    IF missing IS NOT NULL THEN
        RAISE EXCEPTION 'table % is attached to corpus "%" by columns it no longer has: %', source, a.corpus, missing
            USING ERRCODE = 'undefined_column',
                  HINT = format('SELECT graphrag.detach_table(%L, %L); then attach it again with the columns it has. Unchanged documents are not indexed anew.',
                                source, a.corpus);
    END IF;
    SELECT min(format('OPERATOR(%I.%s)', n.nspname, o.oprname)) FILTER (WHERE m.amopstrategy = 1),
           min(format('OPERATOR(%I.%s)', n.nspname, o.oprname)) FILTER (WHERE m.amopstrategy = 3),
           min(format('OPERATOR(%I.%s)', n.nspname, o.oprname)) FILTER (WHERE m.amopstrategy = 5)
      INTO less, equals, greater
      FROM pg_index i
      JOIN pg_opclass c ON c.oid = i.indclass[0]
      JOIN pg_amop m ON m.amopfamily = c.opcfamily AND m.amoplefttype = c.opcintype AND m.amoprighttype = c.opcintype
      JOIN pg_operator o ON o.oid = m.amopopr
      JOIN pg_namespace n ON n.oid = o.oprnamespace
     WHERE i.indexrelid = graphrag_attached._key_index(a.relation, a.key_column);
    IF equals IS NULL OR NOT (graphrag_attached._type(a.relation, a.key_column)).trusted THEN
        RAISE EXCEPTION 'column "%" is no longer a key of table %, by which it is attached to corpus "%"', a.key_column, source, a.corpus
            USING ERRCODE = 'object_not_in_prerequisite_state',
                  HINT = 'Make a unique index on it and make it NOT NULL, or detach the table with graphrag.detach_table().';
    END IF;
    SELECT v.value, v.as_text INTO key_value, key_text FROM graphrag_attached._value(a.relation, a.key_column) v;
    key_type := format_type((graphrag_attached._type(a.relation, a.key_column)).base, -1);
    document := format(
        'CASE WHEN octet_length(%1$s) BETWEEN 1 AND 2000 THEN %1$s ELSE graphrag_attached._refuse_source_key(%1$s, %2$L) END AS source_key,'
        ' %3$s AS title, array_to_string(ARRAY[%4$s], E''\n\n'') AS content, %5$s AS metadata',
        key_text, source,
        CASE WHEN a.title_column IS NULL THEN 'NULL::text' ELSE (graphrag_attached._value(a.relation, a.title_column)).as_text END,
        (SELECT string_agg((graphrag_attached._value(a.relation, u.name)).as_text, ', ' ORDER BY u.n)
           FROM unnest(a.content_columns) WITH ORDINALITY u (name, n)),
        coalesce((SELECT format('(SELECT to_jsonb(m.*) FROM (SELECT %s) m)',
                                string_agg(format('%s AS %I', (graphrag_attached._value(a.relation, u.name)).value, u.name), ', ' ORDER BY u.n))
                    FROM unnest(a.metadata_columns) WITH ORDINALITY u (name, n) HAVING count(*) > 0), '''{}''::jsonb'));
END
$$;
