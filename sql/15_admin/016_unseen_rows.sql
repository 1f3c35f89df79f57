-- Who reads the corpora of attached rows, and what each lacks to see rows of a table. Judged as where they log in, or who takes their role
-- on does.
-- By memberships: pg_has_role() would be asked of every role of the cluster for every grant. GROUP BY keeps what is found of a table from being
-- found again for each reader, and lets who asks for one table look at no other.
CREATE VIEW graphrag._row_readers AS
WITH RECURSIVE attached AS (
    SELECT t.id, t.corpus_id, t.relation, t.numbers, n.oid AS schema_id, n.nspname, c.relname, c.relowner, c.relrowsecurity, c.relforcerowsecurity,
           pg_catalog.array_agg(DISTINCT o.owner) FILTER (WHERE o.owner IS NOT NULL) AS owners,
           ARRAY(SELECT u.role FROM pg_catalog.pg_policy p CROSS JOIN LATERAL pg_catalog.unnest(p.polroles) u (role)
                  WHERE p.polrelid = t.relation AND p.polpermissive AND p.polcmd IN ('r', '*')) AS shown_to
      FROM graphrag_attached._row_tables t
      JOIN pg_catalog.pg_class c ON c.oid = t.relation
      JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace
      LEFT JOIN LATERAL graphrag_attached._code_of(t.relation) o ON c.relrowsecurity
     WHERE pg_catalog.cardinality(t.numbers) > 0
     GROUP BY t.id, t.corpus_id, t.relation, t.numbers, n.oid, n.nspname, c.relname, c.relowner, c.relrowsecurity, c.relforcerowsecurity
), given AS MATERIALIZED (
    SELECT g.corpus_id, g.role
      FROM (SELECT g.corpus_id, r.oid AS role FROM graphrag.corpus_grants g JOIN pg_catalog.pg_roles r ON (r.oid, r.rolname) = (g.role_oid, g.role)
             UNION ALL
            SELECT c.id, r.oid FROM graphrag.corpora c JOIN pg_catalog.pg_roles r ON r.rolname = 'graphrag_reader') g
     WHERE g.corpus_id IN (SELECT t.corpus_id FROM graphrag_attached._row_tables t)
), held (role, holder, inherits) AS (
    SELECT g.role, g.role, true FROM given g
     UNION
    SELECT h.role, m.member, h.inherits AND m.inherit_option FROM held h JOIN pg_catalog.pg_auth_members m ON m.roleid = h.holder
), holders AS MATERIALIZED (
    SELECT h.role, h.inherits, r.oid, r.rolname, r.rolcanlogin, r.rolsuper, r.rolbypassrls FROM held h JOIN pg_catalog.pg_roles r ON r.oid = h.holder
), readers AS MATERIALIZED (
    SELECT DISTINCT g.corpus_id, g.role AS granted, m.oid, m.rolname, coalesce(l.oid, m.oid) AS login
      FROM given g
      JOIN holders m ON m.role = g.role AND m.inherits AND (m.rolcanlogin OR m.oid = g.role)
      -- Who takes a reader's role on by SET ROLE, as a pool does.
      LEFT JOIN holders l ON NOT m.rolcanlogin AND l.role = m.oid AND l.rolcanlogin AND NOT l.rolsuper
     WHERE NOT m.rolsuper AND NOT m.rolbypassrls AND m.rolname <> 'graphrag_reader'
       AND NOT pg_catalog.pg_has_role(m.oid, (SELECT c.relowner FROM pg_catalog.pg_class c WHERE c.oid = 'graphrag.corpora'::pg_catalog.regclass), 'USAGE')
), looks AS (
    SELECT a.id, r.corpus_id, r.granted, r.oid AS reader, r.rolname, r.login,
           pg_catalog.has_schema_privilege(r.oid, a.schema_id, 'USAGE') AS may_enter,
           -- Where policies are asked, the table is locked, for which columns are not enough.
           CASE WHEN s.is_under THEN pg_catalog.has_table_privilege(r.oid, a.relation, 'SELECT')
                ELSE (SELECT pg_catalog.bool_and(pg_catalog.has_column_privilege(r.oid, a.relation, u.number, 'SELECT')) FROM pg_catalog.unnest(a.numbers) u (number))
                END AS may_select,
           CASE WHEN s.is_under
                THEN ARRAY(SELECT u.owner FROM pg_catalog.unnest(a.owners) u (owner)
                            WHERE NOT (pg_catalog.pg_has_role(u.owner, r.oid, 'MEMBER') AND pg_catalog.pg_has_role(u.owner, r.login, 'MEMBER'))
                            ORDER BY pg_catalog.pg_get_userbyid(u.owner))
                ELSE '{}' END AS owners,
           s.is_under AND NOT EXISTS (SELECT FROM pg_catalog.unnest(a.shown_to) u (role) WHERE u.role = 0 OR pg_catalog.pg_has_role(r.oid, u.role, 'USAGE')) AS lacks_policy,
           pg_catalog.pg_has_role(r.oid, a.relowner, 'USAGE') AS owns, a.nspname, a.relname
      FROM attached a
      JOIN readers r ON r.corpus_id = a.corpus_id
     CROSS JOIN LATERAL (SELECT a.relrowsecurity AND (a.relforcerowsecurity OR NOT pg_catalog.pg_has_role(r.oid, a.relowner, 'USAGE')) AS is_under) s
)
SELECT l.id AS attached_id, l.corpus_id, l.granted, pg_catalog.format('%I.%I', l.nspname, l.relname) AS attached_table, l.reader, l.rolname,
       l.may_enter AND l.may_select AND NOT l.lacks_policy AS may_select, l.owns,
       pg_catalog.concat_ws(' ',
           CASE WHEN NOT l.may_enter THEN pg_catalog.format('GRANT USAGE ON SCHEMA %I TO %I;', l.nspname, l.rolname) END,
           CASE WHEN NOT l.may_select THEN pg_catalog.format('GRANT SELECT ON %I.%I TO %I;', l.nspname, l.relname, l.rolname) END,
           CASE WHEN l.lacks_policy THEN pg_catalog.format('CREATE POLICY readers ON %I.%I FOR SELECT TO %I USING (condition);', l.nspname, l.relname, l.rolname) END,
           (SELECT pg_catalog.string_agg(graphrag_attached._lending(ARRAY[l.reader, nullif(l.login, l.reader)], u.owner), ' ')
              FROM pg_catalog.unnest(l.owners) u (owner))) AS mend
  FROM looks l;
