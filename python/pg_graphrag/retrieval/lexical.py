"""BM25 over chunks as a retriever."""

from pg_graphrag.retrieval.query import Query
from pg_graphrag.retrieval.rankings import Ranking


def bm25(query: Query, limit: int) -> Ranking:
    """Rank chunks by Okapi BM25 (k1 1.5, b 0.75) of the query's terms; exact at every moment."""
    if not query.terms or limit <= 0:
        return Ranking.empty("bm25")
    ids, scores = query.bm25_index("chunk").search(
        query.terms, limit, documents=query.visible, idf=query.options.bm25_idf
    )
    return Ranking("bm25", ids, scores)
