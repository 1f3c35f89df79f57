-- Who may read the rows of attached tables: asked as the caller, by the row-level security of documents.

-- Attachments whose rows are entities or relationships, for everybody: what it shows of tables is in the catalog, and their triggers tell
-- that they are attached. Columns by number, as they were last seen: after a restore there are none before somebody has looked.
CREATE VIEW graphrag_attached._row_tables WITH (security_barrier = true) AS
SELECT a.id, a.corpus_id, x.relation, w.numbers,
       ROW(a.id, '', x.relation, x.owner, x.schema_name, x.table_name, x.key_columns, x.content_columns, x.title_column, x.metadata_columns,
           x.metadata_keys, x.key_prefix, x.where_column, x.valid_from_column, x.valid_to_column, x.kind, x.entity_type, x.name_is_unique,
           x.alias_columns, x.reference_columns, x.reference_types, x.reference_prefixes, x.reference_widths, x.reference_by_name)::graphrag_attached._attachments AS attachment
  FROM graphrag._attached_tables a
  LEFT JOIN graphrag._attachments x ON x.id = a.id
  LEFT JOIN graphrag._attached_seen w ON w.attached_id = a.id AND w.relation = x.relation
 WHERE a.kind <> 'documents';

-- Which rows of a table the caller may SELECT: all, some (its policies say which) or none; withheld: some, if what the policies run were
-- not of others. All columns that are attached count, since a row's document has them all. Reads the catalog alone.
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
        ELSE 'withheld' END;
END
$$;

