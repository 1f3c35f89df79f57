"""Personalised PageRank over the graph of entities and chunks around a query.

Source: HippoRAG (arXiv 2405.14831, 2502.14802), with idf edge weights, few direct seeds and hub entities left out
(DESIGN.md 6). The graph is read from where the mass starts, not as a whole.
"""

import math
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any

from pg_graphrag.numeric import np
from pg_graphrag.retrieval import dense, seeds, ties
from pg_graphrag.retrieval.query import Query, int64s
from pg_graphrag.retrieval.rankings import Ranking
from pg_graphrag.text.concepts import key

# An entity in more than this share of the chunks says nothing about where to look (below MIN_HUB chunks it is none).
HUB_SHARE = 0.05
MIN_HUB = 20
# The neighbourhood: chunks that the seeds reach in one step through an entity, those with most mass. Fewer where chunks
# are long and mention much, so that a query reads about MAX_EDGES mentions. Tried on the dev questions: 300 chunks rank as
# 1500 do, 120 nearly so.
MAX_CHUNKS = 300
MIN_CHUNKS = 40
MAX_EDGES = 3000
SEED_CHUNKS = 10
# The edge between a document and what it is called counts so much more: it is what the document is about.
TITLE_WEIGHT = 5.0
# Entities with names at least this near are linked, each to so many (HippoRAG 2: synonymy edges).
SYNONYM = 0.8
MAX_SYNONYMS = 10
# What is left unspread after the last step: damping ** steps.
RESIDUAL = 1e-9
# Flows that differ by a smaller share are equal.
EQUAL = 1e-9

_BRACKETS = re.compile(r"\s*[(（].*?[)）]\s*$")


@dataclass(frozen=True)
class Graph:
    """Undirected weighted edges.

    `entities`, `chunks`, `weights` (m,) each; `links` of entities: (one, other, weight), (k,) each.
    """

    entities: Any
    chunks: Any
    weights: Any
    links: tuple[Any, Any, Any]

    @classmethod
    def of(cls, entities: Any, chunks: Any, weights: Any, links: Any = None) -> "Graph":
        """Make a graph; of `links` those are kept whose ends are in it."""
        none = (np.empty(0, np.int64), np.empty(0, np.int64), np.empty(0))
        one, other, weight = none if links is None else links
        kept = np.isin(one, entities) & np.isin(other, entities)
        return cls(entities, chunks, weights, (one[kept], other[kept], weight[kept]))


def pagerank(query: Query, direct: Sequence[tuple[int, float]], limit: int, *, linked: bool = False) -> Ranking:
    """Rank chunks by the mass of a walk that restarts at the query's entities and chunks found directly.

    Parameters
    ----------
    direct : (chunk id, weight) of the chunks to start from besides.
    linked : whether names like those of the query's entities are walked to as well.
    """
    count = _chunk_count(query)
    hub = max(HUB_SHARE * count, MIN_HUB)
    entity_seeds = seeds.entities(query, hub)
    chunk_seeds = dict(direct)
    if not entity_seeds and not chunk_seeds:
        return Ranking.empty("pagerank")
    links = synonyms(query, entity_seeds if linked else ())
    graph = neighbourhood(query, entity_seeds, chunk_seeds, hub, links)
    return spread(query, graph, entity_seeds, chunk_seeds, limit)


def spread(
    query: Query, graph: Graph, entity_seeds: dict[int, float], chunk_seeds: dict[int, float], limit: int
) -> Ranking:
    """Rank the `limit` best chunks of a graph by their mass."""
    ids, mass, flow = walk(graph, entity_seeds, chunk_seeds, query.options.damping)
    order = ties.best(query, ids, mass, limit)
    ids, mass = ids[order], mass[order]
    through = cache(lambda: _through(query, graph.entities, graph.chunks, flow, ids))

    def why(chunk: int) -> dict[str, Any]:
        said: dict[str, Any] = {"seed": chunk in chunk_seeds}
        if chunk in through():
            entity, key = through()[chunk]
            said |= {"through": {"entity_id": entity, "key": key}}
        return said

    return Ranking("pagerank", ids, mass, why)


