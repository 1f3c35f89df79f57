"""graphrag.documents: its triggers keep hash, times and status, and queue what is due and nothing else."""

import hashlib
from collections.abc import Callable
from typing import Any

import psycopg
import pytest
from psycopg import errors

from tests.runtime.cluster import Cluster, Database


def sha(title: str, content: str) -> str:
    return hashlib.sha256(f"{title}\n{content}".encode()).hexdigest()


def insert(db: Database, *keys: str, content: str = "text") -> None:
    for key in keys:
        db.execute("INSERT INTO graphrag.documents (source_key, content) VALUES (%s, %s)", [key, content])


def jobs(db: Database) -> list[tuple[Any, ...]]:
    """Kind, key of the document (null: it is gone), and state."""
    return db.execute(
        "SELECT j.kind, d.source_key, j.state FROM graphrag.jobs j LEFT"
        " JOIN graphrag.documents d ON d.id = j.document_id"
        " WHERE j.document_id IS NOT NULL ORDER BY 2, 1"
    ).fetchall()


def indexed(db: Database) -> None:
    """As a worker leaves it."""
    db.execute("UPDATE graphrag.documents SET status = 'indexed', indexed_hash = content_hash, indexed_at = now()")
    db.execute("DELETE FROM graphrag.jobs")


def row(db: Database, columns: str, key: str = "a") -> tuple[Any, ...]:
    (records,) = db.execute(
        f"SELECT {columns} FROM graphrag.documents WHERE source_key = %s".encode(), [key]
    ).fetchall()
    return records


def test_first_insert_makes_the_default_corpus_and_queues(db: Database) -> None:
    assert db.execute("SELECT count(*) FROM graphrag.corpora").fetchall() == [(0,)]
    insert(db, "a")
    assert db.execute("SELECT name FROM graphrag.corpora").fetchall() == [("default",)]
    assert jobs(db) == [("index", "a", "pending")]
    assert row(db, "status, error, indexed_at, indexed_hash") == ("pending", None, None, None)


def test_unknown_corpus_is_an_error_with_a_hint(db: Database) -> None:
    with pytest.raises(errors.UndefinedObject, match='"nowhere"') as refused:
        db.execute("INSERT INTO graphrag.documents (corpus, content) VALUES ('nowhere', 'x')")
    assert "create_corpus('nowhere')" in str(refused.value.diag.message_hint)


def test_hash_is_of_title_and_content_whatever_the_application_gives(db: Database) -> None:
    db.execute(
        "INSERT INTO graphrag.documents (source_key, title, content, content_hash) VALUES ('a', 'T', 'é', 'mine')"
    )
    assert row(db, "content_hash") == (sha("T", "é"),)
    db.execute("UPDATE graphrag.documents SET content_hash = 'mine'")
    assert row(db, "content_hash") == (sha("T", "é"),)
    db.execute("UPDATE graphrag.documents SET title = NULL")
    assert row(db, "content_hash") == (sha("", "é"),)


def test_source_key_is_the_hash_when_not_given(db: Database) -> None:
    db.execute("INSERT INTO graphrag.documents (content) VALUES ('text')")
    assert row(db, "content", sha("", "text")) == ("text",)
    with pytest.raises(errors.UniqueViolation):
        db.execute("INSERT INTO graphrag.documents (content) VALUES ('text')")


def test_duplicate_key_is_a_unique_violation_and_on_conflict_replaces(db: Database) -> None:
    insert(db, "a")
    with pytest.raises(errors.UniqueViolation):
        insert(db, "a")
    indexed(db)
    upsert = (
        "INSERT INTO graphrag.documents (source_key, content) VALUES ('a', %s), ('b', 'b')"
        " ON CONFLICT (corpus, source_key) DO UPDATE SET content = excluded.content"
    )
    db.execute(upsert, ["new"])
    assert jobs(db) == [("index", "a", "pending"), ("index", "b", "pending")]
    indexed(db)
    db.execute(upsert, ["new"])
    assert jobs(db) == []


