-- Who may do what; sorts last, when everything is there. Named one by one: what is new is closed until someone thinks of it.
-- Nobody but the owner reads what was made of documents: members read it through functions and views.

-- Takes a relation from everybody but its owner.
CREATE FUNCTION graphrag._close(relation regclass) RETURNS void
LANGUAGE plpgsql VOLATILE SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
    grantee oid;
BEGIN
    FOR grantee IN SELECT DISTINCT a.grantee FROM pg_class c, aclexplode(c.relacl) a WHERE c.oid = relation AND a.grantee <> c.relowner LOOP
        EXECUTE format('REVOKE ALL ON %s FROM %s CASCADE', relation, CASE grantee WHEN 0 THEN 'PUBLIC' ELSE grantee::regrole::text END);
    END LOOP;
END
$$;
COMMENT ON FUNCTION graphrag._close(regclass) IS 'Revokes the rights of everybody but the owner on a relation: what ALTER DEFAULT PRIVILEGES granted';

-- What the installing role's default privileges give away was meant for its own tables; and everybody calls no function that is new.
DO $new$
DECLARE
    before  CONSTANT text[] := pg_catalog.current_setting('graphrag.objects_before');
    schemas CONSTANT oid[]  := '{graphrag,graphrag_attached}'::pg_catalog.regnamespace[];
    item record;
BEGIN
    FOR item IN SELECT c.oid::pg_catalog.regclass AS relation FROM pg_catalog.pg_class AS c
                 WHERE c.relnamespace = ANY (schemas) AND c.relkind IN ('r', 'p', 'v', 'm', 'S', 'f')
                   AND c.relacl IS NOT NULL AND 'relation ' || c.oid <> ALL (before) LOOP
        PERFORM graphrag._close(item.relation);
    END LOOP;
    -- Whoever owns an attached table calls the functions of graphrag_attached.
    FOR item IN SELECT DISTINCT p.oid::pg_catalog.regprocedure AS routine,
                       CASE a.grantee WHEN 0 THEN 'PUBLIC' ELSE a.grantee::pg_catalog.regrole::text END AS grantee
                  FROM pg_catalog.pg_proc AS p,
                       pg_catalog.aclexplode(coalesce(p.proacl, pg_catalog.acldefault('f', p.proowner))) AS a
                 WHERE p.pronamespace = ANY (schemas) AND a.grantee <> p.proowner AND 'routine ' || p.oid <> ALL (before)
                   AND (a.grantee <> 0 OR p.pronamespace = 'graphrag'::pg_catalog.regnamespace) LOOP
        EXECUTE pg_catalog.format('REVOKE ALL ON ROUTINE %s FROM %s CASCADE', item.routine, item.grantee);
    END LOOP;
    FOR item IN SELECT DISTINCT n.nspname, CASE a.grantee WHEN 0 THEN 'PUBLIC' ELSE a.grantee::pg_catalog.regrole::text END AS grantee
                  FROM pg_catalog.pg_namespace AS n, pg_catalog.aclexplode(n.nspacl) AS a
                 WHERE n.oid = ANY (schemas) AND a.grantee <> n.nspowner
                   -- An installation finds a schema graphrag with nothing in it.
                   AND (before <@ '{graphrag}' OR n.nspname <> ALL (before)) LOOP
        EXECUTE pg_catalog.format('REVOKE ALL ON SCHEMA %I FROM %s CASCADE', item.nspname, item.grantee);
    END LOOP;
END
$new$;
-- Earlier versions gave readers the tables, and everybody the functions.
REVOKE ALL ON SCHEMA graphrag FROM graphrag_reader;
REVOKE ALL ON ALL TABLES IN SCHEMA graphrag FROM graphrag_reader;
REVOKE ALL ON ALL ROUTINES IN SCHEMA graphrag FROM PUBLIC, graphrag_reader;

GRANT USAGE ON SCHEMA graphrag TO graphrag_member, pg_monitor;
-- Members get documents with the first corpus that is given to one of them (_settle_policies): before, nothing would limit them.
GRANT SELECT ON TABLE graphrag.documents TO graphrag_reader;
GRANT SELECT ON
    graphrag.corpora,
    graphrag.nodes,
    graphrag.pictures,
    graphrag.granted_corpora,
    graphrag.graph_nodes,
    graphrag.graph_edges,
    graphrag.graph_claims,
    graphrag.graph_mentions,
    graphrag.entity_attributes,
    graphrag.unfit_extractions,
    graphrag._histories,
    graphrag.versions,
    graphrag.document_coverage,
    graphrag.graph_growth,
    graphrag.entity_timeline,
    graphrag.community_entities,
    graphrag.community_overview
