-- A database may move between machines, so what embeds here is said on demand.
CREATE FUNCTION graphrag.embedding_engine(OUT documents text, OUT questions text, OUT reason text)
LANGUAGE plpython3u STABLE COST 10000 SET search_path = pg_catalog, pg_temp SET jit = off
AS $$
from pg_graphrag.server import call
return call(plpy, "@extversion@", "search.query.embed:embedding_engine")
$$;
COMMENT ON FUNCTION graphrag.embedding_engine() IS 'The engine and precision by which the local model embeds documents and questions in this session, and why. Set by graphrag.embedding_engine: auto, bfloat16, int8, float32 or numpy.';
