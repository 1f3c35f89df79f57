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
    graphrag.chunks,
    graphrag.chunk_windows,
    graphrag.entities,
    graphrag.entity_mentions,
    graphrag.relationships,
    graphrag.relationship_mentions,
    graphrag.embedding_spaces,
    graphrag.corpus_revisions,
    graphrag.window_vectors,
    graphrag.entity_vectors,
    graphrag.entity_mention_vectors,
    graphrag.relationship_mention_vectors,
    graphrag.claims,
    graphrag.bm25_segments,
    graphrag.bm25_postings,
    graphrag.bm25_deletions,
    graphrag.bm25_tail,
    graphrag.bm25_tombstones,
    graphrag.graph_nodes,
    graphrag.graph_edges,
    graphrag.document_coverage,
    graphrag.graph_growth,
    graphrag.aliases,
    graphrag.curated,
    graphrag.graph_claims,
    graphrag.entity_timeline,
    graphrag.communities,
    graphrag.community_members,
    graphrag.community_reports,
    graphrag.report_vectors,
    graphrag.community_overview
TO graphrag_reader;
-- Asking: models are reached through these alone. What they cost, and what others asked, is the owner's.
GRANT EXECUTE ON FUNCTION
    graphrag._model(int, text, jsonb, boolean),
    graphrag._models(int, text, jsonb, boolean, int),
    graphrag._model_stream(int, text, jsonb, boolean),
    graphrag._model_next(text),
    graphrag._embed(int, text[]),
    graphrag._rerank(int, text, text[]),
    graphrag.log_query(text, text, text, text, double precision, int, int, int, jsonb)
TO graphrag_reader;
