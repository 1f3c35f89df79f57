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

-- The names of rows as all documents give them: who sees a corpus whole reads this. The merge keeps it, a row where _rows_named has one.
CREATE TABLE graphrag._row_names (
    name_id   bigint NOT NULL,
    corpus_id int    NOT NULL,
    entity_id bigint NOT NULL,
    CONSTRAINT _row_names_pkey PRIMARY KEY (name_id),
    CONSTRAINT _row_names_name_fkey FOREIGN KEY (name_id) REFERENCES graphrag.entities (id) ON DELETE CASCADE,
    CONSTRAINT _row_names_entity_fkey FOREIGN KEY (entity_id) REFERENCES graphrag.entities (id) ON DELETE CASCADE
);
CREATE INDEX _row_names_entity_idx ON graphrag._row_names (entity_id);
CREATE INDEX _row_names_corpus_idx ON graphrag._row_names (corpus_id);
SELECT pg_catalog.pg_extension_config_dump('graphrag._row_names', '');

COMMENT ON TABLE graphrag._row_names IS 'Entities that are names of one row, each with the row''s own entity, as all documents of a corpus give them';
COMMENT ON COLUMN graphrag._row_names.name_id IS 'Entity that is a name of the row';
COMMENT ON COLUMN graphrag._row_names.corpus_id IS 'Corpus of both';
COMMENT ON COLUMN graphrag._row_names.entity_id IS 'The row''s own entity';

-- Brings the table up to date after mentions of these entities came, went or moved. The caller holds the corpus' lock.
-- A batch looks its entities up, whatever old statistics say of the tables.
CREATE FUNCTION graphrag._renew_row_names(entities bigint[]) RETURNS void
LANGUAGE sql VOLATILE SET enable_seqscan = off
BEGIN ATOMIC
    WITH affected AS MATERIALIZED (
        SELECT u.id FROM pg_catalog.unnest(entities) AS u (id)
         UNION
        SELECT r.name_id FROM graphrag._row_names AS r WHERE r.entity_id = ANY (entities)
         UNION
        SELECT n.entity_id
          FROM graphrag.entity_mentions AS o
          JOIN graphrag.entity_mentions AS n ON n.chunk_id = o.chunk_id AND n.name_of = o.raw_key
         WHERE o.entity_id = ANY (entities) AND o.name_of = o.raw_key
    ), named AS MATERIALIZED (
        SELECT r.name_id, r.entity_id FROM graphrag._rows_named(ARRAY(SELECT a.id FROM affected AS a), NULL) AS r
    ), gone AS (
        DELETE FROM graphrag._row_names AS r
         USING affected AS a
         WHERE r.name_id = a.id AND NOT EXISTS (SELECT FROM named AS n WHERE n.name_id = r.name_id)
    )
    INSERT INTO graphrag._row_names AS r (name_id, corpus_id, entity_id)
    SELECT n.name_id, e.corpus_id, n.entity_id FROM named AS n JOIN graphrag.entities AS e ON e.id = n.name_id
        ON CONFLICT (name_id) DO UPDATE SET entity_id = excluded.entity_id WHERE r.entity_id <> excluded.entity_id;
END;
COMMENT ON FUNCTION graphrag._renew_row_names(bigint[]) IS 'Brings the names of rows up to date after mentions of entities came, went or moved';

-- Of a row's own entity and its names as one: relationships with others, and chunks that mention it.
CREATE FUNCTION graphrag._joined_counts(entity bigint, names bigint[], OUT degree int, OUT mention_count int)
LANGUAGE sql STABLE
BEGIN ATOMIC
    SELECT (SELECT coalesce(pg_catalog.sum(e.degree), 0)::int FROM graphrag.entities AS e WHERE e.id = ANY (names || entity))
           - 2 * (SELECT pg_catalog.count(*)::int FROM graphrag.relationships AS r WHERE r.low_id = ANY (names || entity) AND r.high_id = ANY (names || entity)),
           (SELECT pg_catalog.count(DISTINCT m.chunk_id)::int FROM graphrag.entity_mentions AS m WHERE m.entity_id = ANY (names || entity));
END;
COMMENT ON FUNCTION graphrag._joined_counts(bigint, bigint[]) IS 'Degree and number of mentions of a row''s own entity and its names as one';
