-- Pictures of a neighbourhood, as text that other programs draw. They show what neighbors() and the views show the caller.
CREATE FUNCTION graphrag.to_dot(entity text, corpus text DEFAULT 'default', hops int DEFAULT 1, max_nodes int DEFAULT 50) RETURNS text
LANGUAGE plpython3u STABLE COST 300000
SET search_path = pg_catalog, pg_temp SET jit = off SET gin_fuzzy_search_limit = 0 SET quote_all_identifiers = off
AS $$
from pg_graphrag.server import call
return call(plpy, "@extversion@", "search.explore.drawings:to_dot", entity, corpus, hops, max_nodes)
$$;
COMMENT ON FUNCTION graphrag.to_dot(text, text, int, int) IS 'Graphviz (DOT) text of an entity''s neighbourhood: the nearest max_nodes (1 to 1000) entities, strongest first, and all relationships among them. Entities are n<entity_id>, labelled with the name; descriptions are tooltips. Under row-level security only what visible documents state. 42704 for an unknown entity or corpus.';

CREATE FUNCTION graphrag.to_mermaid(entity text, corpus text DEFAULT 'default', hops int DEFAULT 1, max_nodes int DEFAULT 50) RETURNS text
LANGUAGE plpython3u STABLE COST 300000
SET search_path = pg_catalog, pg_temp SET jit = off SET gin_fuzzy_search_limit = 0 SET quote_all_identifiers = off
AS $$
from pg_graphrag.server import call
return call(plpy, "@extversion@", "search.explore.drawings:to_mermaid", entity, corpus, hops, max_nodes)
$$;
COMMENT ON FUNCTION graphrag.to_mermaid(text, text, int, int) IS 'Mermaid flowchart of an entity''s neighbourhood, for Markdown: like to_dot(), with at most 500 relationships, the strongest, since Mermaid refuses more. A line is labelled with its keywords or, if it has none, with the words between the two names in its sentence.';
