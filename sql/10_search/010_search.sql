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
COMMENT ON FUNCTION graphrag.search(text, text, text, int, jsonb, text[], text[], jsonb) IS 'Chunks that answer a query, best first. mode: naive, bm25, local, global, hybrid, mix, path, ppr, graph_local, graph_global, drift, lazy. top_k: rows (0–10,000). filter: jsonb containment on documents.metadata; with operators ($gte, $in, $exists, $prefix, $or, $not, $source_key, $ids, $relation …) what docs/search.md says. Keywords given here are used instead of the query''s own. explain says which retriever found the row, at which rank and score, through which entity or relationship. A corpus of another node is searched there, where the caller has a user mapping for the foreign server of its name. 42704 unknown corpus, or one of a node that is not reached from here; 08001, 08006, 08P01 a node that is not there or answers something else; 22023 unknown mode or option, or a bad filter.';

-- Over several corpora. Another name for the argument, which has no default: search('…') and corpus => '…' mean one corpus.
CREATE FUNCTION graphrag.search(
    query               text,
    corpora             text[],
    mode                text DEFAULT 'hybrid',
    top_k               int DEFAULT 10,
    filter              jsonb DEFAULT NULL,
    low_level_keywords  text[] DEFAULT NULL,
    high_level_keywords text[] DEFAULT NULL,
    options             jsonb DEFAULT '{}',
    corpus_timeout      double precision DEFAULT NULL
) RETURNS TABLE (rank int, chunk_id bigint, document_id bigint, source_key text, title text, content text, score double precision, explain jsonb, corpus text)
LANGUAGE plpython3u STABLE COST 1000000 ROWS 10
SET search_path = pg_catalog, pg_temp SET hnsw.ef_search = 200 SET hnsw.iterative_scan = 'strict_order' SET jit = off SET gin_fuzzy_search_limit = 0 SET quote_all_identifiers = off
AS $$
from pg_graphrag.server import call
return call(plpy, "@extversion@", "search.several_corpora:search_corpora", query, corpora, mode, top_k, filter, low_level_keywords,
            high_level_keywords, options, corpus_timeout)
$$;
COMMENT ON FUNCTION graphrag.search(text, text[], text, int, jsonb, text[], text[], jsonb, double precision) IS 'search() over several corpora, in one list: corpora has names, or * for all that the caller may read, histories aside, at any node. Each is searched as it is alone; score is that of its own answer, and relevance, which explain has, is what the rows are merged by. corpus_timeout: seconds that each may take; without it, one of another node 60. A corpus that fails or takes longer is a WARNING and in explain.unanswered of every row, and an error where no other has a row. 22004 for a null; 22023 no name; 42704 an unknown corpus, or none that may be read; 42501 a corpus that may not; 54000 more than 100. Others as of search().';
