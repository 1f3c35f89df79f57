-- The roles of the cluster that grants name. They stay when the schema goes: other databases may use them.
-- A role of that name that exists is taken only if nobody else made it more than a name, or decides who has it: nobody but
-- superusers, and, where no superuser installs (beside a database without the extension), who installs or owns the database.
CREATE FUNCTION graphrag._ensure_roles() RETURNS void
LANGUAGE plpgsql VOLATILE SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
    is_superuser boolean := (SELECT r.rolsuper FROM pg_roles r WHERE r.rolname = current_user);
    wanted       record;
    wrong        text;
BEGIN
    -- Roles are the cluster's: another database may be making them at this moment.
    IF is_superuser THEN
        LOCK TABLE pg_catalog.pg_authid IN SHARE ROW EXCLUSIVE MODE;
    END IF;
    FOR wanted IN
        SELECT * FROM (VALUES
            (1, 'graphrag_member', '{}'::name[],              'pg_graphrag: reads the corpora that grant_corpus() gave to it'),
            (2, 'graphrag_reader', '{graphrag_member}'::name[], 'pg_graphrag: reads every corpus, and of protected ones what protect() lets it see'),
            (3, 'graphrag_writer', '{graphrag_member}'::name[], 'pg_graphrag: writes documents of the corpora that grant_corpus() gave to it')
        ) v (place, name, groups, comment) ORDER BY place
    LOOP
        IF to_regrole(wanted.name) IS NULL THEN
            BEGIN
                EXECUTE format('CREATE ROLE %I NOLOGIN', wanted.name);
                EXECUTE format('COMMENT ON ROLE %I IS %L', wanted.name, wanted.comment);
            EXCEPTION WHEN insufficient_privilege THEN
                RAISE EXCEPTION 'role "%" does not exist, and "%" may not make it', wanted.name, current_user
                    USING ERRCODE = 'insufficient_privilege',
                          HINT = 'Have who may make roles run: CREATE ROLE graphrag_member NOLOGIN; CREATE ROLE graphrag_reader NOLOGIN IN ROLE graphrag_member; CREATE ROLE graphrag_writer NOLOGIN IN ROLE graphrag_member.';
            END;
        END IF;
        SELECT CASE
                   WHEN r.rolcanlogin THEN 'it may log in'
                   WHEN r.rolsuper OR r.rolcreatedb OR r.rolcreaterole OR r.rolreplication OR r.rolbypassrls
                       THEN 'it has attributes of its own (SUPERUSER, CREATEDB, CREATEROLE, REPLICATION or BYPASSRLS)'
                   WHEN g.others IS NOT NULL THEN format('it is a member of %s', g.others)
                   WHEN a.admins IS NOT NULL THEN format('%s may grant it (ADMIN OPTION)', a.admins)
               END INTO wrong
          FROM pg_roles r
         CROSS JOIN LATERAL (
               SELECT string_agg(quote_ident(x.rolname), ', ' ORDER BY x.rolname) AS others
                 FROM pg_auth_members m JOIN pg_roles x ON x.oid = m.roleid
                WHERE m.member = r.oid AND x.rolname <> ALL (wanted.groups)) g
         CROSS JOIN LATERAL (
               -- Who inherits from a superuser, and cannot become him, is no superuser, and has what he may grant.
               SELECT string_agg(DISTINCT quote_ident(x.rolname), ', ') AS admins
                 FROM pg_auth_members m
                 JOIN pg_roles x ON x.oid = m.member OR pg_has_role(x.oid, m.member, 'USAGE') AND NOT pg_has_role(x.oid, m.member, 'SET')
                WHERE m.roleid = r.oid AND m.admin_option AND NOT x.rolsuper
                  AND (is_superuser OR x.rolname <> current_user AND x.oid <> (SELECT d.datdba FROM pg_database d WHERE d.datname = current_database()))) a
         WHERE r.rolname = wanted.name;
        IF wrong IS NOT NULL THEN
            RAISE EXCEPTION 'role "%" exists, and cannot be trusted: %', wanted.name, wrong
                USING ERRCODE = 'insufficient_privilege',
                      HINT = format('Have who may take that away, or DROP ROLE %I, or give it another name: ALTER ROLE %1$I RENAME TO …. Then try again.', wanted.name);
        END IF;
        IF wanted.groups <> '{}' AND NOT pg_has_role(wanted.name, wanted.groups[1], 'USAGE') THEN
            EXECUTE format('GRANT %I TO %I WITH INHERIT TRUE', wanted.groups[1], wanted.name);
        END IF;
    END LOOP;
END
$$;
COMMENT ON FUNCTION graphrag._ensure_roles() IS 'Makes graphrag_member, graphrag_reader and graphrag_writer, or refuses those there are';
SELECT graphrag._ensure_roles();
