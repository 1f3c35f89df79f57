"""A worker that is killed, terminated, cancelled or timed out at any moment: nothing half written, nothing lost."""

import itertools
import os
import signal
from collections.abc import Callable, Iterator
from contextlib import closing
from typing import Any

import psycopg
import pytest

from tests.runtime.cluster import Cluster, Database
from tests.sql.ingest import (
    STORIES,
    Background,
    canonical,
    corpus_id,
    expected,
    jobs,
    long_text,
    new_corpus,
    put_all,
    rows,
    statuses,
    value,
    wait_for,
    wait_for_lease,
    wait_for_lock,
    work,
    worker,
)

# One batch; the long one gives time to interfere.
DOCUMENTS = {**STORIES, "long": long_text(40)}


@pytest.fixture(scope="module")
def undisturbed(module_db: Database) -> Any:
    """What an ingest that nothing disturbs makes of DOCUMENTS."""
    return expected(module_db, DOCUMENTS)


@pytest.fixture
def corpus(module_db: Database) -> Iterator[str]:
    name = new_corpus(module_db)
    put_all(module_db, name, DOCUMENTS)
    yield name
    module_db.execute("SELECT graphrag.drop_corpus(%s)", [name])


def nothing_written(db: psycopg.Connection[Any], corpus: str) -> None:
    number = corpus_id(db, corpus)
    for table in ("chunks", "chunk_windows", "entities", "entity_mentions", "relationships", "bm25_tail"):
        assert rows(db, f"SELECT 1 FROM graphrag.{table} WHERE corpus_id = %s LIMIT 1", number) == [], table
    assert set(statuses(db, corpus).values()) == {"pending"}


def stopped_in_the_slow_part(db: Database, corpus: str, url: str, *before: str) -> Background:
    worker_session = worker(url, *before)
    wait_for_lease(db, corpus)
    return worker_session


@pytest.mark.sample(1)
@pytest.mark.parametrize("how", ["pg_cancel_backend", "pg_terminate_backend"])
def test_a_worker_interrupted_in_the_slow_part_ends_there_and_its_leases_are_void(
    module_db: Database, corpus: str, undisturbed: Any, how: str
) -> None:
    worker_session = stopped_in_the_slow_part(module_db, corpus, module_db.url)
    module_db.execute(f"SELECT {how}(%s)".encode(), [worker_session.pid])
    error = worker_session.finish()
    assert error is not None
    assert error.sqlstate in ("57014", "57P01", None)  # None: the connection went first
    nothing_written(module_db, corpus)
    if how == "pg_cancel_backend":
        assert {(state, leased) for _, _, state, leased in jobs(module_db, corpus)} == {("pending", False)}
    wait_for(lambda: work(module_db) or not jobs(module_db, corpus), "an empty queue")
    assert canonical(module_db, corpus) == undisturbed


def test_statement_timeout_ends_the_slow_part_and_releases_the_leases(
    module_db: Database, corpus: str, undisturbed: Any
) -> None:
    worker_session = worker(module_db.url, "SET statement_timeout = '150ms'")
    error = worker_session.finish()
    assert isinstance(error, psycopg.errors.QueryCanceled)
    nothing_written(module_db, corpus)
    assert {(state, leased) for _, _, state, leased in jobs(module_db, corpus)} == {("pending", False)}
    work(module_db)
    assert canonical(module_db, corpus) == undisturbed


def test_an_interruption_burns_no_attempt(module_db: Database, corpus: str) -> None:
    for _ in range(2):
        assert worker(module_db.url, "SET statement_timeout = '150ms'").finish() is not None
    attempts = "SELECT DISTINCT attempts, errors FROM graphrag.jobs WHERE corpus_id = %s"
    assert rows(module_db, attempts, corpus_id(module_db, corpus)) == [(0, 0)]