def test_update_with_the_same_content_queues_nothing(db: Database) -> None:
    insert(db, "a")
    indexed(db)
    before = row(db, "indexed_at, updated_at, status")
    db.execute("UPDATE graphrag.documents SET content = 'text', title = NULL")
    assert jobs(db) == []
    assert row(db, "indexed_at, updated_at, status") == before


def test_update_of_metadata_queues_nothing_but_counts_as_a_change(db: Database) -> None:
    insert(db, "a")
    indexed(db)
    db.execute("""UPDATE graphrag.documents SET metadata = '{"n": 1}', valid_from = 'today'""")
    assert jobs(db) == []
    status, changed = row(db, "status, updated_at > created_at")
    assert (status, changed) == ("indexed", True)


@pytest.mark.parametrize("change", ["content = 'new'", "title = 'new'"])
def test_update_of_title_or_content_queues_and_keeps_what_is_indexed_known(db: Database, change: str) -> None:
    insert(db, "a", "b")
    indexed(db)
    db.execute(f"UPDATE graphrag.documents SET {change} WHERE source_key = 'a'".encode())
    assert jobs(db) == [("index", "a", "pending")]
    assert row(db, "status, indexed_at, indexed_hash") == ("pending", None, sha("", "text"))


def test_new_source_key_is_new_work(db: Database) -> None:
    insert(db, "a")
    indexed(db)
    db.execute("UPDATE graphrag.documents SET source_key = 'z'")
    assert jobs(db) == [("index", "z", "pending")]


def test_content_changed_back_before_indexing_is_not_left_pending(db: Database) -> None:
    insert(db, "a")
    indexed(db)
    db.execute("UPDATE graphrag.documents SET content = 'new'")
    db.execute("UPDATE graphrag.documents SET content = 'text'")
    assert jobs(db) == [("index", "a", "pending")], "it is queued: a worker finds out cheaply that nothing is new"
    db.execute("CALL graphrag.process_jobs()")
    assert row(db, "status, indexed_at IS NULL") == ("indexed", False)


@pytest.mark.parametrize("state", ["leased", "failed", "backing off"])
def test_new_content_supersedes_a_job_in_any_state(db: Database, state: str) -> None:
    insert(db, "a")
    db.execute(
        {
            "leased": "UPDATE graphrag.jobs SET state = 'leased', lease = 7, attempts = 2",
            "failed": "UPDATE graphrag.jobs SET state = 'failed', attempts = 9, errors = 3, last_error = 'e'",
            "backing off": "UPDATE graphrag.jobs SET attempts = 2, errors = 2,"
            " next_attempt_at = 'infinity', last_error = 'e'",
        }[state].encode()
    )
    db.execute("UPDATE graphrag.documents SET status = 'failed', error = 'e' WHERE %s", [state == "failed"])
    db.execute("UPDATE graphrag.documents SET content = 'new'")
    rows = db.execute(
        "SELECT kind, state, lease, attempts, errors, last_error, next_attempt_at <= now() FROM graphrag.jobs"
    ).fetchall()
    assert rows == [("index", "pending", None, 0, 0, None, True)]
    assert row(db, "status, error") == ("pending", None)


def test_update_that_changes_nothing_leaves_a_failed_document_failed(db: Database) -> None:
    insert(db, "a")
    db.execute("UPDATE graphrag.jobs SET state = 'failed', last_error = 'e'")
    db.execute("UPDATE graphrag.documents SET status = 'failed', error = 'e'")
    db.execute("""UPDATE graphrag.documents SET metadata = '{"n": 1}'""")
    assert row(db, "status, error") == ("failed", "e")
    assert jobs(db) == [("index", "a", "failed")]


def test_delete_queues_a_removal_of_what_is_indexed_alone(db: Database) -> None:
    insert(db, "a", "b")
    db.execute("CALL graphrag.process_jobs()")
    db.execute("UPDATE graphrag.documents SET content = 'new' WHERE source_key = 'a'")
    insert(db, "c", "d")
    db.execute("UPDATE graphrag.jobs SET state = 'leased', lease = 7")
    db.execute("DELETE FROM graphrag.documents WHERE source_key <> 'd'")
    assert jobs(db) == [("index", "d", "leased"), ("remove", None, "pending"), ("remove", None, "pending")]
    assert db.execute("SELECT FROM graphrag._removals").rowcount == 1


