"""Walks of hybrid, ppr, path and lazy cross rows: a row and its names are one node, and what it leads to is read with it."""

import json
import re
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import networkx
import pytest
from pg_graphrag import GraphRAG
from pg_graphrag.beside.cli import main

from tests.endpoint import Endpoint
from tests.endpoint.server import Messages
from tests.runtime.cluster import Database
from tests.sql.asking import ask
from tests.sql.ingest import value
from tests.sql.llm import provider
from tests.sql.rows import attach, index, own_by_owner
from tests.sql.themes import points, task

KINDS = """
CREATE SCHEMA config;
CREATE TABLE config.contexts (name text PRIMARY KEY, meaning text);
CREATE TABLE config.settings (name text PRIMARY KEY, context text REFERENCES config.contexts, description text);
INSERT INTO config.contexts VALUES ('postmaster', 'Changing it needs a restart.'), ('sighup', 'A reload changes it.');
INSERT INTO config.settings VALUES ('wal_buffers', 'postmaster', 'Buffers in shared memory for the log.'),
                                   ('wal_size', 'sighup', 'Size of the log in shared memory.');
"""
ATTACH_KINDS = (
    "attach_entities('config.contexts', 'default', '{name}', 'name', type => 'context', text => '{meaning}')",
    "attach_entities('config.settings', 'default', '{name}', 'name', type => 'setting', text => '{description}')",
    "attach_relationships('config.settings', 'default', 'context', '{context}', 'config.contexts')",
)


def reply(messages: Messages) -> str:
    text = str(messages)
    match task(messages):
        case "refine":
            return json.dumps({"queries": [], "expanded": "Where does the RZ-500K stand?"})
        case "map":
            row = re.search(r"## RZ-500K (\[\d+\])", text)
            return points(
                ("It stands in a plant " + (row[1] if row else "".join(re.findall(r"\[\d+\]", text))) + ".", 90)
            )
        case _:
            number = text.split("] | 1 | Osaka Works |")[0].rsplit("[", 1)[1]
            return f"In Osaka [{number}]."


REPLY = reply


@pytest.fixture(scope="module")
def shop(module_db: Database) -> Database:
    attach(module_db)
    module_db.execute(
        "INSERT INTO graphrag.documents (source_key, content) VALUES"
        " ('log', 'Big Bertha stood still. Carl Kent repaired Big Bertha.')"
    )
    module_db.execute(KINDS.encode())
    own_by_owner(module_db, "SCHEMA config", "TABLE config.contexts", "TABLE config.settings")
    for call in ATTACH_KINDS:
        module_db.execute(f"SELECT graphrag.{call}".encode())
    index(module_db)
    return module_db


@contextmanager
def reader(db: Database, *tables: str) -> Iterator[Database]:
    """A reader who may SELECT some tables."""
    with db.transaction(force_rollback=True):
        db.execute("CREATE ROLE walk_reader IN ROLE graphrag_reader; GRANT USAGE ON SCHEMA shop, config TO walk_reader")
        for table in tables:
            db.execute(f"GRANT SELECT ON {table} TO walk_reader".encode())
        db.execute("SET LOCAL ROLE walk_reader")
        yield db


def explained(db: Database, question: str, mode: str) -> dict[str, dict[str, Any]]:
    results = db.execute(
        "SELECT source_key, explain FROM graphrag.search(%s, mode => %s, top_k => 50)", [question, mode]
    )
    return dict(results.fetchall())


@pytest.mark.parametrize("mode", ["hybrid", "ppr"])
def test_a_walk_goes_through_the_row_from_any_of_its_names(shop: Database, mode: str) -> None:
    reasons = explained(shop, "Who is certified for Big Bertha?", mode)
    assert reasons["manual"]["pagerank"]["through"]["key"] == "rz-500k"
    # A certificate is of a machine and a person; the machine is named, so more comes from the person.
    assert reasons["certificates/1/7"]["pagerank"]["through"]["key"] == "ann lee (persons/1)"
    with reader(shop, "shop.persons") as caller:
        keys = {row["pagerank"].get("through", {}).get("key") for row in explained(caller, "Big Bertha", mode).values()}
        # The document names him beside it.
        assert "carl kent" in keys and "rz-500k" not in keys


