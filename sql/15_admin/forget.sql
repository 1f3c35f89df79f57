-- The right to be forgotten, with a report for who must answer for it.
CREATE FUNCTION graphrag.forget(corpus text, source_key text)
RETURNS TABLE (place text, state text, removed bigint, remaining bigint, detail text, hint text)
LANGUAGE plpython3u VOLATILE COST 10000000 ROWS 60 SET search_path = pg_catalog, pg_temp SET jit = off
AS $$
from pg_graphrag.server import call
return call(plpy, "@extversion@", "operate.admin.forget:forget", corpus, source_key)
$$;
COMMENT ON FUNCTION graphrag.forget(text, text) IS 'Deletes a document with everything made of it, in one transaction, and then searches every table of the schema and of the corpus'' graph, found in the catalogs: for the document''s number and key, and for parts of its text that no other document has. Rows: place; state (clear, remains, unprovable: what no database can promise); rows removed or emptied; rows remaining; detail; hint. In the corpus it also deletes replies of models, cached or on their way, answers in answer_feedback, reports that would be different now, and questions that quote the document; of errors the kind stays. The next worker cancels batches at endpoints; a second call then shows that. For a key without a document it deletes the remains, and searches by key. Owner only; 42704 for an unknown corpus, 55000 for a document of an attached table.';
