"""protect(), grants and repair() under load: users are not ended by them, and do not wait for long."""

import itertools
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import psycopg
import pytest

from tests.runtime.cluster import Database
from tests.security.acting import acting_as, has_hint, new_role
from tests.sql.ingest import Background, new_corpus, put, rows, search, value, wait_for, wait_for_lock, work, worker

# One statement of a user may wait for a try of somebody's (lock_tables.sql), and for its turn on two processors.
PATIENCE = 6.0
TEXT = "Ada Lovelace met Charles Babbage in London, and document {} says so."


class User(threading.Thread):
    """A session that runs transactions until `stop`; notes the longest wait for a statement and every error."""

    def __init__(self, url: str, stop: threading.Event, transaction: Callable[[Database, int], None]) -> None:
        super().__init__(daemon=True)
        self.longest = 0.0
        self.finished = 0
        self.errors: list[psycopg.Error] = []
        self._session = Database.open(url)
        self._stop_event = stop
        self._transaction = transaction
        self.start()

    def run(self) -> None:
        for number in itertools.count():
            if self._stop_event.is_set():
                break
            begin = time.monotonic()
            try:
                self._transaction(self._session, number)
            except psycopg.Error as error:
                self.errors.append(error)
                if self._session.closed:  # for ever: what comes next would fill the memory with errors
                    break
            self.longest = max(self.longest, time.monotonic() - begin)
            self.finished += 1
        self._session.close()


@contextmanager
def holding(db: Database, statement: str) -> Iterator[psycopg.Connection]:
    """A user's transaction that has run a statement and does not end."""
    with psycopg.connect(db.url) as user:
        user.execute(statement.encode())
        yield user
        user.rollback()


@pytest.mark.parametrize("turns", [1, pytest.param(4, marks=pytest.mark.slow)])
def test_nobody_is_ended_or_kept_waiting_while_protection_changes(db: Database, turns: int) -> None:
    corpora = [new_corpus(db) for _ in range(2)]
    for corpus in corpora:
        for number in range(20):
            put(db, corpus, f"d{number}", TEXT.format(number), metadata={"n": number})
    work(db)
    stop = threading.Event()

    def change(session: Database, number: int) -> None:
        """Several documents in one transaction, in an order of its own."""
        with session.transaction():
            for place in (number % 20, (number + 7) % 20, (number + 3) % 20):
                put(session, corpora[number % 2], f"d{place}", TEXT.format(f"{place} and {number}"))

    def insert_and_delete(session: Database, number: int) -> None:
        put(session, corpora[number % 2], f"new{number}", TEXT.format(number))
        session.execute("DELETE FROM graphrag.documents WHERE source_key = %s", [f"new{number - 2}"])

    def read(session: Database, number: int) -> None:
        search(session, "Ada Lovelace", corpora[number % 2], "bm25")

    def read_as_member(session: Database, _: int) -> None:
        with session.transaction():
            session.execute("SET LOCAL ROLE graphrag_reader")
            rows(session, "SELECT source_key FROM graphrag.documents")

    def work_off(session: Database, _: int) -> None:
        work(session)

    # Two who change the same documents would end each other: one of that kind.
    users = [User(db.url, stop, each) for each in (change, insert_and_delete, read, read_as_member)]
    workers = [User(db.url, stop, work_off) for _ in range(2)]
    administered, refused_with = 0, []
    begin = time.monotonic()
    with new_role(db) as alice:
        calls = itertools.cycle(
            [
                f"SELECT graphrag.protect('{corpora[0]}', $$metadata ->> 'n' <> '3'$$)",
                f"SELECT graphrag.grant_corpus('{corpora[1]}', '{alice}')",
                "SELECT graphrag.repair()",
                f"SELECT graphrag.unprotect('{corpora[0]}')",
                f"SELECT graphrag.revoke_corpus('{corpora[1]}', '{alice}')",
                "SELECT graphrag.repair()",
            ]
        )
        # Until every call was heard so many times, and every user more often.
        try:
            while time.monotonic() - begin < 60 and (
                administered < 6 * turns or any(user.finished <= turns + 1 for user in users)
            ):
                try:
                    db.execute(next(calls).encode())
                    administered += 1
                except psycopg.errors.LockNotAvailable as error:
                    refused_with.append(error)
                except psycopg.errors.UndefinedObject:
                    pass  # what was refused before cannot be taken back
        finally:
            stop.set()
            for user in users + workers:
                user.join(60)
    assert [str(error) for user in users + workers for error in user.errors] == []
    assert all(user.finished > turns + 1 for user in users), [user.finished for user in users]
    assert max(user.longest for user in users) < PATIENCE, [user.longest for user in users]
    assert administered > 2.5 * turns, refused_with
    work(db)
    for corpus in corpora:
        assert rows(db, "SELECT * FROM graphrag.check(%s)", corpus) == []


