"""What Cypher text is let through, what is said of the rest, and agtype as JSON."""

import json

import pytest
from pg_graphrag.ground.errors import GraphRAGError
from pg_graphrag.index.graph.cypher_text import json_of, parse_cypher, with_types


@pytest.mark.parametrize(
    "query",
    [
        "CREATE (n:Entity)",
        "match (n) set n.x = 1 return n",
        "MATCH (n) SeT/* a comment */n.x = 1 RETURN n",
        "MATCH (n)//line\nDELETE n",
        "MATCH (n) DETACH\tDELETE n",
        "MATCH (n)\v\fREMOVE\r\nn.x RETURN n",
        "MERGE (n:Entity {key: 'x'}) RETURN n",
        "CALL pg_catalog.pg_sleep(1)",
        "MATCH (n) RETURN n; DROP TABLE x",
        "RETURN 1CREATE (n)",
        "RETURN 1.CREATE (n)",
        "RETURN 1e5CREATE (n)",
        "RETURN 0x1MERGE (n)",
        r"RETURN 'it\'s' CREATE (n {a: 'x'})",
        r"RETURN 'a\\' CREATE (n {a: 'x'})",
        'RETURN "\'" CREATE (n {a: "\'"})',
        "RETURN `a``b` CREATE (n)",
        "RETURN 1 /* /* */ CREATE (n) /* */",
        "RETURN 1 /**/CREATE (n)/**/",
        "EXPLAIN ANALYZE MATCH (n) SET n.x = 1",
    ],
)
def test_a_query_that_writes_is_refused_as_read_only(query: str) -> None:
    with pytest.raises(GraphRAGError) as caught:
        parse_cypher(query)
    assert caught.value.sqlstate == "25006"
    assert caught.value.hint


@pytest.mark.parametrize(
    "query",
    [
        "MATCH (n) WHERE n.name = 'CREATE (x) SET y' RETURN n",
        'RETURN "DELETE" AS x',
        r"RETURN 'it\'s CREATE' AS x",
        "MATCH (n) /* MERGE */ RETURN n // SET",
        "MATCH (`create`) RETURN `create`.`set` AS x",
        "MATCH (n) RETURN n.created, n.offset AS dataset",
        "RETURN 'a\\\\' AS `DROP`",
        "MATCH (CREATE\u00a0) RETURN 1 AS one",  # to AGE a no-break space is a letter
    ],
)
def test_a_keyword_within_a_literal_comment_or_quoted_name_is_let_through(query: str) -> None:
    assert parse_cypher(query).columns


@pytest.mark.parametrize(
    ("query", "columns"),
    [
        ("MATCH (n) RETURN n", ["n"]),
        ("MATCH (n) RETURN DISTINCT n.name AS name, count(*)", ["name", "count(*)"]),
        ("RETURN [1, 2, {a: 3, b: [4, 5]}] AS list, coalesce(1, 2) AS c ORDER BY c SKIP 1 LIMIT 2;", ["list", "c"]),
        ("RETURN 'a, b AS c' AS `x, y`, 1 AS `q``q`", ["x, y", "q`q"]),
        ("RETURN n.limit, n.order AS o LIMIT 3", ["n.limit", "o"]),
        ("WITH 1 AS a RETURN a UNION ALL WITH 2 AS b RETURN b AS a", ["a"]),
        ("MATCH (n) WHERE exists((n)-[]->()) RETURN CASE WHEN n.x = 1 THEN 'a' ELSE 'b' END AS kind", ["kind"]),
        ("RETURN /* , */ 1 // , 2\n AS one", ["one"]),
        ("return 1 as Café", ["Café"]),
    ],
)
def test_columns_are_the_aliases_else_the_expressions(query: str, columns: list[str]) -> None:
    assert parse_cypher(query).columns == columns


