-- Entities that may be one, for a person to decide; nothing is merged. Owner only, as what it leads to.
CREATE FUNCTION graphrag.suggest_merges(corpus text DEFAULT 'default', max_suggestions int DEFAULT 100)
RETURNS TABLE (entity text, target text, score double precision, reason text)
LANGUAGE plpython3u STABLE COST 10000000 ROWS 100
SET search_path = pg_catalog, pg_temp SET jit = off
AS $$
from pg_graphrag.server import call
return call(plpy, "@extversion@", "index.curation.suggest:suggest", corpus, max_suggestions)
$$;
COMMENT ON FUNCTION graphrag.suggest_merges(text, int) IS 'Pairs of entities that may be one, best first, with a score (0.6 to 1) and its reason: spelling, transliteration, abbreviation, embedding, or a name, alias or code that documents mention and several attached rows share (if only one row has it, both are one entity already); common neighbours, similar names and types count too. The arguments suit merge_entities(); a merge that was undone is not suggested again. Owner only; 42704 for an unknown corpus.';
