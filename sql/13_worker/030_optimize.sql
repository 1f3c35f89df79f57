-- Maintenance of one corpus. BM25 is exact before, during and after; this makes it faster.
CREATE FUNCTION graphrag.optimize(corpus text DEFAULT 'default') RETURNS jsonb
LANGUAGE plpython3u VOLATILE SET search_path = pg_catalog, pg_temp SET jit = off
AS $$
from pg_graphrag.server import call
return call(plpy, "@extversion@", "operate.jobs.maintenance:optimize_named", corpus)
$$;
COMMENT ON FUNCTION graphrag.optimize(text) IS
    'Packs recent additions, merges small BM25 segments and drops deleted items; builds HNSW indexes of large vector tables; prunes like prune(). Returns what it did';
