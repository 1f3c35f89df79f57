-- How much a relationship says: its weight and its pointwise mutual information together. A pair that occurs together more rarely than by
-- chance has less than 0, whatever its weight. What people alone relate counts as one mention.
-- Rounded, so that equal ones are equal here and in numpy (search/graph_view/edge_strength.py).
CREATE FUNCTION graphrag._strength(weight double precision, chunks_of_both int, chunks_of_source int, chunks_of_target int, chunks double precision)
RETURNS double precision LANGUAGE sql IMMUTABLE PARALLEL SAFE
RETURN pg_catalog.round((weight * pg_catalog.ln(greatest(chunks_of_both, 1) * greatest(chunks, 1::double precision)
                                                / greatest(chunks_of_source, 1) / greatest(chunks_of_target, 1))
                         / pg_catalog.ln(2::double precision))::numeric, 6)::double precision;
COMMENT ON FUNCTION graphrag._strength(double precision, int, int, int, double precision) IS 'weight * log2(p(x,y) / (p(x) p(y))), p = share of the corpus'' chunks';
