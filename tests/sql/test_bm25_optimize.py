"""graphrag.optimize(): what it does, what runs beside it, and what survives it."""

import random
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from typing import Any

import psycopg
import pytest

from tests.runtime.cluster import Cluster, Database
from tests.sql.bm25_reference import (
    FUNCTIONS,
    Connection,
    Engine,
    Reference,
    add_chunks,
    install,
    optimize,
    remove_chunks,
)

TERMS = ["w0", "w1", "w5"]


@pytest.fixture
def db(fresh_db: Database) -> Database:
    """A new database: rows of corpus 1, which no corpus has made."""
    return fresh_db


def texts(seed: int, size: int) -> list[Counter[str]]:
    generator = random.Random(seed)
    return [
        Counter(f"w{int(generator.expovariate(0.3))}" for _ in range(generator.randint(1, 30))) for _ in range(size)
    ]


def counts(connection: Connection) -> dict[str, int]:
    """Rows of the tables of the index."""
    tables = ("segments", "postings", "deletions", "tail", "tombstones")
    rows = (connection.execute(f"SELECT count(*) FROM graphrag.bm25_{table}").fetchone() for table in tables)
    return {table: row[0] for table, row in zip(tables, rows, strict=True) if row}


def assert_exact(connection: Connection, *engines: Engine) -> None:
    reference = Reference.of(connection)
    for engine in engines or (Engine(connection),):
        assert engine.statistics() == (len(reference.items), pytest.approx(reference.mean, rel=1e-14))
        assert engine.document_frequencies(TERMS) == {term: reference.df(term) for term in TERMS}
        for limit in (3, 1000):
            reference.assert_same(engine, TERMS, limit)


@contextmanager
def other_session(database: Database, **options: Any) -> Iterator[Connection]:
    with psycopg.connect(database.url, autocommit=True, **options) as connection:
        yield connection


@contextmanager
def paused_optimize(database: Database) -> Iterator[Future[dict[str, int]]]:
    """Run optimize() in a session of its own and stop it before it writes its first posting; go on at the end."""
    with other_session(database) as gate, other_session(database) as session, ThreadPoolExecutor(1) as pool:
        gate.execute("BEGIN")
        gate.execute("LOCK TABLE graphrag.bm25_postings IN SHARE MODE")
        future = pool.submit(optimize, session)
        wait_until(database, lambda: waits(database, session))
        try:
            yield future
        finally:
            gate.execute("COMMIT")
        future.result(timeout=60)


def waits(database: Database, session: Connection) -> bool:
    """Whether the session waits for a lock."""
    row = database.execute("SELECT cardinality(pg_blocking_pids(%s)) > 0", [session.info.backend_pid]).fetchone()
    return bool(row and row[0])


