CREATE FUNCTION graphrag.check_provider(
    provider text DEFAULT NULL,
    model    text DEFAULT NULL,
    corpus   text DEFAULT 'default'
) RETURNS TABLE (provider_name text, model_name text, subject text, ok boolean, value double precision, detail text, hint text)
LANGUAGE plpython3u VOLATILE COST 100000 ROWS 10 SET search_path = pg_catalog, pg_temp SET jit = off
AS $$
from pg_graphrag.server import call
return call(plpy, "@extversion@", "llm.endpoints.check_provider:check_provider", provider, model, corpus)
$$;
COMMENT ON FUNCTION graphrag.check_provider(text, text, text) IS 'Tries once each what a model at an endpoint can do; without arguments, each model that a corpus uses, and without model, those that it uses of a provider. A row for each subject: endpoint (does it answer, and does it have the model), chat (value: tokens a second), streaming (seconds to the first words), output limit (tokens written of 64), JSON (whether the model can do the provider''s option json), context (tokens read of a prompt of some 6,000: fewer mean a cut prompt, or a context that is too short), embedding (dimensions), rerank (by how much a text that answers scores above another). ok is null if it is unknown; hint says what to do. The prompts cost some 6,500 tokens a model, on the account and within the budget of the corpus, and some seconds; at most 20 s each, 45 s for the long prompt, and 3 minutes in all. Owner only; 42501 for others, 42704 for an unknown provider or corpus, 55000 if the corpus uses no model at an endpoint.';
