-- Search. STABLE, read only, and at work on a hot standby. HNSW settings are pinned here, so that no session can under-fill results;
-- likewise, in all that readers call, what has GIN leave rows out by chance, and what says how names of tables are written.
CREATE FUNCTION graphrag.search(
    query               text,
    corpus              text DEFAULT 'default',
    mode                text DEFAULT 'hybrid',
    top_k               int DEFAULT 10,
    filter              jsonb DEFAULT NULL,
    low_level_keywords  text[] DEFAULT NULL,
    high_level_keywords text[] DEFAULT NULL,
    options             jsonb DEFAULT '{}'
) RETURNS TABLE (rank int, chunk_id bigint, document_id bigint, source_key text, title text, content text, score double precision, explain jsonb)
LANGUAGE plpython3u STABLE COST 1000000 ROWS 10
SET search_path = pg_catalog, pg_temp SET hnsw.ef_search = 200 SET hnsw.iterative_scan = 'strict_order' SET jit = off SET gin_fuzzy_search_limit = 0 SET quote_all_identifiers = off
AS $$
from pg_graphrag.server import call
return call(plpy, "@extversion@", "search.search:search", query, corpus, mode, top_k, filter, low_level_keywords,
            high_level_keywords, options)
$$;
COMMENT ON FUNCTION graphrag.search(text, text, text, int, jsonb, text[], text[], jsonb) IS 'Chunks that answer a query, best first. mode: naive, bm25, local, global, hybrid, mix, path, ppr, graph_local, graph_global, drift, lazy. top_k: rows (0–10,000). filter: jsonb containment on documents.metadata; with operators ($gte, $in, $exists, $prefix, $or, $not, $source_key, $ids, $relation …) what docs/search.md says. Keywords given here are used instead of the query''s own. explain says which retriever found the row, at which rank and score, through which entity or relationship. 42704 unknown corpus; 22023 unknown mode or option, or a bad filter.';
