"""Drawings: legible means that no name covers another, nor a node another of its disc."""

import itertools
import json
import math
import os
import random
import re
import shutil
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import networkx
import pytest
from pg_graphrag.beside.cli.plot import groups_of, most_connected
from pg_graphrag.beside.exchange import plot as module
from pg_graphrag.beside.exchange.plot import Groups, members_of, page, plot, positions
from pg_graphrag.ground.errors import GraphRAGError
from playwright.sync_api import sync_playwright

CHROMIUM = os.environ.get("GRAPHRAG_CHROMIUM") or shutil.which("chromium")
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


@pytest.mark.sample(2)
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


def hub() -> Any:
    """A hub without a community between two communities, and a dot that nothing leads to."""
    graph = networkx.Graph()
    for name in ("hub", "a1", "a2", "b1", "b2", "b3", "dot"):
        graph.add_node(name, name=f"{name} </script> 日本", type="t", description="<!-- said -->")
    for name in ("a1", "a2"):
        graph.nodes[name]["community_0"] = 1
    for name in ("b1", "b2", "b3"):
        graph.nodes[name]["community_0"] = 2
    graph.add_weighted_edges_from([("a1", "a2", 1), ("b1", "b2", 1), ("b2", "b3", 1)])
    graph.add_weighted_edges_from([("hub", "a1", 1), ("hub", "b1", 1), ("hub", "b2", 1), ("hub", "a2", 5)])
    return graph


def test_a_hub_has_the_colour_of_the_community_it_is_most_related_to() -> None:
    graph = most_connected(hub(), 10)
    groups = groups_of(graph, 0, {})
    assert groups.group_of["hub"] == 1
    assert groups.group_of.keys() == set(graph)


def test_dots_that_no_line_leads_to_are_left_out_unless_there_are_no_lines() -> None:
    assert "dot" not in most_connected(hub(), 10)
    assert set(most_connected(hub().subgraph(["dot"]), 10)) == {"dot"}


def test_groups_with_most_relationships_have_the_colours() -> None:
    graph = networkx.star_graph(3)
    graph = networkx.relabel_nodes(graph, str)
    members, order = members_of(graph, Groups("Communities", {"0": "hub", **dict.fromkeys("123", "leaves")}, {}))
    assert members["hub"] == ["0"] and set(order) == {"hub", "leaves"}
    more = {"0": "hub", "1": "a", "2": "a", "3": None}
    assert members_of(graph, Groups("Communities", more, {}))[1][0] == "hub"


def test_few_nodes_fill_the_page(tmp_path: Path) -> None:
    graph, groups = made(8, 2)
    places = positions(graph, [[node for node in graph if groups.group_of[node] == group] for group in range(2)])
    xs, ys = zip(*places.values(), strict=True)
    nearest = min(math.dist(first, two) for first, two in itertools.combinations(places.values(), 2))
    assert nearest > 0.08 * max(max(xs) - min(xs), max(ys) - min(ys))
    assert places == positions(graph, [])


def test_a_page_is_one_file_whose_data_end_no_script(tmp_path: Path) -> None:
    graph = most_connected(hub(), 10)
    path = tmp_path / "graph.html"
    page(graph, groups_of(graph, 0, {1: "<b>title</b>"}), path, "a <title>")
    text = path.read_text(encoding="utf-8")
    assert text.count("</script>") == 2 and "a &lt;title&gt;" in text
    assert not re.search(r"(src|href)=|https?://|url\(|@import|fetch\(", text)
    (data,) = re.findall(r'id="data">(.*?)</script>', text)
    assert {node["name"] for node in json.loads(data)["nodes"]} == {f"{name} </script> 日本" for name in graph}


@pytest.mark.slow
@pytest.mark.chromium
@pytest.mark.skipif(CHROMIUM is None, reason="no Chromium here: apt-get install chromium")
def test_a_page_is_searched_moved_and_read_in_a_browser(tmp_path: Path) -> None:
    graph = most_connected(hub(), 10)
    path = tmp_path / "graph.html"
    page(graph, groups_of(graph, 0, {}), path, "t")
    with sync_playwright() as driver:
        browser = driver.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        tab = browser.new_page(viewport={"width": 1000, "height": 700})
        requests: list[str] = []
        errors: list[str] = []
        tab.on("request", lambda request: requests.append(request.url))
        tab.on("console", lambda message: errors.append(message.text) if message.type == "error" else None)
        tab.goto(path.as_uri())
        tab.fill("input", "B2 日本")
        assert tab.locator("#hits li").all_inner_texts() == ["b2 </script> 日本"]
        tab.click("#hits button")
        assert tab.locator("#about h2").inner_text() == "b2 </script> 日本"
        # It is in the middle now. It goes where it is dragged to.
        box = tab.locator("canvas").bounding_box()
        assert box
        middle = box["x"] + box["width"] / 2, box["y"] + box["height"] / 2
        tab.mouse.move(*middle)
        tab.mouse.down()
        tab.mouse.move(middle[0] + 40, middle[1] + 230, steps=5)
        tab.mouse.up()
        tab.mouse.click(middle[0] - 380, middle[1] - 290)
        tab.mouse.click(middle[0] + 40, middle[1] + 230)
        assert tab.locator("#about h2").inner_text() == "b2 </script> 日本"
        browser.close()
    assert requests == [path.as_uri()] and errors == []
