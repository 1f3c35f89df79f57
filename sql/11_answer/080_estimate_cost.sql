-- What the queue would cost, before it is spent. STABLE: cuts and counts, asks nobody.
CREATE FUNCTION graphrag.estimate_cost(corpus text DEFAULT 'default', extractor text DEFAULT NULL, sample int DEFAULT 500)
RETURNS TABLE (documents bigint, chunks bigint, calls bigint, cached_calls bigint, tokens_in bigint, tokens_out bigint, cost numeric, basis jsonb)
LANGUAGE plpython3u STABLE ROWS 1 SET search_path = pg_catalog, pg_temp SET jit = off
AS $$
from pg_graphrag.server import call
return call(plpy, "@extversion@", "search.answer.estimate:estimate", corpus, extractor, sample)
$$;
COMMENT ON FUNCTION graphrag.estimate_cost(text, text, int) IS 'The maximum cost of indexing the waiting documents: they are cut into chunks (above sample documents: a sample of them, scaled up) and their prompts counted. extractor: nlp, llm or given, null: the corpus'' own. calls: requests to be made, every gleaning round included; cached_calls: further ones that are answered already, or will be by the same text elsewhere. cost: of extraction, of descriptions of pictures, of embeddings from an endpoint, and of summaries once the corpus has had enough calls for an average (basis.summaries.cost is null until then). basis says how it was counted. Owner only.';
