"""The views progress and failed_jobs say how far indexing is."""

import psycopg

from tests.runtime.cluster import Database
from tests.sql.ingest import STORIES, delete, index_all, put, put_all, rows, searched_corpus, value, work

COUNTS = "SELECT documents, indexed, pending, failed, jobs, leased FROM graphrag.progress WHERE corpus = %s"


def test_progress_counts_documents_and_jobs_as_they_go(module_db: Database) -> None:
    name = searched_corpus(module_db)
    assert rows(module_db, COUNTS, name) == [(0, 0, 0, 0, 0, 0)]
    put_all(module_db, name, STORIES)
    assert rows(module_db, COUNTS, name) == [(5, 0, 5, 0, 5, 0)]
    assert value(module_db, "SELECT oldest_pending <= now() FROM graphrag.progress WHERE corpus = %s", name)
    work(module_db, 2)
    assert rows(module_db, COUNTS, name) == [(5, 2, 3, 0, 3, 0)]
    work(module_db)
    assert rows(module_db, COUNTS, name) == [(5, 5, 0, 0, 0, 0)]
    assert value(module_db, "SELECT oldest_pending FROM graphrag.progress WHERE corpus = %s", name) is None
    delete(module_db, name, "ada")
    assert rows(module_db, COUNTS, name) == [(4, 4, 0, 0, 1, 0)]


def test_progress_counts_what_was_made(module_db: Database) -> None:
    name = index_all(module_db, searched_corpus(module_db), STORIES)
    counted = rows(module_db, "SELECT chunks, entities, relationships FROM graphrag.progress WHERE corpus = %s", name)
    tables = rows(
        module_db,
        "SELECT (SELECT count(*) FROM graphrag.chunks WHERE corpus_id = c.id),"
        " (SELECT count(*) FROM graphrag.entities WHERE corpus_id = c.id),"
        " (SELECT count(*) FROM graphrag.relationships WHERE corpus_id = c.id) FROM graphrag.corpora c WHERE name = %s",
        name,
    )
    assert counted == tables
    assert min(counted[0]) > 0


def test_a_dead_letter_counts_as_failed_and_is_listed(module_db: Database) -> None:
    name = searched_corpus(module_db)
    put_all(module_db, name, STORIES)
    module_db.execute("UPDATE graphrag.corpora SET tokenizer_fingerprint = 'other' WHERE name = %s", [name])
    for _ in range(3):
        work(module_db)
        module_db.execute("UPDATE graphrag.jobs SET next_attempt_at = now()")
    assert rows(module_db, COUNTS, name) == [(5, 0, 0, 5, 0, 0)]
    listed = rows(
        module_db, "SELECT source_key, kind, attempts FROM graphrag.failed_jobs WHERE corpus = %s ORDER BY 1", name
    )
    assert listed == [(key, "index", 3) for key in sorted(STORIES)]


def test_replication_lag_is_null_on_a_primary(module_db: Database) -> None:
    searched_corpus(module_db)
    assert set(rows(module_db, "SELECT replication_lag FROM graphrag.progress")) == {(None,)}


def test_writers_of_one_corpus_do_not_wait_for_each_other_to_be_counted(module_db: Database) -> None:
    name = searched_corpus(module_db)
    with psycopg.connect(module_db.url) as item:
        put(item, name, "a", "Ada Lovelace wrote a note.")
        module_db.execute("SET statement_timeout = '20s'")
        put(module_db, name, "b", "Grace Hopper wrote a compiler.")
        # What the other has not committed is nobody's, and is not lost when a worker folds the counts meanwhile.
        assert rows(module_db, COUNTS, name) == [(1, 0, 1, 0, 1, 0)]
        work(module_db)
        module_db.execute("RESET statement_timeout")
        assert rows(module_db, COUNTS, name) == [(1, 1, 0, 0, 0, 0)]
        assert rows(item, COUNTS, name) == [(2, 1, 1, 0, 1, 0)]
        item.commit()
    assert rows(module_db, COUNTS, name) == [(2, 1, 1, 0, 1, 0)]
    assert rows(module_db, "SELECT * FROM graphrag.check(%s)", name) == []


def test_counts_follow_a_rollback_and_a_truncate(db: Database) -> None:
    name = index_all(db, searched_corpus(db), STORIES)
    with db.transaction(force_rollback=True):
        delete(db, name, "ada")
        assert rows(db, COUNTS, name)[0][:2] == (4, 4)
    assert rows(db, COUNTS, name)[0][:2] == (5, 5)
    with psycopg.connect(db.url) as old:
        old.isolation_level = psycopg.IsolationLevel.REPEATABLE_READ
        old.execute("SELECT")
        put(db, name, "late", "Grace Hopper wrote a compiler.")
        old.execute("TRUNCATE graphrag.documents")  # takes also what its snapshot does not see
    assert rows(db, COUNTS, name)[0][:2] == (0, 0)
    work(db)
    assert rows(db, "SELECT chunks, entities, relationships FROM graphrag.progress WHERE corpus = %s", name) == [
        (0, 0, 0)
    ]
    assert rows(db, "SELECT * FROM graphrag.check(%s)", name) == []


def test_changes_that_no_worker_looks_at_leave_no_rows(db: Database) -> None:
    index_all(db, searched_corpus(db), STORIES)
    count_rows = rows(db, "SELECT count(*) FROM graphrag._document_counts")
    for _ in range(3):
        db.execute("UPDATE graphrag.documents SET metadata = metadata")
    assert rows(db, "SELECT count(*) FROM graphrag._document_counts") == count_rows


def test_repair_counts_what_came_past_the_triggers(db: Database) -> None:
    name = index_all(db, searched_corpus(db), STORIES)
    with db.transaction():
        db.execute("ALTER TABLE graphrag.documents DISABLE TRIGGER USER")
        db.execute("DELETE FROM graphrag.documents WHERE source_key = 'ada'")
        db.execute("ALTER TABLE graphrag.documents ENABLE TRIGGER USER")
    assert rows(db, COUNTS, name)[0][0] == 5
    db.execute("SELECT graphrag.repair()")
    assert rows(db, COUNTS, name)[0][0] == 4
