-- Refuses what is no table that can be attached: a view, a part of another table, one of the system.
CREATE FUNCTION graphrag._check_relation(relation oid) RETURNS void
LANGUAGE plpgsql STABLE SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
    t record;
    wrong text;
BEGIN
    SELECT c.relkind, c.relpersistence, c.relispartition, n.nspname INTO t
      FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace WHERE c.oid = relation;
    wrong := CASE
        WHEN t.relkind IN ('v', 'm') THEN
            format('it is a %sview, whose rows change without a statement on it; attach %s: generated columns say what it computes, and a boolean one, option where, which rows it shows',
                   CASE t.relkind WHEN 'm' THEN 'materialized ' ELSE '' END,
                   coalesce((SELECT string_agg(DISTINCT d.refobjid::regclass::text, ', ')
                               FROM pg_rewrite r
                               JOIN pg_depend d ON d.classid = 'pg_rewrite'::regclass AND d.objid = r.oid
                                               AND d.refclassid = 'pg_class'::regclass AND d.refobjid <> relation
                              WHERE r.ev_class = relation), 'a table'))
        WHEN t.relkind = 'f' THEN 'it is a foreign table; attach a local copy of it'
        WHEN t.relkind NOT IN ('r', 'p') THEN 'it is not a table'
        WHEN t.relpersistence = 't' THEN 'it is temporary; attach a permanent table'
        WHEN t.relpersistence = 'u' THEN 'it is unlogged, and a crash would empty it without its documents; ALTER TABLE … SET LOGGED first'
        WHEN t.nspname IN ('pg_catalog', 'information_schema', 'graphrag', 'graphrag_attached', 'ag_catalog') OR t.nspname ~ '^pg_'
            OR graphrag._is_graph(t.nspname)
            THEN 'it belongs to the system or to an extension; attach a table of your own'
        WHEN t.relispartition THEN 'it is a partition; attach the partitioned table'
        WHEN t.relkind = 'r' AND EXISTS (SELECT FROM pg_inherits i WHERE relation IN (i.inhrelid, i.inhparent))
            THEN 'it inherits or is inherited, and triggers do not follow inheritance; use a partitioned table'
        WHEN t.relkind = 'p' AND EXISTS (SELECT FROM pg_partition_tree(relation) p JOIN pg_class c ON c.oid = p.relid WHERE c.relkind = 'f')
            THEN 'one of its partitions is a foreign table; attach a local copy of it'
        WHEN t.relkind = 'p' AND EXISTS (SELECT FROM pg_partition_tree(relation) p JOIN pg_class c ON c.oid = p.relid WHERE c.relpersistence = 'u')
            THEN 'one of its partitions is unlogged, and a crash would empty it without its documents; ALTER TABLE … SET LOGGED first'
    END;
    IF wrong IS NOT NULL THEN
        RAISE EXCEPTION 'table % cannot be attached', relation::regclass
            USING ERRCODE = 'wrong_object_type', HINT = upper(left(wrong, 1)) || substr(wrong, 2) || '.';
    END IF;
END
$$;

-- Refuses what cannot be attached, with the reason. Takes the lock that CREATE TRIGGER needs first, so that all stays as checked.
CREATE FUNCTION graphrag._check_attachable(request graphrag._attach_requests) RETURNS void
LANGUAGE plpgsql VOLATILE SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
    name text := request.source::regclass;
    t record;
    columns name[] := array_remove(request.content_columns || request.metadata_columns || request.key_columns || request.alias_columns
                                   || request.from_columns || request.to_columns || ARRAY[request.title_column, request.where_column, request.valid_from_column, request.valid_to_column], NULL);
    wrong text;
