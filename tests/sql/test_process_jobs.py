"""CALL graphrag.process_jobs(): what is due is done, once, batch by batch, and nothing else."""

from collections.abc import Iterator
from pathlib import Path

import psycopg
import pytest

from tests.runtime.cluster import Database
from tests.sql.ingest import (
    STORIES,
    canonical,
    corpus_id,
    delete,
    expected,
    index_all,
    jobs,
    keys,
    long_text,
    new_corpus,
    put,
    put_all,
    refused,
    rows,
    search,
    statuses,
    value,
    wait_for,
    wait_for_lease,
    wait_for_lock,
    work,
    worker,
)

MODES = ("naive", "bm25", "local", "global", "hybrid", "mix")


@pytest.fixture
def corpus(module_db: Database) -> Iterator[str]:
    name = new_corpus(module_db)
    yield name
    module_db.execute("SELECT graphrag.drop_corpus(%s)", [name])


@pytest.fixture
def other(module_db: Database) -> Iterator[psycopg.Connection]:
    """A second session, with transactions of its own."""
    with psycopg.connect(module_db.url) as connection:
        yield connection
        connection.rollback()


def test_what_is_inserted_is_indexed_and_the_queue_is_empty(module_db: Database, corpus: str) -> None:
    put_all(module_db, corpus, STORIES)
    assert set(statuses(module_db, corpus).values()) == {"pending"}
    work(module_db)
    assert statuses(module_db, corpus) == dict.fromkeys(STORIES, "indexed")
    assert jobs(module_db, corpus) == []
    assert keys(search(module_db, "compiler at Harvard", corpus, "bm25")) == ["hopper"]


def test_an_empty_queue_is_no_error(module_db: Database) -> None:
    work(module_db)
    work(module_db, 0)


def test_max_jobs_bounds_the_jobs_done(module_db: Database, corpus: str) -> None:
    put_all(module_db, corpus, STORIES)
    work(module_db, 2)
    assert sorted(statuses(module_db, corpus).values()).count("indexed") == 2
    work(module_db, 0)
    assert sorted(statuses(module_db, corpus).values()).count("indexed") == 2
    work(module_db, 3)
    assert jobs(module_db, corpus) == []


def test_negative_max_jobs_is_an_error(module_db: Database) -> None:
    diag = refused(module_db, "CALL graphrag.process_jobs(-1)")
    assert diag.sqlstate == "22023"
    assert "max_jobs cannot be -1" in str(diag.message_primary)
    assert diag.message_hint


def test_inside_a_transaction_block_it_is_an_error_with_a_hint_and_nothing_stays_leased(
    module_db: Database, corpus: str, other: psycopg.Connection
) -> None:
    put(module_db, corpus, "ada", STORIES["ada"])
    with pytest.raises(psycopg.errors.InvalidTransactionTermination) as error:
        other.execute("CALL graphrag.process_jobs()")
    assert "autocommit" in str(error.value.diag.message_hint)
    other.rollback()
    assert jobs(module_db, corpus) == [("ada", "index", "pending", False)]
    assert (
        rows(module_db, "SELECT pid FROM pg_locks WHERE locktype = 'advisory' AND pid = %s", other.info.backend_pid)
        == []
    )
    work(module_db)
    assert statuses(module_db, corpus) == {"ada": "indexed"}


def test_settings_of_the_session_are_what_they_were_and_do_not_matter(module_db: Database, corpus: str) -> None:
    put_all(module_db, corpus, STORIES)
    with psycopg.connect(module_db.url, autocommit=True) as connection:
        connection.execute("CREATE SCHEMA IF NOT EXISTS trap")
        connection.execute("SET search_path = trap, public")
        connection.execute("SET default_transaction_isolation = 'serializable'")
        work(connection)
        assert value(connection, "SHOW search_path") == "trap, public"
        assert value(connection, "SHOW default_transaction_isolation") == "serializable"
    assert canonical(module_db, corpus) == expected(module_db, STORIES)


