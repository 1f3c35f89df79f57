"""Attached tables whose policies are asked for no reader: whoever can mend it is told, by the statement that mends it."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import psycopg
import pytest
from psycopg.conninfo import make_conninfo
from psycopg.errors import Diagnostic

from tests.runtime import beside
from tests.runtime.cluster import Database
from tests.security.acting import acting_as, new_role
from tests.sql.ingest import rows, value, work

SHOP = """
CREATE SCHEMA saas AUTHORIZATION {owner};
SET ROLE {owner};
CREATE TABLE saas.items (id int PRIMARY KEY, name text, tenant name);
INSERT INTO saas.items VALUES (1, 'Osaka Works', '{app}'), (2, 'Lyon Works', 'another');
ALTER TABLE saas.items ENABLE ROW LEVEL SECURITY;
CREATE POLICY own ON saas.items USING (tenant = current_user);
GRANT USAGE ON SCHEMA saas TO {app}; GRANT SELECT ON saas.items TO {app};
RESET ROLE;
GRANT graphrag_member TO {owner}; GRANT EXECUTE ON PROCEDURE graphrag.backfill_table TO {owner};
SELECT graphrag.create_corpus('shop', '{{"communities": false}}');
"""
ATTACH = "SELECT graphrag.attach_entities('saas.items', 'shop', '{id}', 'name')"
HEALTH = "SELECT subject, detail, hint FROM graphrag.health() WHERE subject LIKE 'attached%%'"
SHOWN = "SELECT source_key FROM graphrag.documents"
SEARCH = "SELECT source_key FROM graphrag.search('Works', 'shop', 'bm25')"


@pytest.fixture
def db(reused_db: Database) -> Database:
    """A database that others have used: policies are asked of the catalogs each time."""
    return reused_db


@pytest.fixture
def roles(db: Database) -> Iterator[tuple[str, str]]:
    """The owner of the table, and the application's role that reads it."""
    # Tests of the second host leave a reader of the whole cluster.
    if not beside.IS_BESIDE and value(db, "SELECT count(*) FROM pg_roles WHERE rolname = %s", beside.OWNER):
        db.execute(f"REVOKE graphrag_reader, graphrag_writer FROM {beside.OWNER}".encode())
    with new_role(db, "LOGIN PASSWORD 'm'") as owner, new_role(db, "LOGIN PASSWORD 'm'") as app:
        db.execute(SHOP.format(owner=owner, app=app).encode())
        yield owner, app
        db.execute("DROP SCHEMA saas CASCADE")


@contextmanager
def warnings_of(connection: Any) -> Iterator[list[tuple[str, str]]]:
    """What a session is warned of: (message, HINT)."""
    taken: list[tuple[str, str]] = []

    def take(diagnostic: Diagnostic) -> None:
        if diagnostic.severity_nonlocalized == "WARNING":
            taken.append((str(diagnostic.message_primary), str(diagnostic.message_hint)))

    connection.add_notice_handler(take)
    try:
        yield taken
    finally:
        connection.remove_notice_handler(take)


def notices_of(session: psycopg.Connection[Any], call: str) -> list[tuple[str, str]]:
    """What a call sends: (severity, HINT)."""
    taken: list[tuple[str, str]] = []

    def take(diagnostic: Diagnostic) -> None:
        taken.append((str(diagnostic.severity_nonlocalized), str(diagnostic.message_hint)))

    session.add_notice_handler(take)
    session.execute(call.encode())
    session.remove_notice_handler(take)
    return taken


def login(db: Database, role: str) -> psycopg.Connection[tuple[Any, ...]]:
    return psycopg.connect(make_conninfo(db.url, user=role, password="m"), autocommit=True)


def index(db: Database, owner: str) -> None:
    with login(db, owner) as session:
        session.execute("CALL graphrag.backfill_table('saas.items', 'shop')")
    work(db)


