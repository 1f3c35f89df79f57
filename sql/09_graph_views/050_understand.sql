-- What a question asks for. VOLATILE: writes cache and accounts where the transaction may write.
CREATE FUNCTION graphrag.understand(question text, corpus text DEFAULT 'default') RETURNS jsonb
LANGUAGE plpython3u VOLATILE SET search_path = pg_catalog, pg_temp SET jit = off
AS $$
from pg_graphrag.server import call
return call(plpy, "@extversion@", "search.query.embed:understand_named", question, corpus)
$$;
COMMENT ON FUNCTION graphrag.understand(text, text) IS 'What a question asks for: {low_level_keywords, high_level_keywords, entities, answer_types, by}, by one call of the corpus'' model for keywords. by: model; cache (asked before; others than the extension''s owner are told model); noun phrases (no model is set, or it failed: then with a WARNING and the reason). 42704 unknown corpus.';
