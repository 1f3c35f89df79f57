"""mix: LightRAG's local, global and direct chunks together."""

from pg_graphrag.retrieval import dense, graph
from pg_graphrag.retrieval.hybrid import both_levels
from pg_graphrag.retrieval.lexical import bm25
from pg_graphrag.retrieval.mode import Context, Mode
from pg_graphrag.retrieval.query import Query
from pg_graphrag.retrieval.rankings import Fused, round_robin, shares_of_best


def _retrieve(query: Query, depth: int) -> Fused:
    direct = dense.windows(query, depth) if query.dense_works else bm25(query, depth)
    # By ranks, chunks in the middle of all three would stand before one that two have second (docs/decisions.md).
    fuse = round_robin if query.options.profile == "paper" else shares_of_best
    return fuse([*both_levels(query, depth), direct])


MODE = Mode(
    name="mix",
    place=60,
    does="`local`, `global` and direct chunks, by scores, each as a share of the best of its ranking.",
    details="""`{"profile": "paper"}`: round-robin.""",
    source="LightRAG",
    options=("profile", "bm25_idf", "graph_top_k"),
    retrieve=_retrieve,
    context=Context(evidence=(graph.local_evidence, graph.global_evidence)),
)
