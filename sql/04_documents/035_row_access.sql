-- Who may read the rows of attached tables: asked as the caller, by the row-level security of documents.

-- Attachments whose rows are entities or relationships, for everybody: what it shows of tables is in the catalog, and their triggers tell
-- that they are attached. Columns by number, as they were last seen: after a restore there are none before somebody has looked.
CREATE VIEW graphrag_attached._row_tables AS
SELECT a.id, a.corpus_id, x.relation, w.numbers,
       ROW(a.id, '', x.relation, x.owner, x.schema_name, x.table_name, x.key_columns, x.content_columns, x.title_column, x.metadata_columns,
           x.metadata_keys, x.key_prefix, x.where_column, x.valid_from_column, x.valid_to_column, x.kind, x.entity_type, x.name_is_unique,
           x.alias_columns, x.reference_columns, x.reference_types, x.reference_prefixes, x.reference_widths)::graphrag_attached._attachments AS attachment
  FROM graphrag._attached_tables a
  LEFT JOIN graphrag._attachments x ON x.id = a.id
  LEFT JOIN graphrag._attached_seen w ON w.attached_id = a.id AND w.relation = x.relation
 WHERE a.kind <> 'documents';
GRANT SELECT ON graphrag_attached._row_tables TO PUBLIC;

-- Which rows of a table the caller may SELECT: all, some (its policies say which) or none. All columns that are attached count, since
-- a row's document has them all. Reads the catalog alone.
CREATE FUNCTION graphrag_attached._rows_of(relation oid, numbers int2[]) RETURNS text
LANGUAGE plpgsql STABLE PARALLEL SAFE SET search_path = pg_catalog, pg_temp
AS $$
BEGIN
    RETURN CASE
        WHEN relation IS NULL OR cardinality(numbers) > 0 IS NOT TRUE THEN 'none'
        WHEN has_schema_privilege((SELECT c.relnamespace FROM pg_class c WHERE c.oid = relation), 'USAGE') IS NOT TRUE THEN 'none'
        WHEN (SELECT bool_and(has_column_privilege(relation, u.number, 'SELECT') IS TRUE) FROM unnest(numbers) u (number)) IS NOT TRUE THEN 'none'
        WHEN NOT row_security_active(relation) THEN 'all'
        WHEN graphrag_attached._code_of_others(relation) IS NULL THEN 'some'
        ELSE 'none' END;
END
$$;

-- Of each attachment of rows, by its number: which of them the caller may read.
CREATE FUNCTION graphrag_attached._row_access() RETURNS text[]
LANGUAGE plpgsql STABLE PARALLEL SAFE SET search_path = pg_catalog, pg_temp
AS $$
BEGIN
    RETURN (SELECT array_agg(CASE WHEN t.id IS NOT NULL THEN graphrag_attached._rows_of(t.relation, t.numbers) END ORDER BY n)
              FROM generate_series(1, (SELECT max(m.id) FROM graphrag_attached._row_tables m)) n
              LEFT JOIN graphrag_attached._row_tables t ON t.id = n);
END
$$;

-- Whether the caller may read all rows that are attached to a corpus.
CREATE FUNCTION graphrag_attached._reads_rows(corpus_id int) RETURNS boolean
LANGUAGE plpgsql STABLE PARALLEL SAFE SET search_path = pg_catalog, pg_temp
AS $$
BEGIN
    RETURN NOT EXISTS (SELECT FROM graphrag_attached._row_tables t
                        WHERE t.corpus_id = _reads_rows.corpus_id AND graphrag_attached._rows_of(t.relation, t.numbers) <> 'all');
END
$$;