CALLS = {
    "protect": "SELECT graphrag.protect('{corpus}', 'true')",
    "grant": "SELECT graphrag.grant_corpus('{corpus}', '{role}')",
}


@pytest.mark.parametrize("call", CALLS)
def test_a_transaction_that_does_not_end_is_left_alone_and_others_go_on_beside_it(db: Database, call: str) -> None:
    corpus = new_corpus(db)
    put(db, corpus, "a", TEXT)
    with new_role(db) as role, holding(db, "UPDATE graphrag.documents SET metadata = '{\"n\": 1}'"):
        administrator = Background(db.url, CALLS[call].format(corpus=corpus, role=role))
        waits = []
        while administrator.is_alive():
            begin = time.monotonic()
            value(db, "SELECT count(*) FROM graphrag.documents")
            waits.append(time.monotonic() - begin)
            time.sleep(0.02)
        error = administrator.finish()
        assert isinstance(error, psycopg.errors.LockNotAvailable)
        assert error.diag.message_hint and "pg_blocking_pids" in error.diag.message_hint
        assert len(waits) > 20 and max(waits) < 3, max(waits)
    # Nothing of it stays.
    assert rows(db, "SELECT protection FROM graphrag.corpora") == [(None,)]
    assert value(db, "SELECT count(*) FROM graphrag.corpus_grants") == 0
    assert value(db, "SELECT count(*) FROM pg_policy WHERE polrelid = 'graphrag.documents'::regclass") == 0


def test_repair_waits_for_no_document_while_it_holds_others(db: Database) -> None:
    corpus = new_corpus(db)
    for key in ("a", "b"):
        put(db, corpus, key, TEXT)
    db.execute("DELETE FROM graphrag.jobs")
    update = "UPDATE graphrag.documents SET metadata = '{{\"n\": 1}}' WHERE source_key = '{}'"
    with holding(db, update.format("b")) as user:
        administrator = Background(db.url, "SELECT graphrag.repair()")
        time.sleep(0.5)
        # It could lock a; a wait for b would be a deadlock now, and the user's transaction its victim.
        begin = time.monotonic()
        user.execute(update.format("a").encode())
        assert time.monotonic() - begin < 3
        assert isinstance(administrator.finish(), psycopg.errors.LockNotAvailable)
        user.commit()
    assert rows(db, "SELECT metadata FROM graphrag.documents") == [({"n": 1},)] * 2
    assert value(db, "SELECT graphrag.repair() ->> 'jobs_queued'") == "2"


def test_a_worker_waits_for_no_graph_of_another_corpus(db: Database) -> None:
    first, second = new_corpus(db), new_corpus(db)
    for corpus in (first, second):
        put(db, corpus, "a", TEXT)
    work(db)
    put(db, second, "b", TEXT)
    # Few rows: the planner reads the labels of all graphs.
    db.execute("ANALYZE ag_catalog.ag_label")
    # As repair() does: from corpus to corpus, in one transaction.
    with psycopg.connect(db.url) as administrator:
        administrator.execute("SELECT graphrag.rebuild_graph(%s)", [first])
        other_worker = worker(db.url)
        waiting = "SELECT EXISTS (SELECT FROM pg_locks WHERE pid = %s AND NOT granted)"
        wait_for(lambda: not other_worker.is_alive() or value(db, waiting, other_worker.pid), "the worker's end")
        administrator.execute("SELECT graphrag.rebuild_graph(%s)", [second])
        administrator.commit()
    assert other_worker.finish() is None
    assert value(db, "SELECT count(*) FROM graphrag.documents WHERE status = 'indexed'") == 3


