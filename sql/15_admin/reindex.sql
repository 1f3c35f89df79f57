-- Everything that was made of a corpus' documents is made again by workers, however torn it is.
CREATE FUNCTION graphrag.reindex(corpus text DEFAULT 'default', extraction text DEFAULT NULL) RETURNS bigint
LANGUAGE plpython3u VOLATILE SET search_path = pg_catalog, pg_temp SET jit = off
AS $$
from pg_graphrag.server import call
return call(plpy, "@extversion@", "operate.admin.reindex:reindex", corpus, extraction)
$$;
COMMENT ON FUNCTION graphrag.reindex(text, text) IS 'Lets workers make everything again from the documents of a corpus: chunks, vectors, BM25, entities, relationships, communities, the AGE graph. For a damaged index, as after TRUNCATE or a restore of single tables, or one that an earlier version made. Documents, curations, attached tables, grants, options, feedback and accounts stay. Texts stay searchable all the time; the graph is empty at first, and grows with the work. One transaction, which waits for writers of the corpus and keeps them out; replies of models come from the cache if it has them. With extraction => ''stood in'', only documents with chunks for which NLP stood in for the model, or completed its reply: their index stays until the model has been asked again. Returns the number of documents queued. Owner only; 22023 for another value of extraction, 42704 for an unknown corpus, 25001 in REPEATABLE READ, 42501 under row-level security, 55P03 if transactions write to it for half a minute.';
