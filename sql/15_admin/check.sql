-- What must hold in every snapshot, while workers work too; whatever does not is named.
CREATE FUNCTION graphrag.check(corpus text DEFAULT 'default') RETURNS TABLE (invariant text, object text, detail text)
LANGUAGE plpython3u STABLE COST 10000000 ROWS 10 SET search_path = pg_catalog, pg_temp SET jit = off
AS $$
from pg_graphrag.server import call
return call(plpy, "@extversion@", "operate.admin.check:check", corpus)
$$;
COMMENT ON FUNCTION graphrag.check(text) IS 'Checks every invariant of a corpus in one snapshot: queue and hashes, chunks and windows against documents, merged values against mentions, vectors, BM25 postings, the AGE graph, sequences. No row: all hold; else the invariant, the objects that violate it (at most 100 of each) and how. Reads the whole corpus, blocks nobody. Owner only; 42704 for an unknown corpus.';
