"""local: LightRAG's low level."""

from pg_graphrag.search.query.mode import Context, Mode
from pg_graphrag.search.query.query import Query
from pg_graphrag.search.query.rankings import Fused, single_ranking
from pg_graphrag.search.retrievers import evidence_chunks, graph_evidence
from pg_graphrag.search.retrievers.bridges import with_bridges


def _retrieve(query: Query, depth: int) -> Fused:
    return with_bridges(
        query, single_ranking(evidence_chunks.rank(query, {"local": graph_evidence.local_evidence(query)}, depth))
    )


MODE = Mode(
    name="local",
    place=30,
    does="""Entities that the query names (or nearly, or by words of their names), their relationships, and the chunks that
    mention them. For questions about particular things.""",
    details="""Chunks count, too, whose names are not in the graph: too weak for entities, or left out by the model. Such a
    name counts where the question has it, or it stands in what is nearest to the question. Where the question names a title,
    names lead on as in `hybrid`. With `"extractor": "llm"`, entities count whose description by the model is near the query.""",
    source="LightRAG, arXiv 2410.05779",
    function="LightRAG local: entities that the query names, their relationships, and the chunks that mention them",
    options=("profile", "bm25_idf", "graph_top_k"),
    retrieve=_retrieve,
    context=Context(evidence=(graph_evidence.local_evidence,)),
)
