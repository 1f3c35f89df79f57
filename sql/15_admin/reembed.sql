-- Another embedding model for a corpus with data. Only the decision is made here; workers do the work.
CREATE FUNCTION graphrag.reembed(corpus text, embedding jsonb) RETURNS void
LANGUAGE plpython3u VOLATILE SET search_path = pg_catalog, pg_temp SET jit = off
AS $$
from pg_graphrag.server import call
call(plpy, "@extversion@", "operate.admin.start_reembed:reembed", corpus, embedding)
$$;
COMMENT ON FUNCTION graphrag.reembed(text, jsonb) IS 'Changes the embedding model of a corpus: {provider, model, dimensions}, like the option embedding. Workers fill vectors of the new model beside the old, which serve all searches until the new ones are complete; then they are swapped at once. Another model replaces an unfinished change, the current one cancels it. Owner only; 22023 for a bad value, 42704 for an unknown corpus or provider.';
