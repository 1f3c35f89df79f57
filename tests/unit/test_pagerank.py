"""The random walk over entities, chunks and synonyms equals networkx' PageRank, and the solution of its linear equations."""

from typing import Any

import networkx as nx
import numpy as np
import pytest
from pg_graphrag.search.retrievers.pagerank import Graph, walk


def solved(
    edges: list[tuple[int, int, float]], entities: dict[int, float], chunks: dict[int, float], damping: float
) -> Any:
    """Chunk masses by a dense solve over all nodes: m = (1 - d) r + d Pᵀ m."""
    nodes = sorted({("e", e) for e, _, _ in edges} | {("c", c) for _, c, _ in edges})
    place = {node: index for index, node in enumerate(nodes)}
    weights = np.zeros((len(nodes), len(nodes)))
    for entity, chunk, weight in edges:
        weights[place["e", entity], place["c", chunk]] += weight
        weights[place["c", chunk], place["e", entity]] += weight
    steps = weights / weights.sum(axis=1, keepdims=True)
    reset = np.zeros(len(nodes))
    for kind, seeds in (("e", entities), ("c", chunks)):
        for item, weight in seeds.items():
            if (kind, item) in place:
                reset[place[kind, item]] = weight
    reset /= reset.sum()
    mass = np.linalg.solve(np.eye(len(nodes)) - damping * steps.T, (1 - damping) * reset)
    return {item: mass[index] for (kind, item), index in place.items() if kind == "c"}


def run(
    edges: list[tuple[int, int, float]], entities: dict[int, float], chunks: dict[int, float], damping: float
) -> Any:
    columns = [np.array(column) for column in zip(*edges, strict=True)]
    ids, mass, _ = walk(Graph.of(*columns), entities, chunks, damping)
    return dict(zip(ids.tolist(), mass.tolist(), strict=True))


@pytest.mark.parametrize("damping", [0.1, 0.5, 0.95])
@pytest.mark.parametrize("seed", range(4))
def test_masses_are_those_of_a_dense_solve(damping: float, seed: int) -> None:
    generator = np.random.default_rng(seed)
    edges = [
        (int(entity), int(chunk), float(weight))
        for entity, chunk, weight in zip(
            generator.integers(1, 12, 60), generator.integers(100, 120, 60), generator.uniform(0.1, 3, 60), strict=True
        )
    ]
    entities, chunks = {edges[0][0]: 3.0, 999: 5.0}, {edges[1][1]: 1.0, edges[2][1]: 0.5}
    assert run(edges, entities, chunks, damping) == pytest.approx(solved(edges, entities, chunks, damping), abs=1e-8)


def test_a_chunk_nearer_to_the_seed_has_more_mass() -> None:
    edges = [(1, 10, 1.0), (1, 11, 1.0), (2, 11, 1.0), (2, 12, 1.0)]
    mass = run(edges, {}, {10: 1.0}, 0.5)
    assert mass[10] > mass[11] > mass[12] > 0


def test_a_rare_entitys_edge_carries_more() -> None:
    mass = run([(1, 10, 1.0), (1, 11, 1.0), (2, 10, 5.0), (2, 12, 5.0)], {}, {10: 1.0}, 0.5)
    assert mass[12] > mass[11]


def test_entities_outside_the_graph_move_nothing() -> None:
    assert run([(1, 10, 1.0)], {5: 1.0}, {}, 0.5) == {10: 0.0}


def test_the_flow_of_an_edge_is_what_it_brought_its_chunk() -> None:
    columns = [
        np.array(column) for column in zip(*[(1, 10, 1.0), (2, 10, 1.0), (2, 11, 1.0), (3, 11, 9.0)], strict=True)
    ]
    ids, mass, flow = walk(Graph.of(*columns), {3: 1.0, 1: 0.1}, {}, 0.5)
    assert flow[0] > flow[1] and flow[3] > flow[2]
    assert dict(zip(ids.tolist(), mass.tolist(), strict=True)) == pytest.approx(
        {10: flow[0] + flow[1], 11: flow[2] + flow[3]}
    )


@pytest.mark.parametrize("damping", [0.3, 0.5, 0.85])
@pytest.mark.parametrize("seed", range(3))
def test_masses_are_those_of_networkx_on_the_same_graph(damping: float, seed: int) -> None:
    generator = np.random.default_rng(seed)
    entities, chunks = generator.integers(1, 40, 200), generator.integers(100, 160, 200)
    weights = generator.uniform(0.1, 3, 200)
    first, other = generator.integers(1, 20, 30), generator.integers(20, 60, 30)
    near = generator.uniform(0.8, 1, 30)
    graph = Graph.of(entities, chunks, weights, (first, other, near))
    entity_seeds = {int(entities[0]): 2.0, int(entities[1]): 0.5}
    chunk_seeds = {int(chunks[2]): 1.0, int(chunks[3]): 0.1}
    whole: nx.Graph[tuple[str, int]] = nx.Graph()
    edges = [(("e", int(e)), ("c", int(c)), float(w)) for e, c, w in zip(entities, chunks, weights, strict=True)]
    edges += [(("e", int(a)), ("e", int(b)), float(w)) for a, b, w in zip(*graph.links, strict=True)]
    for tail, head, weight in edges:
        before = whole.get_edge_data(tail, head, {"weight": 0.0})["weight"]
        whole.add_edge(tail, head, weight=before + weight)
    reset = {("e", item): weight for item, weight in entity_seeds.items()}
    reset |= {("c", item): weight for item, weight in chunk_seeds.items()}
    wanted = nx.pagerank(whole, alpha=damping, personalization=reset, tol=1e-12, max_iter=1000)
    ids, mass, _ = walk(graph, entity_seeds, chunk_seeds, damping)
    assert len(graph.links[0]) > 5
    assert dict(zip(ids.tolist(), mass.tolist(), strict=True)) == pytest.approx(
        {item: share for (kind, item), share in wanted.items() if kind == "c"}, abs=1e-6
    )


def test_a_synonym_is_a_way_to_another_chunk() -> None:
    columns = [np.array(column) for column in zip(*[(1, 10, 1.0), (2, 11, 1.0)], strict=True)]
    for links, reached in ((None, False), ((np.array([1]), np.array([2]), np.array([0.9])), True)):
        _, mass, _ = walk(Graph.of(*columns, links), {1: 1.0}, {}, 0.5)
        assert bool(mass[1] > 0) is reached


def test_a_seed_outside_the_graph_keeps_its_own_mass_if_it_is_a_chunk() -> None:
    edges = [(1, 10, 1.0), (1, 11, 1.0)]
    mass = run(edges, {9: 7.0}, {10: 1.0, 20: 2.0}, 0.5)
    inside = solved(edges, {}, {10: 1.0}, 0.5)
    assert mass == pytest.approx({10: inside[10] / 3, 11: inside[11] / 3, 20: 0.5 * 2 / 3})
    assert run([(1, 10, 1.0)], {}, {20: 1.0}, 0.5) == pytest.approx({10: 0.0, 20: 0.5})
