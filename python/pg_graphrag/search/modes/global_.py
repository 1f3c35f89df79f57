"""global: LightRAG's high level."""

from pg_graphrag.search.query.mode import Context, Mode
from pg_graphrag.search.query.query import Query
from pg_graphrag.search.query.rankings import Fused, single_ranking
from pg_graphrag.search.retrievers import evidence_chunks, graph_evidence
from pg_graphrag.search.retrievers.bridges import with_bridges


def _retrieve(query: Query, depth: int) -> Fused:
    return with_bridges(
        query, single_ranking(evidence_chunks.rank(query, {"global": graph_evidence.global_evidence(query)}, depth))
    )


MODE = Mode(
    name="global",
    place=40,
    does="""Relationships about the theme of the query, their endpoints, and the chunks that state them. For questions
    about how things hang together.""",
    details="""Chunks count, too, that share weak names with those nearest the theme, and names lead on as in
    `hybrid` where the question names a title. With `"extractor": "llm"`, a relationship counts by its keywords, its
    description and the text that states it. GraphRAG's global search is another thing: `graph_global` here.""",
    source="LightRAG, arXiv 2410.05779",
    function="LightRAG global: relationships about the query's theme, their endpoints, and the chunks that state them."
    " GraphRAG's global search over community reports is another thing (mode graph_global)",
    options=("profile", "bm25_idf", "graph_top_k"),
    mistaken_for={"graph_global": "GraphRAG's global search is graph_global; global is LightRAG's, another thing."},
    retrieve=_retrieve,
    context=Context(evidence=(graph_evidence.global_evidence,)),
)