def test_rolled_back_work_is_not_queued(db: Database) -> None:
    with db.transaction(force_rollback=True):
        insert(db, "a")
    assert jobs(db) == []


def test_copy_queues_every_row(db: Database) -> None:
    with db.cursor().copy("COPY graphrag.documents (source_key, content) FROM STDIN") as copy:
        for number in range(1000):
            copy.write_row([str(number), "text"])
    assert db.execute("SELECT kind, count(*) FROM graphrag.jobs GROUP BY 1").fetchall() == [("index", 1000)]


def test_restored_rows_queue_only_what_was_due(db: Database) -> None:
    insert(db, "a", "b", "c")
    indexed(db)
    db.execute("UPDATE graphrag.documents SET content = 'new' WHERE source_key = 'b'")
    before = db.execute("SELECT * FROM graphrag.documents ORDER BY id").fetchall()
    columns = "*"
    with db.cursor().copy(f"COPY (SELECT {columns} FROM graphrag.documents) TO STDOUT".encode()) as copy:
        dump = b"".join(bytes(block) for block in copy)
    db.execute("TRUNCATE graphrag.documents, graphrag.jobs")
    with db.cursor().copy("COPY graphrag.documents FROM STDIN") as copy:
        copy.write(dump)
    assert jobs(db) == [("index", "b", "pending")]
    assert db.execute("SELECT * FROM graphrag.documents ORDER BY id").fetchall() == before


def test_truncate_voids_the_queue_and_removes_what_is_indexed(db: Database) -> None:
    insert(db, "a", content="Ada Lovelace met Charles Babbage in London.")
    db.execute("CALL graphrag.process_jobs()")
    insert(db, "b")
    db.execute("TRUNCATE graphrag.documents")
    assert db.execute("SELECT kind FROM graphrag.jobs WHERE kind <> 'optimize'").fetchall() == [("sweep",)]
    db.execute("CALL graphrag.process_jobs()")
    assert db.execute(
        "SELECT (SELECT count(*) FROM graphrag.chunks), (SELECT count(*) FROM graphrag.entities)"
    ).fetchall() == [(0, 0)]


@pytest.mark.parametrize("change", ["id = id + 1000", "corpus = 'other'"])
def test_id_and_corpus_of_a_document_are_fixed(db: Database, change: str) -> None:
    insert(db, "a")
    db.execute("SELECT graphrag.create_corpus('other')")
    with pytest.raises(errors.FeatureNotSupported, match="cannot change its id or corpus"):
        db.execute(f"UPDATE graphrag.documents SET {change}".encode())


def test_corpus_id_follows_the_corpus_not_the_application(db: Database) -> None:
    insert(db, "a")
    default = row(db, "corpus_id", "a")
    db.execute("SELECT graphrag.create_corpus('other')")
    db.execute(
        "INSERT INTO graphrag.documents (corpus, corpus_id, source_key, content) VALUES ('other', %s, 'b', 'x')",
        default,
    )
    (other,) = db.execute("SELECT id FROM graphrag.corpora WHERE name = 'other'").fetchall()[0]
    assert row(db, "corpus_id", "b") == (other,)
    db.execute("UPDATE graphrag.documents SET corpus_id = %s WHERE source_key = 'b'", default)
    assert row(db, "corpus_id", "b") == (other,)


def test_an_application_cannot_declare_a_new_document_indexed(db: Database) -> None:
    db.execute(
        "INSERT INTO graphrag.documents (source_key, content, status, indexed_at) VALUES ('a', 'x', 'indexed', now())"
    )
    assert row(db, "status, indexed_at") == ("pending", None)
    assert jobs(db) == [("index", "a", "pending")]


