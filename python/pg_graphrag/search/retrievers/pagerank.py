"""Personalised PageRank over the graph of entities and chunks around a query.

Source: HippoRAG (arXiv 2405.14831, 2502.14802), with idf edge weights, few direct seeds and hub entities left out
(docs/decisions/search.md). The graph is read from where the mass starts, not as a whole.
"""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from functools import cache
from typing import Any

from pg_graphrag.ground.numeric import Flags, Ids, Scores, distinct, int64s, np, numbered, packed, sums, union, within
from pg_graphrag.search.graph_view import seeds
from pg_graphrag.search.graph_view.cached_graph import graph_of
from pg_graphrag.search.graph_view.chunk_concept_graph import ConceptGraph, WeakConcepts, concept_graph
from pg_graphrag.search.graph_view.graph_tables import Edges
from pg_graphrag.search.graph_view.joined_nodes import JoinedNodes
from pg_graphrag.search.graph_view.row_references import referenced_chunks
from pg_graphrag.search.graph_view.seeds import Mentions, hub_size
from pg_graphrag.search.query.query import Query, timed
from pg_graphrag.search.query.rankings import Ranking, among_best, best_places, leveled_sums
from pg_graphrag.search.retrievers import dense
from pg_graphrag.search.retrievers.lexical import shared_words

# The neighbourhood: chunks with most mass among those one step through an entity from the seeds. Fewer where chunks are long
# and mention much, so that a query reads about MAX_EDGES mentions. On the dev questions 150 chunks rank as 300 and 1500 do,
# 100 less well.
MAX_CHUNKS = 150
MIN_CHUNKS = 40
MAX_EDGES = 3000
SEED_CHUNKS = 10
# Factor for the edge between a document and the entity of its title, which it is about.
TITLE_WEIGHT = 5.0
# An entity in a start chunk counts up to so much more, by the share of the question's words, without names, in its
# sentence. From 4 to 7 all are as good.
SENTENCE_WEIGHT = 5.0
# Factor for the edges of entities that the question names: the walk starts there, and should lead on. From .1 to .3 all
# are as good.
NAMED_WEIGHT = 0.2
# Least cosine of linked names, and links of each entity (HippoRAG 2: synonymy edges).
SYNONYM = 0.8
MAX_SYNONYMS = 10
# Depth of an HNSW scan for these: of 19,135 names it finds as many as twice the depth.
IN_VIEW = 100
# Greatest error of the mass, as a share of all.
RESIDUAL = 1e-9
ROUNDING = 1e-14
# Flows that differ by a smaller share are equal.
EQUAL = 1e-9


# Between entities: (tail, head, weight), (k,) each.
Links = tuple[Ids, Ids, Scores]


@dataclass(frozen=True)
class Graph:
    """Undirected weighted edges.

    `entities`, `chunks`, `weights` (m,) each; `links` of entities: (tail, head, weight), (k,) each.
    """

    entities: Ids
    chunks: Ids
    weights: Scores
    links: Links

    @classmethod
    def of(cls, entities: Ids, chunks: Ids, weights: Scores, links: Links | None = None) -> "Graph":
        """Make a graph with those of `links` whose ends are in it."""
        if links is None or not len(links[0]):
            return cls(entities, chunks, weights, (np.empty(0, np.int64), np.empty(0, np.int64), np.empty(0)))
        tails, heads, weight = links
        ids = distinct(entities)
        is_kept = within(tails, ids) & within(heads, ids)
        return cls(entities, chunks, weights, (tails[is_kept], heads[is_kept], weight[is_kept]))


@dataclass(frozen=True)
class Walk:
    """What a walk found, and the mentions over which it went."""

    ranking: Ranking
    mentions: Mentions