@contextmanager
def stopped_worker(db: Database, lock: str, *values: object) -> Iterator[psycopg.Connection]:
    """A worker that waits for a lock of ours; ends with the lock, and then the worker has done its work at once."""
    with psycopg.connect(db.url) as holder:
        holder.execute(lock.encode(), values)
        other_worker = worker(db.url)
        wait_for_lock(db, other_worker.pid)
        yield holder
        holder.rollback()
    assert other_worker.finish() is None
    assert value(db, "SELECT count(*) FROM graphrag.documents WHERE status <> 'indexed'") == 0


def test_repair_queues_no_job_of_a_corpus_that_a_worker_has(db: Database) -> None:
    corpus = new_corpus(db, communities=True)
    put(db, corpus, "a", TEXT)
    work(db, 1)
    db.execute("DELETE FROM graphrag.jobs")  # the communities are due
    put(db, corpus, "b", TEXT)
    # Where a worker has the corpus, and is about to queue the refresh of its communities.
    with stopped_worker(db, "SELECT FROM graphrag.corpus_revisions FOR UPDATE"):
        administrator = Background(db.url, "SELECT graphrag.repair()")
        wait_for_lock(db, administrator.pid)
    assert administrator.finish() is None


def test_who_holds_documents_as_a_whole_waits_for_no_corpus_whose_worker_waits_for_them(db: Database) -> None:
    corpus = new_corpus(db)
    put(db, corpus, "a", TEXT)
    # The first writer of a corpus has it before he looks at its documents.
    with stopped_worker(db, "LOCK TABLE graphrag._graphs"):
        # In one transaction, as repair() does after a restore.
        calls = f"SELECT graphrag.protect('{corpus}', 'true'); SELECT graphrag.rebuild_graph('{corpus}')"
        administrator = Background(db.url, calls)
        waits = "SELECT wait_event IN ('PgSleep', 'relation', 'transactionid', 'tuple') FROM pg_stat_activity WHERE pid = %s"
        wait_for(lambda: value(db, waits, administrator.pid), "a wait")
        time.sleep(0.5)
    assert administrator.finish() is None
    assert value(db, "SELECT protection FROM graphrag.corpora") == "true"


def test_protect_takes_its_turn_when_the_lock_is_free_again(db: Database) -> None:
    corpus = new_corpus(db)
    put(db, corpus, "a", TEXT)
    with holding(db, "UPDATE graphrag.documents SET metadata = '{\"n\": 1}'") as user:
        administrator = Background(db.url, f"SELECT graphrag.protect('{corpus}', 'true')")
        wait_for_lock(db, administrator.pid)
        user.commit()
        assert administrator.finish() is None
    assert value(db, "SELECT protection FROM graphrag.corpora") == "true"


def test_what_is_as_it_should_be_takes_no_lock_on_documents(db: Database) -> None:
    corpus = new_corpus(db)
    put(db, corpus, "a", TEXT)
    work(db)
    with new_role(db) as alice, new_role(db) as bob:
        db.execute("SELECT graphrag.protect(%s, 'true')", [corpus])
        db.execute("SELECT graphrag.grant_corpus(%s, %s)", [corpus, alice])
        with holding(db, "UPDATE graphrag.documents SET metadata = '{\"n\": 1}'"):
            for call in (
                f"protect('{corpus}', 'true')",
                f"grant_corpus('{corpus}', '{bob}', 'write')",
                f"revoke_corpus('{corpus}', '{bob}')",
                "repair()",
            ):
                db.execute(f"SELECT graphrag.{call}".encode())
            has_hint(db, "SELECT graphrag.unprotect(%s)", "55P03", corpus)


