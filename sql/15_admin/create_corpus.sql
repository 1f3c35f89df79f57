-- One lock per corpus orders the short merge steps of its workers, and drop_corpus(); nothing else waits for it. Documents first (lock_tables.sql): who
-- holds them as a whole may come for this lock.
CREATE FUNCTION graphrag._lock_corpus(corpus_id int) RETURNS void
LANGUAGE plpgsql VOLATILE SET search_path = pg_catalog, pg_temp
AS $$
BEGIN
    LOCK TABLE graphrag.documents IN ACCESS SHARE MODE;
    PERFORM graphrag._lock(corpus_id, 'corpus');
    PERFORM graphrag._refuse_moved(corpus_id);
END
$$;

CREATE FUNCTION graphrag.create_corpus(name text, options jsonb DEFAULT '{}') RETURNS int
LANGUAGE plpython3u VOLATILE SET search_path = pg_catalog, pg_temp SET jit = off
AS $$
from pg_graphrag.server import call
return call(plpy, "@extversion@", "operate.admin.corpus_changes:create", name, options)
$$;
COMMENT ON FUNCTION graphrag.create_corpus(text, jsonb) IS 'Makes a corpus and returns its number. Options: extractor, language, chunk_token_size, chunk_overlap, tokenizer, embedding, entity_types, max_gleaning, claims, grounding, prompts, llm, rerank, communities, conversation, full_names, answer_timeout, query_log, notify, retention. Without embedding, the corpus gets the local model that fits its language or its first documents; progress names it. 23505 if the name is taken, 22023 for an unknown option or a bad value.';

CREATE FUNCTION graphrag.alter_corpus(name text, options jsonb) RETURNS void
LANGUAGE plpython3u VOLATILE SET search_path = pg_catalog, pg_temp SET jit = off
AS $$
from pg_graphrag.server import call
call(plpy, "@extversion@", "operate.admin.corpus_changes:alter", name, options)
$$;
COMMENT ON FUNCTION graphrag.alter_corpus(text, jsonb) IS 'Changes options of a corpus, each as a whole (null: back to the default). Options that decide chunks or mentions queue every document again (55P03 if transactions write to it for half a minute); tokenizer is fixed once there are documents (55000), and embedding changes by reembed().';

CREATE FUNCTION graphrag.drop_corpus(name text) RETURNS void
LANGUAGE plpython3u VOLATILE SET search_path = pg_catalog, pg_temp SET jit = off
AS $$
from pg_graphrag.server import call
call(plpy, "@extversion@", "operate.admin.corpus_changes:drop", name)
$$;
COMMENT ON FUNCTION graphrag.drop_corpus(text) IS 'Removes a corpus: its documents, chunks, graph, vectors, statistics, jobs and triggers on attached tables. 42704 for an unknown corpus, 55P03 if for half a minute open transactions write to it, lock its tables, or have written something about it (a verdict, a model''s reply).';

CREATE FUNCTION graphrag.clone_corpus(corpus text, name text, options jsonb DEFAULT '{}') RETURNS int
LANGUAGE plpython3u VOLATILE SET search_path = pg_catalog, pg_temp SET jit = off
AS $$
from pg_graphrag.server import call
return call(plpy, "@extversion@", "operate.admin.corpus_changes:clone", corpus, name, options)
$$;
COMMENT ON FUNCTION graphrag.clone_corpus(text, text, jsonb) IS 'Makes a corpus with the documents and options of another, changed by options (null: back to the default), and returns its number. Workers index it as if the documents were new; curations, grants and attached tables are not copied. Only the owner sees it, whatever protects the other, until unprotect() or protect(). 42704 unknown corpus, 23505 if the name is taken, 22023 for a bad option.';