TO graphrag_member;
GRANT EXECUTE ON FUNCTION
    graphrag.search(text, text, text, int, jsonb, text[], text[], jsonb),
    graphrag.search(text, text[], text, int, jsonb, text[], text[], jsonb, double precision),
    graphrag.local_search(text, text, int, jsonb, text[], text[], jsonb),
    graphrag.global_search(text, text, int, jsonb, text[], text[], jsonb),
    graphrag.hybrid_search(text, text, int, jsonb, text[], text[], jsonb),
    graphrag.naive_search(text, text, int, jsonb, jsonb),
    graphrag.bm25_search(text, text, int, jsonb, jsonb),
    graphrag.search_entities(text, text, int, jsonb, text[]),
    graphrag.search_relationships(text, text, int, jsonb, text[]),
    graphrag.search_reports(text, text, int, jsonb, int),
    graphrag.neighbors(text, text, int),
    graphrag.neighbors(text, jsonb, int, text),
    graphrag.graph_nodes_at(text, timestamptz),
    graphrag.graph_edges_at(text, timestamptz),
    graphrag.to_dot(text, text, int, int),
    graphrag.to_dot(bigint, int),
    graphrag.to_mermaid(text, text, int, int),
    graphrag.to_mermaid(bigint, int),
    graphrag.cypher(text, text, jsonb),
    graphrag.context(text, text, text, int, jsonb, text[], text[], jsonb),
    graphrag.embed(text, text),
    graphrag.warm(text),
    graphrag.wait_indexed(text, text[], interval),
    graphrag.embedding_engine(),
    graphrag.evaluate(text, jsonb, text[], int[], text, jsonb),
    graphrag.evaluate(text, regclass, text[], int[], text, jsonb),
    graphrag.evaluate(text, text, text[], int[], text, jsonb),
    graphrag.understand(text, text),
    graphrag.ask(text, text, text, int, jsonb, text[], text[], jsonb, jsonb, text),
    graphrag.ask_stream(text, text, text, int, jsonb, text[], text[], jsonb, jsonb, text),
    graphrag.log_query(text, text, text, text, double precision, int, int, int, jsonb),
    graphrag.feedback(text, text, text, text[], text, text, text, text)
TO graphrag_member;
GRANT EXECUTE ON PROCEDURE graphrag.wait_until_indexed(text, text[], interval, bigint, bigint, bigint) TO graphrag_member;
-- Private functions that members need: each with its reason in tests/security/private_functions.txt.
GRANT EXECUTE ON FUNCTION
    graphrag._all_valid_at(text, timestamptz),
    graphrag._at_one_snapshot(text),
    graphrag._reading(text),
    graphrag._closed(int),
    graphrag._costly_start(),
    graphrag._document_policies(),
    graphrag._enter(text),
    graphrag._enter_writing(text),
    graphrag._foreign_code(regclass),
    graphrag._given_corpora(boolean),
    graphrag._graph_edges_at(text, timestamptz),
    graphrag._graph_nodes_at(text, timestamptz),
    graphrag._may_use(int),
    graphrag._pictured_documents(),
    graphrag._placed(text),
    graphrag._questions(regclass),
    graphrag._reads_whole(int),
    graphrag._refuse_foreign_code(regclass),
    graphrag._say_moved(text, jsonb),
    graphrag._sees_all(),
    graphrag._strength(double precision, int, int, int, double precision),
    graphrag._type_rank(text),
    graphrag._unknown_corpus(text, text),
    graphrag._visible_edges(text),
    graphrag._visible_nodes(text),
    graphrag._whole_corpora(),
    graphrag.visible_documents(boolean)
TO graphrag_member;
-- What an operator watches: numbers and names, with the owner's rights; no text, no question, no key of a document.
GRANT SELECT ON
    graphrag.nodes,
    graphrag.progress,
    graphrag.failed_jobs,
    graphrag.llm_usage,
    graphrag.llm_usage_by_role,
    graphrag.budgets,
    graphrag.query_stats,
    graphrag._health,
    graphrag.metrics,
    graphrag.workers
TO pg_monitor;
GRANT EXECUTE ON FUNCTION graphrag._metered(int, name), graphrag.health(), graphrag._package_version() TO pg_monitor;
-- Owners of attached tables need be members of nothing; the view shows each his own.
GRANT SELECT ON graphrag.attached_tables TO PUBLIC;
-- Whoever attaches, and owns what is attached, reads and hands over by these; not `caller`, which says who that is.
GRANT USAGE ON SCHEMA graphrag_attached TO PUBLIC;
GRANT SELECT ON graphrag_attached._attachments TO PUBLIC;
GRANT SELECT ON graphrag_attached._row_tables TO PUBLIC;
GRANT INSERT (action, attached_id, relation, source_keys, titles, contents, metadata, digests, valid_from, valid_to), SELECT (source_keys)
    ON graphrag_attached._handover TO PUBLIC;
GRANT INSERT (source_key, title, content, metadata, valid_from, valid_to, attached_id, action) ON graphrag_attached._replicated TO PUBLIC;
GRANT INSERT (action, source, corpus, content_columns, title_column, metadata_columns, keep_documents, key_columns, key_prefix, where_column,
              valid_from_column, valid_to_column, kind, entity_type, alias_columns, reference_type, from_columns, from_table, to_columns, to_table)
    ON graphrag._attach_requests TO PUBLIC;
-- By row-level security and a trigger, which ask for the right to change the document.
GRANT INSERT (document_id, place, page, is_page, content, width, height, alternative_text, caption, recognised_text, description),
      UPDATE (place, page, is_page, width, height, alternative_text, caption, recognised_text, description), DELETE ON graphrag.pictures TO graphrag_writer;
GRANT EXECUTE ON FUNCTION
    graphrag._picture_type(bytea),
    graphrag._refuse_unknown_document(text, text),
    graphrag.retract(text, text, text, timestamptz),
    graphrag.undo_retraction(text, text)
TO graphrag_writer;
