"""graph_local: GraphRAG's local search."""

from pg_graphrag.search.contexts import claims
from pg_graphrag.search.query.mode import Context, Mode, shares
from pg_graphrag.search.query.query import Query
from pg_graphrag.search.query.rankings import Fused, single_ranking
from pg_graphrag.search.retrievers import evidence_chunks, themes


def _retrieve(query: Query, depth: int) -> Fused:
    return single_ranking(evidence_chunks.rank(query, {"graph_local": themes.local_evidence(query)}, depth))


MODE = Mode(
    name="graph_local",
    place=90,
    does="Entities of the query, the relationships among them first, and the chunks that say most of both.",
    details="""`context` and `ask` add reports on the communities of the entities, and claims. Of 12,000 tokens .5
    are text, .15 reports, and the rest graph and claims.""",
    source="GraphRAG, arXiv 2404.16130",
    options=("bm25_idf", "graph_top_k", "min_community_rank"),
    defaults={"max_total_tokens": 12_000},
    retrieve=_retrieve,
    context=Context(
        evidence=(themes.local_evidence,),
        in_order=True,
        reports=themes.local_reports,
        claims=lambda query, evidence, _: claims.of_entities(query, list(evidence.entities)),
        budgets=shares(text=0.5, reports=0.15),
    ),
)
