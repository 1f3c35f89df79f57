-- Equal documents give equal fingerprints: what shows that no order, batch, edit, crash, dump or restore left a trace.
CREATE FUNCTION graphrag.fingerprint(corpus text DEFAULT 'default') RETURNS text
LANGUAGE plpython3u STABLE COST 10000000 SET search_path = pg_catalog, pg_temp SET jit = off SET bytea_output = 'hex' SET extra_float_digits = 1
AS $$
from pg_graphrag.server import call
return call(plpy, "@extversion@", "operate.admin.fingerprint:fingerprint", corpus)
$$;
COMMENT ON FUNCTION graphrag.fingerprint(text) IS 'Hash of everything made of the documents of a corpus, and of the AGE graph, without numbers (ids), vectors, times and communities: equal documents and options give equal fingerprints, whatever happened in between. One snapshot; reads the whole corpus. Owner only; 42704 for an unknown corpus.';

CREATE FUNCTION graphrag.fingerprint_sections(corpus text DEFAULT 'default') RETURNS TABLE (section text, row_count bigint, hash text)
LANGUAGE plpython3u STABLE COST 10000000 ROWS 10 SET search_path = pg_catalog, pg_temp SET jit = off SET bytea_output = 'hex' SET extra_float_digits = 1
AS $$
from pg_graphrag.server import call
return call(plpy, "@extversion@", "operate.admin.fingerprint:fingerprint_sections", corpus)
$$;
COMMENT ON FUNCTION graphrag.fingerprint_sections(text) IS 'Rows and hash of each section of fingerprint(), to see where two corpora differ. Owner only; 42704 for an unknown corpus.';

-- The rows themselves, in C order; of one section, or of all.
CREATE FUNCTION graphrag._canonical(corpus text, section text DEFAULT NULL) RETURNS TABLE (section_name text, line text)
LANGUAGE plpython3u STABLE COST 10000000 SET search_path = pg_catalog, pg_temp SET jit = off SET bytea_output = 'hex' SET extra_float_digits = 1
AS $$
from pg_graphrag.server import call
return call(plpy, "@extversion@", "operate.admin.fingerprint:canonical", corpus, section)
$$;
