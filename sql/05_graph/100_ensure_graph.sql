-- The AGE graph of a corpus, made on first use: never an extension member, so it is dumped with its rows.
-- SECURITY DEFINER: every graph belongs to the extension's owner, whoever runs the worker. AGE is loaded by its type's input function.
CREATE FUNCTION graphrag._ensure_graph(corpus_id int) RETURNS void
LANGUAGE plpgsql SECURITY DEFINER
SET search_path = pg_catalog, ag_catalog, pg_temp
SET client_min_messages = warning
AS $function$
#variable_conflict use_variable
DECLARE
    graph name;
    label name;
BEGIN
    SELECT c.graph_name INTO graph FROM graphrag.corpora AS c WHERE c.id = corpus_id;
    IF NOT FOUND THEN
        RAISE EXCEPTION 'there is no corpus with id %', corpus_id
            USING ERRCODE = 'undefined_object', HINT = 'SELECT id, name FROM graphrag.corpora lists them.';
    END IF;
    IF pg_catalog.to_regclass(pg_catalog.format('%I."PARENT"', graph)) IS NOT NULL THEN
        RETURN;
    END IF;
    -- Two sessions may come here at once: the second waits, then finds the graph. By a query: to_regclass may still remember that it was not there.
    PERFORM graphrag._lock_corpus(corpus_id);
    PERFORM '1'::ag_catalog.agtype;
    PERFORM FROM ag_catalog.ag_graph AS g WHERE g.name = graph;
    IF NOT FOUND THEN
        IF pg_catalog.to_regnamespace(pg_catalog.quote_ident(graph)) IS NOT NULL THEN
            RAISE EXCEPTION 'schema "%" stands where the graph of corpus % belongs', graph, corpus_id
                USING ERRCODE = 'duplicate_schema', HINT = 'Rename or drop that schema; pg_graphrag makes its own.';
        END IF;
        PERFORM ag_catalog.create_graph(graph);
    END IF;

    -- In this order: AGE numbers labels as they are made (110_project.sql). A graph of an earlier version has some of them.
    FOREACH label IN ARRAY '{Entity,Chunk,Document,RELATED,MENTIONED_IN,PART_OF,Community,IN_COMMUNITY,PARENT}'::name[] LOOP
        CONTINUE WHEN EXISTS (SELECT FROM ag_catalog.ag_label AS l JOIN ag_catalog.ag_graph AS g ON g.graphid = l.graph
                               WHERE g.name = graph AND l.name = label);
        IF label IN ('Entity', 'Chunk', 'Document', 'Community') THEN
            PERFORM ag_catalog.create_vlabel(graph, label);
        ELSE
            PERFORM ag_catalog.create_elabel(graph, label);
            EXECUTE pg_catalog.format('CREATE INDEX %I ON %I.%I (start_id)', label || '_start_id_idx', graph, label);
            EXECUTE pg_catalog.format('CREATE INDEX %I ON %I.%I (end_id)', label || '_end_id_idx', graph, label);
        END IF;
        EXECUTE pg_catalog.format('CREATE UNIQUE INDEX %I ON %I.%I (id)', label || '_id_idx', graph, label);
        -- The projection uses row ids as entry ids; what Cypher's CREATE makes begins at 2^47, half of AGE's range, and never meets them.
        PERFORM pg_catalog.setval(pg_catalog.format('%I.%I', graph, label || '_id_seq')::pg_catalog.regclass, 140737488355328, false);
    END LOOP;
    EXECUTE pg_catalog.format('CREATE INDEX IF NOT EXISTS "Entity_properties_idx" ON %I."Entity" USING gin (properties)', graph);
END
$function$;
REVOKE ALL ON FUNCTION graphrag._ensure_graph(int) FROM PUBLIC;

-- Drop the graph of a corpus; nothing happens when there is none. Copes with a graph a restore has left half-registered.
CREATE FUNCTION graphrag._drop_graph(corpus_id int) RETURNS void
LANGUAGE plpgsql SECURITY DEFINER
SET search_path = pg_catalog, ag_catalog, pg_temp
SET client_min_messages = warning
AS $function$
#variable_conflict use_variable
DECLARE
    graph CONSTANT name := 'graphrag_' || corpus_id;
BEGIN
    PERFORM '1'::ag_catalog.agtype;
    IF EXISTS (SELECT FROM ag_catalog.ag_graph AS g WHERE g.name = graph) THEN
        -- First: AGE 1.5 would cache each label as it drops it, and its next cache flush would fail ("label (relation) cache corrupted").
        DELETE FROM ag_catalog.ag_label AS l USING ag_catalog.ag_graph AS g WHERE g.name = graph AND l.graph = g.graphid;
        PERFORM ag_catalog.drop_graph(graph, true);
    END IF;
END
$function$;
REVOKE ALL ON FUNCTION graphrag._drop_graph(int) FROM PUBLIC;
