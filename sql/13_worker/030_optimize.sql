-- Maintenance of one corpus. Searches are exact before, during and after; this makes them faster.
CREATE FUNCTION graphrag.optimize(corpus text DEFAULT 'default') RETURNS jsonb
LANGUAGE plpython3u VOLATILE SET search_path = pg_catalog, pg_temp SET jit = off
AS $$
from pg_graphrag.server import call
return call(plpy, "@extversion@", "worker.maintenance:optimize_named", corpus)
$$;
COMMENT ON FUNCTION graphrag.optimize(text) IS
    'Packs what was added since the last time, merges small BM25 segments and forgets deleted items; says what it did';