def test_functions_and_operators_of_a_hostile_schema_are_never_called(module_db: Database, corpus: str) -> None:
    put_all(module_db, corpus, STORIES)
    module_db.execute(
        """CREATE SCHEMA trojan;
           CREATE FUNCTION trojan.boom() RETURNS void LANGUAGE plpgsql AS $$ BEGIN RAISE 'hijacked'; END $$;
           CREATE FUNCTION trojan.nextval(text) RETURNS bigint LANGUAGE sql AS 'SELECT trojan.boom(); SELECT 1::bigint';
           CREATE FUNCTION trojan.plus(numeric, bigint) RETURNS numeric LANGUAGE sql AS 'SELECT trojan.boom(); SELECT $1';
           CREATE OPERATOR trojan.+ (FUNCTION = trojan.plus, LEFTARG = numeric, RIGHTARG = bigint);
           CREATE FUNCTION trojan.equal(text, text) RETURNS boolean LANGUAGE sql AS 'SELECT trojan.boom(); SELECT true';
           CREATE OPERATOR trojan.= (FUNCTION = trojan.equal, LEFTARG = text, RIGHTARG = text);
           CREATE FUNCTION trojan.unnest(anyarray) RETURNS SETOF anyelement LANGUAGE sql
               AS 'SELECT trojan.boom(); SELECT $1[1]'"""
    )
    with psycopg.connect(module_db.url, autocommit=True) as connection:
        connection.execute("SET search_path = trojan, pg_catalog, public")
        work(connection)
    module_db.execute("DROP SCHEMA trojan CASCADE")
    assert statuses(module_db, corpus) == dict.fromkeys(STORIES, "indexed")


def test_two_workers_share_one_queue_without_doubling(module_db: Database, corpus: str) -> None:
    documents = {f"{name} {n}": f"{text} Chapter {n}." for name, text in STORIES.items() for n in range(9)}
    put_all(module_db, corpus, documents)
    both = [worker(module_db.url), worker(module_db.url)]
    assert [session.finish() for session in both] == [None, None]
    assert jobs(module_db, corpus) == []
    assert canonical(module_db, corpus) == expected(module_db, documents)


def test_a_worker_waits_for_jobs_that_another_is_about_to_lease(
    module_db: Database, corpus: str, other: psycopg.Connection
) -> None:
    put(module_db, corpus, "ada", STORIES["ada"])
    # What leasing one job locks: all that were looked at.
    other.execute("SELECT FROM graphrag.jobs FOR UPDATE")
    many_looks = """DO LANGUAGE plpython3u $$
        from pg_graphrag.server import queue
        queue.LOCKED_LOOKS = 10**6
    $$"""
    waiting = worker(module_db.url, many_looks)
    sleeps = "SELECT count(*) FROM pg_stat_activity WHERE pid = %s AND wait_event = 'PgSleep'"
    wait_for(lambda: value(module_db, sleeps, waiting.pid), "a worker that looks again")
    other.commit()
    assert waiting.finish() is None
    assert statuses(module_db, corpus) == {"ada": "indexed"}


def test_jobs_that_stay_locked_keep_no_worker(module_db: Database, corpus: str, other: psycopg.Connection) -> None:
    put(module_db, corpus, "ada", STORIES["ada"])
    other.execute("SELECT FROM graphrag.jobs FOR UPDATE")
    work(module_db)
    assert statuses(module_db, corpus) == {"ada": "pending"}


def test_a_lease_of_a_living_worker_is_respected_and_a_dead_ones_is_void(module_db: Database, corpus: str) -> None:
    put(module_db, corpus, "ada", STORIES["ada"])
    with psycopg.connect(module_db.url, autocommit=True) as alive:
        alive.execute("SELECT pg_advisory_lock(1735549294, 2000000000)")
        module_db.execute(
            "UPDATE graphrag.jobs SET state = 'leased', lease = 2000000000 WHERE corpus_id = %s",
            [corpus_id(module_db, corpus)],
        )
        work(module_db)
        assert statuses(module_db, corpus) == {"ada": "pending"}
    wait_for(
        lambda: not value(module_db, "SELECT count(*) FROM pg_locks WHERE objid = 2000000000"), "the end of a session"
    )
    work(module_db)
    assert statuses(module_db, corpus) == {"ada": "indexed"}


def test_a_session_that_works_and_searches_has_one_thread(module_db: Database, corpus: str) -> None:
    put(module_db, corpus, "ada", STORIES["ada"])
    with Database.open(module_db.url) as session:
        work(session)
        assert search(session, "Ada Lovelace", corpus)
        assert len(list(Path(f"/proc/{session.info.backend_pid}/task").iterdir())) == 1


