-- Breadth first over the relationships; each entity once, at its least distance.
CREATE FUNCTION graphrag.neighbors(entity text, corpus text DEFAULT 'default', hops int DEFAULT 1)
RETURNS TABLE (hop int, entity_id bigint, name text, type text, description text, degree int,
               relationship_id bigint, relationship text, keywords text[], weight numeric, path text[])
LANGUAGE plpython3u STABLE COST 300000 ROWS 100
SET search_path = pg_catalog, pg_temp SET jit = off SET gin_fuzzy_search_limit = 0 SET quote_all_identifiers = off
AS $$
from pg_graphrag.server import call
return call(plpy, "@extversion@", "search.explore.neighbors:neighbors", entity, corpus, hops)
$$;
COMMENT ON FUNCTION graphrag.neighbors(text, text, int) IS 'Entities within some hops (1 to 10) of an entity, found by its name in any spelling: hop, the entity, the relationship that led to it, and the path of names from the start. Nearest first, then strongest relationship first (weight times log2 of how much oftener than by chance both are in one chunk; if equal, the heavier). Under row-level security only what visible documents state. No row if there is no such entity; 42704 for an unknown corpus.';

-- A function of its own: neighbors() cannot get an argument, since views of users name it. No third argument is a text, so that three
-- of unknown type are those of the other one.
CREATE FUNCTION graphrag.neighbors(entity text, filter jsonb, hops int DEFAULT 1, corpus text DEFAULT 'default')
RETURNS TABLE (hop int, entity_id bigint, name text, type text, description text, degree int,
               relationship_id bigint, relationship text, keywords text[], weight numeric, path text[])
LANGUAGE plpython3u STABLE COST 300000 ROWS 100
SET search_path = pg_catalog, pg_temp SET jit = off SET gin_fuzzy_search_limit = 0 SET quote_all_identifiers = off
AS $$
from pg_graphrag.server import call
return call(plpy, "@extversion@", "search.explore.neighbors:neighbors", entity, corpus, hops, filter)
$$;
COMMENT ON FUNCTION graphrag.neighbors(text, jsonb, int, text) IS 'Like neighbors(), in the graph of the documents that a filter keeps (as in search()). 22023 for a bad filter.';

-- Of a whole corpus: one set-based step per hop. The first hop has a plan that is kept; later ones are planned for what they hold,
-- one id or a hundred thousand. Where rows are attached, names of a row are the row's entity.
CREATE FUNCTION graphrag._neighbors(this_corpus int, start_key text, hops int)
RETURNS TABLE (hop int, entity_id bigint, name text, type text, description text, degree int,
               relationship_id bigint, relationship text, keywords text[], weight numeric, path text[])
LANGUAGE plpgsql STABLE COST 300000 ROWS 100
SET search_path = pg_catalog, pg_temp SET jit = off
AS $function$
#variable_conflict use_column
DECLARE
    start_id      bigint;
    start_name    text;
    start_count   int;
    chunks        double precision;
    visited       bigint[];
    -- What the last hop found, strongest first: entities, the relationships that led to them, and their paths as array literals.
    frontier      bigint[];
    relationships bigint[];
    paths         text[];
    has_rows      boolean;
