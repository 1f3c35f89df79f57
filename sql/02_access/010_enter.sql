-- The owner's rights for what the package decided on. A caller cannot make a token: tokens are stored in the memory of PL/Python, which
-- no SQL user can write, just before they are used, and are good once (python/pg_graphrag/server/access/entry.py).
-- SECURITY DEFINER: what was made of documents is the owner's to read; readers get what their documents say of it.
CREATE FUNCTION graphrag._enter(token text) RETURNS void
LANGUAGE plpython3u STABLE PARALLEL RESTRICTED SECURITY DEFINER SET search_path = pg_catalog, pg_temp SET jit = off
AS $$
from pg_graphrag.server import call
call(plpy, "@extversion@", "server.access.entry:enter", token)
$$;
COMMENT ON FUNCTION graphrag._enter(text) IS 'Does the work that waits under a one-time token of the package, in the snapshot of the calling statement. 42501 for anything else.';

-- As _enter, and SECURITY DEFINER for the same reason: for what writes the cache of models, accounts and the query log.
CREATE FUNCTION graphrag._enter_writing(token text) RETURNS void
LANGUAGE plpython3u VOLATILE PARALLEL UNSAFE SECURITY DEFINER SET search_path = pg_catalog, pg_temp SET jit = off
AS $$
from pg_graphrag.server import call
call(plpy, "@extversion@", "server.access.entry:enter", token)
$$;
COMMENT ON FUNCTION graphrag._enter_writing(text) IS 'Like _enter(), for work that writes';

-- Likewise, but with the caller's own rights: for functions that write, whose statements otherwise each have a snapshot of their own.
CREATE FUNCTION graphrag._at_one_snapshot(token text) RETURNS void
LANGUAGE plpython3u STABLE PARALLEL RESTRICTED SET search_path = pg_catalog, pg_temp SET jit = off
AS $$
from pg_graphrag.server import call
call(plpy, "@extversion@", "server.access.entry:enter", token)
$$;
COMMENT ON FUNCTION graphrag._at_one_snapshot(text) IS 'Like _enter(), with the caller''s rights';
