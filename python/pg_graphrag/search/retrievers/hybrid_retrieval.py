"""Hybrid retrieval: BM25, windows, described mentions and PageRank over the entity–chunk graph, fused."""

from pg_graphrag.ground.numeric import Flags, Ids, Scores, np, within
from pg_graphrag.search.graph_view import seeds
from pg_graphrag.search.graph_view.seeds import Mentions
from pg_graphrag.search.query.query import Query
from pg_graphrag.search.query.rankings import (
    NOISE,
    Coverage,
    Fused,
    Ranking,
    best_places,
    leveled_sums,
    ranking,
    round_robin,
    standard_scores,
)
from pg_graphrag.search.retrievers import dense, described_mentions, evidence_chunks, graph_evidence
from pg_graphrag.search.retrievers.bridges import with_bridges
from pg_graphrag.search.retrievers.lexical import bm25
from pg_graphrag.search.retrievers.named_dates import with_named_dates
from pg_graphrag.search.retrievers.other_rows import with_other_rows
from pg_graphrag.search.retrievers.pagerank import SEED_CHUNKS, Walk, pagerank
from pg_graphrag.search.retrievers.turns import with_turns

# Chosen on the dev halves of LiHua-World and MuSiQue (bench/RESULTS.md). Descriptions of entities and relationships
# by models give places to start from, and their chunks.
HYBRID_WEIGHTS = {"windows": 1.0, "bm25": 1.0, "entity_mentions": 0.0, "relationship_mentions": 0.0, "pagerank": 3.0}
# For a query that names a document by its title: the walk starts at the right place, so it counts more, and words less.
# From 6 to 8 all are as good.
TITLED_WEIGHTS = HYBRID_WEIGHTS | {"bm25": 0.5, "pagerank": 7.0}
# Turns of a conversation are found by the turns around them, to which names do not lead. From .5 to 1.5 all are as good.
TURNS_WEIGHTS = HYBRID_WEIGHTS | {"pagerank": 1.0}
# Weights of the rankings that choose the chunks from which the walk starts.
SEED_WEIGHTS = {"windows": 1.0, "bm25": 1.0, "entity_mentions": 0.5, "relationship_mentions": 0.5}
# How much more a chunk counts whose title the first chunk mentions, in standard scores. From 4 to 6 all are as good.
MENTIONED = 5.0
# Where these are more, the first chunk is a list, or one of them a long document: titles do not tell where to go on.
MAX_MENTIONED = 8
# Temperature of the softmax that weights these chunks.
TEMPERATURE = 0.5


def hybrid(query: Query, depth: int) -> Fused:
    """Best: BM25, windows, described mentions and PageRank over the entity–chunk graph, fused.

    Paper: local and global, round-robin.
    """
    if query.options.profile == "paper":
        return round_robin(both_levels(query, depth))
    direct = _direct(query, depth)
    walked = pagerank(query, _seeds(query, direct), depth)
    weights = HYBRID_WEIGHTS
    if query.corpus.options.conversation:
        weights, direct = TURNS_WEIGHTS, with_turns(query, direct)
    if len(walked.mentions.titled) and query.dense_works:
        weights = TITLED_WEIGHTS
    fused = standard_scores(weights)([*direct, _logarithmic(walked.ranking, direct[0].coverage)])
    fused = with_named_dates(query, fused)
    return with_bridges(query, _with_mentioned_titles(query, fused, walked.mentions), walked.mentions)


def walk(query: Query, depth: int) -> Walk:
    """Rank chunks by PageRank alone, from the query's entities and its best direct chunks."""
    return pagerank(query, _seeds(query, _direct(query, depth)), depth, with_synonyms=True)


def both_levels(query: Query, depth: int) -> list[Ranking]:
    """Rank chunks by the evidence of each of LightRAG's levels."""
    evidence = {"local": graph_evidence.local_evidence(query), "global": graph_evidence.global_evidence(query)}
    return evidence_chunks.rank(query, evidence, depth)


def _direct(query: Query, depth: int) -> list[Ranking]:
    """Return rankings of chunks by their own text and by their mentions."""
    by_words = bm25(query, depth)
    direct = [with_other_rows(query, by_words) if query.corpus.has_rows else by_words]
    if query.dense_works:
        direct.append(dense.windows(query, depth))
    return direct + _mentions(query, depth) if query.is_described else direct


def _seeds(query: Query, direct: list[Ranking]) -> list[tuple[int, float]]:
    """Return the chunks for a walk to start from: the best direct ones, each weighted by how much better than the others it
    is, and those with a date, number or identifier of the query.

    The weights are the softmax of the fused scores, the best one's being 1: a clear first place gets nearly all of the mass.
    """
    fusion = standard_scores(SEED_WEIGHTS)(direct)
    first = best_places(query, fusion.ids, fusion.scores, SEED_CHUNKS)
    shares = np.exp((fusion.scores[first] - fusion.scores.max(initial=-np.inf)) / TEMPERATURE)
    weights = dict(zip(fusion.ids[first].tolist(), shares.tolist(), strict=True))
    for chunk, weight in seeds.chunks(query).items():
        weights[chunk] = weights.get(chunk, 0.0) + weight
    return list(weights.items())


def _with_mentioned_titles(query: Query, fused: Fused, mentions: Mentions) -> Fused:
    """Bring forward, but not before the first chunk, those whose title it mentions beside what the query names.

    The second step of a question is often a document about somebody or something in the first one.
    """
    first = best_places(query, fused.ids, fused.scores, 1)
    if not len(first):
        return fused
    first_id = int(fused.ids[first[0]])
    mentioned = mentions.titled_by(first_id)
    mentioned = mentioned[within(mentioned, fused.ids)]
    if not 0 < len(mentioned) <= MAX_MENTIONED:
        return fused
    places = np.searchsorted(fused.ids, mentioned)
    former = leveled_sums(fused.scores[places])
    # One behind the other, as they were.
    ranks = 1 + np.searchsorted(np.sort(-former), -former)
    scores = fused.scores.copy()
    scores[places] = np.maximum(former, np.minimum(former + MENTIONED, scores[first] - NOISE * ranks))
    raised = ranking("titles", mentioned, leveled_sums(scores[places] - former), lambda _: {"mentioned_by": first_id})
    return Fused(fused.ids, scores, [*fused.rankings, raised])


def _mentions(query: Query, depth: int) -> list[Ranking]:
    """Rank chunks by described mentions: of entities by the low-level keywords, of relationships by the high-level ones."""
    return [
        described_mentions.scored(query, kind, keywords).rank(f"{kind}_mentions", depth)
        for kind, keywords in (("entity", query.low_level), ("relationship", query.high_level))
        if keywords
    ]


def _logarithmic(walked: Ranking, of_words: Coverage | None) -> Ranking:
    """Return a walk with the logarithms of its scores; chunks in other languages than the query count as in the words'
    ranking.

    A walk follows names, and starts where words found something.
    """

    def coverage(chunks: Ids) -> tuple[Scores, Flags]:
        share, is_foreign = of_words(chunks) if of_words else (np.ones(len(chunks)), np.zeros(len(chunks), bool))
        return np.where(is_foreign, share, 1.0), is_foreign

    positive = walked.scores > 0
    return Ranking(
        walked.retriever, walked.ids[positive], np.log(walked.scores[positive]), walked.reason, coverage=coverage
    )
