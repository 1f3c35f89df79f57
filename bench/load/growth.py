"""A corpus that grows to 100,000 documents of real text: what ingestion, searches and changes cost as it grows, and its
size on disk.

    python -m bench growth [--documents 100000] [--workers 2] [--minutes 600]

Sections of RFCs and of the kernel's documentation, entries of dictionaries (bench/data/public_text.py downloads them once);
NLP concepts, the local embedder, every option as it is by default. At each size of --sizes, when nothing is left to do:
hybrid by questions that are new to the session, without a filter and under metadata filters that 50 %, 5 % and 0.5 % of
the documents pass; the recall of its first ten chunks against the same search with no vector index; naive's recall
against distances to all windows; what updates and deletes of single documents cost a worker, and new documents, in turns
with the same documents in a corpus of 1,000. Where --minutes pass before all is indexed, what is there is measured. A database of
its own is made, and dropped again without --keep.
"""

from __future__ import annotations

import argparse
import os
import random
import statistics
import threading
import time
from contextlib import suppress
from typing import Any

import psycopg
from psycopg import conninfo
from psycopg.types.json import Jsonb

from bench.data.public_text import Text, texts
from bench.load.change import Cost, measure
from bench.load.long_document import status
from bench.load.search import processor_seconds

DATABASE, CORPUS = "bench_growth", "growth"
# The corpus that stays small, and its documents.
SMALL, SMALL_SIZE = "small", 1000
# In which new documents come to either.
ROUNDS = 5
# Jobs of one call of a worker.
JOBS = 200
TOP = 10
# No filter, after graphrag.warm(), as a pool calls it for a new connection.
WARM = "warm"
FILTERS: tuple[tuple[str, dict[str, int] | None], ...] = (
    ("no filter", None),
    (WARM, None),
    ("50 %", {"half": 0}),
    ("5 %", {"twentieth": 0}),
    ("0.5 %", {"two_hundredth": 0}),
)

Connection = psycopg.Connection[Any]


class Worker(threading.Thread):
    """A worker in a session of its own."""

    def __init__(self, url: str, nice: int) -> None:
        super().__init__(daemon=True)
        self.connection = psycopg.connect(url, autocommit=True)
        self.pid = self.connection.info.backend_pid
        if nice:
            os.setpriority(os.PRIO_PROCESS, self.pid, nice)
        self.stopped = threading.Event()
        self.start()

    def run(self) -> None:
        while not self.stopped.is_set():
            with suppress(psycopg.errors.QueryCanceled):
                self.connection.execute("CALL graphrag.process_jobs(%s)", [JOBS])
            self.stopped.wait(0.05)

    def end(self) -> None:
        """Let the batch at work be put back, and close the session."""
        self.stopped.set()
        while self.is_alive():
            self.connection.cancel()
            self.join(1)
        self.connection.close()


def scalar(connection: Connection, query: str, *parameters: Any) -> Any:
    """Return the only column of the only row."""
    ((value,),) = connection.execute(query.encode(), parameters).fetchall()
    return value


def indexed(connection: Connection, corpus: str = CORPUS) -> int:
    return int(scalar(connection, "SELECT indexed FROM graphrag.progress WHERE corpus = %s", corpus))


def insert(connection: Connection, documents: list[Text], start: int, corpus: str = CORPUS) -> None:
    with connection.cursor().copy(
        "COPY graphrag.documents (corpus, source_key, title, content, metadata) FROM STDIN"
    ) as copy:
        for number, text in enumerate(documents, start):
            metadata = {"half": number % 2, "twentieth": number % 20, "two_hundredth": number % 200}
            copy.write_row((corpus, text.key, text.title, text.content, Jsonb(metadata)))


def ingest(url: str, connection: Connection, size: int, options: argparse.Namespace, deadline: float) -> None:
    """Index what is queued, up to `size` documents in all, and say every --step documents at which rate."""
    workers = [Worker(url, options.nice) for _ in range(options.workers)]
    count, began = indexed(connection), time.monotonic()
    spent = {worker.pid: 0.0 for worker in workers}
    while time.monotonic() < deadline:
        time.sleep(1)
        jobs = scalar(connection, "SELECT jobs FROM graphrag.progress WHERE corpus = %s", CORPUS)
        now = indexed(connection)
        if now - count < options.step and jobs:
            continue
        statuses = {worker.pid: status(worker.pid) for worker in workers}
        seconds, cpu = time.monotonic() - began, sum(statuses[pid]["cpu"] - spent[pid] for pid in spent)
        memory = " + ".join(f"{worker_status['anonymous']:.0f}" for worker_status in statuses.values())
        if now > count:
            print(
                f"{now:7,} documents: {(now - count) / seconds:6.1f} a second, worker's processor"
                f" {1000 * cpu / (now - count):5.1f} ms each, memory of its own {memory} MB, load {os.getloadavg()[0]:.1f}",
                flush=True,
            )
        else:
            print(f"{now:7,} documents: upkeep {seconds:.0f} s, worker's processor {cpu:.0f} s", flush=True)
        count, began, spent = now, time.monotonic(), {pid: statuses[pid]["cpu"] for pid in spent}
        if not jobs:
            break
    for worker in workers:
        worker.end()


