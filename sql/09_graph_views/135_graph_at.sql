-- The graph as the documents valid at a moment say it. Functions, since a view takes no moment. SECURITY INVOKER: they ask as the caller
-- which documents he may see, then read what these state with the owner's rights (server/access/entry.py).
-- The public ones are SQL and without settings, so that the planner sees through them: where all is valid they are the view, and a
-- LIMIT reads no more than it shows; where not, the view is not read at all. The settings of the others make the moment the same text in
-- every session.
CREATE TYPE graphrag.graph_node AS (
    corpus text, entity_id bigint, key text, name text, type text, description text, degree int, mention_count int
);
COMMENT ON TYPE graphrag.graph_node IS 'A row of graph_nodes without its communities, which belong to no moment, and its origin';
CREATE TYPE graphrag.graph_edge AS (
    corpus text, relationship_id bigint, source_id bigint, source text, source_type text, target_id bigint, target text, target_type text,
    keywords text, keyword_list text[], description text, weight double precision, mention_count int, pmi double precision,
    strength double precision
);
COMMENT ON TYPE graphrag.graph_edge IS 'A row of graph_edges without its origin';

CREATE FUNCTION graphrag._all_valid_at(corpus text, at timestamptz) RETURNS text
LANGUAGE plpython3u STABLE COST 100000
SET search_path = pg_catalog, pg_temp SET datestyle = 'ISO, YMD' SET timezone = 'UTC' SET jit = off SET gin_fuzzy_search_limit = 0 SET quote_all_identifiers = off
AS $$
from pg_graphrag.server import call
return call(plpy, "@extversion@", "search.explore.views:all_valid_at", corpus, at)
$$;
COMMENT ON FUNCTION graphrag._all_valid_at(text, timestamptz) IS 'The corpus (or its history) if views show its graph at that moment and need no other graph; else null';

CREATE FUNCTION graphrag._graph_nodes_at(corpus text, at timestamptz) RETURNS SETOF graphrag.graph_node
LANGUAGE plpython3u STABLE COST 1000000 ROWS 1000
SET search_path = pg_catalog, pg_temp SET datestyle = 'ISO, YMD' SET timezone = 'UTC' SET jit = off SET gin_fuzzy_search_limit = 0 SET quote_all_identifiers = off
AS $$
from pg_graphrag.server import call
return call(plpy, "@extversion@", "search.explore.views:nodes_at", corpus, at)
$$;
COMMENT ON FUNCTION graphrag._graph_nodes_at(text, timestamptz) IS 'Rows of graph_nodes_at()';

CREATE FUNCTION graphrag.graph_nodes_at(corpus text, at timestamptz) RETURNS SETOF graphrag.graph_node
LANGUAGE sql STABLE COST 1000000 ROWS 1000
BEGIN ATOMIC
    WITH whole AS MATERIALIZED (SELECT graphrag._all_valid_at(graph_nodes_at.corpus, graph_nodes_at.at) AS corpus)
    SELECT v.corpus, v.entity_id, v.key, v.name, v.type, v.description, v.degree, v.mention_count
      FROM graphrag.graph_nodes v
     WHERE (SELECT w.corpus FROM whole w) IS NOT NULL AND v.corpus = (SELECT w.corpus FROM whole w)
     UNION ALL
    SELECT x.*
      FROM graphrag._graph_nodes_at(graph_nodes_at.corpus, graph_nodes_at.at) x
     WHERE (SELECT w.corpus FROM whole w) IS NULL;
END;
COMMENT ON FUNCTION graphrag.graph_nodes_at(text, timestamptz) IS 'Rows like graph_nodes, of the graph made by those documents of a corpus that are valid at a moment (valid_from <= at < valid_to; null: no bound) and that the caller sees. 42704 for an unknown corpus, 22023 for no date.';

CREATE FUNCTION graphrag._graph_edges_at(corpus text, at timestamptz) RETURNS SETOF graphrag.graph_edge
LANGUAGE plpython3u STABLE COST 10000000 ROWS 1000
SET search_path = pg_catalog, pg_temp SET datestyle = 'ISO, YMD' SET timezone = 'UTC' SET jit = off SET gin_fuzzy_search_limit = 0 SET quote_all_identifiers = off
AS $$
from pg_graphrag.server import call
return call(plpy, "@extversion@", "search.explore.views:edges_at", corpus, at)
$$;
COMMENT ON FUNCTION graphrag._graph_edges_at(text, timestamptz) IS 'Rows of graph_edges_at()';

CREATE FUNCTION graphrag.graph_edges_at(corpus text, at timestamptz) RETURNS SETOF graphrag.graph_edge
LANGUAGE sql STABLE COST 10000000 ROWS 1000
BEGIN ATOMIC
    WITH whole AS MATERIALIZED (SELECT graphrag._all_valid_at(graph_edges_at.corpus, graph_edges_at.at) AS corpus)
    SELECT v.corpus, v.relationship_id, v.source_id, v.source, v.source_type, v.target_id, v.target, v.target_type, v.keywords, v.keyword_list,
           v.description, v.weight, v.mention_count, v.pmi, v.strength
      FROM graphrag.graph_edges v
     WHERE (SELECT w.corpus FROM whole w) IS NOT NULL AND v.corpus = (SELECT w.corpus FROM whole w)
     UNION ALL
    SELECT x.*
      FROM graphrag._graph_edges_at(graph_edges_at.corpus, graph_edges_at.at) x
     WHERE (SELECT w.corpus FROM whole w) IS NULL;
END;
COMMENT ON FUNCTION graphrag.graph_edges_at(text, timestamptz) IS 'Rows like graph_edges, of the graph made by those documents of a corpus that are valid at a moment (valid_from <= at < valid_to; null: no bound) and that the caller sees. 42704 for an unknown corpus, 22023 for no date.';
