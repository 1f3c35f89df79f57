"""The fence around statements that models write: one SELECT over named relations, whatever else is tried."""

import pytest
from pg_graphrag.search.answer.sql_fence import MAX_CHARACTERS, Refused, fenced

RELATIONS = (("shop", "machines"), ("shop", "plants"), ("graphrag", "graph_nodes"), ("a", "twins"), ("b", "twins"))


def run(statement: str) -> str:
    return fenced(statement, RELATIONS).text


@pytest.mark.parametrize(
    ("statement", "text"),
    [
        ("SELECT count(*) FROM machines", "SELECT pg_catalog.count(*) FROM shop.machines AS machines"),
        ("SELECT shop.machines.code FROM shop.machines", "SELECT machines.code FROM shop.machines AS machines"),
        ("SELECT m.code FROM machines m", "SELECT m.code FROM shop.machines AS m"),
        (
            "WITH old AS (SELECT * FROM machines) SELECT old.code FROM old",
            'WITH "with old" AS (SELECT * FROM shop.machines AS machines) SELECT old.code FROM "with old" AS old',
        ),
        ("TABLE plants", "SELECT * FROM shop.plants AS plants"),
    ],
)
def test_relations_are_qualified_and_functions_are_the_servers_own(statement: str, text: str) -> None:
    assert run(statement) == text


def test_a_statement_says_which_relations_it_reads() -> None:
    statement = "SELECT 1 FROM machines WHERE plant_id IN (SELECT id FROM plants)"
    assert fenced(statement, RELATIONS).relations == {("shop", "machines"), ("shop", "plants")}


@pytest.mark.parametrize(
    "expression",
    [
        "extract(year FROM built)",
        "trim(code)",
        "substring(code FROM 1 FOR 2)",
        "position('a' IN code)",
        "built AT TIME ZONE 'UTC'",
        "built + interval '1 day'",
        "built::date",
        "CASE WHEN id = 1 THEN 'a' ELSE 'b' END",
        "avg(id) FILTER (WHERE id > 1) OVER (PARTITION BY plant_id ORDER BY id ROWS BETWEEN 1 PRECEDING AND CURRENT ROW)",
        "percentile_cont(.5) WITHIN GROUP (ORDER BY id)",
        "string_agg(DISTINCT code, ', ' ORDER BY code)",
        "code ILIKE '%a%' AND code ~ 'x' OR code SIMILAR TO 'a%'",
        "built BETWEEN '2020-01-01' AND '2021-01-01'",
        "coalesce(nullif(code, ''), 'none'), greatest(1, 2), current_date",
        "ARRAY[1, 2], (ARRAY[1, 2])[1], id = ANY (ARRAY[1, 2])",
        "id IS DISTINCT FROM 1, id IS NULL, (id > 1) IS TRUE",
        "attributes ->> 'a', attributes @> '{}'",
        "EXISTS (SELECT 1), (SELECT max(id) FROM plants)",
    ],
)
def test_ordinary_expressions_pass(expression: str) -> None:
    assert run(f"SELECT {expression} FROM machines")


@pytest.mark.parametrize(
    "statement",
    [
        "SELECT a.code FROM machines a JOIN plants b ON b.id = a.plant_id LEFT JOIN plants c USING (id)",
        "SELECT code FROM machines UNION ALL SELECT name FROM plants ORDER BY 1 LIMIT 3 OFFSET 1",
        "SELECT x.n FROM (SELECT count(*) n FROM machines GROUP BY GROUPING SETS ((plant_id), ())) x",
        "SELECT p.name, m.code FROM plants p, LATERAL (SELECT code FROM machines WHERE plant_id = p.id) m",
        "VALUES (1)",
    ],
)
def test_ordinary_statements_pass(statement: str) -> None:
    assert run(statement)


