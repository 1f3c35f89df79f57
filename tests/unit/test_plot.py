"""Drawings: legible means that no name covers another, nor a node another of its disc."""

from __future__ import annotations

import itertools
import math
import random
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import networkx
import pytest
from pg_graphrag.errors import GraphRAGError
from pg_graphrag.exchange import plot as module
from pg_graphrag.exchange.plot import Groups, plot, positions

# Fonts differ from machine to machine.
pytestmark = pytest.mark.filterwarnings("ignore:Glyph .* missing from font")


def made(nodes: int, groups: int) -> tuple[Any, Groups]:
    random_ = random.Random(7)
    graph = networkx.Graph()
    of = {f"n{i}": i * groups // nodes for i in range(nodes)}
    for name in of:
        graph.add_node(name, name=f"Entity {name} $x^2$ 日本")
    for first, two in zip(of, list(of)[1:], strict=False):
        graph.add_edge(first, two)
    for _ in range(nodes if nodes > 1 else 0):
        graph.add_edge(*random_.sample(list(of), 2))
    return graph, Groups(
        "Communities", of, {0: "A title of many words that says what the community is about, at length"}
    )


@pytest.mark.parametrize("nodes", [1, 2, 30, 300])
def test_a_graph_is_drawn_and_its_names_do_not_overlap(
    tmp_path: Path, nodes: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    collected: list[Any] = []
    draw = module._draw_labels

    def keep(axes: Any, renderer: Any, *rest: Any) -> None:
        draw(axes, renderer, *rest)
        collected.extend(text.get_window_extent(renderer) for text in axes.texts)

    monkeypatch.setattr(module, "_draw_labels", keep)
    graph, groups = made(nodes, max(1, nodes // 10))
    path = tmp_path / "graph.svg"
    plot(graph, groups, path, "a $title$")
    ElementTree.parse(path)
    assert min(nodes, 15) <= len(collected) <= module.MAX_LABELS
    assert not any(first.overlaps(two) for first, two in itertools.combinations(collected, 2))


def test_each_group_of_the_legend_is_named_and_lines_between_groups_are_told_of(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "MAX_BETWEEN", 5)
    monkeypatch.setattr(module, "MAX_LABELS", 6)
    graph, groups = made(60, 6)
    between = sum(groups.group_of[first] != groups.group_of[two] for first, two in graph.edges())
    path = tmp_path / "graph.svg"
    plot(graph, groups, path, "t")
    words = " ".join(
        "".join(text.itertext()) for text in ElementTree.parse(path).iter("{http://www.w3.org/2000/svg}text")
    )
    assert {groups.group_of[name] for name in groups.group_of if f"Entity {name} " in words} == set(range(6))
    assert f"5 strongest, {between - 5} are left" in " ".join(words.split())


def test_the_discs_of_many_nodes_do_not_overlap() -> None:
    graph, groups = made(600, 12)
    members = [[node for node in graph if groups.group_of[node] == group] for group in range(12)]
    places = positions(graph, members)
    assert len(places) == len(graph)
    assert min(math.dist(first, two) for first, two in itertools.combinations(places.values(), 2)) > 0.9
    centres = [places[group[0]] for group in members]
    radius = math.sqrt(len(members[0]))
    assert min(math.dist(first, two) for first, two in itertools.combinations(centres, 2)) > 2 * radius


def test_another_ending_is_refused(tmp_path: Path) -> None:
    with pytest.raises(GraphRAGError, match=r"no format for g\.doc"):
        plot(*made(2, 1), tmp_path / "g.doc", "t")