def test_whoever_attaches_grants_or_searches_is_told_the_grant_that_mends_it(
    db: Database, roles: tuple[str, str]
) -> None:
    owner, app = roles
    mend = f"GRANT {app} TO {owner};"
    with warnings_of(db) as notices:
        db.execute(ATTACH.encode())
        assert [hint for message, hint in notices if "shown to no reader" in message] == [
            f"GRANT reader TO {owner}; for each role that reads, and for the one that logs in where that takes it on by SET ROLE."
        ]
        assert rows(db, HEALTH) == []
        db.execute("SELECT graphrag.grant_corpus('shop', %s)", [app])
        assert [
            hint for message, hint in notices if message == f'rows of saas.items are not shown to role "{app}"'
        ] == [mend]
    index(db, owner)
    assert rows(db, HEALTH) == [
        ("attached table saas.items", f'of corpus "shop" shows no row to role "{app}", who may read the corpus', mend)
    ]
    assert rows(db, "SELECT state, hint FROM graphrag.attached_tables") == [
        ("current", f"GRANT reader TO {owner}; for each role that reads.")
    ]
    with login(db, app) as session:
        assert rows(session, SHOWN) == []
        with warnings_of(session) as notices:
            assert rows(session, SEARCH) == []
            assert [hint for message, hint in notices if "rows of saas.items are not shown to you" in message] == [mend]
        # Each call says so once, and fills no log.
        for call in (SEARCH, "SELECT * FROM graphrag.graph_nodes_at('shop', now())"):
            assert [said for said in notices_of(session, call) if said[1] == mend] == [("NOTICE", mend)]

    audited = "SELECT verdict, detail FROM graphrag.audit(%s) WHERE kind = 'attached table'"
    assert rows(db, audited, app) == [("held", f'shows it no row in corpus "shop": {mend}')]
    # Its own triggers are no leak of the owner's.
    assert rows(db, "SELECT * FROM graphrag.audit(%s) WHERE verdict = 'leaks'", owner) == []

    db.execute(mend.encode())
    assert rows(db, audited, app) == [("held", 'shows who reads corpus "shop" the rows that he may SELECT')]
    assert rows(db, HEALTH) == []
    assert rows(db, "SELECT state, hint FROM graphrag.attached_tables") == [("current", None)]
    with login(db, app) as session, warnings_of(session) as notices:
        assert rows(session, SHOWN) == rows(session, SEARCH) == [("items/1",)]
        assert notices == []


def test_a_session_that_took_a_role_on_says_why_it_sees_less(db: Database, roles: tuple[str, str]) -> None:
    owner, app = roles
    db.execute(ATTACH.encode())
    db.execute("SELECT graphrag.grant_corpus('shop', %s)", [app])
    db.execute(f"GRANT {app} TO {owner}".encode())
    index(db, owner)
    with acting_as(db, app) as session, warnings_of(session) as notices:
        assert rows(session, SEARCH) == []
        assert f'Log in as "{app}"' in notices[0][1]
    # A pool's login takes roles on that do not log in themselves.
    with new_role(db, "LOGIN NOINHERIT PASSWORD 'm'") as pool:
        db.execute(f"ALTER ROLE {app} NOLOGIN; GRANT {app} TO {pool}".encode())
        mend = value(db, "SELECT hint FROM graphrag.health() WHERE subject LIKE 'attached%%'")
        assert mend == f"GRANT {app}, {pool} TO {owner};"
        with login(db, pool) as session, warnings_of(session) as notices:
            session.execute(f"SET ROLE {app}".encode())
            assert rows(session, SEARCH) == []
            assert notices[0][1] == f"GRANT {pool} TO {owner};"
            db.execute(mend.encode())
            assert rows(session, SEARCH) == [("items/1",)]
        assert rows(db, HEALTH) == []


def test_rows_that_no_reader_may_select_are_named_and_those_meant_for_others_are_not(
    db: Database, roles: tuple[str, str]
) -> None:
    owner, app = roles
    db.execute(f"ALTER TABLE saas.items DISABLE ROW LEVEL SECURITY; REVOKE ALL ON SCHEMA saas FROM {app}".encode())
    db.execute(f"REVOKE ALL ON saas.items FROM {app}".encode())
    db.execute(ATTACH.encode())
    db.execute("SELECT graphrag.grant_corpus('shop', %s)", [app])
    mend = f"GRANT USAGE ON SCHEMA saas TO {app}; GRANT SELECT ON saas.items TO {app};"
    assert [hint for _, _, hint in rows(db, HEALTH)] == [mend]
    with new_role(db, "LOGIN") as other:
        db.execute("SELECT graphrag.grant_corpus('shop', %s)", [other])
        db.execute(mend.encode())
        assert rows(db, HEALTH) == []
        # Row-level security that is switched on later.
        with warnings_of(db) as notices:
            db.execute("ALTER TABLE saas.items ENABLE ROW LEVEL SECURITY")
            assert (f'rows of saas.items are not shown to role "{app}"', f"GRANT {app} TO {owner};") in notices
        db.execute("SELECT graphrag.revoke_corpus('shop', %s)", [other])


