"""Whatever users call reads in proportion to its tables, and is expected to: whatever statistics say, whoever asks.

No clock: auto_explain tells of every statement, and of every one that a function sends, how many rows each node of its plan read.
"""

import json
import re
from collections import defaultdict
from collections.abc import Iterator, Sequence
from functools import lru_cache
from typing import Any

import psycopg
import pytest
from pg_graphrag.beside.client.graph_items import GRAPH
from psycopg import sql
from psycopg.errors import Diagnostic

from bench.load.public_surface import ARGUMENTS, CORPUS, PAGES, READER, SORTED_BY, Call, calls, fill, statement
from tests.runtime.cluster import Cluster, Database, Server
from tests.sql.test_old_statistics import EXPLAINED, FOREIGN_KEY

SIZE = 400
# How often all rows of its tables a node may return or leave out, how many at each turn of a loop, and what is little anyway.
MULTIPLE, LOOKED_UP, LITTLE = 8, 40, 5000
# What the planner may expect of a statement for each of these rows, and anyway: from there on, a new server compiles it.
# Before the first ANALYZE each look-up by an index is expected to find ten rows.
EXPECTED, EXPECTED_AT_FIRST, COMPILED = 30, 300, 100_000
# From how many times on a statement that a function sends over and over is judged by what all of them read.
OFTEN = 20
# What has its rows from elsewhere than tables.
MADE = ("Function Scan", "Table Function Scan", "Values Scan", "Named Tuplestore Scan")
Plan = dict[str, Any]
# Where a node stands in its plan, and what it is.
Place = tuple[tuple[int, ...], str]


def nodes(plan: Plan, place: tuple[int, ...] = ()) -> Iterator[tuple[Place, Plan]]:
    relation = plan.get("Relation Name") or plan.get("Function Name") or plan.get("CTE Name")
    yield (place, " ".join(filter(None, (plan["Node Type"], relation)))), plan
    for number, child in enumerate(plan.get("Plans", ())):
        yield from nodes(child, (*place, number))


def relations(plan: Plan) -> set[str]:
    """Return the tables that a node and those below it read."""
    own = {plan["Relation Name"]} if "Relation Name" in plan else set()
    return own.union(*(relations(child) for child in plan.get("Plans", ())))


def fault(plans: list[Plan], counts: dict[str, int], expected: int) -> str:
    """Return which node of the plans of one statement read more rows than it may, or what was expected; "": all is well.

    `expected`: what may be expected for each row of its tables.
    """
    read: set[str] = set()
    made = 0.0
    rows: dict[Place, float] = defaultdict(float)
    loops: dict[Place, float] = defaultdict(float)
    for plan in plans:
        for place, node in nodes(plan):
            below, turns, returned = relations(node), node["Actual Loops"], node["Actual Rows"]
            # The one counts dead rows too; catalogs do not grow with a corpus.
            if node["Node Type"] == "Bitmap Index Scan" or (below and all(name.startswith("pg_") for name in below)):
                continue
            rows[place] += turns * sum(
                count for key, count in node.items() if key == "Actual Rows" or key.startswith("Rows Removed")
            )
            loops[place] += turns
            read |= below
            if node["Node Type"] in MADE:
                # The items of each row's own array, or one set that is read again and again.
                made += returned * (turns if returned <= LOOKED_UP else 1)
    held = sum(counts.get(relation, 0) for relation in read) + made
    failing = [place for place in rows if rows[place] > MULTIPLE * held + LOOKED_UP * loops[place] + LITTLE]
    if failing:
        # The lowest says why those above it read as much.
        place = max(failing, key=lambda place: len(place[0]))
        return f"{place[1]} reads {rows[place]:.0f} rows in {loops[place]:.0f} loops, its tables have {held:.0f}"
    cost = max((plan["Total Cost"] for plan in plans if plan["May Be Compiled"]), default=0.0)
    return (
        f"is expected to cost {cost:.0f}, its tables have {held:.0f}" if cost > max(COMPILED, expected * held) else ""
    )


@lru_cache(maxsize=10_000)
def parsed(explained: str) -> tuple[str, Plan]:
    """Return the text of a statement without its numbers, and its plan; most are of statements sent for each row alike."""
    plan_report = json.loads(explained)
    text = re.sub(r"\d[\d,]*", "0", " ".join(plan_report["Query Text"].split()))
    return text, {**plan_report["Plan"], "May Be Compiled": plan_report.get("Settings", {}).get("jit") != "off"}