def _through(query: Query, entities: Any, chunks: Any, flow: Any, wanted: Any) -> dict[int, tuple[int, str]]:
    """Return for each wanted chunk the entity (id, key) through which most of its mass came; ties: the smallest key.

    A seed that mentions no entity of the graph has none.
    """
    here = np.isin(chunks, wanted)
    entities, chunks, flow = entities[here], chunks[here], flow[here]
    _, place = np.unique(chunks, return_inverse=True)
    most = np.zeros(len(wanted))
    np.maximum.at(most, place, flow)
    strongest = flow >= most[place] * (1 - EQUAL)
    entities, chunks = entities[strongest], chunks[strongest]
    rows = query.db.query(
        "SELECT e.id, e.key FROM graphrag.entities e WHERE e.id = ANY ($1) ORDER BY e.key DESC",
        ["int8[]"],
        [np.unique(entities).tolist()],
    )
    order = {row["id"]: (place, row["key"]) for place, row in enumerate(rows)}
    by_key = sorted(zip(chunks.tolist(), entities.tolist(), strict=True), key=lambda edge: order[edge[1]][0])
    return {chunk: (entity, order[entity][1]) for chunk, entity in by_key}


def _chunk_count(query: Query) -> int:
    return query.bm25_index("chunk").statistics()[0]


# Packed, because thousands of rows would take longer to become Python objects than to read: tf (at most 3) above df.
_EDGES = """
SELECT pg_catalog.string_agg(pg_catalog.int8send(m.entity_id), ''::bytea) AS entities,
       pg_catalog.string_agg(pg_catalog.int8send(m.chunk_id), ''::bytea) AS chunks,
       pg_catalog.string_agg(pg_catalog.int8send(least(m.tf, 3)::int8 << 32 | e.mention_count), ''::bytea) AS counts
  FROM graphrag.entity_mentions m
  JOIN graphrag.entities e ON e.id = m.entity_id
 WHERE m.{column} = ANY ($1)
   AND e.mention_count <= $2
   AND ($3 IS NULL OR m.document_id = ANY ($3))
"""


def _edges(query: Query, column: str, ids: Any, hub: float, count: int) -> tuple[Any, Any, Any]:
    """Return (entity ids, chunk ids, weights) of visible mentions; weight = log(1 + N / df) · min(tf, 3)."""
    wanted = [int(item) for item in ids]
    row = query.db.query(
        _EDGES.format(column=column), ["int8[]", "float8", "int8[]"], [wanted, hub, query.visible_ids]
    )[0]
    counts = int64s(row["counts"])
    tf, df = counts >> 32, counts & 0xFFFFFFFF
    return int64s(row["entities"]), int64s(row["chunks"]), np.log1p(count / np.maximum(df, 1)) * tf


