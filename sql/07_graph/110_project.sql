-- Have the statements that follow find rows of a label by its index, or, where it has none yet, hash the small table. A plan goes with the index it was
-- made for. For callers whose own SET ends this.
CREATE FUNCTION graphrag._plan_for(is_indexed boolean) RETURNS void
LANGUAGE plpgsql VOLATILE SET search_path = pg_catalog, pg_temp
AS $function$
BEGIN
    PERFORM set_config('enable_hashjoin', CASE WHEN is_indexed THEN 'off' ELSE 'on' END, true),
            set_config('enable_nestloop', CASE WHEN is_indexed THEN 'on' ELSE 'off' END, true);
END
$function$;

-- Make the AGE projection equal to the tables for these ids of one corpus, whatever happened to them (inserted, changed, gone). The write step calls it in
-- its own transaction, under the corpus' lock. A document stands for its chunks and their mentions, and a chunk of given_chunk_ids for its own;
-- rows that did not change are not touched.
-- SECURITY DEFINER: the graph is the owner's (100_ensure_graph.sql), and must be whole whoever runs the worker.
CREATE FUNCTION graphrag._project(corpus_id int, document_ids bigint[], entity_ids bigint[], relationship_ids bigint[], given_chunk_ids bigint[] DEFAULT '{}') RETURNS void
LANGUAGE plpgsql SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
-- Plans outlive their tables' sizes (empty at first): always by index, from the ids given. LATERAL and OFFSET 0 have our tables read so even where
-- a label table, which has no index yet, is hashed (_plan_for).
SET enable_seqscan = off
SET enable_hashjoin = off
SET enable_nestloop = on
SET enable_mergejoin = off
SET jit = off
-- AGE 1.8 counts the changes of 128 graphs, and warns at each change of another; its caches go by snapshots then.
SET client_min_messages = error
AS $function$
#variable_conflict use_column
DECLARE
    -- A graph id is label << 48 | row id. AGE numbers labels in the order in which _ensure_graph makes them.
    entity       CONSTANT int := 3;
    chunk        CONSTANT int := 4;
    document     CONSTANT int := 5;
    related      CONSTANT int := 6;
    mentioned_in CONSTANT int := 7;
    part_of      CONSTANT int := 8;
    indexed      name[];
    chunk_ids    bigint[];
