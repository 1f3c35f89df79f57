-- The one door of readers to models. SECURITY DEFINER: providers, cache and accounts are the owner's; a caller chooses a task of a fixed
-- list and gives its data, never a prompt, and of a fault sees no more than he may (a member of the owner role: all).
CREATE FUNCTION graphrag._model(corpus_id int, task text, arguments jsonb, record boolean) RETURNS jsonb
LANGUAGE plpython3u VOLATILE SECURITY DEFINER SET search_path = pg_catalog, pg_temp
AS $$
from pg_graphrag.server import call
return call(plpy, "@extversion@", "answer.door:model", corpus_id, task, arguments, record)
$$;
REVOKE ALL ON FUNCTION graphrag._model(int, text, jsonb, boolean) FROM PUBLIC;
COMMENT ON FUNCTION graphrag._model(int, text, jsonb, boolean) IS 'Has a model of the corpus do a task (keywords, hyde, decompose, rewrite, grades, answer, reduce, map, rate, refine, relevant, expand, primer, follow_up): {value, cached, usage}, or {fault, usage}. record: write cache and accounts, where the transaction may write.';

-- As _model, and SECURITY DEFINER for the same reason: one task for each of several arguments, side by side.
CREATE FUNCTION graphrag._models(corpus_id int, task text, arguments jsonb, record boolean, retries int) RETURNS jsonb
LANGUAGE plpython3u VOLATILE SECURITY DEFINER SET search_path = pg_catalog, pg_temp
AS $$
from pg_graphrag.server import call
return call(plpy, "@extversion@", "answer.door:models", corpus_id, task, arguments, record, retries)
$$;
REVOKE ALL ON FUNCTION graphrag._models(int, text, jsonb, boolean, int) FROM PUBLIC;
COMMENT ON FUNCTION graphrag._models(int, text, jsonb, boolean, int) IS 'Has a model of the corpus do a task for each of an array of arguments: {outcomes: [{value} or {fault}], usage}. retries: how many requests that failed may be sent again, all together; null: each as often as the gateway does.';

-- As _model, and SECURITY DEFINER for the same reason: the answer in pieces, as they come. Not a set: a cursor in the caller's function would
-- be a pinned portal, and COMMIT while the caller's own cursor is open could fail on it.
CREATE FUNCTION graphrag._model_stream(corpus_id int, task text, arguments jsonb, record boolean) RETURNS text
LANGUAGE plpython3u VOLATILE SECURITY DEFINER SET search_path = pg_catalog, pg_temp
AS $$
from pg_graphrag.server import call
return call(plpy, "@extversion@", "answer.door:open_stream", corpus_id, task, arguments, record)
$$;
REVOKE ALL ON FUNCTION graphrag._model_stream(int, text, jsonb, boolean) FROM PUBLIC;
COMMENT ON FUNCTION graphrag._model_stream(int, text, jsonb, boolean) IS 'Has a model of the corpus do a task, its answer to be fetched piece by piece: the name of the stream, good in this session';

-- SECURITY DEFINER: what ends with the answer is written to cache and accounts.
CREATE FUNCTION graphrag._model_next(stream text) RETURNS text
LANGUAGE plpython3u VOLATILE SECURITY DEFINER SET search_path = pg_catalog, pg_temp
AS $$
from pg_graphrag.server import call
return call(plpy, "@extversion@", "answer.streams:next_piece", stream)
$$;
REVOKE ALL ON FUNCTION graphrag._model_next(text) FROM PUBLIC;
COMMENT ON FUNCTION graphrag._model_next(text) IS 'The next piece of an answer, when it has come; null: that was all';

-- As _model, and SECURITY DEFINER for the same reason: the vectors of a query's texts. Writes nothing: search() is read only.
CREATE FUNCTION graphrag._embed(corpus_id int, texts text[], OUT vectors bytea, OUT usage jsonb)
LANGUAGE plpython3u VOLATILE SECURITY DEFINER SET search_path = pg_catalog, pg_temp
AS $$
from pg_graphrag.server import call
return call(plpy, "@extversion@", "answer.door:embed", corpus_id, texts)
$$;
REVOKE ALL ON FUNCTION graphrag._embed(int, text[]) FROM PUBLIC;
COMMENT ON FUNCTION graphrag._embed(int, text[]) IS 'Vectors of up to 32 texts by the embedding model of a corpus whose model is at an endpoint: float32, little-endian, row by row; and what they cost';

-- As _embed, and SECURITY DEFINER for the same reason: how relevant texts are to a query, by the corpus' cross-encoder.
CREATE FUNCTION graphrag._rerank(corpus_id int, query text, texts text[], OUT scores double precision[], OUT usage jsonb)
LANGUAGE plpython3u VOLATILE SECURITY DEFINER SET search_path = pg_catalog, pg_temp
AS $$
from pg_graphrag.server import call
return call(plpy, "@extversion@", "answer.door:rerank", corpus_id, query, texts)
$$;
REVOKE ALL ON FUNCTION graphrag._rerank(int, text, text[]) FROM PUBLIC;
COMMENT ON FUNCTION graphrag._rerank(int, text, text[]) IS 'Relevance of up to 200 texts to a query by the corpus'' cross-encoder, in their order; and what it cost';
