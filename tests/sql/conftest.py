"""Fixtures of the SQL tests."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.runtime.cluster import Database
from tests.sql.attach import APP, session


@pytest.fixture
def app(db: Database) -> Iterator[Database]:
    """A session of an ordinary role, which owns its tables and may only call the two functions."""
    db.execute(
        f"DO $$ BEGIN CREATE ROLE {APP}; EXCEPTION WHEN duplicate_object OR unique_violation THEN NULL; END $$;"
        f"GRANT USAGE ON SCHEMA graphrag TO {APP};"
        f"GRANT EXECUTE ON FUNCTION graphrag.attach_table, graphrag.detach_table TO {APP};"
        f"CREATE SCHEMA app AUTHORIZATION {APP}"
    )
    with session(db) as connection:
        yield connection
    db.execute(f"DROP OWNED BY {APP} CASCADE")