def test_row_level_security_without_a_policy_is_named(db: Database, roles: tuple[str, str]) -> None:
    owner, app = roles
    db.execute(f"DROP POLICY own ON saas.items; GRANT {app} TO {owner}".encode())
    with warnings_of(db) as notices:
        db.execute(ATTACH.encode())
        assert [hint for message, hint in notices if message.endswith("no policy for SELECT")] == [
            "CREATE POLICY readers ON saas.items FOR SELECT USING (condition);"
        ]
        db.execute("SELECT graphrag.grant_corpus('shop', %s)", [app])
    mend = f"CREATE POLICY readers ON saas.items FOR SELECT TO {app} USING (condition);"
    assert (f'rows of saas.items are not shown to role "{app}"', mend) in notices
    index(db, owner)
    assert [hint for _, _, hint in rows(db, HEALTH)] == [mend]
    # A policy of another command, a restrictive one, and one for others show it nothing either.
    for policy in ("FOR UPDATE USING (true)", "AS RESTRICTIVE USING (true)", f"TO {owner} USING (true)"):
        db.execute(f"CREATE POLICY p ON saas.items {policy}".encode())
        assert [hint for _, _, hint in rows(db, HEALTH)] == [mend]
        with login(db, app) as session, warnings_of(session) as told:
            assert rows(session, SEARCH) == []
            message = (
                "rows of saas.items are not shown to you: it has row-level security and no policy for SELECT is for you"
            )
            assert told == [(message, mend)]
        db.execute("DROP POLICY p ON saas.items")
    db.execute(mend.replace("condition", "tenant = current_user").encode())
    assert rows(db, HEALTH) == []
    with login(db, app) as session:
        assert rows(session, SEARCH) == [("items/1",)]


def test_a_role_whose_name_ends_a_comment_adds_no_statement(db: Database) -> None:
    with new_role(db, "NOLOGIN") as reader:
        hostile = "x*/; ALTER ROLE me SUPERUSER; /*"
        db.execute(f'CREATE ROLE "{hostile}"; GRANT "{hostile}" TO {reader}'.encode())
        try:
            statement = "SELECT graphrag_attached._lending(ARRAY[%s::regrole], %s::regrole)"
            printed = value(db, statement, reader, f'"{hostile}"')
        finally:
            db.execute(f'DROP ROLE "{hostile}"'.encode())
    comment = f'/* takes rights of "x__; ALTER ROLE me SUPERUSER; __" from {reader} */'
    assert printed == f'REVOKE "{hostile}" FROM {reader} {comment}; GRANT {reader} TO "{hostile}";'


def test_the_grant_that_mends_it_is_none_in_a_circle(db: Database, roles: tuple[str, str]) -> None:
    owner, app = roles
    db.execute(f"GRANT {owner} TO {app} WITH INHERIT FALSE".encode())
    db.execute(ATTACH.encode())
    db.execute("SELECT graphrag.grant_corpus('shop', %s)", [app])
    index(db, owner)
    mend = f"REVOKE {owner} FROM {app} /* takes rights of {owner} from {app} */; GRANT {app} TO {owner};"
    with login(db, app) as session, warnings_of(session) as notices:
        assert rows(session, SEARCH) == []
        assert notices[0][1] == mend
    assert [hint for _, _, hint in rows(db, HEALTH)] == [mend]
    # Through another role, and by another's grant.
    db.execute(f"REVOKE {owner} FROM {app}".encode())
    with new_role(db, "NOLOGIN") as team, new_role(db, "CREATEROLE") as admin:
        db.execute(f"GRANT {owner} TO {admin} WITH ADMIN TRUE; GRANT {team} TO {app} WITH INHERIT FALSE".encode())
        db.execute(f"GRANT {owner} TO {team} GRANTED BY {admin}".encode())
        ((_, _, mend),) = rows(db, HEALTH)
        assert mend.startswith(f"REVOKE {owner} FROM {team} GRANTED BY {admin} /*")
        db.execute(mend.encode())
        assert rows(db, HEALTH) == []
        db.execute(f"REVOKE {owner} FROM {admin}".encode())


def test_readers_are_those_whom_a_grant_reaches(db: Database, roles: tuple[str, str]) -> None:
    """As pg_has_role() says of all roles, which nothing could ask for thousands."""
    owner, app = roles
    db.execute(ATTACH.encode())
    with new_role(db, "NOLOGIN") as group, new_role(db, "NOLOGIN") as part, new_role(db, "LOGIN") as member:
        db.execute(
            f"GRANT {group} TO {part}; GRANT {part} TO {member}; GRANT {part} TO {app} WITH INHERIT FALSE".encode()
        )
        for role in (group, app):
            db.execute("SELECT graphrag.grant_corpus('shop', %s)", [role])
        found = rows(
            db,
            "SELECT granted::regrole::text, rolname FROM graphrag._row_readers WHERE granted::regrole::text = ANY (%s)"
            " ORDER BY 1, 2",
            [group, app],
        )
        assert sorted(set(found)) == rows(
            db,
            "SELECT g.role::text, m.rolname FROM graphrag.corpus_grants g"
            "  JOIN pg_roles m ON pg_has_role(m.oid, g.role, 'USAGE') AND (m.rolcanlogin OR m.rolname = g.role)"
            " WHERE NOT m.rolsuper ORDER BY 1, 2",
        )
        assert {rolname for _, rolname in found} == {group, member, app}
        # Of those who take the group on, as well.
        hints = dict(rows(db, "SELECT rolname, string_agg(mend, ' ') FROM graphrag._row_readers GROUP BY 1"))
        assert all(f"GRANT {group}, {login} TO {owner};" in hints[group] for login in (member, app))
