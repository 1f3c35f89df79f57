-- What the first searches of a session would load, for connection pools.
CREATE FUNCTION graphrag.warm(corpus text DEFAULT 'default') RETURNS jsonb
LANGUAGE plpython3u STABLE COST 1000000
SET search_path = pg_catalog, pg_temp SET hnsw.ef_search = 200 SET hnsw.iterative_scan = 'strict_order' SET jit = off SET gin_fuzzy_search_limit = 0 SET quote_all_identifiers = off
AS $$
from pg_graphrag.server import call
return call(plpy, "@extversion@", "search.warm:warm", corpus)
$$;
COMMENT ON FUNCTION graphrag.warm(text) IS 'Loads into the session what its first searches of a corpus would load: models, modules, and the values of the corpus that graphrag.session_memory lets it cache. Asks no endpoint. Returns {ms, cached: bytes by kind}; cached only if the caller sees the whole corpus. 42704 unknown corpus.';
