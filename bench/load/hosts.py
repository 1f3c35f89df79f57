"""What the second host costs: the same documents and searches in the server and in a process beside a database.

    python -m bench hosts [--documents 300] [--searches 100] [--pool 50] [--at-once 1,2,4]

The corpus is MuSiQue's passages, or the first of them. Each round searches on both hosts, one after the other, so that other work
on the machine meets both. "server": SQL functions in a warm session. "process": the client in this process, beside a database
with pgvector alone, on the same server. "1 ms": the same process over a link whose either way takes half a millisecond.
Ingestion is one worker each: CALL process_jobs() in a session, and `GraphRAG.process_jobs()` in a process of its own. Memory is
private memory (Pss without files) after every connection of a pool has searched. "At once": so many programs that search at the
same time, each by a connection of its own; processor time is that of the programs and of their sessions of the server.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import psycopg
from pg_graphrag import GraphRAG
from pg_graphrag.beside.process import schema
from psycopg import conninfo, sql

from tests.runtime.link import Link

ROOT = Path(__file__).resolve().parents[2]

# The server has none of this shell's variables: both are to multiply by the same kernels.
os.environ.pop("OPENBLAS_CORETYPE", None)

SERVER, BESIDE = "bench_host_server", "bench_host_beside"
MODES = ("hybrid", "naive", "bm25", "local", "ppr")
WORK = "import sys; from pg_graphrag import GraphRAG; GraphRAG(sys.argv[1]).process_jobs()"


def memory(pid: int) -> float:
    """Private memory of a process, MB."""
    fields = dict(
        line.split(":", 1) for line in Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines() if ":" in line
    )
    return int(fields["Pss_Anon"].split()[0]) / 1024


def fill(rag: GraphRAG, passages: list[dict[str, Any]]) -> None:
    rag.create_corpus(communities=False, cypher=False)
    rag.insert({"source_key": row["id"], "title": row["title"], "content": row["text"]} for row in passages)


def timed(work: Any) -> float:
    begin = time.perf_counter()
    work()
    return time.perf_counter() - begin


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--url", required=True, help="of the server, as superuser")
    parser.add_argument("--data", type=Path, default=ROOT.parent / "shared/data")
    parser.add_argument("--documents", type=int, default=300)
    parser.add_argument("--searches", type=int, default=100)
    parser.add_argument("--pool", type=int, default=50)
    parser.add_argument("--at-once", default="1,2,4", help="numbers of programs, with commas between; none when empty")
    options = parser.parse_args()
    lines = (options.data / "musique/docs.jsonl").read_text(encoding="utf-8").splitlines()
    passages = [json.loads(line) for line in lines[: options.documents]]
    lines = (options.data / "musique/queries_dev.jsonl").read_text(encoding="utf-8").splitlines()
    questions = [json.loads(line)["question"] for line in lines]
    with psycopg.connect(options.url, autocommit=True) as maintenance:
        for name in (SERVER, BESIDE):
            maintenance.execute(sql.SQL("DROP DATABASE IF EXISTS {} WITH (FORCE)").format(sql.Identifier(name)))
            maintenance.execute(sql.SQL("CREATE DATABASE {}").format(sql.Identifier(name)))
        urls = [conninfo.make_conninfo(options.url, dbname=name) for name in (SERVER, BESIDE)]
        try:
            measure(urls, passages, questions, options)
        finally:
            for name in (SERVER, BESIDE):
                maintenance.execute(sql.SQL("DROP DATABASE {} WITH (FORCE)").format(sql.Identifier(name)))


def measure(urls: list[str], passages: list[Any], questions: list[str], options: argparse.Namespace) -> None:
    with psycopg.connect(urls[0], autocommit=True) as connection:
        connection.execute("CREATE EXTENSION pg_graphrag CASCADE")
    with psycopg.connect(urls[1], autocommit=True) as connection:
        connection.execute("CREATE EXTENSION vector")
        schema.install(connection)
    rags = [GraphRAG(url) for url in urls]
    for rag in rags:
        fill(rag, passages)
    seconds = [
        timed(rags[0].process_jobs),
        timed(lambda: subprocess.run([sys.executable, "-c", WORK, urls[1]], check=True, cwd=ROOT)),
    ]
    print(
        f"{len(passages)} passages indexed, s: server {seconds[0]:.1f}, process {seconds[1]:.1f}, x {seconds[1] / seconds[0]:.2f}"
    )
    same = rags[0].call("fingerprint") == rags[1].call("fingerprint")
    print(f"fingerprints: {'equal' if same else 'DIFFERENT'}")

    with Link(urls[1], delay=0.0005) as link, GraphRAG(link.url) as far:
        for texts in ("known", "new"):
            print(f"\np50 of a search, texts {texts}: ms; ms of the processor; over a link of 1 ms")
            print(
                f"{'mode':8}{'server':>9}{'process':>9}{'x':>7}{'server':>9}{'process':>9}{'x':>7}{'ms':>9}{'trips':>7}"
            )
            for mode in MODES:
                times: list[list[float]] = [[], [], []]
                spent: list[list[float]] = [[], [], []]
                for rag in (*rags, far):
                    for question in questions[:3] * 2:
                        rag.search(question, mode=mode)
                before = link.round_trips
                for number in range(options.searches):
                    question = questions[number % len(questions)]
                    if texts == "new":
                        question += f" {number} {mode}"
                    for place, rag in enumerate((*rags, far)):
                        pids = os.getpid(), pid_of(rag)
                        begin, processor_begin = time.perf_counter(), sum(map(processor_time, pids))
                        rag.search(question, mode=mode)
                        times[place].append(time.perf_counter() - begin)
                        spent[place].append(sum(map(processor_time, pids)) - processor_begin)
                trips = (link.round_trips - before) / options.searches
                print(f"{mode:8}", end="")
                for row in (times, spent):
                    server, process, _ = (1000 * statistics.median(column) for column in row)
                    print(f"{server:9.1f}{process:9.1f}{process / server:7.2f}", end="")
                print(f"{1000 * statistics.median(times[2]):9.1f}{trips:7.1f}")
    for count in map(int, filter(None, options.at_once.split(","))):
        at_once(urls, questions, count, options.searches)
    pool(urls, questions, options.pool)
    for rag in rags:
        rag.close()


# Warm, it waits for a line; then it searches, and says how many seconds of the processor that took.
SEARCHER = """
import json, os, sys
sys.path[:0] = sys.argv[3:]
from bench.load.hosts import MODES, pid_of, processor_time
from pg_graphrag import GraphRAG
questions = json.loads(sys.argv[2])
with GraphRAG(sys.argv[1]) as rag:
    for mode in MODES:
        for question in questions[:3]:
            rag.search(question, mode=mode)
    pids = os.getpid(), pid_of(rag)
    print("warm", flush=True)
    sys.stdin.readline()
    before = sum(map(processor_time, pids))
    for number, question in enumerate(questions):
        rag.search(question, mode=MODES[number % len(MODES)])
    print(sum(map(processor_time, pids)) - before, flush=True)
