"""What the tests of attach_table() share: an application's session, its table of articles, and what became of them."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from psycopg.conninfo import make_conninfo
from psycopg.errors import Diagnostic

from tests.runtime.cluster import Database

APP = "attach_app"
# What whoever owns an attached table needs in the corpus, where nobody was given one.
WRITE = "INSERT (corpus, source_key, title, content, metadata)"
ARTICLES = "id int PRIMARY KEY, headline text, body text, tags text[], hits int DEFAULT 0"


def session(db: Database, role: str = APP) -> Database:
    """A session that logged in as an ordinary role, whose password is its name."""
    connection = Database.open(make_conninfo(db.url, user=role, password=role))
    connection.execute("SET search_path = app")
    return connection


def attach(app: Database, key: str = "id", table: str = "articles", corpus: str = "default", **columns: Any) -> None:
    app.execute(
        "SELECT graphrag.attach_table(%s::regclass, %s, %s::name, %s::name[], %s::name, %s::name[])",
        [table, corpus, key, columns.get("content", ["body"]), columns.get("title"), columns.get("metadata", [])],
    )


def articles(app: Database, rows: int = 0) -> None:
    app.execute(f"CREATE TABLE articles ({ARTICLES})".encode())
    app.execute("INSERT INTO articles SELECT n, 'Title ' || n, 'Body ' || n FROM generate_series(1, %s) n", [rows])
    attach(app, title="headline")


def documents(db: Database) -> dict[str, str]:
    return dict(db.execute("SELECT source_key, content FROM graphrag.documents").fetchall())


def queued(db: Database) -> list[tuple[str, str]]:
    """Kind and key of the jobs of documents."""
    return db.execute(
        "SELECT j.kind, coalesce(d.source_key,"
        " '') FROM graphrag.jobs j"
        " LEFT JOIN graphrag.documents d ON d.id = j.document_id"
        " WHERE j.document_id IS NOT NULL ORDER BY 1, 2"
    ).fetchall()


def indexed(db: Database) -> None:
    """As if a worker had indexed everything."""
    db.execute("UPDATE graphrag.documents SET indexed_hash = content_hash, indexed_at = now(), status = 'indexed'")
    db.execute("DELETE FROM graphrag.jobs WHERE document_id IS NOT NULL")


def backfill(app: Database) -> None:
    """As the owner of the attached tables, bring their documents up to date."""
    for (table,) in app.execute(
        "SELECT DISTINCT relation::regclass::text FROM graphrag_attached._attachments ORDER BY 1"
    ).fetchall():
        app.execute("CALL graphrag.backfill_table(%s)", [table])


def backfill_by_workers(db: Database) -> int:
    """Do the jobs of kind attach that are due, and no others; return how many steps they took."""
    due = "SELECT 1 FROM graphrag.jobs WHERE kind = 'attach' AND state = 'pending' AND next_attempt_at <= now()"
    others = (
        "UPDATE graphrag.jobs SET next_attempt_at = 'infinity' WHERE kind <> 'attach' AND next_attempt_at <> 'infinity'"
    )
    for step in range(1000):
        db.execute(others)
        if not db.execute(due).fetchall():
            return step
        db.execute("CALL graphrag.process_jobs(1)")
    raise AssertionError("the backfill does not end")


def backfill_later_by_workers(db: Database) -> int:
    db.execute("UPDATE graphrag.jobs SET next_attempt_at = now() WHERE kind = 'attach'")
    return backfill_by_workers(db)


@contextmanager
def unfollowed(connection: Database, sqlstate: str, says: str = "") -> Iterator[list[str]]:
    """A statement that goes on while its documents do not follow it: a WARNING says why; its HINTs are yielded."""
    hints: list[str] = []
    warnings: list[tuple[str | None, str]] = []

    def take(diagnostic: Diagnostic) -> None:
        if diagnostic.severity_nonlocalized == "WARNING":
            warnings.append((diagnostic.sqlstate, str(diagnostic.message_primary)))
            hints.append(str(diagnostic.message_hint))

    connection.add_notice_handler(take)
    try:
        yield hints
    finally:
        connection.remove_notice_handler(take)
    assert [code for code, _ in warnings] == [sqlstate], warnings
    assert says in warnings[0][1]


def states(db: Database) -> dict[str, str]:
    return dict(db.execute("SELECT attached_table, state FROM graphrag.attached_tables").fetchall())


def isolated(app: Database, level: str) -> None:
    app.execute(f"SET default_transaction_isolation = '{level}'".encode())