class Explained:
    """The plans of a session's statements, by their text."""

    def __init__(self, connection: psycopg.Connection[Any], counts: dict[str, int], expected: int) -> None:
        self._counts, self._expected = counts, expected
        self._plans: dict[str, list[Plan]] = defaultdict(list)
        connection.add_notice_handler(self._note)

    def _note(self, notice: Diagnostic) -> None:
        _, _, explained = (notice.message_primary or "").partition("plan:\n")
        if explained and not FOREIGN_KEY.search(explained, 0, 200):
            text, plan = parsed(explained)
            self._plans[text].append(plan)

    def faults(self) -> list[str]:
        """Return what is wrong with the plans since the last call."""
        found = []
        for text, plans in self._plans.items():
            parts = [plans] if len(plans) > OFTEN else [[plan] for plan in plans]
            found += [
                f"{told}: {text[:300]}"
                for told in {fault(part, self._counts, self._expected) for part in parts}
                if told
            ][:1]
        self._plans.clear()
        return found


def counted(db: Database) -> dict[str, int]:
    """Return how many rows each table of ours has."""
    names = db.execute(
        "SELECT relname, oid::regclass::text FROM pg_class"
        " WHERE relkind IN ('r', 'p', 'm') AND relnamespace::regnamespace::text ~ '^(graphrag|shop)'"
    ).fetchall()
    return {name: db.execute(f"SELECT count(*) FROM {table}".encode()).fetchall()[0][0] for name, table in names}


def faults(db: Database, role: str, expected: int, selected: Sequence[Call] = ()) -> list[str]:
    """Return what is wrong with the plans of `selected`, or all that a role may call."""
    failures = []
    with psycopg.connect(db.url, autocommit=True) as connection:
        selected = selected or calls(connection, role or str(connection.info.user))
        explained = Explained(connection, counted(db), expected)
        # A function may have it off. Here nothing is compiled.
        connection.execute("SET jit = on; SET jit_above_cost = -1; SET max_parallel_workers_per_gather = 0")
        connection.execute(EXPLAINED)
        connection.execute("SET auto_explain.log_settings = on; SET auto_explain.log_parameter_max_length = 0")
        if role:
            connection.execute(sql.SQL("SET SESSION AUTHORIZATION {}").format(sql.Identifier(role)))
        for call in selected:
            try:
                call.run(connection)
            except psycopg.errors.InsufficientPrivilege:
                # A few refuse others than the owner themselves.
                assert role, call.name
            except psycopg.Error as error:
                failures.append(f"{call.name}: {error}")
            failures += [f"{role or 'owner'}, {call.name}: {fault}" for fault in explained.faults()]
    return failures


SILENT = """
SELECT p.oid::regprocedure::text FROM pg_proc p
 WHERE p.pronamespace IN ('graphrag'::regnamespace, 'graphrag_attached'::regnamespace)
   AND array_to_string(p.proconfig, ' ') LIKE '%client_min_messages%'
"""


