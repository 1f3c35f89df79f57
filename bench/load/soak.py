"""Users, workers and readers at once on documents that share their entities, for minutes; with --crashes, killed at random.

    python -m bench soak [--minutes 3] [--workers 8] [--users 4]
    python -m bench soak --crashes 50

On a throwaway cluster of its own. Users insert, update and delete documents of their own, several in a transaction, some
rolled back; one curates the graph, and undoes that; workers index; readers search, and let graphrag.check() look at one
snapshot after another. A crash is a SIGKILL of a worker's session (which the server answers by ending all sessions and
recovering) or of the whole server. At the end every user's last committed word must stand, and the fingerprint must be that
of a fresh corpus with these documents.
"""

from __future__ import annotations

import argparse
import os
import random
import signal
import sys
import threading
import time
from collections import Counter
from contextlib import suppress
from typing import Any

import psycopg

from tests.endpoint import Endpoint
from tests.property.graphs import CURATIONS, NAMES, VERBS, assert_true, broken, curate, extraction, settle, undo_all
from tests.runtime.cluster import Cluster, Database, Runtime
from tests.sql.ingest import delete, new_corpus, put
from tests.sql.llm import provider

# Documents of a user; changes in a transaction.
KEYS = 15
CHANGES = 4
# What a session may see when the server dies under it.
LOST = (psycopg.OperationalError, psycopg.InterfaceError)


class Soak:
    """The cluster, what is going on in it, and what was seen."""

    def __init__(self, cluster: Cluster, endpoint: Endpoint, llm: bool) -> None:
        self.cluster = cluster
        self.url = cluster.create_database("soak")
        self.stop = threading.Event()
        self.seen: Counter[str] = Counter()
        self.errors: list[str] = []
        self.waits: list[float] = []
        self.searches: list[float] = []
        self.worker_pids: dict[int, int] = {}
        self.warm: dict[int, int] = {}
        self.random = random.Random(0)
        self.last = 0
        with self.connect() as db:
            db.execute("CREATE EXTENSION pg_graphrag CASCADE")
            name = provider(db, endpoint)
            self.options: dict[str, Any] = {"embedding": {"provider": name, "model": "hash", "dimensions": 64}}
            if llm:
                model = {"provider": name, "model": "model-1"}
                self.options |= {"extractor": "llm", "llm": {"roles": {"extract": model}}}
            self.corpus = new_corpus(db, **self.options)

    def connect(self) -> Database:
        """Connect as soon as the server answers."""
        deadline = time.monotonic() + 60
        while True:
            try:
                return Database.open(self.url)
            except psycopg.OperationalError:
                if time.monotonic() > deadline:
                    raise
                time.sleep(0.05)

    def forever(self, what: str, number: int, step: Any) -> None:
        """Repeat a step in a session until the end; a session that is lost is replaced, any other error is kept."""
        while not self.stop.is_set():
            try:
                with self.connect() as db:
                    if what == "worker":
                        self.worker_pids[number] = db.info.backend_pid
                    while not self.stop.is_set():
                        step(db, number)
            except LOST as error:
                self.seen["sessions lost"] += 1
                if not (error.sqlstate is None or error.sqlstate.startswith("57")):
                    self.errors.append(f"{what}: {error.sqlstate} {error}")
            except psycopg.Error as error:
                self.errors.append(f"{what}: {error.sqlstate} {error}")
            except Exception as error:
                self.errors.append(f"{what}: {type(error).__name__} {error}")

    def written(self) -> int:
        """Chunks written so far."""
        with suppress(psycopg.Error), self.connect() as db:
            ((number,),) = db.execute("SELECT last_value FROM graphrag.chunks_id_seq WHERE is_called").fetchall() or (
                (0,),
            )
            self.last = int(number)
        return self.last

    def work(self, db: Database, number: int) -> None:
        db.execute("CALL graphrag.process_jobs()")
        self.seen["runs of a worker"] += 1
        time.sleep(0.02)

    def search(self, db: Database, number: int) -> None:
        began = time.perf_counter()
        results = db.execute(
            "SELECT * FROM graphrag.search('Who met Ada Lovelace in London?', %s)", [self.corpus]
        ).fetchall()
        # The first of a session that finds something loads what the others have.
        if self.warm.get(number) == db.info.backend_pid:
            self.searches.append(time.perf_counter() - began)
        elif results:
            self.warm[number] = db.info.backend_pid
        time.sleep(0.1)

    def check(self, db: Database, number: int) -> None:
        violations = broken(db, self.corpus)
        self.seen["snapshots checked"] += 1
        if violations:
            self.errors.append(f"check: {violations[:3]}")
        time.sleep(0.5)

    def curate(self, db: Database, number: int) -> None:
        if self.random.random() < 0.5:
            in_force = "SELECT id FROM graphrag.curations WHERE undone_at IS NULL ORDER BY random() LIMIT 1"
            for (curation,) in db.execute(in_force).fetchall():
                db.execute("SELECT graphrag.undo_curation(%s)", [curation])
                self.seen["curations undone"] += 1
        else:
            what, (first, other) = self.random.choice(CURATIONS), self.random.sample(NAMES, 2)
            statement = f"{first} {self.random.choice(VERBS)} {other}."
            self.seen["curations"] += curate(db, self.corpus, what, first, other, statement) is not None
        time.sleep(0.2)

    def optimize(self, db: Database, number: int) -> None:
        db.execute("SELECT graphrag.optimize(%s)", [self.corpus])
        time.sleep(2)