-- Of each attachment of rows, by its number: whether the caller may read all, some or none of them.
CREATE FUNCTION graphrag_attached._rows_are(access text) RETURNS boolean[]
LANGUAGE plpgsql STABLE PARALLEL SAFE SET search_path = pg_catalog, pg_temp
AS $$
BEGIN
    RETURN (SELECT array_agg(t.id IS NOT NULL AND replace(graphrag_attached._rows_of(t.relation, t.numbers), 'withheld', 'none') = access ORDER BY n)
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

-- The role that logged in, whatever the session took on since.
CREATE FUNCTION graphrag_attached._login() RETURNS name
LANGUAGE sql STABLE SET search_path = pg_catalog, pg_temp
BEGIN ATOMIC
    SELECT r.rolname FROM pg_stat_get_activity(pg_backend_pid()) a JOIN pg_roles r ON r.oid = a.usesysid;
END;

-- What reading a relation would run, and whose it is. The owner counts for the relation, not its policies alone: these may call
-- query_to_xml(), which runs any text and is in no catalog of dependencies; and who may make an index makes it between a look at the
-- catalog and the read.
CREATE FUNCTION graphrag_attached._code_of(relation oid) RETURNS TABLE (object text, owner oid)
LANGUAGE plpgsql STABLE ROWS 10 PARALLEL SAFE SET search_path = pg_catalog, pg_temp
AS $$
BEGIN
    RETURN QUERY
        WITH RECURSIVE parts (class, id) AS (
            SELECT 'pg_class'::regclass::oid, relation
             UNION
            (WITH part AS (SELECT p.class, p.id FROM parts p)
             -- What a view reads and calls; what a table's indexes, policies, constraints and columns call; its partitions.
             SELECT d.refclassid, d.refobjid
               FROM part p
              CROSS JOIN LATERAL (
                    SELECT 'pg_rewrite'::regclass::oid AS class, r.oid AS id FROM pg_rewrite r WHERE r.ev_class = p.id
                     UNION ALL
                    SELECT 'pg_class'::regclass, i.indexrelid FROM pg_index i WHERE i.indrelid = p.id
                     UNION ALL
                    SELECT 'pg_policy'::regclass, y.oid FROM pg_policy y WHERE y.polrelid = p.id
                     UNION ALL
                    SELECT 'pg_constraint'::regclass, c.oid FROM pg_constraint c WHERE c.conrelid = p.id
                     UNION ALL
                    SELECT 'pg_statistic_ext'::regclass, s.oid FROM pg_statistic_ext s WHERE s.stxrelid = p.id
                     UNION ALL
                    SELECT 'pg_attrdef'::regclass, a.oid FROM pg_attrdef a WHERE a.adrelid = p.id
                     UNION ALL
                    SELECT 'pg_class'::regclass, p.id) o
               JOIN pg_depend d ON d.classid = o.class AND d.objid = o.id
              WHERE p.class = 'pg_class'::regclass
                AND d.refclassid IN ('pg_class'::regclass, 'pg_proc'::regclass, 'pg_operator'::regclass, 'pg_opclass'::regclass, 'pg_type'::regclass)
             UNION ALL
             SELECT 'pg_class'::regclass, h.inhrelid FROM part p JOIN pg_inherits h ON h.inhparent = p.id WHERE p.class = 'pg_class'::regclass
             UNION ALL
             SELECT 'pg_proc'::regclass, o.oprcode FROM part p JOIN pg_operator o ON o.oid = p.id WHERE p.class = 'pg_operator'::regclass
             UNION ALL
             SELECT d.refclassid, d.refobjid
               FROM part p
               JOIN pg_constraint c ON c.contypid = p.id
               JOIN pg_depend d ON d.classid = 'pg_constraint'::regclass AND d.objid = c.oid
              WHERE p.class = 'pg_type'::regclass AND d.refclassid IN ('pg_proc'::regclass, 'pg_operator'::regclass)
             UNION ALL
             SELECT 'pg_type'::regclass, t.typbasetype FROM part p JOIN pg_type t ON t.oid = p.id WHERE p.class = 'pg_type'::regclass AND t.typtype = 'd')
        ), owners (object, owner) AS (
            SELECT pg_describe_object(p.class, p.id, 0), c.relowner FROM parts p JOIN pg_class c ON p.class = 'pg_class'::regclass AND c.oid = p.id
             UNION ALL
            -- Who owns the schema can put something else under the name.
            SELECT pg_describe_object('pg_namespace'::regclass, n.oid, 0), CASE WHEN n.nspowner = 'pg_database_owner'::regrole THEN d.datdba ELSE n.nspowner END
              FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace JOIN pg_database d ON d.datname = current_database()
             WHERE c.oid = relation
             UNION ALL
            SELECT pg_describe_object(p.class, p.id, 0), f.proowner FROM parts p JOIN pg_proc f ON p.class = 'pg_proc'::regclass AND f.oid = p.id
             UNION ALL
            SELECT pg_describe_object(p.class, p.id, 0), o.opcowner FROM parts p JOIN pg_opclass o ON p.class = 'pg_opclass'::regclass AND o.oid = p.id
             UNION ALL
            SELECT pg_describe_object(p.class, p.id, 0), t.typowner FROM parts p JOIN pg_type t ON p.class = 'pg_type'::regclass AND t.oid = p.id
        )
        SELECT o.object, o.owner FROM owners o;
END
$$;

-- What of it is of others than roles that have the rights of the caller and of the session anyway: superusers above all. Null: nothing.
CREATE FUNCTION graphrag_attached._code_of_others(relation oid) RETURNS text
LANGUAGE plpgsql STABLE PARALLEL SAFE SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
    login CONSTANT name := graphrag_attached._login();
BEGIN
    RETURN (SELECT min(format('%s of role "%s"', o.object, pg_get_userbyid(o.owner)))
              FROM graphrag_attached._code_of(relation) o
             WHERE NOT (pg_has_role(o.owner, login, 'MEMBER') AND pg_has_role(o.owner, current_user, 'MEMBER')));
END
$$;

-- The statements that give a role the rights of others. No role is a member of its members: what leads to them from it is taken back
-- before, which the statement says. Not a part of the queries that print it: each of them would be planned as a join of all memberships.
CREATE FUNCTION graphrag_attached._lending(roles oid[], to_role oid) RETURNS text
LANGUAGE plpgsql STABLE PARALLEL SAFE SET search_path = pg_catalog, pg_temp
AS $$
BEGIN
    RETURN concat((SELECT string_agg(format('REVOKE %s FROM %s%s /* takes rights of %s from %s */; ', m.roleid::regrole, m.member::regrole,
                                            -- What a superuser granted, any superuser revokes.
                                            CASE WHEN m.grantor <> 10 THEN format(' GRANTED BY %s', m.grantor::regrole) END,
                                            -- No name begins or ends a comment.
                                            translate(m.roleid::regrole::text, '*/', '__'), translate(m.member::regrole::text, '*/', '__')), '' ORDER BY m.member::regrole::text)
                     FROM pg_auth_members m
                    WHERE m.roleid = to_role AND EXISTS (SELECT FROM unnest(roles) u (role) WHERE pg_has_role(u.role, m.member, 'MEMBER'))),
                  format('GRANT %s TO %s;', (SELECT string_agg(u.role::regrole::text, ', ' ORDER BY u.place) FROM unnest(roles) WITH ORDINALITY u (role, place)),
                         to_role::regrole));
END
$$;

-- Attached tables of a corpus that keep their rows from the caller, though he may SELECT some: what they would run, null where no policy
-- for SELECT is for him; what mends it; and the superuser whose session it is, which is lent to nobody.
CREATE FUNCTION graphrag_attached._withheld(corpus_id int) RETURNS TABLE (attached_table text, code text, mend text, superuser name)
LANGUAGE plpgsql STABLE ROWS 1 PARALLEL SAFE SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
    login CONSTANT name := graphrag_attached._login();
BEGIN
    RETURN QUERY
    SELECT t.relation::regclass::text, a.code,
           concat_ws(' ', CASE WHEN a.lacks_policy THEN format('CREATE POLICY readers ON %s FOR SELECT TO %I USING (condition);', t.relation::regclass, current_user) END,
           (SELECT string_agg(DISTINCT graphrag_attached._lending(l.roles, o.owner), ' ')
              FROM graphrag_attached._code_of(t.relation) o
             CROSS JOIN LATERAL (
                   SELECT array_agg(r.oid ORDER BY r.rolname) AS roles FROM pg_roles r
                    WHERE r.rolname IN (login, current_user) AND NOT r.rolsuper AND NOT pg_has_role(o.owner, r.oid, 'MEMBER')) l
             WHERE l.roles IS NOT NULL)),
           (SELECT r.rolname FROM pg_roles r WHERE r.rolname = login AND r.rolsuper AND a.code IS NOT NULL)
      FROM graphrag_attached._row_tables t
     CROSS JOIN LATERAL (SELECT graphrag_attached._rows_of(t.relation, t.numbers) AS shown OFFSET 0) r
     CROSS JOIN LATERAL (
           SELECT CASE WHEN r.shown = 'withheld' THEN graphrag_attached._code_of_others(t.relation) END AS code,
                  NOT EXISTS (SELECT FROM pg_policy p CROSS JOIN LATERAL unnest(p.polroles) u (role)
                               WHERE p.polrelid = t.relation AND p.polpermissive AND p.polcmd IN ('r', '*')
                                 AND (u.role = 0 OR pg_has_role(u.role, 'USAGE'))) AS lacks_policy
           OFFSET 0) a
     WHERE t.corpus_id = _withheld.corpus_id AND r.shown IN ('some', 'withheld') AND (a.code IS NOT NULL OR a.lacks_policy);
END
$$;

-- Roles that own what the policies of a table run, where none of them has the rights of any reader: who shows its rows to nobody. Null: it
-- has no row-level security, or some reader's rights are theirs.
CREATE FUNCTION graphrag_attached._withholding(relation oid) RETURNS text
LANGUAGE plpgsql STABLE PARALLEL SAFE SET search_path = pg_catalog, pg_temp
AS $$
BEGIN
    IF (SELECT c.relrowsecurity FROM pg_class c WHERE c.oid = relation) IS NOT TRUE THEN
        RETURN NULL;
    END IF;
    RETURN (SELECT string_agg(DISTINCT quote_ident(w.rolname), ', ')
              FROM graphrag_attached._code_of(relation) o
              JOIN pg_roles w ON w.oid = o.owner AND NOT w.rolsuper
             WHERE NOT EXISTS (SELECT FROM pg_roles r
                                WHERE r.oid <> w.oid AND r.rolname !~ '^(pg_|graphrag_)' AND pg_has_role(w.oid, r.oid, 'MEMBER')
                                  AND pg_has_role(r.oid, 'graphrag_member', 'USAGE')));
END
$$;

-- The documents of the rows that policies of their tables show the caller, by attachment and key. VOLATILE, to lock each table before it is
-- looked at: nobody takes it over meanwhile.
CREATE FUNCTION graphrag_attached._readable_keys() RETURNS TABLE (attached_id int, source_key text)
LANGUAGE plpgsql VOLATILE ROWS 1000 PARALLEL RESTRICTED SET search_path = pg_catalog, pg_temp SET row_security = on
SET datestyle = 'ISO, YMD' SET timezone = 'UTC' SET intervalstyle = 'postgres' SET extra_float_digits = 1 SET bytea_output = 'hex'
SET quote_all_identifiers = off
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
            WHEN deadlock_detected OR lock_not_available OR serialization_failure OR statement_too_complex OR insufficient_resources OR system_error THEN
                -- Nothing of the table: what the server lacks at the moment, such as stack, would silently leave rows out.
                RAISE;
            -- What cannot be read is not seen: a column is gone, a policy raises an error, only columns were granted, which lock no table.
            WHEN OTHERS THEN
                NULL;
        END;
    END LOOP;
END
$$;

-- The same as {attachment: {key: true}}.
CREATE FUNCTION graphrag_attached._keys_by_attachment() RETURNS jsonb
LANGUAGE plpgsql VOLATILE PARALLEL RESTRICTED SET search_path = pg_catalog, pg_temp
AS $$
BEGIN
    RETURN (SELECT jsonb_object_agg(a.attached_id, a.keys)
              FROM (SELECT k.attached_id, jsonb_object_agg(k.source_key, true) AS keys
                      FROM graphrag_attached._readable_keys() k GROUP BY k.attached_id) a);
END
$$;
