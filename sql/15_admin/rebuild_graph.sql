-- Drop the AGE graph of a corpus and project the tables again: after a restore, or after the graph was changed by hand.
CREATE FUNCTION graphrag.rebuild_graph(corpus text DEFAULT 'default') RETURNS void
LANGUAGE plpgsql VOLATILE SET search_path = pg_catalog, pg_temp SET jit = off
AS $function$
#variable_conflict use_column
DECLARE
    this_corpus int;
    ids         bigint[];
    label       text;
BEGIN
    SELECT c.id INTO this_corpus FROM graphrag.corpora AS c WHERE c.name = corpus;
    IF NOT FOUND THEN
        PERFORM graphrag._unknown_corpus(corpus);
    END IF;
    PERFORM graphrag._lock_corpus(this_corpus);
    PERFORM graphrag._lock_tables(VARIADIC ARRAY(
        SELECT l.relation FROM ag_catalog.ag_label AS l JOIN ag_catalog.ag_graph AS g ON g.graphid = l.graph
         WHERE g.name = 'graphrag_' || this_corpus ORDER BY l.relation));
    PERFORM graphrag._drop_graph(this_corpus);
    IF NOT graphrag._ensure_graph(this_corpus) THEN
        RETURN;
    END IF;
    -- In portions, so that memory does not grow with the corpus.
    FOR ids IN
        SELECT array_agg(e.id) FROM (SELECT e.id, row_number() OVER () / 10000 AS portion
                                       FROM graphrag.entities AS e WHERE e.corpus_id = this_corpus) AS e GROUP BY e.portion
    LOOP
        PERFORM graphrag._project(this_corpus, '{}', ids, '{}');
    END LOOP;
    FOR ids IN
        SELECT array_agg(r.id) FROM (SELECT r.id, row_number() OVER () / 10000 AS portion
                                       FROM graphrag.relationships AS r WHERE r.corpus_id = this_corpus) AS r GROUP BY r.portion
    LOOP
        PERFORM graphrag._project(this_corpus, '{}', '{}', ids);
    END LOOP;
    -- Those that were indexed; also documents that are deleted while what was made of them waits to be removed.
    FOR ids IN
        SELECT array_agg(d.id) FROM (SELECT d.id, row_number() OVER () / 1000 AS portion
                                       FROM (SELECT x.id FROM graphrag.documents AS x
                                               WHERE x.corpus_id = this_corpus AND x.indexed_hash IS NOT NULL
                                              UNION
                                             SELECT c.document_id FROM graphrag.chunks AS c WHERE c.corpus_id = this_corpus) AS d) AS d
         GROUP BY d.portion
    LOOP
        PERFORM graphrag._project(this_corpus, ids, '{}', '{}');
    END LOOP;
    PERFORM graphrag._project_communities(this_corpus, ARRAY(SELECT c.id FROM graphrag.communities AS c WHERE c.corpus_id = this_corpus));
    FOREACH label IN ARRAY '{Entity,Chunk,Document,RELATED,MENTIONED_IN,PART_OF,Community,IN_COMMUNITY,PARENT}'::text[] LOOP
        EXECUTE format('ANALYZE %I.%I', 'graphrag_' || this_corpus, label);
    END LOOP;
END
$function$;
COMMENT ON FUNCTION graphrag.rebuild_graph(text) IS 'Drops the Apache AGE graph of a corpus and makes it again from the tables, in one transaction. Anything that Cypher added to the graph is lost. If the corpus'' option cypher is false, remains of a graph are dropped, and none is made. Owner only; 42704 for an unknown corpus.';
