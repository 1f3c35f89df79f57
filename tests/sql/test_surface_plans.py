"""Nothing that users call has a plan that reads more than in proportion to its tables: whatever statistics say, whoever asks."""

from __future__ import annotations

import json
import re
from collections import defaultdict
from collections.abc import Iterator
from typing import Any

import psycopg
import pytest
from bench.public_surface import READER, calls, fill
from psycopg import sql
from psycopg.errors import Diagnostic

from tests.runtime.cluster import Database
from tests.sql.test_old_statistics import EXPLAINED, FOREIGN_KEY

SIZE = 200
# How often all rows of the tables a node may return or leave out, how many at each turn of a loop, and what is small anyway.
MULTIPLE, LOOKED_UP, SMALL = 3, 20, 5000
# What has its rows from elsewhere than tables.
MADE = ("Function Scan", "Table Function Scan", "Values Scan", "Named Tuplestore Scan")
Plan = dict[str, Any]
# Where a node stands in its plan, and what it is.
Place = tuple[tuple[int, ...], str]


def nodes(plan: Plan, place: tuple[int, ...] = ()) -> Iterator[tuple[Place, Plan]]:
    yield (place, described(plan)), plan
    for number, child in enumerate(plan.get("Plans", ())):
        yield from nodes(child, (*place, number))


def touched(plan: Plan) -> float:
    """Return how many rows a node returned or left out, in all its loops."""
    rows = sum(count for key, count in plan.items() if key == "Actual Rows" or key.startswith("Rows Removed"))
    return float(rows * plan["Actual Loops"])


def described(plan: Plan) -> str:
    parts = (plan["Node Type"], plan.get("Relation Name") or plan.get("Function Name") or plan.get("CTE Name"))
    return " ".join(filter(None, parts))


class Explained:
    """The plans of one call, of the statement itself and of all that its functions send."""

    def __init__(self, connection: psycopg.Connection[Any], counts: dict[str, int]) -> None:
        self._counts = counts
        self._plans: dict[str, list[Plan]] = defaultdict(list)
        connection.add_notice_handler(self._note)

    def _note(self, notice: Diagnostic) -> None:
        message = notice.message_primary or ""
        if "plan:\n" in message:
            explained = json.loads(message.split("plan:\n", 1)[1])
            if not FOREIGN_KEY.match(explained["Query Text"]):
                text = re.sub(r"\d[\d,]*", "0", " ".join(explained["Query Text"].split()))
                self._plans[text].append(explained["Plan"])

    def factors(self) -> list[tuple[float, str]]:
        """Return by statement how much the node that reads most read, as a share of what it may, since the last call.

        A statement that is sent often counts as one. A node may return or leave out a multiple of the rows of all tables of its
        statement, and of what functions make; and, where it stands within a loop, a few rows at each turn.
        """
        found = []
        for text, plans in self._plans.items():
            relations: set[str] = set()
            made: dict[Place, float] = defaultdict(float)
            rows: dict[Place, float] = defaultdict(float)
            loops: dict[Place, float] = defaultdict(float)
            for plan in plans:
                for place, node in nodes(plan):
                    # It counts dead rows, too.
                    if node["Node Type"] == "Bitmap Index Scan":
                        continue
                    rows[place] += touched(node)
                    loops[place] += node["Actual Loops"]
                    if "Relation Name" in node:
                        relations.add(node["Relation Name"])
                    elif node["Node Type"] in MADE:
                        made[place] += node["Actual Rows"]
            held = sum(self._counts.get(relation, 0) for relation in relations) + sum(made.values())
            factor, place = max((rows[place] / (MULTIPLE * held + LOOKED_UP * loops[place] + SMALL), place) for place in rows)
            found.append((
                factor,
                f"{place[1]}: {rows[place]:.0f} rows in {loops[place]:.0f} loops, tables have {held:.0f}; in {text[:300]}",
            ))
        self._plans.clear()
        return sorted(found, reverse=True)


def counted(db: Database) -> dict[str, int]:
    """Return how many rows each table of ours has."""
    names = db.execute(
        "SELECT relname, oid::regclass::text FROM pg_class"
        " WHERE relkind IN ('r', 'p') AND (relnamespace::regnamespace::text ~ '^(graphrag|shop)' OR relname ~ '^pg_')"
    ).fetchall()
    return {name: db.execute(f"SELECT count(*) FROM {table}".encode()).fetchone()[0] for name, table in names}


def excesses(url: str, role: str, counts: dict[str, int], most: float = 1) -> list[str]:
    """Return what of the surface reads too much for a role."""
    failures = []
    with psycopg.connect(url, autocommit=True) as connection:
        wanted = calls(connection, role or str(connection.info.user))
        connection.execute("SET max_parallel_workers_per_gather = 0")
        connection.execute(EXPLAINED)
        connection.execute("SET auto_explain.log_parameter_max_length = 0")
        if role:
            connection.execute(sql.SQL("SET SESSION AUTHORIZATION {}").format(sql.Identifier(role)))
        explained = Explained(connection, counts)
        for call in wanted:
            try:
                call.run(connection)
            except psycopg.errors.InsufficientPrivilege:
                assert role
            except psycopg.Error as error:
                failures.append(f"{call.name}: {error}")
            failures += [f"{call.name}: {what}" for factor, what in explained.factors() if factor > most]
    return failures


@pytest.fixture(scope="module")
def surface(module_db: Database) -> Database:
    """A corpus with rows, whose tables were analyzed when they had a tenth of what they have."""
    fill(module_db, [SIZE // 10, SIZE])
    return module_db


@pytest.mark.parametrize("role", ["", READER], ids=["owner", "reader of a part"])
@pytest.mark.parametrize("analyzed", [False, True], ids=["old statistics", "analyzed"])
def test_no_plan_reads_more_than_a_multiple_of_its_tables(surface: Database, analyzed: bool, role: str) -> None:
    if analyzed:
        surface.execute("ANALYZE")
    failures = excesses(surface.url, role, counted(surface))
    assert not failures, "\n".join(failures)