def test_no_snapshot_is_held_during_the_slow_part(module_db: Database, corpus: str) -> None:
    put(module_db, corpus, "long", long_text())
    worker_session = worker(module_db.url)
    wait_for_lease(module_db, corpus)
    mark = value(module_db, "SELECT pg_current_xact_id()::xid")

    def free() -> bool:
        (sample,) = rows(
            module_db,
            "SELECT backend_xid IS NULL, coalesce(age(backend_xmin) < age(%s::xid), true)"
            "  FROM pg_stat_activity WHERE pid = %s",
            str(mark),
            worker_session.pid,
        )
        return bool(sample[0] and sample[1])

    # With a transaction pinned until the document is written this is never seen while the job is leased.
    for _ in range(3):
        value(module_db, "SELECT pg_current_xact_id()::text")
        wait_for(free, "a moment without snapshot and transaction id")
        assert jobs(module_db, corpus) == [("long", "index", "leased", True)]
    assert worker_session.finish() is None


def test_new_content_during_the_slow_part_discards_the_stale_result(module_db: Database, corpus: str) -> None:
    put(module_db, corpus, "a", long_text() + " Stale Stanley was here.")
    worker_session = worker(module_db.url)
    wait_for_lease(module_db, corpus)
    put(module_db, corpus, "a", STORIES["ada"])
    assert jobs(module_db, corpus) == [("a", "index", "pending", False)]
    assert worker_session.finish() is None
    # The same worker, or the next one, does the new content.
    work(module_db)
    assert canonical(module_db, corpus) == expected(module_db, {"a": STORIES["ada"]})


def test_delete_during_the_slow_part_leaves_nothing(module_db: Database, corpus: str) -> None:
    put_all(module_db, corpus, {"a": long_text(), "b": STORIES["ada"]})
    worker_session = worker(module_db.url)
    wait_for_lease(module_db, corpus)
    delete(module_db, corpus, "a")
    assert worker_session.finish() is None
    work(module_db)
    assert canonical(module_db, corpus) == expected(module_db, {"b": STORIES["ada"]})


def test_drop_corpus_during_the_slow_part_leaves_nothing_and_is_no_error(module_db: Database) -> None:
    name = new_corpus(module_db)
    put(module_db, name, "a", long_text())
    worker_session = worker(module_db.url)
    wait_for_lease(module_db, name)
    number = corpus_id(module_db, name)
    module_db.execute("SELECT graphrag.drop_corpus(%s)", [name])
    assert worker_session.finish() is None
    for table in ("documents", "jobs", "chunks", "entities", "embedding_spaces"):
        assert rows(module_db, f"SELECT * FROM graphrag.{table} WHERE corpus_id = %s", number) == [], table


def test_drop_corpus_and_a_worker_that_writes_do_not_deadlock(module_db: Database) -> None:
    name = index_all(module_db, new_corpus(module_db), STORIES)
    put(module_db, name, "new", STORIES["ada"] + " Again.")
    number = corpus_id(module_db, name)
    with psycopg.connect(module_db.url) as holder:
        # The worker has locked its documents and waits for the corpus; then both go on.
        holder.execute("SELECT graphrag._lock_corpus(%s)", [number])
        worker_session = worker(module_db.url)
        wait_for_lock(module_db, worker_session.pid)
        with psycopg.connect(module_db.url, autocommit=True) as dropper:
            import threading

            thread = threading.Thread(target=lambda: dropper.execute("SELECT graphrag.drop_corpus(%s)", [name]))
            thread.start()
            wait_for_lock(module_db, dropper.info.backend_pid)
            holder.rollback()
            thread.join(60)
            assert not thread.is_alive()
    assert worker_session.finish() is None
    assert rows(module_db, "SELECT FROM graphrag.corpora WHERE name = %s", name) == []