def test_a_corpus_is_dropped_while_another_is_protected(db: Database) -> None:
    protected, dropped = new_corpus(db), new_corpus(db)
    for corpus in (protected, dropped):
        put(db, corpus, "a", TEXT)
        db.execute("SELECT graphrag.protect(%s, 'true')", [corpus])
    sessions = [
        Background(db.url, f"SELECT graphrag.drop_corpus('{dropped}')"),
        Background(db.url, f"SELECT graphrag.protect('{protected}', 'id > 0')"),
        Background(db.url, "SELECT graphrag.repair()"),
    ]
    assert [session.finish() for session in sessions] == [None] * 3
    assert rows(db, "SELECT polname::text FROM pg_policy WHERE polname ~ 'protection'") == [("graphrag_protection_1",)]


@pytest.mark.sample(2)
@pytest.mark.parametrize(
    "last", ["revoke_corpus('{corpus}', '{alice}')", "unprotect('{corpus}')", "drop_corpus('{corpus}')"]
)
@pytest.mark.parametrize("first", ["grant_corpus('{other}', '{bob}')", "protect('{other}', 'false')"])
def test_the_last_to_go_does_not_open_what_another_session_closes_meanwhile(
    db: Database, last: str, first: str
) -> None:
    corpus, other = new_corpus(db), new_corpus(db)
    put(db, other, "secret", TEXT)
    with new_role(db) as alice, new_role(db) as bob, new_role(db, "IN ROLE graphrag_reader") as reader:
        names = {"corpus": corpus, "other": other, "alice": alice, "bob": bob}
        if "unprotect" in last:
            db.execute("SELECT graphrag.protect(%s, 'true')", [corpus])
        else:
            db.execute("SELECT graphrag.grant_corpus(%s, %s)", [corpus, alice])
        with psycopg.connect(db.url) as leaving:
            leaving.execute(f"SELECT graphrag.{last.format(**names)}".encode())
            coming = Background(db.url, f"SELECT graphrag.{first.format(**names)}")
            wait_for_lock(db, coming.pid)
            leaving.commit()
        assert coming.finish() is None
        assert value(db, "SELECT relrowsecurity FROM pg_class WHERE oid = 'graphrag.documents'::regclass")
        with acting_as(db, alice if "revoke" in last else reader) as session:
            expected = [] if "protect('{other}" in first or "revoke" in last else [("secret",)]
            assert rows(session, "SELECT source_key FROM graphrag.documents") == expected


@pytest.mark.parametrize("level", ["REPEATABLE READ", "SERIALIZABLE"])
def test_a_transaction_that_sees_only_the_past_decides_nothing(db: Database, level: str) -> None:
    corpus = new_corpus(db)
    with new_role(db) as alice:
        db.execute("SELECT graphrag.grant_corpus(%s, %s)", [corpus, alice])
        for call in (
            f"grant_corpus('{corpus}', '{alice}')",
            f"protect('{corpus}', 'true')",
            f"drop_corpus('{corpus}')",
            "repair()",
        ):
            with psycopg.connect(db.url) as session:
                session.execute(f"SET TRANSACTION ISOLATION LEVEL {level}".encode())
                assert level in has_hint(session, f"SELECT graphrag.{call}", "25001")


def test_corpora_and_documents_come_and_go_in_a_transaction_of_any_level(db: Database) -> None:
    with psycopg.connect(db.url) as session:
        session.execute("SET TRANSACTION ISOLATION LEVEL SERIALIZABLE")
        put(session, "default", "a", TEXT)
    assert value(db, "SELECT count(*) FROM graphrag.documents") == 1
    with psycopg.connect(db.url) as session:
        session.execute("SET TRANSACTION ISOLATION LEVEL SERIALIZABLE")
        session.execute("SELECT graphrag.drop_corpus('default')")
    assert value(db, "SELECT count(*) FROM graphrag.corpora") == 0
