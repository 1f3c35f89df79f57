-- Answers. VOLATILE: cache, accounts and query log are written where the transaction may write. HNSW settings as in search().
CREATE FUNCTION graphrag.ask(
    question            text,
    corpus              text DEFAULT 'default',
    mode                text DEFAULT 'hybrid',
    max_tokens          int DEFAULT NULL,
    filter              jsonb DEFAULT NULL,
    low_level_keywords  text[] DEFAULT NULL,
    high_level_keywords text[] DEFAULT NULL,
    options             jsonb DEFAULT '{}',
    history             jsonb DEFAULT NULL,
    response_type       text DEFAULT 'multiple paragraphs'
) RETURNS TABLE (answer text, citations jsonb, usage jsonb, context jsonb)
LANGUAGE plpython3u VOLATILE ROWS 1
SET search_path = pg_catalog, pg_temp SET hnsw.ef_search = 200 SET hnsw.iterative_scan = 'strict_order' SET jit = off SET gin_fuzzy_search_limit = 0 SET quote_all_identifiers = off
AS $$
from pg_graphrag.server import call
return call(plpy, "@extversion@", "search.answer.ask:ask", question, corpus, mode, max_tokens, filter, low_level_keywords,
            high_level_keywords, options, history, response_type)
$$;
COMMENT ON FUNCTION graphrag.ask(text, text, text, int, jsonb, text[], text[], jsonb, jsonb, text) IS 'Answers a question from the documents, by the corpus'' model for answers; where it has none, by their sentences. Arguments as of context(); history: [{role: user or assistant, content}]; response_type: the form of the answer, in words. One row: answer with [numbers]; citations [{number, document_id, source_key, title, chunk_id, section, pages, picture}], only of documents in the context; usage {calls, tokens_in, tokens_out, cost, cache_hits, invalid_citations; answer: "extracts" and reason where there is no model, or it gave no answer that holds, and sentences of the documents are given, each with its citation}, to who is not the extension''s owner as if nothing had been asked before, tokens being a quarter of the bytes; context (in graph_global, drift and lazy: points, what models noted, and map, drift or relevance_tests, what was read and what failed). Answers are cached by question, context, history and form. Option "sql": true: the model also writes one SELECT over attached tables and graph views, which is run as the caller; its rows are context -> ''sql'', and a citation of them has neither document nor key. With an empty context no model is asked. Option answer_timeout (seconds; default: the corpus'' option, 60): until the answer begins, all of it takes at most twice that. Options instructions (how to answer, in words), max_answer_tokens, answer_schema (a JSON schema: the answer is JSON, its citations stand in the column alone, and it is never extracts), bypass (true: the model alone, without documents), pictures (true: the model is shown up to four pictures of the context, of 5 MiB together; context -> ''pictures'' has their numbers). 0A000: option sql without the package pglast; 55000: neither a model for answers nor a text to cite; 08006: it cannot be reached; 22000: it gave no usable answer; 53400: the budget is reached.';

CREATE FUNCTION graphrag.ask_stream(
    question            text,
    corpus              text DEFAULT 'default',
    mode                text DEFAULT 'hybrid',
    max_tokens          int DEFAULT NULL,
    filter              jsonb DEFAULT NULL,
    low_level_keywords  text[] DEFAULT NULL,
    high_level_keywords text[] DEFAULT NULL,
    options             jsonb DEFAULT '{}',
    history             jsonb DEFAULT NULL,
    response_type       text DEFAULT 'multiple paragraphs'
) RETURNS SETOF text
LANGUAGE plpython3u VOLATILE ROWS 100
SET search_path = pg_catalog, pg_temp SET hnsw.ef_search = 200 SET hnsw.iterative_scan = 'strict_order' SET jit = off SET gin_fuzzy_search_limit = 0 SET quote_all_identifiers = off
AS $$
from pg_graphrag.server import call
return call(plpy, "@extversion@", "search.answer.ask:ask_stream", question, corpus, mode, max_tokens, filter, low_level_keywords,
            high_level_keywords, options, history, response_type)
$$;
COMMENT ON FUNCTION graphrag.ask_stream(text, text, text, int, jsonb, text[], text[], jsonb, jsonb, text) IS 'The answer of ask() in pieces; together they are exactly that answer. If they turn out to be no valid answer, they end there, and after a blank line the sentences of the documents that ask() would give follow. For others than the extension''s owner each piece is a word. Fetch them as they come through a cursor: DECLARE c CURSOR FOR SELECT graphrag.ask_stream(…); FETCH 1 FROM c; closing it ends the request to the model.';