@pytest.mark.sample(1)
@pytest.mark.parametrize(
    "hold",
    [
        "SELECT FROM graphrag.documents WHERE corpus = %s FOR UPDATE",
        "UPDATE graphrag.documents SET metadata = '{\"held\": true}' WHERE corpus = %s",
    ],
)
def test_documents_that_an_open_transaction_holds_are_not_worked_on_before_it_ends(
    module_db: Database, corpus: str, other: psycopg.Connection, hold: str
) -> None:
    # More than are looked at together, and in front of the free one.
    texts = {f"{name} {n}": f"{text} Chapter {n}." for name, text in STORIES.items() for n in range(8)}
    put_all(module_db, corpus, texts)
    module_db.execute(
        """CREATE TABLE public.leases (document_id bigint);
           CREATE FUNCTION public.note_lease() RETURNS trigger LANGUAGE plpgsql
               AS $$ BEGIN INSERT INTO public.leases VALUES (NEW.document_id); RETURN NULL; END $$;
           CREATE TRIGGER note_lease AFTER UPDATE ON graphrag.jobs
               FOR EACH ROW WHEN (NEW.lease IS NOT NULL) EXECUTE FUNCTION public.note_lease()"""
    )
    try:
        other.execute(hold.encode(), [corpus])
        put(module_db, corpus, "free", STORIES["hopper"])
        for _ in range(3):
            work(module_db)
        leased = "SELECT d.source_key FROM public.leases JOIN graphrag.documents d ON d.id = document_id"
        assert rows(module_db, leased) == [("free",)]
        assert statuses(module_db, corpus) == dict.fromkeys(texts, "pending") | {"free": "indexed"}
        other.commit()
        wait_for(lambda: work(module_db) or not jobs(module_db, corpus), "an empty queue")
        assert sorted(rows(module_db, leased)) == [(key,) for key in sorted([*texts, "free"])]
    finally:
        other.rollback()
        module_db.execute("DROP TRIGGER note_lease ON graphrag.jobs; DROP TABLE public.leases")
        module_db.execute("DROP FUNCTION public.note_lease()")
    assert canonical(module_db, corpus) == expected(module_db, {**texts, "free": STORIES["hopper"]})


def test_an_open_transaction_that_holds_a_document_blocks_no_worker(
    module_db: Database, corpus: str, other: psycopg.Connection
) -> None:
    put_all(module_db, corpus, {"held": STORIES["ada"], "free": STORIES["hopper"]})
    other.execute("SELECT FROM graphrag.documents WHERE corpus = %s AND source_key = 'held' FOR UPDATE", [corpus])
    module_db.execute("SET statement_timeout = '60s'")
    work(module_db)
    assert statuses(module_db, corpus) == {"held": "pending", "free": "indexed"}
    assert jobs(module_db, corpus) == [("held", "index", "pending", False)]
    other.rollback()
    wait_for(lambda: work(module_db) or statuses(module_db, corpus)["held"] == "indexed", "the document")


def test_an_open_transaction_that_changed_a_document_neither_blocks_nor_deadlocks_a_worker(
    module_db: Database, corpus: str, other: psycopg.Connection
) -> None:
    documents = {"a": STORIES["ada"], "b": long_text(60), "c": STORIES["turing"]}
    put_all(module_db, corpus, documents)
    worker_session = worker(module_db.url)
    wait_for_lease(module_db, corpus)
    change = "UPDATE graphrag.documents SET content = content || ' More.' WHERE corpus = %s AND source_key = %s"
    other.execute(change, [corpus, "a"])
    # The transaction stays open: the worker must end all the same, and the user can go on changing.
    assert worker_session.finish() is None
    assert statuses(module_db, corpus) == {"a": "pending", "b": "indexed", "c": "indexed"}
    other.execute(change, [corpus, "c"])
    other.commit()
    wait_for(lambda: work(module_db) or not jobs(module_db, corpus), "an empty queue")
    changed = documents | {"a": documents["a"] + " More.", "c": documents["c"] + " More."}
    assert canonical(module_db, corpus) == expected(module_db, changed)


def test_an_update_that_is_rolled_back_while_a_worker_runs_loses_no_document(
    module_db: Database, corpus: str, other: psycopg.Connection
) -> None:
    put_all(module_db, corpus, {"a": STORIES["ada"], "b": long_text(50)})
    worker_session = worker(module_db.url)
    wait_for_lease(module_db, corpus)
    other.execute("UPDATE graphrag.documents SET content = 'x' WHERE corpus = %s AND source_key = 'a'", [corpus])
    assert worker_session.finish() is None
    other.rollback()
    wait_for(lambda: work(module_db) or not jobs(module_db, corpus), "an empty queue")
    assert statuses(module_db, corpus) == {"a": "indexed", "b": "indexed"}


