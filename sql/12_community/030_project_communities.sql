-- Make the AGE projection equal to the tables for these communities of one corpus, whatever happened to them: vertices Community, edges
-- IN_COMMUNITY from their members and PARENT to the community they are a part of. The caller holds the corpus' lock.
-- SECURITY DEFINER: the graph is the owner's (07_graph/100_ensure_graph.sql), and must be whole whoever runs the worker.
CREATE FUNCTION graphrag._project_communities(corpus_id int, community_ids bigint[]) RETURNS void
LANGUAGE plpgsql SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
SET jit = off
SET client_min_messages = error
AS $function$
#variable_conflict use_column
DECLARE
    -- As in 07_graph/110_project.sql.
    entity       CONSTANT int := 3;
    community    CONSTANT int := 9;
    in_community CONSTANT int := 10;
    parent       CONSTANT int := 11;
BEGIN
    IF NOT graphrag._ensure_graph(corpus_id) THEN
        RETURN;
    END IF;
    -- As in 07_graph/110_project.sql.
    PERFORM pg_catalog.set_config('search_path', pg_catalog.format('pg_catalog, graphrag_%s, pg_temp', corpus_id), true);

    MERGE INTO "Community" AS v
    USING (SELECT ag_catalog._graphid(community, i.id) AS id, c.id AS community_id,
                  ag_catalog.agtype_build_map_nonull('community_id', c.id, 'level', c.level, 'size', c.size, 'title', r.title) AS properties
             FROM (SELECT DISTINCT pg_catalog.unnest(community_ids) AS id) AS i
             LEFT JOIN graphrag.communities AS c ON c.id = i.id
             LEFT JOIN graphrag.community_reports AS r ON r.community_id = c.id) AS s
       ON v.id OPERATOR(ag_catalog.=) s.id
     WHEN MATCHED AND s.community_id IS NULL THEN DELETE
     WHEN MATCHED AND pg_catalog.record_image_ne(ROW (v.properties), ROW (s.properties)) THEN UPDATE SET properties = s.properties
     WHEN NOT MATCHED AND s.community_id IS NOT NULL THEN INSERT (id, properties) VALUES (s.id, s.properties);

    MERGE INTO "PARENT" AS v
    USING (SELECT ag_catalog._graphid(parent, i.id) AS id, c.parent_id,
                  ag_catalog._graphid(community, i.id) AS start_id, ag_catalog._graphid(community, c.parent_id) AS end_id
             FROM (SELECT DISTINCT pg_catalog.unnest(community_ids) AS id) AS i
             LEFT JOIN graphrag.communities AS c ON c.id = i.id) AS s
       ON v.id OPERATOR(ag_catalog.=) s.id
     WHEN MATCHED AND s.parent_id IS NULL THEN DELETE
     WHEN MATCHED AND v.end_id OPERATOR(ag_catalog.<>) s.end_id THEN UPDATE SET end_id = s.end_id
     WHEN NOT MATCHED AND s.parent_id IS NOT NULL THEN INSERT (id, start_id, end_id) VALUES (s.id, s.start_id, s.end_id);

    DELETE FROM "IN_COMMUNITY" AS v
     USING pg_catalog.unnest(community_ids) AS i (id)
     WHERE v.end_id OPERATOR(ag_catalog.=) ag_catalog._graphid(community, i.id)
       AND NOT EXISTS (SELECT FROM graphrag.community_members AS m
                        WHERE m.id = v.id::ag_catalog.agtype::bigint & 281474976710655 AND m.community_id = i.id);

    INSERT INTO "IN_COMMUNITY" (id, start_id, end_id)
    SELECT ag_catalog._graphid(in_community, m.id), ag_catalog._graphid(entity, m.entity_id), ag_catalog._graphid(community, m.community_id)
      FROM graphrag.community_members AS m
     WHERE m.community_id = ANY (community_ids)
       AND NOT EXISTS (SELECT FROM "IN_COMMUNITY" AS v WHERE v.id OPERATOR(ag_catalog.=) ag_catalog._graphid(in_community, m.id));
END
$function$;
