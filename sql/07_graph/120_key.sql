-- Normalise a name as the merge does: the key under which an entity is found.
CREATE FUNCTION graphrag._key(name text) RETURNS text
LANGUAGE plpython3u IMMUTABLE STRICT SET search_path = pg_catalog, pg_temp SET jit = off
AS $$
from pg_graphrag.server import call
return call(plpy, "@extversion@", "index.graph.keys:key", name)
$$;
