"""attach_table(): rows that were there before are taken in by workers, in batches, while the application goes on."""

from __future__ import annotations

import pytest
from psycopg import errors

from tests.runtime.cluster import Database
from tests.sql.attach import (
    ARTICLES,
    articles,
    attach,
    backfill,
    backfill_later,
    documents,
    indexed,
    isolated,
    queued,
    session,
)


def test_thousands_of_rows_are_backfilled_in_batches(db: Database, app: Database) -> None:
    articles(app, rows=5000)
    assert documents(db) == {}
    assert backfill(app) == 11
    assert documents(db) == {str(n): f"Body {n}" for n in range(1, 5001)}
    assert db.execute("SELECT count(*) FROM graphrag.jobs WHERE kind = 'index'").fetchall() == [(5000,)]


def test_backfill_resumes_where_a_worker_ended(db: Database, app: Database) -> None:
    articles(app, rows=1200)
    db.execute("CALL graphrag.process_jobs(1)")
    assert len(documents(db)) == 500
    assert backfill(app) == 2
    assert len(documents(db)) == 1200


def test_rows_locked_by_the_application_are_done_later_and_as_they_are_then(db: Database, app: Database) -> None:
    articles(app, rows=6)
    with session(db) as other, other.transaction():
        other.execute("UPDATE articles SET hits = 1 WHERE id = 1")
        other.execute("UPDATE articles SET body = 'changed' WHERE id = 2")
        other.execute("DELETE FROM articles WHERE id = 3")
        other.execute("UPDATE articles SET id = 40 WHERE id = 4")
        other.execute("INSERT INTO articles VALUES (7, 't', 'Body 7')")
        backfill(app)
        assert documents(db) == {"5": "Body 5", "6": "Body 6"}
    assert backfill(app) == 0, "the rest is to be looked at later"
    assert backfill(app) == 1
    assert documents(db) == {"1": "Body 1", "2": "changed", "40": "Body 4", "5": "Body 5", "6": "Body 6", "7": "Body 7"}
    assert db.execute("SELECT 1 FROM graphrag.jobs WHERE kind = 'attach'").fetchall() == []


def test_worker_does_not_wait_for_a_locked_table(db: Database, app: Database) -> None:
    articles(app, rows=3)
    db.execute("SET lock_timeout = '2s'")
    with app.transaction():
        app.execute("LOCK TABLE articles")
        assert backfill(app) == 1
        assert documents(db) == {}
    assert backfill(app) == 1
    assert len(documents(db)) == 3


@pytest.mark.parametrize(
    "statement", ["DELETE FROM articles WHERE id = 2", "UPDATE articles SET id = 20 WHERE id = 2", "TRUNCATE articles"]
)
@pytest.mark.parametrize("level", ["read committed", "repeatable read", "serializable"])
def test_backfill_between_snapshot_and_delete_leaves_no_orphan(
    db: Database, app: Database, level: str, statement: str
) -> None:
    articles(app, rows=3)
    isolated(app, level)
    with app.transaction():
        app.execute("SELECT count(*) FROM articles")
        backfill(app)
        app.execute(statement.encode())
    backfill(app)
    rows = app.execute("SELECT id::text, body FROM articles").fetchall()
    assert documents(db) == dict(rows)


def test_transaction_older_than_attach_is_told_to_try_again(db: Database, app: Database) -> None:
    app.execute(f"CREATE TABLE articles ({ARTICLES})".encode())
    with session(db) as old:
        isolated(old, "repeatable read")
        with pytest.raises(errors.SerializationFailure), old.transaction():
            old.execute("SELECT 1")
            attach(app)
            old.execute("INSERT INTO articles VALUES (1, 't', 'one')")
        old.execute("INSERT INTO articles VALUES (1, 't', 'one')")
    assert documents(db) == {"1": "one"}


def test_attach_waits_for_open_writers_so_no_row_is_lost(db: Database, app: Database) -> None:
    app.execute(f"CREATE TABLE articles ({ARTICLES})".encode())
    with session(db) as writer:
        with writer.transaction():
            writer.execute("INSERT INTO articles VALUES (1, 't', 'one')")
            app.execute("SET lock_timeout = '300ms'")
            with pytest.raises(errors.LockNotAvailable):
                attach(app)
        attach(app)
    backfill(app)
    assert documents(db) == {"1": "one"}


def test_documents_written_by_hand_are_taken_over_by_their_key(db: Database, app: Database) -> None:
    db.execute(
        "INSERT INTO graphrag.documents"
        " (source_key, title, content)"
        " VALUES ('1', 'Title 1', 'Body 1'), ('2', 'x', 'stale')"
    )
    indexed(db)
    articles(app, rows=2)
    backfill(app)
    assert documents(db) == {"1": "Body 1", "2": "Body 2"}
    assert queued(db) == [("index", "2")]
    app.execute("DELETE FROM articles")
    assert documents(db) == {}
