-- What an answer would cost, before it is asked for. STABLE: counts, asks nobody. HNSW settings as in search().
CREATE FUNCTION graphrag.estimate_ask(
    question            text,
    corpus              text DEFAULT 'default',
    mode                text DEFAULT 'hybrid',
    max_tokens          int DEFAULT NULL,
    filter              jsonb DEFAULT NULL,
    low_level_keywords  text[] DEFAULT NULL,
    high_level_keywords text[] DEFAULT NULL,
    options             jsonb DEFAULT '{}',
    history             jsonb DEFAULT NULL,
    response_type       text DEFAULT 'multiple paragraphs'
) RETURNS TABLE (calls bigint, tokens_in bigint, tokens_out bigint, cost numeric, basis jsonb)
LANGUAGE plpython3u STABLE ROWS 1
SET search_path = pg_catalog, pg_temp SET hnsw.ef_search = 200 SET hnsw.iterative_scan = 'strict_order' SET jit = off SET gin_fuzzy_search_limit = 0 SET quote_all_identifiers = off
AS $$
from pg_graphrag.server import call
return call(plpy, "@extversion@", "search.answer.estimate_ask:estimate", question, corpus, mode, max_tokens, filter, low_level_keywords,
            high_level_keywords, options, history, response_type)
$$;
COMMENT ON FUNCTION graphrag.estimate_ask(text, text, text, int, jsonb, text[], text[], jsonb, jsonb, text) IS 'The cost of ask() with the same arguments; no model is asked. calls: the maximum of requests, as if nothing had been asked before; retries after a fault come on top. tokens_in: of their prompts, at four bytes each: counted if the text is known, else its maximum (for a context: its whole budget, at the most bytes per token of the corpus'' chunks). tokens_out and so cost: a guess. basis: {parts: {task: {calls, tokens_in, exact}}, …}. Owner only; errors as for ask().';
