"""Bridges: from names that the best chunks mention to chunks that answer the rest of the question.

"Who founded the company that Ann works for?" is answered in two steps: a chunk about Ann names the company, a chunk about the
company the founder. The second one is often among the first forty, for some words and the walk lead there, and not among the
first five. Nothing is embedded and no model is asked: the vector of a question that goes on to a name is the sum of those of
question and name.
"""

from dataclasses import dataclass
from typing import Any

from pg_graphrag.ground.numeric import Flags, Ids, NDArray, Scores, distinct, np, within
from pg_graphrag.search.graph_view.cached_graph import graph_of
from pg_graphrag.search.query.query import Query, timed
from pg_graphrag.search.query.rankings import Fused, best_places, leveled, ranking
from pg_graphrag.search.retrievers import dense
from pg_graphrag.search.retrievers.lexical import answered_rest
from pg_graphrag.search.retrievers.pagerank import Walk

# Chunks from which bridges lead, and chunks to which they may lead, of the best.
FROM, TO = 4, 40
# What a bridge is worth, in standard scores as hybrid sums them (docs/decisions/search.md): that two chunks mention a name, a
# standard deviation of the nearness to question and name, all that the first chunk leaves open of the question, and what is
# lost for each by which the first chunk is behind the best. With half and with twice of each all sets are as good.
LINK, NEARNESS, REST, BEHIND = 7.0, 3.0, 6.0, 0.8
# A cosine's noise as it counts here.
NOISE = 1e-4


@dataclass(frozen=True)
class _Bridges:
    """The best bridge to each of some chunks, (n,) each: its worth, 0 without one, the entity, and the chunk it leads from."""

    worth: Scores
    entities: Ids
    sources: Ids


@timed("bridges")
def with_bridges(query: Query, fused: Fused, walked: Walk) -> Fused:
    """Bring forward the chunks to which bridges lead, but not before the first chunk and those that the question names by title.

    Only where it names one: else a question is as a rule answered in one place, and names lead away from it.
    """
    if not (walked.is_titled and query.dense_works):
        return fused
    places = best_places(query, fused.ids, fused.scores, TO)
    bridges = _bridges(query, fused.ids[places], fused.scores[places], walked)
    if not bridges.worth.any():
        return fused
    worth = bridges.worth.copy()
    is_titled = within(fused.ids[places], walked.titled)
    is_titled[0] = True
    worth[is_titled] = worth.max()
    scores = fused.scores.copy()
    scores[places] += worth
    source = {
        chunk: (entity, source)
        for chunk, entity, source in zip(
            fused.ids[places].tolist(), bridges.entities.tolist(), bridges.sources.tolist(), strict=True
        )
    }

    def reason(chunk: int) -> dict[str, Any]:
        entity, from_chunk = source[chunk]
        return {"over": {"entity_id": entity, "key": graph_of(query).keys([entity])[entity]}, "from_chunk": from_chunk}

    led = np.flatnonzero((bridges.worth > 0) & ~is_titled)
    found = ranking("bridges", fused.ids[places[led]], worth[led], reason)
    return Fused(fused.ids, scores, [*fused.rankings, found])


def _bridges(query: Query, chunks: Ids, scores: Scores, walked: Walk) -> _Bridges:
    """Return the best bridge to each of `chunks`, which are best first with their `scores`, (n,) each."""
    none = _Bridges(np.zeros(len(chunks)), np.zeros(len(chunks), np.int64), np.zeros(len(chunks), np.int64))
    names, mentions = _shared_names(chunks, walked)
    vectors = dense.entity_vectors(query, names.tolist())
    mentions = mentions[within(names, np.array(list(vectors), np.int64))]
    if not len(mentions):
        return none
    nearness = _nearness(query, chunks, np.stack(list(vectors.values())))
    rest = answered_rest(query, chunks, chunks[:FROM])
    names = np.array(list(vectors), np.int64)
    for place in range(min(FROM, len(chunks))):
        leads = mentions & mentions[:, place, None]
        leads[:, place] = False
        worths = np.where(leads, LINK + NEARNESS * nearness, 0.0)
        best = worths.argmax(axis=0)
        worth = worths[best, np.arange(len(chunks))] + REST * rest[place] - BEHIND * (scores[0] - scores[place])
        is_better = leads.any(axis=0) & (worth > none.worth)
        none.worth[is_better] = worth[is_better]
        none.entities[is_better] = names[best[is_better]]
        none.sources[is_better] = chunks[place]
    return _Bridges(leveled(none.worth, NOISE), none.entities, none.sources)


def _shared_names(chunks: Ids, walked: Walk) -> tuple[Ids, NDArray[np.bool_]]:
    """Return the entities, ascending, that some of the first chunks and another one mention, and the question does not name.

    And which of `chunks` (n,) mention each, (entities, n).
    """
    order = np.argsort(chunks)
    is_edge = within(walked.chunks, chunks[order]) & ~walked.are_named & (walked.entity_ids >= 0)
    entities, of_edges = walked.entity_ids[is_edge], walked.chunks[is_edge]
    names = distinct(entities)
    mentions: Flags = np.zeros((len(names), len(chunks)), np.bool_)
    mentions[np.searchsorted(names, entities), order[np.searchsorted(chunks, of_edges, sorter=order)]] = True
    leads = mentions[:, :FROM].any(axis=1) & (mentions.sum(axis=1) > 1)
    return names[leads], mentions[leads]


def _nearness(query: Query, chunks: Ids, names: NDArray[np.float32]) -> NDArray[np.float64]:
    """Return (names, chunks): how near each chunk's best window is to question and name, in deviations from the mean."""
    order = np.argsort(chunks)
    owners, windows = dense.window_vectors(query, chunks[order])
    cosines = np.zeros((len(names), len(chunks)))
    if len(owners):
        sums = query.vector + names
        sums /= np.linalg.norm(sums, axis=1, keepdims=True)
        starts = np.flatnonzero(np.diff(owners, prepend=-1))
        best = np.maximum.reduceat((sums @ windows.T).astype(np.float64), starts, axis=1)
        cosines[:, order[np.searchsorted(chunks, owners[starts], sorter=order)]] = best
    cosines -= cosines.mean(axis=1, keepdims=True)
    deviation = cosines.std(axis=1, keepdims=True)
    nearness: NDArray[np.float64] = cosines / np.where(deviation > 0, deviation, 1.0)
    return nearness