def questions(connection: Connection, number: int) -> list[str]:
    """Return beginnings of sentences of documents, the same for the same corpus."""
    rows = connection.execute(
        "SELECT content FROM graphrag.documents WHERE corpus = %s AND status = 'indexed' ORDER BY source_key", [CORPUS]
    ).fetchall()
    chosen = random.Random(number).sample(rows, number)
    sentences = [max(content.split(". ")[:4], key=len) for (content,) in chosen]
    return [" ".join(sentence.split()[:14]) for sentence in sentences]


def searched(
    connection: Connection, mode: str, question: str, filter: dict[str, int] | None
) -> tuple[list[int], float, float]:
    """Return the first chunks, the milliseconds by the clock, and those of the session's processor."""
    pid = connection.info.backend_pid
    began, cpu = time.perf_counter(), processor_seconds(pid)
    rows = connection.execute(
        # What is near is counted, near-duplicates too.
        "SELECT chunk_id FROM graphrag.search(%s, %s, %s, %s, filter => %s, options => %s) ORDER BY rank",
        [question, CORPUS, mode, TOP, Jsonb(filter or {}), Jsonb({"near_duplicates": "in_place"})],
    ).fetchall()
    return [row[0] for row in rows], 1000 * (time.perf_counter() - began), 1000 * (processor_seconds(pid) - cpu)


def nearest(connection: Connection, question: str, filter: dict[str, int] | None) -> dict[int, float]:
    """Return {chunk: distance} of those with the nearest windows, and all that tie, compared one by one."""
    space = scalar(
        connection,
        "SELECT s.id FROM graphrag.embedding_spaces s JOIN graphrag.corpora c ON c.id = s.corpus_id"
        " WHERE s.state = 'active' AND c.name = %s",
        CORPUS,
    )
    query = (
        "WITH q AS MATERIALIZED (SELECT graphrag.embed(%s, %s)::vector AS q),"
        " b AS MATERIALIZED (SELECT v.chunk_id, min(v.embedding::vector(384) <=> q.q) AS distance FROM q,"
        "  graphrag.window_vectors v JOIN graphrag.documents d ON d.id = v.document_id"
        "  WHERE v.space_id = %s AND d.metadata @> %s GROUP BY v.chunk_id)"
        " SELECT chunk_id, distance FROM b WHERE distance <= (SELECT max(distance) FROM"
        " (SELECT distance FROM b ORDER BY distance LIMIT %s) l) + 1e-6"
    )
    return dict(connection.execute(query.encode(), [question, CORPUS, space, Jsonb(filter or {}), TOP]).fetchall())


def recall(rows: list[int], exact: set[int]) -> float:
    """Return the share of the first ten that belongs there."""
    return len(exact.intersection(rows)) / min(TOP, len(exact)) if exact else 1.0