# Work on the queue, cancelled by its own process before the statements from number `first` to `last`, ends included.
_CANCELLED = """
CREATE PROCEDURE public.cancelled_jobs(first int, last int) LANGUAGE plpython3u AS $body$
import os, signal
from pg_graphrag.operate.jobs.process_jobs import process_jobs
from pg_graphrag.server import Database

class Cancelled(Database):
    statements = 0

    def _next(self):
        self.statements += 1
        if first <= self.statements <= last:
            os.kill(os.getpid(), signal.SIGINT)

    def query(self, *given):
        self._next()
        return super().query(*given)

    def literal_query(self, *given):
        self._next()
        return super().literal_query(*given)

    def commit(self):
        self._next()
        super().commit()

    def rollback(self):
        self._next()
        super().rollback()

process_jobs(Cancelled(plpy), None)
$body$
"""


@pytest.mark.slow
def test_cancels_before_any_statement_leave_no_lease_no_lock_and_no_setting(db: Database) -> None:
    name = new_corpus(db)
    put_all(db, name, {"ada": STORIES["ada"]})
    work(db)
    whole = canonical(db, name)
    db.execute(_CANCELLED)
    path = value(db, "SHOW search_path")
    locks = "SELECT count(*) FROM pg_locks WHERE locktype = 'advisory' AND pid = pg_backend_pid()"
    for first in itertools.count(1):
        db.execute("UPDATE graphrag.documents SET indexed_hash = NULL")
        assert jobs(db, name)
        try:
            db.execute("CALL public.cancelled_jobs(%s, %s)", [first, first + 2])
        except psycopg.errors.QueryCanceled:
            assert (
                value(db, "SELECT count(*) FROM graphrag.jobs WHERE state = 'leased' OR attempts + errors > 0") == 0
            ), first
            assert value(db, locks) == 0, first
            assert value(db, "SHOW search_path") == path, first
        else:
            break
    assert first > 20, "the run was over before it was cancelled: the test shows nothing"
    assert not jobs(db, name)
    assert canonical(db, name) == whole


def test_a_worker_cancelled_while_it_waits_for_the_merge_lock_leaves_nothing_half_written(
    module_db: Database, corpus: str, undisturbed: Any
) -> None:
    with psycopg.connect(module_db.url) as holder:
        holder.execute("SELECT graphrag._lock_corpus(%s)", [corpus_id(module_db, corpus)])
        worker_session = worker(module_db.url)
        wait_for_lock(module_db, worker_session.pid)
        module_db.execute("SELECT pg_cancel_backend(%s)", [worker_session.pid])
        assert isinstance(worker_session.finish(), psycopg.errors.QueryCanceled)
        nothing_written(module_db, corpus)
        holder.rollback()
    work(module_db)
    assert canonical(module_db, corpus) == undisturbed


def test_a_document_that_workers_die_over_is_tried_alone_and_at_last_a_dead_letter(
    module_db: Database, corpus: str
) -> None:
    # As if the sessions of ten workers had ended over it.
    number = corpus_id(module_db, corpus)
    module_db.execute(
        "UPDATE graphrag.jobs SET attempts = 10, state = 'leased', lease = 1999999999"
        " WHERE corpus_id = %s AND document_id = (SELECT id FROM graphrag.documents WHERE corpus_id = %s AND source_key = 'ada')",
        [number, number],
    )
    work(module_db)
    assert statuses(module_db, corpus) == dict.fromkeys(DOCUMENTS, "indexed") | {"ada": "failed"}
    error = value(module_db, "SELECT last_error FROM graphrag.failed_jobs WHERE corpus = %s", corpus)
    assert "session ended" in error
    assert value(module_db, "SELECT graphrag.retry_failed(%s)", corpus) == 1
    work(module_db)
    assert statuses(module_db, corpus) == dict.fromkeys(DOCUMENTS, "indexed")


def holding(lock: str) -> Callable[[psycopg.Connection[Any], str], None]:
    def hold(holder: psycopg.Connection[Any], corpus: str) -> None:
        number = corpus_id(holder, corpus)
        holder.execute(lock.replace("NUMBER", str(number)).encode())

    return hold


# What stops the worker: after its rows are written and before the merge; in the middle of the merge; in the projection.
STOPS = {
    "slow part": None,
    "before the merge": holding("SELECT graphrag._lock_corpus(NUMBER)"),
    "in the merge": holding("LOCK TABLE graphrag.entity_values IN SHARE MODE"),
    "in the projection": holding('LOCK TABLE "graphrag_NUMBER"."RELATED" IN SHARE MODE'),
    "at the very end": holding("LOCK TABLE graphrag.entity_vectors IN SHARE MODE"),
}


