-- What readers may read; sorts last, when everything is there. Named one by one: a new table is closed until someone thinks of it.
-- The queue and whatever holds or names secrets are not here. Functions run with the reader's own rights.
DO $block$
BEGIN
    IF NOT EXISTS (SELECT FROM pg_catalog.pg_roles WHERE rolname = 'graphrag_reader') THEN
        CREATE ROLE graphrag_reader NOLOGIN;
        COMMENT ON ROLE graphrag_reader IS 'pg_graphrag: may search and read the graph; grant it to roles that log in';
    END IF;
EXCEPTION
    WHEN duplicate_object OR unique_violation THEN
        NULL;   -- roles are cluster-wide: another database made it at this moment
    WHEN insufficient_privilege THEN
        RAISE EXCEPTION 'role "%" may not create the role graphrag_reader', current_user
            USING ERRCODE = 'insufficient_privilege',
                  HINT = 'Let a superuser run CREATE ROLE graphrag_reader NOLOGIN, then run CREATE EXTENSION again.';
END
$block$;

GRANT USAGE ON SCHEMA graphrag TO graphrag_reader;
GRANT SELECT ON
    graphrag.corpora,
    graphrag.documents,
    graphrag.graph_nodes,
    graphrag.graph_edges,
    graphrag.document_coverage,
    graphrag.graph_growth,
    graphrag.graph_claims,
    graphrag.entity_timeline,
    graphrag.community_overview
TO graphrag_reader;
-- One-time tokens open these; what the views show of a corpus that is seen in part; the query log.
GRANT EXECUTE ON FUNCTION
    graphrag._enter(text),
    graphrag._enter_writing(text),
    graphrag._at_one_snapshot(text),
    graphrag.log_query(text, text, text, text, double precision, int, int, int, jsonb)
TO graphrag_reader;