def test_the_old_version_is_served_until_the_new_one_is_in(module_db: Database, corpus: str) -> None:
    index_all(module_db, corpus, {"a": STORIES["ada"]})
    put(module_db, corpus, "a", "Grace Hopper sailed to Okinawa.")
    assert [row["content"] for row in search(module_db, "Ada Lovelace", corpus, "bm25")] == [STORIES["ada"]]
    work(module_db)
    assert search(module_db, "Ada Lovelace", corpus, "bm25") == []
    assert [row["content"] for row in search(module_db, "Okinawa", corpus, "bm25")] == [
        "Grace Hopper sailed to Okinawa."
    ]


@pytest.mark.parametrize("mode", MODES)
def test_delete_hides_evidence_at_commit_before_a_worker_ran(module_db: Database, corpus: str, mode: str) -> None:
    index_all(module_db, corpus, STORIES)
    assert "ada" in keys(search(module_db, "Ada Lovelace and the Analytical Engine", corpus, mode))
    delete(module_db, corpus, "ada")
    results = keys(search(module_db, "Ada Lovelace and the Analytical Engine", corpus, mode))
    assert "ada" not in results
    assert results


def test_truncate_removes_everything_derived(module_db: Database, db: Database) -> None:
    index_all(db, "default", STORIES)
    db.execute("TRUNCATE graphrag.documents")
    assert search(db, "Ada Lovelace", "default") == []
    work(db)
    assert all(not part for name, part in canonical(db, "default").items() if "vectors" not in name and name != "bm25")
    assert value(db, "SELECT count(*) FROM graphrag.window_vectors") == 0
    assert value(db, "SELECT count(*) FROM graphrag.entity_vectors") == 0


def test_truncate_from_an_old_snapshot_removes_what_was_indexed_after_it(db: Database) -> None:
    index_all(db, "default", {"a": STORIES["ada"]})
    with psycopg.connect(db.url) as old:
        old.isolation_level = psycopg.IsolationLevel.REPEATABLE_READ
        old.execute("SELECT 1 FROM graphrag.corpora")
        index_all(db, "default", {"b": STORIES["enigma"]})
        put(db, "default", "c", STORIES["hopper"])
        old.execute("TRUNCATE graphrag.documents")
    assert rows(db, "SELECT * FROM graphrag.check('default')") == []
    work(db)
    assert jobs(db, "default") == []
    assert value(db, "SELECT count(*) FROM graphrag.chunks") == 0
    assert rows(db, "SELECT * FROM graphrag.check('default')") == []


def test_an_upsert_of_unchanged_content_queues_nothing_and_writes_no_derived_row(
    module_db: Database, corpus: str
) -> None:
    index_all(module_db, corpus, STORIES)
    number = corpus_id(module_db, corpus)
    ids = rows(module_db, "SELECT id, xmin::text FROM graphrag.chunks WHERE corpus_id = %s ORDER BY id", number)
    put_all(module_db, corpus, STORIES)
    assert jobs(module_db, corpus) == []
    work(module_db)
    assert rows(module_db, "SELECT id, xmin::text FROM graphrag.chunks WHERE corpus_id = %s ORDER BY id", number) == ids


def test_metadata_alone_is_no_work_and_counts_at_once(module_db: Database, corpus: str) -> None:
    index_all(module_db, corpus, {"a": STORIES["ada"]})
    put(module_db, corpus, "a", STORIES["ada"], metadata={"seen": True})
    assert jobs(module_db, corpus) == []
    assert keys(search(module_db, "Ada", corpus, "bm25", filter={"seen": True})) == ["a"]


@pytest.mark.slow
def test_alter_corpus_indexes_anew_also_what_is_at_work(module_db: Database, corpus: str) -> None:
    put(module_db, corpus, "a", long_text(90))
    worker_session = worker(module_db.url)
    wait_for_lease(module_db, corpus)
    module_db.execute(
        "SELECT graphrag.alter_corpus(%s, %s)", [corpus, '{"chunk_token_size": 200, "chunk_overlap": 20}']
    )
    assert worker_session.finish() is None
    work(module_db)
    wanted = expected(module_db, {"a": long_text(90)}, chunk_token_size=200, chunk_overlap=20)
    assert canonical(module_db, corpus) == wanted


def test_a_document_of_which_nothing_is_extracted_is_indexed_once(module_db: Database) -> None:
    corpus = new_corpus(module_db, extractor="given")
    put(module_db, corpus, "ada", STORIES["ada"])
    work(module_db, 1)
    assert statuses(module_db, corpus) == {"ada": "indexed"}
