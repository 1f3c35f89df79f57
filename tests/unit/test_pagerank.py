"""The random walk over entities and chunks equals the solution of its linear equations."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from pg_graphrag.retrieval.pagerank import walk


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
    ids, mass, _ = walk(*columns, entities, chunks, damping)
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


def test_seeds_outside_the_graph_move_nothing() -> None:
    assert run([(1, 10, 1.0)], {5: 1.0}, {99: 1.0}, 0.5) == {10: 0.0}


def test_the_flow_of_an_edge_is_what_it_brought_its_chunk() -> None:
    columns = [
        np.array(column) for column in zip(*[(1, 10, 1.0), (2, 10, 1.0), (2, 11, 1.0), (3, 11, 9.0)], strict=True)
    ]
    ids, mass, flow = walk(*columns, {3: 1.0, 1: 0.1}, {}, 0.5)
    assert flow[0] > flow[1] and flow[3] > flow[2]
    assert dict(zip(ids.tolist(), mass.tolist(), strict=True)) == pytest.approx(
        {10: flow[0] + flow[1], 11: flow[2] + flow[3]}
    )
