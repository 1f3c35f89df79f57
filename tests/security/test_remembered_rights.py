"""What a session remembers gives nobody more: whatever changes of a caller's rights, a warm session answers as a new one."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import psycopg
import pytest

from tests.runtime.cluster import Database
from tests.sql.rows import attach_works

Session = psycopg.Connection[Any]

ROLES = ("warm_reader", "warm_group")
# An application's own tables, its documents beside them, and its readers, who may see all of it.
WORKS = """
CREATE ROLE warm_group;
CREATE ROLE warm_reader LOGIN IN ROLE graphrag_reader;
GRANT USAGE ON SCHEMA works TO warm_reader;
GRANT SELECT ON works.models, works.machines, works.makers TO warm_reader;
CREATE TABLE works.allowed (id int PRIMARY KEY);
INSERT INTO works.allowed SELECT generate_series(1, 20);
GRANT SELECT ON works.allowed TO warm_reader;
"""
QUESTIONS = ("Which models did Maker Aort make?", "QX-30 or Big Bertha")
SEARCH = "SELECT to_jsonb(s)::text FROM graphrag.search(%s, mode => %s, top_k => 20) s"
CONTEXT = "SELECT graphrag.context(%s, mode => %s, max_tokens => 2000)::text"
SECURED = "ALTER TABLE works.makers ENABLE ROW LEVEL SECURITY;"
HIDE = "CREATE POLICY p ON works.makers TO warm_reader USING"
# What is so before, what then changes for the reader, and what undoes both.
CHANGES = {
    "a privilege": (
        "",
        "REVOKE SELECT ON works.makers FROM warm_reader",
        "GRANT SELECT ON works.makers TO warm_reader",
    ),
    "a column": (
        "",
        "REVOKE SELECT ON works.makers FROM warm_reader; GRANT SELECT (id) ON works.makers TO warm_reader",
        "GRANT SELECT ON works.makers TO warm_reader",
    ),
    "a membership": (
        "REVOKE SELECT ON works.makers FROM warm_reader; GRANT SELECT ON works.makers TO warm_group;"
        " GRANT warm_group TO warm_reader",
        "REVOKE warm_group FROM warm_reader",
        "REVOKE SELECT ON works.makers FROM warm_group; GRANT SELECT ON works.makers TO warm_reader",
    ),
    "inheritance": (
        "REVOKE SELECT ON works.makers FROM warm_reader; GRANT SELECT ON works.makers TO warm_group;"
        " GRANT warm_group TO warm_reader",
        "GRANT warm_group TO warm_reader WITH INHERIT FALSE",
        "REVOKE warm_group FROM warm_reader; REVOKE SELECT ON works.makers FROM warm_group;"
        " GRANT SELECT ON works.makers TO warm_reader",
    ),
    "a schema": ("", "REVOKE USAGE ON SCHEMA works FROM warm_reader", "GRANT USAGE ON SCHEMA works TO warm_reader"),
    "row-level security": (
        "",
        f"{SECURED} {HIDE} (id <> 1)",
        "DROP POLICY p ON works.makers; ALTER TABLE works.makers DISABLE ROW LEVEL SECURITY",
    ),
    "a policy": (
        f"{SECURED} {HIDE} (true)",
        "ALTER POLICY p ON works.makers USING (id > 2)",
        "DROP POLICY p ON works.makers; ALTER TABLE works.makers DISABLE ROW LEVEL SECURITY",
    ),
    "whom a policy is for": (
        f"{SECURED} {HIDE} (true)",
        "ALTER POLICY p ON works.makers TO warm_group",
        "DROP POLICY p ON works.makers; ALTER TABLE works.makers DISABLE ROW LEVEL SECURITY",
    ),
    "a table that a policy asks": (
        f"{SECURED} {HIDE} (id IN (SELECT a.id FROM works.allowed a))",
        "DELETE FROM works.allowed WHERE id = 1",
        "INSERT INTO works.allowed VALUES (1); DROP POLICY p ON works.makers;"
        " ALTER TABLE works.makers DISABLE ROW LEVEL SECURITY",
    ),
    "a policy of documents": (
        "",
        "ALTER TABLE graphrag.documents ENABLE ROW LEVEL SECURITY;"
        " CREATE POLICY own ON graphrag.documents AS RESTRICTIVE USING (source_key <> 'makers/1')",
        "DROP POLICY own ON graphrag.documents",
    ),
    "who may pass by": (
        f"{SECURED} {HIDE} (id > 2); ALTER ROLE warm_reader BYPASSRLS",
        "ALTER ROLE warm_reader NOBYPASSRLS",
        "DROP POLICY p ON works.makers; ALTER TABLE works.makers DISABLE ROW LEVEL SECURITY",
    ),
}


@pytest.fixture(scope="module")
def works(module_db: Database) -> Iterator[Database]:
    attach_works(module_db)
    module_db.execute("; ".join(f"DROP ROLE IF EXISTS {role}" for role in ROLES).encode())
    module_db.execute(WORKS.encode())
    yield module_db
    for role in ROLES:
        module_db.execute(f"DROP OWNED BY {role}; DROP ROLE {role}".encode())


def answers(session: Session) -> list[str]:
    """All that is told of rows, or why nothing is."""
    given = []
    for sql, modes in ((SEARCH, ("hybrid", "graph_local")), (CONTEXT, ("hybrid",))):
        for mode in modes:
            for question in QUESTIONS:
                try:
                    given.append(str(session.execute(sql, [question, mode]).fetchall()))
                except psycopg.Error as error:
                    given.append(f"{error.sqlstate} {error}")
    return given


def shows_maker(given: list[str]) -> bool:
    """Whether the first maker's own row is shown, or counts for another; rows that lead to it have its key in any case."""
    shown = '"source_key": "makers/1"', '"with_rows": ["makers/1"', "Maker Aort (makers/1)"
    return any(text in answer for text in shown for answer in given)


