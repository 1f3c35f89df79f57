"""What people say is seen with what documents say: in search, views and cypher, and by whom."""

import json
from collections.abc import Iterator
from typing import Any

import pytest
from psycopg.types.json import Jsonb

from tests.runtime.cluster import Database
from tests.sql.curating import MORE, curate
from tests.sql.ingest import new_corpus, put, put_all, refused, rows, search, value, work


@pytest.fixture
def corpus(module_db: Database) -> Iterator[str]:
    name = new_corpus(module_db)
    yield name
    module_db.execute("SELECT graphrag.drop_corpus(%s)", [name])


def test_search_neighbors_cypher_and_views_show_the_curated_graph(module_db: Database, corpus: str) -> None:
    put_all(module_db, corpus, MORE)
    work(module_db)
    curate(module_db, corpus, "merge_entities", ["Augusta King"], "Ada Lovelace")
    curate(module_db, corpus, "rename_entity", "Ada Lovelace", "Countess King")
    curate(module_db, corpus, "create_entity", "Ockham Park", type="house", description="A house in Surrey.")
    curate(module_db, corpus, "create_relationship", "Ockham Park", "Countess King", description="She lived there.")
    for name in ("Augusta King", "ada lovelace", "Countess King"):
        neighbors = rows(module_db, "SELECT name FROM graphrag.neighbors(%s, %s)", name, corpus)
        assert ("Ockham Park",) in neighbors and ("Turin",) in neighbors
        matches = rows(module_db, "SELECT name, score FROM graphrag.search_entities(%s, %s, 1)", name, corpus)
        assert matches == [("Countess King", 1.0)]
    assert rows(module_db, "SELECT name, description FROM graphrag.search_entities('Ockham Park', %s, 1)", corpus) == [
        ("Ockham Park", "A house in Surrey.")
    ]
    query = "MATCH (a:Entity {key: 'ockham park'})-[r:RELATED]->(b:Entity) RETURN b.name AS name, r.description AS said"
    assert rows(module_db, "SELECT graphrag.cypher(%s, %s)", corpus, query) == [
        ({"name": "Countess King", "said": "She lived there."},)
    ]
    edges = "SELECT source, target FROM graphrag.graph_edges WHERE corpus = %s AND 'Ockham Park' IN (source, target)"
    assert rows(module_db, edges, corpus) == [("Ockham Park", "Countess King")]
    themes = "SELECT source, target FROM graphrag.search_relationships('living somewhere', %s, 1)"
    assert rows(module_db, themes, corpus) == [("Ockham Park", "Countess King")]
    surrey = "SELECT name FROM graphrag.search_entities('a house in Surrey', %s, 1)"
    assert rows(module_db, surrey, corpus) == [("Ockham Park",)]
    context = value(module_db, "SELECT graphrag.context('Where did Augusta King live?', %s, 'local')", corpus)
    assert "She lived there." in json.dumps(context)
    assert search(module_db, "Augusta King", corpus, "local")
    curate(module_db, corpus, "delete_entity", "Augusta King")
    assert rows(module_db, "SELECT name FROM graphrag.neighbors('Ada Lovelace', %s)", corpus) == []
    assert search(module_db, "Augusta King", corpus, "hybrid")


