-- Cypher that only reads, on the AGE projection. AGE's operators are found through the search_path.
CREATE FUNCTION graphrag.cypher(corpus text, query text, params jsonb DEFAULT '{}') RETURNS SETOF jsonb
LANGUAGE plpython3u STABLE ROWS 100
SET search_path = pg_catalog, ag_catalog, pg_temp
AS $$
from pg_graphrag.server import call
return call(plpy, "@extversion@", "graph.cypher:cypher", corpus, query, params)
$$;
COMMENT ON FUNCTION graphrag.cypher(text, text, jsonb) IS 'Runs a Cypher query that only reads on the graph of a corpus; one object per row, keyed by RETURN''s aliases; $name stands for a value in params. For the owner of the graph: others use neighbors() and the views. 25006 for a clause that writes, 42501 without rights on the graph, 42704 for an unknown corpus; Apache AGE''s own errors otherwise.';
