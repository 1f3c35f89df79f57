"""The modes: which retrievers each has, and how they are fused."""

from collections.abc import Callable

from pg_graphrag.errors import GraphRAGError
from pg_graphrag.numeric import np
from pg_graphrag.retrieval import dense, drift, evidence_chunks, graph, lazy, mentions, paths, seeds, themes, ties
from pg_graphrag.retrieval.hipporag import hipporag
from pg_graphrag.retrieval.lexical import bm25
from pg_graphrag.retrieval.pagerank import SEED_CHUNKS, pagerank
from pg_graphrag.retrieval.query import Query
from pg_graphrag.retrieval.rankings import (
    Fused,
    Ranking,
    alone,
    one_behind_the_other,
    reciprocal_rank,
    round_robin,
    standard_scores,
)

# Chosen on the dev halves of LiHua-World and MuSiQue (bench/RESULTS.md). What models said of entities and relationships says
# where to start, and brings its chunks along.
HYBRID_WEIGHTS = {"windows": 1.0, "bm25": 1.0, "entity_mentions": 0.0, "relationship_mentions": 0.0, "pagerank": 3.0}
# Where the query names a document by its title, the walk starts at the right place, and its words have done their part.
TITLED_WEIGHTS = HYBRID_WEIGHTS | {"bm25": 0.5, "pagerank": 4.0}
# Of what chooses the chunks from which the walk starts.
SEED_WEIGHTS = {"windows": 1.0, "bm25": 1.0, "entity_mentions": 0.5, "relationship_mentions": 0.5}
# Of the softmax that weights the direct chunks from which the walk starts.
TEMPERATURE = 0.5

Mode = Callable[[Query, int], Fused]


def naive(query: Query, depth: int) -> Fused:
    """Chunks by the cosine of their best window."""
    return alone([dense.windows(query, depth)])


def keyword(query: Query, depth: int) -> Fused:
    """Chunks by Okapi BM25."""
    return alone([bm25(query, depth, with_passage=True)])


def local(query: Query, depth: int) -> Fused:
    """LightRAG's low level: entities of the query, their relationships, and the chunks that mention them."""
    return alone(_by_evidence(query, depth, "local"))


def global_(query: Query, depth: int) -> Fused:
    """LightRAG's high level: relationships of the theme, their endpoints, and the chunks that state them."""
    return alone(_by_evidence(query, depth, "global"))


def hybrid(query: Query, depth: int) -> Fused:
    """Best: BM25, windows, described mentions and PageRank over the entity–chunk graph, fused.

    Paper: local and global, round-robin.
    """
    if query.options.profile == "paper":
        return round_robin(_by_evidence(query, depth, "local", "global"))
    direct = _direct(query, depth)
    walked, is_titled = pagerank(query, _seeds(query, direct), depth)
    weights = TITLED_WEIGHTS if is_titled and query.dense_works else HYBRID_WEIGHTS
    return standard_scores(weights)([*direct, _logarithmic(walked)])


def ppr(query: Query, depth: int) -> Fused:
    """Chunks by personalised PageRank over entities, chunks and synonyms.

    Best: from the query's entities and its best direct chunks. Paper: from facts and passages, HippoRAG 2.
    """
    if query.options.profile == "paper":
        return alone([hipporag(query, depth)])
    walked, _ = pagerank(query, _seeds(query, _direct(query, depth)), depth, linked=True)
    return alone([walked])


def mix(query: Query, depth: int) -> Fused:
    """LightRAG's mix: local, global and direct chunks. Best: by reciprocal rank. Paper: round-robin."""
    direct = dense.windows(query, depth) if query.dense_works else bm25(query, depth)
    fuse = round_robin if query.options.profile == "paper" else reciprocal_rank(query.options.rrf_k)
    return fuse([*_by_evidence(query, depth, "local", "global"), direct])


def path(query: Query, depth: int) -> Fused:
    """MiniRAG's paths, alone (then direct chunks behind them, but in its own code's way), or fused with BM25."""
    voted = paths.rank(query, depth)
    if query.options.fuse != "none":
        return reciprocal_rank(query.options.rrf_k)([voted, bm25(query, depth)])
    if not query.dense_works:
        return alone([voted])
    return one_behind_the_other([voted, dense.windows(query, depth)])


def _direct(query: Query, depth: int) -> list[Ranking]:
    """Rankings of chunks by what they and their mentions say."""
    direct = [bm25(query, depth)]
    if query.dense_works:
        direct.append(dense.windows(query, depth))
    else:
        query.notes["dense"] = f"left out: the embedder was not made for {query.foreign or ', '.join(query.languages)}"
    return direct + _mentions(query, depth) if query.described else direct


def _seeds(query: Query, direct: list[Ranking]) -> list[tuple[int, float]]:
    """Return the chunks for a walk to start from: the best direct ones, each weighted by how much better than the others it
    is, and those with a date, number or identifier of the query.

    The weights are the softmax of the fused scores, the best one's being 1: a clear first place gets nearly all of the mass.
    """
    fused = standard_scores(SEED_WEIGHTS)(direct)
    first = ties.best(query, fused.ids, fused.scores, SEED_CHUNKS)
    shares = np.exp((fused.scores[first] - fused.scores.max(initial=-np.inf)) / TEMPERATURE)
    found = dict(zip(fused.ids[first].tolist(), shares.tolist(), strict=True))
    for chunk, weight in seeds.chunks(query).items():
        found[chunk] = found.get(chunk, 0.0) + weight
    return list(found.items())


def _mentions(query: Query, depth: int) -> list[Ranking]:
    """Chunks by what a model said in them: of entities by the low-level keywords, of relationships by the high-level ones."""
    return [
        mentions.scored(query, what, keywords).rank(f"{what}_mentions", depth)
        for what, keywords in (("entity", query.low_level), ("relationship", query.high_level))
        if keywords
    ]


def _by_evidence(query: Query, depth: int, *levels: str) -> list[Ranking]:
    """Chunks by the evidence of LightRAG's levels, one ranking of each."""
    found = {"local": graph.local_evidence, "global": graph.global_evidence}
    return evidence_chunks.rank(query, {level: found[level](query) for level in levels}, depth)


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
    "path": path,
    "ppr": ppr,
    "graph_local": themes.graph_local,
    "graph_global": themes.graph_global,
    "drift": drift.drift,
    "lazy": lazy.lazy,
}


def mode(name: str | None) -> Mode:
    """Return the mode called `name`; 22023 with the names there are."""
    if name not in MODES:
        said = "mode cannot be null" if name is None else f'unknown mode "{name}"'
        raise GraphRAGError(said, hint=f"Modes: {', '.join(MODES)}.")
    return MODES[name]
