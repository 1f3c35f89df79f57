-- The graph that is clustered. What a model extracted counts by its weight. Concepts are pruned first, at read time, from the counts of the mentions
-- (LazyGraphRAG's index): names of one chunk and hubs (degree above mean + 3 sigma) are left out, pairs weigh their PMI, and the weakest 40 % go.
-- A corpus of under 20 chunks is clustered as it is: there is nothing to prune by. Under 100 chunks, where names of two chunks or more have
-- fewer relationships than there are chunks, they keep those with names of one chunk: what is said of these alone is a community of one chunk.
-- What a person relates counts as one mention. A weight of 0 relates nothing.
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
BEGIN
    SELECT c.id, coalesce(c.options ->> 'extractor', 'nlp') = 'nlp' INTO this_corpus, concepts
      FROM graphrag.corpora AS c WHERE c.name = corpus;
    IF NOT FOUND THEN
        RAISE EXCEPTION 'corpus "%" does not exist', corpus
            USING ERRCODE = 'undefined_object', HINT = 'SELECT name FROM graphrag.corpora lists the corpora.';
    END IF;
    SELECT count(*) INTO chunks FROM graphrag.chunks AS c WHERE c.corpus_id = this_corpus;
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
