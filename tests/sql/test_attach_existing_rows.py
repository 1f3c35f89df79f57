"""attach_table(): rows that were there before are taken in, in batches, while the application goes on.

By the owner of the table, or by workers where that is the extension's owner.
"""

import pytest
from psycopg import errors

from tests.runtime.cluster import Database
from tests.sql.attach import (
    ARTICLES,
    articles,
    attach,
    backfill,
    backfill_by_workers,
    backfill_later_by_workers,
    documents,
    indexed,
    isolated,
    queued,
    session,
    states,
    unfollowed,
)


def own_articles(db: Database, rows: int) -> Database:
    """Articles of the extension's owner; a session beside."""
    db.execute("SET search_path = public")
    articles(db, rows)
    other = Database.open(db.url)
    other.execute("SET search_path = public")
    return other


def test_thousands_of_rows_are_backfilled_by_their_owner(db: Database, app: Database) -> None:
    articles(app, rows=5000)
    assert documents(db) == {}
    backfill(app)
    assert documents(db) == {str(n): f"Body {n}" for n in range(1, 5001)}
    assert db.execute("SELECT kind, count(*) FROM graphrag.jobs GROUP BY 1").fetchall() == [("index", 5000)]


def test_thousands_of_rows_are_backfilled_in_batches_by_workers(db: Database) -> None:
    with own_articles(db, rows=5000):
        assert backfill_by_workers(db) == 6 + 4, "steps through the rows, and through the documents"
        assert documents(db) == {str(n): f"Body {n}" for n in range(1, 5001)}


def test_backfill_resumes_where_a_worker_ended(db: Database) -> None:
    with own_articles(db, rows=1200):
        db.execute("CALL graphrag.process_jobs(1)")
        assert len(documents(db)) == 1000
        assert backfill_by_workers(db) == 1 + 2
        assert len(documents(db)) == 1200


def test_rows_locked_by_the_application_are_done_later_and_as_they_are_then(db: Database) -> None:
    with own_articles(db, rows=6) as other:
        with other.transaction():
            other.execute("UPDATE articles SET hits = 1 WHERE id = 1")
            other.execute("UPDATE articles SET body = 'changed' WHERE id = 2")
            other.execute("DELETE FROM articles WHERE id = 3")
            other.execute("UPDATE articles SET id = 40 WHERE id = 4")
            other.execute("INSERT INTO articles VALUES (7, 't', 'Body 7')")
            backfill_by_workers(db)
            assert documents(db) == {"5": "Body 5", "6": "Body 6"}
        assert backfill_by_workers(db) == 0, "the rest is to be looked at later"
        backfill_later_by_workers(db)
        assert documents(db) == {
            "1": "Body 1",
            "2": "changed",
            "40": "Body 4",
            "5": "Body 5",
            "6": "Body 6",
            "7": "Body 7",
        }
        assert db.execute("SELECT 1 FROM graphrag.jobs WHERE kind = 'attach'").fetchall() == []


def test_owner_is_told_of_rows_locked_by_others(db: Database, app: Database) -> None:
    articles(app, rows=3)
    messages: list[str] = []
    app.add_notice_handler(lambda notice: messages.append(str(notice.message_primary)))
    with session(db) as other, other.transaction():
        other.execute("UPDATE articles SET hits = 1 WHERE id = 1")
        backfill(app)
    assert messages == ["rows of articles are locked by other sessions, and were left out"]
    assert documents(db) == {"2": "Body 2", "3": "Body 3"}
    ((waits,),) = db.execute("SELECT waiting_for FROM graphrag.progress").fetchall()
    assert "CALL graphrag.backfill_table('app.articles', 'default')" in waits
    backfill(app)
    assert len(documents(db)) == 3
    assert db.execute("SELECT waiting FROM graphrag.progress").fetchall() == [(0,)]


def test_worker_does_not_wait_for_a_locked_table(db: Database) -> None:
    with own_articles(db, rows=3) as other:
        db.execute("SET lock_timeout = '2s'")
        with other.transaction():
            other.execute("LOCK TABLE articles")
            assert backfill_by_workers(db) == 1
            assert documents(db) == {}
        backfill_later_by_workers(db)
        assert len(documents(db)) == 3


def test_backfill_needs_a_statement_of_its_own(app: Database) -> None:
    articles(app, rows=1)
    with pytest.raises(errors.InvalidTransactionTermination) as refused, app.transaction():
        backfill(app)
    assert "statement of its own" in str(refused.value.diag.message_hint)


@pytest.mark.parametrize("level", ["repeatable read", "serializable"])
def test_backfill_by_an_old_snapshot_is_refused_with_a_way_out(app: Database, level: str) -> None:
    articles(app, rows=1)
    isolated(app, level)
    with pytest.raises(errors.ActiveSqlTransaction, match=level) as refused:
        backfill(app)
    assert "SET default_transaction_isolation" in str(refused.value.diag.message_hint)


def test_rows_and_orphans_that_came_past_the_triggers_are_found(db: Database, app: Database) -> None:
    articles(app, rows=2500)
    backfill(app)
    app.execute("ALTER TABLE articles DISABLE TRIGGER USER")
    app.execute("DELETE FROM articles WHERE id % 5 = 0; UPDATE articles SET body = 'new' WHERE id = 7")
    app.execute("ALTER TABLE articles ENABLE TRIGGER USER")
    backfill(app)
    assert documents(db) == dict(app.execute("SELECT id::text, body FROM articles").fetchall())


@pytest.mark.sample(3)
@pytest.mark.parametrize(
    "statement", ["DELETE FROM articles WHERE id = 2", "UPDATE articles SET id = 20 WHERE id = 2", "TRUNCATE articles"]
)
@pytest.mark.parametrize("level", ["read committed", "repeatable read", "serializable"])
def test_backfill_between_snapshot_and_delete_leaves_no_orphan(
    db: Database, app: Database, level: str, statement: str
) -> None:
    articles(app, rows=3)
    isolated(app, level)
    with session(db) as owner:
        with app.transaction():
            app.execute("SELECT count(*) FROM articles")
            backfill(owner)
            app.execute(statement.encode())
        backfill(owner)
    rows = app.execute("SELECT id::text, body FROM articles").fetchall()
    assert documents(db) == dict(rows)


def test_transaction_older_than_attach_goes_on_and_is_made_good(db: Database, app: Database) -> None:
    app.execute(f"CREATE TABLE articles ({ARTICLES})".encode())
    with session(db) as old:
        isolated(old, "repeatable read")
        with unfollowed(old, "40001"), old.transaction():
            old.execute("SELECT 1")
            attach(app)
            backfill(app)
            old.execute("INSERT INTO articles VALUES (1, 't', 'one')")
    assert (documents(db), states(db)) == ({}, {"app.articles": "behind"})
    backfill(app)
    assert (documents(db), states(db)) == ({"1": "one"}, {"app.articles": "current"})


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
