-- Names of rows. What documents call a row by its name, an alias, a code or its key is one entity with the row's own, for those who see
-- the row. The two have mentions of their own (entity_mentions.name_of says which), and are joined as the graph is read: what a caller
-- does not see joins nothing for him.

-- Of entities those that are names of one row, each with the row's own entity, as documents say (null: all). A name that several rows
-- have, or that is another row's own entity, is none: the first two mentions tell, also of a name that 200,000 rows have. OFFSET 0: no
-- plan reads all of them.
CREATE FUNCTION graphrag._rows_named(entities bigint[], documents bigint[]) RETURNS TABLE (name_id bigint, entity_id bigint)
LANGUAGE sql STABLE ROWS 10
BEGIN ATOMIC
    SELECT u.id, f.entity_id
      FROM (SELECT DISTINCT x.id FROM pg_catalog.unnest(entities) AS x (id)) AS u
     CROSS JOIN LATERAL (
           SELECT o.entity_id
             FROM graphrag.entity_mentions AS n
             JOIN graphrag.entity_mentions AS o ON o.chunk_id = n.chunk_id AND o.raw_key = n.name_of
            WHERE n.entity_id = u.id AND n.name_of IS NOT NULL AND (documents IS NULL OR n.document_id = ANY (documents))
            LIMIT 1) AS f
     WHERE NOT EXISTS (
           SELECT
             FROM graphrag.entity_mentions AS n
             JOIN graphrag.entity_mentions AS o ON o.chunk_id = n.chunk_id AND o.raw_key = n.name_of
            WHERE n.entity_id = u.id AND n.name_of IS NOT NULL AND (documents IS NULL OR n.document_id = ANY (documents))
              AND (n.raw_key <> n.name_of AND o.entity_id <> n.entity_id AND o.entity_id = f.entity_id) IS NOT TRUE
           OFFSET 0);
END;
COMMENT ON FUNCTION graphrag._rows_named(bigint[], bigint[]) IS 'Of entities those that are names of one row, each with the row''s own entity';

-- The names of rows whose own entities are given, as documents say (null: all).
CREATE FUNCTION graphrag._names_of_rows(entities bigint[], documents bigint[]) RETURNS TABLE (name_id bigint, entity_id bigint)
LANGUAGE sql STABLE ROWS 10
BEGIN ATOMIC
    SELECT r.name_id, r.entity_id
      FROM graphrag._rows_named(ARRAY(
               SELECT DISTINCT n.entity_id
                 FROM graphrag.entity_mentions AS o
                 JOIN graphrag.entity_mentions AS n ON n.chunk_id = o.chunk_id AND n.name_of = o.raw_key AND n.entity_id <> o.entity_id
                WHERE o.entity_id = ANY (entities) AND o.name_of = o.raw_key AND (documents IS NULL OR o.document_id = ANY (documents))), documents) AS r
     WHERE r.entity_id = ANY (entities);
END;
COMMENT ON FUNCTION graphrag._names_of_rows(bigint[], bigint[]) IS 'The names of rows whose own entities are given';

-- The names of rows of a whole corpus, of all documents; none where no rows are attached. Each name is looked up, also where the caller
-- joins by hashes alone.
CREATE FUNCTION graphrag._row_names_of(corpus_id int) RETURNS TABLE (name_id bigint, entity_id bigint)
LANGUAGE sql STABLE SET enable_nestloop = on
BEGIN ATOMIC
    SELECT r.name_id, r.entity_id
      FROM graphrag._rows_named(ARRAY(
               SELECT DISTINCT m.entity_id
                 FROM graphrag.entity_mentions AS m
                WHERE m.corpus_id = _row_names_of.corpus_id AND m.name_of IS NOT NULL AND m.raw_key <> m.name_of AND m.entity_id IS NOT NULL
                  AND EXISTS (SELECT FROM graphrag._attached_tables AS a WHERE a.corpus_id = _row_names_of.corpus_id AND a.kind = 'entities')), NULL) AS r;
END;
COMMENT ON FUNCTION graphrag._row_names_of(int) IS 'Names of rows of a corpus, each with the row''s own entity';

-- Of a row's own entity and its names as one: relationships with others, and chunks that mention it.
CREATE FUNCTION graphrag._joined_counts(entity bigint, names bigint[], OUT degree int, OUT mention_count int)
LANGUAGE sql STABLE
BEGIN ATOMIC
    SELECT (SELECT coalesce(pg_catalog.sum(e.degree), 0)::int FROM graphrag.entities AS e WHERE e.id = ANY (names || entity))
           - 2 * (SELECT pg_catalog.count(*)::int FROM graphrag.relationships AS r WHERE r.low_id = ANY (names || entity) AND r.high_id = ANY (names || entity)),
           (SELECT pg_catalog.count(DISTINCT m.chunk_id)::int FROM graphrag.entity_mentions AS m WHERE m.entity_id = ANY (names || entity));
END;
COMMENT ON FUNCTION graphrag._joined_counts(bigint, bigint[]) IS 'Degree and number of mentions of a row''s own entity and its names as one';
