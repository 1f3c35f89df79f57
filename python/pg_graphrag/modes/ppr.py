"""ppr: personalised PageRank alone."""

from pg_graphrag.retrieval.hipporag import hipporag
from pg_graphrag.retrieval.hybrid import walk
from pg_graphrag.retrieval.mode import Mode
from pg_graphrag.retrieval.query import Query
from pg_graphrag.retrieval.rankings import Fused, single_ranking


def _retrieve(query: Query, depth: int) -> Fused:
    """Best: from the query's entities and its best direct chunks. Paper: from facts and passages, HippoRAG 2."""
    return single_ranking([hipporag(query, depth) if query.options.profile == "paper" else walk(query, depth)])


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
