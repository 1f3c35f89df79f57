-- The graph that is clustered. What a model extracted counts by its weight. Concepts are pruned first, at read time, from the counts of the mentions
-- (LazyGraphRAG's index): names of one chunk and hubs (degree above mean + 3 sigma) are left out, pairs weigh their PMI, and the weakest 40 % go.
-- A corpus of under 20 chunks is clustered as it is: there is nothing to prune by. Under 100 chunks, where names of two chunks or more have
-- fewer relationships than there are chunks, they keep those with names of one chunk: what is said of these alone is a community of one chunk.
-- What a person relates counts as one mention. A weight of 0 relates nothing.
-- Joins by hashes: statistics that do not know the corpus yet say that it has one relationship, and loops over all pairs would be quadratic.
-- Names of rows are the rows' own entities (07_graph/025_row_names.sql): communities are for who sees all documents, and so all rows.
CREATE FUNCTION graphrag.clustered_relationships(corpus text DEFAULT 'default')
RETURNS TABLE (relationship_id bigint, low_id bigint, high_id bigint, weight double precision)
LANGUAGE plpgsql STABLE COST 1000000 ROWS 10000 SET search_path = pg_catalog, pg_temp SET enable_nestloop = off SET jit = off
AS $function$
#variable_conflict use_column
DECLARE
    this_corpus int;
    concepts    boolean;
    chunks      double precision;
BEGIN
    SELECT c.id, coalesce(c.options ->> 'extractor', 'nlp') = 'nlp' INTO this_corpus, concepts
      FROM graphrag.corpora AS c WHERE c.name = corpus;
    IF NOT FOUND THEN
        PERFORM graphrag._unknown_corpus(corpus);
    END IF;
    SELECT greatest(count(*), 1) INTO chunks FROM graphrag.chunks AS c WHERE c.corpus_id = this_corpus;
    RETURN QUERY
    WITH names AS MATERIALIZED (
        SELECT n.name_id, n.entity_id FROM graphrag._row_names AS n WHERE n.corpus_id = this_corpus
    ), pairs AS MATERIALIZED (
        -- What is stated of two names of a row is one.
        SELECT min(r.id) AS id, least(x.low, x.high) AS low, greatest(x.low, x.high) AS high, sum(r.weight)::double precision AS weight,
               sum(r.mention_count)::int AS count
          FROM graphrag.relationships AS r
          LEFT JOIN names AS a ON a.name_id = r.low_id
          LEFT JOIN names AS b ON b.name_id = r.high_id
         CROSS JOIN LATERAL (SELECT coalesce(a.entity_id, r.low_id) AS low, coalesce(b.entity_id, r.high_id) AS high) AS x
         WHERE r.corpus_id = this_corpus AND r.weight > 0 AND x.low <> x.high
         GROUP BY 2, 3
    ), ends AS MATERIALIZED (
        SELECT e.id, coalesce(d.degree, 0) AS degree, coalesce(n.mention_count, e.mention_count) AS mention_count
          FROM graphrag.entities AS e
          LEFT JOIN (SELECT u.id, count(*) AS degree FROM pairs AS p CROSS JOIN LATERAL (VALUES (p.low), (p.high)) AS u (id) GROUP BY u.id) AS d
                 ON d.id = e.id
          LEFT JOIN graphrag._named_rows AS n ON n.entity_id = e.id
         WHERE e.corpus_id = this_corpus AND NOT EXISTS (SELECT FROM names AS x WHERE x.name_id = e.id)
    ), known AS MATERIALIZED (
        SELECT p.*, l.degree AS low_degree, h.degree AS high_degree, least(l.mention_count, h.mention_count) >= 2 AS is_repeated,
               greatest(l.mention_count, h.mention_count) < 2 AS is_of_one_chunk,
               l.mention_count AS low_mention_count, h.mention_count AS high_mention_count
          FROM pairs AS p
          JOIN ends AS l ON l.id = p.low
          JOIN ends AS h ON h.id = p.high
    ), bounds AS MATERIALIZED (
        SELECT avg(e.degree) + 3 * coalesce(stddev_pop(e.degree), 0) AS hub,
               NOT concepts OR chunks < 20 OR chunks < 100 AND chunks > (SELECT count(*) FROM known AS k WHERE k.is_repeated) AS takes_all
          FROM ends AS e WHERE e.mention_count >= 2
    ), apart AS MATERIALIZED (
        SELECT k.id, k.low, k.high,
               graphrag._strength(greatest(k.count, 1)::double precision, k.count, k.low_mention_count, k.high_mention_count, chunks) / chunks AS pmi
          FROM known AS k, bounds AS b
         WHERE NOT b.takes_all AND k.is_repeated AND k.low_degree <= b.hub AND k.high_degree <= b.hub
    )
    SELECT k.id, k.low, k.high, k.weight
      FROM known AS k, bounds AS b
     WHERE b.takes_all AND (NOT concepts OR chunks < 20 OR k.count = 0 OR NOT k.is_of_one_chunk)
     UNION ALL
    SELECT a.id, a.low, a.high, a.pmi
      FROM apart AS a
     WHERE a.pmi > 0 AND a.pmi >= (SELECT percentile_cont(0.4) WITHIN GROUP (ORDER BY l.pmi) FROM apart AS l);
END
$function$;
COMMENT ON FUNCTION graphrag.clustered_relationships(text) IS 'The relationships that are clustered into communities, with their weights: all of a model''s extraction; of concepts those left after pruning (names of two chunks or more, no hubs, PMI as weight, the weakest 40 % left out; a corpus under 20 chunks is not pruned; one under 100 in which such names have fewer relationships than there are chunks keeps all of theirs). 42704 for an unknown corpus.';