@pytest.mark.parametrize(
    "statement",
    [
        "",
        "SELECT 1; SELECT 2",
        "SELECT 1; DROP TABLE shop.machines",
        "DELETE FROM machines",
        "INSERT INTO machines VALUES (1)",
        "UPDATE machines SET code = ''",
        "MERGE INTO machines m USING plants p ON true WHEN MATCHED THEN DELETE",
        "TRUNCATE machines",
        "DO $$BEGIN END$$",
        "CALL x()",
        "COPY machines TO PROGRAM 'id'",
        "EXPLAIN ANALYZE SELECT 1",
        "SET ROLE postgres",
        "SHOW all",
        "LOCK TABLE machines",
        "PREPARE x AS SELECT 1",
        "EXECUTE x",
        "DECLARE x CURSOR FOR SELECT 1",
        "LISTEN x",
        "NOTIFY x",
        "VACUUM",
        "BEGIN",
        "COMMIT",
        "CREATE TABLE x AS SELECT 1",
        "SELECT * INTO x FROM machines",
        "SELECT * FROM machines FOR UPDATE",
        "SELECT * FROM (SELECT * FROM machines FOR SHARE) x",
        "WITH d AS (DELETE FROM machines RETURNING *) SELECT * FROM d",
        "WITH RECURSIVE r AS (SELECT 1 UNION ALL SELECT 1 FROM r) SELECT * FROM r",
        "SELECT * FROM pg_authid",
        "SELECT * FROM pg_catalog.pg_authid",
        "SELECT * FROM information_schema.tables",
        "SELECT * FROM graphrag.documents",
        "SELECT * FROM other.shop.machines",
        "SELECT * FROM twins",
        "SELECT * FROM c.twins",
        "SELECT (SELECT rolpassword FROM pg_authid LIMIT 1)",
        "SELECT 1 WHERE EXISTS (SELECT 1 FROM pg_authid)",
        "SELECT 1 ORDER BY (SELECT 1 FROM pg_authid)",
        "SELECT 1 LIMIT (SELECT 1 FROM pg_authid)",
        "SELECT count(*) FILTER (WHERE EXISTS (SELECT FROM pg_authid)) FROM machines",
        "SELECT count(*) OVER (ORDER BY (SELECT 1 FROM pg_authid)) FROM machines",
        "SELECT pg_sleep(10)",
        "SELECT pg_catalog.pg_sleep(10)",
        "SELECT set_config('role', 'postgres', false)",
        "SELECT current_setting('graphrag.x')",
        "SELECT pg_read_file('/etc/passwd')",
        "SELECT lo_import('/etc/passwd')",
        "SELECT query_to_xml('SELECT 1', true, true, '')",
        "SELECT pg_terminate_backend(1)",
        "SELECT nextval('x')",
        "SELECT graphrag.retract('a', 'b')",
        "SELECT shop.lower('A')",
        "SELECT dblink('', '')",
        "SELECT repeat('x', 1000000000)",
        "SELECT * FROM generate_series(1, 1000000000)",
        "SELECT generate_series(1, 1000000000)",
        "SELECT * FROM ROWS FROM (pg_ls_dir('/')) x",
        # PostgreSQL reads (value).name as name(value), too.
        "SELECT ('/etc/passwd'::text).pg_read_file",
        "SELECT (code).pg_read_file FROM machines",
        "SELECT (ARRAY[code])[1].pg_read_file FROM machines",
        "SELECT code[1].pg_read_file FROM machines",
        "SELECT ((SELECT 'shop.numbers'::text)).nextval",
        "SELECT * FROM machines TABLESAMPLE system(1)",
        "SELECT * FROM XMLTABLE('a' PASSING 'b' COLUMNS x text)",
        "SELECT * FROM JSON_TABLE('[]', '$' COLUMNS (x int PATH '$'))",
        "SELECT xmlelement(name a)",
        "SELECT 'x'::regclass",
        "SELECT 'x'::shop.evil",
        "SELECT 1::machines",
        "SELECT 'x'::machines.code%TYPE",
        "SELECT id OPERATOR(shop.+) 1 FROM machines",
        "SELECT 1 OPERATOR(shop.=) ANY (SELECT 2)",
        "SELECT 1 OPERATOR(shop.=) ALL (SELECT 2)",
        "SELECT (1, 2) OPERATOR(shop.=) (SELECT 1, 2)",
        "SELECT 1 ORDER BY 1 USING OPERATOR(shop.<)",
        'SELECT code COLLATE "shop"."evil" FROM machines',
        "SELECT current_user",
        "SELECT session_user",
        "SELECT $1",
        "SELECT ':x' :: oid",
        "SELECT 1 WHERE CURRENT OF x",
        'SELECT * FROM "with machines"',
        "SELECT '",
        "SELECT 1 FROM",
        "\x00",
        f"SELECT '{'x' * MAX_CHARACTERS}'",
    ],
)
def test_everything_else_is_refused(statement: str) -> None:
    with pytest.raises(Refused):
        run(statement)


@pytest.mark.parametrize("depth", [500, 1900])
def test_deep_nesting_is_refused_or_runs_flat(depth: int) -> None:
    try:
        assert run(f"SELECT {'(' * depth}1{')' * depth}") == "SELECT 1"
    except Refused:
        return


@pytest.mark.parametrize("depth", [200, 1300])
def test_deep_expressions_end(depth: int) -> None:
    try:
        run("SELECT " + "- " * depth + "id FROM machines")
    except Refused as refusal:
        assert "deep" in str(refusal) or "parsed" in str(refusal) or "printed" in str(refusal)


def test_the_name_of_a_common_table_expression_leads_to_no_relation() -> None:
    """In its own body PostgreSQL would look for a table of that name."""
    text = run("WITH pg_authid AS (SELECT * FROM pg_authid) SELECT * FROM pg_authid")
    assert "FROM pg_authid" not in text
    text = run("WITH machines AS (SELECT 1 AS one) SELECT * FROM shop.machines, machines x")
    assert "shop.machines AS machines" in text
    assert '"with machines" AS x' in text
