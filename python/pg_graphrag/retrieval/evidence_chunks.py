"""The chunks that mention graph evidence, ranked."""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from pg_graphrag.numeric import np
from pg_graphrag.retrieval import dense, ties
from pg_graphrag.retrieval.cached_graph import graph_of
from pg_graphrag.retrieval.graph import Evidence
from pg_graphrag.retrieval.ids import numbered, within
from pg_graphrag.retrieval.query import Query
from pg_graphrag.retrieval.rankings import Ranking

# A hub entity or relationship is followed to this many chunks, those that mention it most.
MAX_CHUNKS_EACH = 200
# What a described mention counts beside the nearness of its chunk. The keywords it is scored by say less than the query.
MENTION_WEIGHT = 0.25


def rank(query: Query, evidence: Mapping[str, Evidence], limit: int) -> list[Ranking]:
    """Rank for each named evidence the chunks that mention it: by their own nearness to the query, and by how much they hold.

    Where a model described mentions, a chunk's best mention of the evidence counts besides.

    Nearness is the best window's cosine (LightRAG's VECTOR) with BM25; evidence counts with linear decay over the ranks
    (LightRAG's WEIGHT).
    """
    mentions = read_mentions(query, list(evidence.values()))
    held = {name: _Held.of(found, mentions) for name, found in evidence.items()}
    every, _ = numbered(np.concatenate([part.chunks for part in held.values()]))
    if not len(every):
        return [Ranking.empty(name) for name in evidence]
    cosines, lexical = _near(query, every)
    ranked = []
    for name, part in held.items():
        places = np.searchsorted(every, part.chunks)
        near = _mixed(query, None if cosines is None else cosines[places], None if lexical is None else lexical[places])
        scores = near + 0.1 * np.log1p(part.weights) + MENTION_WEIGHT * part.relevance()
        order = ties.best(query, part.chunks, scores, limit)
        ranked.append(Ranking(name, part.chunks[order], scores[order], part.why))
    return ranked


@dataclass
class _Held:
    """What the chunks hold of one evidence: `chunks` ascending with their `weights`; `rows` of (chunk, item, decay) by kind."""

    evidence: Evidence
    chunks: Any
    weights: Any
    rows: dict[str, tuple[Any, Any, Any]]

    @classmethod
    def of(cls, evidence: Evidence, mentions: Mapping[str, tuple[Any, Any]]) -> "_Held":
        rows = {}
        for kind, items in (("entity", evidence.entities), ("relationship", evidence.relationships)):
            chunks, mentioned = mentions[kind]
            ids = np.fromiter(items, np.int64, len(items))
            decays = np.fromiter(items.values(), float, len(items)) * (1 - np.arange(len(ids)) / (len(ids) + 1))
            by_id = np.argsort(ids)
            ids, decays = ids[by_id], decays[by_id]
            wanted = within(mentioned, ids)
            chunks, mentioned = chunks[wanted], mentioned[wanted]
            rows[kind] = chunks, mentioned, decays[np.searchsorted(ids, mentioned)]
        chunks, inverse = numbered(np.concatenate([row[0] for row in rows.values()]))
        weights = np.bincount(inverse, np.concatenate([row[2] for row in rows.values()]), len(chunks))
        return cls(evidence, chunks, weights, rows)

    def relevance(self) -> Any:
        """Return how near to the keywords the best described mention in each chunk is, (n,) float64; 0 where none is."""
        described = self.evidence.described
        if described is None:
            return 0.0
        return described.relevance(numbered(self.rows[described.what][1])[0], self.chunks)

    def why(self, chunk: int) -> dict[str, Any]:
        """Name the strongest entity and relationship that the chunk mentions."""
        said = {}
        for kind, strongest in self._strongest.items():
            if (item := strongest.get(chunk)) is not None:
                said[kind] = {"id": item, "because": self.evidence.why.get((kind, item))}
        return said

    @cached_property
    def _strongest(self) -> dict[str, dict[int, int]]:
        """By kind, {chunk: the item that counts most in it}; of equal ones the first."""
        found = {}
        for kind, (chunks, items, decays) in self.rows.items():
            order = np.lexsort((-np.arange(len(chunks)), decays, chunks))
            found[kind] = dict(zip(chunks[order].tolist(), items[order].tolist(), strict=True))
        return found


def read_mentions(query: Query, evidence: list[Evidence]) -> dict[str, tuple[Any, Any]]:
    """Return per kind (chunk ids, item ids) of visible mentions, at most MAX_CHUNKS_EACH per item."""
    entities = list({item: None for found in evidence for item in found.entities})
    relationships = list({item: None for found in evidence for item in found.relationships})
    return graph_of(query).mentions(entities, relationships, MAX_CHUNKS_EACH)


def nearness(query: Query, chunk_ids: Any) -> Any:
    """Return how near chunks, ids ascending, are to the query, (n,) float64 in 0 … 1: cosine and BM25 as the profile has it."""
    if not len(chunk_ids):
        return np.empty(0)
    return _mixed(query, *_near(query, chunk_ids))


def _near(query: Query, chunk_ids: Any) -> tuple[Any, Any]:
    """Return (cosines, BM25 scores) of chunks to the query; None for the one that the profile or the language rules out."""
    cosines = dense.score_chunks(query, chunk_ids) if query.dense_works else None
    if query.options.profile == "paper" and cosines is not None:
        return cosines, None
    index = query.bm25_index("chunk")
    return cosines, np.nan_to_num(index.score_items(query.terms, chunk_ids, idf=query.options.bm25_idf))


def _mixed(query: Query, cosines: Any, lexical: Any) -> Any:
    """Nearness in 0 … 1: cosine, and for the profile best its mean with BM25 (as a share of the best)."""
    if lexical is None:
        return cosines
    lexical = lexical / (lexical.max(initial=0.0) or 1.0)
    return lexical if cosines is None else (cosines + lexical) / 2
