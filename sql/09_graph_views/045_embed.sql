-- The corpus' embedding model, for applications that compare vectors of their own.
CREATE FUNCTION graphrag.embed(input text, corpus text DEFAULT 'default') RETURNS @extschema:vector@.vector
LANGUAGE plpython3u STABLE COST 500000 SET search_path = pg_catalog, pg_temp SET jit = off
AS $$
from pg_graphrag.server import call
return call(plpy, "@extversion@", "search.query.embed:embed", input, corpus)
$$;
COMMENT ON FUNCTION graphrag.embed(text, text) IS 'Vector of a text by the corpus'' embedding model, L2-normalised; null for null. If a text is too long for the model, its beginning counts.';
