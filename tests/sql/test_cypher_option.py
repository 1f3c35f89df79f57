"""A corpus whose option cypher is false has no Apache AGE graph; switching the option makes it from the tables, or drops it."""

from typing import Any

import psycopg
import pytest
from psycopg.types.json import Jsonb

from tests.runtime.cluster import Database
from tests.sql.ingest import STORIES, corpus_id, index_all, new_corpus, rows, value, work

NAMES = "MATCH (e:Entity) RETURN e.key AS key"


def has_graph(db: Database, corpus: str) -> bool:
    number = corpus_id(db, corpus)
    schema = value(db, "SELECT to_regnamespace(%s) IS NOT NULL", f"graphrag_{number}")
    assert schema == value(db, "SELECT EXISTS (SELECT FROM graphrag._graphs WHERE corpus_id = %s)", number)
    return bool(schema)


def keys(db: Database, corpus: str) -> set[str]:
    return {row[0]["key"] for row in rows(db, "SELECT graphrag.cypher(%s, %s)", corpus, NAMES)}


def violations(db: Database, corpus: str) -> list[Any]:
    return rows(db, "SELECT * FROM graphrag.check(%s)", corpus)


@pytest.fixture
def plain(module_db: Database) -> str:
    """Stories in a corpus without Cypher."""
    return index_all(module_db, new_corpus(module_db, cypher=False), STORIES)


def test_without_cypher_there_is_no_graph_and_everything_else(module_db: Database, plain: str) -> None:
    assert not has_graph(module_db, plain)
    assert violations(module_db, plain) == []
    module_db.execute("SELECT graphrag.refresh_communities(%s)", [plain])
    module_db.execute("SELECT graphrag.rename_entity('Ada Lovelace', 'Countess Lovelace', %s)", [plain])
    module_db.execute("DELETE FROM graphrag.documents WHERE corpus = %s AND source_key = 'turing'", [plain])
    work(module_db)
    module_db.execute("SELECT graphrag.rebuild_graph(%s)", [plain])
    assert not has_graph(module_db, plain)
    assert violations(module_db, plain) == []
    assert value(module_db, "SELECT graphrag.fingerprint(%s)", plain)
    assert value(module_db, "SELECT count(*) FROM graphrag.neighbors('Countess Lovelace', %s)", plain) > 0


def test_cypher_says_what_to_do(module_db: Database, plain: str) -> None:
    with pytest.raises(psycopg.errors.ObjectNotInPrerequisiteState) as caught:
        keys(module_db, plain)
    assert plain in str(caught.value.diag.message_primary)
    hint = str(caught.value.diag.message_hint)
    module_db.execute(hint.split(" makes it")[0].encode())
    assert "ada lovelace" in keys(module_db, plain)


def test_the_option_makes_the_graph_and_drops_it(module_db: Database, plain: str) -> None:
    module_db.execute("SELECT graphrag.refresh_communities(%s)", [plain])
    change = "SELECT graphrag.alter_corpus(%s, %s)"
    module_db.execute(change, [plain, Jsonb({"cypher": True})])
    assert has_graph(module_db, plain)
    assert violations(module_db, plain) == []
    communities = rows(module_db, "SELECT graphrag.cypher(%s, 'MATCH (c:Community) RETURN c.level AS level')", plain)
    assert len(communities) == value(
        module_db, "SELECT count(*) FROM graphrag.communities WHERE corpus_id = %s", corpus_id(module_db, plain)
    )
    module_db.execute(change, [plain, Jsonb({"cypher": False})])
    assert not has_graph(module_db, plain)
    assert violations(module_db, plain) == []
    # null takes the option back to its default.
    module_db.execute(change, [plain, Jsonb({"cypher": None})])
    assert "ada lovelace" in keys(module_db, plain)


def test_check_names_a_graph_that_is_not_to_be(module_db: Database) -> None:
    corpus = index_all(module_db, new_corpus(module_db), STORIES)
    module_db.execute(
        "UPDATE graphrag.corpora SET options = options || '{\"cypher\": false}' WHERE name = %s", [corpus]
    )
    assert [row[0] for row in violations(module_db, corpus)] == ["a corpus without Cypher has no graph"]
    module_db.execute("SELECT graphrag.rebuild_graph(%s)", [corpus])
    assert violations(module_db, corpus) == []


def test_another_schema_of_that_name_is_let_alone(module_db: Database) -> None:
    corpus = new_corpus(module_db, cypher=False)
    schema = f"graphrag_{corpus_id(module_db, corpus)}"
    module_db.execute(f"CREATE SCHEMA {schema}".encode())
    index_all(module_db, corpus, STORIES)
    assert violations(module_db, corpus) == []
    module_db.execute("SELECT graphrag.drop_corpus(%s)", [corpus])
    module_db.execute(f"DROP SCHEMA {schema}".encode())


@pytest.mark.parametrize("value_", ["yes", 1, []])
def test_the_option_is_true_or_false(module_db: Database, value_: object) -> None:
    with pytest.raises(psycopg.errors.InvalidParameterValue, match="cypher"):
        new_corpus(module_db, cypher=value_)
