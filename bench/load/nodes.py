"""What it costs to ask another node: the same searches at the node itself and from another, and five nodes in one call.

    python -m bench nodes [--documents 300] [--searches 60] [--far 10] [--sessions 4]

Nodes are databases of one server, each with a corpus of MuSiQue's passages: they share its processors, so that more nodes are no
faster here than one, and what is asked side by side shares them too. Searches come in turns, each new to both sessions, which are
warm. "ms" is the clock, "cpu" the processor time of all sessions that take part, their threads included. "far": a link to each
node whose either way takes so many milliseconds, as if it were a machine elsewhere; "slowest": of the five, each asked alone over
the same link.
"""

from __future__ import annotations

import argparse
import json
import statistics
import threading
import time
from contextlib import ExitStack
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import psycopg
from psycopg import conninfo, sql

from bench.load.search import private_megabytes
from tests.runtime.cluster import Database
from tests.runtime.link import Link
from tests.sql.linked_nodes import link, unlink

ROOT = Path(__file__).resolve().parents[2]
NODES = ("a", "b", "c", "d", "e", "f")
MODES = ("hybrid", "naive", "bm25")
Connection = psycopg.Connection[Any]


def processor_of_sessions(database: str, maintenance: Connection) -> float:
    """Seconds of the processor that the sessions of databases of this name have taken, and their threads."""
    pids = maintenance.execute(
        "SELECT pid FROM pg_stat_activity WHERE datname LIKE %s AND backend_type = 'client backend'", [database]
    )
    return sum(
        int(thread.read_text().split()[0]) / 1e9
        for (pid,) in pids
        for thread in Path(f"/proc/{pid}/task").glob("*/schedstat")
    )


def ask(session: Connection, corpora: str | list[str], question: str, mode: str) -> float:
    """Search, and return how long that took."""
    name = "corpus" if isinstance(corpora, str) else "corpora"
    begin = time.perf_counter()
    session.execute(
        f"SELECT * FROM graphrag.search(%s, {name} => %s, mode => %s)".encode(), [question, corpora, mode]
    ).fetchall()
    return time.perf_counter() - begin


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--url", required=True, help="of the server, as superuser, with a password")
    parser.add_argument("--data", type=Path, default=ROOT.parent / "shared/data")
    parser.add_argument("--documents", type=int, default=300)
    parser.add_argument("--searches", type=int, default=60)
    parser.add_argument("--far", type=float, default=10.0, help="milliseconds of either way to a node that is far")
    parser.add_argument("--sessions", type=int, default=4)
    options = parser.parse_args()
    lines = (options.data / "musique/docs.jsonl").read_text(encoding="utf-8").splitlines()
    passages = [json.loads(line) for line in lines[: options.documents]]
    lines = (options.data / "musique/queries_dev.jsonl").read_text(encoding="utf-8").splitlines()
    questions = [json.loads(line)["question"] for line in lines]
    parts = conninfo.conninfo_to_dict(options.url)
    place = f"{parts['user']}:{parts['password']}@{parts.get('host', '127.0.0.1')}:{parts.get('port', 5432)}"
    urls = {node: f"postgresql://{place}/bench_node_{node}" for node in NODES}
    with psycopg.connect(options.url, autocommit=True) as maintenance:
        try:
            for node in NODES:
                name = sql.Identifier(f"bench_node_{node}")
                maintenance.execute(sql.SQL("DROP DATABASE IF EXISTS {} WITH (FORCE)").format(name))
                maintenance.execute(sql.SQL("CREATE DATABASE {}").format(name))
                with psycopg.connect(urls[node], autocommit=True) as connection:
                    fill(connection, f"corpus {node}", passages)
            measure(maintenance, urls, questions, options)
        finally:
            for node in NODES:
                name = sql.Identifier(f"bench_node_{node}")
                maintenance.execute(sql.SQL("DROP DATABASE IF EXISTS {} WITH (FORCE)").format(name))


def fill(connection: Connection, corpus: str, passages: list[dict[str, Any]]) -> None:
    connection.execute("CREATE EXTENSION pg_graphrag CASCADE")
    connection.execute('SELECT graphrag.create_corpus(%s, \'{"cypher": false, "communities": false}\')', [corpus])
    with connection.cursor() as cursor:
        cursor.executemany(
            "INSERT INTO graphrag.documents (corpus, source_key, title, content) VALUES (%s, %s, %s, %s)",
            [(corpus, row["id"], row["title"], row["text"]) for row in passages],
        )
    connection.execute("CALL graphrag.process_jobs()")
    connection.execute("VACUUM ANALYZE")


def measure(maintenance: Connection, urls: dict[str, str], questions: list[str], options: argparse.Namespace) -> None:
    with Database.open(urls["a"]) as front:
        for node in NODES[1:]:
            link(front, node, urls[node])
            front.execute("SELECT graphrag.place_corpus(%s, %s)", [f"corpus {node}", node])
        overhead(front, urls["b"], maintenance, questions, options.searches)
        first_searches(urls, questions)
        throughput(urls["a"], questions, options)
        # The links to what is far end with it.
        for milliseconds in (0.0, options.far):
            five(front, urls, milliseconds, questions, options.searches)