BEGIN
    SELECT e.id, e.name, e.mention_count INTO start_id, start_name, start_count
      FROM graphrag.entities AS e
     WHERE e.corpus_id = this_corpus
       AND e.key = coalesce((SELECT a.entity_key FROM graphrag.aliases AS a WHERE a.corpus_id = this_corpus AND a.key = start_key), start_key);
    IF NOT FOUND THEN
        RETURN;
    END IF;
    SELECT sum(x.count) INTO chunks FROM graphrag._index_counts AS x WHERE x.corpus_id = this_corpus AND x.relation = 'chunks';
    has_rows := EXISTS (SELECT FROM graphrag._attached_tables AS a WHERE a.corpus_id = this_corpus AND a.kind = 'entities');
    IF has_rows THEN
        SELECT e.id, e.name INTO start_id, start_name
          FROM graphrag.entities AS e
         WHERE e.id = coalesce((SELECT r.entity_id FROM graphrag._row_names AS r WHERE r.name_id = start_id), start_id);
    END IF;

    IF NOT has_rows THEN
        RETURN QUERY
        SELECT 1, e.id, e.name, e.type, e.description, e.degree, r.id, r.description, r.keywords, r.weight, ARRAY[start_name, e.name]
          FROM (SELECT l.high_id AS other_id, l.* FROM graphrag.relationships AS l WHERE l.low_id = start_id
                 UNION ALL
                SELECT h.low_id, h.* FROM graphrag.relationships AS h WHERE h.high_id = start_id) AS r
          JOIN graphrag.entities AS e ON e.id = r.other_id
         ORDER BY graphrag._strength(r.weight::double precision, r.mention_count, start_count, e.mention_count, chunks) DESC, r.weight DESC, e.key;
    END IF;

    visited := ARRAY[start_id];
    frontier := visited;
    paths := ARRAY[ARRAY[start_name]::text];
    FOR step IN 1..hops LOOP
        EXIT WHEN hops = 1 AND NOT has_rows;
        -- Where several ways of this length lead to an entity, the strongest last relationship is shown, then the strongest before.
        EXECUTE CASE WHEN has_rows THEN $sql$
        WITH frontier AS MATERIALIZED (
            SELECT f.* FROM ROWS FROM (unnest($1), unnest($2)) WITH ORDINALITY AS f (id, path, place)
        ), members AS MATERIALIZED (
            SELECT f.id, f.id AS owner, f.path, f.place FROM frontier AS f
             UNION ALL
            SELECT m.name_id, f.id, f.path, f.place FROM frontier AS f JOIN graphrag._row_names AS m ON m.entity_id = f.id
        ), led AS MATERIALIZED (
            SELECT x.id, x.relationship_id, x.weight, x.count, m.owner, m.path, m.place, m.id AS member
              FROM members AS m
             CROSS JOIN LATERAL (
                   SELECT l.high_id AS id, l.id AS relationship_id, l.weight, l.mention_count AS count FROM graphrag.relationships AS l WHERE l.low_id = m.id
                    UNION ALL
                   SELECT h.low_id, h.id, h.weight, h.mention_count FROM graphrag.relationships AS h WHERE h.high_id = m.id) AS x
        ), joined AS MATERIALIZED (
            SELECT coalesce(r.entity_id, l.id) AS id, l.relationship_id, l.weight, l.count, l.path, l.place, l.member, l.id AS other
              FROM led AS l
              LEFT JOIN graphrag._row_names AS r ON r.name_id = l.id
        )
        SELECT array_agg(n.id ORDER BY n.strength DESC, n.weight DESC, e.key), array_agg(n.relationship_id ORDER BY n.strength DESC, n.weight DESC, e.key),
               array_agg((n.path::text[] || e.name)::text ORDER BY n.strength DESC, n.weight DESC, e.key)
          FROM (SELECT DISTINCT ON (j.id) j.id, j.relationship_id, j.weight, j.path, s.strength
                  FROM joined AS j
                  JOIN graphrag.entities AS m ON m.id = j.member
                  JOIN graphrag.entities AS o ON o.id = j.other
                 CROSS JOIN LATERAL (SELECT graphrag._strength(j.weight::double precision, j.count, m.mention_count, o.mention_count, $4) AS strength) AS s
                 WHERE NOT EXISTS (SELECT FROM unnest($3) AS v (id) WHERE v.id = j.id)
                 ORDER BY j.id, s.strength DESC, j.weight DESC, j.place, m.key, o.key) AS n
          JOIN graphrag.entities AS e ON e.id = n.id
        $sql$ ELSE $sql$
        SELECT array_agg(n.id ORDER BY n.strength DESC, n.weight DESC, e.key), array_agg(n.relationship_id ORDER BY n.strength DESC, n.weight DESC, e.key),
               array_agg((n.path::text[] || e.name)::text ORDER BY n.strength DESC, n.weight DESC, e.key)
          FROM (SELECT DISTINCT ON (r.id) r.id, r.relationship_id, r.weight, f.path, s.strength
                  FROM ROWS FROM (unnest($1), unnest($2)) WITH ORDINALITY AS f (id, path, place)
                 CROSS JOIN LATERAL (
                       SELECT l.high_id AS id, l.id AS relationship_id, l.weight, l.mention_count AS count FROM graphrag.relationships AS l WHERE l.low_id = f.id
                        UNION ALL
                       SELECT h.low_id, h.id, h.weight, h.mention_count FROM graphrag.relationships AS h WHERE h.high_id = f.id) AS r
                  JOIN graphrag.entities AS m ON m.id = f.id
                  JOIN graphrag.entities AS o ON o.id = r.id
                 CROSS JOIN LATERAL (SELECT graphrag._strength(r.weight::double precision, r.count, m.mention_count, o.mention_count, $4) AS strength) AS s
                 WHERE NOT EXISTS (SELECT FROM unnest($3) AS v (id) WHERE v.id = r.id)
                 ORDER BY r.id, s.strength DESC, r.weight DESC, f.place) AS n
          JOIN graphrag.entities AS e ON e.id = n.id
        $sql$ END
           INTO frontier, relationships, paths
          USING frontier, paths, visited, chunks;
        EXIT WHEN frontier IS NULL;
        visited := visited || frontier;
        CONTINUE WHEN step = 1 AND NOT has_rows;
        RETURN QUERY EXECUTE $sql$
        SELECT $1, e.id, e.name, e.type, e.description, coalesce(n.degree, e.degree), r.id, r.description, r.keywords, r.weight, f.path::text[]
          FROM ROWS FROM (unnest($2), unnest($3), unnest($4)) WITH ORDINALITY AS f (id, relationship_id, path, place)
          JOIN graphrag.entities AS e ON e.id = f.id
          JOIN graphrag.relationships AS r ON r.id = f.relationship_id
          LEFT JOIN graphrag._named_rows AS n ON n.entity_id = e.id
         ORDER BY f.place
        $sql$
        USING step, frontier, relationships, paths;
    END LOOP;
END
$function$;
COMMENT ON FUNCTION graphrag._neighbors(int, text, int) IS 'neighbors() of a whole corpus, by the normalised name of the entity';