def neighbourhood(
    query: Query,
    entity_seeds: dict[int, float],
    chunk_seeds: dict[int, float],
    hub: float,
    links: tuple[Any, Any, Any],
) -> Graph:
    """Read the edges around the seeds: entities of the seed chunks, the chunks of all those, and all entities of these.

    Entities in more than `hub` chunks are left out; `links` are the synonym edges.
    """
    count = _chunk_count(query)
    entities, _, _ = _edges(query, "chunk_id", list(chunk_seeds), hub, count)
    size = len(entities) // max(len(chunk_seeds), 1)
    most = min(max(MAX_EDGES // max(size, 1), MIN_CHUNKS), MAX_CHUNKS)
    first = np.unique(np.concatenate([entities, np.array(sorted(entity_seeds), np.int64), links[1]]))
    near = Graph.of(*_edges(query, "entity_id", first, hub, count), links)
    reached, mass, _ = walk(near, entity_seeds, chunk_seeds, query.options.damping)
    if len(reached) > most:
        reached = reached[ties.best(query, reached, mass, most)]
    reached = np.union1d(reached, np.array(sorted(chunk_seeds), np.int64))
    entities, chunks, weights = _edges(query, "chunk_id", reached, hub, count)
    return Graph.of(entities, chunks, weights * np.where(_titled(query, entities, chunks), TITLE_WEIGHT, 1.0), links)


def _titled(query: Query, entities: Any, chunks: Any) -> Any:
    """Return of which edges the entity is what the document is called, (m,) bool; without what a title adds in brackets."""
    titles = query.db.query(
        "SELECT c.id, d.title FROM graphrag.chunks c JOIN graphrag.documents d ON d.id = c.document_id"
        " WHERE c.id = ANY ($1) AND d.title <> ''",
        ["int8[]"],
        [np.unique(chunks).tolist()],
    )
    called = {row["id"]: _names(row["title"]) for row in titles}
    rows = query.db.query(
        'SELECT e.id, e.key FROM graphrag.entities e WHERE e.corpus_id = $1 AND e.key = ANY ($2 COLLATE "C")',
        ["int4", "text[]"],
        [query.corpus.id, sorted(set().union(*called.values()))],
    )
    entity = {row["key"]: row["id"] for row in rows}
    pairs = [(entity[name], chunk) for chunk, names in called.items() for name in names if name in entity]
    titled = np.zeros(len(entities), np.bool_)
    if pairs:
        order = np.lexsort((chunks, entities))
        for owner, chunk in pairs:
            first, last = np.searchsorted(entities, [owner, owner + 1], sorter=order)
            here = order[first:last]
            titled[here[chunks[here] == chunk]] = True
    return titled


def _names(title: str) -> set[str]:
    """Return the keys under which a document's title may name an entity."""
    names = {key(title)}
    if title.rstrip().endswith((")", "）")):
        names.add(key(_BRACKETS.sub("", title)))
    return names - {""}


def synonyms(query: Query, entities: Iterable[int]) -> tuple[Any, Any, Any]:
    """Return (entity, entity with a name like its own, cosine), (k,) each: the synonym edges of `entities` (HippoRAG 2)."""
    ids = sorted(entities)
    found: list[tuple[int, int, float]] = []
    if ids and query.dense_works:
        vectors = dense.entity_vectors(query, ids)
        for entity, near in zip(vectors, dense.entities(query, list(vectors.values()), MAX_SYNONYMS), strict=True):
            for other, cosine in near.items():
                if other != entity and cosine >= SYNONYM and not (other in vectors and other < entity):
                    found.append((entity, other, cosine))
    ends = np.array([(one, other) for one, other, _ in found], np.int64).reshape(len(found), 2)
    return ends[:, 0], ends[:, 1], np.array([cosine for _, _, cosine in found], float)


def walk(
    graph: Graph, entity_seeds: dict[int, float], chunk_seeds: dict[int, float], damping: float
) -> tuple[Any, Any, Any]:
    """Personalised PageRank; return (chunk ids ascending, mass, the last step's flow of each entity–chunk edge).

    The mass is exact to RESIDUAL: what the power iteration leaves unspread. A chunk outside the graph keeps what it is seeded
    with; entities outside it are left out.
    """
    entity_ids, left = np.unique(graph.entities, return_inverse=True)
    chunk_ids = np.union1d(graph.chunks, np.array(sorted(chunk_seeds), np.int64))
    right = np.searchsorted(chunk_ids, graph.chunks)
    sizes = len(entity_ids), len(chunk_ids)
    one, other = (np.searchsorted(entity_ids, ends) for ends in graph.links[:2])
    tail, head, linked = np.append(one, other), np.append(other, one), np.append(graph.links[2], graph.links[2])
    out = np.bincount(left, graph.weights, sizes[0]) + np.bincount(tail, linked, sizes[0])
    share_left, share_right = (
        graph.weights / out[left],
        graph.weights / np.bincount(right, graph.weights, sizes[1])[right],
    )
    share_link = damping * linked / out[tail]
    reset_left = _seeded(entity_ids, entity_seeds)
    reset_right = _seeded(chunk_ids, chunk_seeds)
    total = reset_left.sum() + reset_right.sum()
    if not total:
        return chunk_ids, np.zeros(sizes[1]), np.zeros(len(graph.weights))
    reset_left, reset_right = reset_left * ((1 - damping) / total), reset_right * ((1 - damping) / total)
    mass_left, mass_right = reset_left / (1 - damping), reset_right / (1 - damping)
    share_left *= damping
    share_right *= damping
    # One half after the other: between two halves without links of their own each round does two steps of the walk.
    steps = math.ceil(math.log(RESIDUAL) / math.log(damping) / (1 if len(tail) else 2))
    for _ in range(steps):
        to_left = np.bincount(left, mass_right[right] * share_right, sizes[0])
        if len(tail):
            to_left += np.bincount(head, mass_left[tail] * share_link, sizes[0])
        mass_left = reset_left + to_left
        mass_right = reset_right + np.bincount(right, mass_left[left] * share_left, sizes[1])
    return chunk_ids, mass_right, mass_left[left] * share_left


def _seeded(ids: Any, seeds: dict[int, float]) -> Any:
    weights = np.zeros(len(ids))
    for item, weight in seeds.items():
        place = int(np.searchsorted(ids, item))
        if place < len(ids) and ids[place] == item:
            weights[place] = weight
    return weights