-- What a search would run as the caller, if it read the table, of others than roles that have his rights anyway: superusers above all. He
-- has named no table. So policies may call functions of PostgreSQL and of superusers, and the schema, whose owner could put another
-- table under the name, must be a superuser's, the database owner's, or of who has the caller's rights; null: nothing.
CREATE FUNCTION graphrag_attached._code_of_others(relation oid) RETURNS text
LANGUAGE plpgsql STABLE PARALLEL SAFE SET search_path = pg_catalog, pg_temp
AS $$
BEGIN
    RETURN (
        WITH RECURSIVE tables (id) AS (
            SELECT relation
             UNION
            SELECT i.inhrelid FROM tables t JOIN pg_inherits i ON i.inhparent = t.id
        ), parts (class, id) AS (
            SELECT 'pg_class'::regclass::oid, t.id FROM tables t
             UNION ALL
            SELECT 'pg_class'::regclass::oid, i.indexrelid FROM tables t JOIN pg_index i ON i.indrelid = t.id
             UNION ALL
            SELECT 'pg_policy'::regclass::oid, p.oid FROM tables t JOIN pg_policy p ON p.polrelid = t.id
             UNION ALL
            SELECT 'pg_constraint'::regclass::oid, c.oid FROM tables t JOIN pg_constraint c ON c.conrelid = t.id
             UNION ALL
            SELECT 'pg_statistic_ext'::regclass::oid, s.oid FROM tables t JOIN pg_statistic_ext s ON s.stxrelid = t.id
             UNION ALL
            SELECT 'pg_attrdef'::regclass::oid, d.oid FROM tables t JOIN pg_attrdef d ON d.adrelid = t.id
        ), used (class, id) AS (
            SELECT DISTINCT d.refclassid, d.refobjid
              FROM parts p
              JOIN pg_depend d ON d.classid = p.class AND d.objid = p.id
             WHERE d.refclassid IN ('pg_proc'::regclass, 'pg_operator'::regclass, 'pg_opclass'::regclass, 'pg_class'::regclass)
               AND (d.refclassid <> 'pg_class'::regclass OR p.class = 'pg_policy'::regclass AND d.refobjid NOT IN (SELECT t.id FROM tables t))
        ), owners (class, id, owner) AS (
            SELECT u.class, u.id, p.proowner FROM used u JOIN pg_proc p ON u.class = 'pg_proc'::regclass AND p.oid = u.id
             UNION ALL
            SELECT u.class, u.id, p.proowner FROM used u JOIN pg_operator o ON u.class = 'pg_operator'::regclass AND o.oid = u.id
              JOIN pg_proc p ON p.oid = o.oprcode
             UNION ALL
            SELECT u.class, u.id, o.opcowner FROM used u JOIN pg_opclass o ON u.class = 'pg_opclass'::regclass AND o.oid = u.id
             UNION ALL
            -- Another table that a policy reads, whose own policies and views would be run too.
            SELECT u.class, u.id, c.relowner FROM used u JOIN pg_class c ON u.class = 'pg_class'::regclass AND c.oid = u.id
             UNION ALL
            SELECT 'pg_namespace'::regclass, n.oid, CASE WHEN n.nspowner = 'pg_database_owner'::regrole THEN 10 ELSE n.nspowner END
              FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
             WHERE c.oid = relation AND n.nspowner <> (SELECT d.datdba FROM pg_database d WHERE d.datname = current_database())
        )
        SELECT min(format('%s of role "%s"', pg_describe_object(o.class, o.id, 0), pg_get_userbyid(o.owner)))
          FROM owners o
         WHERE NOT pg_has_role(o.owner, current_user, 'MEMBER'));
END
$$;

-- The documents of the rows that policies of their tables show the caller, by attachment and key. VOLATILE, to lock each table before it is
-- looked at: nobody puts code into it meanwhile.
CREATE FUNCTION graphrag_attached._readable_keys() RETURNS TABLE (attached_id int, source_key text)
LANGUAGE plpgsql VOLATILE ROWS 1000 PARALLEL RESTRICTED SET search_path = pg_catalog, pg_temp SET row_security = on
SET datestyle = 'ISO, YMD' SET timezone = 'UTC' SET intervalstyle = 'postgres' SET extra_float_digits = 1 SET bytea_output = 'hex'
AS $$
#variable_conflict use_column
DECLARE
    t record;
    s record;
BEGIN
    FOR t IN SELECT x.* FROM graphrag_attached._row_tables x WHERE graphrag_attached._rows_of(x.relation, x.numbers) = 'some' ORDER BY x.id LOOP
        BEGIN
            s := graphrag_attached._source(t.attachment);
            EXECUTE format('LOCK TABLE %s IN ACCESS SHARE MODE', s.source);
            IF to_regclass(s.source) = t.relation AND graphrag_attached._rows_of(t.relation, t.numbers) = 'some' THEN
                RETURN QUERY EXECUTE format('SELECT %s, %s FROM %s r WHERE %s', t.id, s.key_text, s.source, s.condition);
            END IF;
        EXCEPTION
            WHEN deadlock_detected OR lock_not_available OR serialization_failure THEN
                RAISE;
            -- What cannot be read is not seen: a column is gone, a policy raises an error, only columns were granted, which lock no table.
            WHEN OTHERS THEN
                NULL;
        END;
    END LOOP;
END
$$;
