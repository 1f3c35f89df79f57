-- search() with the mode fixed. Written by docs/modes.py.

CREATE FUNCTION graphrag.naive_search(
    query               text,
    corpus              text DEFAULT 'default',
    top_k               int DEFAULT 10,
    filter              jsonb DEFAULT NULL,
    options             jsonb DEFAULT '{}'
) RETURNS TABLE (rank int, chunk_id bigint, document_id bigint, source_key text, title text, content text, score double precision, explain jsonb)
LANGUAGE sql STABLE COST 1000000 ROWS 10
BEGIN ATOMIC
    SELECT s.rank, s.chunk_id, s.document_id, s.source_key, s.title, s.content, s.score, s.explain
      FROM graphrag.search(naive_search.query, naive_search.corpus, 'naive', top_k => naive_search.top_k, filter => naive_search.filter,
                           options => naive_search.options) s;
END;
COMMENT ON FUNCTION graphrag.naive_search(text, text, int, jsonb, jsonb) IS 'search() with mode naive: dense retrieval alone: chunks by their best window';

CREATE FUNCTION graphrag.bm25_search(
    query               text,
    corpus              text DEFAULT 'default',
    top_k               int DEFAULT 10,
    filter              jsonb DEFAULT NULL,
    options             jsonb DEFAULT '{}'
) RETURNS TABLE (rank int, chunk_id bigint, document_id bigint, source_key text, title text, content text, score double precision, explain jsonb)
LANGUAGE sql STABLE COST 1000000 ROWS 10
BEGIN ATOMIC
    SELECT s.rank, s.chunk_id, s.document_id, s.source_key, s.title, s.content, s.score, s.explain
      FROM graphrag.search(bm25_search.query, bm25_search.corpus, 'bm25', top_k => bm25_search.top_k, filter => bm25_search.filter,
                           options => bm25_search.options) s;
END;
COMMENT ON FUNCTION graphrag.bm25_search(text, text, int, jsonb, jsonb) IS 'search() with mode bm25: Okapi BM25 alone';

CREATE FUNCTION graphrag.local_search(
    query               text,
    corpus              text DEFAULT 'default',
    top_k               int DEFAULT 10,
    filter              jsonb DEFAULT NULL,
    low_level_keywords  text[] DEFAULT NULL,
    high_level_keywords text[] DEFAULT NULL,
    options             jsonb DEFAULT '{}'
) RETURNS TABLE (rank int, chunk_id bigint, document_id bigint, source_key text, title text, content text, score double precision, explain jsonb)
LANGUAGE sql STABLE COST 1000000 ROWS 10
BEGIN ATOMIC
    SELECT s.rank, s.chunk_id, s.document_id, s.source_key, s.title, s.content, s.score, s.explain
      FROM graphrag.search(local_search.query, local_search.corpus, 'local', top_k => local_search.top_k, filter => local_search.filter,
                           low_level_keywords => local_search.low_level_keywords, high_level_keywords => local_search.high_level_keywords,
                           options => local_search.options) s;
END;
COMMENT ON FUNCTION graphrag.local_search(text, text, int, jsonb, text[], text[], jsonb) IS 'search() with mode local: LightRAG local: entities that the query names, their relationships, and the chunks that mention them';

CREATE FUNCTION graphrag.global_search(
    query               text,
    corpus              text DEFAULT 'default',
    top_k               int DEFAULT 10,
    filter              jsonb DEFAULT NULL,
    low_level_keywords  text[] DEFAULT NULL,
    high_level_keywords text[] DEFAULT NULL,
    options             jsonb DEFAULT '{}'
) RETURNS TABLE (rank int, chunk_id bigint, document_id bigint, source_key text, title text, content text, score double precision, explain jsonb)
LANGUAGE sql STABLE COST 1000000 ROWS 10
BEGIN ATOMIC
    SELECT s.rank, s.chunk_id, s.document_id, s.source_key, s.title, s.content, s.score, s.explain
      FROM graphrag.search(global_search.query, global_search.corpus, 'global', top_k => global_search.top_k, filter => global_search.filter,
                           low_level_keywords => global_search.low_level_keywords, high_level_keywords => global_search.high_level_keywords,
                           options => global_search.options) s;
END;
COMMENT ON FUNCTION graphrag.global_search(text, text, int, jsonb, text[], text[], jsonb) IS 'search() with mode global: LightRAG global: relationships about the query''s theme, their endpoints, and the chunks that state them. GraphRAG''s global search over community reports is another thing (mode graph_global)';

CREATE FUNCTION graphrag.hybrid_search(
    query               text,
    corpus              text DEFAULT 'default',
    top_k               int DEFAULT 10,
    filter              jsonb DEFAULT NULL,
    low_level_keywords  text[] DEFAULT NULL,
    high_level_keywords text[] DEFAULT NULL,
    options             jsonb DEFAULT '{}'
) RETURNS TABLE (rank int, chunk_id bigint, document_id bigint, source_key text, title text, content text, score double precision, explain jsonb)
LANGUAGE sql STABLE COST 1000000 ROWS 10
BEGIN ATOMIC
    SELECT s.rank, s.chunk_id, s.document_id, s.source_key, s.title, s.content, s.score, s.explain
      FROM graphrag.search(hybrid_search.query, hybrid_search.corpus, 'hybrid', top_k => hybrid_search.top_k, filter => hybrid_search.filter,
                           low_level_keywords => hybrid_search.low_level_keywords, high_level_keywords => hybrid_search.high_level_keywords,
                           options => hybrid_search.options) s;
END;
COMMENT ON FUNCTION graphrag.hybrid_search(text, text, int, jsonb, text[], text[], jsonb) IS 'search() with mode hybrid: BM25, dense retrieval and PageRank over the entity–chunk graph, fused';