@contextmanager
def reader(db: Database, *before: str) -> Iterator[Session]:
    with psycopg.connect(db.url, autocommit=True) as session:
        session.execute("SET SESSION AUTHORIZATION warm_reader")
        for statement in before:
            session.execute(statement.encode())
        yield session


def of_new_session(db: Database, *before: str) -> list[str]:
    with reader(db, *before) as session:
        return answers(session)


def warmed(session: Session) -> list[str]:
    """What a session answers that remembers what it may."""
    for _ in range(2):
        answers(session)
    return answers(session)


@pytest.mark.sample(2)
@pytest.mark.parametrize("change", CHANGES)
def test_a_warm_session_has_the_rights_that_its_caller_has_now(works: Database, change: str) -> None:
    before, then, undo = CHANGES[change]
    try:
        works.execute(before.encode())
        with reader(works) as session:
            seen = warmed(session)
            assert shows_maker(seen)
            assert seen == of_new_session(works)
            works.execute(then.encode())
            now = answers(session)
            assert not shows_maker(now)
            assert now == of_new_session(works)
            assert answers(session) == now
    finally:
        works.execute(undo.encode())
    with reader(works) as session:
        assert warmed(session) == of_new_session(works)


def test_a_pool_that_names_its_user_in_a_setting_tells_each_what_he_may_see(works: Database) -> None:
    works.execute(f"{SECURED} {HIDE} (id % 2 = current_setting('app.part', true)::int)".encode())
    parts = [f"SET app.part = '{part}'" for part in (0, 1)]
    try:
        expected = [of_new_session(works, part) for part in parts]
        assert expected[0] != expected[1]
        with reader(works, parts[0]) as session:
            assert warmed(session) == expected[0]
            for turn in (1, 0, 1, 1, 0):
                session.execute(parts[turn].encode())
                assert answers(session) == expected[turn]
            with session.transaction():
                session.execute("SET LOCAL app.part = '1'")
                assert answers(session) == expected[1]
            assert answers(session) == expected[0]
            # What a pool does between its users.
            session.execute("DISCARD ALL")
            session.execute("SET SESSION AUTHORIZATION warm_reader")
            session.execute(parts[1].encode())
            assert answers(session) == expected[1]
    finally:
        works.execute("DROP POLICY p ON works.makers; ALTER TABLE works.makers DISABLE ROW LEVEL SECURITY")


def test_who_asks_for_errors_in_place_of_rows_gets_these(works: Database) -> None:
    works.execute(f"{SECURED} {HIDE} (id > 2)".encode())
    try:
        with reader(works) as session:
            warmed(session)
            session.execute("SET row_security = off")
            now = answers(session)
            assert all(answer.startswith("42501") for answer in now)
            session.execute("RESET row_security")
            assert answers(session) == of_new_session(works)
    finally:
        works.execute("DROP POLICY p ON works.makers; ALTER TABLE works.makers DISABLE ROW LEVEL SECURITY")


def test_a_session_that_acted_as_the_owner_tells_a_reader_no_more(works: Database) -> None:
    works.execute("REVOKE SELECT ON works.makers FROM warm_reader")
    try:
        expected = of_new_session(works)
        with psycopg.connect(works.url, autocommit=True) as session:
            everything = warmed(session)
            for act, end in (
                ("SET ROLE warm_reader", "RESET ROLE"),
                ("SET SESSION AUTHORIZATION warm_reader", "RESET SESSION AUTHORIZATION"),
            ):
                session.execute(act.encode())
                assert answers(session) == expected
                session.execute(end.encode())
                assert answers(session) == everything
    finally:
        works.execute("GRANT SELECT ON works.makers TO warm_reader")


# Names of tables and columns that contexts and citations show, and what a table is; each seen before a worker has looked at it.
DEFINITIONS = {
    "a table's name": ("ALTER TABLE works.makers RENAME TO firms", "ALTER TABLE works.firms RENAME TO makers"),
    "a schema's name": ("ALTER SCHEMA works RENAME TO plant", "ALTER SCHEMA plant RENAME TO works"),
    "a table's schema": (
        "CREATE SCHEMA other; ALTER TABLE works.makers SET SCHEMA other",
        "ALTER TABLE other.makers SET SCHEMA works; DROP SCHEMA other",
    ),
    "a column's name": (
        "ALTER TABLE works.makers RENAME name TO called",
        "ALTER TABLE works.makers RENAME called TO name",
    ),
}


@pytest.mark.sample(1)
@pytest.mark.parametrize("definition", DEFINITIONS)
def test_a_warm_session_sees_what_tables_are_called_now(works: Database, definition: str) -> None:
    change, undo = DEFINITIONS[definition]
    with psycopg.connect(works.url, autocommit=True) as session, psycopg.connect(works.url, autocommit=True) as new:
        before = warmed(session)
        try:
            works.execute(change.encode())
            assert answers(session) == answers(new)
        finally:
            works.execute(undo.encode())
        assert answers(session) == answers(new) == before


def test_a_warm_session_sees_that_a_table_is_dropped(works: Database) -> None:
    with psycopg.connect(works.url) as session:
        before = warmed(session)
        assert shows_maker(before)
        session.execute("SAVEPOINT one")
        session.execute("DROP TABLE works.makers CASCADE")
        dropped = answers(session)
        session.execute("SET graphrag.session_memory = '0'")
        assert answers(session) == dropped
        session.execute("ROLLBACK TO one")
        assert answers(session) == before
