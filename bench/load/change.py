"""What the change of one document costs in a small corpus and in a large one: processor time, rows written, pages read.

    python -m bench change [--documents 1000 50000]

Beginnings of MuSiQue passages, repeated with other numbers in them, so that entities are shared by ever more documents;
NLP concepts; vectors by the hash embedder of tests/endpoint, so that the time is the database's. The corpus grows from
size to size; at each, packed and vacuumed, single documents are updated and deleted, with a worker run after each. A
database of its own is made and dropped again.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import statistics
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import psycopg
from psycopg import conninfo, sql
from psycopg.types.json import Jsonb

ROOT = Path(__file__).resolve().parents[2]
DATABASE = "bench_change"
DIMENSIONS = 32
# Words taken of a passage.
WORDS = 16
BATCH = 1000
TICKS = os.sysconf("SC_CLK_TCK")


@dataclass
class Cost:
    """Of each change: processor time of the worker's session and wall time, in ms; rows written; pages looked at."""

    cpu: list[float] = field(default_factory=list)
    wall: list[float] = field(default_factory=list)
    rows: list[int] = field(default_factory=list)
    pages: list[int] = field(default_factory=list)


def texts(data: Path) -> Iterator[str]:
    """Endless beginnings of passages, each time with other numbers."""
    with (data / "musique/docs.jsonl").open(encoding="utf-8") as file:
        passages = [json.loads(line)["text"] for line in file]
    beginnings = [" ".join(text.split()[:WORDS]) for text in passages]
    generator = random.Random(1)
    for turn in range(10**6):
        generator.shuffle(beginnings)
        for text in beginnings:
            yield f"{text}, says report {turn}-{generator.randrange(10**6)}."


def grow(url: str, connection: psycopg.Connection[Any], source: Iterator[str], have: int, want: int) -> float:
    """Insert documents until there are so many and index them with two workers; return seconds."""
    began = time.perf_counter()
    for start in range(have, want, BATCH):
        with connection.cursor().copy("COPY graphrag.documents (corpus, source_key, content) FROM STDIN") as copy:
            for number in range(start, min(want, start + BATCH)):
                copy.write_row(("bench", f"{number:07}", next(source)))
    workers = [threading.Thread(target=work, args=[url]) for _ in range(2)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    return time.perf_counter() - began


def work(url: str) -> None:
    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute("CALL graphrag.process_jobs()")


def processor_time(pid: int) -> float:
    """Seconds that a process has used."""
    fields = Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()
    return (int(fields[11]) + int(fields[12])) / TICKS


def counters(connection: psycopg.Connection[Any]) -> tuple[int, int]:
    """Rows written and pages looked at in this database so far."""
    connection.execute("SELECT pg_stat_force_next_flush()")
    row = connection.execute(
        "SELECT sum(n_tup_ins + n_tup_upd + n_tup_del)::bigint,"
        " (SELECT sum(heap_blks_read + heap_blks_hit + coalesce(idx_blks_read + idx_blks_hit, 0))::bigint"
        "    FROM pg_statio_user_tables) FROM pg_stat_user_tables"
    ).fetchone()
    assert row is not None
    return row


def measure(url: str, statement: str, values: Iterator[list[Any]], repeats: int, warm: int = 5) -> Cost:
    """Change one document at a time and let a worker follow."""
    cost = Cost()
    with psycopg.connect(url, autocommit=True) as user, psycopg.connect(url, autocommit=True) as worker:
        pid = worker.info.backend_pid
        for number in range(warm + repeats):
            user.execute(statement.encode(), next(values))
            before = counters(worker)
            cpu, wall = processor_time(pid), time.perf_counter()
            worker.execute("CALL graphrag.process_jobs()")
            cpu, wall = processor_time(pid) - cpu, time.perf_counter() - wall
            after = counters(worker)
            if number >= warm:
                cost.cpu.append(1e3 * cpu)
                cost.wall.append(1e3 * wall)
                cost.rows.append(after[0] - before[0])
                cost.pages.append(after[1] - before[1])
    return cost


def line(size: int, what: str, cost: Cost) -> str:
    cpu = f"{statistics.mean(cost.cpu):.0f}"
    median = [f"{statistics.median(numbers):.0f}" for numbers in (cost.wall, cost.rows, cost.pages)]
    return f"| {size:,} | {what} | {cpu} | {' | '.join(median)} |"


def main() -> None:
    arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    arguments.add_argument("--url", required=True, help="of any database of the server, as superuser")
    arguments.add_argument("--data", type=Path, default=ROOT.parent / "shared/data")
    arguments.add_argument("--documents", type=int, nargs="+", default=[1000, 50_000])
    arguments.add_argument("--changes", type=int, default=40, help="of each kind, at each size (40)")
    arguments.add_argument("--check", action="store_true", help="graphrag.check() at the end, timed")
    arguments.add_argument("--keep", action="store_true", help="keep the database")
    given = arguments.parse_args()
    if not (given.data / "musique/docs.jsonl").exists():
        raise SystemExit(f"no MuSiQue passages in {given.data} (--data)")
    url = conninfo.make_conninfo(given.url, dbname=DATABASE)
    with psycopg.connect(given.url, autocommit=True) as server:
        server.execute(sql.SQL("DROP DATABASE IF EXISTS {} WITH (FORCE)").format(sql.Identifier(DATABASE)))
        server.execute(sql.SQL("CREATE DATABASE {}").format(sql.Identifier(DATABASE)))
    command = [sys.executable, "-m", "tests.endpoint", "--dimensions", str(DIMENSIONS)]
    endpoint = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, cwd=ROOT)
    assert endpoint.stdin is not None
    assert endpoint.stdout is not None
    try:
        run(url, endpoint.stdout.readline().strip(), given)
    finally:
        endpoint.stdin.close()
        endpoint.wait()
        if not given.keep:
            with psycopg.connect(given.url, autocommit=True) as server:
                server.execute(sql.SQL("DROP DATABASE {} WITH (FORCE)").format(sql.Identifier(DATABASE)))


