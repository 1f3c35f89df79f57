-- Find the communities of a corpus, or bring them up to date. Workers do it by themselves (corpus option communities).
CREATE FUNCTION graphrag.refresh_communities(corpus text DEFAULT 'default') RETURNS jsonb
LANGUAGE plpython3u VOLATILE SET search_path = pg_catalog, pg_temp SET jit = off
AS $$
from pg_graphrag.server import call
return call(plpy, "@extversion@", "index.community.refresh:refresh_named", corpus)
$$;
COMMENT ON FUNCTION graphrag.refresh_communities(text) IS 'Finds the communities of a corpus now, starting from the previous ones if there are any: only changed parts are clustered again, and communities that are still the same keep their ids. Queues the reports of changed ones, for workers to write. Returns {communities, levels, created, changed, removed, clustered: all, part or nothing, modularity, reports_due}. Owner only; 42704 for an unknown corpus.';
