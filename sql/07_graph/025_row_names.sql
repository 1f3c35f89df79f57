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
COMMENT ON FUNCTION graphrag._rows_named(bigint[], bigint[]) IS 'Those of the given entities that are names of one row, each with the row''s own entity';

-- The names of rows whose own entities are given, as these documents say.
CREATE FUNCTION graphrag._names_of_rows(entities bigint[], documents bigint[]) RETURNS TABLE (name_id bigint, entity_id bigint)
LANGUAGE sql STABLE ROWS 10
BEGIN ATOMIC
    SELECT r.name_id, r.entity_id
      FROM graphrag._rows_named(ARRAY(
               SELECT DISTINCT n.entity_id
                 FROM graphrag.entity_mentions AS o
                 JOIN graphrag.entity_mentions AS n ON n.chunk_id = o.chunk_id AND n.name_of = o.raw_key AND n.entity_id <> o.entity_id
                WHERE o.entity_id = ANY (entities) AND o.name_of = o.raw_key AND o.document_id = ANY (documents)), documents) AS r
     WHERE r.entity_id = ANY (entities);
END;
COMMENT ON FUNCTION graphrag._names_of_rows(bigint[], bigint[]) IS 'The names of the rows with these own entities';

-- The names of rows as all documents give them: who sees a corpus whole reads this. The merge keeps it, a row where _rows_named has one.
-- No foreign keys: an entity that goes has no mentions, and so no row here. The server would look for each, by whatever plan it has.
CREATE TABLE graphrag._row_names (
    name_id   bigint NOT NULL,
    corpus_id int    NOT NULL,
    entity_id bigint NOT NULL,
    CONSTRAINT _row_names_pkey PRIMARY KEY (name_id)
);
CREATE INDEX _row_names_entity_idx ON graphrag._row_names (entity_id);
CREATE INDEX _row_names_corpus_idx ON graphrag._row_names (corpus_id);
SELECT pg_catalog.pg_extension_config_dump('graphrag._row_names', '');

COMMENT ON TABLE graphrag._row_names IS 'Entities that are names of one row, each with the row''s own entity, according to all documents of a corpus';
COMMENT ON COLUMN graphrag._row_names.name_id IS 'Entity that is a name of the row';
COMMENT ON COLUMN graphrag._row_names.corpus_id IS 'Corpus of both';
COMMENT ON COLUMN graphrag._row_names.entity_id IS 'The row''s own entity';

-- Brings the table up to date after mentions of these entities came, went or moved; returns the rows whose names are others now. The
-- caller holds the corpus' lock. A batch looks its entities up, whatever old statistics say of the tables.
CREATE FUNCTION graphrag._renew_row_names(entities bigint[]) RETURNS SETOF bigint
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
    ), old AS MATERIALIZED (
        SELECT r.name_id, r.entity_id FROM affected AS a JOIN graphrag._row_names AS r ON r.name_id = a.id
    ), removed AS (
        DELETE FROM graphrag._row_names AS r
         USING old AS o
         WHERE r.name_id = o.name_id AND NOT EXISTS (SELECT FROM named AS n WHERE n.name_id = o.name_id)
    ), added AS (
        INSERT INTO graphrag._row_names AS r (name_id, corpus_id, entity_id)
        SELECT n.name_id, e.corpus_id, n.entity_id FROM named AS n JOIN graphrag.entities AS e ON e.id = n.name_id
            ON CONFLICT (name_id) DO UPDATE SET entity_id = excluded.entity_id WHERE r.entity_id <> excluded.entity_id
    )
    SELECT u.entity_id
      FROM old AS o
      FULL JOIN named AS n ON n.name_id = o.name_id
     CROSS JOIN LATERAL (VALUES (o.entity_id), (n.entity_id)) AS u (entity_id)
     WHERE o.entity_id IS DISTINCT FROM n.entity_id AND u.entity_id IS NOT NULL;
END;
COMMENT ON FUNCTION graphrag._renew_row_names(bigint[]) IS 'Brings the names of rows up to date after mentions of entities came, went or moved, and returns the rows with changed names';

-- Numbers of rows that have names. The merge counts them (index/graph/merge.py).
CREATE TABLE graphrag._named_rows (
    entity_id         bigint NOT NULL,
    corpus_id         int    NOT NULL,
    degree            int    NOT NULL,
    mention_count     int    NOT NULL,
    row_mention_count int    NOT NULL,
    CONSTRAINT _named_rows_pkey PRIMARY KEY (entity_id)
) WITH (fillfactor = 80);
CREATE INDEX _named_rows_corpus_idx ON graphrag._named_rows (corpus_id);
SELECT pg_catalog.pg_extension_config_dump('graphrag._named_rows', '');

COMMENT ON TABLE graphrag._named_rows IS 'Counts of rows'' own entities together with their names, according to all documents of a corpus';
COMMENT ON COLUMN graphrag._named_rows.entity_id IS 'The row''s own entity';
COMMENT ON COLUMN graphrag._named_rows.corpus_id IS 'Its corpus';
COMMENT ON COLUMN graphrag._named_rows.degree IS 'Number of relationships with others';
COMMENT ON COLUMN graphrag._named_rows.mention_count IS 'Number of chunks that mention it by any name';
COMMENT ON COLUMN graphrag._named_rows.row_mention_count IS 'Number of these chunks that are rows of attached tables';

-- Makes these numbers anew, of rows whose own entities are given.
CREATE FUNCTION graphrag._recount_named_rows(entities bigint[]) RETURNS void
LANGUAGE sql VOLATILE SET enable_seqscan = off
BEGIN ATOMIC
    DELETE FROM graphrag._named_rows AS x
     WHERE x.entity_id = ANY (entities) AND NOT EXISTS (SELECT FROM graphrag._row_names AS r WHERE r.entity_id = x.entity_id);
    INSERT INTO graphrag._named_rows (entity_id, corpus_id, degree, mention_count, row_mention_count)
    SELECT o.id, o.corpus_id, d.degree, m.mention_count, m.row_mention_count
      FROM (SELECT e.id, e.corpus_id, pg_catalog.array_agg(r.name_id) || e.id AS ids
              FROM graphrag._row_names AS r
              JOIN graphrag.entities AS e ON e.id = r.entity_id
             WHERE r.entity_id = ANY (entities)
             GROUP BY e.id) AS o
     CROSS JOIN LATERAL (
           SELECT pg_catalog.sum(e.degree)
                  - 2 * (SELECT pg_catalog.count(*) FROM graphrag.relationships AS r WHERE r.low_id = ANY (o.ids) AND r.high_id = ANY (o.ids)) AS degree
             FROM graphrag.entities AS e WHERE e.id = ANY (o.ids)) AS d
     CROSS JOIN LATERAL (
           SELECT pg_catalog.count(DISTINCT x.chunk_id) AS mention_count,
                  pg_catalog.count(DISTINCT x.chunk_id) FILTER (WHERE c.is_row) AS row_mention_count
             FROM graphrag.entity_mentions AS x
             JOIN graphrag.chunks AS c ON c.id = x.chunk_id
            WHERE x.entity_id = ANY (o.ids)) AS m
        ON CONFLICT (entity_id) DO UPDATE
       SET degree = excluded.degree, mention_count = excluded.mention_count, row_mention_count = excluded.row_mention_count;
END;
COMMENT ON FUNCTION graphrag._recount_named_rows(bigint[]) IS 'Recounts rows with names, given by their own entities';
