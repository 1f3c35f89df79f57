"""Many clients through a pool of sessions, over many corpora: throughput beside what the processors allow, latency,
failures.

    python -m bench pools [--corpora 50] [--chunks 2000] [--sessions 16] [--clients 64]

The first corpus is ingested (dictionary entries of bench/data/public_text.py; NLP concepts, the local embedder); the others
are copies of its rows. Clients ask hybrid questions of a random corpus, each new to its session, and take turns on the
sessions, the one that waits longest first. The bound is the number of processors over the processor time of one query,
asked alone by one session. Then the same while two workers index documents of further corpora. Latency is that of the
statement; "with the wait" adds the wait for a session. Where other work shares the machine, neither throughput nor latency
says much: of a statement's time, the kernel's account (/proc/PID/schedstat) tells what its session ran, what it waited for
a processor, and the rest, which is locks, disks and the client; and of statements, what their sessions ran (p50, p99),
which the clock follows where processors are shared evenly. A database of its own is made, and dropped again without --keep.
"""

from __future__ import annotations

import argparse
import os
import random
import statistics
import threading
import time
from collections import deque
from pathlib import Path
from typing import Any

import psycopg
from psycopg import conninfo

from bench.data.public_text import Text, texts
from bench.load.long_document import status
from bench.load.search import processor_seconds

DATABASE = "bench_pools"
Connection = psycopg.Connection[Any]
# Columns that hold ids, by the table that gives them out; a copy adds the same to all of one table.
IDS = {
    "documents": ("document_id",),
    "chunks": ("chunk_id",),
    "chunk_windows": ("window_id",),
    "entities": ("entity_id", "low_id", "high_id", "source_id", "target_id"),
    "relationships": ("relationship_id",),
    "entity_mentions": (),
    "relationship_mentions": (),
    "bm25_segments": ("segment_id",),
}
# Tables of a corpus, and how their rows are found: by the corpus, its space, or its BM25 segments.
TABLES = {
    **dict.fromkeys(("documents", "chunks", "chunk_windows", "entities", "relationships"), "x.corpus_id = 1"),
    **dict.fromkeys(("entity_mentions", "relationship_mentions", "bm25_segments", "bm25_tail"), "x.corpus_id = 1"),
    **dict.fromkeys(
        ("window_vectors", "entity_vectors"),
        "x.space_id = (SELECT id FROM graphrag.embedding_spaces WHERE corpus_id = 1)",
    ),
    "bm25_postings": "x.segment_id IN (SELECT id FROM graphrag.bm25_segments WHERE corpus_id = 1)",
}


def insert(connection: Connection, corpus: str, documents: list[Text]) -> None:
    with connection.cursor().copy("COPY graphrag.documents (corpus, source_key, title, content) FROM STDIN") as copy:
        for text in documents:
            copy.write_row((corpus, text.key, text.title, text.content))


