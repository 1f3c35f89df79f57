-- The graph that is clustered. What a model extracted counts by its weight. Concepts are pruned first, at read time, from the counts of the mentions
-- (LazyGraphRAG's index): names of one chunk and hubs (degree above mean + 3 sigma) are left out, pairs weigh their PMI, and the weakest 40 % go.
-- A corpus of under 20 chunks is clustered as it is: there is nothing to prune by. Under 100 chunks, where names of two chunks or more have
-- fewer relationships than there are chunks, they keep those with names of one chunk: what is said of these alone is a community of one chunk.
-- What a person relates counts as one mention. A weight of 0 relates nothing.
-- Names of rows are the rows' own entities (07_graph/025_row_names.sql): communities are for who sees all documents, and so all rows.
CREATE FUNCTION graphrag.clustered_relationships(corpus text DEFAULT 'default')
RETURNS TABLE (relationship_id bigint, low_id bigint, high_id bigint, weight double precision)
LANGUAGE plpgsql STABLE COST 1000000 ROWS 10000 SET search_path = pg_catalog, pg_temp
AS $function$
#variable_conflict use_column
DECLARE
    this_corpus int;
    concepts    boolean;
    chunks      double precision;
    hub         double precision;
    weakest     double precision;
    name_ids    bigint[];
    row_ids     bigint[];
BEGIN
    SELECT c.id, coalesce(c.options ->> 'extractor', 'nlp') = 'nlp' INTO this_corpus, concepts
      FROM graphrag.corpora AS c WHERE c.name = corpus;
    IF NOT FOUND THEN
        RAISE EXCEPTION 'corpus "%" does not exist', corpus
            USING ERRCODE = 'undefined_object', HINT = 'SELECT name FROM graphrag.corpora lists the corpora.';
    END IF;
    SELECT count(*) INTO chunks FROM graphrag.chunks AS c WHERE c.corpus_id = this_corpus;
    SELECT array_agg(n.name_id), array_agg(n.entity_id) INTO name_ids, row_ids FROM graphrag._row_names_of(this_corpus) AS n;
    IF name_ids IS NOT NULL THEN
        RETURN QUERY
        WITH names AS MATERIALIZED (
            SELECT n.name_id, n.entity_id FROM ROWS FROM (unnest(name_ids), unnest(row_ids)) AS n (name_id, entity_id)
        ), pairs AS MATERIALIZED (
            -- What is stated of two names of a row is one.
            SELECT min(r.id) AS id, least(x.low, x.high) AS low, greatest(x.low, x.high) AS high, sum(r.weight)::double precision AS weight,
                   greatest(sum(r.mention_count), 1)::int AS count
              FROM graphrag.relationships AS r
              LEFT JOIN names AS a ON a.name_id = r.low_id
              LEFT JOIN names AS b ON b.name_id = r.high_id
             CROSS JOIN LATERAL (SELECT coalesce(a.entity_id, r.low_id) AS low, coalesce(b.entity_id, r.high_id) AS high) AS x
             WHERE r.corpus_id = this_corpus AND r.weight > 0 AND x.low <> x.high
             GROUP BY 2, 3
        ), ends AS MATERIALIZED (
            SELECT d.id, d.degree,
                   CASE WHEN d.id = ANY (row_ids)
                        THEN (SELECT count(DISTINCT m.chunk_id)::int FROM graphrag.entity_mentions AS m
                               WHERE m.entity_id = d.id OR m.entity_id IN (SELECT n.name_id FROM names AS n WHERE n.entity_id = d.id))
                        ELSE e.mention_count END AS mention_count
              FROM (SELECT u.id, count(*) AS degree FROM pairs AS p CROSS JOIN LATERAL (VALUES (p.low), (p.high)) AS u (id) GROUP BY u.id) AS d
              JOIN graphrag.entities AS e ON e.id = d.id
        ), rare AS MATERIALIZED (
            SELECT p.*, l.degree AS low_degree, h.degree AS high_degree, p.count * ln(p.count * chunks / l.mention_count / h.mention_count) AS pmi
              FROM pairs AS p
              JOIN ends AS l ON l.id = p.low AND l.mention_count >= 2
              JOIN ends AS h ON h.id = p.high AND h.mention_count >= 2
        ), bounds AS MATERIALIZED (
            SELECT (SELECT avg(e.degree) + 3 * coalesce(stddev_pop(e.degree), 0) FROM ends AS e WHERE e.mention_count >= 2) AS hub,
                   NOT concepts OR chunks < 20 OR chunks < 100 AND chunks > (SELECT count(*) FROM rare) AS takes_all
        ), least AS MATERIALIZED (
            SELECT percentile_cont(0.4) WITHIN GROUP (ORDER BY r.pmi) AS pmi
              FROM rare AS r, bounds AS b WHERE r.low_degree <= b.hub AND r.high_degree <= b.hub
        )
        SELECT p.id, p.low, p.high, p.weight FROM pairs AS p, bounds AS b WHERE b.takes_all
         UNION ALL
        SELECT r.id, r.low, r.high, r.pmi / (chunks * ln(2::double precision))
          FROM rare AS r, bounds AS b, least AS l
         WHERE NOT b.takes_all AND r.low_degree <= b.hub AND r.high_degree <= b.hub AND r.pmi > 0 AND r.pmi >= l.pmi;
        RETURN;
    END IF;
    IF NOT concepts OR chunks < 20
       OR chunks < 100 AND chunks > (SELECT count(*)
                                       FROM graphrag.relationships AS r
                                       JOIN graphrag.entities AS l ON l.id = r.low_id
                                       JOIN graphrag.entities AS h ON h.id = r.high_id
                                      WHERE r.corpus_id = this_corpus AND r.weight > 0
                                        AND l.mention_count >= 2 AND h.mention_count >= 2) THEN
        RETURN QUERY
        SELECT r.id, r.low_id, r.high_id, r.weight::double precision
          FROM graphrag.relationships AS r
         WHERE r.corpus_id = this_corpus AND r.weight > 0
           AND (NOT concepts OR chunks < 20 OR r.mention_count = 0
                OR EXISTS (SELECT FROM graphrag.entities AS e WHERE e.id IN (r.low_id, r.high_id) AND e.mention_count >= 2));
        RETURN;
    END IF;
    SELECT avg(e.degree) + 3 * coalesce(stddev_pop(e.degree), 0) INTO hub
      FROM graphrag.entities AS e WHERE e.corpus_id = this_corpus AND e.mention_count >= 2;
    SELECT percentile_cont(0.4) WITHIN GROUP (ORDER BY m.count * ln(m.count * chunks / l.mention_count / h.mention_count))
      INTO weakest
      FROM graphrag.relationships AS r
     CROSS JOIN LATERAL (SELECT greatest(r.mention_count, 1) AS count) AS m
      JOIN graphrag.entities AS l ON l.id = r.low_id
      JOIN graphrag.entities AS h ON h.id = r.high_id
     WHERE r.corpus_id = this_corpus AND r.weight > 0 AND l.mention_count >= 2 AND h.mention_count >= 2
       AND l.degree <= hub AND h.degree <= hub;
    RETURN QUERY
    SELECT p.id, p.low_id, p.high_id, p.pmi / (chunks * ln(2::double precision))
      FROM (SELECT r.id, r.low_id, r.high_id,
                   m.count * ln(m.count * chunks / l.mention_count / h.mention_count) AS pmi
              FROM graphrag.relationships AS r
             CROSS JOIN LATERAL (SELECT greatest(r.mention_count, 1) AS count) AS m
              JOIN graphrag.entities AS l ON l.id = r.low_id
              JOIN graphrag.entities AS h ON h.id = r.high_id
             WHERE r.corpus_id = this_corpus AND r.weight > 0 AND l.mention_count >= 2 AND h.mention_count >= 2
               AND l.degree <= hub AND h.degree <= hub) AS p
     WHERE p.pmi > 0 AND p.pmi >= weakest;
END
$function$;
COMMENT ON FUNCTION graphrag.clustered_relationships(text) IS 'The relationships that communities are found in, with their weights: of a model''s extraction all, of concepts those that pruning leaves (names of two chunks or more, no hubs, PMI as weight, the weakest 40 % left out; a corpus under 20 chunks is not pruned; one under 100 in which such names have fewer relationships than there are chunks keeps all of theirs). 42704 for an unknown corpus.';
