"""The graph of a corpus in files and in networkx."""

from pathlib import Path
from xml.etree import ElementTree

import networkx
import psycopg
import pytest
from pg_graphrag import GraphRAG
from pg_graphrag.beside.cli import main
from pg_graphrag.beside.client.graph_items import stream
from pg_graphrag.ground.errors import GraphRAGError

from tests.runtime.cluster import Database

TEXTS = {
    "open": "Ada Lovelace met Charles Babbage. Ada Lovelace admired Charles Babbage in London.",
    "secret": "Ada Lovelace hid the Enigma. Ada Lovelace met Charles Babbage.",
}


@pytest.fixture(scope="module")
def filled(module_db: Database) -> Database:
    with GraphRAG(module_db.url) as client:
        client.insert({"source_key": key, "content": content} for key, content in TEXTS.items())
        client.process_jobs()
    return module_db


def test_networkx_holds_what_the_views_show(filled: Database) -> None:
    with GraphRAG(filled.url) as client:
        graph = client.to_networkx()
    assert isinstance(graph, networkx.Graph) and not graph.is_directed()
    columns = "entity_id, key, name, type, description, degree, mention_count"
    assert {tuple(node[column] for column in columns.split(", ")) for _, node in graph.nodes(data=True)} == set(
        filled.execute(f"SELECT {columns} FROM graphrag.graph_nodes")
    )
    members = filled.execute(
        "SELECT e.key, c.level, c.id FROM graphrag.community_members m JOIN graphrag.entities e ON e.id = m.entity_id"
        "  JOIN graphrag.communities c ON c.id = m.community_id"
    ).fetchall()
    assert members and all(graph.nodes[key][f"community_{level}"] == number for key, level, number in members)
    weights = {
        (edge["relationship_id"], edge["weight"], edge["pmi"], edge["strength"]) for *_, edge in graph.edges(data=True)
    }
    assert weights == set(filled.execute("SELECT relationship_id, weight, pmi, strength FROM graphrag.graph_edges"))
    assert graph.edges["ada lovelace", "charles babbage"]["source"] == "ada lovelace"


def test_a_stream_of_the_graph_is_planned_for_all_its_rows(filled: Database) -> None:
    # Of its first tenth, as cursors are by default, the plan is nested loops.
    fractions = set()
    for _ in stream(filled, "default"):
        with filled.cursor() as cursor:
            fractions.add(cursor.execute("SHOW cursor_tuple_fraction").fetchone())
    assert fractions == {("1",)}
    assert filled.execute("SHOW cursor_tuple_fraction").fetchone() == ("0.1",)


@pytest.mark.parametrize("name", ["graph.graphml", "graph.GEXF"])
def test_the_command_writes_the_graph(
    filled: Database, tmp_path: Path, name: str, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / name
    assert main(["export", "--url", filled.url, str(path)]) == 0
    nodes, edges = (
        filled.execute(f"SELECT count(*) FROM graphrag.{view}").fetchone()[0] for view in ("graph_nodes", "graph_edges")
    )
    assert capsys.readouterr().out == f"{path}: {nodes} entities, {edges} relationships\n"
    result = networkx.read_graphml(path) if name.endswith("graphml") else networkx.read_gexf(path)
    assert (len(result), result.number_of_edges()) == (nodes, edges)


def test_the_command_draws_the_graph_by_community(
    filled: Database, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    pytest.importorskip("matplotlib")
    path = tmp_path / "graph.svg"
    assert main(["plot", "--url", filled.url, "--max-nodes", "2", str(path)]) == 0
    total = filled.execute("SELECT count(*) FROM graphrag.graph_nodes").fetchone()[0]
    output = capsys.readouterr().out
    assert output.startswith(f"{path}: 2 entities, the most connected of {total}, ") and output.endswith(
        "by communities\n"
    )
    texts = [text for text in ElementTree.parse(path).getroot().itertext() if text.strip()]
    assert {"Ada Lovelace", "Charles Babbage", "Communities"} <= set(texts)
    assert main(["plot", "--url", filled.url, str(tmp_path / "graph.doc")]) == 1
    assert "no format for graph.doc" in capsys.readouterr().err


def test_what_is_hidden_from_a_reader_is_in_no_export(filled: Database) -> None:
    with psycopg.connect(filled.url) as connection:
        connection.execute("ALTER TABLE graphrag.documents ENABLE ROW LEVEL SECURITY")
        connection.execute("CREATE POLICY p ON graphrag.documents TO graphrag_reader USING (source_key = 'open')")
        connection.execute("SET LOCAL ROLE graphrag_reader")
        graph = GraphRAG(connection).to_networkx()
        connection.rollback()
    assert "ada lovelace" in graph and "enigma" not in graph
    # It tells of what is hidden too.
    assert "community_0" not in graph.nodes["ada lovelace"]


def test_an_unknown_corpus_is_an_error_and_an_empty_one_is_none(filled: Database, tmp_path: Path) -> None:
    with pytest.raises(GraphRAGError, match='corpus "nope" does not exist'), GraphRAG(filled.url, "nope") as client:
        client.to_networkx()
    with GraphRAG(filled.url, "empty") as client:
        client.create_corpus()
        assert len(client.to_networkx()) == 0
    assert main(["export", "--url", filled.url, "--corpus", "nope", str(tmp_path / "x.gexf")]) == 1
    assert not list(tmp_path.iterdir())