def test_a_path_leads_from_a_document_over_an_alias_and_a_foreign_key(shop: Database) -> None:
    def paths(db: Database) -> set[tuple[str, ...]]:
        rows = explained(db, "What did Carl Kent repair?", "path").values()
        return {tuple(row["path"]["path"]) for row in rows if "path" in row}

    nodes = {name for path in paths(shop) for name in path}
    assert ("Carl Kent", "RZ-500K", "Osaka Works") in paths(shop)
    assert not nodes & {"Big Bertha", "RZ500K", "machines/7", "plants/1"}
    with reader(shop, "shop.plants") as caller:
        assert not {name for path in paths(caller) for name in path} & {"RZ-500K", "Osaka Works"}


def test_a_row_is_found_by_words_of_the_row_to_which_it_leads(shop: Database) -> None:
    question = "Which size or buffers in shared memory for the log need a restart?"
    rows = explained(shop, question, "hybrid")
    assert rows["settings/wal_buffers"]["bm25"]["with_rows"] == ["contexts/postmaster"]
    ranked = [key for key in rows if key.startswith("settings/")]
    assert ranked[0] == "settings/wal_buffers"
    with reader(shop, "config.settings") as caller:
        rows = explained(caller, question, "hybrid")
        assert "with_rows" not in rows["settings/wal_buffers"]["bm25"]
        assert not any(key.startswith("contexts/") for key in rows)


def test_a_table_that_is_keyed_by_its_name_is_led_to_as_any_other(shop: Database) -> None:
    content, metadata = shop.execute(
        "SELECT content, metadata FROM graphrag.documents WHERE source_key = 'settings/wal_buffers'"
    ).fetchall()[0]
    assert "context: postmaster\n" in content and metadata == {"context": "contexts/postmaster"}
    edges = shop.execute("SELECT source, target FROM graphrag.graph_edges WHERE keywords = 'context'").fetchall()
    assert set(edges) == {("wal_buffers", "postmaster"), ("wal_size", "sighup")}
    filter_ = '{"$row": {"context": {"$source_key": "contexts/postmaster"}}}'
    keys = shop.execute("SELECT source_key FROM graphrag.search('shared memory', filter => %s)", [filter_]).fetchall()
    assert keys == [("settings/wal_buffers",)]
    context = value(shop, "SELECT graphrag.context('wal_buffers')")
    tables = {table["table"]: {row["source_key"] for row in table["rows"]} for table in context["tables"]}
    assert "contexts/postmaster" in tables["config.contexts"]
    assert "| wal_buffers | postmaster |" in context["prompt"]


def test_lazy_reads_the_rows_to_which_relevant_rows_lead(shop: Database) -> None:
    question = "Buffers in shared memory for the log"
    rows = explained(shop, question, "lazy")
    assert rows["settings/wal_buffers"]["lazy"]["test"] and rows["contexts/postmaster"]["lazy"]["of_row"]
    with reader(shop, "config.settings") as caller:
        rows = explained(caller, question, "lazy")
        assert "settings/wal_buffers" in rows and "contexts/postmaster" not in rows


@pytest.mark.parametrize("mode", ["lazy", "graph_global"])
def test_points_show_and_cite_rows(db: Database, endpoint: Endpoint, mode: str) -> None:
    attach(db)
    roles = {role: {"provider": provider(db, endpoint), "model": "m"} for role in ("answer", "summary")}
    db.execute("SELECT graphrag.alter_corpus('default', %s)", [json.dumps({"llm": {"roles": roles}})])
    index(db)
    db.execute("SELECT graphrag.refresh_communities('default')")
    index(db)
    answer, citations, _, context = ask(db, "Where does the RZ-500K stand?", "default", mode=mode)
    (citation,) = citations
    assert answer.startswith("In Osaka [")
    assert (citation["source_key"], citation["table"], citation["key"]) == ("plants/1", "shop.plants", "1")
    assert {table["table"] for table in context["tables"]} >= {"shop.machines", "shop.plants"}
    names = {reference["number"]: reference.get("table") for reference in context["references"]}
    assert set(re.findall(r"^\| \[(\d+)\] \|", context["prompt"], re.M)) == {
        str(number) for number, table in names.items() if table is not None
    }


def test_pictures_carry_types_and_attributes(shop: Database) -> None:
    mermaid: str = value(shop, "SELECT graphrag.to_mermaid('Big Bertha')")
    assert '["RZ-500K<br/>machine<br/>built#58; 2019-05-01"]' in mermaid
    dot: str = value(shop, "SELECT graphrag.to_dot('Big Bertha')")
    assert 'label="RZ-500K", tooltip="machine, built: 2019-05-01' in dot