def test_an_application_with_rights_on_documents_only_can_do_all_this(db: Database) -> None:
    role = "documents_app"
    db.execute(
        f"DO $$ BEGIN CREATE ROLE {role}; EXCEPTION WHEN duplicate_object OR unique_violation THEN NULL; END $$;"
        f"GRANT USAGE ON SCHEMA graphrag TO {role};"
        f"GRANT SELECT, INSERT, UPDATE, DELETE, TRUNCATE ON graphrag.documents TO {role}"
    )
    with Database.open(db.url) as app:
        app.execute(f"SET ROLE {role}".encode())
        insert(app, "a", "b")
        app.execute("UPDATE graphrag.documents SET content = 'new' WHERE source_key = 'a'")
        app.execute("DELETE FROM graphrag.documents WHERE source_key = 'b'")
        with pytest.raises(errors.InsufficientPrivilege):
            app.execute("SELECT * FROM graphrag.jobs")
    assert jobs(db) == [("index", "a", "pending")]
    db.execute(f"DROP OWNED BY {role}".encode())


@pytest.mark.parametrize(
    ("values", "constraint"),
    [
        ("('', 'x', '{}')", "documents_source_key_check"),
        ("(repeat('k', 2001), 'x', '{}')", "documents_source_key_check"),
        ("('k', 'x', '[]')", "documents_metadata_check"),
    ],
)
def test_bad_values_are_refused_by_name(db: Database, values: str, constraint: str) -> None:
    with pytest.raises(errors.CheckViolation) as refused:
        db.execute(f"INSERT INTO graphrag.documents (source_key, content, metadata) VALUES {values}".encode())
    assert refused.value.diag.constraint_name == constraint


@pytest.mark.parametrize("metadata", ["[1, 2]", '"text"', "null", "17"])
def test_metadata_that_is_no_object_is_refused_with_value_and_hint(db: Database, metadata: str) -> None:
    with pytest.raises(errors.CheckViolation) as refused:
        db.execute("INSERT INTO graphrag.documents (source_key, content, metadata) VALUES ('k', 'x', %s)", [metadata])
    assert refused.value.diag.message_primary == f'metadata of document "k" cannot be {metadata}'
    assert "Give an object" in str(refused.value.diag.message_hint)
    insert(db, "k")
    with pytest.raises(errors.CheckViolation):
        db.execute("UPDATE graphrag.documents SET metadata = %s WHERE source_key = 'k'", [metadata])


@pytest.mark.parametrize("key", ["a", None])
def test_null_content_is_refused_by_name(db: Database, key: str | None) -> None:
    with pytest.raises(errors.NotNullViolation) as refused:
        db.execute("INSERT INTO graphrag.documents (source_key, content) VALUES (%s, NULL)", [key])
    assert refused.value.diag.column_name == "content"


def test_workers_are_notified_only_where_the_database_says_so(db: Database) -> None:
    db.execute("LISTEN graphrag_jobs")
    db.execute("INSERT INTO graphrag.documents (source_key, content) VALUES ('quiet', 'text')")
    assert list(db.notifies(timeout=0.2)) == []
    db.execute("SET graphrag.notify = on")
    db.execute("INSERT INTO graphrag.documents (source_key, content) VALUES ('loud', 'text')")
    assert [notice.channel for notice in db.notifies(timeout=5, stop_after=1)] == ["graphrag_jobs"]


def test_a_prepared_transaction_may_insert_documents(cluster: Callable[..., Cluster]) -> None:
    own = cluster({"max_prepared_transactions": "2"})
    own.create_database("prepared", "template0")
    with psycopg.connect(own.url("prepared")) as connection:
        connection.execute("CREATE EXTENSION pg_graphrag CASCADE")
        connection.commit()
        connection.execute("INSERT INTO graphrag.documents (source_key, content) VALUES ('two', 'phases')")
        connection.execute("PREPARE TRANSACTION 'p'")
        connection.rollback()
        connection.autocommit = True
        connection.execute("COMMIT PREPARED 'p'")
        connection.execute("CALL graphrag.process_jobs()")
        assert connection.execute("SELECT status FROM graphrag.documents").fetchall() == [("indexed",)]