def measure_searches(url: str, number: int) -> None:
    with psycopg.connect(url, autocommit=True) as connection:
        asked = questions(connection, number)
        indexes = connection.execute(
            "SELECT c.oid::regclass::text FROM pg_class c JOIN pg_am a ON a.oid = c.relam WHERE a.amname = 'hnsw'"
        ).fetchall()
    print("ms; processor: of the session; naive asks what hybrid has asked before, so that its vector is known")
    print(
        f"{'':12} {'first':>7} {'p50':>7} {'p95':>7} {'processor':>10} {'recall@10':>10} {'naive p50':>10} {'recall@10':>10}"
    )
    for name, filter in FILTERS:
        with psycopg.connect(url, autocommit=True) as connection:
            if name == WARM:
                connection.execute("SELECT graphrag.warm(%s)", [CORPUS])
            _, first, _ = searched(connection, "hybrid", asked[0], filter)
            runs = [searched(connection, "hybrid", question, filter) for question in asked]
            naive = [searched(connection, "naive", question, filter) for question in asked]
            memory = status(connection.info.backend_pid)["anonymous"]
        shares, naive_shares = [], []
        with psycopg.connect(url) as connection:
            for (index,) in indexes:
                connection.execute(f"DROP INDEX {index}".encode())
            for place in range(0, len(asked), 2):
                exact, _, _ = searched(connection, "hybrid", asked[place], filter)
                shares.append(recall(runs[place][0], set(exact)))
                naive_shares.append(recall(naive[place][0], set(nearest(connection, asked[place], filter))))
            connection.rollback()
        p95 = statistics.quantiles([run[1] for run in runs], n=20)[-1]
        p50, naive_p50 = (statistics.median(run[1] for run in each) for each in (runs, naive))
        cpu = statistics.median(run[2] for run in runs)
        print(
            f"{name:12} {first:7.0f} {p50:7.1f} {p95:7.1f} {cpu:10.1f} {statistics.mean(shares):10.3f} {naive_p50:10.1f}"
            f" {statistics.mean(naive_shares):10.3f}   (memory of its own {memory:.0f} MB)",
            flush=True,
        )


def measure_changes(url: str, number: int) -> None:
    with psycopg.connect(url, autocommit=True) as connection:
        keys = [
            key
            for (key,) in connection.execute(
                "SELECT source_key FROM graphrag.documents WHERE corpus = %s AND status = 'indexed' ORDER BY md5(source_key)"
                " LIMIT %s",
                [CORPUS, 2 * number + 10],
            )
        ]
    one_document = "WHERE corpus = 'growth' AND source_key = %s"
    update = f"UPDATE graphrag.documents SET content = content || ' It was revised by Ada Lovelace.' {one_document}"
    delete = f"DELETE FROM graphrag.documents {one_document}"
    for name, statement in (("update", update), ("delete", delete)):
        cost: Cost = measure(url, statement, ([key] for key in keys[: number + 5]), number)
        print(
            f"{name}: worker's processor {statistics.median(cost.cpu):.0f} ms (median; mean {statistics.mean(cost.cpu):.0f}),"
            f" clock {statistics.median(cost.wall):.0f} ms, rows written {statistics.median(cost.rows):.0f}, pages"
            f" {statistics.median(cost.pages):.0f}",
            flush=True,
        )


def measure_rates(url: str, size: int) -> None:
    """Index `size` documents in either corpus, in turns, by one worker; print what each costs it, and the ratio."""
    documents = texts()
    costs: dict[str, list[float]] = {SMALL: [], CORPUS: []}
    with psycopg.connect(url, autocommit=True) as connection:
        if not scalar(connection, "SELECT count(*) FROM graphrag.corpora WHERE name = %s", SMALL):
            connection.execute("SELECT graphrag.create_corpus(%s)", [SMALL])
            insert(connection, documents[:SMALL_SIZE], 0, SMALL)
        connection.execute("CALL graphrag.process_jobs()")
        began_with = {corpus: indexed(connection, corpus) for corpus in costs}
        # From the end: neither corpus has these, also where this was measured before.
        end = len(documents) - (began_with[SMALL] - SMALL_SIZE)
        pid = connection.info.backend_pid
        for number in range(ROUNDS):
            part = documents[end - (number + 1) * size : end - number * size]
            for corpus in sorted(costs, reverse=bool(number % 2)):
                goal = indexed(connection, corpus) + size
                insert(connection, part, number * size, corpus)
                before = processor_seconds(pid)
                # Upkeep comes after documents: jobs left over are not counted.
                while indexed(connection, corpus) < goal:
                    connection.execute("CALL graphrag.process_jobs(%s)", [size])
                costs[corpus].append(1000 * (processor_seconds(pid) - before) / size)
    small, large = (statistics.median(costs[corpus]) for corpus in (SMALL, CORPUS))
    rounds = (", ".join(f"{cost:.0f}" for cost in costs[corpus]) for corpus in (SMALL, CORPUS))
    print(
        f"new documents, {ROUNDS} times {size} in turns, a worker's processor each: {small:.1f} ms in a corpus of"
        f" {began_with[SMALL]:,}, {large:.1f} in one of {began_with[CORPUS]:,} (medians), {large / small:.2f} times as much;"
        f" of all rounds {' and '.join(rounds)}",
        flush=True,
    )


