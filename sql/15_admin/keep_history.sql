CREATE FUNCTION graphrag.keep_history(corpus text, history text, options jsonb DEFAULT '{}') RETURNS int
LANGUAGE plpython3u VOLATILE SET search_path = pg_catalog, pg_temp SET jit = off
AS $$
from pg_graphrag.server import call
return call(plpy, "@extversion@", "operate.admin.history:keep", corpus, history, options)
$$;
COMMENT ON FUNCTION graphrag.keep_history(text, text, jsonb) IS 'Keeps every version of the documents of a corpus, from now on, as documents of a new corpus, its history; returns its number. Keys there are key@time of writing (UTC). A version is valid from the time it was written, or its document''s valid_from, to the time it was replaced, deleted or retracted: as_of finds the versions of a moment. The history has the options of the corpus, changed by options, and no Cypher graph. Only the owner sees it until protect() or unprotect(). 42704 unknown corpus; 23505 if the name is taken; 55000 if the corpus has a history or is one; 22023 for a bad option.';

CREATE FUNCTION graphrag.end_history(corpus text) RETURNS void
LANGUAGE plpython3u VOLATILE SET search_path = pg_catalog, pg_temp SET jit = off
AS $$
from pg_graphrag.server import call
call(plpy, "@extversion@", "operate.admin.history:end", corpus)
$$;
COMMENT ON FUNCTION graphrag.end_history(text) IS 'Ends keep_history(): the versions stay, as a corpus like any other; drop_corpus() removes it. 42704 for an unknown corpus, or one without a history.';