@pytest.fixture(scope="module")
def filled(shared_cluster: Cluster | Server) -> Iterator[str]:
    """A database of which others are copies, with statistics of a tenth of its rows."""
    with Database.open(shared_cluster.create_database("plans", "template")) as connection:
        # For so many texts it is worth loading.
        connection.execute("SET graphrag.embedding_engine = 'auto'")
        fill(connection, [SIZE // 10, SIZE])
        # Those that keep AGE's messages from users would keep their plans from us.
        for (function,) in connection.execute(SILENT).fetchall():
            connection.execute(f"ALTER FUNCTION {function} RESET client_min_messages".encode())
    yield "plans"
    shared_cluster.drop_database("plans")


# As before the first ANALYZE.
NO_STATISTICS = (
    "DELETE FROM pg_statistic; UPDATE pg_class SET relpages = 0, reltuples = -1 WHERE relkind IN ('r', 't', 'm')"
)


# Of a reader's statements row-level security adds to the owner's; with good statistics these are planned alike.
@pytest.mark.parametrize(
    ("statistics", "roles"),
    [
        pytest.param("none", ("", READER), marks=pytest.mark.slow),
        ("of a tenth", (READER,)),
        pytest.param("of all", ("",), marks=pytest.mark.slow),
    ],
    ids=["none", "of a tenth", "of all"],
)
def test_what_users_call_reads_no_more_than_a_multiple_of_its_tables(
    shared_cluster: Cluster | Server, filled: str, statistics: str, roles: Sequence[str]
) -> None:
    with Database.open(shared_cluster.create_database("plans_copy", filled)) as db:
        if statistics != "of a tenth":
            db.execute("ANALYZE" if statistics == "of all" else NO_STATISTICS)
        expected = EXPECTED_AT_FIRST if statistics == "none" else EXPECTED
        failures = [fault for role in roles for fault in faults(db, role, expected)]
    shared_cluster.drop_database("plans_copy")
    assert not failures, "\n".join(failures)


def test_what_an_export_says_of_entities_is_joined_without_loops(shared_cluster: Cluster | Server, filled: str) -> None:
    with Database.open(shared_cluster.create_database("plans_export", filled)) as db:
        db.execute(NO_STATISTICS)
        lines = db.execute(f"EXPLAIN {GRAPH}".encode(), {"corpus": CORPUS}).fetchall()
    shared_cluster.drop_database("plans_export")
    # Which PostgreSQL makes by hashes or sorted alone. Loops are chosen from some thousand entities on.
    assert sum("Full Join" in line for (line,) in lines) == 2


# As rebuild_graph() does of many documents: in portions, by plans of before the first.
PROJECT = """
SET plan_cache_mode = force_generic_plan;
SELECT graphrag._drop_graph(c.id), graphrag._ensure_graph(c.id) FROM graphrag.corpora c WHERE c.name = 'shop';
SELECT graphrag._project(d.corpus_id, array_agg(d.id), '{}', '{}')
  FROM (SELECT x.*, ntile(2) OVER (ORDER BY x.id) AS half FROM graphrag.documents x WHERE x.corpus = 'shop') d
 GROUP BY d.corpus_id, d.half
"""


def test_documents_are_projected_by_reading_once_what_the_graph_has(
    shared_cluster: Cluster | Server, filled: str
) -> None:
    with Database.open(shared_cluster.create_database("plans_graph", filled)) as db:
        db.execute(NO_STATISTICS)
        failures = faults(db, "", EXPECTED_AT_FIRST, [statement("project", PROJECT)])
    shared_cluster.drop_database("plans_graph")
    assert not failures, "\n".join(failures)


# Of all that is of a corpus: for each entity all its mentions are read.
PAIRS = """
SELECT count(*) FROM graphrag.entities e
 CROSS JOIN LATERAL (SELECT FROM graphrag.entity_mentions m WHERE m.entity_id + 0 = e.id + 0 OFFSET 0) m
"""
# What somebody may add tomorrow.
BAD = (
    f"CREATE VIEW graphrag.bad_view AS SELECT 'shop' AS corpus, count FROM ({PAIRS}) p",
    "CREATE MATERIALIZED VIEW graphrag.bad_copy AS SELECT 'shop' AS corpus, n FROM generate_series(1, 9000) n",
    f"CREATE FUNCTION graphrag.bad_sql() RETURNS int LANGUAGE sql BEGIN ATOMIC {PAIRS}; END",
    "CREATE FUNCTION graphrag.bad_loop() RETURNS void LANGUAGE plpgsql AS $$ DECLARE n bigint; BEGIN"
    " FOR n IN SELECT e.id FROM graphrag.entities e LOOP"
    "   PERFORM FROM graphrag.entity_mentions m WHERE m.entity_id + 0 = n; END LOOP; END $$",
    f"CREATE FUNCTION graphrag.bad_text() RETURNS void LANGUAGE plpython3u AS $$ plpy.execute({PAIRS!r}) $$",
    "CREATE PROCEDURE graphrag.bad_procedure() LANGUAGE plpgsql AS $$ BEGIN PERFORM graphrag.bad_sql(); END $$",
)


@pytest.mark.slow
def test_a_bad_plan_of_a_new_function_or_view_is_seen(
    shared_cluster: Cluster | Server, filled: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    names = [re.findall(r"graphrag\.(bad_\w+)", statement)[0] for statement in BAD]
    for name in names:
        is_view = name in ("bad_view", "bad_copy")
        monkeypatch.setitem(SORTED_BY if is_view else ARGUMENTS, name, "1" if is_view else ("",))
    with Database.open(shared_cluster.create_database("plans_bad", filled)) as db:
        for statement in BAD:
            db.execute(statement.encode())
        selected = [call for call in calls(db, str(db.info.user)) if call.name.startswith("bad_")]
        failures = faults(db, "", EXPECTED, selected)
    shared_cluster.drop_database("plans_bad")
    seen = {failure.removeprefix("owner, ").split(":")[0].split("(")[0] for failure in failures}
    assert seen == {*names} - {"bad_copy"}, failures


def test_what_is_new_and_has_no_usual_call_is_named(
    shared_cluster: Cluster | Server, filled: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    with Database.open(shared_cluster.create_database("plans_new", filled)) as db:
        db.execute("CREATE FUNCTION graphrag.forgotten() RETURNS int LANGUAGE sql RETURN 1")
        db.execute("CREATE FUNCTION graphrag.context(question int) RETURNS int LANGUAGE sql RETURN 1")
        db.execute("CREATE PROCEDURE graphrag.forgotten_call() LANGUAGE sql AS ''")
        db.execute("CREATE VIEW graphrag.forgotten_view AS SELECT 1 AS one")
        db.execute("CREATE MATERIALIZED VIEW graphrag.forgotten_copy AS SELECT 1 AS one")
        monkeypatch.delitem(PAGES, "graph_parts.path")
        with pytest.raises(LookupError) as raised:
            calls(db, str(db.info.user))
    shared_cluster.drop_database("plans_new")
    views, functions = (
        "forgotten_copy, forgotten_view",
        "context(integer), graphrag.forgotten(), graphrag.forgotten_call()",
    )
    assert str(raised.value).endswith(f": {views}, graphrag.{functions}, graph_parts.path")