def copy_corpus(connection: Connection, number: int, step: dict[str, int]) -> None:
    """Make corpus `number` of the rows of corpus 1, with all ids moved."""
    connection.execute('SELECT graphrag.create_corpus(%s, \'{"communities": false, "cypher": false}\')', [f"c{number}"])
    connection.execute(
        "INSERT INTO graphrag.embedding_spaces (corpus_id, provider, model, dimensions, state)"
        " SELECT c.id, s.provider, s.model, s.dimensions, s.state FROM graphrag.corpora c, graphrag.embedding_spaces s"
        "  WHERE c.name = %s AND s.corpus_id = 1",
        [f"c{number}"],
    )
    ((corpus, space),) = connection.execute(
        "SELECT c.id, s.id FROM graphrag.corpora c JOIN graphrag.embedding_spaces s ON s.corpus_id = c.id WHERE c.name = %s",
        [f"c{number}"],
    ).fetchall()
    for table, condition in TABLES.items():
        columns = [
            name
            for (name,) in connection.execute(
                "SELECT attname FROM pg_attribute WHERE attrelid = %s::regclass AND attnum > 0"
                " AND NOT attisdropped AND attgenerated = ''",
                [f"graphrag.{table}"],
            )
        ]
        values = []
        for column in columns:
            owner = table if column == "id" else next((name for name, ids in IDS.items() if column in ids), None)
            if column in ("mention_id", "item_id"):  # of no copied table, or of chunks alone
                owner = "chunks"
            if column == "corpus_id":
                values.append(str(corpus))
            elif column == "space_id":
                values.append(str(space))
            elif column == "corpus":
                values.append(f"'c{number}'")
            elif table == "bm25_segments" and column in ("item_ids", "document_ids"):
                values.append(
                    f"public.moved(x.{column}, {(number - 1) * step['chunks' if column == 'item_ids' else 'documents']})"
                )
            else:
                values.append(f"x.{column} + {(number - 1) * step[owner]}" if owner else f"x.{column}")
        connection.execute(
            f"INSERT INTO graphrag.{table} ({', '.join(columns)}) OVERRIDING SYSTEM VALUE SELECT {', '.join(values)}"
            f" FROM graphrag.{table} x WHERE {condition}".encode()
        )
    connection.execute(
        "INSERT INTO graphrag.corpus_revisions (corpus_id, revision) VALUES (%s, pg_current_xact_id()) ON CONFLICT DO NOTHING",
        [corpus],
    )


MOVED = """
CREATE FUNCTION public.moved(ids bytea, by bigint) RETURNS bytea LANGUAGE plpython3u AS $$
import numpy
return (numpy.frombuffer(ids, "<i8") + by).astype("<i8").tobytes()
$$
"""


def fill(url: str, documents: list[Text], options: argparse.Namespace) -> None:
    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute("CREATE EXTENSION pg_graphrag CASCADE")
        connection.execute(MOVED)
        connection.execute("SELECT graphrag.create_corpus('c1', '{\"communities\": false, \"cypher\": false}')")
        insert(connection, "c1", documents[: options.chunks])
        connection.execute("CALL graphrag.process_jobs()")
        connection.execute("SELECT graphrag.optimize('c1')")
        step = {}
        for table in IDS:
            ((most,),) = connection.execute(f"SELECT coalesce(max(id), 0) FROM graphrag.{table} x".encode()).fetchall()
            step[table] = int(most)
        connection.execute("SET session_replication_role = replica")
        with connection.transaction():
            for number in range(2, options.corpora + 1):
                copy_corpus(connection, number, step)
        connection.execute("SET session_replication_role = origin")
        for table in IDS:
            connection.execute(
                f"SELECT setval(pg_get_serial_sequence('graphrag.{table}', 'id'), (SELECT max(id) + 1"
                f" FROM graphrag.{table}))".encode()
            )
        connection.execute("VACUUM ANALYZE")
        question = "Who rules over a province in the name of the king?"
        answers = [
            connection.execute("SELECT source_key, score FROM graphrag.search(%s, %s)", [question, corpus]).fetchall()
            for corpus in ("c1", f"c{options.corpora}")
        ]
        assert answers[0] == answers[1] and answers[0], answers


class Pool:
    """Sessions in turns: one that is given back goes to the client that waits longest."""

    def __init__(self, sessions: list[Connection]) -> None:
        self.free = deque(sessions)
        self.waiting: deque[tuple[threading.Event, list[Connection]]] = deque()
        self.lock = threading.Lock()

    def get(self) -> Connection:
        with self.lock:
            if self.free:
                return self.free.popleft()
            is_given, given = threading.Event(), list[Connection]()
            self.waiting.append((is_given, given))
        is_given.wait()
        return given[0]

    def put(self, session: Connection) -> None:
        with self.lock:
            if not self.waiting:
                self.free.append(session)
                return
            is_given, given = self.waiting.popleft()
        given.append(session)
        is_given.set()


