"""bm25: chunks by Okapi BM25."""

from pg_graphrag.search.query.mode import Mode
from pg_graphrag.search.query.query import Query
from pg_graphrag.search.query.rankings import Fused, single_ranking
from pg_graphrag.search.retrievers.lexical import bm25


def _retrieve(query: Query, depth: int) -> Fused:
    return single_ranking([bm25(query, depth, with_passage=True)])


MODE = Mode(
    name="bm25",
    place=20,
    does="""Okapi BM25 (k1 1.5, b 0.75), stemmed or morphological, exact after any mix of changes. For names, codes
    and error messages.""",
    source="Robertson & Zaragoza 2009",
    function="Okapi BM25 alone",
    options=("bm25_idf",),
    reads_keywords=False,
    retrieve=_retrieve,
)