@pytest.mark.parametrize(
    ("query", "sqlstate"),
    [
        ("", "42601"),
        ("  // nothing", "42601"),
        ("MATCH (n)", "42601"),
        ("MATCH (n) RETURN", "42601"),
        ("RETURN DISTINCT", "42601"),
        ("RETURN 1,,2", "42601"),
        ("RETURN (1", "42601"),
        ("RETURN 1)", "42601"),
        ("RETURN 'open", "42601"),
        ("RETURN 1 /* open", "42601"),
        ("RETURN `open", "42601"),
        ("RETURN 1 AS a UNION RETURN 1 AS a, 2 AS b", "42601"),
        ("EXPLAIN MATCH (n) RETURN n", "42601"),
        ("MATCH (n) RETURN *", "0A000"),
        ("RETURN pg_catalog.setval('s', 1)", "0A000"),
        ("RETURN `pg_catalog` /* */ . `setval`('s', 1)", "0A000"),
        ("RETURN 1 AS a, 2 AS a", "42701"),
    ],
)
def test_what_cannot_be_run_is_an_error_with_a_hint(query: str, sqlstate: str) -> None:
    with pytest.raises(GraphRAGError) as caught:
        parse_cypher(query)
    assert caught.value.sqlstate == sqlstate
    assert caught.value.hint


@pytest.mark.parametrize(
    ("query", "loads"),
    [
        ("MATCH (a)-[*]->(b) RETURN a", True),
        ("MATCH (a)<-[r:RELATED*1..3 {weight: 1}]-(b) RETURN a", True),
        ("MATCH (a)- /* */ [ /* */ * ]-(b) RETURN a", True),
        ("RETURN vle(1, 2) AS x", True),
        ("RETURN `vle`(1, 2) AS x", True),
        ("MATCH (a)-[r {weight: 2 * 3}]->(b) RETURN a.x * 2 AS x, [1 * 2] AS y, count(*) AS z", False),
    ],
)
def test_variable_length_patterns_are_recognised(query: str, loads: bool) -> None:
    assert parse_cypher(query).loads_graph is loads


def test_parameters_are_found_outside_literals() -> None:
    assert parse_cypher("MATCH (n {key: $a}) WHERE n.x = '$b' RETURN $c AS c // $d").parameters == {"a", "c"}


@pytest.mark.parametrize(
    ("query", "read"),
    [
        ("MATCH (m:Machine) RETURN m", 'MATCH (m:Entity {type: "it\'s \\"new\\""}) RETURN m'),
        ("MATCH (:Machine{code: 1}) RETURN 1", 'MATCH (:Entity{type: "it\'s \\"new\\"", code: 1}) RETURN 1'),
        (
            "MATCH (m :`Machine` { } )--(:Plant) RETURN m",
            'MATCH (m :Entity {type: "it\'s \\"new\\"" } )--(:Entity {type: "plant"}) RETURN m',
        ),
        ("MATCH (a {x: [1]})-[:Machine]->(b:Entity) RETURN {Machine: a}", None),
        ("MATCH (a) WHERE a.x = '(m:Machine)' RETURN (a.Machine), (1::Machine), [a:Machine] // (m:Machine)", None),
    ],
)
def test_types_stand_where_labels_of_vertices_do(query: str, read: str | None) -> None:
    types = {"Machine": 'it\'s "new"', "Plant": "plant"}
    assert with_types(parse_cypher(query), types) == (query if read is None else read)


@pytest.mark.parametrize(
    ("agtype", "value"),
    [
        (None, None),
        (
            '{"id": 1, "properties": {"w": 1.50::numeric, "s": "x::vertex"}}::vertex',
            {"id": 1, "properties": {"w": 1.5, "s": "x::vertex"}},
        ),
        ('[{"id": 1}::vertex, {"id": 2}::edge]::path', [{"id": 1}, {"id": 2}]),
        ("[NaN, Infinity, -Infinity, null, true]", ["NaN", "Infinity", "-Infinity", None, True]),
        (r'"NaN \" Infinity ::edge"', 'NaN " Infinity ::edge'),
        ("NaN::numeric", "NaN"),
    ],
)
def test_agtype_becomes_json(agtype: str | None, value: object) -> None:
    assert json.loads(json_of(agtype)) == value