@timed("pagerank")
def pagerank(query: Query, direct: Sequence[tuple[int, float]], limit: int, *, with_synonyms: bool = False) -> Walk:
    """Rank chunks by the mass of a walk that restarts at the query's entities and chunks found directly.

    `direct`: (chunk id, weight) of chunks to start from, too.
    `with_synonyms`: whether names like those of the query's entities are walked to as well.
    """
    hub = hub_size(query)
    entity_seeds = seeds.entities(query, hub)
    chunk_seeds = dict(direct)
    links = synonyms(query, entity_seeds if with_synonyms else ())
    concepts = concept_graph(query)
    nodes = _nodes(query, None if query.is_described else concepts, hub)
    if nodes is not None:
        entity_seeds = nodes.seeds(entity_seeds, seeds.keys(query, hub), hub)
        links = nodes.nodes(links[0]), nodes.nodes(links[1]), links[2]
    if not entity_seeds and not chunk_seeds:
        return Walk(Ranking.empty("pagerank"), Mentions.none())
    graph, are_titles = neighbourhood(query, entity_seeds, chunk_seeds, hub, links, nodes)
    are_named = within(graph.entities, distinct(np.array(list(entity_seeds), np.int64)))
    graph = _leading_on(query, graph, are_named, chunk_seeds, nodes)
    walked = spread(query, graph, entity_seeds, chunk_seeds, limit, nodes)
    if concepts is not None and query.is_described:
        names = [*graph_of(query).keys(entity_seeds).values(), *query.low_level_keys]
        concept_seeds = {concept: seeds.weight(df) for concept, df in concepts.named(names).items() if df <= hub}
        walk_graph, _ = neighbourhood(query, concept_seeds, chunk_seeds, hub, synonyms(query, ()), concepts)
        also_walked = spread(query, walk_graph, concept_seeds, chunk_seeds, limit)
        walked = _geometric_mean(query, walked, also_walked, concepts, limit)
    entity_ids = graph.entities if nodes is None else nodes.entities(graph.entities)
    return Walk(walked, Mentions(graph.entities, entity_ids, graph.chunks, are_titles, are_named))


def _leading_on(
    query: Query,
    graph: Graph,
    are_named: Flags,
    chunk_seeds: dict[int, float],
    nodes: WeakConcepts | JoinedNodes | None,
) -> Graph:
    """Weigh the entities of the seed chunks by the sentences that mention them, and little what the question names."""
    entities, mentioning, shares = sentence_shares(query, sorted(chunk_seeds))
    mentioned = entities if nodes is None else nodes.nodes(entities)
    factors = sentence_factors(graph.entities, graph.chunks, (mentioned, mentioning, shares), SENTENCE_WEIGHT)
    return replace(graph, weights=graph.weights * np.where(are_named, NAMED_WEIGHT, factors))


def _nodes(query: Query, concepts: ConceptGraph | None, hub: float) -> WeakConcepts | JoinedNodes | None:
    """Return the nodes to walk over: with weak concepts, with rows joined to their names; None for entities alone."""
    weak = None if concepts is None else WeakConcepts(graph_of(query), concepts)
    return JoinedNodes(query, weak, hub) if query.corpus.has_rows else weak


def _geometric_mean(query: Query, first: Ranking, second: Ranking, concepts: ConceptGraph, limit: int) -> Ranking:
    """Rank the `limit` best chunks by the geometric mean of their mass in two walks: both must lead there.

    A chunk that is not among those of a walk has the least mass of these; one whose concepts are not known counts by the
    first walk alone.
    """
    if not len(first.ids) or not len(second.ids):
        return first if len(first.ids) else second
    ids = union(first.ids, second.ids)
    masses = np.stack([_masses(ranking, ids) for ranking in (first, second)])
    masses[1] = np.where(within(ids, concepts.analyzed), masses[1], masses[0])
    scores = leveled_sums(np.sqrt(masses[0] * masses[1]))
    order = best_places(query, ids, scores, limit)
    return Ranking("pagerank", ids[order], scores[order], first.reason)


def _masses(ranking: Ranking, ids: Ids) -> Scores:
    """Return the mass of chunks, ids ascending, (n,); chunks that are not ranked get the least mass of the ranked ones."""
    least = ranking.scores[ranking.scores > 0].min(initial=1.0)
    masses = np.full(len(ids), least)
    masses[np.searchsorted(ids, ranking.ids)] = np.maximum(ranking.scores, least)
    return masses


