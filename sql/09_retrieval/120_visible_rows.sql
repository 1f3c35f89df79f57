-- What graph_nodes and graph_edges show of corpora that the caller does not see whole. SECURITY INVOKER: they ask as the caller which
-- documents he may see, then read what these state with the owner's rights (access/entry.py). A row for each corpus; its columns
-- are packed (retrieval/views.py). Members may call them, so they tell no more than the views.
-- ROWS 100: with unnest() the planner expects a thousand items, and joins them by hashes. With more it takes a join of a few rows
-- for one of millions, and compiles it for seconds.
CREATE FUNCTION graphrag._visible_nodes()
RETURNS TABLE (corpus text, chunks int, entity_ids text, keys text, names text, types text, entity_descriptions text, degrees text,
               entity_mention_counts text, entity_origins text)
LANGUAGE plpython3u STABLE ROWS 100 PARALLEL RESTRICTED SET search_path = pg_catalog, pg_temp SET jit = off SET gin_fuzzy_search_limit = 0 SET quote_all_identifiers = off
AS $$
from pg_graphrag.server import call
return call(plpy, "@extversion@", "retrieval.views:nodes")
$$;
COMMENT ON FUNCTION graphrag._visible_nodes() IS 'Rows of graph_nodes in corpora that the caller sees in part, packed';

CREATE FUNCTION graphrag._visible_edges()
RETURNS TABLE (corpus text, chunks int, entity_ids text, names text, types text, entity_mention_counts text,
               relationship_ids text, source_ids text, target_ids text, weights text, relationship_mention_counts text,
               keywords text, relationship_descriptions text, relationship_origins text)
LANGUAGE plpython3u STABLE ROWS 100 PARALLEL RESTRICTED SET search_path = pg_catalog, pg_temp SET jit = off SET gin_fuzzy_search_limit = 0 SET quote_all_identifiers = off
AS $$
from pg_graphrag.server import call
return call(plpy, "@extversion@", "retrieval.views:edges")
$$;
COMMENT ON FUNCTION graphrag._visible_edges() IS 'Rows of graph_edges in corpora that the caller sees in part, packed';
