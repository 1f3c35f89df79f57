-- A graph made elsewhere, as one curation; and the way back from any curation.
CREATE FUNCTION graphrag.insert_graph(corpus text, graph jsonb) RETURNS bigint
LANGUAGE plpython3u VOLATILE SET search_path = pg_catalog, pg_temp SET jit = off
AS $$
from pg_graphrag.server import call
return call(plpy, "@extversion@", "index.curation.graphs:insert", corpus, graph)
$$;
COMMENT ON FUNCTION graphrag.insert_graph(text, jsonb) IS 'Merges a graph from elsewhere with the documents'' graph: {"entities": [{name, type, description, source}], "relationships": [{source, target, keywords, description, weight}]}, each entry like one mention; entities that only relationships name are added. Returns the number of the curation. Owner only; 22023 for a bad entry.';

CREATE FUNCTION graphrag.undo_curation(id bigint) RETURNS void
LANGUAGE plpython3u VOLATILE SET search_path = pg_catalog, pg_temp SET jit = off
AS $$
from pg_graphrag.server import call
call(plpy, "@extversion@", "index.curation.curation_records:undo", id)
$$;
COMMENT ON FUNCTION graphrag.undo_curation(bigint) IS 'Makes the graph what it would be without this curation; later ones stay. Owner only; 42704 for an unknown number, 55000 if it was undone already.';
