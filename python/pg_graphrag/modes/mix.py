"""mix: LightRAG's local, global and direct chunks together."""

from pg_graphrag.retrieval import dense, graph
from pg_graphrag.retrieval.hybrid import both_levels
from pg_graphrag.retrieval.lexical import bm25
from pg_graphrag.retrieval.mode import Context, Mode
from pg_graphrag.retrieval.query import Query
from pg_graphrag.retrieval.rankings import Fused, Fuser, reciprocal_rank, round_robin, shares_of_best


def _retrieve(query: Query, depth: int) -> Fused:
    direct = dense.windows(query, depth) if query.dense_works else bm25(query, depth)
    return _fuser(query)([*both_levels(query, depth), direct])


def _fuser(query: Query) -> Fuser:
    """Best: by reciprocal rank, or by scores where a model made the graph. Paper: round-robin.

    With the evidence of both graphs most near chunks are in all three rankings. By ranks those then stand before one that two
    rankings have second (docs/decisions.md).
    """
    if query.options.profile == "paper":
        return round_robin
    return shares_of_best if query.is_described else reciprocal_rank(query.options.rrf_k)


MODE = Mode(
    name="mix",
    place=60,
    does="`local`, `global` and direct chunks, by reciprocal rank.",
    details="""With `"extractor": "llm"`, by scores, each as a share of the best of its ranking; `rrf_k` then has no
    meaning.""",
    source="LightRAG",
    options=("profile", "bm25_idf", "rrf_k", "graph_top_k"),
    retrieve=_retrieve,
    context=Context(evidence=(graph.local_evidence, graph.global_evidence)),
)