REVOKE ALL ON graphrag._row_readers FROM PUBLIC;
COMMENT ON VIEW graphrag._row_readers IS 'Readers of corpora with attached rows, by table, and the statements without which they see none of its rows; empty: they see those that its policies show';

-- Where some reader beside its owner may SELECT a table's rows, those who may not are not meant to; policies that are not asked are another thing.
CREATE VIEW graphrag._unseen_rows AS
SELECT r.attached_id, r.corpus_id, r.attached_table,
       pg_catalog.format('role "%s"%s', pg_catalog.min(r.rolname),
                         CASE WHEN pg_catalog.count(DISTINCT r.rolname) > 1 THEN pg_catalog.format(' and %s more', pg_catalog.count(DISTINCT r.rolname) - 1) ELSE '' END) AS readers,
       -- As many as one reads; where these are mended, the next are named.
       pg_catalog.array_to_string((pg_catalog.array_agg(DISTINCT r.mend))[1:5], ' ') AS mend
  FROM (SELECT x.*, pg_catalog.bool_or(x.may_select AND NOT x.owns) OVER (PARTITION BY x.attached_id, x.corpus_id) AS is_for_some FROM graphrag._row_readers x) r
 WHERE r.mend <> '' AND (r.may_select OR NOT r.is_for_some)
 GROUP BY r.attached_id, r.corpus_id, r.attached_table;
REVOKE ALL ON graphrag._unseen_rows FROM PUBLIC;
COMMENT ON VIEW graphrag._unseen_rows IS 'Attached tables without a visible row for a reader of their corpus, the reader, and the statements that repair it';

-- Tells whoever attaches, grants, or changes a table. Without a reader yet, of what the next will lack.
CREATE FUNCTION graphrag._warn_of_unseen(attached_ids int[]) RETURNS void
LANGUAGE plpgsql VOLATILE SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
    unseen record;
BEGIN
    FOR unseen IN
        SELECT t.relation::regclass::text AS attached_table, u.readers, u.mend, graphrag_attached._withholding(t.relation) AS owners,
               c.relrowsecurity AND NOT EXISTS (SELECT FROM pg_policy p WHERE p.polrelid = t.relation AND p.polpermissive AND p.polcmd IN ('r', '*')) AS lacks_policy
          FROM graphrag_attached._row_tables t
          JOIN pg_class c ON c.oid = t.relation
          LEFT JOIN LATERAL (SELECT x.* FROM graphrag._unseen_rows x WHERE (x.attached_id, x.corpus_id) = (t.id, t.corpus_id) OFFSET 0) u ON true
         WHERE t.id = ANY (attached_ids)
         ORDER BY 1
    LOOP
        IF unseen.lacks_policy AND unseen.readers IS NULL THEN
            RAISE WARNING 'rows of % are shown to no reader: it has row-level security and no policy for SELECT', unseen.attached_table
                USING HINT = format('CREATE POLICY readers ON %s FOR SELECT USING (condition);', unseen.attached_table);
        ELSIF unseen.readers IS NOT NULL THEN
            RAISE WARNING 'rows of % are not shown to %', unseen.attached_table, unseen.readers USING HINT = unseen.mend;
        ELSIF unseen.owners IS NOT NULL THEN
            RAISE WARNING 'rows of % are shown to no reader: its policies are asked for those alone whose rights % has', unseen.attached_table, unseen.owners
                USING HINT = format('GRANT reader TO %s; for each role that reads, and for the one that logs in where that takes it on by SET ROLE.', unseen.owners);
        END IF;
    END LOOP;
END
$$;
COMMENT ON FUNCTION graphrag._warn_of_unseen(int[]) IS 'Warns of attached tables that show a reader no rows, with the repair';
