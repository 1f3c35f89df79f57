-- Search measured on questions with known evidence. STABLE, as search() is: all modes see one state, and standbys measure too.
CREATE TYPE graphrag.evaluation AS (
    mode             text,
    k                int,
    questions        int,
    without_evidence int,
    recall           double precision,
    ndcg             double precision,
    mrr              double precision,
    any_hit          double precision,
    all_hit          double precision,
    p50_ms           double precision,
    p95_ms           double precision,
    baseline         text,
    intervals        jsonb,
    differences      jsonb,
    per_question     jsonb
);
COMMENT ON TYPE graphrag.evaluation IS 'A row of evaluate(), for one mode and one depth k. Documents are judged (best chunk wins): recall, ndcg (binary) and mrr of the first k, means over questions that have evidence; without_evidence counts the others. any_hit, all_hit: share of questions of which any, or all, evidence is among the first k chunks as they are. p50_ms, p95_ms: of a search in a warm session, its embedding included. intervals: {metric: [low, high]}, 95 %, bootstrap over questions. differences to the baseline: {metric: {difference, low, high, p}}, paired, p for one comparison. per_question: with that option.';

CREATE FUNCTION graphrag.evaluate(
    corpus    text,
    questions jsonb,
    modes     text[] DEFAULT '{naive,bm25,hybrid}',
    k         int[] DEFAULT '{5,10}',
    baseline  text DEFAULT NULL,
    options   jsonb DEFAULT '{}'
) RETURNS SETOF graphrag.evaluation
LANGUAGE plpython3u STABLE COST 10000000 ROWS 10
SET search_path = pg_catalog, pg_temp SET hnsw.ef_search = 200 SET hnsw.iterative_scan = 'strict_order' SET jit = off SET gin_fuzzy_search_limit = 0 SET quote_all_identifiers = off
AS $$
from pg_graphrag.server import call
return call(plpy, "@extversion@", "search.evaluation.evaluate:evaluate", corpus, questions, modes, k, baseline, options)
$$;
COMMENT ON FUNCTION graphrag.evaluate(text, jsonb, text[], int[], text, jsonb) IS 'Measures modes of search on questions: [{id, question, evidence: [source_key], low_level_keywords, high_level_keywords, query_entities, answer_types}], the last two for modes that have these options, where a variant does not set them. baseline: the mode that others are compared to (default: the first). options: seed of the bootstrap (0); per_question (false): scores of each question and what was found; variants {name: {mode, …search options}}: names that modes may have besides. 42704 unknown corpus; 22023 unknown mode, option or source_key, no questions, k < 1.';

-- The rows of a table as questions; only for evaluate(), with the caller's own rights.
CREATE FUNCTION graphrag._questions(source regclass) RETURNS jsonb
LANGUAGE plpgsql STABLE SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
    questions jsonb;
BEGIN
    IF source IS NULL THEN
        RETURN NULL;
    END IF;
    PERFORM graphrag._refuse_foreign_code(source);
    EXECUTE pg_catalog.format('SELECT pg_catalog.jsonb_agg(pg_catalog.to_jsonb(q.*)) FROM %s q', source) INTO questions;
    RETURN questions;
END
$$;

CREATE FUNCTION graphrag.evaluate(
    corpus    text,
    questions regclass,
    modes     text[] DEFAULT '{naive,bm25,hybrid}',
    k         int[] DEFAULT '{5,10}',
    baseline  text DEFAULT NULL,
    options   jsonb DEFAULT '{}'
) RETURNS SETOF graphrag.evaluation
LANGUAGE sql STABLE COST 10000000 ROWS 10
BEGIN ATOMIC
    SELECT * FROM graphrag.evaluate(corpus, graphrag._questions(questions), modes, k, baseline, options);
END;
COMMENT ON FUNCTION graphrag.evaluate(text, regclass, text[], int[], text, jsonb) IS 'As evaluate(text, jsonb, …), with the rows of a table or view: its columns are the fields of a question (evidence, keywords, query_entities and answer_types: text[] or jsonb).';

-- So that a literal needs no cast, be it an array or the name of a table.
CREATE FUNCTION graphrag.evaluate(
    corpus    text,
    questions text,
    modes     text[] DEFAULT '{naive,bm25,hybrid}',
    k         int[] DEFAULT '{5,10}',
    baseline  text DEFAULT NULL,
    options   jsonb DEFAULT '{}'
) RETURNS SETOF graphrag.evaluation
LANGUAGE sql STABLE COST 10000000 ROWS 10
BEGIN ATOMIC
    SELECT *
      FROM graphrag.evaluate(
               corpus,
               CASE
                   WHEN questions OPERATOR(pg_catalog.~) '^\s*[\[{]' THEN questions::pg_catalog.jsonb
                   ELSE graphrag._questions(questions::pg_catalog.regclass)
               END,
               modes, k, baseline, options);
END;
COMMENT ON FUNCTION graphrag.evaluate(text, text, text[], int[], text, jsonb) IS 'As evaluate(text, jsonb, …), with the text of a JSON array, or the name of a table.';