class User:
    """One who changes documents of their own and knows what was committed."""

    def __init__(self, soak: Soak, number: int) -> None:
        self.soak = soak
        self.number = number
        self.random = random.Random(number)
        self.documents: dict[str, str] = {}
        self.doubt: dict[str, str] | None = None

    def text(self) -> str:
        some = self.random
        return " ".join(
            f"{some.choice(NAMES)} {some.choice(VERBS)} {some.choice(NAMES)}." for _ in range(some.randint(1, 4))
        )

    def step(self, db: Database, number: int) -> None:
        if self.doubt is not None:
            self.resolve(db)
        after = dict(self.documents)
        keys = self.random.sample(range(KEYS), self.random.randint(1, CHANGES))
        rolled_back = self.random.random() < 0.1
        self.doubt = after
        began = time.perf_counter()
        with db.transaction(force_rollback=rolled_back):
            for key in (f"{self.number}-{place:02}" for place in keys):
                if key in after and self.random.random() < 0.4:
                    delete(db, self.soak.corpus, key)
                    del after[key]
                else:
                    after[key] = self.text()
                    put(db, self.soak.corpus, key, after[key])
        self.soak.waits.append(time.perf_counter() - began)
        self.soak.seen["transactions of users"] += 1
        if not rolled_back:
            self.documents = after
        self.doubt = None
        time.sleep(self.random.random() * 0.1)

    def resolve(self, db: Database) -> None:
        """After a lost session: the transaction is there as a whole or not at all."""
        rows = db.execute(
            "SELECT source_key, content FROM graphrag.documents WHERE corpus = %s AND source_key LIKE %s",
            [self.soak.corpus, f"{self.number}-%"],
        ).fetchall()
        there = dict(rows)
        # Documents that have gone half way were not begun: what was rolled back leaves `doubt` as it was meant to be.
        if there not in (self.documents, self.doubt):
            self.soak.errors.append(f"user {self.number}: documents lost or half written after a crash")
        self.documents, self.doubt = there, None


def crash(soak: Soak, chance: random.Random) -> None:
    """SIGKILL a worker's session, or the whole server."""
    if chance.random() < 0.5:
        with suppress(ProcessLookupError):
            os.kill(chance.choice(list(soak.worker_pids.values())), signal.SIGKILL)
            soak.seen["workers killed"] += 1
        return
    soak.cluster.kill()
    soak.seen["servers killed"] += 1
    soak.cluster.start()


