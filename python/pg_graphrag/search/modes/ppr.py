"""ppr: personalised PageRank alone.

With the profile paper it is HippoRAG 2 (arXiv 2502.14802): PageRank from the endpoints of the facts nearest to the
query. Its filter of facts by a model is left out: here calls to models are transforms. Only the neighbourhood of the
seeds is read.
"""

from pg_graphrag.ground.numeric import distinct, np
from pg_graphrag.search.graph_view.cached_graph import graph_of
from pg_graphrag.search.query.mode import Mode
from pg_graphrag.search.query.query import Query
from pg_graphrag.search.query.rankings import Fused, Ranking, one_after_the_other, single_ranking
from pg_graphrag.search.retrievers import dense, graph_evidence
from pg_graphrag.search.retrievers.bridges import with_bridges
from pg_graphrag.search.retrievers.hybrid_retrieval import walk
from pg_graphrag.search.retrievers.lexical import bm25
from pg_graphrag.search.retrievers.pagerank import Graph, neighbourhood, spread, synonyms

# Facts and endpoints that the mass starts from; passages that it also starts from, and the weight of the nearest.
FACTS = 5
PASSAGES = 100
PASSAGE_WEIGHT = 0.05


def hipporag(query: Query, limit: int) -> Ranking:
    """Rank chunks by a walk over facts, passages and synonyms; without facts by dense retrieval alone."""
    passages = dense.windows(query, PASSAGES) if query.dense_works else bm25(query, PASSAGES)
    facts = graph_evidence.relationships_near(query, [query.text], FACTS)
    if not facts or not len(passages.ids):
        return passages
    best = facts[0]["score"] or 1.0
    seed_scores: dict[int, list[float]] = {}
    for fact in facts:
        for end in ("source_id", "target_id"):
            seed_scores.setdefault(fact[end], []).append(fact["score"] / best)
    counts = graph_of(query).mention_counts(list(seed_scores))
    entity_seeds = {
        entity: sum(scores) / len(scores) / max(counts[entity], 1) for entity, scores in seed_scores.items()
    }
    keys = graph_of(query).keys(list(entity_seeds))
    rounded = {entity: round(seed, graph_evidence.ROW_DIGITS) for entity, seed in entity_seeds.items()}
    first = sorted(rounded, key=lambda entity: (-rounded[entity], keys[entity].encode()))[:FACTS]
    entity_seeds = {entity: entity_seeds[entity] for entity in first}
    spread_of = float(np.ptp(passages.scores)) or 1.0
    chunk_weights = PASSAGE_WEIGHT * (passages.scores - passages.scores.min()) / spread_of
    chunk_seeds = dict(zip(passages.ids.tolist(), chunk_weights.tolist(), strict=True))
    walk_graph, _ = neighbourhood(query, entity_seeds, chunk_seeds, np.inf, synonyms(query, entity_seeds))
    facts_among = graph_of(query).among(distinct(walk_graph.entities))
    fact_links = facts_among.low, facts_among.high, facts_among.counts
    tails, heads, weights = (
        np.append(column, fact_column) for column, fact_column in zip(walk_graph.links, fact_links, strict=True)
    )
    walk_graph = Graph.of(
        walk_graph.entities, walk_graph.chunks, np.ones(len(walk_graph.chunks)), (tails, heads, weights)
    )
    return spread(query, walk_graph, entity_seeds, chunk_seeds, limit)


def _retrieve(query: Query, depth: int) -> Fused:
    """Best: from the query's entities and its best direct chunks. Paper: from facts and passages, HippoRAG 2."""
    if query.options.profile == "paper":
        return _with_unreached(query, hipporag(query, depth), depth)
    walked = walk(query, depth)
    return with_bridges(query, _with_unreached(query, walked.ranking, depth), walked.mentions, are_masses=True)


def _with_unreached(query: Query, walked: Ranking, depth: int) -> Fused:
    """Return chunks by their mass; those that the walk does not reach have none, and follow in the order of dense retrieval."""
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
    details="""Where the question names a title, names lead on as in `hybrid`. `{"profile": "paper"}`: HippoRAG 2's
    facts and passages, without its LLM filter.""",
    source="HippoRAG 2, arXiv 2502.14802",
    options=("profile", "bm25_idf", "damping"),
    retrieve=_retrieve,
)
