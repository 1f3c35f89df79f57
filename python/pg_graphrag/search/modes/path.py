"""path: MiniRAG's paths."""

from pg_graphrag.search.query.mode import Mode
from pg_graphrag.search.query.mode_options import RRF_K
from pg_graphrag.search.query.query import Query
from pg_graphrag.search.query.rankings import Fused, one_behind_the_other, reciprocal_rank, single_ranking
from pg_graphrag.search.retrievers import dense, paths
from pg_graphrag.search.retrievers.lexical import bm25


def _retrieve(query: Query, depth: int) -> Fused:
    """Paths and, behind them, direct chunks; or paths fused with BM25."""
    voted = paths.rank(query, depth)
    if query.options.fuse != "none":
        return reciprocal_rank(query.options.rrf_k or RRF_K)([voted, bm25(query, depth)])
    if not query.dense_works:
        return single_ranking([voted])
    return one_behind_the_other([voted, dense.windows(query, depth)])


MODE = Mode(
    name="path",
    place=70,
    does="""From what the query names, over paths of at most two relationships, to chunks. For questions that connect
    two named things.""",
    details="""Each chunk gets the votes of all its paths. `path_weighting` says which relationships are important,
    and `fuse` how the votes are fused with BM25. `explain` shows path and relationships.""",
    source="MiniRAG, arXiv 2501.06713; BM25 weighting: Takami et al.",
    options=("profile", "bm25_idf", "rrf_k", "graph_top_k", "path_weighting", "fuse", "query_entities", "answer_types"),
    retrieve=_retrieve,
)