def run(soak: Soak, given: argparse.Namespace) -> dict[str, str]:
    """Let all of them go; return the documents that users last committed."""
    users = [User(soak, number) for number in range(given.users)]
    jobs: list[tuple[str, int, Any]] = [("user", user.number, user.step) for user in users]
    jobs += [("worker", number, soak.work) for number in range(given.workers)]
    jobs += [("reader", number, soak.search) for number in range(2)]
    jobs += [("check", 0, soak.check), ("optimize", 0, soak.optimize), ("curator", 0, soak.curate)]
    threads = [threading.Thread(target=soak.forever, args=job, daemon=True) for job in jobs]
    for thread in threads:
        thread.start()
    chance = random.Random(given.seed)
    if given.crashes:
        for number in range(given.crashes):
            # Sessions take their time to begin again: some document is to be written between one crash and the next.
            before = soak.written()
            while soak.written() == before:
                time.sleep(0.2)
            time.sleep(chance.uniform(0, 3))
            crash(soak, chance)
            print(f"crash {number + 1}, {before} written, {dict(soak.seen)}", file=sys.stderr, flush=True)
    else:
        time.sleep(60 * given.minutes)
    soak.stop.set()
    for thread in threads:
        thread.join(120)
        assert not thread.is_alive(), "a session does not end"
    documents: dict[str, str] = {}
    with soak.connect() as db:
        for user in users:
            if user.doubt is not None:
                user.resolve(db)
            documents |= user.documents
    return documents


def times(seconds: list[float]) -> str:
    ordered = sorted(seconds) or [0.0]
    p50, p95, most = (1e3 * ordered[int(share * (len(ordered) - 1))] for share in (0.5, 0.95, 1))
    return f"p50 {p50:.0f}, p95 {p95:.0f}, max {most:.0f} ms"


def main() -> None:
    arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    arguments.add_argument("--minutes", type=float, default=3)
    arguments.add_argument("--crashes", type=int, default=0, help="kill so many times, whatever the minutes")
    arguments.add_argument("--workers", type=int, default=8)
    arguments.add_argument("--users", type=int, default=4)
    arguments.add_argument("--llm", action="store_true", help="a model's descriptions instead of NLP concepts")
    arguments.add_argument("--seed", type=int, default=1)
    given = arguments.parse_args()
    cluster = Cluster(Runtime(), {"deadlock_timeout": "100ms", "max_connections": "60"})
    try:
        with Endpoint(keep=False) as endpoint:
            endpoint.reply(extraction)
            soak = Soak(cluster, endpoint, given.llm)
            began = time.perf_counter()
            documents = run(soak, given)
            seconds = time.perf_counter() - began
            written = soak.written()
            with soak.connect() as db:
                undo_all(db, soak.corpus)
                settle(db, soak.corpus)
                there = dict(
                    db.execute(
                        "SELECT source_key, content FROM graphrag.documents WHERE corpus = %s", [soak.corpus]
                    ).fetchall()
                )
                assert there == documents, "a committed change is lost"
                assert_true(db, soak.corpus, documents, **soak.options)
            deadlocks = cluster.log.count("deadlock detected")
            seen = ", ".join(f"{count} {what}" for what, count in sorted(soak.seen.items()))
            print(f"{seconds:.0f} s; {written} versions of documents indexed; {seen}")
            print(f"transactions of users: {times(soak.waits)}; searches: {times(soak.searches)}")
            print(f"{deadlocks} deadlocks in the server's log; {len(soak.errors)} errors")
            print(f"{len(documents)} documents remain; fingerprint and invariants as of a fresh corpus")
            for error in soak.errors[:10]:
                print(error[:500])
            if soak.errors:
                raise SystemExit(1)
    finally:
        cluster.close()


if __name__ == "__main__":
    main()
