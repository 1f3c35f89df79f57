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
