"""Personalised PageRank over the graph of entities and chunks around a query.

Source: HippoRAG (arXiv 2405.14831, 2502.14802), with idf edge weights, few direct seeds and hub entities left out
(docs/decisions.md). The graph is read from where the mass starts, not as a whole.
"""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any

from pg_graphrag.numeric import np
from pg_graphrag.retrieval import dense, seeds, ties, titles
from pg_graphrag.retrieval.cached_graph import graph_of
from pg_graphrag.retrieval.ids import numbered, within
from pg_graphrag.retrieval.query import Query
from pg_graphrag.retrieval.rankings import Ranking

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
# Enough of an HNSW index for these: of 19,135 names as many are found as with twice as much.
IN_VIEW = 100
# How much of all mass may be where it does not belong.
RESIDUAL = 1e-9
ROUNDING = 1e-14
# Flows that differ by a smaller share are equal.
EQUAL = 1e-9


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
        if links is None or not len(links[0]):
            return cls(entities, chunks, weights, (np.empty(0, np.int64), np.empty(0, np.int64), np.empty(0)))
        one, other, weight = links
        kept = np.isin(one, entities) & np.isin(other, entities)
        return cls(entities, chunks, weights, (one[kept], other[kept], weight[kept]))


def pagerank(
    query: Query, direct: Sequence[tuple[int, float]], limit: int, *, linked: bool = False
) -> tuple[Ranking, bool]:
    """Rank chunks by the mass of a walk that restarts at the query's entities and chunks found directly.

    Returned beside: whether the query names a document by its title.

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
        return Ranking.empty("pagerank"), False
    links = synonyms(query, entity_seeds if linked else ())
    graph, is_titled = neighbourhood(query, entity_seeds, chunk_seeds, hub, links)
    return spread(query, graph, entity_seeds, chunk_seeds, limit), is_titled


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
    here = within(chunks, np.sort(wanted))
    entities, chunks, flow = entities[here], chunks[here], flow[here]
    _, place = numbered(chunks)
    most = np.zeros(len(wanted))
    np.maximum.at(most, place, flow)
    strongest = flow >= most[place] * (1 - EQUAL)
    entities, chunks = entities[strongest], chunks[strongest]
    keys = graph_of(query).keys(entities.tolist())
    by_key = sorted(
        zip(chunks.tolist(), entities.tolist(), strict=True), key=lambda edge: keys[edge[1]].encode(), reverse=True
    )
    return {chunk: (entity, keys[entity]) for chunk, entity in by_key}


def _chunk_count(query: Query) -> int:
    return graph_of(query).chunk_count()


def _weighted(edges: tuple[Any, Any, Any, Any], count: int) -> tuple[Any, Any, Any]:
    """Return (entity ids, chunk ids, weights) of mentions; weight = log(1 + N / df) · min(tf, 3)."""
    entities, chunks, tf, df = edges
    return entities, chunks, np.log1p(count / np.maximum(df, 1)) * tf


def neighbourhood(
    query: Query,
    entity_seeds: dict[int, float],
    chunk_seeds: dict[int, float],
    hub: float,
    links: tuple[Any, Any, Any],
) -> tuple[Graph, bool]:
    """Read the edges around the seeds: entities of the seed chunks, the chunks of all those, and all entities of these.

    Returned beside: whether one of these documents is called what an entity among the seeds is.

    Entities in more than `hub` chunks are left out; `links` are the synonym edges.
    """
    count, graph = _chunk_count(query), graph_of(query)
    entities, *_ = graph.edges_of_chunks(list(chunk_seeds), hub)
    size = len(entities) // max(len(chunk_seeds), 1)
    most = min(max(MAX_EDGES // max(size, 1), MIN_CHUNKS), MAX_CHUNKS)
    first, _ = numbered(np.concatenate([entities, np.array(list(entity_seeds), np.int64), links[1]]))
    near = Graph.of(*_weighted(graph.edges_of_entities(first, hub), count), links)
    reached, _ = numbered(near.chunks)
    if len(reached) > most:
        reached, mass, _ = walk(near, entity_seeds, chunk_seeds, query.options.damping)
        reached = reached[ties.best(query, reached, mass, most)]
    reached, _ = numbered(np.append(reached, np.array(list(chunk_seeds), np.int64)))
    entities, chunks, weights = _weighted(graph.edges_of_chunks(reached, hub), count)
    titled = titles.titled(query, entities, chunks)
    made = Graph.of(entities, chunks, weights * np.where(titled, TITLE_WEIGHT, 1.0), links)
    return made, bool(np.isin(entities[titled], list(entity_seeds)).any())


def synonyms(query: Query, entities: Iterable[int]) -> tuple[Any, Any, Any]:
    """Return (entity, entity with a name like its own, cosine), (k,) each: the synonym edges of `entities` (HippoRAG 2)."""
    ids = sorted(entities)
    found: list[tuple[int, int, float]] = []
    if ids and query.dense_works:
        vectors = dense.entity_vectors(query, ids)
        for entity, near in zip(
            vectors, dense.entities(query, list(vectors.values()), MAX_SYNONYMS, IN_VIEW), strict=True
        ):
            for other, cosine in near.items():
                if other != entity and cosine >= SYNONYM and not (other in vectors and other < entity):
                    found.append((entity, other, cosine))
    ends = np.array([(one, other) for one, other, _ in found], np.int64).reshape(len(found), 2)
    return ends[:, 0], ends[:, 1], np.array([cosine for _, _, cosine in found], float)


def walk(
    graph: Graph, entity_seeds: dict[int, float], chunk_seeds: dict[int, float], damping: float
) -> tuple[Any, Any, Any]:
    """Personalised PageRank; return (chunk ids ascending, mass, what each entity–chunk edge brought of it).

    The mass is exact to RESIDUAL. A chunk outside the graph keeps what it is seeded with; entities outside it are left out.
    """
    entity_ids, left = numbered(graph.entities)
    chunk_ids, right = numbered(np.append(graph.chunks, np.array(list(chunk_seeds), np.int64)))
    right = right[: len(graph.chunks)]
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
    share_left *= damping
    share_right *= damping
    # An entity of one chunk and no link gives back to that chunk a share of the chunk's own mass: with it a chunk's mass, and so
    # the whole walk, follows from what the other entities have.
    lone = np.bincount(left, minlength=sizes[0]) == 1
    lone[tail] = False
    alone = lone[left]
    kept = 1 / (1 - np.bincount(right[alone], (share_right * share_left)[alone], sizes[1]))
    given = reset_right + np.bincount(right[alone], (reset_left[left] * share_left)[alone], sizes[1])
    edges = np.flatnonzero(~alone)
    one_end, other_end, to_other = left[edges], right[edges], share_left[edges]
    to_one = (share_right * kept[right])[edges]

    def step(mass: Any) -> Any:
        passed = np.bincount(other_end, mass[one_end] * to_other, sizes[1])
        returned = np.bincount(one_end, passed[other_end] * to_one, sizes[0])
        return returned + np.bincount(head, mass[tail] * share_link, sizes[0]) if len(tail) else returned

    start = np.where(lone, 0.0, reset_left) + np.bincount(one_end, given[other_end] * to_one, sizes[0])
    mass_left = _settled(step, start, damping, linked=len(tail) > 0)
    mass_right = kept * (given + np.bincount(other_end, mass_left[one_end] * to_other, sizes[1]))
    mass_left[left[alone]] = (reset_left[left] + mass_right[right] * share_right)[alone]
    return chunk_ids, mass_right, mass_left[left] * share_left


def _settled(step: Callable[[Any], Any], start: Any, damping: float, *, linked: bool) -> Any:
    """Return x = start + step(x), (n,), exact to RESIDUAL: the Chebyshev iteration (Saad, Iterative methods, algorithm 12.1).

    `step` is two steps of a walk, there and back, or with `linked` one step too: on undirected edges its eigenvalues are real,
    from 0 (−damping) to damping² (damping).
    """
    least, most = (1 - damping, 1 + damping) if linked else (1 - damping**2, 1.0)
    middle, half = (most + least) / 2, (most - least) / 2
    rho = half / middle
    solved, residual = np.zeros(len(start)), start
    change = start / middle
    # No error is larger than what is unspread, spread to its end; ROUNDING is left of a mass of 1 whatever is done.
    while np.abs(residual).sum() > max(RESIDUAL * (1 - damping), ROUNDING):
        solved = solved + change
        residual = residual - (change - step(change))
        following = 1 / (2 * middle / half - rho)
        change = following * rho * change + 2 * following / half * residual
        rho = following
    return solved


def _seeded(ids: Any, seeds: dict[int, float]) -> Any:
    weights = np.zeros(len(ids))
    for item, weight in seeds.items():
        place = int(np.searchsorted(ids, item))
        if place < len(ids) and ids[place] == item:
            weights[place] = weight
    return weights
