-- Breadth first over the relationships, one set-based step per hop; each entity once, at its least distance.
-- The first hop has a plan that is kept; later ones are planned for what they hold, one id or a hundred thousand.
-- Who sees only some documents walks what these state: graph_nodes and graph_edges say what that is.
CREATE FUNCTION graphrag.neighbors(entity text, corpus text DEFAULT 'default', hops int DEFAULT 1)
RETURNS TABLE (hop int, entity_id bigint, name text, type text, description text, degree int,
               relationship_id bigint, relationship text, keywords text[], weight numeric, path text[])
LANGUAGE plpgsql STABLE ROWS 100
SET search_path = pg_catalog, pg_temp
AS $function$
#variable_conflict use_column
DECLARE
    secured constant boolean := row_security_active('graphrag.documents');
    this_corpus   int;
    start_id      bigint;
    start_name    text;
    start_key     text := graphrag._key(entity);
    visited       bigint[];
    -- What the last hop found, strongest first: entities, the relationships that led to them, and their paths as array literals.
    frontier      bigint[];
    relationships bigint[];
    paths         text[];
BEGIN
    IF hops IS NULL OR hops NOT BETWEEN 1 AND 10 THEN
        RAISE EXCEPTION 'hops cannot be %', coalesce(hops::text, 'null')
            USING ERRCODE = 'invalid_parameter_value', HINT = 'Give 1 to 10.';
    END IF;
    IF corpus IS NULL THEN
        RAISE EXCEPTION 'corpus cannot be null'
            USING ERRCODE = 'null_value_not_allowed', HINT = 'Leave it out for the corpus “default”, or give a name.';
    END IF;
    SELECT c.id INTO this_corpus FROM graphrag.corpora AS c WHERE c.name = corpus;
    IF NOT FOUND THEN
        RAISE EXCEPTION 'corpus "%" does not exist', corpus
            USING ERRCODE = 'undefined_object', HINT = 'SELECT name FROM graphrag.corpora lists the corpora.';
    END IF;
    SELECT e.id, e.name INTO start_id, start_name
      FROM graphrag.entities AS e
     WHERE e.corpus_id = this_corpus
       AND e.key = coalesce((SELECT a.entity_key FROM graphrag.aliases AS a WHERE a.corpus_id = this_corpus AND a.key = start_key), start_key);
    IF secured THEN
        SELECT n.name INTO start_name FROM graphrag.graph_nodes AS n WHERE n.entity_id = start_id;
    END IF;
    IF NOT FOUND THEN
        RETURN;
    END IF;

    IF NOT secured THEN
        RETURN QUERY
        SELECT 1, e.id, e.name, e.type, e.description, e.degree, r.id, r.description, r.keywords, r.weight, ARRAY[start_name, e.name]
          FROM (SELECT l.high_id AS other_id, l.* FROM graphrag.relationships AS l WHERE l.low_id = start_id
                 UNION ALL
                SELECT h.low_id, h.* FROM graphrag.relationships AS h WHERE h.high_id = start_id) AS r
          JOIN graphrag.entities AS e ON e.id = r.other_id
         ORDER BY r.weight DESC, e.key;
        IF hops = 1 THEN
            RETURN;
        END IF;
    END IF;

    visited := ARRAY[start_id];
    frontier := visited;
    paths := ARRAY[ARRAY[start_name]::text];
    FOR step IN 1..hops LOOP
        -- Where several ways of this length lead to an entity, the strongest last relationship is shown, then the strongest before.
        EXECUTE format($sql$
        SELECT array_agg(n.id ORDER BY n.weight DESC, e.key), array_agg(n.relationship_id ORDER BY n.weight DESC, e.key),
               array_agg((n.path::text[] || %1$s)::text ORDER BY n.weight DESC, e.key)
          FROM (SELECT DISTINCT ON (r.id) r.id, r.relationship_id, r.weight, f.path
                  FROM ROWS FROM (unnest($1), unnest($2)) WITH ORDINALITY AS f (id, path, place)
                 CROSS JOIN LATERAL (
                       SELECT l.high_id AS id, l.id AS relationship_id, l.weight FROM graphrag.relationships AS l WHERE l.low_id = f.id
                        UNION ALL
                       SELECT h.low_id, h.id, h.weight FROM graphrag.relationships AS h WHERE h.high_id = f.id) AS %2$s
                 WHERE NOT EXISTS (SELECT FROM unnest($3) AS v (id) WHERE v.id = r.id)
                 ORDER BY r.id, r.weight DESC, f.place) AS n
          JOIN graphrag.entities AS e ON e.id = n.id %3$s
        $sql$, VARIADIC CASE WHEN secured THEN ARRAY['v.name', $sql$x
                 CROSS JOIN LATERAL (
                       SELECT x.id, x.relationship_id, sum(m.weight) AS weight
                         FROM graphrag.relationship_mentions AS m
                         JOIN graphrag.documents AS d ON d.id = m.document_id
                        WHERE m.relationship_id = x.relationship_id
                       HAVING count(*) > 0) AS r$sql$, 'JOIN graphrag.graph_nodes AS v ON v.entity_id = e.id']
                             ELSE ARRAY['e.name', 'r', ''] END)
           INTO frontier, relationships, paths
          USING frontier, paths, visited;
        EXIT WHEN frontier IS NULL;
        visited := visited || frontier;
        CONTINUE WHEN step = 1 AND NOT secured;
        RETURN QUERY EXECUTE format($sql$
        SELECT $1, e.%1$s, e.name, e.type, e.description, e.degree, r.%2$s, r.description, r.%3$s, r.weight::numeric, f.path::text[]
          FROM ROWS FROM (unnest($2), unnest($3), unnest($4)) WITH ORDINALITY AS f (id, relationship_id, path, place)
          JOIN graphrag.%4$s AS e ON e.%1$s = f.id
          JOIN graphrag.%5$s AS r ON r.%2$s = f.relationship_id
         ORDER BY f.place
        $sql$, VARIADIC CASE WHEN secured THEN ARRAY['entity_id', 'relationship_id', 'keyword_list', 'graph_nodes', 'graph_edges']
                             ELSE ARRAY['id', 'id', 'keywords', 'entities', 'relationships'] END)
        USING step, frontier, relationships, paths;
    END LOOP;
END
$function$;
COMMENT ON FUNCTION graphrag.neighbors(text, text, int) IS 'Entities within some hops (1 to 10) of an entity, found by its name, whatever its spelling: hop, the entity, the relationship that led to it, and the path of names from the start. Nearest first, then strongest relationship first. Under row-level security on documents only what visible documents say. No row when there is no such entity; 42704 for an unknown corpus.';
