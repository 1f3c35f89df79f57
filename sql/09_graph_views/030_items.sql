-- The graph's own rows, by relevance to a query.
CREATE FUNCTION graphrag.search_entities(
    query              text,
    corpus             text DEFAULT 'default',
    top_k              int DEFAULT 10,
    filter             jsonb DEFAULT NULL,
    low_level_keywords text[] DEFAULT NULL
) RETURNS TABLE (rank int, entity_id bigint, name text, type text, description text, degree int, score double precision, explain jsonb)
LANGUAGE plpython3u STABLE COST 1000000 ROWS 10
SET search_path = pg_catalog, pg_temp SET hnsw.ef_search = 200 SET hnsw.iterative_scan = 'strict_order' SET jit = off SET gin_fuzzy_search_limit = 0 SET quote_all_identifiers = off
AS $$
from pg_graphrag.server import call
return call(plpy, "@extversion@", "search.contexts.items:entities", query, corpus, top_k, filter, low_level_keywords)
$$;
COMMENT ON FUNCTION graphrag.search_entities(text, text, int, jsonb, text[]) IS 'Entities that a query is about, best first: named in it (score 1), with a similar name (cosine), or, if no entity has the name itself, with a similar spelling: mistyped, by initials, in another script';

CREATE FUNCTION graphrag.search_relationships(
    query               text,
    corpus              text DEFAULT 'default',
    top_k               int DEFAULT 10,
    filter              jsonb DEFAULT NULL,
    high_level_keywords text[] DEFAULT NULL
) RETURNS TABLE (rank int, relationship_id bigint, source text, target text, keywords text[], description text, weight numeric, score double precision, explain jsonb)
LANGUAGE plpython3u STABLE COST 1000000 ROWS 10
SET search_path = pg_catalog, pg_temp SET hnsw.ef_search = 200 SET hnsw.iterative_scan = 'strict_order' SET jit = off SET gin_fuzzy_search_limit = 0 SET quote_all_identifiers = off
AS $$
from pg_graphrag.server import call
return call(plpy, "@extversion@", "search.contexts.items:relationships", query, corpus, top_k, filter, high_level_keywords)
$$;
COMMENT ON FUNCTION graphrag.search_relationships(text, text, int, jsonb, text[]) IS 'Relationships that a query is about, best first; each scores as its best mention';

CREATE FUNCTION graphrag.search_reports(
    query      text,
    corpus     text DEFAULT 'default',
    top_k      int DEFAULT 10,
    filter     jsonb DEFAULT NULL,
    only_level int DEFAULT NULL
) RETURNS TABLE (rank int, community_id bigint, level int, title text, summary text, rating double precision, score double precision, explain jsonb)
LANGUAGE plpython3u STABLE COST 1000000 ROWS 10
SET search_path = pg_catalog, pg_temp SET jit = off SET gin_fuzzy_search_limit = 0 SET quote_all_identifiers = off
AS $$
from pg_graphrag.server import call
return call(plpy, "@extversion@", "search.contexts.items:reports", query, corpus, top_k, filter, only_level)
$$;
COMMENT ON FUNCTION graphrag.search_reports(text, text, int, jsonb, int) IS 'Reports on communities that a query is about, best first; of only_level, if it is given. Score: the mean of the cosine of title and summary and of the words in the whole report (as a share of the best). None if the caller does not see the whole corpus; with a filter, those about some of its documents.';