def scheduled(sessions: list[Connection]) -> tuple[float, float]:
    """Return the seconds that the sessions' backends ran, and that they waited for a processor."""
    fields = [Path(f"/proc/{session.info.backend_pid}/schedstat").read_text().split() for session in sessions]
    return sum(int(field[0]) for field in fields) / 1e9, sum(int(field[1]) for field in fields) / 1e9


class Load:
    """Clients that share sessions until they are told to stop."""

    def __init__(self, url: str, sessions: int, clients: int, corpora: int, questions: list[str]) -> None:
        self.sessions = [psycopg.connect(url, autocommit=True) for _ in range(sessions)]
        self.pool = Pool(self.sessions)
        self.corpora, self.questions = corpora, questions
        self.stopped = threading.Event()
        self.counts = threading.local()
        self.times: list[tuple[float, float, float]] = []
        self.failures: list[str] = []
        self.clients = [threading.Thread(target=self.ask, args=[number], daemon=True) for number in range(clients)]

    def ask(self, number: int) -> None:
        chance = random.Random(number)
        while not self.stopped.is_set():
            began = time.perf_counter()
            session = self.pool.get()
            asked, cpu = time.perf_counter(), processor_seconds(session.info.backend_pid)
            try:
                search(session, chance, self.corpora, self.questions)
                now = time.perf_counter()
                self.times.append((now - asked, now - began, processor_seconds(session.info.backend_pid) - cpu))
            except psycopg.Error as error:
                self.failures.append(str(error))
            finally:
                self.pool.put(session)

    def run(self, seconds: float, warm: float) -> tuple[float, float, float]:
        """Return (queries a second, seconds that a session ran for a query, seconds that it waited for a processor)."""
        for client in self.clients:
            client.start()
        time.sleep(warm)
        self.times.clear()
        ran, waited = scheduled(self.sessions)
        began = time.perf_counter()
        time.sleep(seconds)
        count, took = max(len(self.times), 1), time.perf_counter() - began
        ran, waited = (after - before for after, before in zip(scheduled(self.sessions), (ran, waited), strict=True))
        self.stopped.set()
        for client in self.clients:
            client.join()
        return count / took, ran / count, waited / count

    def close(self) -> None:
        for session in self.sessions:
            session.close()


def search(session: Connection, chance: random.Random, corpora: int, questions: list[str]) -> None:
    words = chance.choice(questions).split()
    text = " ".join(chance.sample(words, len(words)))
    session.execute("SELECT * FROM graphrag.search(%s, %s)", [text, f"c{chance.randint(1, corpora)}"]).fetchall()


def alone(url: str, options: argparse.Namespace, questions: list[str]) -> tuple[float, float]:
    """Return the processor seconds and the milliseconds of a query, asked by one session, the first ones left out."""
    chance = random.Random(0)
    with psycopg.connect(url, autocommit=True) as session:
        for _ in range(options.corpora):
            search(session, chance, options.corpora, questions)
        pid, times = session.info.backend_pid, []
        cpu = processor_seconds(pid)
        for _ in range(200):
            began = time.perf_counter()
            search(session, chance, options.corpora, questions)
            times.append(time.perf_counter() - began)
        return (processor_seconds(pid) - cpu) / 200, 1000 * statistics.median(times)


def percentiles(values: list[float]) -> tuple[float, float]:
    cuts = statistics.quantiles(values, n=100)
    return 1000 * cuts[49], 1000 * cuts[98]


