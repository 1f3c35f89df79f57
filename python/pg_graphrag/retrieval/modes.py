"""The modes: which retrievers each has, and how they are fused."""

from collections.abc import Callable

from pg_graphrag.errors import GraphRAGError
from pg_graphrag.numeric import np
from pg_graphrag.retrieval import dense, evidence_chunks, graph, lazy, mentions, themes, ties
from pg_graphrag.retrieval.lexical import bm25
from pg_graphrag.retrieval.pagerank import SEED_CHUNKS, pagerank
from pg_graphrag.retrieval.query import Query
from pg_graphrag.retrieval.rankings import Fused, Ranking, alone, reciprocal_rank, round_robin, standard_scores

# Chosen on the dev halves of LiHua-World and MuSiQue (bench/RESULTS.md).
HYBRID_WEIGHTS = {"windows": 1.0, "bm25": 1.0, "pagerank": 2.5}
# Where mentions are described, they are retrieved too, and what is walked from holds more.
DESCRIBED_WEIGHTS = {"windows": 1.0, "bm25": 1.0, "entity_mentions": 0.5, "relationship_mentions": 0.5, "pagerank": 4.0}

Mode = Callable[[Query, int], Fused]


def naive(query: Query, depth: int) -> Fused:
    """Chunks by the cosine of their best window."""
    return alone([dense.windows(query, depth)])


def keyword(query: Query, depth: int) -> Fused:
    """Chunks by Okapi BM25."""
    return alone([bm25(query, depth)])


def local(query: Query, depth: int) -> Fused:
    """LightRAG's low level: entities of the query, their relationships, and the chunks that mention them."""
    return alone(evidence_chunks.rank(query, {"local": graph.local_evidence(query)}, depth))


def global_(query: Query, depth: int) -> Fused:
    """LightRAG's high level: relationships of the theme, their endpoints, and the chunks that state them."""
    return alone(evidence_chunks.rank(query, {"global": graph.global_evidence(query)}, depth))


def hybrid(query: Query, depth: int) -> Fused:
    """Best: BM25, windows, described mentions and PageRank over the entity–chunk graph, fused.

    Paper: local and global, round-robin.
    """
    if query.options.profile == "paper":
        return round_robin(_dual_level(query, depth))
    direct = [bm25(query, depth)]
    if query.dense_works:
        direct.append(dense.windows(query, depth))
    else:
        query.notes["dense"] = f"left out: the embedder was not made for {', '.join(query.languages)}"
    weights = HYBRID_WEIGHTS
    if query.described:
        weights = DESCRIBED_WEIGHTS
        direct += _mentions(query, depth)
    fused = standard_scores(weights)(direct)
    first = fused.ids[ties.best(query, fused.ids, fused.scores, SEED_CHUNKS)].tolist()
    seeds = [(chunk, 1.0 / place) for place, chunk in enumerate(first, 1)]
    walked = pagerank(query, seeds, depth)
    return standard_scores(weights)([*direct, _logarithmic(walked)])


def mix(query: Query, depth: int) -> Fused:
    """LightRAG's mix: local, global and direct chunks, by reciprocal rank."""
    direct = dense.windows(query, depth) if query.dense_works else bm25(query, depth)
    return reciprocal_rank(query.options.rrf_k)([*_dual_level(query, depth), direct])


def _mentions(query: Query, depth: int) -> list[Ranking]:
    """Chunks by what a model said in them: of entities by the low-level keywords, of relationships by the high-level ones."""
    return [
        mentions.scored(query, what, keywords).rank(f"{what}_mentions", depth)
        for what, keywords in (("entity", query.low_level), ("relationship", query.high_level))
        if keywords
    ]


def _dual_level(query: Query, depth: int) -> list[Ranking]:
    evidence = {"local": graph.local_evidence(query), "global": graph.global_evidence(query)}
    return evidence_chunks.rank(query, evidence, depth)


def _logarithmic(walked: Ranking) -> Ranking:
    positive = walked.scores > 0
    return Ranking(walked.retriever, walked.ids[positive], np.log(walked.scores[positive]), walked.why)


MODES: dict[str, Mode] = {
    "naive": naive,
    "bm25": keyword,
    "local": local,
    "global": global_,
    "hybrid": hybrid,
    "mix": mix,
    "graph_local": themes.graph_local,
    "graph_global": themes.graph_global,
    "lazy": lazy.lazy,
}


def mode(name: str | None) -> Mode:
    """Return the mode called `name`; 22023 with the names there are."""
    if name not in MODES:
        raise GraphRAGError(f'unknown mode "{name}"', hint=f"Modes: {', '.join(MODES)}.")
    return MODES[name]
