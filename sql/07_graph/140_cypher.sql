-- Cypher that only reads, on the AGE projection, for its owner. AGE finds its operators through the search_path; _check_age() has seen that its schema is a
-- superuser's alone, and functions and operators are never looked for in pg_temp.
CREATE FUNCTION graphrag.cypher(corpus text, query text, params jsonb DEFAULT '{}') RETURNS SETOF jsonb
LANGUAGE plpython3u STABLE COST 300000 ROWS 100
SET search_path = pg_catalog, ag_catalog, pg_temp SET jit = off
AS $$
from pg_graphrag.server import call
return call(plpy, "@extversion@", "index.graph.cypher:cypher", corpus, query, params)
$$;
COMMENT ON FUNCTION graphrag.cypher(text, text, jsonb) IS 'Runs a Cypher query that only reads on the graph of a corpus; one object per row, keyed by RETURN''s aliases; $name stands for a value in params. For the owner of the extension: others use neighbors() and the views. 25006 for a clause that writes, 42501 for others, 42704 for an unknown corpus, 55000 if the graph is not the corpus''s (rebuild_graph(), or repair() after a restore) or the option cypher is false; Apache AGE''s own errors otherwise.';
