"""mix: LightRAG's local, global and direct chunks together."""

from pg_graphrag.search.query.mode import Context, Mode
from pg_graphrag.search.query.query import Query
from pg_graphrag.search.query.rankings import Fused, Ranking, best_places, reciprocal_rank, round_robin, shares_of_best
from pg_graphrag.search.retrievers import dense, graph_evidence
from pg_graphrag.search.retrievers.bridges import with_bridges
from pg_graphrag.search.retrievers.hybrid_retrieval import both_levels
from pg_graphrag.search.retrievers.lexical import bm25
from pg_graphrag.search.retrievers.named_dates import with_named_dates
from pg_graphrag.search.retrievers.turns import with_turns


def _retrieve(query: Query, depth: int) -> Fused:
    direct = dense.windows(query, depth) if query.dense_works else bm25(query, depth)
    rankings = [*both_levels(query, depth), direct]
    if query.options.profile == "paper":
        best = best_places(query, direct.ids, direct.scores, len(direct.ids))
        return round_robin(
            [*rankings[:-1], Ranking(direct.retriever, direct.ids[best], direct.scores[best], direct.reason)]
        )
    if query.corpus.options.conversation:
        rankings = with_turns(query, rankings)
    if query.options.rrf_k is not None:
        return reciprocal_rank(query.options.rrf_k)(rankings)
    # By ranks, chunks in the middle of all three would stand before one that two have second (docs/decisions/search.md).
    return with_bridges(query, with_named_dates(query, shares_of_best(rankings)))


MODE = Mode(
    name="mix",
    place=60,
    does="`local`, `global` and direct chunks, by scores, each as a share of the best of its ranking.",
    details="""Where the question names a title or a time, and in conversations, it goes on as `hybrid` does. With `rrf_k`
    it goes by reciprocal rank, as 0.2.0 did. `{"profile": "paper"}`: round-robin.""",
    source="LightRAG",
    options=("profile", "bm25_idf", "rrf_k", "graph_top_k"),
    defaults={"rrf_k": None},
    retrieve=_retrieve,
    context=Context(evidence=(graph_evidence.local_evidence, graph_evidence.global_evidence)),
)
