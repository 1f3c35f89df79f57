"""The chunks that mention graph evidence, ranked."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from pg_graphrag.ground.numeric import Ids, Scores, difference, distinct, np, numbered, sums, within
from pg_graphrag.search.graph_view.cached_graph import graph_of
from pg_graphrag.search.query.query import Query, once, timed
from pg_graphrag.search.query.rankings import Ranking, best_places, leveled_sums
from pg_graphrag.search.retrievers import dense
from pg_graphrag.search.retrievers.graph_evidence import Evidence, concept_weights
from pg_graphrag.search.retrievers.lexical import bm25
from pg_graphrag.server import cached_property

# Chunks that are read for a hub: those that mention it most, and among so many nearest the query by BM25 and by windows
# those that mention it at all.
MAX_CHUNKS_EACH = 200
NEAR_CHUNKS = 100
# Weight of a described mention beside the nearness of its chunk: its keywords say less than the query.
MENTION_WEIGHT = 0.25


@timed("graph")
def rank(query: Query, evidence: Mapping[str, Evidence], limit: int) -> list[Ranking]:
    """Rank for each named evidence the chunks that mention it: by their own nearness to the query and by the evidence in
    them.

    If a model described mentions, a chunk's best mention of the evidence counts too.

    Nearness is the best window's cosine (LightRAG's VECTOR) with BM25; evidence counts with linear decay over the ranks
    (LightRAG's WEIGHT).
    """
    mentions = read_mentions(query, list(evidence.values()))
    parts = {name: _EvidenceChunks.of(query, source, mentions) for name, source in evidence.items()}
    chunk_ids, _ = numbered(np.concatenate([part.chunks for part in parts.values()]))
    if not len(chunk_ids):
        return [Ranking.empty(name) for name in evidence]
    cosines, lexical = _text_scores(query, chunk_ids)
    rankings = []
    for name, part in parts.items():
        places = np.searchsorted(chunk_ids, part.chunks)
        scores_of_text = _mixed(
            None if cosines is None else cosines[places], None if lexical is None else lexical[places]
        )
        scores = leveled_sums(scores_of_text + 0.1 * np.log1p(part.weights) + MENTION_WEIGHT * part.relevance())
        order = best_places(query, part.chunks, scores, limit)
        rankings.append(Ranking(name, part.chunks[order], scores[order], part.reason))
    return rankings


@dataclass
class _EvidenceChunks:
    """The chunks of one evidence: `chunks` ascending with their `weights`; `rows` of (chunk, item, decay) by kind.

    Entities and weak concepts add up.
    """

    evidence: Evidence
    chunks: Ids
    weights: Scores
    rows: dict[str, tuple[Ids, Ids, Scores]]

    @classmethod
    def of(cls, query: Query, evidence: Evidence, mentions: Mapping[str, tuple[Ids, Ids]]) -> "_EvidenceChunks":
        rows = {}
        for kind, items in (("entity", evidence.entities), ("relationship", evidence.relationships)):
            chunks, item_ids = mentions[kind]
            ids = np.fromiter(items, np.int64, len(items))
            decays = np.fromiter(items.values(), float, len(items)) * (1 - np.arange(len(ids)) / (len(ids) + 1))
            by_id = np.argsort(ids)
            ids, decays = ids[by_id], decays[by_id]
            is_evidence = within(item_ids, ids)
            chunks, item_ids = chunks[is_evidence], item_ids[is_evidence]
            rows[kind] = chunks, item_ids, decays[np.searchsorted(ids, item_ids)]
        named, named_weights = concept_weights(query, evidence.concepts)
        chunks, inverse = numbered(np.concatenate([*(row[0] for row in rows.values()), named]))
        weights = sums(inverse, np.concatenate([*(row[2] for row in rows.values()), named_weights]), len(chunks))
        return cls(evidence, chunks, weights, rows)

    def relevance(self) -> Scores:
        """Return the nearness to the keywords of the best described mention in each chunk, (n,) float64; 0 without one."""
        scored = self.evidence.scored_mentions
        if scored is None:
            return np.zeros(len(self.chunks))
        relevance: Scores = scored.relevance(numbered(self.rows[scored.what][1])[0], self.chunks)
        return relevance

    def reason(self, chunk: int) -> dict[str, Any]:
        """Name the strongest entity and relationship that the chunk mentions."""
        reasons: dict[str, Any] = {}
        for kind, strongest in self._strongest.items():
            if (item := strongest.get(chunk)) is not None:
                reasons[kind] = {"id": item, "because": self.evidence.reasons.get((kind, item))}
        return reasons or {"because": "concepts in it that are not in the graph"}

    @cached_property
    def _strongest(self) -> dict[str, dict[int, int]]:
        """By kind, {chunk: the item that counts most in it}; of equal ones the first."""
        strongest = {}
        for kind, (chunks, items, decays) in self.rows.items():
            order = np.lexsort((-np.arange(len(chunks)), decays, chunks))
            strongest[kind] = dict(zip(chunks[order].tolist(), items[order].tolist(), strict=True))
        return strongest


def read_mentions(query: Query, evidence: list[Evidence]) -> dict[str, tuple[Ids, Ids]]:
    """Return per kind (chunk ids, item ids) of visible mentions, at most MAX_CHUNKS_EACH per item.

    For a hub entity also those in the chunks nearest the query, except with the profile paper.
    """
    entities = list({item: None for source in evidence for item in source.entities})
    relationships = list({item: None for source in evidence for item in source.relationships})
    mentions = graph_of(query).mentions(entities, relationships, MAX_CHUNKS_EACH)
    if query.options.profile == "paper":
        return mentions
    return mentions | {"entity": _with_near_chunks(query, *mentions["entity"])}


def _with_near_chunks(query: Query, chunks: Ids, entities: Ids) -> tuple[Ids, Ids]:
    """Add to mentions, (n,) each, those of hubs in the chunks that are nearest the query.

    Equal chunks of a hub are read in the order of source keys, so the answer would depend on how its document is called.
    """
    ids, counts = np.unique(entities, return_counts=True)
    hubs = ids[counts >= MAX_CHUNKS_EACH]
    if not len(hubs):
        return chunks, entities
    near_entities, near_chunks, *_ = graph_of(query).edges_of_chunks(_near_chunks(query), np.inf)
    for hub in hubs.tolist():
        added = difference(near_chunks[near_entities == hub], chunks[entities == hub])
        chunks, entities = np.append(chunks, added), np.append(entities, np.full(len(added), hub))
    return chunks, entities


@once
def _near_chunks(query: Query) -> Ids:
    """Return the chunks that are nearest the query by BM25 and by windows, ascending."""
    rankings = [bm25(query, NEAR_CHUNKS)]
    if query.dense_works:
        rankings.append(dense.windows(query, NEAR_CHUNKS))
    return distinct(np.concatenate([ranked.ids for ranked in rankings]))


@timed("graph")
def nearness(query: Query, chunk_ids: Ids) -> Scores:
    """Return how near chunks, ids ascending, are to the query, (n,) float64 in 0 … 1: cosine and BM25, weighted by the
    profile.
    """
    if not len(chunk_ids):
        return np.empty(0)
    return _mixed(*_text_scores(query, chunk_ids))


def _text_scores(query: Query, chunk_ids: Ids) -> tuple[Scores | None, Scores | None]:
    """Return (cosines, BM25 scores) of chunks to the query; None for the one that the profile or the language rules out."""
    cosines = dense.score_chunks(query, chunk_ids) if query.dense_works else None
    if query.options.profile == "paper" and cosines is not None:
        return cosines, None
    with query.step("bm25"):
        index = query.bm25_index("chunk")
        return cosines, np.nan_to_num(index.score_items(query.terms, chunk_ids, idf=query.options.bm25_idf))


def _mixed(cosines: Scores | None, lexical: Scores | None) -> Scores:
    """Nearness in 0 … 1: cosine, and for the profile best its mean with BM25 (as a share of the best)."""
    if lexical is None:
        assert cosines is not None
        return cosines
    lexical = lexical / (lexical.max(initial=0.0) or 1.0)
    return lexical if cosines is None else (cosines + lexical) / 2