def test_exports_carry_attributes_and_where_they_come_from(shop: Database, tmp_path: Path) -> None:

    with Database.connect(shop.url, autocommit=True) as connection:
        graph = GraphRAG(connection).to_networkx()
    assert (
        graph.nodes["rz-500k"] | {"attribute_built": "2019-05-01", "origin": "documents, rows"}
        == graph.nodes["rz-500k"]
    )
    assert graph.edges["rz-500k", "osaka works"]["origin"] == "rows"
    assert "big bertha" not in graph
    for ending, read in (("graphml", networkx.read_graphml), ("gexf", networkx.read_gexf)):
        path = tmp_path / f"g.{ending}"
        assert main(["export", "--url", shop.url, str(path)]) == 0
        by_key = {row["key"]: row for _, row in read(path).nodes(data=True)}
        assert (by_key["osaka works"]["attribute_city"], by_key["osaka works"]["origin"]) == ("Osaka", "rows")
        assert "attribute_city" not in by_key["carl kent"]


def test_graphrags_tables_have_a_row_and_its_names_as_one(shop: Database, tmp_path: Path) -> None:
    parquet = pytest.importorskip("pyarrow.parquet")

    assert main(["export-graphrag", "--url", shop.url, str(tmp_path)]) == 0
    tables = {
        name: parquet.read_table(tmp_path / f"{name}.parquet").to_pylist()
        for name in ("entities", "relationships", "text_units", "communities")
    }
    entities = {row["title"]: row for row in tables["entities"]}
    assert not entities.keys() & {"Big Bertha", "RZ500K", "machines/7"}
    assert entities["RZ-500K"]["frequency"] == 4 and "2019-05-01" in entities["RZ-500K"]["attributes"]
    pairs = [frozenset((row["source"], row["target"])) for row in tables["relationships"]]
    assert len(pairs) == len(set(pairs)) and all(len(pair) == 2 for pair in pairs)
    ids = {kind: {row["id"] for row in tables[kind]} for kind in ("entities", "relationships")}
    for row in [*tables["text_units"], *tables["communities"]]:
        assert set(row["entity_ids"]) <= ids["entities"] and set(row["relationship_ids"]) <= ids["relationships"]


def test_communities_have_a_row_and_its_names_as_one(db: Database) -> None:
    attach(db)
    db.execute(
        "INSERT INTO graphrag.documents (source_key, content) VALUES"
        " ('log', 'Big Bertha stood still. Carl Kent repaired Big Bertha.')"
    )
    index(db)
    db.execute("SELECT graphrag.refresh_communities('default')")
    edges = {
        frozenset(pair)
        for pair in db.execute(
            "SELECT l.name, h.name FROM graphrag.clustered_relationships() c"
            " JOIN graphrag.entities l ON l.id = c.low_id JOIN graphrag.entities h ON h.id = c.high_id"
        )
    }
    assert {frozenset({"RZ-500K", "Carl Kent"}), frozenset({"RZ-500K", "Osaka Works"})} <= edges
    nodes = db.execute(
        "SELECT c.community_id, n.name FROM graphrag.community_entities c LEFT JOIN graphrag.graph_nodes n USING (entity_id)"
    ).fetchall()
    assert {name for _, name in nodes} >= {"RZ-500K", "Carl Kent"} and None not in {name for _, name in nodes}
    sizes = dict(db.execute("SELECT community_id, size FROM graphrag.community_overview").fetchall())
    assert sizes == {number: sum(other == number for other, _ in nodes) for number in sizes}
    again: dict[str, Any] = value(db, "SELECT graphrag.refresh_communities('default')")
    assert (again["clustered"], again["changed"], again["created"]) == ("nothing", 0, 0)
    # A name that two rows have is apart again.
    db.execute("UPDATE shop.machines SET nick = 'Big Bertha' WHERE id = 8")
    index(db)
    db.execute("SELECT graphrag.refresh_communities('default')")
    names = db.execute("SELECT n.name FROM graphrag.community_entities c JOIN graphrag.graph_nodes n USING (entity_id)")
    assert ("Big Bertha",) in names.fetchall()
    assert db.execute("SELECT * FROM graphrag.check('default')").fetchall() == []
