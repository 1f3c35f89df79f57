"""Sessions with the rights of a role, for tests that attack."""

import itertools
from collections.abc import Iterator
from contextlib import contextmanager

from tests.runtime.cluster import Database
from tests.sql.ingest import Connection, refused

_numbers = itertools.count(1)


@contextmanager
def new_role(db: Connection, *options: str) -> Iterator[str]:
    """Make a role; drop it, with what it owns and was granted in this database, at the end."""
    name = f"attacker_{db.info.dbname}_{next(_numbers)}"
    db.execute(f"CREATE ROLE {name} {' '.join(options)}".encode())
    try:
        yield name
    finally:
        db.execute("RESET ROLE")
        db.execute(f"DROP OWNED BY {name}".encode())
        db.execute(f"DROP ROLE {name}".encode())


@contextmanager
def acting_as(db: Database, role: str) -> Iterator[Database]:
    """A session of its own, as a role."""
    with Database.open(db.url) as session:
        session.execute(f"SET ROLE {role}".encode())
        yield session


def denied(session: Connection, sql: str, *values: object, sqlstate: str = "42501") -> None:
    """The statement must fail, with this SQLSTATE and nothing done."""
    diag = refused(session, sql, *values)
    assert diag.sqlstate == sqlstate, (sql, diag.sqlstate, diag.message_primary)


def has_hint(session: Connection, sql: str, sqlstate: str, *values: object) -> str:
    """The statement must fail with this SQLSTATE and a HINT; returns message and hint."""
    diag = refused(session, sql, *values)
    assert diag.sqlstate == sqlstate, (diag.sqlstate, diag.message_primary)
    assert diag.message_hint, diag.message_primary
    return f"{diag.message_primary} {diag.message_hint}"
