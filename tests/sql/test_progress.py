"""The views progress and failed_jobs say how far indexing is."""

from __future__ import annotations

from tests.runtime.cluster import Database
from tests.sql.ingest import STORIES, delete, new_corpus, put_all, rows, value, work

COUNTS = "SELECT documents, indexed, pending, failed, jobs, leased FROM graphrag.progress WHERE corpus = %s"


def test_progress_counts_documents_and_jobs_as_they_go(module_db: Database) -> None:
    name = new_corpus(module_db)
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
    name = new_corpus(module_db)
    put_all(module_db, name, STORIES)
    work(module_db)
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
    name = new_corpus(module_db)
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
    new_corpus(module_db)
    assert set(rows(module_db, "SELECT replication_lag FROM graphrag.progress")) == {(None,)}
