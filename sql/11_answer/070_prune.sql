-- Age and size limits of what grows with use. Also part of every optimize job.
CREATE FUNCTION graphrag.prune(corpus text DEFAULT 'default') RETURNS jsonb
LANGUAGE plpython3u VOLATILE SET search_path = pg_catalog, pg_temp SET jit = off
AS $$
from pg_graphrag.server import call
return call(plpy, "@extversion@", "search.answer.retention:prune_named", corpus)
$$;
COMMENT ON FUNCTION graphrag.prune(text) IS 'Deletes rows of llm_cache, llm_calls and query_log beyond the corpus option retention, oldest first; returns how many rows of each. Calls of this month stay: the budget is counted from them. Owner only.';
