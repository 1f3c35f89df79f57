"""A LightRAG working directory goes in. The stores are as LightRAG 1.5 writes them: networkx's GraphML and JSON."""

import json
from pathlib import Path

import networkx
import pytest
from pg_graphrag.beside.cli import main
from pg_graphrag.beside.exchange import foreign_documents as exchange_imports

from tests.runtime.cluster import Database

FIRST = "Ada wrote notes on the engine. "
SECOND = "The engine was Babbage's."


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    documents = {
        "doc-1": {"content": FIRST + SECOND, "file_path": "notes.txt"},
        "doc-2": {"content": "Babbage lived in London.", "file_path": "unknown_source"},
    }
    chunks = {
        "b": {"content": SECOND, "chunk_order_index": 1, "full_doc_id": "doc-1", "tokens": 7},
        "a": {"content": (FIRST + SECOND[:10]).strip(), "chunk_order_index": 0, "full_doc_id": "doc-1", "tokens": 8},
        "c": {"content": "Babbage lived in London.", "chunk_order_index": 0, "full_doc_id": "doc-2", "tokens": 5},
    }
    graph = networkx.Graph()
    graph.add_node("Ada", entity_id="Ada", entity_type="person", description="Wrote notes.", source_id="a")
    graph.add_node("Engine", entity_type="machine", description="Computes.<SEP>Was his.", source_id="a<SEP>b")
    graph.add_node(
        "Babbage", entity_type="person", description="Designed & lived <in> London.", source_id="b<SEP>c<SEP>gone"
    )
    graph.add_edge("Ada", "Engine", weight=1.0, description="She wrote of it.", keywords="notes,study", source_id="a")
    graph.add_edge(
        "Babbage",
        "Engine",
        weight=2.5,
        description="He owned it.",
        keywords="owner<SEP>design, owner",
        source_id="b<SEP>c",
    )
    networkx.write_graphml(graph, tmp_path / "graph_chunk_entity_relation.graphml")
    (tmp_path / "kv_store_full_docs.json").write_text(json.dumps(documents))
    (tmp_path / "kv_store_text_chunks.json").write_text(json.dumps(chunks))
    return tmp_path


def test_the_graph_is_that_of_the_working_directory(db: Database, folder: Path) -> None:
    assert main(["import-lightrag", "--url", db.url, "--corpus", "light", str(folder)]) == 0
    assert db.execute(
        "SELECT name, type, description, mention_count FROM graphrag.graph_nodes ORDER BY key"
    ).fetchall() == [
        ("Ada", "person", "Wrote notes.", 1),
        ("Babbage", "person", "Designed & lived <in> London.", 2),
        ("Engine", "machine", "Computes.\nWas his.", 3),
    ]
    assert db.execute(
        "SELECT source, target, keyword_list, description, weight FROM graphrag.graph_edges ORDER BY 1"
    ).fetchall() == [
        ("Ada", "Engine", ["notes", "study"], "She wrote of it.", 1.0),
        ("Engine", "Babbage", ["design", "owner"], "He owned it.", 2.5),
    ]
    assert db.execute(
        "SELECT d.source_key, d.title, c.content FROM graphrag.chunks c JOIN graphrag.documents d ON d.id = c.document_id"
        " ORDER BY 1, c.ordinal"
    ).fetchall() == [
        ("doc-1", "notes.txt", (FIRST + SECOND[:10]).strip()),
        ("doc-1", "notes.txt", SECOND),
        ("doc-2", None, "Babbage lived in London."),
    ]
    assert db.execute("SELECT * FROM graphrag.check('light')").fetchall() == []
    # Each chunk says its part of a description.
    assert db.execute(
        "SELECT m.description FROM graphrag.entity_mentions m JOIN graphrag.entities e ON e.id = m.entity_id"
        " WHERE e.name = 'Engine' ORDER BY m.chunk_id"
    ).fetchall()[:2] == [("Computes.",), ("Was his.",)]


def test_an_import_that_fails_leaves_nothing(
    db: Database, folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    # A document a part; the second has an entity without a name.
    monkeypatch.setattr(exchange_imports, "_MAX_CHARACTERS", 1)
    path = folder / "graph_chunk_entity_relation.graphml"
    graph = networkx.read_graphml(path)
    graph.add_node("", entity_type="person", description="Nobody.", source_id="c")
    networkx.write_graphml(graph, path)
    assert main(["import-lightrag", "--url", db.url, "--corpus", "light", str(folder)]) == 1
    assert "documents[0].chunks[0].entities" in capsys.readouterr().err
    for table in ("corpora", "documents", "imported_extractions", "jobs"):
        assert db.execute(f"SELECT count(*) FROM graphrag.{table}".encode()).fetchone() == (0,), table


def test_a_folder_that_is_none_is_refused(db: Database, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["import-lightrag", "--url", db.url, "--corpus", "light", str(tmp_path)]) == 1
    assert "has no kv_store_full_docs.json" in capsys.readouterr().err
