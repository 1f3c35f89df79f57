"""ppr: personalised PageRank alone."""

from pg_graphrag.search.query.mode import Mode
from pg_graphrag.search.query.query import Query
from pg_graphrag.search.query.rankings import Fused, Ranking, one_after_the_other, single_ranking
from pg_graphrag.search.retrievers import dense
from pg_graphrag.search.retrievers.hipporag import hipporag
from pg_graphrag.search.retrievers.hybrid_retrieval import walk
from pg_graphrag.search.retrievers.lexical import bm25


def _retrieve(query: Query, depth: int) -> Fused:
    """Best: from the query's entities and its best direct chunks. Paper: from facts and passages, HippoRAG 2.

    Chunks that the walk does not reach have no mass. They follow in the order of dense retrieval.
    """
    walked = hipporag(query, depth) if query.options.profile == "paper" else walk(query, depth)
    if walked.retriever != "pagerank":
        return single_ranking([_direct(query, depth)])
    reached = walked.scores > 0
    walked = Ranking(walked.retriever, walked.ids[reached], walked.scores[reached], walked.reason)
    if len(walked.ids) >= depth:
        return single_ranking([walked])
    return one_after_the_other(walked, _direct(query, depth))


def _direct(query: Query, depth: int) -> Ranking:
    return dense.windows(query, depth) if query.dense_works else bm25(query, depth)


MODE = Mode(
    name="ppr",
    place=80,
    does="""Chunks by personalised PageRank alone, over entities, chunks and synonyms. For multi-hop questions whose
    second passage shares no word with the question.""",
    details="""`{"profile": "paper"}`: HippoRAG 2's facts and passages, without its LLM filter.""",
    source="HippoRAG 2, arXiv 2502.14802",
    options=("profile", "bm25_idf", "damping"),
    retrieve=_retrieve,
)
