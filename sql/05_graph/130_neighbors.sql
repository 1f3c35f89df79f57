-- Breadth first over the relationships, one set-based step per hop; each entity once, at its least distance.
CREATE FUNCTION graphrag.neighbors(entity text, corpus text DEFAULT 'default', hops int DEFAULT 1)
RETURNS TABLE (hop int, entity_id bigint, name text, type text, description text, degree int,
               relationship_id bigint, relationship text, keywords text[], weight numeric, path text[])
LANGUAGE plpgsql STABLE ROWS 100
SET search_path = pg_catalog, pg_temp
-- The arrays hold one id or a hundred thousand: plan for what they hold.
SET plan_cache_mode = force_custom_plan
AS $function$
#variable_conflict use_column
DECLARE
    this_corpus   int;
    visited       bigint[];
    frontier      bigint[];
    -- Of each entity in the frontier: its path as an array literal, and the relationship that led to it.
    paths         text[];
    relationships bigint[];
BEGIN
    IF hops IS NULL OR hops NOT BETWEEN 1 AND 10 THEN
        RAISE EXCEPTION 'hops cannot be %', coalesce(hops::text, 'null')
            USING ERRCODE = 'invalid_parameter_value', HINT = 'Give 1 to 10.';
    END IF;
    SELECT c.id INTO this_corpus FROM graphrag.corpora AS c WHERE c.name = corpus;
    IF NOT FOUND THEN
        RAISE EXCEPTION 'corpus "%" does not exist', corpus
            USING ERRCODE = 'undefined_object', HINT = 'SELECT name FROM graphrag.corpora lists the corpora.';
    END IF;
    SELECT ARRAY[e.id], ARRAY[e.id], ARRAY[ARRAY[e.name]::text] INTO visited, frontier, paths
      FROM graphrag.entities AS e
     WHERE e.corpus_id = this_corpus AND e.key = graphrag._key(entity);

    FOR step IN 1..hops LOOP
        EXIT WHEN frontier IS NULL;
        -- Where several ways of this length lead to an entity, the strongest last relationship is shown.
        SELECT array_agg(n.id), array_agg(n.path), array_agg(n.relationship_id) INTO frontier, paths, relationships
          FROM (SELECT DISTINCT ON (r.id) r.id, r.relationship_id, f.path
                  FROM unnest(frontier, paths) AS f (id, path)
                 CROSS JOIN LATERAL (
                       SELECT l.high_id AS id, l.id AS relationship_id, l.weight FROM graphrag.relationships AS l WHERE l.low_id = f.id
                        UNION ALL
                       SELECT h.low_id, h.id, h.weight FROM graphrag.relationships AS h WHERE h.high_id = f.id) AS r
                 WHERE NOT EXISTS (SELECT FROM unnest(visited) AS v (id) WHERE v.id = r.id)
                 ORDER BY r.id, r.weight DESC, f.path COLLATE "C") AS n;
        visited := visited || frontier;
        RETURN QUERY
        SELECT step, e.id, e.name, e.type, e.description, e.degree, r.id, r.description, r.keywords, r.weight, f.path::text[] || e.name
          FROM unnest(frontier, paths, relationships) AS f (id, path, relationship_id)
          JOIN graphrag.entities AS e ON e.id = f.id
          JOIN graphrag.relationships AS r ON r.id = f.relationship_id
         ORDER BY r.weight DESC, e.key;
        -- From here the path goes on through the entities just found.
        SELECT array_agg((f.path::text[] || e.name)::text ORDER BY f.place) INTO paths
          FROM unnest(frontier, paths) WITH ORDINALITY AS f (id, path, place)
          JOIN graphrag.entities AS e ON e.id = f.id
         WHERE step < hops;
    END LOOP;
END
$function$;
COMMENT ON FUNCTION graphrag.neighbors(text, text, int) IS 'Entities within some hops (1 to 10) of an entity, found by its name, whatever its spelling: hop, the entity, the relationship that led to it, and the path of names from the start. Nearest first, then strongest relationship first. No row when there is no such entity; 42704 for an unknown corpus.';