SIZES = """
SELECT regexp_replace(n.nspname || '.' || c.relname, '_[0-9]+$', ''), count(*), sum(pg_table_size(c.oid)),
       sum(pg_indexes_size(c.oid))
  FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
 WHERE c.relkind = 'r' AND n.nspname NOT IN ('pg_catalog', 'information_schema', 'pg_toast')
 GROUP BY 1 HAVING sum(pg_total_relation_size(c.oid)) > 1000000 ORDER BY sum(pg_total_relation_size(c.oid)) DESC
"""


def measure_disk(connection: Connection, documents: int) -> None:
    print(f"{'bytes a document':50} {'table':>8} {'indexes':>8}")
    for name, _, table, indexes in connection.execute(SIZES.encode()).fetchall():
        print(f"{name:50} {table / documents:8.0f} {indexes / documents:8.0f}")
    print(
        f"{'the database':50} {scalar(connection, 'SELECT pg_database_size(current_database())') / documents:8.0f}",
        flush=True,
    )


def report(url: str, options: argparse.Namespace) -> None:
    with psycopg.connect(url, autocommit=True) as connection:
        row = connection.execute(
            "SELECT indexed, chunks, entities, relationships, (SELECT count(*) FROM graphrag.entity_mentions),"
            " (SELECT count(*) FROM graphrag.relationship_mentions) FROM graphrag.progress WHERE corpus = %s",
            [CORPUS],
        ).fetchone()
        print(f"documents, chunks, entities, relationships, mentions of either = {row}, load {os.getloadavg()[0]:.1f}")
        connection.execute("VACUUM ANALYZE")
        measure_disk(connection, indexed(connection))
    measure_searches(url, options.questions)
    if options.changes:
        with psycopg.connect(url, autocommit=True) as connection:
            connection.execute("CALL graphrag.process_jobs()")
        measure_changes(url, options.changes)
    if options.rates:
        measure_rates(url, options.rates)


def grow(url: str, options: argparse.Namespace) -> None:
    deadline = time.monotonic() + 60 * options.minutes
    documents = texts()
    count = 0
    for size in [*options.sizes, options.documents]:
        with psycopg.connect(url, autocommit=True) as connection:
            insert(connection, documents[count:size], count)
            ingest(url, connection, size, options, deadline)
            # What the time did not suffice for.
            late = connection.execute("DELETE FROM graphrag.documents WHERE status <> 'indexed'").rowcount
            if late:
                print(f"stopped: {late:,} documents were not indexed", flush=True)
                connection.execute("CALL graphrag.process_jobs()")
        report(url, options)
        count = size


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--url", required=True, help="of the server, as superuser")
    parser.add_argument("--documents", type=int, default=100_000)
    parser.add_argument(
        "--sizes", type=int, nargs="*", default=[1000], help="smaller sizes that are measured too (1000)"
    )
    parser.add_argument("--step", type=int, default=5000, help="documents between two lines on the rate (5000)")
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument(
        "--nice", type=int, default=0, help="priority of the workers' sessions, as superuser of the machine (0)"
    )
    parser.add_argument("--minutes", type=float, default=6000, help="of ingestion at most")
    parser.add_argument("--questions", type=int, default=40)
    parser.add_argument("--changes", type=int, default=20, help="of each kind, at each size (20; 0: none)")
    parser.add_argument(
        "--rates", type=int, default=100, help="new documents of each round beside a small corpus (100; 0: none)"
    )
    parser.add_argument("--reuse", action="store_true", help="measure the database that --keep left")
    parser.add_argument("--keep", action="store_true", help="keep the database")
    options = parser.parse_args()
    url = conninfo.make_conninfo(options.url, dbname=DATABASE)
    print(
        "sections of RFCs and of the kernel's documentation, and entries of dictionaries, in an order that mixes them",
        flush=True,
    )
    if options.reuse:
        report(url, options)
        return
    with psycopg.connect(options.url, autocommit=True) as server:
        server.execute(f"DROP DATABASE IF EXISTS {DATABASE} WITH (FORCE)".encode())
        server.execute(f"CREATE DATABASE {DATABASE}".encode())
        with psycopg.connect(url, autocommit=True) as connection:
            connection.execute("CREATE EXTENSION pg_graphrag CASCADE")
            connection.execute("SELECT graphrag.create_corpus(%s)", [CORPUS])
        grow(url, options)
        if not options.keep:
            server.execute(f"DROP DATABASE {DATABASE} WITH (FORCE)".encode())


if __name__ == "__main__":
    main()