def overhead(front: Database, url: str, maintenance: Connection, questions: list[str], searches: int) -> None:
    """Of one corpus: asked at its node, and from another one."""
    print("one corpus at its node, and asked from another: p50")
    print(f"{'mode':8}{'ms there':>10}{'ms here':>9}{'x':>6}{'cpu there':>11}{'cpu here':>10}{'x':>6}")
    with psycopg.connect(url, autocommit=True) as there:
        for mode in MODES:
            times: list[list[float]] = [[], []]
            spent: list[list[float]] = [[], []]
            for number in range(-10, searches):
                question = f"{questions[number % len(questions)]} {number} {mode}"
                for place, session in enumerate((there, front)):
                    begin = processor_of_sessions("bench_node_%", maintenance)
                    seconds = ask(session, "corpus b", question, mode)
                    if number >= 0:
                        times[place].append(seconds)
                        spent[place].append(processor_of_sessions("bench_node_%", maintenance) - begin)
            print(f"{mode:8}", end="")
            for row, width in ((times, 10), (spent, 11)):
                own, asked = (1000 * statistics.median(column) for column in row)
                print(f"{own:{width}.1f}{asked:{width - 1}.1f}{asked / own:6.2f}", end="")
            print()


def first_searches(urls: dict[str, str], questions: list[str]) -> None:
    """Of new sessions: at the node, at another, which asks it by a new session, and by a session that has one."""
    times: dict[str, list[float]] = {"there": [], "here": [], "here, again": []}
    memory: list[float] = []
    for question in questions[:7]:
        with psycopg.connect(urls["b"], autocommit=True) as there:
            times["there"].append(ask(there, "corpus b", question, "hybrid"))
        with psycopg.connect(urls["a"], autocommit=True) as here:
            ask(here, "corpus a", question, "hybrid")
            before = private_megabytes(here.info.backend_pid)
            times["here"].append(ask(here, "corpus b", question, "hybrid"))
            memory.append(private_megabytes(here.info.backend_pid) - before)
            times["here, again"].append(ask(here, "corpus b", f"{question} again", "hybrid"))
    print("\nfirst search of a session, ms (p50 of 7): ", end="")
    print("; ".join(f"{name} {1000 * statistics.median(values):.0f}" for name, values in times.items()))
    print(f"memory that asking a node adds to a session, MB: {statistics.median(memory):.1f}")


def five(front: Database, urls: dict[str, str], milliseconds: float, questions: list[str], searches: int) -> None:
    """Five corpora of five nodes in one call, and each alone."""
    corpora = [f"corpus {node}" for node in NODES[1:]]
    with ExitStack() as stack:
        if milliseconds:
            for node in NODES[1:]:
                far = stack.enter_context(Link(urls[node], delay=milliseconds / 1000))
                unlink(front, node)
                port = conninfo.conninfo_to_dict(far.url)["port"]
                parts = urlsplit(urls[node])
                link(front, node, parts._replace(netloc=f"{parts.username}:{parts.password}@127.0.0.1:{port}").geturl())
                front.execute("SELECT graphrag.place_corpus(%s, %s)", [f"corpus {node}", node])
        print(f"\nfive corpora of five nodes, {milliseconds:g} ms away: p50, ms")
        print(f"{'mode':8}{'slowest alone':>15}{'sum of alone':>14}{'in one call':>13}{'x slowest':>11}")
        for mode in MODES:
            slowest, total, together = [], [], []
            for number in range(-5, searches):
                question = f"{questions[number % len(questions)]} {number} {mode} {milliseconds}"
                alone = [ask(front, [corpus], f"{question} alone", mode) for corpus in corpora]
                seconds = ask(front, corpora, question, mode)
                if number >= 0:
                    slowest.append(max(alone))
                    total.append(sum(alone))
                    together.append(seconds)
            medians = [1000 * statistics.median(values) for values in (slowest, total, together)]
            print(f"{mode:8}{medians[0]:15.1f}{medians[1]:14.1f}{medians[2]:13.1f}{medians[2] / medians[0]:11.2f}")


def throughput(url: str, questions: list[str], options: argparse.Namespace) -> None:
    """Searches a second of sessions that ask one node for corpora of itself and others."""
    print(f"\nsearches a second, hybrid, {options.sessions} sessions at one node, corpora of")
    for count in (1, 2, 3):
        done = [0] * options.sessions
        start = threading.Barrier(options.sessions)

        def run(place: int, count: int = count, done: list[int] = done, start: threading.Barrier = start) -> None:
            with psycopg.connect(url, autocommit=True) as session:
                for number in range(3 * count):
                    ask(session, f"corpus {NODES[number % count]}", questions[number], "hybrid")
                start.wait()
                end = time.monotonic() + 10
                while time.monotonic() < end:
                    number = place * 1000 + done[place]
                    ask(
                        session,
                        f"corpus {NODES[number % count]}",
                        f"{questions[number % len(questions)]} {number}",
                        "hybrid",
                    )
                    done[place] += 1

        threads = [threading.Thread(target=run, args=[place]) for place in range(options.sessions)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        print(f"  {count} node{'s' * (count > 1)}: {sum(done) / 10:.1f}")


if __name__ == "__main__":
    main()
