-- Refuse, before anything is made, a database this extension cannot serve.
DO $$
BEGIN
    IF pg_catalog.current_setting('server_encoding') <> 'UTF8' THEN
        RAISE EXCEPTION 'pg_graphrag needs a UTF8 database; this one is %', pg_catalog.current_setting('server_encoding')
            USING ERRCODE = 'feature_not_supported',
                  HINT = 'CREATE DATABASE … ENCODING ''UTF8'' TEMPLATE template0, then create the extension there.';
    END IF;
END
$$;

-- A schema that was there before must be empty: what stands in it could be called in place of ours.
DO $$
DECLARE
    home    pg_catalog.regnamespace := '@extschema@';
    content text;
BEGIN
    SELECT pg_catalog.string_agg(pg_catalog.pg_describe_object(d.classid, d.objid, d.objsubid), ', ') INTO content
      FROM (SELECT x.classid, x.objid, x.objsubid
              FROM pg_catalog.pg_depend AS x
             WHERE x.refclassid = 'pg_catalog.pg_namespace'::pg_catalog.regclass AND x.refobjid = home
               AND x.classid <> 'pg_catalog.pg_extension'::pg_catalog.regclass
             LIMIT 5) AS d;
    IF content IS NOT NULL THEN
        RAISE EXCEPTION 'schema % is not empty', home
            USING ERRCODE = 'duplicate_object', DETAIL = 'It holds: ' || content || '.',
                  HINT = pg_catalog.format('Move these objects to another schema or drop them; DROP SCHEMA %s CASCADE drops all. Then run CREATE EXTENSION again.', home);
    END IF;
END
$$;

-- It must be a superuser's, too, and closed to others, who could put something before ours, or replace it. A restore makes it first, and passes.
CREATE FUNCTION graphrag._check_schema() RETURNS void
LANGUAGE plpgsql STABLE SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
    other text;
BEGIN
    SELECT r.rolname INTO other
      FROM pg_namespace n JOIN pg_roles r ON r.oid = n.nspowner
     WHERE n.nspname = 'graphrag' AND r.rolname <> current_user AND NOT r.rolsuper;
    IF FOUND THEN
        RAISE EXCEPTION 'schema graphrag belongs to role "%"', other
            USING ERRCODE = 'insufficient_privilege',
                  HINT = format('Drop the schema, or ALTER SCHEMA graphrag OWNER TO %I, then try again.', current_user);
    END IF;
    SELECT string_agg(coalesce(r.rolname, 'PUBLIC'), ', ' ORDER BY r.rolname) INTO other
      FROM pg_namespace n
     CROSS JOIN aclexplode(n.nspacl) a
      LEFT JOIN pg_roles r ON r.oid = a.grantee
     WHERE n.nspname = 'graphrag' AND a.privilege_type = 'CREATE' AND a.grantee <> n.nspowner AND r.rolsuper IS NOT TRUE
       -- Default privileges on a schema that CREATE EXTENSION itself has just made end with the script (zz_privileges.sql).
       AND n.xmin <> pg_current_xact_id()::xid;
    IF other IS NOT NULL THEN
        RAISE EXCEPTION 'others may create objects in schema graphrag: %', other
            USING ERRCODE = 'insufficient_privilege', HINT = format('REVOKE CREATE ON SCHEMA graphrag FROM %s, then try again.', other);
    END IF;
END
$$;
COMMENT ON FUNCTION graphrag._check_schema() IS 'Refuses a schema that is not a superuser''s, or in which others may create';
SELECT graphrag._check_schema();

-- What every PL/Python body calls: it checks that package and extension are of one version, and turns Python errors into SQL errors.
DO LANGUAGE plpython3u $$
try:
    import pg_graphrag
except ImportError as error:
    plpy.error(f"the Python package pg_graphrag cannot be imported by the server: {error}", sqlstate="58P01",
               hint="Install the package for the server's own Python (README, Installation), then run CREATE EXTENSION again.")
if pg_graphrag.__version__ != "@extversion@":
    plpy.error(f"the Python package pg_graphrag is version {pg_graphrag.__version__}, the extension is @extversion@", sqlstate="58P01",
               hint="Install the package of the extension's version for the server's own Python, then run CREATE EXTENSION again.")
$$;

COMMENT ON SCHEMA @extschema@ IS 'pg_graphrag: knowledge graphs, vectors, BM25 and answers over documents';
