-- The end of every upgrade script. A GRANT or REVOKE in an extension script makes everything the object is granted at that
-- moment initial privileges, the application's grants too, and pg_dump does not dump those. They become the application's again.
DO $block$
DECLARE
    ours CONSTANT oid[] := ARRAY(SELECT r.oid FROM pg_catalog.pg_roles AS r
                                  WHERE r.rolname ~ '^(graphrag_(member|reader|writer)|pg_monitor)$') || 0::oid;
    -- What limited roles may do with documents comes and goes at run time (_settle_policies).
    limited CONSTANT oid[] := ARRAY(SELECT r.oid FROM pg_catalog.pg_roles AS r WHERE r.rolname ~ '^graphrag_(member|writer)$');
    initial oid[];
    item record;
BEGIN
    -- Tables made at run time are not the extension's: they have none.
    WITH stray AS (
        DELETE FROM pg_catalog.pg_init_privs AS i
         USING pg_catalog.pg_class AS c
         WHERE i.classoid = 'pg_catalog.pg_class'::pg_catalog.regclass AND i.objoid = c.oid AND c.relnamespace = 'graphrag'::pg_catalog.regnamespace
           AND NOT EXISTS (SELECT FROM pg_catalog.pg_depend AS d WHERE (d.classid, d.objid) = (i.classoid, i.objoid) AND d.deptype = 'e')
        RETURNING i.classoid, i.objoid
    )
    DELETE FROM pg_catalog.pg_shdepend AS s
     USING stray AS t
     WHERE s.dbid = (SELECT d.oid FROM pg_catalog.pg_database AS d WHERE d.datname = pg_catalog.current_database())
       AND (s.classid, s.objid) = (t.classoid, t.objoid) AND s.deptype = 'i';
    FOR item IN
        SELECT i.classoid, i.objoid, i.objsubid, i.initprivs,
               coalesce((SELECT r.relowner FROM pg_catalog.pg_class AS r WHERE i.classoid = 'pg_catalog.pg_class'::pg_catalog.regclass AND r.oid = i.objoid),
                        (SELECT p.proowner FROM pg_catalog.pg_proc AS p WHERE i.classoid = 'pg_catalog.pg_proc'::pg_catalog.regclass AND p.oid = i.objoid),
                        (SELECT n.nspowner FROM pg_catalog.pg_namespace AS n WHERE i.classoid = 'pg_catalog.pg_namespace'::pg_catalog.regclass AND n.oid = i.objoid)) AS owner
          FROM pg_catalog.pg_init_privs AS i
         WHERE i.privtype = 'e'
           AND (i.classoid = 'pg_catalog.pg_namespace'::pg_catalog.regclass AND i.objoid = 'graphrag'::pg_catalog.regnamespace
                OR EXISTS (SELECT FROM pg_catalog.pg_depend AS d JOIN pg_catalog.pg_extension AS x ON x.oid = d.refobjid
                            WHERE (d.classid, d.objid) = (i.classoid, i.objoid) AND d.deptype = 'e'
                              AND d.refclassid = 'pg_catalog.pg_extension'::pg_catalog.regclass AND x.extname = 'pg_graphrag'))
    LOOP
        initial := ARRAY(SELECT u.id FROM pg_catalog.unnest(ours || item.owner) AS u (id)
                          WHERE item.objoid <> 'graphrag.documents'::pg_catalog.regclass OR u.id <> ALL (limited));
        IF EXISTS (SELECT FROM pg_catalog.aclexplode(item.initprivs) AS a WHERE a.grantee <> ALL (initial)) THEN
            UPDATE pg_catalog.pg_init_privs AS i
               SET initprivs = (SELECT coalesce(pg_catalog.array_agg(u.one), '{}') FROM pg_catalog.unnest(i.initprivs) AS u (one)
                                 WHERE EXISTS (SELECT FROM pg_catalog.aclexplode(ARRAY[u.one]) AS a WHERE a.grantee = ANY (initial)))
             WHERE (i.classoid, i.objoid, i.objsubid) = (item.classoid, item.objoid, item.objsubid);
            DELETE FROM pg_catalog.pg_shdepend AS s
             WHERE s.dbid = (SELECT d.oid FROM pg_catalog.pg_database AS d WHERE d.datname = pg_catalog.current_database())
               AND (s.classid, s.objid, s.objsubid) = (item.classoid, item.objoid, item.objsubid)
               AND s.deptype = 'i' AND s.refobjid <> ALL (initial);
        END IF;
    END LOOP;
    DELETE FROM pg_catalog.pg_init_privs AS i
     WHERE i.classoid = 'pg_catalog.pg_class'::pg_catalog.regclass AND i.objoid = 'graphrag.documents'::pg_catalog.regclass AND i.initprivs = '{}';
END
$block$;
