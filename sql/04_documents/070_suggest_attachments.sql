-- Calls of attach_entities() and attach_relationships() for the tables of a schema, from the catalogs alone: no row is read, no code of
-- others runs, nothing is attached. With the caller's rights.
CREATE FUNCTION graphrag.suggest_attachments(schema text DEFAULT 'public', corpus text DEFAULT 'default')
RETURNS TABLE (source regclass, kind text, call text, reason text)
LANGUAGE plpgsql STABLE COST 100000 ROWS 50
SET search_path = pg_catalog, pg_temp SET jit = off
AS $$
#variable_conflict use_column
BEGIN
    IF NOT EXISTS (SELECT FROM pg_namespace n WHERE n.nspname = suggest_attachments.schema) THEN
        RAISE EXCEPTION 'schema % does not exist', coalesce(format('"%s"', suggest_attachments.schema), 'null')
            USING ERRCODE = 'invalid_schema_name', HINT = 'Give the schema of the application''s tables, for example ''public''.';
    ELSIF corpus IS NULL THEN
        RAISE EXCEPTION 'corpus cannot be null' USING ERRCODE = 'null_value_not_allowed', HINT = 'For example ''default''.';
    END IF;
    RETURN QUERY
    WITH tables AS (
        SELECT c.oid, c.relname, c.relowner, c.reltuples, w.singular, btrim(translate(w.singular, '_:', '  ')) AS label
          FROM pg_class c
          JOIN pg_namespace n ON n.oid = c.relnamespace
         CROSS JOIN LATERAL (
               SELECT lower(CASE WHEN c.relname ~* 'ies$' THEN regexp_replace(c.relname, 'ies$', 'y', 'i')
                                 WHEN c.relname ~* '(ss|us|is)$' THEN c.relname
                                 ELSE regexp_replace(c.relname, '((?<=([tnr]|oa|ea)ch|sh|x|ss|tus)e)?s$', '', 'i') END) AS singular) w
         WHERE n.nspname = suggest_attachments.schema AND c.relkind IN ('r', 'p') AND c.relpersistence = 'p' AND NOT c.relispartition
           AND NOT EXISTS (SELECT FROM pg_depend d WHERE d.classid = 'pg_class'::regclass AND d.objid = c.oid AND d.deptype = 'e')
           AND has_any_column_privilege(c.oid, 'SELECT')
    -- Unique indexes of whole columns: what may be a key, and what may name a row.
    ), uniques AS (
        SELECT t.oid, i.indexrelid, i.indisprimary,
               (SELECT array_agg(k.attnum ORDER BY k.n) FROM unnest(i.indkey::int2[]) WITH ORDINALITY k (attnum, n) WHERE k.n <= i.indnkeyatts) AS columns
          FROM tables t
          JOIN pg_index i ON i.indrelid = t.oid
         WHERE i.indisunique AND i.indimmediate AND i.indisvalid AND i.indpred IS NULL AND i.indexprs IS NULL
    ), keys AS (
        SELECT DISTINCT ON (u.oid) u.oid, u.columns, u.indisprimary AS is_primary
          FROM uniques u
         WHERE NOT EXISTS (SELECT FROM pg_attribute a WHERE a.attrelid = u.oid AND a.attnum = ANY (u.columns) AND NOT a.attnotnull)
         -- By another key than the primary one where foreign keys lead to that alone.
         ORDER BY u.oid, EXISTS (SELECT FROM pg_constraint f WHERE f.contype = 'f' AND f.confrelid = u.oid AND u.columns @> f.confkey AND u.columns <@ f.confkey) DESC,
                  u.indisprimary DESC, cardinality(u.columns), u.columns
    ), foreign_keys AS (
        SELECT f.oid AS id, f.conrelid, f.confrelid, f.conkey, f.confkey,
               count(*) OVER (PARTITION BY f.conrelid) AS of_table,
               row_number() OVER (PARTITION BY f.conrelid ORDER BY f.conkey, f.oid) AS n
          FROM pg_constraint f
          JOIN tables t ON t.oid = f.conrelid
          JOIN keys k ON k.oid = f.confrelid AND k.columns @> f.confkey AND k.columns <@ f.confkey
          JOIN keys own ON own.oid = f.conrelid
         WHERE f.contype = 'f' AND f.conparentid = 0
    ), columns AS (
        SELECT t.oid, a.attnum, a.attname,
               -- An array of texts, of which each may be an alias, is a text here.
               CASE WHEN b.typcategory = 'A' AND (SELECT y.typcategory = 'S' FROM pg_type y WHERE y.oid = b.typelem) THEN 'S' ELSE b.typcategory END AS category,
               b.typcategory = 'A' AS is_array,
               a.attnum = ANY (k.columns) AS in_key,
               EXISTS (SELECT FROM pg_constraint f WHERE f.conrelid = t.oid AND f.contype = 'f' AND a.attnum = ANY (f.conkey)) AS in_foreign_key,
               EXISTS (SELECT FROM uniques u WHERE u.oid = t.oid AND u.columns = ARRAY[a.attnum]) AS is_unique,
               coalesce(s.avg_width, CASE WHEN a.atttypmod BETWEEN 5 AND 104 THEN 20 END) AS width,
               a.attname ~* '^((full|display)_?)?(name|title|label)$' OR lower(a.attname) IN (t.singular, t.singular || '_name', t.singular || 'name') AS is_called_name,
               a.attname ~* '(^|[_ ])(name|title|label|subject|headline|caption|login)$|(?<!nick)name$' OR a.attname ~ '[[:lower:]](Title|Label)$' AS sounds_like_name,
               a.attname ~* '(^|_)(codes?|alias(es)?|synonyms?|(other|short)_names?|abbr|abbreviations?|acronyms?|nick(name)?s?|sku|serial|serial_(no|number)|symbol|iso\d?)$' AS sounds_like_alias,
               a.attname ~* '(^|_)(description|descr|notes?|body|content|comments?|text|summary|abstract|remarks?|bio|details|message)$' AS sounds_like_text,
               a.attname ~* '(pass(word|wd|phrase)|secret|token|salt|credential|api_?key|(^|_)(hash|pin|ssn|iban|cvv)($|_))' AS is_secret,
               a.attname ~* '^(created|updated|modified|deleted|inserted|last_(update|modified))(_(at|on|by|date))?$' AS is_bookkeeping
          FROM tables t
          JOIN keys k ON k.oid = t.oid
          JOIN pg_attribute a ON a.attrelid = t.oid AND a.attnum > 0 AND NOT a.attisdropped
          -- The type under a domain.
          JOIN pg_type y ON y.oid = a.atttypid
          JOIN pg_type b ON b.oid = CASE y.typtype WHEN 'd' THEN y.typbasetype ELSE y.oid END
          LEFT JOIN pg_stats s ON s.schemaname = suggest_attachments.schema AND s.tablename = t.relname AND s.attname = a.attname AND NOT s.inherited
    -- The column that names a row: by what it is called, then by what is unique.
    ), names AS (
        SELECT DISTINCT ON (c.oid) c.oid, c.attnum, c.attname, c.is_unique
          FROM columns c
         WHERE c.category = 'S' AND NOT c.is_array AND NOT c.in_foreign_key AND NOT c.is_secret AND NOT c.sounds_like_text AND coalesce(c.width, 0) < 120
           AND (c.is_called_name OR c.sounds_like_name OR c.is_unique)
         ORDER BY c.oid, c.is_called_name DESC, c.is_unique DESC, c.attnum
    ), roles AS (
        SELECT c.oid, c.attnum, c.attname, c.is_secret,
               CASE WHEN c.is_secret OR c.is_bookkeeping OR c.attnum = n.attnum THEN NULL
                    WHEN c.is_array THEN CASE WHEN c.category = 'S' AND c.sounds_like_alias THEN 'alias' END
                    WHEN c.category = 'S' AND (c.sounds_like_text OR c.width >= 80) THEN 'text'
                    WHEN c.in_foreign_key THEN NULL
                    WHEN c.category = 'S' AND (c.sounds_like_alias OR c.is_unique) THEN 'alias'
                    -- Rows have a field of this name.
                    WHEN c.attname IN ('alias', 'aliases', 'from') THEN 'taken'
                    WHEN c.in_key THEN NULL
                    WHEN c.category IN ('N', 'B', 'D', 'T', 'E', 'S') THEN 'attribute'
               END AS role
          FROM columns c
          LEFT JOIN names n ON n.oid = c.oid
    -- A table without a name of its own and with two foreign keys says how two others belong together.
    ), shapes AS (
        SELECT t.oid, t.relname, t.relowner, t.reltuples, k.columns AS key, n.attname AS name, n.is_unique AS name_is_unique, t.label,
               n.attnum IS NULL AND (SELECT count(*) = 2 FROM foreign_keys f WHERE f.conrelid = t.oid) AS joins_two,
               coalesce(n.attname, (SELECT a.attname FROM pg_attribute a
                                     WHERE a.attrelid = t.oid AND cardinality(k.columns) = 1 AND a.attnum = k.columns[1])) AS name_or_key
          FROM tables t
          JOIN keys k ON k.oid = t.oid
          LEFT JOIN names n ON n.oid = t.oid
    ), entities AS (
        SELECT s.* FROM shapes s
         WHERE NOT s.joins_two AND s.name_or_key IS NOT NULL
           AND (s.name IS NOT NULL OR EXISTS (SELECT FROM foreign_keys f WHERE s.oid IN (f.conrelid, f.confrelid)))
    ), arguments AS (
        SELECT s.oid,
               (SELECT jsonb_agg(a.attname ORDER BY k.n)
                  FROM unnest(s.key) WITH ORDINALITY k (attnum, n) JOIN pg_attribute a ON a.attrelid = s.oid AND a.attnum = k.attnum) AS key_names,
               (SELECT format('ARRAY[%s]', string_agg(quote_literal(a.attname), ', ' ORDER BY k.n))
                  FROM unnest(s.key) WITH ORDINALITY k (attnum, n) JOIN pg_attribute a ON a.attrelid = s.oid AND a.attnum = k.attnum) AS key,
               (SELECT string_agg(quote_literal(r.attname), ', ' ORDER BY r.attnum) FROM roles r WHERE r.oid = s.oid AND r.role = 'alias') AS aliases,
               (SELECT string_agg(quote_literal(r.attname), ', ' ORDER BY r.attnum) FROM roles r WHERE r.oid = s.oid AND r.role = 'attribute') AS attributes,
               (SELECT string_agg(quote_literal(r.attname), ', ' ORDER BY r.attnum) FROM roles r WHERE r.oid = s.oid AND r.role = 'text') AS text,
               (SELECT string_agg(format('"%s"', r.attname), ', ' ORDER BY r.attnum) FROM roles r WHERE r.oid = s.oid AND r.is_secret) AS secrets,
               (SELECT string_agg(format('"%s"', r.attname), ', ' ORDER BY r.attnum) FROM roles r WHERE r.oid = s.oid AND r.role = 'taken') AS taken,
               (SELECT string_agg(format('"%s"', f.conname), ', ' ORDER BY f.conname) FROM pg_constraint f
                 WHERE f.conrelid = s.oid AND f.contype = 'f' AND f.conparentid = 0 AND f.oid NOT IN (SELECT k.id FROM foreign_keys k)) AS elsewhere,
               CASE WHEN s.reltuples >= 0 THEN format('about %s rows', to_char(s.reltuples, 'FM999,999,999,990')) ELSE 'never analyzed' END
                   || CASE WHEN pg_has_role(s.relowner, 'USAGE') THEN '' ELSE format('; for its owner "%s" to call', pg_get_userbyid(s.relowner)) END AS note
          FROM shapes s
    ), relationships AS (
        -- Each foreign key of an entity, and the pair of a table that joins two.
        SELECT f.id, f.conrelid, f.confrelid AS to_table, f.conkey AS to_key, f.confkey AS to_target, NULL::oid AS from_table, NULL::int2[] AS from_key,
               NULL::int2[] AS from_target, f.n
          FROM foreign_keys f JOIN entities e ON e.oid = f.conrelid JOIN entities o ON o.oid = f.confrelid
         UNION ALL
        SELECT g.id, f.conrelid, g.confrelid, g.conkey, g.confkey, f.confrelid, f.conkey, f.confkey, g.n
          FROM shapes s
          JOIN foreign_keys f ON f.conrelid = s.oid AND f.n = 1
          JOIN foreign_keys g ON g.conrelid = s.oid AND g.n = 2
          JOIN entities e ON e.oid = f.confrelid JOIN entities o ON o.oid = g.confrelid
         WHERE s.joins_two
    -- What a relationship may be called, the best first: by its comment, its column or the table, all its columns, its constraint.
    ), labels AS (
        SELECT r.id, r.conrelid, o.n, l.label
          FROM relationships r
          JOIN shapes s ON s.oid = r.conrelid
          JOIN pg_constraint c ON c.oid = r.id
          JOIN tables t ON t.oid = r.to_table
         CROSS JOIN LATERAL (
               SELECT string_agg(a.attname, ' ' ORDER BY k.n) AS names
                 FROM unnest(r.to_key) WITH ORDINALITY k (attnum, n) JOIN pg_attribute a ON a.attrelid = r.conrelid AND a.attnum = k.attnum) x
         CROSS JOIN LATERAL unnest(ARRAY[
               obj_description(r.id, 'pg_constraint'),
               CASE WHEN r.from_table IS NOT NULL THEN s.label
                    WHEN cardinality(r.to_key) > 1 THEN t.label
                    ELSE regexp_replace(regexp_replace(x.names, '_(id|code|key|fk|no|number)$', '', 'i'), '(?<=[[:lower:]])(ID|Id|Code|Key)$', '') END,
               x.names, c.conname]) WITH ORDINALITY o (raw, n)
         CROSS JOIN LATERAL (SELECT btrim(translate(o.raw, '_:', '  ')) AS label) l
         -- As _is_label() has it.
         WHERE char_length(l.label) BETWEEN 1 AND 64 AND l.label !~ '[[:cntrl:]]' AND l.label NOT IN ('alias', 'aliases', 'from')
           AND NOT EXISTS (SELECT FROM roles a WHERE a.oid = r.conrelid AND a.role = 'attribute' AND a.attname = l.label)
    ), types AS (
        SELECT DISTINCT ON (l.id) l.id, l.label
          FROM labels l
         WHERE NOT EXISTS (SELECT FROM labels o WHERE o.conrelid = l.conrelid AND o.label = l.label AND o.id <> l.id)
         ORDER BY l.id, l.n
    ), calls AS (
        SELECT e.oid, 'entities' AS kind, 1 AS part, 0::bigint AS n,
               format('SELECT graphrag.attach_entities(%L, %L, %s, name => %L', e.oid::regclass, corpus, a.key, e.name_or_key)
                   || coalesce(', aliases => ARRAY[' || a.aliases || ']', '') || format(', type => %L', e.label)
                   || coalesce(', attributes => ARRAY[' || a.attributes || ']', '') || coalesce(', text => ARRAY[' || a.text || ']', '') || ');' AS call,
               concat_ws('; ',
                   CASE WHEN e.name IS NULL THEN 'it has no name but its key'
                        WHEN e.name_is_unique THEN format('"%s" is unique', e.name)
                        ELSE format('"%s" is not unique: rows of one name are told apart by their keys', e.name) END,
                   'left out as secret: ' || a.secrets, 'left out, since rows have a field of this name: ' || a.taken,
                   'not proposed, since they do not lead to the key of a table of this schema: ' || a.elsewhere, a.note) AS reason
          FROM entities e JOIN arguments a ON a.oid = e.oid
         UNION ALL
        SELECT r.conrelid, 'relationships', 2, r.n,
               format('SELECT graphrag.attach_relationships(%L, %L, type => %L, to_columns => %s, to_table => %L', r.conrelid::regclass, corpus,
                      y.label, t.columns, r.to_table::regclass)
                   || CASE WHEN r.from_table IS NULL THEN ''
                           ELSE format(', from_columns => %s, from_table => %L', f.columns, r.from_table::regclass)
                                || coalesce(', attributes => ARRAY[' || a.attributes || ']', '')
                                || CASE WHEN (SELECT k.is_primary FROM keys k WHERE k.oid = r.conrelid) THEN ''
                                        ELSE format(', options => %L', jsonb_build_object('key_columns', a.key_names)) END END || ');',
               CASE WHEN r.from_table IS NULL THEN format('foreign key "%s"', (SELECT c.conname FROM pg_constraint c WHERE c.oid = r.id))
                    ELSE 'it has no name, and joins two tables' END
                   || '; ' || a.note
          FROM relationships r
          JOIN types y ON y.id = r.id
          JOIN arguments a ON a.oid = r.conrelid
          -- In the order of the key of the other table.
          CROSS JOIN LATERAL (
              SELECT format('ARRAY[%s]', string_agg(quote_literal(c.attname), ', ' ORDER BY array_position(k.columns, o.attnum))) AS columns
                FROM keys k, unnest(r.to_key, r.to_target) o (own, attnum)
                JOIN pg_attribute c ON c.attrelid = r.conrelid AND c.attnum = o.own
               WHERE k.oid = r.to_table) t
          CROSS JOIN LATERAL (
              SELECT format('ARRAY[%s]', string_agg(quote_literal(c.attname), ', ' ORDER BY array_position(k.columns, o.attnum))) AS columns
                FROM keys k, unnest(r.from_key, r.from_target) o (own, attnum)
                JOIN pg_attribute c ON c.attrelid = r.conrelid AND c.attnum = o.own
               WHERE k.oid = r.from_table) f
    )
    SELECT c.oid::regclass, c.kind, c.call, c.reason
      FROM calls c
      JOIN tables t ON t.oid = c.oid
     ORDER BY c.part, t.relname COLLATE "C", c.n;
END
$$;
COMMENT ON FUNCTION graphrag.suggest_attachments(text, text) IS 'Calls of attach_entities() and attach_relationships() for the tables of a schema that the caller may read, in an order that works; nothing is attached. They are made from the catalogs alone: keys, foreign keys, unique indexes, types, comments, statistics and names of columns. A table without a name of its own and with two foreign keys is taken for relationships. kind: entities or relationships; reason: why, and how many rows. Columns whose names suggest secrets are left out. A proposal: read it before you run it. For the owner of the extension, who may grant EXECUTE; 3F000 for an unknown schema.';