def measure(url: str, options: argparse.Namespace, documents: list[Text]) -> None:
    questions = [
        " ".join(max(text.content.split(". ")[:4], key=len).split()[:12]) for text in documents[: options.chunks]
    ]
    seconds, milliseconds = alone(url, options, questions)
    cores = len(os.sched_getaffinity(0))
    bound = cores / seconds
    print(
        f"one session alone: {1000 * seconds:.1f} ms of processor, p50 {milliseconds:.1f} ms;"
        f" {cores} processors: at most {bound:.0f} queries a second"
    )
    for workers in (0, 2):
        threads = [Worker(url, number, documents[options.chunks :][number::2]) for number in range(workers)]
        load = Load(url, options.sessions, options.clients, options.corpora, questions)
        rate, ran, waited = load.run(options.seconds, options.warm)
        for worker in threads:
            worker.end()
        (p50, p99), (wait50, wait99), (cpu50, cpu99) = (
            percentiles([times[place] for times in load.times]) for place in range(3)
        )
        mean = statistics.mean(times[0] for times in load.times)
        memory = [status(session.info.backend_pid)["anonymous"] for session in load.sessions]
        print(
            f"{workers} workers: {rate:.0f} queries a second ({rate / bound:.2f} of the bound), {1000 * ran:.1f} ms of"
            f" processor each, {ran / mean:.0%} of a statement's time, {waited / mean:.0%} waiting for one"
            f" (p50 {cpu50:.0f}, p99 {cpu99:.0f} ms: {cpu99 / cpu50:.1f} x); p50 {p50:.0f}, p99 {p99:.0f} ms ({p99 / p50:.1f} x);"
            f" with the wait {wait50:.0f} and {wait99:.0f} ms ({wait99 / wait50:.1f} x); {len(load.failures)} failures;"
            f" {sum(worker.count for worker in threads)} documents indexed;"
            f" a session's own memory at most {max(memory):.0f} MB; load {os.getloadavg()[0]:.1f}",
            flush=True,
        )
        for failure in load.failures[:3]:
            print(failure)
        load.close()


class Worker(threading.Thread):
    """Indexes documents of a corpus of its own, a hundred at a time."""

    def __init__(self, url: str, number: int, documents: list[Text]) -> None:
        super().__init__(daemon=True)
        # A new one with each run: --reuse finds those of the run before.
        self.url, self.corpus, self.documents, self.count = url, f"w{number}-{os.getpid()}", documents, 0
        self.stopped = threading.Event()
        self.start()

    def run(self) -> None:
        with psycopg.connect(self.url, autocommit=True) as connection:
            connection.execute(
                'SELECT graphrag.create_corpus(%s, \'{"communities": false, "cypher": false}\')', [self.corpus]
            )
            while not self.stopped.is_set() and self.count < len(self.documents):
                insert(connection, self.corpus, self.documents[self.count : self.count + 100])
                connection.execute("CALL graphrag.process_jobs()")
                self.count += 100

    def end(self) -> None:
        self.stopped.set()
        self.join()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--url", required=True, help="of the server, as superuser")
    parser.add_argument("--corpora", type=int, default=50)
    parser.add_argument("--chunks", type=int, default=2000)
    parser.add_argument("--sessions", type=int, default=16)
    parser.add_argument("--clients", type=int, default=64)
    parser.add_argument("--seconds", type=float, default=60)
    parser.add_argument("--warm", type=float, default=30, help="seconds before it counts")
    parser.add_argument("--reuse", action="store_true", help="measure the database that --keep left")
    parser.add_argument("--keep", action="store_true", help="keep the database")
    options = parser.parse_args()
    url = conninfo.make_conninfo(options.url, dbname=DATABASE)
    # Entries of dictionaries: with 2,000 of them a corpus needs no index of vectors, and copies need none.
    documents = [text for text in texts() if text.key.startswith(("gcide", "foldoc"))]
    with psycopg.connect(options.url, autocommit=True) as server:
        if not options.reuse:
            server.execute(f"DROP DATABASE IF EXISTS {DATABASE} WITH (FORCE)".encode())
            server.execute(f"CREATE DATABASE {DATABASE}".encode())
            fill(url, documents, options)
        measure(url, options, documents)
        if not options.keep:
            server.execute(f"DROP DATABASE {DATABASE} WITH (FORCE)".encode())


if __name__ == "__main__":
    main()
