"""Hierarchical Leiden: GraphRAG's own communities, determinism, and updates that touch only what changed."""

from pathlib import Path

import numpy as np
import pytest
from pg_graphrag.index.community.leiden import Cluster, Graph, Settings, cluster, graph_of, modularity, update


def random_graph(groups: int, size: int, seed: int = 7) -> Graph:
    """Groups that are dense inside, with a few edges between them."""
    random = np.random.default_rng(seed)
    nodes = groups * size
    low = random.integers(0, nodes, nodes * 5)
    near = low // size * size + random.integers(0, size, len(low))
    high = np.where(random.random(len(low)) < 0.05, random.integers(0, nodes, len(low)), near)
    return graph_of(nodes, low, high, np.ones(len(low)))


def labels_at(graph: Graph, clusters: list[Cluster], level: int) -> np.ndarray:
    labels = np.full(graph.nodes, -1)
    for number, community in enumerate(clusters):
        if community.level == level:
            labels[community.members] = number
    return labels


def members(clusters: list[Cluster]) -> set[tuple[int, frozenset[int]]]:
    return {(cluster.level, frozenset(cluster.members.tolist())) for cluster in clusters}


def check_hierarchy(graph: Graph, clusters: list[Cluster]) -> None:
    """Levels follow each other, children divide their parents, communities are connected."""
    children: dict[int, list[int]] = {}
    for community in clusters:
        assert (community.parent is None) == (community.level == 0)
        if community.parent is not None:
            assert clusters[community.parent].level == community.level - 1
            children.setdefault(community.parent, []).extend(community.members.tolist())
        assert len(graph.subgraph(community.members).components(community.members.tolist())) == 1
    for parent, inside in children.items():
        assert sorted(inside) == clusters[parent].members.tolist()
    top = np.concatenate([community.members for community in clusters if community.level == 0])
    assert sorted(top.tolist()) == np.union1d(graph.low, graph.high).tolist()


def test_christmas_carol_has_graphrags_own_communities(shared_data: Path) -> None:
    import pandas as pd  # half a second, which every process that collects tests would take

    folder = shared_data / "christmas-carol"
    edges, entities, gold = (
        pd.read_parquet(folder / f"{name}.parquet") for name in ("relationships", "entities", "communities")
    )
    # GraphRAG keeps of two directions the last one's weight where we sum them, and clusters the largest component only.
    last: dict[tuple[str, str], float] = {}
    for source, target, weight in zip(edges.source, edges.target, edges.weight, strict=True):
        last[min(source, target), max(source, target)] = float(weight)
    names = sorted({name for pair in last for name in pair})
    number = {name: at for at, name in enumerate(names)}
    low, high = np.array([[number[first], number[other]] for first, other in last]).T
    clusters = cluster(graph_of(len(names), low, high, np.array(list(last.values()))), Settings(largest_component=True))
    by_level = [sum(first.level == level for first in clusters) for level in range(4)]
    assert by_level == [23, 65, 32, 2]
    title = dict(zip(entities.id, entities.title, strict=True))
    known = set(entities.title)
    expected = sorted(
        (int(level), sorted(title[entity] for entity in ids))
        for level, ids in zip(gold.level, gold.entity_ids, strict=True)
    )
    ours = sorted(
        (first.level, sorted(name for at in first.members.tolist() if (name := names[at]) in known))
        for first in clusters
    )
    assert ours == expected


def test_the_same_graph_and_seed_give_the_same_communities_whatever_the_order_of_edges() -> None:
    graph = random_graph(12, 15)
    order = np.random.default_rng(1).permutation(len(graph.low))
    shuffled = graph_of(graph.nodes, graph.high[order], graph.low[order], graph.weight[order])
    assert members(cluster(graph, Settings())) == members(cluster(shuffled, Settings()))
    check_hierarchy(graph, cluster(graph, Settings()))


def test_reversed_duplicates_are_summed_and_loops_left_out() -> None:
    graph = graph_of(3, np.array([1, 0, 2, 2]), np.array([0, 1, 2, 1]), np.array([1.0, 2.0, 5.0, 1.0]))
    assert (graph.low.tolist(), graph.high.tolist(), graph.weight.tolist()) == ([0, 1], [1, 2], [3.0, 1.0])


def test_largest_component_leaves_the_others_out() -> None:
    graph = graph_of(7, np.array([0, 1, 3, 4, 5]), np.array([1, 2, 4, 5, 6]), np.ones(5))
    clusters = cluster(graph, Settings(largest_component=True))
    assert {int(node) for community in clusters for node in community.members} == {3, 4, 5, 6}


def test_nothing_changed_nothing_is_clustered_again() -> None:
    graph = random_graph(10, 14)
    before = cluster(graph, Settings())
    assert members(update(graph, Settings(), before, [])) == members(before)


def test_a_change_reaches_only_the_communities_around_it_and_keeps_the_quality() -> None:
    graph = random_graph(30, 14)
    before = cluster(graph, Settings())
    # Two new nodes in one group, and one edge between two others.
    new = graph.nodes
    low = np.concatenate([graph.low, [0, 1, 2, new, 100]])
    high = np.concatenate([graph.high, [new, new, new + 1, new + 1, 101]])
    weight = np.concatenate([graph.weight, np.ones(5)])
    after = graph_of(new + 2, low, high, weight)
    result = update(after, Settings(), before, [0, 1, 2, new, new + 1, 100, 101])
    check_hierarchy(after, result)
    unchanged = members(result) & members(before)
    assert len(unchanged) >= 0.8 * len(before)
    fresh = cluster(after, Settings())
    quality = [modularity(after, labels_at(after, item, 0)) for item in (result, fresh)]
    assert quality[0] >= 0.99 * quality[1]


def test_a_community_that_falls_apart_is_divided() -> None:
    # Two triangles, joined by a node that goes.
    graph = graph_of(6, np.array([0, 0, 1, 3, 3, 4]), np.array([1, 2, 2, 4, 5, 5]), np.ones(6))
    before = [Cluster(0, None, np.arange(6))]
    assert members(update(graph, Settings(), before, [2, 3])) == {(0, frozenset({0, 1, 2})), (0, frozenset({3, 4, 5}))}


def test_a_graph_that_is_gone_leaves_nothing() -> None:
    empty = graph_of(4, np.empty(0, np.int64), np.empty(0, np.int64), np.empty(0))
    assert cluster(empty, Settings()) == []
    assert update(empty, Settings(), [Cluster(0, None, np.arange(3))], [0, 1]) == []


def test_modularity_is_that_of_two_separate_pairs() -> None:
    graph = graph_of(4, np.array([0, 2]), np.array([1, 3]), np.ones(2))
    assert modularity(graph, np.array([0, 0, 1, 1])) == pytest.approx(0.5)
    assert modularity(graph, np.zeros(4, np.int64)) == pytest.approx(0.0)