BEGIN
    IF NOT graphrag._ensure_graph(corpus_id) THEN
        RETURN;
    END IF;
    -- Static statements, planned once a session, serve every graph: the label tables, and nothing else, are named without a schema. Safe, because
    -- pg_catalog has no such tables, _ensure_graph has just seen that the owner's graph has them all and that nobody else can create there, and every
    -- function and operator is of an exact type in pg_catalog or named with its schema.
    PERFORM pg_catalog.set_config('search_path', pg_catalog.format('pg_catalog, graphrag_%s, pg_temp', corpus_id), true);
    indexed := graphrag._indexed_labels(pg_catalog.format('graphrag_%s', corpus_id)::name);

    PERFORM graphrag._plan_for('Entity' = ANY (indexed));
    MERGE INTO "Entity" AS v
    USING (SELECT ag_catalog._graphid(entity, i.id) AS id, e.id AS entity_id,
                  -- A map that is null adds nothing.
                  ag_catalog.agtype_build_map_nonull('entity_id', e.id, 'key', e.key, 'name', e.name, 'type', e.type,
                                                     'description', e.description, 'degree', e.degree, 'attributes', a.attributes) AS properties
             FROM (SELECT DISTINCT pg_catalog.unnest(entity_ids) AS id) AS i
             LEFT JOIN LATERAL (SELECT e.* FROM graphrag.entities AS e WHERE e.id = i.id OFFSET 0) AS e ON true
             -- Most have none, which an index says at once.
             LEFT JOIN LATERAL (SELECT CASE WHEN (SELECT true FROM graphrag.entity_mentions AS m
                                                   WHERE m.entity_id = i.id AND m.attributes IS NOT NULL LIMIT 1)
                                            THEN graphrag._graph_attributes(graphrag._merged_attributes(i.id))::text::ag_catalog.agtype END AS attributes OFFSET 0) AS a ON true) AS s
       ON v.id OPERATOR(ag_catalog.=) s.id
     WHEN MATCHED AND s.entity_id IS NULL THEN DELETE
     WHEN MATCHED AND pg_catalog.record_image_ne(ROW (v.properties), ROW (s.properties)) THEN UPDATE SET properties = s.properties
     WHEN NOT MATCHED AND s.entity_id IS NOT NULL THEN INSERT (id, properties) VALUES (s.id, s.properties);

    -- Who is in which community is projected by refresh_communities(); who is gone is in none.
    PERFORM graphrag._plan_for('IN_COMMUNITY' = ANY (indexed));
    DELETE FROM "IN_COMMUNITY" AS v
     USING (SELECT DISTINCT pg_catalog.unnest(entity_ids) AS id) AS i
     WHERE v.start_id OPERATOR(ag_catalog.=) ag_catalog._graphid(entity, i.id)
       AND NOT EXISTS (SELECT FROM graphrag.entities AS e WHERE e.id = i.id OFFSET 0);

    -- Both directions, so that a directed pattern sees every neighbour: 2 id from low to high, 2 id + 1 back.
    PERFORM graphrag._plan_for('RELATED' = ANY (indexed));
    MERGE INTO "RELATED" AS v
    USING (SELECT ag_catalog._graphid(related, 2 * i.id + d.back) AS id, r.id AS relationship_id,
                  ag_catalog._graphid(entity, CASE d.back WHEN 0 THEN r.low_id ELSE r.high_id END) AS start_id,
                  ag_catalog._graphid(entity, CASE d.back WHEN 0 THEN r.high_id ELSE r.low_id END) AS end_id,
                  ag_catalog.agtype_build_map('relationship_id', r.id, 'weight', r.weight, 'keywords', r.keywords,
                                              'description', r.description) AS properties
             FROM (SELECT DISTINCT pg_catalog.unnest(relationship_ids) AS id) AS i
             LEFT JOIN LATERAL (SELECT r.* FROM graphrag.relationships AS r WHERE r.id = i.id OFFSET 0) AS r ON true
            CROSS JOIN (VALUES (0), (1)) AS d (back)) AS s
       ON v.id OPERATOR(ag_catalog.=) s.id
     WHEN MATCHED AND s.relationship_id IS NULL THEN DELETE
     WHEN MATCHED AND pg_catalog.record_image_ne(ROW (v.start_id, v.end_id, v.properties), ROW (s.start_id, s.end_id, s.properties))
          THEN UPDATE SET start_id = s.start_id, end_id = s.end_id, properties = s.properties
     WHEN NOT MATCHED AND s.relationship_id IS NOT NULL
          THEN INSERT (id, start_id, end_id, properties) VALUES (s.id, s.start_id, s.end_id, s.properties);

    PERFORM graphrag._plan_for('Document' = ANY (indexed));
    MERGE INTO "Document" AS v
    USING (SELECT ag_catalog._graphid(document, i.id) AS id, d.id AS document_id,
                  ag_catalog.agtype_build_map_nonull('document_id', d.id, 'source_key', d.source_key, 'title', d.title) AS properties
             FROM (SELECT DISTINCT pg_catalog.unnest(document_ids) AS id) AS i
             LEFT JOIN LATERAL (SELECT d.id, d.source_key, d.title FROM graphrag.documents AS d
                                 WHERE d.id = i.id AND d.retracted_at IS NULL OFFSET 0) AS d ON true) AS s
       ON v.id OPERATOR(ag_catalog.=) s.id
     WHEN MATCHED AND s.document_id IS NULL THEN DELETE
     WHEN MATCHED AND pg_catalog.record_image_ne(ROW (v.properties), ROW (s.properties)) THEN UPDATE SET properties = s.properties
     WHEN NOT MATCHED AND s.document_id IS NOT NULL THEN INSERT (id, properties) VALUES (s.id, s.properties);

    -- Chunks of these documents as they are, and as they were projected: a PART_OF edge has the entry id of its chunk.
    PERFORM graphrag._plan_for('PART_OF' = ANY (indexed));
    SELECT pg_catalog.array_agg(c.id) INTO chunk_ids
      FROM (SELECT c.id
              FROM graphrag.chunks AS c
             WHERE c.document_id = ANY (document_ids)
             UNION
            SELECT pg_catalog.unnest(given_chunk_ids)
             UNION
            SELECT p.id::ag_catalog.agtype::bigint & 281474976710655
              FROM pg_catalog.unnest(document_ids) AS i (id)
              JOIN "PART_OF" AS p ON p.end_id OPERATOR(ag_catalog.=) ag_catalog._graphid(document, i.id)) AS c;

    PERFORM graphrag._plan_for('Chunk' = ANY (indexed));
    MERGE INTO "Chunk" AS v
    USING (SELECT ag_catalog._graphid(chunk, i.id) AS id, c.id AS chunk_id,
                  ag_catalog.agtype_build_map('chunk_id', c.id, 'document_id', c.document_id, 'ordinal', c.ordinal) AS properties
             FROM pg_catalog.unnest(chunk_ids) AS i (id)
             LEFT JOIN LATERAL (SELECT c.id, c.document_id, c.ordinal FROM graphrag.chunks AS c WHERE c.id = i.id OFFSET 0) AS c ON true) AS s
       ON v.id OPERATOR(ag_catalog.=) s.id
     WHEN MATCHED AND s.chunk_id IS NULL THEN DELETE
     WHEN MATCHED AND pg_catalog.record_image_ne(ROW (v.properties), ROW (s.properties)) THEN UPDATE SET properties = s.properties
     WHEN NOT MATCHED AND s.chunk_id IS NOT NULL THEN INSERT (id, properties) VALUES (s.id, s.properties);

    PERFORM graphrag._plan_for('PART_OF' = ANY (indexed));
    MERGE INTO "PART_OF" AS v
    USING (SELECT ag_catalog._graphid(part_of, i.id) AS id, c.id AS chunk_id,
                  ag_catalog._graphid(chunk, c.id) AS start_id, ag_catalog._graphid(document, c.document_id) AS end_id
             FROM pg_catalog.unnest(chunk_ids) AS i (id)
             LEFT JOIN LATERAL (SELECT c.id, c.document_id, c.ordinal FROM graphrag.chunks AS c WHERE c.id = i.id OFFSET 0) AS c ON true) AS s
       ON v.id OPERATOR(ag_catalog.=) s.id
     WHEN MATCHED AND s.chunk_id IS NULL THEN DELETE
     WHEN MATCHED AND v.end_id OPERATOR(ag_catalog.<>) s.end_id THEN UPDATE SET end_id = s.end_id
     WHEN NOT MATCHED AND s.chunk_id IS NOT NULL THEN INSERT (id, start_id, end_id) VALUES (s.id, s.start_id, s.end_id);

    PERFORM graphrag._plan_for('MENTIONED_IN' = ANY (indexed));
    DELETE FROM "MENTIONED_IN" AS v
     USING pg_catalog.unnest(chunk_ids) AS i (id)
     WHERE v.end_id OPERATOR(ag_catalog.=) ag_catalog._graphid(chunk, i.id)
       AND NOT EXISTS (SELECT FROM graphrag.entity_mentions AS m
                        WHERE m.id = v.id::ag_catalog.agtype::bigint & 281474976710655 AND m.chunk_id = i.id
                          AND m.entity_id IS NOT NULL OFFSET 0);

    MERGE INTO "MENTIONED_IN" AS v
    USING (SELECT ag_catalog._graphid(mentioned_in, m.id) AS id,
                  ag_catalog._graphid(entity, m.entity_id) AS start_id, ag_catalog._graphid(chunk, m.chunk_id) AS end_id,
                  ag_catalog.agtype_build_map('mention_id', m.id, 'tf', m.tf) AS properties
             FROM pg_catalog.unnest(chunk_ids) AS i (id)
            CROSS JOIN LATERAL (SELECT m.id, m.entity_id, m.chunk_id, m.tf FROM graphrag.entity_mentions AS m
                                 WHERE m.chunk_id = i.id AND m.entity_id IS NOT NULL OFFSET 0) AS m
           -- Without statistics the label table would be hashed once for each chunk.
           OFFSET 0) AS s
       ON v.id OPERATOR(ag_catalog.=) s.id
     WHEN MATCHED AND pg_catalog.record_image_ne(ROW (v.start_id, v.end_id, v.properties), ROW (s.start_id, s.end_id, s.properties))
          THEN UPDATE SET start_id = s.start_id, end_id = s.end_id, properties = s.properties
     WHEN NOT MATCHED THEN INSERT (id, start_id, end_id, properties) VALUES (s.id, s.start_id, s.end_id, s.properties);
