"""Corpora take turns: what one has to do, however much, holds up no other."""

import psycopg
import pytest

from tests.endpoint import Endpoint
from tests.runtime.cluster import Database
from tests.sql.extracting import extracted, knows
from tests.sql.ingest import STORIES, corpus_id, jobs, put, put_all, rows, searched_corpus, statuses, value, work
from tests.sql.test_long_documents import corpus_with_text
from tests.sql.test_old_statistics import EXPLAINED
from tests.sql.test_surface_plans import EXPECTED, Explained

REPLY = knows
SMALL_BATCHES = """DO LANGUAGE plpython3u $$
from pg_graphrag.server import queue
queue.BATCH_DOCUMENTS = queue.SHORT_DOCUMENTS = queue.BATCH_ROWS = 5
$$"""


@pytest.fixture(autouse=True, scope="module")
def _small_batches(module_db: Database) -> None:
    module_db.execute(SMALL_BATCHES)


@pytest.fixture(autouse=True)
def _empty_queue(module_db: Database) -> None:
    work(module_db)


def many(db: Database, number: int = 60) -> str:
    """A corpus with many documents that wait."""
    corpus = searched_corpus(db)
    put_all(
        db, corpus, {f"{name} {n}": f"{STORIES[name]} Chapter {n}." for n in range(number // 5) for name in STORIES}
    )
    return corpus


def done(db: Database, corpus: str) -> int:
    return list(statuses(db, corpus).values()).count("indexed")


def test_a_document_waits_for_no_other_corpus_however_many_documents_that_has(module_db: Database) -> None:
    before, between, after = (many(module_db) for _ in range(3))
    put(module_db, between, "late", STORIES["hopper"])
    late = searched_corpus(module_db)
    put(module_db, late, "ada", STORIES["ada"])
    work(module_db, 20)
    assert statuses(module_db, late) == {"ada": "indexed"}
    assert [done(module_db, corpus) for corpus in (before, between, after)].count(0) == 0


def test_a_removal_waits_for_no_document(module_db: Database) -> None:
    corpus = searched_corpus(module_db)
    put(module_db, corpus, "hopper", STORIES["hopper"])
    work(module_db)
    put_all(module_db, corpus, {f"ada {number}": STORIES["ada"] for number in range(30)})
    module_db.execute("DELETE FROM graphrag.documents WHERE corpus = %s AND source_key = 'hopper'", [corpus])
    work(module_db, 1)
    # Until then a search would compare all vectors, by no index.
    assert not value(module_db, "SELECT count(*) FROM graphrag._removals")
    assert done(module_db, corpus) == 0


def test_runs_of_one_job_come_to_every_corpus(module_db: Database) -> None:
    corpora = [searched_corpus(module_db) for _ in range(4)]
    for corpus in corpora:
        put_all(module_db, corpus, STORIES)
    for _ in range(4 * value(module_db, "SELECT max(id) FROM graphrag.corpora")):
        work(module_db, 1)
        if all(done(module_db, corpus) for corpus in corpora):
            break
    assert all(done(module_db, corpus) for corpus in corpora)
    assert not all(done(module_db, corpus) == len(STORIES) for corpus in corpora)


def test_texts_of_all_corpora_come_before_a_graph_and_a_graph_waits_for_no_vectors_of_another_corpus(
    module_db: Database, endpoint: Endpoint
) -> None:
    module_db.execute("""DO LANGUAGE plpython3u $$
        from pg_graphrag.index.indexing import write as parts
        parts.LONG_BYTES, parts.VECTOR_TOKENS, parts.GRAPH_CHUNKS, parts.GRAPH_TOKENS = 3000, 300, 2, 10**6
    $$""")
    try:
        # One text is written, its parts wait.
        long = corpus_with_text(module_db, endpoint)
        number = corpus_id(module_db, long)
        parts = len(jobs(module_db, long))
        assert parts > 10
        short = extracted(module_db, endpoint)
        put(module_db, short, "ada", STORIES["ada"])
        other = searched_corpus(module_db)
        put(module_db, other, "hopper", STORIES["hopper"])
        work(module_db, 2)
        assert done(module_db, other) == 1
        assert jobs(module_db, short) == [("ada", "graph", "pending", False)]
        assert len(jobs(module_db, long)) == parts
        work(module_db, 2)
        assert done(module_db, short) == 1
        # Within a corpus, vectors come first.
        kinds = rows(module_db, "SELECT DISTINCT kind FROM graphrag.jobs WHERE corpus_id = %s", number)
        assert set(kinds) == {("embed",), ("graph",)}
        while ("embed",) in rows(module_db, "SELECT DISTINCT kind FROM graphrag.jobs WHERE corpus_id = %s", number):
            work(module_db, 1)
    finally:
        work(module_db)
    assert jobs(module_db, long) == []


def test_a_corpus_whose_jobs_somebody_locks_holds_up_no_other(module_db: Database) -> None:
    locked, free = many(module_db, 5), many(module_db, 5)
    with psycopg.connect(module_db.url) as other:
        other.execute("SELECT FROM graphrag.jobs WHERE corpus_id = %s FOR UPDATE", [corpus_id(module_db, locked)])
        work(module_db)
        assert (done(module_db, free), done(module_db, locked)) == (5, 0)
    work(module_db)
    assert done(module_db, locked) == 5


@pytest.mark.slow
def test_no_batch_reads_all_that_waits(module_db: Database) -> None:
    number = corpus_id(module_db, many(module_db, 5))
    work(module_db)
    waiting = 600
    # Of documents that are gone: they take a worker least.
    module_db.execute(
        "SELECT graphrag._requeue_jobs('remove', array_agg(%s), array_agg(n)) FROM generate_series(1, %s) n",
        [number, waiting],
    )
    module_db.execute("ANALYZE graphrag.jobs")
    with psycopg.connect(module_db.url, autocommit=True) as worker:
        worker.execute(SMALL_BATCHES)
        explained = Explained(worker, {"jobs": waiting}, EXPECTED)
        worker.execute(EXPLAINED)
        worker.execute("CALL graphrag.process_jobs()")
        assert [fault for fault in explained.faults() if " jobs reads " in fault] == []
    assert value(module_db, "SELECT count(*) FROM graphrag.jobs WHERE document_id IS NOT NULL") == 0


def test_what_is_not_due_takes_no_turn(module_db: Database) -> None:
    corpus = searched_corpus(module_db)
    put_all(module_db, corpus, STORIES)
    number = corpus_id(module_db, corpus)
    due = "SELECT graphrag._next_due_corpus(1, %s, %s)"
    assert value(module_db, due, number - 1, []) == number
    assert value(module_db, due, number, []) is None
    module_db.execute("UPDATE graphrag.jobs SET state = 'leased', lease = 7 WHERE corpus_id = %s", [number])
    assert value(module_db, due, number - 1, [7]) is None
    # The worker is gone.
    assert value(module_db, due, number - 1, [8]) == number
    module_db.execute(
        "UPDATE graphrag.jobs SET state = 'pending', lease = NULL, next_attempt_at = now() + interval '1 day'"
        " WHERE corpus_id = %s",
        [number],
    )
    assert value(module_db, due, number - 1, []) is None
