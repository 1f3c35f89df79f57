"""What the attacks share: roles that read, and sessions that change their role as a pool does."""

import itertools
from collections.abc import Iterator
from contextlib import contextmanager

import psycopg

from tests.runtime.cluster import Database
from tests.sql.ingest import Connection

_numbers = itertools.count(1)


@contextmanager
def readers(db: Database, count: int) -> Iterator[list[str]]:
    """Roles with graphrag_reader and nothing else."""
    names = [f"reader_{next(_numbers)}" for _ in range(count)]
    for name in names:
        db.execute(f"CREATE ROLE {name} IN ROLE graphrag_reader".encode())
    try:
        yield names
    finally:
        db.execute("RESET ROLE")
        for name in names:
            db.execute(f"DROP OWNED BY {name}; DROP ROLE {name}".encode())


@contextmanager
def acting_as(db: Connection, role: str) -> Iterator[None]:
    """A part of a session under another role."""
    db.execute(f"SET ROLE {role}".encode())
    try:
        yield
    finally:
        db.execute("RESET ROLE")


@contextmanager
def session_of(db: Database, role: str) -> Iterator[Connection]:
    """A session of its own under a role."""
    with psycopg.connect(db.url, autocommit=True) as connection:
        connection.execute(f"SET ROLE {role}".encode())
        yield connection
