"""BM25 over chunks as a retriever."""

from pg_graphrag.retrieval.query import Query, timed
from pg_graphrag.retrieval.rankings import Ranking

# How much more a word of the query counts than one of the passage beside it: Query2doc (arXiv 2303.07678, section 2).
QUERY_WEIGHT = 5


@timed("bm25")
def bm25(query: Query, limit: int, *, with_passage: bool = False) -> Ranking:
    """Rank chunks by Okapi BM25 (k1 1.5, b 0.75) of the query's terms; exact at every moment.

    `with_passage`: of those of a passage that a model wrote, too, where there is one (HyDE without vectors).
    """
    terms: dict[str, int] = query.terms
    if with_passage and query.passage is not None:
        passage = query.lexemes(query.passage)
        terms = {term: QUERY_WEIGHT * terms.get(term, 0) + passage.get(term, 0) for term in terms | passage}
    if not terms or limit <= 0:
        return Ranking.empty("bm25")
    ids, scores = query.bm25_index("chunk").search(terms, limit, documents=query.visible, idf=query.options.bm25_idf)
    return Ranking("bm25", ids, scores)
