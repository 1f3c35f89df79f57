-- Which statement of a member's reads a view, and which calls its functions, PostgreSQL does not say. A view reads this with the owner's rights.
CREATE TABLE graphrag._view_secret AS SELECT pg_catalog.gen_random_uuid()::text AS secret;
COMMENT ON TABLE graphrag._view_secret IS 'Required by _visible_nodes() and _visible_edges(): callers who cannot read it use the views';
COMMENT ON COLUMN graphrag._view_secret.secret IS 'Made with the extension; not dumped';

-- What graph_nodes and graph_edges show of corpora that the caller does not see whole. SECURITY INVOKER: they ask as the caller which
-- documents he may see, then read what these state with the owner's rights (server/access/entry.py). A row for each corpus; its columns
-- are packed (search/explore/views.py). A name, type or description is null where the merged row says it, and what follows the last that
-- is not is left out; whether it is would tell what hidden documents state. So they answer to the views alone, which read a secret of the
-- owner's, and join all ids alike: EXPLAIN ANALYZE counts rows.
-- ROWS 100: with unnest() the planner expects a thousand items, and joins them by hashes. With more it takes a join of a few rows
-- for one of millions, and compiles it for seconds.
CREATE FUNCTION graphrag._visible_nodes(secret text)
RETURNS TABLE (corpus text, chunks int, entity_ids text, names text[], types text[], entity_descriptions text[], degrees text,
               entity_mention_counts text, entity_origins text[])
LANGUAGE plpython3u STABLE ROWS 100 PARALLEL RESTRICTED SET search_path = pg_catalog, pg_temp SET jit = off SET gin_fuzzy_search_limit = 0 SET quote_all_identifiers = off
AS $$
from pg_graphrag.server import call
return call(plpy, "@extversion@", "search.explore.views:nodes", secret)
$$;
COMMENT ON FUNCTION graphrag._visible_nodes(text) IS 'Rows of graph_nodes in corpora that the caller sees in part, packed; for the view alone';

CREATE FUNCTION graphrag._visible_edges(secret text)
RETURNS TABLE (corpus text, chunks int, entity_ids text, names text[], types text[], entity_mention_counts text,
               relationship_ids text, source_ids text, target_ids text, weights text,
               relationship_mention_counts text, keywords text[], relationship_descriptions text[], relationship_origins text[])
LANGUAGE plpython3u STABLE ROWS 100 PARALLEL RESTRICTED SET search_path = pg_catalog, pg_temp SET jit = off SET gin_fuzzy_search_limit = 0 SET quote_all_identifiers = off
AS $$
from pg_graphrag.server import call
return call(plpy, "@extversion@", "search.explore.views:edges", secret)
$$;
COMMENT ON FUNCTION graphrag._visible_edges(text) IS 'Rows of graph_edges in corpora that the caller sees in part, packed; for the view alone';
