"""Any user of SQL may take advisory locks: with none does he hold up workers, play one, or keep open what is to be closed."""

import threading
from collections.abc import Iterator

import psycopg
import pytest
from psycopg.conninfo import make_conninfo

from tests.runtime.cluster import Database
from tests.security.acting import new_role
from tests.sql.ingest import Connection, index_all, new_corpus, put, refused, rows, search, value, work

# The numbers by which the extension had locks of everybody's, and has them of workers.
_NUMBERS = range(1735549290, 1735549300)
_AGE = """
SELECT p.proname FROM pg_proc p WHERE p.pronamespace = 'ag_catalog'::regnamespace
   AND p.proname ~ '^(age_vle|age_startnode|age_endnode|age_vertex_stats|load_(labels|edges)_from_file)$'
   AND has_function_privilege('pg_monitor', p.oid, 'EXECUTE')
"""


@pytest.fixture
def mallory(db: Database) -> Iterator[Connection]:
    """A session without any right, that has every lock it can think of."""
    with (
        new_role(db, "LOGIN PASSWORD 'm'") as role,
        psycopg.connect(make_conninfo(db.url, user=role, password="m"), autocommit=True) as session,
    ):
        for number in _NUMBERS:
            session.execute("SELECT pg_advisory_lock(%s, n) FROM generate_series(0, 60) n", [number])
            session.execute("SELECT pg_advisory_lock(%s::bigint << 32 | n) FROM generate_series(0, 60) n", [number])
        for table in ("bm25_segments", "documents", "corpora", "jobs", "chunks"):
            oid = value(db, "SELECT to_regclass(%s)::oid::bigint::int", f"graphrag.{table}")
            session.execute("SELECT pg_advisory_lock(%s, n) FROM generate_series(0, 60) n", [oid])
        yield session


@pytest.mark.usefixtures("mallory")
def test_work_goes_on_while_somebody_has_every_advisory_lock(db: Database) -> None:
    db.execute("SET statement_timeout = '60s'")
    corpus = new_corpus(db, communities={"max_cluster_size": 5})
    put(db, corpus, "ada", "Ada Lovelace wrote notes for Charles Babbage.")
    work(db)
    assert search(db, "Ada Lovelace", corpus)
    db.execute("SELECT graphrag.optimize(%s)", [corpus])
    db.execute("SELECT graphrag.rename_entity('Charles Babbage', 'Babbage', %s)", [corpus])
    db.execute('SELECT graphrag.reembed(%s, \'{"model": "multilingual-e5-small"}\')', [corpus])
    index_all(db, corpus, {"alan": "Alan Turing read the notes of Ada Lovelace."})
    assert rows(db, "SELECT count(*), count(*) FILTER (WHERE status = 'indexed') FROM graphrag.documents") == [(2, 2)]
    assert rows(db, _AGE) == []
    db.execute("SELECT graphrag.drop_corpus(%s)", [corpus])
    assert value(db, "SELECT count(*) FROM graphrag._locks WHERE corpus_id > 0") == 0


def test_who_takes_the_lock_of_a_dead_worker_keeps_no_lease(db: Database, mallory: Connection) -> None:
    corpus = new_corpus(db)
    put(db, corpus, "ada", "Ada Lovelace wrote notes.")
    db.execute("UPDATE graphrag.jobs SET state = 'leased', lease = 7")
    assert value(db, "SELECT count(*) FROM graphrag._workers") == 0
    assert rows(db, "SELECT subject FROM graphrag.health()") == [("leases",)]
    assert value(db, "SELECT value FROM graphrag.metrics WHERE name = 'workers'") == 0
    work(db)
    assert value(db, "SELECT status FROM graphrag.documents") == "indexed"


def test_nobody_else_locks_what_workers_wait_for(db: Database, mallory: Connection) -> None:
    index_all(db, new_corpus(db), {"ada": "Ada Lovelace wrote notes."})
    role = value(mallory, "SELECT current_user")
    db.execute(f"GRANT graphrag_reader, graphrag_writer, pg_monitor TO {role}".encode())
    for statement in (
        "SELECT FROM graphrag._locks FOR UPDATE",
        "SELECT FROM graphrag._locks",
        "DO $$ BEGIN LOCK TABLE graphrag._locks IN ACCESS SHARE MODE; END $$",
        "SELECT graphrag._lock(1, 'corpus')",
        "SELECT graphrag._lock_corpus(1)",
        "SELECT graphrag._lock_spaces(1, false)",
        "SELECT graphrag._begin_work()",
        "SELECT FROM graphrag._workers",
    ):
        assert refused(mallory, statement).sqlstate == "42501", statement


def test_who_waits_for_spaces_alone_is_not_starved_by_those_who_share_them(db: Database) -> None:
    corpus = new_corpus(db)
    number = value(db, "SELECT id FROM graphrag.corpora WHERE name = %s", corpus)
    db.execute("SELECT graphrag._lock_spaces(%s, true)", [number])
    done = threading.Event()

    def share(delay: float) -> None:
        with psycopg.connect(db.url, autocommit=True) as session:
            done.wait(delay)
            while not done.is_set():
                with session.transaction():
                    session.execute("SELECT graphrag._lock_spaces(%s, true)", [number])
                    session.execute("SELECT pg_sleep(0.4)")

    sharers = [threading.Thread(target=share, args=[0.2 * place]) for place in range(3)]
    for sharer in sharers:
        sharer.start()
    try:
        with psycopg.connect(db.url, autocommit=True) as session:
            session.execute("SET statement_timeout = '20s'")
            for _ in range(3):
                session.execute("SELECT graphrag._lock_spaces(%s, false)", [number])
    finally:
        done.set()
        for sharer in sharers:
            sharer.join()