END
$function$;

-- The same for mentions that were there before and belong to another entity now, or to none. SECURITY DEFINER: likewise.
CREATE FUNCTION graphrag._project_mentions(corpus_id int, mention_ids bigint[]) RETURNS void
LANGUAGE plpgsql SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
SET enable_seqscan = off
SET enable_hashjoin = off
SET enable_nestloop = on
SET enable_mergejoin = off
SET jit = off
SET client_min_messages = error
AS $function$
#variable_conflict use_column
DECLARE
    -- As in _project.
    entity       CONSTANT int := 3;
    chunk        CONSTANT int := 4;
    mentioned_in CONSTANT int := 7;
    indexed      name[];
BEGIN
    IF NOT graphrag._ensure_graph(corpus_id) THEN
        RETURN;
    END IF;
    PERFORM pg_catalog.set_config('search_path', pg_catalog.format('pg_catalog, graphrag_%s, pg_temp', corpus_id), true);
    indexed := graphrag._indexed_labels(pg_catalog.format('graphrag_%s', corpus_id)::name);
    PERFORM graphrag._plan_for('MENTIONED_IN' = ANY (indexed));
    MERGE INTO "MENTIONED_IN" AS v
    USING (SELECT ag_catalog._graphid(mentioned_in, i.id) AS id, m.id AS mention_id,
                  ag_catalog._graphid(entity, m.entity_id) AS start_id, ag_catalog._graphid(chunk, m.chunk_id) AS end_id,
                  ag_catalog.agtype_build_map('mention_id', m.id, 'tf', m.tf) AS properties
             FROM (SELECT DISTINCT pg_catalog.unnest(mention_ids) AS id) AS i
             LEFT JOIN LATERAL (SELECT m.id, m.entity_id, m.chunk_id, m.tf FROM graphrag.entity_mentions AS m
                                 WHERE m.id = i.id AND m.entity_id IS NOT NULL OFFSET 0) AS m ON true) AS s
       ON v.id OPERATOR(ag_catalog.=) s.id
     WHEN MATCHED AND s.mention_id IS NULL THEN DELETE
     WHEN MATCHED AND v.start_id OPERATOR(ag_catalog.<>) s.start_id THEN UPDATE SET start_id = s.start_id
     WHEN NOT MATCHED AND s.mention_id IS NOT NULL THEN INSERT (id, start_id, end_id, properties) VALUES (s.id, s.start_id, s.end_id, s.properties);
END
$function$;
