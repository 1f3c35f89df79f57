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

-- What an update finds. All else is new, and closed at the end (zz_privileges.sql).
DO $new$
BEGIN
    PERFORM pg_catalog.set_config('graphrag.objects_before', (
        SELECT coalesce(pg_catalog.array_agg(x.id), '{}')::text
          FROM pg_catalog.pg_namespace n
         CROSS JOIN LATERAL (SELECT 'relation ' || c.oid FROM pg_catalog.pg_class c WHERE c.relnamespace = n.oid
                              UNION ALL
                             SELECT 'routine ' || p.oid FROM pg_catalog.pg_proc p WHERE p.pronamespace = n.oid
                              UNION ALL
                             SELECT n.nspname) x (id)
         WHERE n.nspname IN ('graphrag', 'graphrag_attached')), true);
END
$new$;

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
COMMENT ON FUNCTION graphrag._check_schema() IS 'Refuses a schema that does not belong to a superuser, or in which others may create';
SELECT graphrag._check_schema();

-- The type vector and its operators are named with their schema at run time. Whoever owns it could give its name to another, with a domain and
-- an operator of his own, which sessions with our rights would run. Of public that is the owner of the database.
CREATE FUNCTION graphrag._check_vector() RETURNS void
LANGUAGE plpgsql STABLE SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
    home  name;
    other name;
BEGIN
    SELECT n.nspname, r.rolname INTO home, other
      FROM pg_extension v
      JOIN pg_namespace n ON n.oid = v.extnamespace
      JOIN pg_database d ON d.datname = current_database()
     CROSS JOIN unnest(ARRAY[v.extowner, CASE WHEN n.nspowner = 'pg_database_owner'::regrole THEN d.datdba ELSE n.nspowner END]) o (owner)
      JOIN pg_roles r ON r.oid = o.owner
     WHERE v.extname = 'vector' AND NOT pg_has_role(o.owner, current_user, 'MEMBER')
     LIMIT 1;
    IF FOUND THEN
        RAISE EXCEPTION 'the extension vector, or its schema "%", belongs to role "%"', home, other
            USING ERRCODE = 'insufficient_privilege', DETAIL = format('"%s" could put code of its own in its place, which would run as "%s".', other, current_user),
                  HINT = format('ALTER SCHEMA %1$I OWNER TO %2$I, and GRANT CREATE ON SCHEMA %1$I TO %3$I if it needs that; or ALTER EXTENSION vector SET SCHEMA to one of your own. Then try again.', home, current_user, other);
    END IF;
END
$$;
COMMENT ON FUNCTION graphrag._check_vector() IS 'Refuses the extension vector if it belongs to a role, or lies in a schema of a role, without the rights of the installing role';
SELECT graphrag._check_vector();

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
