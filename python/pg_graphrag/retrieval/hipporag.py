"""HippoRAG 2 as its paper has it (arXiv 2502.14802): PageRank from the endpoints of the facts nearest to the query.

Of the method its LLM filter of facts is left out: like other calls to models it would be a transform of its own. Read is the
neighbourhood of what is seeded, not the whole graph.
"""

from pg_graphrag.numeric import np
from pg_graphrag.retrieval import dense, graph
from pg_graphrag.retrieval.cached_graph import graph_of
from pg_graphrag.retrieval.lexical import bm25
from pg_graphrag.retrieval.pagerank import Graph, neighbourhood, spread, synonyms
from pg_graphrag.retrieval.query import Query
from pg_graphrag.retrieval.rankings import Ranking

# Facts and their endpoints that the mass starts from; passages besides, and what the nearest of them weighs.
FACTS = 5
PASSAGES = 100
PASSAGE_WEIGHT = 0.05


def hipporag(query: Query, limit: int) -> Ranking:
    """Rank chunks by a walk over facts, passages and synonyms; without facts by dense retrieval alone."""
    passages = dense.windows(query, PASSAGES) if query.dense_works else bm25(query, PASSAGES)
    facts = graph.stated(query, [query.text], FACTS)
    if not facts or not len(passages.ids):
        return passages
    best = facts[0]["score"] or 1.0
    given: dict[int, list[float]] = {}
    for fact in facts:
        for end in ("source_id", "target_id"):
            given.setdefault(fact[end], []).append(fact["score"] / best)
    counts = graph_of(query).mention_counts(list(given))
    entity_seeds = {entity: sum(scores) / len(scores) / max(counts[entity], 1) for entity, scores in given.items()}
    first = sorted(entity_seeds, key=lambda entity: (-entity_seeds[entity], entity))[:FACTS]
    entity_seeds = {entity: entity_seeds[entity] for entity in first}
    spread_of = float(np.ptp(passages.scores)) or 1.0
    near = PASSAGE_WEIGHT * (passages.scores - passages.scores.min()) / spread_of
    chunk_seeds = dict(zip(passages.ids.tolist(), near.tolist(), strict=True))
    made, _ = neighbourhood(query, entity_seeds, chunk_seeds, np.inf, synonyms(query, entity_seeds))
    facts_among = graph_of(query).among(np.unique(made.entities))
    related = facts_among.low, facts_among.high, facts_among.counts
    links = tuple(np.append(one, other) for one, other in zip(made.links, related, strict=True))
    made = Graph.of(made.entities, made.chunks, np.ones(len(made.chunks)), links)
    return spread(query, made, entity_seeds, chunk_seeds, limit)
