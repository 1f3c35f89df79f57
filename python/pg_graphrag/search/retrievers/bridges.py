"""Bridges: from names that the best chunks mention to chunks that answer the rest of the question.

"Who founded the company that Ann works for?" is answered in two steps: a chunk about Ann names the company, a chunk
about the company names the founder. The second chunk is often among the first forty, because some words and the walk
lead there, but not among the first five. Nothing is embedded and no model is asked: the vector of a question that goes
on to a name is the sum of the vectors of question and name.
"""

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from pg_graphrag.ground.numeric import Flags, Ids, NDArray, Scores, distinct, int64s, np, packed, places_of, within
from pg_graphrag.search.graph_view.cached_graph import graph_of
from pg_graphrag.search.graph_view.seeds import Mentions, mentions_in
from pg_graphrag.search.query.query import Query, timed
from pg_graphrag.search.query.rankings import Fused, best_places, leveled, ranking
from pg_graphrag.search.retrievers import dense
from pg_graphrag.search.retrievers.lexical import answered_rest

# Chunks from which bridges lead, and chunks to which they may lead, of the best.
FROM, TO = 4, 40
# What a bridge is worth, in standard deviations of the scores of these (docs/decisions/search.md): that two chunks mention a
# name, a deviation of the nearness to question and name, and all that the first chunk leaves open of the question. What the first
# chunk is behind the best is subtracted. With two thirds and with twice of it all sets are about as good.
LINK, NEARNESS, REST = 1.4, 0.6, 1.2
# Chunks of a document that the question names by its title which stay before what bridges lead to: a long one has many.
OF_TITLE = 2
# Less of the mass of the best chunk counts as so much: logarithms of what a walk hardly reaches have no bound.
LEAST_MASS = 1e-3
# A cosine's noise as it counts here.
NOISE = 1e-4

_DOCUMENTS = f"""
SELECT {packed("c.id", documents="c.document_id")}
  FROM graphrag.chunks c
 WHERE c.id = ANY ($1)
"""


@dataclass(frozen=True)
class _Bridges:
    """The best bridge to each of some chunks, (n,) each: its worth, the entity, and the chunk it leads from; 0 without one.

    `keys`: of the entities.
    """

    worth: Scores
    entities: Ids
    sources: Ids
    keys: Mapping[int, str]


@timed("bridges")
def with_bridges(query: Query, fused: Fused, mentions: Mentions | None = None, *, are_masses: bool = False) -> Fused:
    """Bring forward the chunks to which bridges lead, but not before the first chunk and the best of titles in the question.

    Only where it names one: else a question is as a rule answered in one place, and names lead away from it.

    `mentions`: those that are known, of the best chunks. `are_masses`: whether scores are compared by their logarithms.
    """
    places = best_places(query, fused.ids, fused.scores, TO)
    chunks, scores = fused.ids[places], fused.scores[places]
    if are_masses and len(scores):
        scores = np.log(np.maximum(scores, LEAST_MASS * scores[0]))
    deviation = float(scores.std()) if len(scores) else 0.0
    if not (deviation and query.dense_works) or query.options.profile == "paper":
        return fused
    mentions = mentions or mentions_in(query, chunks)
    if not len(mentions.titled):
        return fused
    documents = _documents(query, chunks)
    bridges = _bridges(query, chunks, documents, (scores[0] - scores) / deviation, mentions)
    if not bridges.sources.any():
        return fused
    stay = _stay(chunks, documents, mentions.titled)
    worth = np.where(stay, bridges.worth.max(), bridges.worth) * deviation
    is_led_to = (bridges.sources > 0) & ~stay
    if are_masses:
        # The first chunk keeps its mass, and all others have the less.
        bridged = fused.scores * np.exp(-worth.max())
        raised = stay | is_led_to
        bridged[places[raised]] = np.exp(scores + worth - worth.max())[raised]
    else:
        bridged = fused.scores.copy()
        bridged[places] += worth
    place_of = {chunk: place for place, chunk in enumerate(chunks.tolist())}

    def reason(chunk: int) -> dict[str, Any]:
        entity, source = int(bridges.entities[place_of[chunk]]), int(bridges.sources[place_of[chunk]])
        return {"over": {"entity_id": entity, "key": bridges.keys[entity]}, "from_chunk": source}

    of_bridges = ranking("bridges", chunks[is_led_to], bridges.worth[is_led_to], reason)
    return Fused(fused.ids, bridged, [*fused.rankings, of_bridges])