def run(url: str, endpoint: str, given: argparse.Namespace) -> None:
    source, generator, have = texts(given.data), random.Random(2), 0
    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute("CREATE EXTENSION pg_graphrag CASCADE")
        connection.execute("SELECT graphrag.set_provider('bench', 'openai', %s)", [endpoint])
        embedding = {"provider": "bench", "model": "hash", "dimensions": DIMENSIONS}
        connection.execute("SELECT graphrag.create_corpus('bench', %s)", [Jsonb({"embedding": embedding})])
        print("| documents | change | processor, ms, mean | wall, ms, p50 | rows written, p50 | pages, p50 |")
        print("|---|---|---|---|---|---|", flush=True)
        for size in given.documents:
            seconds = grow(url, connection, source, have, size)
            print(f"{size - have} documents in {seconds:.0f} s", file=sys.stderr, flush=True)
            connection.execute("SELECT graphrag.optimize('bench')")
            connection.execute("CALL graphrag.process_jobs()")
            connection.execute("VACUUM ANALYZE")
            numbers = iter(generator.sample(range(size), size))
            for what, statement, values in (
                (
                    "update",
                    "UPDATE graphrag.documents SET content = %s WHERE corpus = 'bench' AND source_key = %s",
                    ([next(source), f"{number:07}"] for number in numbers),
                ),
                (
                    "delete",
                    "DELETE FROM graphrag.documents WHERE corpus = 'bench' AND source_key = %s",
                    ([f"{number:07}"] for number in numbers),
                ),
            ):
                print(line(size, what, measure(url, statement, values, given.changes)), flush=True)
            have = size
        if given.check:
            began = time.perf_counter()
            records = connection.execute("SELECT * FROM graphrag.check('bench')").fetchall()
            print(f"\ncheck: {time.perf_counter() - began:.0f} s, {len(records)} violations {records[:3]}")
            began = time.perf_counter()
            connection.execute("SELECT graphrag.fingerprint('bench')")
            print(f"fingerprint: {time.perf_counter() - began:.0f} s")


if __name__ == "__main__":
    main()
