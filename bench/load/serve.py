"""A search by `pg-graphrag serve` beside the same search in SQL: latency in turns, on the quickstart's corpus.

./quickstart && python -m bench serve
"""

import argparse
import contextlib
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import httpx2
import psycopg

from bench.load.search import QUESTIONS

MODES = ("bm25", "naive", "hybrid")


def main() -> None:
    """Start the server, ask both in turns, print a table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--url", required=True)
    parser.add_argument("--corpus", default="manual")
    parser.add_argument("--rounds", type=int, default=5)
    args = parser.parse_args()
    options = ("--corpus", args.corpus, "--connections", "1", "--rate", "100000")
    with served(args.url, *options) as (address, token):
        headers = {"authorization": f"Bearer {token}"}
        with httpx2.Client(base_url=address, headers=headers, timeout=60) as client:
            wait(client)
            with psycopg.connect(args.url, autocommit=True) as connection:
                compare(client, connection, args.corpus, args.rounds)


@contextlib.contextmanager
def served(url: str, *options: str) -> Iterator[tuple[str, str]]:
    """Run ``pg-graphrag serve`` for a database; yield its address and its token."""
    with tempfile.TemporaryDirectory() as folder:
        command = [
            sys.executable,
            "-m",
            "pg_graphrag.beside.cli",
            "serve",
            "--port",
            "0",
            "--token-file",
            f"{folder}/token",
        ]
        environment = os.environ | {"PG_GRAPHRAG_URL": url}
        process = subprocess.Popen(
            [*command, *options], env=environment, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
        )
        try:
            assert process.stdout is not None
            yield process.stdout.readline().strip(), Path(folder, "token").read_text().strip()
        finally:
            process.terminate()
            process.wait(30)


def wait(client: httpx2.Client) -> None:
    """Wait until the server answers."""
    for _ in range(300):
        try:
            if client.get("/healthz").status_code == 200:
                return
        except httpx2.HTTPError:
            time.sleep(0.1)
    raise RuntimeError("the server did not start")


def compare(client: httpx2.Client, connection: psycopg.Connection, corpus: str, rounds: int) -> None:
    """Print p50 and p95 of each mode: the SQL function, and the request; the session of each is warm."""
    statement = "SELECT * FROM graphrag.search(%s, %s, %s, 10)"
    print("mode     SQL p50   p95   HTTP p50   p95   p50: ratio, difference (ms)")
    for mode in MODES:
        sql, http = [], []
        for number in range(rounds + 1):
            for question in QUESTIONS:
                start = time.perf_counter()
                connection.execute(statement, [question, corpus, mode]).fetchall()
                middle = time.perf_counter()
                client.post("/api/search", json={"query": question, "mode": mode}).raise_for_status()
                if number:  # the first round warms both sessions
                    sql.append(1e3 * (middle - start))
                    http.append(1e3 * (time.perf_counter() - middle))
        a, b = statistics.median(sql), statistics.median(http)
        worst = [sorted(times)[int(0.95 * len(times))] for times in (sql, http)]
        print(f"{mode:8} {a:7.1f} {worst[0]:5.1f} {b:10.1f} {worst[1]:5.1f}   {b / a:.2f}, {b - a:+.1f}")


if __name__ == "__main__":
    main()