BEGIN
    IF NOT EXISTS (SELECT FROM pg_class c WHERE c.oid = request.source) THEN
        RAISE EXCEPTION 'table % does not exist', name USING ERRCODE = 'undefined_table', HINT = 'Give the name of a table.';
    END IF;
    PERFORM graphrag._check_owner(request.caller, request.source);
    PERFORM graphrag._check_relation(request.source);
    name := graphrag._lock_attached(request.source, 'SHARE ROW EXCLUSIVE');
    -- Again: it may have changed hands while we waited.
    PERFORM graphrag._check_owner(request.caller, request.source);
    SELECT pg_get_userbyid(c.relowner) AS owner, c.relforcerowsecurity,
           graphrag_attached._foreign_code(c.oid, c.relowner) AS foreign_code INTO t
      FROM pg_class c WHERE c.oid = request.source;
    IF t.relforcerowsecurity THEN
        RAISE EXCEPTION 'table % cannot be attached: its row-level security is in force for its owner too', name
            USING ERRCODE = 'object_not_in_prerequisite_state', HINT = format('ALTER TABLE %s NO FORCE ROW LEVEL SECURITY first.', name);
    ELSIF t.foreign_code IS NOT NULL THEN
        RAISE EXCEPTION 'table % cannot be attached: reading it would run code of others with its owner''s rights: %', name, t.foreign_code
            USING ERRCODE = 'insufficient_privilege', HINT = format('Give it to "%s", the owner of the table.', t.owner);
    END IF;

    IF NOT EXISTS (SELECT FROM graphrag.corpora c WHERE c.name = request.corpus) THEN
        IF request.corpus <> 'default' THEN
            RAISE EXCEPTION 'corpus "%" does not exist', request.corpus
                USING ERRCODE = 'undefined_object', HINT = format('Create it with SELECT graphrag.create_corpus(%L);', request.corpus);
        END IF;
        PERFORM graphrag._default_corpus();
    END IF;
    PERFORM graphrag._refuse_moved(c.id) FROM graphrag.corpora c WHERE c.name = request.corpus;
    IF NOT pg_has_role(request.caller, (SELECT e.extowner FROM pg_extension e WHERE e.extname = 'pg_graphrag'), 'USAGE')
        AND NOT graphrag._may_write(t.owner, (SELECT c.id FROM graphrag.corpora c WHERE c.name = request.corpus)) THEN
        RAISE EXCEPTION 'role "%" may not write corpus "%"', t.owner, request.corpus
            USING ERRCODE = 'insufficient_privilege',
                  HINT = format('Whoever owns an attached table writes documents. The owner of the extension gives the corpus with SELECT graphrag.grant_corpus(%L, %L, ''write'');',
                                request.corpus, t.owner);
    END IF;
    IF EXISTS (SELECT FROM graphrag._attached_tables a JOIN graphrag.corpora c ON c.id = a.corpus_id
                WHERE c.name = request.corpus AND coalesce(graphrag_attached._relation(a), a.relation) = request.source) THEN
        RAISE EXCEPTION 'table % is already attached to corpus "%"', name, request.corpus USING ERRCODE = 'duplicate_object',
            HINT = format('To attach it with other columns, first SELECT graphrag.detach_table(%L, %L);%s', name, request.corpus,
                          CASE WHEN request.kind IN ('entities', 'relationships') THEN '' ELSE ' unchanged documents are not indexed anew.' END);
    END IF;

    SELECT string_agg(DISTINCT format('"%s"', u.name), ', ') INTO wrong
      FROM unnest(columns) u (name) WHERE (graphrag_attached._type(request.source, u.name)).base IS NULL;
    IF wrong IS NOT NULL THEN
        RAISE EXCEPTION 'table % has no column %', name, wrong USING ERRCODE = 'undefined_column',
            HINT = format('Its columns: %s.%s', (SELECT string_agg(a.attname, ', ' ORDER BY a.attnum) FROM pg_attribute a
                                                  WHERE a.attrelid = request.source AND a.attnum > 0 AND NOT a.attisdropped),
                          CASE WHEN wrong ~ '[{,]' THEN ' One is given by its name alone; for a key of several: key_column => NULL, options => ''{"key_columns": ["a", "b"]}''.' END);
    END IF;
    SELECT min(u.name) INTO wrong
      FROM (SELECT c.name FROM unnest(request.content_columns) c (name) GROUP BY c.name HAVING count(*) > 1
             UNION ALL
            SELECT c.name FROM unnest(request.metadata_columns) c (name) GROUP BY c.name HAVING count(*) > 1
             UNION ALL
            SELECT c.name FROM unnest(request.key_columns) c (name) GROUP BY c.name HAVING count(*) > 1) u (name);
    IF wrong IS NOT NULL THEN
        RAISE EXCEPTION 'column "%" is given twice', wrong USING ERRCODE = 'duplicate_column', HINT = 'Give it once.';
    END IF;
    IF graphrag_attached._keys_index(request.source, request.key_columns) IS NULL THEN
        RAISE EXCEPTION 'column % is not a key of table %',
                (SELECT string_agg(format('"%s"', u.name), ', ' ORDER BY u.n) FROM unnest(request.key_columns) WITH ORDINALITY u (name, n)), name
            USING ERRCODE = 'invalid_parameter_value',
            HINT = 'The key column must be NOT NULL and have a unique index of its own, neither partial nor deferrable (on a partitioned table '
                   'it may be completed by columns of the partition key). For a key of several columns: '
                   || CASE request.kind WHEN 'entities' THEN 'key_columns => ARRAY[''a'', ''b''].'
                      ELSE CASE request.kind WHEN 'relationships' THEN '' ELSE 'key_column => NULL, ' END || 'options => ''{"key_columns": ["a", "b"]}''.' END
                   || ' Or add a column: ALTER TABLE … ADD document_key text GENERATED ALWAYS AS (…) STORED NOT NULL UNIQUE.';
    END IF;
    SELECT min(u.name) INTO wrong FROM unnest(request.key_columns) u (name) WHERE NOT (graphrag_attached._type(request.source, u.name)).trusted;
    IF wrong IS NOT NULL THEN
        RAISE EXCEPTION 'column "%" of table % is of type %, which cannot be a key here', wrong, name,
                format_type((graphrag_attached._type(request.source, wrong)).base, NULL)
            USING ERRCODE = 'datatype_mismatch', HINT = 'Types of PostgreSQL and of extensions can, user-defined ones cannot; add a unique text column.';
    END IF;
    -- Two tables that number their rows would take each other's documents, sooner or later.
    IF cardinality(request.key_columns) = 1 AND graphrag._numbers_rows(request.source, request.key_columns[1])
       AND EXISTS (SELECT FROM graphrag._attachments v
                    WHERE v.corpus = request.corpus AND v.key_prefix = request.key_prefix AND cardinality(v.key_columns) = 1
                      AND graphrag._numbers_rows(v.relation, v.key_columns[1])) THEN
        RAISE EXCEPTION 'corpus "%" has an attached table with a numeric key already; the keys of % would collide with its', request.corpus, name
            USING ERRCODE = 'object_not_in_prerequisite_state',
                  HINT = 'Attach it with options => ''{"key_prefix": "comments/"}'', which its keys begin with, or to a corpus of its own.';
    END IF;
END
$$;

CREATE FUNCTION graphrag._numbers_rows(relation oid, column_name name) RETURNS boolean
LANGUAGE sql STABLE SET search_path = pg_catalog, pg_temp
BEGIN ATOMIC
    SELECT coalesce((SELECT y.typcategory = 'N'
                       FROM graphrag_attached._type(relation, column_name) t JOIN pg_catalog.pg_type y ON y.oid = t.base), false);
END;
