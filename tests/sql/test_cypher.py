"""graphrag.cypher reads the graph of a corpus, and only reads."""

import json
from collections.abc import Callable
from typing import Any

import psycopg
import pytest

from tests.sql.graph_rows import corpus, cypher, entity, project_all, relationship


@pytest.fixture
def graph(db: Any) -> Any:
    c = corpus(db)
    ids = [entity(db, c, name) for name in ("Alice", "Bob", "Carol")]
    relationship(db, c, ids[0], ids[1], "1")
    relationship(db, c, ids[1], ids[2], "2.25")
    project_all(db, c)
    return db


def test_rows_are_objects_keyed_by_alias(graph: Any) -> None:
    assert cypher(
        graph,
        "MATCH (e:Entity)-[r:RELATED]->(f) RETURN e.name AS from_name, r.weight, f.name AS to "
        "ORDER BY e.name, f.name LIMIT 2",
    ) == [{"from_name": "Alice", "r.weight": 1, "to": "Bob"}, {"from_name": "Bob", "r.weight": 1, "to": "Alice"}]


def test_values_of_every_kind_become_json(graph: Any) -> None:
    row = cypher(
        graph,
        r"""RETURN 1 AS i, 1.5 AS f, 2.50::numeric AS n, true AS b, null AS z,
            [1, 'a', null] AS l, {k: {x: 1}} AS m, 'q"\' \\ 😀' AS s""",
    )[0]
    assert row == {
        "i": 1,
        "f": 1.5,
        "n": 2.5,
        "b": True,
        "z": None,
        "l": [1, "a", None],
        "m": {"k": {"x": 1}},
        "s": "q\"' \\ 😀",
    }
    assert cypher(graph, "RETURN toFloat('NaN') AS a, toFloat('-Infinity') AS b") == [{"a": "NaN", "b": "-Infinity"}]


def test_a_path_is_a_list_of_vertices_and_edges(graph: Any) -> None:
    path = cypher(graph, "MATCH p = (:Entity {key: 'alice'})-[:RELATED*2..2]->(:Entity {key: 'carol'}) RETURN p")[0][
        "p"
    ]
    assert [item["label"] for item in path] == ["Entity", "RELATED", "Entity", "RELATED", "Entity"]


@pytest.mark.sample(5)
@pytest.mark.parametrize(
    "value",
    ["it's", '"', "\\", "$$", "$cypher$", "'}) RETURN 1 //", "😀", 7, 1.5, True, None, [1, "a"], {"a": {"b": 1}}],
)
def test_parameters_are_values_never_text(graph: Any, value: object) -> None:
    assert cypher(graph, "RETURN $v AS v", json.dumps({"v": value})) == [{"v": value}]


def test_a_parameter_finds_an_entity(graph: Any) -> None:
    assert cypher(graph, "MATCH (e:Entity {key: $key}) RETURN e.name AS name", '{"key": "bob"}') == [{"name": "Bob"}]


def test_dollar_quotes_in_the_query_are_text(graph: Any) -> None:
    assert cypher(graph, "RETURN '$$ $cypher$ $cypher_$' AS v // $$") == [{"v": "$$ $cypher$ $cypher_$"}]


def test_a_missing_parameter_is_named(graph: Any) -> None:
    with pytest.raises(psycopg.errors.InvalidParameterValue, match=r"\$key"):
        cypher(graph, "MATCH (e {key: $key}) RETURN e")


@pytest.mark.parametrize(
    "query",
    [
        "CREATE (n:Entity)",
        "MATCH (e:Entity) SET e.name = 'x' RETURN e",
        "MATCH (e:Entity) DETACH DELETE e",
        "MERGE (n:Entity {key: 'x'}) RETURN n",
    ],
)
def test_writing_is_refused_and_changes_nothing(graph: Any, query: str) -> None:
    before = cypher(graph, "MATCH (e) RETURN e")
    with pytest.raises(psycopg.errors.ReadOnlySqlTransaction):
        cypher(graph, query)
    assert cypher(graph, "MATCH (e) RETURN e") == before


