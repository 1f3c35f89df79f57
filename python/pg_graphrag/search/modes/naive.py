"""naive: chunks by their best window."""

from pg_graphrag.search.query.mode import Mode
from pg_graphrag.search.query.query import Query
from pg_graphrag.search.query.rankings import Fused, single_ranking
from pg_graphrag.search.retrievers import dense
from pg_graphrag.search.retrievers.lexical import bm25


def _retrieve(query: Query, depth: int) -> Fused:
    return single_ranking([dense.windows(query, depth) if query.dense_works else bm25(query, depth)])


MODE = Mode(
    name="naive",
    place=10,
    does="""Chunks by the cosine of their best window (60–120 words) to the query. The vector baseline. By BM25 where the
    local embedder was made for the language of neither, as `explain` says under `dense`.""",
    source="–",
    function="dense retrieval alone: chunks by their best window",
    reads_keywords=False,
    retrieve=_retrieve,
)
