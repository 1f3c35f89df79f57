"""Attached tables are brought up to date in their owners' sessions alone."""

import pytest
from psycopg import errors

from tests.runtime.cluster import Database
from tests.security.mallory import alarmed, as_role, reporters
from tests.sql.attach import attach


def test_no_superusers_session_backfills_the_table_of_another(db: Database, mallory: Database) -> None:
    mallory.execute(
        "CREATE TABLE articles (id int PRIMARY KEY, body text); CREATE INDEX ON articles ((spy(1))); TRUNCATE reports"
    )
    attach(mallory)
    for before in ("RESET ROLE", "SET ROLE mallory"):
        db.execute(before.encode())
        with pytest.raises(errors.InsufficientPrivilege, match="not read in this session"):
            db.execute("CALL graphrag.backfill_table('mallory.articles')")
        db.execute("RESET ROLE")
    db.execute("RESET ROLE")
    assert (alarmed(db), reporters(db)) == (False, set())


def test_a_member_of_the_extensions_owner_is_as_careful(db: Database, mallory: Database) -> None:
    mallory.execute(
        "CREATE TABLE articles (id int PRIMARY KEY, body text); CREATE INDEX ON articles ((spy(1))); TRUNCATE reports"
    )
    attach(mallory)
    db.execute("GRANT postgres, mallory TO eve")
    try:
        with as_role(db, "eve") as eve, pytest.raises(errors.InsufficientPrivilege, match="not read in this session"):
            eve.execute("CALL graphrag.backfill_table('mallory.articles')")
    finally:
        db.execute("REVOKE postgres, mallory FROM eve")
    assert reporters(db) == set()


def test_owner_of_a_table_learns_and_reads_nothing_of_another(db: Database, mallory: Database) -> None:
    with as_role(db, "alice") as alice:
        alice.execute("CREATE TABLE articles (id int PRIMARY KEY, body text)")
        attach(alice)
        alice.execute("GRANT USAGE ON SCHEMA alice TO mallory")
    assert mallory.execute("SELECT * FROM graphrag_attached._attachments").fetchall() == []
    with pytest.raises(errors.InsufficientPrivilege, match="must be owner"):
        mallory.execute("CALL graphrag.backfill_table('alice.articles')")