def test_errors_of_age_carry_a_hint_to_its_reference(graph: Any) -> None:
    for query in ("MATCH (e:Entity RETURN) RETURN e", "RETURN nope(1) AS x", "RETURN undefined_variable"):
        with pytest.raises(psycopg.Error) as caught:
            cypher(graph, query)
        assert "age.apache.org" in (caught.value.diag.message_hint or "")


def test_a_list_beyond_a_gigabyte_is_too_large_and_no_internal_error(graph: Any) -> None:
    with pytest.raises(psycopg.errors.ProgramLimitExceeded, match="1073741824"):
        cypher(graph, "UNWIND range(1, 100000000) AS x RETURN count(x) AS n")


def test_a_corpus_without_a_graph_has_no_rows_and_still_refuses_writes(db: Any) -> None:
    corpus(db)
    assert cypher(db, "MATCH (e) RETURN e") == []
    with pytest.raises(psycopg.errors.ReadOnlySqlTransaction):
        cypher(db, "CREATE (e)")


def test_a_statement_timeout_ends_a_query(graph: Any) -> None:
    graph.execute("SET statement_timeout = '300ms'")
    with pytest.raises(psycopg.errors.QueryCanceled):
        cypher(graph, "UNWIND range(1, 100000) AS a UNWIND range(1, 100000) AS b RETURN count(*) AS n")


def test_any_search_path_and_a_read_only_transaction_will_do(graph: Any) -> None:
    graph.execute("SET search_path = ''")
    with graph.transaction():
        graph.execute("SET TRANSACTION READ ONLY")
        assert cypher(graph, "MATCH (e:Entity {key: 'bob'}) WHERE e.degree >= 0 RETURN e.name AS name") == [
            {"name": "Bob"}
        ]


def test_a_reader_is_told_what_to_use_instead(graph: Any) -> None:
    graph.execute("GRANT USAGE ON SCHEMA ag_catalog TO graphrag_reader")
    with graph.transaction():
        graph.execute("SET LOCAL ROLE graphrag_reader")
        with pytest.raises(psycopg.errors.InsufficientPrivilege) as caught, graph.transaction():
            cypher(graph, "MATCH (e) RETURN e")
        assert "neighbors" in (caught.value.diag.message_hint or "")


def test_a_role_under_row_security_may_not_use_variable_length_patterns(graph: Any) -> None:
    graph.execute("ALTER TABLE graphrag.documents ENABLE ROW LEVEL SECURITY")
    with graph.transaction():
        graph.execute("SET LOCAL ROLE graphrag_reader")
        with pytest.raises(psycopg.errors.FeatureNotSupported, match="variable-length"), graph.transaction():
            cypher(graph, "MATCH (a)-[*]->(b) RETURN a")


def test_it_works_where_age_is_not_preloaded(cluster: Callable[..., Any]) -> None:
    private = cluster({"shared_preload_libraries": ""})
    private.create_database("plain")
    with private.connect("plain") as db:
        db.execute("CREATE EXTENSION pg_graphrag CASCADE")
        c = corpus(db)
        entity(db, c, "Alice")
        project_all(db, c)
    with private.connect("plain") as db:
        assert cypher(db, "MATCH (e:Entity) RETURN e.name AS name") == [{"name": "Alice"}]


def test_rows_are_made_as_they_are_fetched(graph: Any) -> None:
    """PL/Python makes all rows of a fetch without a look for a cancel; here the last row fails."""
    graph.execute("""DO LANGUAGE plpython3u $$
        from pg_graphrag.index.graph.cypher import cypher
        from pg_graphrag.server import Database
        plpy.execute("SET LOCAL search_path = pg_catalog, ag_catalog, pg_temp")
        rows = cypher(Database(plpy), "c", "UNWIND range(1, 2000) AS i RETURN 1 / (2000 - i) AS v", "{}")
        assert next(rows) == '{"v": 0}'
    $$""")
    with pytest.raises(psycopg.errors.DivisionByZero):
        cypher(graph, "UNWIND range(1, 2000) AS i RETURN 1 / (2000 - i)")
