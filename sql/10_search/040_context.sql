-- What a language model is given: entities, relationships, claims and chunks within token budgets, with numbered references.
CREATE FUNCTION graphrag.context(
    query               text,
    corpus              text DEFAULT 'default',
    mode                text DEFAULT 'hybrid',
    max_tokens          int DEFAULT NULL,
    filter              jsonb DEFAULT NULL,
    low_level_keywords  text[] DEFAULT NULL,
    high_level_keywords text[] DEFAULT NULL,
    options             jsonb DEFAULT '{}'
) RETURNS jsonb
LANGUAGE plpython3u STABLE COST 1000000
SET search_path = pg_catalog, pg_temp SET hnsw.ef_search = 200 SET hnsw.iterative_scan = 'strict_order' SET jit = off SET gin_fuzzy_search_limit = 0 SET quote_all_identifiers = off
AS $$
from pg_graphrag.server import call
return call(plpy, "@extversion@", "search.context:context", query, corpus, mode, max_tokens, filter, low_level_keywords,
            high_level_keywords, options)
$$;
COMMENT ON FUNCTION graphrag.context(text, text, text, int, jsonb, text[], text[], jsonb) IS 'Context for a language model: {entities, relationships, reports, claims, tables, chunks, references, prompt, tokens}. Reports are in graph_local, graph_global and drift, claims in graph_local, drift and lazy. max_tokens bounds the whole (default: option max_total_tokens); options max_entity_tokens, max_relation_tokens, max_row_tokens, chunk_top_k and include_chunks bound its parts. If nothing is found, explain.empty says why.';
