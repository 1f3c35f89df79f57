"""GraphML and GEXF are read back by networkx as they were."""

from pathlib import Path
from typing import Any

import networkx
import pytest
from pg_graphrag.beside.client.graph_items import Edge, Item, Levels, Node, to_networkx
from pg_graphrag.beside.exchange.xml import write
from pg_graphrag.ground.errors import GraphRAGError

HOSTILE = 'a "b" <c> & d\'s ]]> \u202e日本 \t\n\r\n x\ry'


def graph() -> list[Item]:
    return [
        Levels(3),
        Node(7, "ada", "Ada", "NAME", HOSTILE, 2, 3, {1: 40, 0: 30}),
        Node(8, "b\x00\x1b\ufffe", HOSTILE, "", "", 1, 1),
        Node(9, "c", "C", "T", "", 0, 1),
        Edge(5, 8, 7, "b\x00\x1b\ufffe", "ada", ["x", 'y & "z"'], HOSTILE, 2.5, 3, 0.25),
        Edge(6, 7, 9, "ada", "c", [], "", 1e-7, 1, None),
    ]


READ: dict[str, Any] = {".graphml": networkx.read_graphml, ".gexf": networkx.read_gexf}


@pytest.mark.parametrize("ending", READ)
def test_networkx_reads_what_was_written(tmp_path: Path, ending: str) -> None:
    path = tmp_path / f"g{ending}"
    assert write(path, iter(graph())) == (3, 2)
    result = READ[ending](path)
    assert not result.is_directed()
    nodes = dict(result.nodes(data=True))
    assert set(nodes) == {"n7", "n8", "n9"}
    assert nodes["n7"] | {"description": HOSTILE} == nodes["n7"]
    assert (nodes["n7"]["entity_id"], nodes["n7"]["degree"], nodes["n7"]["mention_count"]) == (7, 2, 3)
    assert (nodes["n7"]["community_0"], nodes["n7"]["community_1"]) == (30, 40)
    assert "community_2" not in nodes["n7"] and "community_0" not in nodes["n8"]
    assert nodes["n8"]["key"] == "b" + "\ufffd" * 3
    assert nodes["n8"]["name"] == HOSTILE
    edge = result.edges["n7", "n8"]
    assert (edge["keywords"], edge["description"], edge["weight"], edge["pmi"]) == ('x, y & "z"', HOSTILE, 2.5, 0.25)
    assert result.edges["n7", "n9"]["weight"] == 1e-7
    assert "pmi" not in result.edges["n7", "n9"]


@pytest.mark.parametrize("ending", READ)
def test_an_empty_graph_is_a_file_that_can_be_read(tmp_path: Path, ending: str) -> None:
    path = tmp_path / f"g{ending}"
    assert write(path, []) == (0, 0)
    assert len(READ[ending](path)) == 0


def test_a_file_that_fails_leaves_nothing(tmp_path: Path) -> None:
    path = tmp_path / "g.gexf"
    path.write_text("old")

    def torn() -> Any:
        yield from graph()[:2]
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        write(path, torn())
    assert [file.name for file in tmp_path.iterdir()] == ["g.gexf"]
    assert path.read_text() == "old"


def test_another_ending_is_refused(tmp_path: Path) -> None:
    with pytest.raises(GraphRAGError, match=r"no format for g\.csv") as caught:
        write(tmp_path / "g.csv", graph())
    assert caught.value.hint


def test_networkx_gets_every_column() -> None:
    result = to_networkx(graph())
    assert result.nodes["ada"]["description"] == HOSTILE
    assert result.nodes["ada"]["community_1"] == 40 and "communities" not in result.nodes["ada"]
    assert result.edges["ada", "c"]["keywords"] == []
    edge = result.edges["ada", "b\x00\x1b\ufffe"]
    assert (edge["source"], edge["target"], edge["keywords"]) == ("b\x00\x1b\ufffe", "ada", ["x", 'y & "z"'])