@pytest.fixture(params=["filter", "row-level security", "protect"])
def partly(module_db: Database, corpus: str, request: pytest.FixtureRequest) -> Iterator[dict[str, Any]]:
    """A curated corpus of which only documents marked open are seen: by a filter, a policy of the application's, or protect()."""
    for key, text in MORE.items():
        put(module_db, corpus, key, text, metadata={"open": key == "lady"})
    work(module_db)
    curate(module_db, corpus, "merge_entities", ["Augusta King"], "Ada Lovelace")
    curate(module_db, corpus, "rename_entity", "Ada Lovelace", "Augusta King")
    curate(module_db, corpus, "edit_entity", "Augusta King", type="countess", description="Wife of William King.")
    given = {"corpus": corpus, "filter": Jsonb({"open": True}) if request.param == "filter" else None}
    if given["filter"] is not None:
        yield given
        return
    module_db.execute("CREATE ROLE partial IN ROLE graphrag_reader")
    if request.param == "protect":
        module_db.execute("SELECT graphrag.protect(%s, '(metadata ->> ''open'')::boolean')", [corpus])
    else:
        module_db.execute("ALTER TABLE graphrag.documents ENABLE ROW LEVEL SECURITY")
        module_db.execute("CREATE POLICY open ON graphrag.documents FOR SELECT USING ((metadata ->> 'open')::boolean)")
    try:
        yield given
    finally:
        module_db.execute("RESET ROLE")
        if request.param == "protect":
            module_db.execute("SELECT graphrag.unprotect(%s)", [corpus])
        else:
            module_db.execute("DROP POLICY open ON graphrag.documents")
            module_db.execute("ALTER TABLE graphrag.documents DISABLE ROW LEVEL SECURITY")
        module_db.execute("DROP ROLE partial")


def test_who_sees_some_documents_sees_what_people_say_of_what_these_mention(
    module_db: Database, partly: dict[str, Any]
) -> None:
    corpus = partly["corpus"]
    graph = {
        "entities": [{"name": "Ockham Park", "description": "A house nobody mentions."}],
        "relationships": [
            {
                "source": "Augusta King",
                "target": "Turin",
                "keywords": "travel",
                "description": "A journey.",
                "weight": 5,
            }
        ],
    }
    module_db.execute("SELECT graphrag.insert_graph(%s, %s)", [corpus, Jsonb(graph)])
    curate(module_db, corpus, "edit_relationship", "Augusta King", "London", keywords=["visiting", "capital"], weight=7)
    curate(module_db, corpus, "create_relationship", "Turin", "Analytical Engine", description="A lecture.")
    if partly["filter"] is None:
        module_db.execute("SET ROLE partial")

    def entities(text: str) -> Any:
        matches = "SELECT name, type, description FROM graphrag.search_entities(%s, %s, 3, %s)"
        return rows(module_db, matches, text, corpus, partly["filter"])

    def relationships(text: str) -> Any:
        result = "SELECT ARRAY[source, target], keywords, weight, description FROM graphrag.search_relationships(%s, %s, 3, %s)"
        return [({*ends}, *rest) for ends, *rest in rows(module_db, result, text, corpus, partly["filter"])]

    assert entities("Augusta King")[0] == ("Augusta King", "countess", "Wife of William King.")
    assert entities("the wife of William King")[0][0] == "Augusta King"
    assert "Ockham Park" not in [name for name, _, _ in entities("a house nobody mentions")]
    described = [({end.lower() for end in ends}, *rest) for ends, *rest in relationships("visiting the capital")]
    assert ({"augusta king", "london"}, ["capital", "visiting"], 7) in [row[:3] for row in described]
    assert "A lecture." not in [row[3] for row in relationships("a lecture")]
    (journey,) = [row for row in relationships("a journey") if "turin" in {end.lower() for end in row[0]}]
    assert journey[1] == ["travel"] and journey[2] > 5 and "A journey." in journey[3]
    if partly["filter"] is None:
        assert rows(
            module_db,
            "SELECT name, type, description FROM graphrag.graph_nodes WHERE corpus = %s AND type = 'countess'",
            corpus,
        ) == [("Augusta King", "countess", "Wife of William King.")]
        assert rows(
            module_db,
            "SELECT keywords, weight FROM graphrag.graph_edges WHERE corpus = %s AND 'London' IN (source, target)"
            " AND 'Augusta King' IN (source, target)",
            corpus,
        ) == [("capital, visiting", 7.0)]
        assert rows(
            module_db,
            "SELECT keywords, weight > 5 FROM graphrag.graph_edges WHERE corpus = %s AND 'Turin' IN (source, target)"
            " AND 'Augusta King' IN (source, target)",
            corpus,
        ) == [("travel", True)]
        assert refused(module_db, "SELECT * FROM graphrag.curated").sqlstate == "42501"
        assert ("Augusta King",) not in rows(
            module_db, "SELECT name FROM graphrag.neighbors('Analytical Engine', %s)", corpus
        )
