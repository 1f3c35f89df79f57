"""bm25: chunks by Okapi BM25."""

from pg_graphrag.retrieval.lexical import bm25
from pg_graphrag.retrieval.mode import Mode
from pg_graphrag.retrieval.query import Query
from pg_graphrag.retrieval.rankings import Fused, single_ranking


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