def spread(
    query: Query,
    graph: Graph,
    entity_seeds: dict[int, float],
    chunk_seeds: dict[int, float],
    limit: int,
    nodes: WeakConcepts | JoinedNodes | None = None,
) -> Ranking:
    """Rank the `limit` best chunks of a graph by their mass; `nodes`: the graph that it is a part of, if not the query's."""
    ids, mass, flow = walk(graph, entity_seeds, chunk_seeds, query.options.damping)
    mass = leveled_sums(mass)
    best = among_best(query, ids, mass, limit)
    best = best[np.argsort(-mass[best], kind="stable")]
    ids, mass = ids[best], mass[best]

    @cache
    def entity_through() -> dict[int, tuple[int, str]]:
        entities = graph.entities if nodes is None else nodes.entities(graph.entities)
        return _strongest_entities(query, entities, graph.chunks, flow, ids)

    def reason(chunk: int) -> dict[str, Any]:
        explanation: dict[str, Any] = {"seed": chunk in chunk_seeds}
        if chunk in entity_through():
            entity, key = entity_through()[chunk]
            explanation |= {"through": {"entity_id": entity, "key": key}}
        return explanation

    return Ranking("pagerank", ids, mass, reason)


def _strongest_entities(
    query: Query, entities: Ids, chunks: Ids, flow: Scores, chunk_ids: Ids
) -> dict[int, tuple[int, str]]:
    """Return for each of `chunk_ids` the entity (id, key) that brought most of its mass; ties: the smallest key.

    A seed that mentions no entity of the graph has none. An entity below 0 is none.
    """
    is_listed = within(chunks, np.sort(chunk_ids)) & (entities >= 0)
    entities, chunks, flow = entities[is_listed], chunks[is_listed], flow[is_listed]
    _, place = numbered(chunks)
    most = np.zeros(len(chunk_ids))
    np.maximum.at(most, place, flow)
    strongest = flow >= most[place] * (1 - EQUAL)
    entities, chunks = entities[strongest], chunks[strongest]
    keys = graph_of(query).keys(entities.tolist())
    by_key = sorted(
        zip(chunks.tolist(), entities.tolist(), strict=True), key=lambda edge: keys[edge[1]].encode(), reverse=True
    )
    return {chunk: (entity, keys[entity]) for chunk, entity in by_key}


def _weighted(edges: Edges, count: int) -> tuple[Ids, Ids, Scores]:
    """Return (entity ids, chunk ids, weights) of mentions; weight = log(1 + N / df) · min(tf, 3)."""
    entities, chunks, tf, df = edges
    return entities, chunks, np.log1p(count / np.maximum(df, 1)) * tf