def _bridges(query: Query, chunks: Ids, documents: Ids, behind: Scores, mentions: Mentions) -> _Bridges:
    """Return the best bridge to each of `chunks`, (n,), best first, from another one's document.

    `documents`: of each chunk; `behind`: by how many deviations each is behind the first.
    """
    count = len(chunks)
    worth, entities, sources = np.zeros(count), np.zeros(count, np.int64), np.zeros(count, np.int64)
    names, mention = _shared_names(chunks, mentions)
    keys = graph_of(query).keys(names.tolist())
    # Not what stands in the question, as a part of a title, say.
    runs = set(query.run_keys)
    vectors = dense.entity_vectors(query, [entity for entity in names.tolist() if keys[entity] not in runs])
    # Of two that are as near the first by its key: ids depend on the order of ingestion.
    over = np.array(sorted(vectors, key=lambda entity: keys[entity].encode()), np.int64)
    if len(over):
        mention = mention[np.searchsorted(names, over)]
        nearness = _nearness(query, chunks, np.stack([vectors[entity] for entity in over.tolist()]))
        rest = answered_rest(query, chunks, chunks[:FROM])
        for place in range(min(FROM, count)):
            leads = mention & mention[:, place, None] & (documents != documents[place])
            by_name = np.where(leads, LINK + NEARNESS * nearness, -np.inf)
            best = by_name.argmax(axis=0)
            worth_from = by_name[best, np.arange(count)] + REST * rest[place] - behind[place]
            is_better = worth_from > worth
            worth[is_better], sources[is_better] = worth_from[is_better], chunks[place]
            entities[is_better] = over[best[is_better]]
    is_led_to = sources > 0
    worth[is_led_to] = leveled(worth[is_led_to], NOISE)
    return _Bridges(worth, entities, sources, keys)


def _documents(query: Query, chunks: Ids) -> Ids:
    """Return the document of each chunk, (n,)."""
    documents = np.empty(len(chunks), np.int64)
    documents[np.argsort(chunks)] = int64s(query.db.value(_DOCUMENTS, ["int8[]"], [chunks.tolist()]))
    return documents


def _stay(chunks: Ids, documents: Ids, titled: Ids) -> Flags:
    """Return which of `chunks`, (n,), best first, stay in front: the first, and of each document that is titled the best."""
    counts = Counter[int]()
    stay = within(chunks, titled)
    for place in np.flatnonzero(stay).tolist():
        counts[documents[place]] += 1
        stay[place] = counts[documents[place]] <= OF_TITLE
    stay[:1] = True
    return stay


def _shared_names(chunks: Ids, mentions: Mentions) -> tuple[Ids, NDArray[np.bool_]]:
    """Return the entities, ascending, that some of the first chunks and another one mention, and the question does not name.

    And which of `chunks` (n,) mention each, (entities, n).
    """
    are_meant = within(mentions.chunks, distinct(chunks)) & ~mentions.are_named & (mentions.entity_ids >= 0)
    entities, owners = mentions.entity_ids[are_meant], mentions.chunks[are_meant]
    names = distinct(entities)
    mention: Flags = np.zeros((len(names), len(chunks)), np.bool_)
    mention[np.searchsorted(names, entities), places_of(owners, chunks)] = True
    leads = mention[:, :FROM].any(axis=1) & (mention.sum(axis=1) > 1)
    return names[leads], mention[leads]


def _nearness(query: Query, chunks: Ids, names: NDArray[np.float32]) -> NDArray[np.float64]:
    """Return (names, chunks): how near each chunk's best window is to question and name, in deviations from the mean."""
    owners, windows = dense.window_vectors(query, distinct(chunks))
    cosines = np.zeros((len(names), len(chunks)))
    if len(owners):
        sums = query.vector + names
        sums /= np.linalg.norm(sums, axis=1, keepdims=True)
        starts = np.flatnonzero(np.diff(owners, prepend=-1))
        best = np.maximum.reduceat((sums @ windows.T).astype(np.float64), starts, axis=1)
        cosines[:, places_of(owners[starts], chunks)] = best
    cosines -= cosines.mean(axis=1, keepdims=True)
    deviation = cosines.std(axis=1, keepdims=True)
    nearness: NDArray[np.float64] = cosines / np.where(deviation > 0, deviation, 1.0)
    return nearness
