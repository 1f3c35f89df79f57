"""What a process gets from its database: one snapshot for a search, and values of the types that PL/Python gives."""

from collections.abc import Callable
from typing import Any, LiteralString

import psycopg
import pytest
from pg_graphrag.beside.process.database import ProcessDatabase
from pg_graphrag.beside.process.routines import Routine, find

from tests.runtime.cluster import Database
from tests.sql.two_hosts import PROBE, outcome, probe


def test_a_search_has_one_snapshot_and_writes_nothing(plain: str) -> None:
    search = find("search", {"query"})
    with psycopg.connect(plain, autocommit=True) as connection, psycopg.connect(plain, autocommit=True) as other:
        db = ProcessDatabase(connection)
        seen = []
        count: LiteralString = "SELECT pg_catalog.count(*) AS count FROM graphrag.jobs"

        def look(db: ProcessDatabase) -> None:
            seen.append(db.query(count))
            other.execute("INSERT INTO graphrag.documents (source_key, content) VALUES ('late', 'Late.')")
            seen.append(db.query(count))
            db.query("DELETE FROM graphrag.jobs")

        assert outcome(lambda: _called(db, search, look))[1] == "25006"
        assert seen == 2 * [[{"count": 0}]]
        assert other.execute(count).fetchone() == (1,)


def _called(db: ProcessDatabase, routine: Routine, work: Callable[[ProcessDatabase], None]) -> None:
    """Do some work as a routine would."""
    with db._call(routine):
        work(db)


VALUES = [
    ("SELECT $1 AS value", ["bool"], [True]),
    ("SELECT $1 AS value", ["bool"], [None]),
    ("SELECT $1 AS a, $2 AS b, $3 AS c", ["int2", "int4", "int8"], [1, -(2**31), 2**62]),
    ("SELECT $1 AS a, $1::float4 AS b, $1::numeric AS c", ["float8"], [0.1]),
    ("SELECT ARRAY[0.1, 1e-5]::float4[] AS value", [], []),
    ("SELECT $1 AS value", ["numeric"], [1.25]),
    ("SELECT $1 AS value, pg_catalog.length($1) AS length", ["text"], ["日本 \\ \" ' {}, NULL"]),
    ("SELECT $1 AS value", ["text[]"], [["a", None, "", "NULL", 'q"\\', "{x}", " "]]),
    ("SELECT $1 AS value", ["int8[]"], [[1, 2, None]]),
    ("SELECT $1 AS value", ["int4[]"], [[]]),
    ("SELECT $1 AS value", ["bytea"], [b"\x00\xff\\x"]),
    ("SELECT $1 AS value", ["bytea[]"], [[b"\x00", b"\\"]]),
    ("SELECT $1 AS value, $1 -> 'b' AS part, '[1]'::json AS plain", ["jsonb"], ['{"b": [1, 2], "a": null}']),
    ("SELECT ARRAY['{}'::jsonb] AS value", [], []),
    ("SELECT '2024-05-01 10:00+02'::timestamptz AS a, '2024-05-01'::date AS b, '1 day 2 hours'::interval AS c", [], []),
    ("SELECT 'graphrag.corpora'::pg_catalog.regclass AS a, 12::oid AS b, 'x'::name AS c, 'c'::\"char\" AS d", [], []),
    ("SELECT ARRAY['x']::name[] AS a, '{1,2}'::int2[] AS b, ARRAY[true, false] AS c", [], []),
    ("SELECT '[1,2.5]'::public.vector AS value", [], []),
    ("SELECT coalesce($1, 'none') AS value", ["text"], [None]),
    ("SELECT FROM pg_catalog.generate_series(1, 2)", [], []),
    ("SELECT u.a, u.b FROM unnest($1, $2) AS u (a, b)", ["text[]", "float8[]"], [["x", "y"], [0.1, None]]),
]


@pytest.fixture(scope="module")
def probed(module_db: Database) -> Database:
    module_db.execute(PROBE)
    return module_db


@pytest.mark.parametrize(("statement", "types", "values"), VALUES)
def test_values_have_the_types_of_pl_python(
    probed: Database, plain: str, statement: str, types: list[str], values: list[Any]
) -> None:
    statement = statement.replace("public.vector", _vector_type(probed))
    search = find("search", {"query"})
    with psycopg.connect(plain, autocommit=True) as connection:
        rows: list[Any] = []
        _called(ProcessDatabase(connection), search, lambda db: rows.extend(db.query(statement, types, values)))
    assert repr(rows) == probe(probed, statement, types, values)


def _vector_type(db: Database) -> str:
    row = db.execute(
        "SELECT n.nspname FROM pg_extension e JOIN pg_namespace n ON n.oid = e.extnamespace WHERE extname = 'vector'"
    )
    result = row.fetchone()
    assert result is not None
    return f"{result[0]}.vector"


def test_a_text_with_a_null_character_is_refused_and_not_cut(plain: str) -> None:
    search = find("search", {"query"})
    with psycopg.connect(plain, autocommit=True) as connection:
        db = ProcessDatabase(connection)
        result = outcome(lambda: _called(db, search, lambda db: db.query("SELECT $1 AS value", ["text"], ["a\0b"])))
    assert result[1] == "22021"
