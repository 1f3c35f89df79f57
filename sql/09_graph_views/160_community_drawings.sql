-- Drawings of a community, as 150_drawings.sql has them of a neighbourhood.
CREATE FUNCTION graphrag.to_dot(community_id bigint, max_nodes int DEFAULT 50) RETURNS text
LANGUAGE plpython3u STABLE COST 300000
SET search_path = pg_catalog, pg_temp SET jit = off SET gin_fuzzy_search_limit = 0 SET quote_all_identifiers = off
AS $$
from pg_graphrag.server import call
return call(plpy, "@extversion@", "search.explore.drawings:community_to_dot", community_id, max_nodes)
$$;
COMMENT ON FUNCTION graphrag.to_dot(bigint, int) IS 'Graphviz (DOT) text of a community: the max_nodes (1 to 1000) members with the strongest relationships within it, and all relationships among them. 42704 for an unknown community, or one about documents that the caller may not see.';

CREATE FUNCTION graphrag.to_mermaid(community_id bigint, max_nodes int DEFAULT 50) RETURNS text
LANGUAGE plpython3u STABLE COST 300000
SET search_path = pg_catalog, pg_temp SET jit = off SET gin_fuzzy_search_limit = 0 SET quote_all_identifiers = off
AS $$
from pg_graphrag.server import call
return call(plpy, "@extversion@", "search.explore.drawings:community_to_mermaid", community_id, max_nodes)
$$;
COMMENT ON FUNCTION graphrag.to_mermaid(bigint, int) IS 'Mermaid flowchart of a community, for Markdown: like to_dot(), with at most 500 relationships, the strongest, since Mermaid refuses more.';