def test_after_sigkill_at_any_moment_the_next_call_gives_what_an_undisturbed_ingest_gives(
    cluster: Callable[..., Cluster], undisturbed: Any
) -> None:
    own_cluster = cluster()
    url = own_cluster.create_database("faults")
    with psycopg.connect(url, autocommit=True) as db:
        db.execute("CREATE EXTENSION pg_graphrag CASCADE")
        corpus = new_corpus(db)
        put_all(db, corpus, {"ada": STORIES["ada"]})  # makes the graph, which one of the locks needs
        work(db)
        put_all(db, corpus, DOCUMENTS)
    for crashes, (moment, hold) in enumerate(STOPS.items(), 1):
        # The crash ends these sessions too.
        with closing(psycopg.connect(url, autocommit=True)) as db, closing(psycopg.connect(url)) as holder:
            # Else documents that workers died over would be tried one by one.
            db.execute("UPDATE graphrag.jobs SET attempts = 0")
            if hold is not None:
                hold(holder, corpus)
            victim = worker(url)
            if hold is None:
                wait_for_lease(db, corpus)
            else:
                wait_for_lock(db, victim.pid)
            os.kill(victim.pid, signal.SIGKILL)
            assert victim.finish() is not None, moment
        wait_for(lambda n=crashes: own_cluster.log.count("ready to accept connections") > n, "the server's recovery")
        with psycopg.connect(url, autocommit=True) as db:
            assert statuses(db, corpus) == dict.fromkeys(DOCUMENTS, "pending") | {"ada": "indexed"}, moment
            number = corpus_id(db, corpus)
            assert (
                value(db, "SELECT count(DISTINCT document_id) FROM graphrag.chunks WHERE corpus_id = %s", number) == 1
            )
    with psycopg.connect(url, autocommit=True) as db:
        work(db)
        assert canonical(db, corpus) == undisturbed
        assert rows(db, "SELECT FROM graphrag.failed_jobs") == []


def test_what_was_queued_when_the_clock_was_ahead_does_not_wait_for_it(db: Database) -> None:
    corpus = new_corpus(db)
    put_all(db, corpus, STORIES)
    ahead = "SET created_at = created_at + interval '1 day', next_attempt_at = next_attempt_at + interval '1 day'"
    db.execute(f"UPDATE graphrag.jobs {ahead}".encode())
    # One was leased by a worker that is no more.
    db.execute("UPDATE graphrag.jobs SET state = 'leased', lease = 77 WHERE id = (SELECT min(id) FROM graphrag.jobs)")
    db.execute("SELECT graphrag.set_provider('p', 'openai', 'http://127.0.0.1:9/v1')")
    db.execute(
        "INSERT INTO graphrag.provider_state (provider, failures, openings, last_error, open_until, updated_at)"
        " VALUES ('p', 9, 3, 'down', now() + interval '25 hours', now() + interval '24 hours')"
    )
    db.execute("CALL graphrag.process_jobs()")
    assert set(statuses(db, corpus).values()) == {"indexed"}
    assert rows(db, "SELECT provider FROM graphrag.provider_state") == []


def test_what_was_put_off_when_the_clock_was_ahead_does_not_wait_for_it(db: Database) -> None:
    corpus = new_corpus(db)
    put_all(db, corpus, STORIES)
    # Queued before the clock went ahead, put off by a fault after that.
    db.execute("UPDATE graphrag.jobs SET next_attempt_at = now() + interval '1 year', last_error = 'away'")
    db.execute("CALL graphrag.process_jobs()")
    assert set(statuses(db, corpus).values()) == {"indexed"}


def test_what_was_put_off_stays_put_off(db: Database) -> None:
    corpus = new_corpus(db)
    put_all(db, corpus, STORIES)
    db.execute("UPDATE graphrag.jobs SET next_attempt_at = now() + interval '1 hour'")
    db.execute("CALL graphrag.process_jobs()")
    assert set(statuses(db, corpus).values()) == {"pending"}
