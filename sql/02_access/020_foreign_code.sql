CREATE FUNCTION graphrag._login() RETURNS name
LANGUAGE sql STABLE SET search_path = pg_catalog, pg_temp
BEGIN ATOMIC
    SELECT r.rolname FROM pg_stat_get_activity(pg_backend_pid()) a JOIN pg_roles r ON r.oid = a.usesysid;
END;
COMMENT ON FUNCTION graphrag._login() IS 'The role that logged in, whatever the session took on since';

-- Code that reading a relation would run, and that must not get the session's rights. A view, policy or index expression can take SET ROLE
-- and SET SESSION AUTHORIZATION back, and so act as who logged in. Therefore a superuser's session, one with the owner's rights, and one
-- whose role is not its login's read only what belongs to roles that have the rights of both. Null: nothing.
CREATE FUNCTION graphrag._foreign_code(relation regclass) RETURNS text
LANGUAGE plpgsql STABLE SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
    login CONSTANT name := graphrag._login();
BEGIN
    IF login = current_user AND NOT pg_has_role((SELECT c.relowner FROM pg_class c WHERE c.oid = 'graphrag.corpora'::regclass), 'MEMBER') THEN
        RETURN NULL;
    END IF;
    RETURN (
        WITH RECURSIVE parts (class, id) AS (
            SELECT 'pg_class'::regclass::oid, relation::oid
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
        SELECT min(format('%s of role "%s"', o.object, pg_get_userbyid(o.owner)))
          FROM owners o
         WHERE NOT (pg_has_role(o.owner, login, 'MEMBER') AND pg_has_role(o.owner, current_user, 'MEMBER')));
END
$$;
COMMENT ON FUNCTION graphrag._foreign_code(regclass) IS 'What a read of a relation would run that is not to have the rights of the session or of the caller; null: nothing';

CREATE FUNCTION graphrag._refuse_foreign_code(relation regclass) RETURNS void
LANGUAGE plpgsql STABLE SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
    foreign_code text := graphrag._foreign_code(relation);
BEGIN
    IF foreign_code IS NOT NULL THEN
        RAISE EXCEPTION '% is not read by a session of "%" as "%"', relation, graphrag._login(), current_user
            USING ERRCODE = 'insufficient_privilege', DETAIL = format('What it runs could take the rights of both: %s.', foreign_code),
                  HINT = 'Log in as an ordinary role that may read it, without SET ROLE and SECURITY DEFINER; or let relation and schema belong to a role that has the rights of both, such as a superuser.';
    END IF;
END
$$;
COMMENT ON FUNCTION graphrag._refuse_foreign_code(regclass) IS 'Refuses a relation whose code would get rights that its owners have not';