def wait_until(database: Database, condition: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 30
    while not condition():
        assert time.monotonic() < deadline, "it did not happen within 30 s"
        time.sleep(0.02)


def test_it_says_what_it_did_and_empties_the_tail(db: Database) -> None:
    install(db)
    ids = add_chunks(db, texts(1, 40))
    assert optimize(db) == {"packed": 40, "merged": 0, "segments": 1, "tombstones_removed": 0}
    remove_chunks(db, ids[:3])
    assert optimize(db) == {"packed": 0, "merged": 0, "segments": 1, "tombstones_removed": 3}
    add_chunks(db, texts(2, 30))
    assert optimize(db) == {"packed": 30, "merged": 1, "segments": 1, "tombstones_removed": 0}
    assert counts(db)["tail"] == counts(db)["tombstones"] == counts(db)["deletions"] == 0
    assert optimize(db) == {"packed": 0, "merged": 0, "segments": 1, "tombstones_removed": 0}
    assert_exact(db)


def test_a_segment_with_more_than_a_fifth_deleted_is_rewritten(db: Database) -> None:
    install(db)
    ids = add_chunks(db, texts(3, 100))
    optimize(db)
    remove_chunks(db, ids[:20])
    assert optimize(db)["merged"] == 0
    assert counts(db)["deletions"] == 1
    remove_chunks(db, ids[20:21])
    assert optimize(db)["merged"] == 1
    assert counts(db)["deletions"] == 0
    assert db.execute("SELECT item_count FROM graphrag.bm25_segments").fetchall() == [(79,)]
    assert_exact(db)


def test_a_segment_with_nothing_left_goes_with_its_postings(db: Database) -> None:
    install(db)
    ids = add_chunks(db, texts(3, 10))
    optimize(db)
    remove_chunks(db, ids)
    assert optimize(db)["segments"] == 0
    assert set(counts(db).values()) == {0}
    assert_exact(db)


def test_another_corpus_is_left_alone(db: Database) -> None:
    install(db)
    add_chunks(db, texts(4, 20))
    add_chunks(db, texts(5, 20), corpus_id=2)
    optimize(db, "two")
    assert counts(db)["tail"] == 20
    assert counts(db)["segments"] == 1
    reference = Reference.of(db, corpus_id=2)
    reference.assert_same(Engine(db, corpus_id=2), TERMS, 1000)
    assert_exact(db)


def test_packing_a_growing_corpus_rewrites_an_item_a_logarithmic_number_of_times(db: Database) -> None:
    install(db)
    written = 0
    for batch in range(64):
        add_chunks(db, [{"w1": 1}] * 4)
        before = {row[0] for row in db.execute("SELECT id FROM graphrag.bm25_segments")}
        optimize(db)
        rows = db.execute("SELECT id, item_count FROM graphrag.bm25_segments").fetchall()
        written += sum(size for number, size in rows if number not in before)
        assert len(rows) <= 1 + batch.bit_length()
    assert written <= 256 * 7  # log 1.5 of 64 is 10; one merge of everything each time would be 33
    assert_exact(db)


def test_a_tail_larger_than_a_batch_is_packed_whole(db: Database) -> None:
    install(db)
    add_chunks(db, texts(6, 1300))
    db.execute("""
        CREATE FUNCTION public.in_small_batches() RETURNS jsonb LANGUAGE plpython3u AS $$
        from pg_graphrag.index.bm25 import optimize
        import importlib
        module = importlib.import_module("pg_graphrag.index.bm25.optimize")
        from pg_graphrag.server import database
        import json
        kept, module._POSTINGS_PER_BATCH = module._POSTINGS_PER_BATCH, 100
        try:
            return json.dumps(optimize(database(plpy), 1))
        finally:
            module._POSTINGS_PER_BATCH = kept
        $$""")
    before = Engine(db).search(TERMS, 2000)
    (done,) = db.execute("SELECT public.in_small_batches()").fetchone() or ({},)
    assert done["packed"] == 1300
    assert done["merged"] == 2  # batches of 500, 500 and 300
    assert Engine(db).search(TERMS, 2000) == before
    assert_exact(db)


@pytest.mark.slow
def test_a_tail_too_long_for_the_cache_is_searched_exactly(db: Database) -> None:
    install(db)
    add_chunks(db, texts(7, 1100))
    db.execute("""
        CREATE FUNCTION public.keep_postings(number int) RETURNS void LANGUAGE plpython3u AS $$
        import importlib
        import pg_graphrag.index.bm25
        importlib.import_module("pg_graphrag.index.bm25.tail").CACHED_POSTINGS = number
        $$""")
    expected = Engine(db).search(TERMS, 2000)
    for session_memory in (0, 7000):
        with other_session(db) as session:
            session.execute("SELECT public.keep_postings(%s)", [session_memory])
            engine = Engine(session)
            assert engine.search(TERMS, 2000) == expected
            ids = add_chunks(db, texts(8, 20))
            assert_exact(db, engine, Engine(db))
            remove_chunks(db, ids)
            assert engine.search(TERMS, 2000) == expected


def test_deletes_and_inserts_that_commit_while_it_packs_are_not_lost(db: Database) -> None:
    install(db)
    packed = add_chunks(db, texts(8, 60))
    optimize(db)
    tail = add_chunks(db, texts(9, 50))
    with paused_optimize(db) as running:
        remove_chunks(db, [*packed[:7], *tail[:9]])
        added = add_chunks(db, texts(10, 5))
        remove_chunks(db, added[:1])
        assert_exact(db)
    assert running.result()["packed"] == 41
    assert_exact(db)
    assert counts(db)["tail"] == 4
    with other_session(db) as fresh:
        assert_exact(db, Engine(fresh))
    optimize(db)
    assert counts(db)["tail"] == counts(db)["tombstones"] == 0
    assert_exact(db)


@pytest.mark.sample(1)
@pytest.mark.parametrize("end", ["COMMIT", "ROLLBACK"])
def test_a_delete_still_open_when_it_ends_does_not_hold_it_up(db: Database, end: str) -> None:
    install(db)
    packed = add_chunks(db, texts(11, 30))
    optimize(db)
    tail = add_chunks(db, texts(12, 25))
    with other_session(db) as deleting:
        with paused_optimize(db) as running:
            deleting.execute("BEGIN")
            remove_chunks(deleting, [*tail[:4], *packed[:2]])
        assert running.result()["packed"] == 21
        assert_exact(db)  # others still see every item
        assert_exact(deleting)
        optimize(db)  # the rows in question stay in the tail
        assert counts(db)["tail"] == 4
        assert_exact(db)
        deleting.execute(end)
    assert_exact(db)
    assert len(Reference.of(db).items) == (49 if end == "COMMIT" else 55)
    optimize(db)
    assert counts(db)["tail"] == counts(db)["tombstones"] == 0
    assert_exact(db)


@pytest.mark.parametrize("end", ["COMMIT", "ROLLBACK"])
def test_a_delete_of_an_item_just_claimed_waits_and_takes_effect(db: Database, end: str) -> None:
    install(db)
    tail = add_chunks(db, texts(13, 25))
    with other_session(db) as optimizing, other_session(db) as deleting, ThreadPoolExecutor(1) as pool:
        optimizing.execute("BEGIN")
        assert optimize(optimizing)["packed"] == 25
        assert_exact(optimizing)
        assert_exact(db)
        done = pool.submit(remove_chunks, deleting, tail[:6])
        wait_until(db, lambda: waits(db, deleting))
        added = add_chunks(db, texts(14, 3))  # an insert does not wait
        optimizing.execute(end)
        done.result(timeout=30)
    assert len(Reference.of(db).items) == 22
    assert_exact(db)
    remove_chunks(db, added)
    optimize(db)
    assert_exact(db)


def test_two_runs_at_once_follow_each_other(db: Database) -> None:
    install(db)
    add_chunks(db, texts(15, 25))
    with other_session(db) as first, other_session(db) as second, ThreadPoolExecutor(1) as pool:
        first.execute("BEGIN")
        optimize(first)
        later = pool.submit(optimize, second)
        wait_until(db, lambda: waits(db, second))
        first.execute("COMMIT")
        assert later.result(timeout=30) == {"packed": 0, "merged": 0, "segments": 1, "tombstones_removed": 0}
    assert_exact(db)


def test_a_cancelled_run_leaves_everything_as_it_was(db: Database) -> None:
    install(db)
    add_chunks(db, texts(16, 400))
    before = counts(db)
    db.execute("SET statement_timeout = '20ms'")
    with pytest.raises(psycopg.errors.QueryCanceled):
        optimize(db)
    db.execute("RESET statement_timeout")
    assert counts(db) == before
    assert_exact(db)


@pytest.mark.slow
def test_searches_in_volatile_functions_see_one_state_while_everything_changes(db: Database) -> None:
    """Items are replaced by equal ones: N, df and the scores never change, whatever moves below a search."""
    install(db)
    db.execute(FUNCTIONS.replace("bm25_call(", "bm25_volatile(").replace("STABLE", "VOLATILE"))
    kinds = texts(17, 40)
    ids = add_chunks(db, kinds)
    expected = sorted(score for _, score in Engine(db).search(TERMS, 1000))
    statistics = Engine(db).statistics()
    stop = threading.Event()

    def churn() -> None:
        generator = random.Random(18)
        with other_session(db) as session:
            while not stop.is_set():
                for place in generator.sample(range(40), 5):
                    with session.transaction():
                        remove_chunks(session, [ids[place]])
                        (ids[place],) = add_chunks(session, [kinds[place]])

    def pack() -> None:
        with other_session(db) as session:
            while not stop.is_set():
                optimize(session)

    with ThreadPoolExecutor(2) as pool, other_session(db) as session:
        running = [pool.submit(churn), pool.submit(pack)]
        engine = Engine(session, function="bm25_volatile")
        try:
            until = time.monotonic() + 6
            rounds = 0
            while time.monotonic() < until:
                assert engine.statistics() == statistics
                assert sorted(score for _, score in engine.search(TERMS, 1000)) == expected
                rounds += 1
        finally:
            stop.set()
        for search in running:
            search.result(timeout=30)
    assert rounds > 50
    assert_exact(db)


@pytest.mark.slow
def test_dump_and_restore_give_the_same_results(cluster: Callable[..., Cluster]) -> None:
    own_cluster = cluster()
    own_cluster.create_database("before")
    own_cluster.create_database("after")
    with own_cluster.connect("before") as connection:
        connection.execute("CREATE EXTENSION pg_graphrag CASCADE")
        install(connection)
        ids = add_chunks(connection, texts(19, 80))
        optimize(connection)
        remove_chunks(connection, ids[:5])
        optimize(connection)
        remove_chunks(connection, ids[5:8])
        add_chunks(connection, texts(20, 10))
        expected = Engine(connection).search(TERMS, 1000)
        before = counts(connection)
        assert min(before.values()) > 0
        (last,) = connection.execute("SELECT max(id) FROM graphrag.bm25_segments").fetchone() or (0,)
    own_cluster.restore("after", own_cluster.dump("before"))
    with own_cluster.connect("after") as connection:
        assert counts(connection) == before
        assert Engine(connection).search(TERMS, 1000) == expected
        add_chunks(connection, texts(21, 200))
        optimize(connection)
        (new,) = connection.execute("SELECT max(id) FROM graphrag.bm25_segments").fetchone() or (0,)
        assert new > last
        assert_exact(connection)


@pytest.mark.slow
def test_the_extension_made_anew_in_one_session_starts_from_nothing(db: Database) -> None:
    install(db)
    for seed in (22, 23):
        add_chunks(db, texts(seed, 30))
        optimize(db)
        add_chunks(db, texts(seed + 10, 5))
        assert_exact(db)
        db.execute("DROP FUNCTION public.bm25_call")
        db.execute("DROP EXTENSION pg_graphrag CASCADE")
        db.execute("CREATE EXTENSION pg_graphrag CASCADE")
        install(db)


def test_a_dropped_corpus_leaves_no_postings(db: Database) -> None:
    install(db)
    add_chunks(db, texts(24, 30))
    optimize(db)
    db.execute("DELETE FROM graphrag.bm25_segments WHERE corpus_id = 1")
    assert counts(db)["postings"] == 0


@pytest.mark.slow
def test_the_longest_tail_is_measured_of_items_and_of_tombstones(db: Database) -> None:
    install(db)
    db.execute("""
        CREATE FUNCTION public.tail_length() RETURNS int LANGUAGE plpython3u AS $$
        from pg_graphrag.index.bm25 import tail_length
        from pg_graphrag.server import database
        return tail_length(database(plpy), 1)
        $$""")
    ids = add_chunks(db, [{"w1": 1}] * 999)
    add_chunks(db, [{"w1": 1}] * 1500, corpus_id=2)
    assert db.execute("SELECT public.tail_length()").fetchone() == (999,)
    optimize(db)
    assert db.execute("SELECT public.tail_length()").fetchone() == (0,)
    remove_chunks(db, ids)
    assert db.execute("SELECT public.tail_length()").fetchone() == (999,)


@pytest.mark.slow
def test_a_long_tail_is_packed_while_documents_wait(db: Database) -> None:
    db.execute("SELECT graphrag.create_corpus('busy', '{\"communities\": false}')")
    row = db.execute("SELECT id FROM graphrag.corpora WHERE name = 'busy'").fetchone()
    assert row
    add_chunks(db, [{"w1": 1}] * 2000, corpus_id=row[0])
    db.execute(
        "INSERT INTO graphrag.documents (corpus, source_key, content)"
        " SELECT 'busy', n, 'A note.' FROM generate_series(1, 40) n"
    )
    db.execute("CALL graphrag.process_jobs(33)")
    jobs = db.execute("SELECT kind, count(*) FROM graphrag.jobs GROUP BY 1 ORDER BY 1").fetchall()
    assert jobs == [("index", 8), ("optimize", 1)]
    assert counts(db)["tail"] == 0