def neighbourhood(
    query: Query,
    entity_seeds: dict[int, float],
    chunk_seeds: dict[int, float],
    hub: float,
    links: Links,
    concepts: ConceptGraph | WeakConcepts | JoinedNodes | None = None,
) -> tuple[Graph, Flags]:
    """Read the edges around the seeds: entities of the seed chunks, the chunks of all those, and all entities of these.

    Rows to which rows among these chunks lead are among them: a relationship of a row is one step, not two over its key.
    Also returned: on which edges the entity is the title of the document, (m,).

    Entities in more than `hub` chunks are left out; `links` are the synonym edges; `concepts`: the graph, if not the query's.
    """
    count, graph = graph_of(query).chunk_count(), concepts or graph_of(query)
    if isinstance(graph, JoinedNodes):
        entities = graph.nodes_of_chunks(list(chunk_seeds), hub)
    else:
        entities, *_ = graph.edges_of_chunks(list(chunk_seeds), hub)
    size = len(entities) // max(len(chunk_seeds), 1)
    most = min(max(MAX_EDGES // max(size, 1), MIN_CHUNKS), MAX_CHUNKS)
    first, _ = numbered(np.concatenate([entities, np.array(list(entity_seeds), np.int64), links[1]]))
    first_graph = Graph.of(*_weighted(graph.edges_of_entities(first, hub), count), links)
    chunk_ids, _ = numbered(first_graph.chunks)
    if len(chunk_ids) > most:
        chunk_ids, mass, _ = walk(first_graph, entity_seeds, chunk_seeds, query.options.damping)
        chunk_ids = chunk_ids[among_best(query, chunk_ids, mass, most)]
    chunk_ids = np.append(chunk_ids, np.array(list(chunk_seeds), np.int64))
    if query.corpus.has_rows:
        chunk_ids = np.append(chunk_ids, referenced_chunks(query, chunk_ids))
    chunk_ids, _ = numbered(chunk_ids)
    entities, chunks, weights = _weighted(graph.edges_of_chunks(chunk_ids, hub), count)
    titled = seeds.titled(query, entities, chunks, concepts)
    return Graph.of(entities, chunks, weights * np.where(titled, TITLE_WEIGHT, 1.0), links), titled


def synonyms(query: Query, entities: Iterable[int]) -> Links:
    """Return (entity, entity with a name like its own, cosine), (k,) each: the synonym edges of `entities` (HippoRAG 2)."""
    ids = sorted(entities)
    pairs: list[tuple[int, int, float]] = []
    if ids and query.dense_works:
        vectors = dense.entity_vectors(query, ids)
        for entity, cosines in zip(
            vectors, dense.entities(query, list(vectors.values()), MAX_SYNONYMS, IN_VIEW), strict=True
        ):
            for synonym, cosine in cosines.items():
                if synonym != entity and cosine >= SYNONYM and not (synonym in vectors and synonym < entity):
                    pairs.append((entity, synonym, cosine))
    ends = np.array([(entity, synonym) for entity, synonym, _ in pairs], np.int64).reshape(len(pairs), 2)
    return ends[:, 0], ends[:, 1], np.array([cosine for _, _, cosine in pairs], float)


def walk(
    graph: Graph, entity_seeds: dict[int, float], chunk_seeds: dict[int, float], damping: float
) -> tuple[Ids, Scores, Scores]:
    """Personalised PageRank; return (chunk ids ascending, mass, the mass that each entity–chunk edge brought).

    The mass is exact to RESIDUAL. A chunk outside the graph keeps its seed; entities outside it are left out.
    """
    entity_ids, left = numbered(graph.entities)
    chunk_ids, right = numbered(np.append(graph.chunks, np.array(list(chunk_seeds), np.int64)))
    right = right[: len(graph.chunks)]
    sizes = len(entity_ids), len(chunk_ids)
    low_places, high_places = (np.searchsorted(entity_ids, ends) for ends in graph.links[:2])
    tail, head, link_weights = (
        np.append(low_places, high_places),
        np.append(high_places, low_places),
        np.append(graph.links[2], graph.links[2]),
    )
    out_weights = sums(left, graph.weights, sizes[0]) + sums(tail, link_weights, sizes[0])
    share_left, share_right = (
        graph.weights / out_weights[left],
        graph.weights / sums(right, graph.weights, sizes[1])[right],
    )
    share_link = damping * link_weights / out_weights[tail]
    reset_left = _seeded(entity_ids, entity_seeds)
    reset_right = _seeded(chunk_ids, chunk_seeds)
    total = reset_left.sum() + reset_right.sum()
    if not total:
        return chunk_ids, np.zeros(sizes[1]), np.zeros(len(graph.weights))
    reset_left, reset_right = reset_left * ((1 - damping) / total), reset_right * ((1 - damping) / total)
    share_left *= damping
    share_right *= damping
    # An entity of one chunk and no link returns a share of the chunk's mass to it. So the mass of a chunk, and the whole walk,
    # follow from the mass of the other entities.
    lone = np.bincount(left, minlength=sizes[0]) == 1
    lone[tail] = False
    is_lone = lone[left]
    retained = 1 / (1 - sums(right[is_lone], (share_right * share_left)[is_lone], sizes[1]))
    inflow = reset_right + sums(right[is_lone], (reset_left[left] * share_left)[is_lone], sizes[1])
    edges = np.flatnonzero(~is_lone)
    one_end, other_end, to_other = left[edges], right[edges], share_left[edges]
    to_one = (share_right * retained[right])[edges]

    def step(mass: Scores) -> Scores:
        chunk_mass = sums(other_end, mass[one_end] * to_other, sizes[1])
        entity_mass = sums(one_end, chunk_mass[other_end] * to_one, sizes[0])
        return entity_mass + sums(head, mass[tail] * share_link, sizes[0]) if len(tail) else entity_mass

    start = np.where(lone, 0.0, reset_left) + sums(one_end, inflow[other_end] * to_one, sizes[0])
    mass_left = _solve(step, start, damping, has_links=len(tail) > 0)
    mass_right = retained * (inflow + sums(other_end, mass_left[one_end] * to_other, sizes[1]))
    mass_left[left[is_lone]] = (reset_left[left] + mass_right[right] * share_right)[is_lone]
    return chunk_ids, mass_right, mass_left[left] * share_left


def _solve(step: Callable[[Scores], Scores], start: Scores, damping: float, *, has_links: bool) -> Scores:
    """Return x = start + step(x), (n,), exact to RESIDUAL: the Chebyshev iteration (Saad, Iterative methods, algorithm 12.1).

    `step` is two steps of a walk, there and back, or with `has_links` one step too: on undirected edges its eigenvalues are real,
    from 0 (−damping) to damping² (damping).
    """
    least, most = (1 - damping, 1 + damping) if has_links else (1 - damping**2, 1.0)
    middle, half = (most + least) / 2, (most - least) / 2
    rho = half / middle
    solved, residual = np.zeros(len(start)), start
    change = start / middle
    # The error is at most the residual, spread to its end; of a mass of 1 rounding leaves ROUNDING.
    while np.abs(residual).sum() > max(RESIDUAL * (1 - damping), ROUNDING):
        solved = solved + change
        residual = residual - (change - step(change))
        following = 1 / (2 * middle / half - rho)
        change = following * rho * change + 2 * following / half * residual
        rho = following
    return solved


def _seeded(ids: Ids, seeds: dict[int, float]) -> Scores:
    weights = np.zeros(len(ids))
    for item, weight in seeds.items():
        place = int(np.searchsorted(ids, item))
        if place < len(ids) and ids[place] == item:
            weights[place] = weight
    return weights


# For entities of a model's graph no place in the text is known: they count unchanged. Sentences are cut here: in SQL
# each cut would unpack the whole chunk.
_SENTENCES = f"""
SELECT {packed(chunks="m.chunk_id", starts="m.start_offset", ends="m.end_offset", sizes="m.size")},
       pg_catalog.string_agg(m.entities, ''::bytea) AS entities,
       (SELECT pg_catalog.array_agg(c.content ORDER BY c.id) FROM graphrag.chunks c WHERE c.id = ANY ($1)) AS contents,
       (SELECT pg_catalog.string_agg(pg_catalog.int8send(c.id) || pg_catalog.int8send(c.start_offset), ''::bytea ORDER BY c.id)
          FROM graphrag.chunks c WHERE c.id = ANY ($1)) AS places
  FROM (SELECT e.chunk_id, e.start_offset, e.end_offset, pg_catalog.count(*) AS size,
               {packed(entities="e.entity_id")}
          FROM graphrag.entity_mentions e
         WHERE e.chunk_id = ANY ($1) AND e.entity_id IS NOT NULL AND e.start_offset IS NOT NULL
         GROUP BY e.chunk_id, e.start_offset, e.end_offset) m
"""


@timed("seed_sentences")
def sentence_shares(query: Query, chunks: list[int]) -> tuple[Ids, Ids, Scores]:
    """Return (entities, chunks, shares), (n,) each, of entities that `chunks` mention; share: of the question in its
    sentence, 0 … 1.

    Words of names are left out: most sentences contain what the question names.
    """
    row = query.db.query(_SENTENCES, ["int8[]"], [chunks])[0]
    if row["chunks"] is None:
        return np.empty(0, np.int64), np.empty(0, np.int64), np.empty(0)
    mentioning, sizes = int64s(row["chunks"]), int64s(row["sizes"])
    ids, offsets = int64s(row["places"]).reshape(-1, 2).T
    places = np.searchsorted(ids, mentioning)
    spans = zip(places, int64s(row["starts"]) - offsets[places], int64s(row["ends"]) - offsets[places], strict=True)
    sentences = [row["contents"][place][start:end] for place, start, end in spans]
    words = shared_words(query).without("\n".join(query.low_level_keys))
    return int64s(row["entities"]), np.repeat(mentioning, sizes), np.repeat(words.shares_of_query(sentences), sizes)


def sentence_factors(nodes: Ids, chunks: Ids, mentioned: tuple[Ids, Ids, Scores], more: float) -> Scores:
    """Return factors of edges (nodes, chunks), (m,) each: 1, and `more` times the share of the best sentence with the node.

    `mentioned`: (nodes, chunks, shares), (n,) each.
    """
    count = len(nodes)
    _, node_place = numbered(np.append(nodes, mentioned[0]))
    chunk_ids, chunk_place = numbered(np.append(chunks, mentioned[1]))
    edge_ids, place = numbered(node_place * max(len(chunk_ids), 1) + chunk_place)
    best = np.zeros(len(edge_ids))
    np.maximum.at(best, place[count:], mentioned[2])
    return 1.0 + more * best[place[:count]]