"""


def processor_time(pid: int) -> float:
    """Seconds of the processor that a process has taken; 0 of one on another machine."""
    statistic = Path(f"/proc/{pid}/schedstat")
    return int(statistic.read_text().split()[0]) / 1e9 if statistic.exists() else 0.0


def pid_of(rag: GraphRAG) -> int:
    """Process id of the session of a client."""
    with rag._connection() as connection:
        return int(connection.info.backend_pid)


def at_once(urls: list[str], questions: list[str], count: int, searches: int) -> None:
    """How many searches a second so many programs do, and what one takes of the processor."""
    asked = [f"{questions[number % len(questions)]} {number}" for number in range(searches)]
    rates = []
    for name, url in zip(("server", "process"), urls, strict=True):
        command = [sys.executable, "-c", SEARCHER, url, json.dumps(asked), str(ROOT), str(ROOT / "python")]
        # In a session each, as PostgreSQL's are: Linux gives a session one share of the processors, whatever is in it.
        programs = [
            subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, start_new_session=True)
            for _ in range(count)
        ]
        for program in programs:
            assert program.stdout is not None and program.stdout.readline() == "warm\n"
        begin = time.perf_counter()
        for program in programs:
            assert program.stdin is not None
            program.stdin.write("go\n")
            program.stdin.flush()
        seconds = [float(program.communicate()[0].split()[0]) for program in programs]
        rate = count * searches / (time.perf_counter() - begin)
        rates.append(
            f"{name} {rate:.0f} searches/s, {1000 * sum(seconds) / count / searches:.1f} ms of the processor each"
        )
    print(f"{count} at once: {'; '.join(rates)}")


def pool(urls: list[str], questions: list[str], size: int) -> None:
    """What a pool of connections takes that have all searched."""
    program = (
        "import sys; sys.path[:0] = sys.argv[4:]\n"
        "from concurrent.futures import ThreadPoolExecutor\n"
        "from bench.load.hosts import memory; import os; from pg_graphrag import GraphRAG\n"
        "question = sys.argv[3]; rags = [GraphRAG(sys.argv[1]) for _ in range(int(sys.argv[2]))]\n"
        "rags[0].search(question); one = memory(os.getpid())\n"
        "with ThreadPoolExecutor(len(rags)) as threads: list(threads.map(lambda rag: rag.search(question), rags))\n"
        "print(f'process: 1 connection {one:.0f} MB, {len(rags)} connections {memory(os.getpid()):.0f} MB')"
    )
    paths = [str(ROOT), str(ROOT / "python")]
    subprocess.run([sys.executable, "-c", program, urls[1], str(size), questions[0], *paths], check=True, cwd=ROOT)
    rags = [GraphRAG(urls[0]) for _ in range(size)]
    with ThreadPoolExecutor(8) as threads:
        list(threads.map(lambda rag: rag.search(questions[0]), rags))
    try:
        sizes = [memory(pid_of(rag)) for rag in rags]
        print(f"server: 1 session {statistics.median(sizes):.0f} MB, {size} sessions {sum(sizes):.0f} MB")
    except FileNotFoundError:
        print("server: on another machine")
    for rag in rags:
        rag.close()


if __name__ == "__main__":
    main()
