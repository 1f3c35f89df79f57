"""mix: LightRAG's local, global and direct chunks together."""

from pg_graphrag.retrieval import dense, graph
from pg_graphrag.retrieval.hybrid import both_levels
from pg_graphrag.retrieval.lexical import bm25
from pg_graphrag.retrieval.mode import Context, Mode
from pg_graphrag.retrieval.query import Query
from pg_graphrag.retrieval.rankings import Fused, reciprocal_rank, round_robin


def _retrieve(query: Query, depth: int) -> Fused:
    """Best: by reciprocal rank. Paper: round-robin."""
    direct = dense.windows(query, depth) if query.dense_works else bm25(query, depth)
    fuse = round_robin if query.options.profile == "paper" else reciprocal_rank(query.options.rrf_k)
    return fuse([*both_levels(query, depth), direct])


MODE = Mode(
    name="mix",
    place=60,
    does="`local`, `global` and direct chunks, by reciprocal rank.",
    source="LightRAG",
    options=("profile", "bm25_idf", "rrf_k", "graph_top_k"),
    retrieve=_retrieve,
    context=Context(evidence=(graph.local_evidence, graph.global_evidence)),
)
