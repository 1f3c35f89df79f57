"""What is left in the tables after documents have been rewritten again and again: size beside that of the same rows
packed.

    python -m bench rewrites [--documents 600] [--rewrites 20]

Documents of bench/data/public_text.py, NLP concepts, vectors of 384 by the hash embedder of tests/endpoint; autovacuum as the
server has it. Each rewrite changes a sentence of every document, in one UPDATE, and a worker follows; --new takes other
documents' text instead. Sizes are of tables with their indexes and TOAST, after the last rewrite; packed: after VACUUM
FULL. A database of its own is made, and dropped again.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import psycopg
from psycopg.types.json import Jsonb

from bench.data.public_text import texts
from bench.peers.peers import database, session_cpu

ROOT = Path(__file__).resolve().parents[2]
DIMENSIONS = 384
SIZES = """
SELECT regexp_replace(n.nspname || '.' || c.relname, '_[0-9]+$', ''), sum(pg_total_relation_size(c.oid))::bigint,
       sum(pg_table_size(c.oid))::bigint, sum(s.n_tup_ins)::bigint, sum(s.n_tup_upd)::bigint, sum(s.n_tup_hot_upd)::bigint,
       sum(s.n_tup_del)::bigint,
       sum(s.autovacuum_count)::bigint
  FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace JOIN pg_stat_user_tables s ON s.relid = c.oid
 WHERE c.relkind = 'r' AND n.nspname ~ '^graphrag'
 GROUP BY 1
"""


def sizes(connection: psycopg.Connection[Any]) -> dict[str, tuple[int, ...]]:
    connection.execute("SELECT pg_stat_force_next_flush()")
    return {name: tuple(rest) for name, *rest in connection.execute(SIZES.encode()).fetchall()}


def total(tables: dict[str, tuple[int, ...]]) -> float:
    return sum(row[0] for row in tables.values()) / 1e6


def run(url: str, endpoint: str, options: argparse.Namespace) -> None:
    documents = texts()
    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute("CREATE EXTENSION pg_graphrag CASCADE")
        connection.execute("SELECT graphrag.set_provider('bench', 'openai', %s)", [endpoint])
        embedding = {"provider": "bench", "model": "hash", "dimensions": DIMENSIONS}
        connection.execute("SELECT graphrag.create_corpus('bench', %s)", [Jsonb({"embedding": embedding})])
        with connection.cursor().copy(
            "COPY graphrag.documents (corpus, source_key, title, content) FROM STDIN"
        ) as copy:
            for number, text in enumerate(documents[: options.documents]):
                copy.write_row(("bench", f"{number:05}", text.title, text.content))
        connection.execute("CALL graphrag.process_jobs()")
        print(f"indexed: {total(sizes(connection)):.1f} MB", flush=True)
        began, cpu = time.monotonic(), session_cpu(connection)
        for rewrite in range(1, options.rewrites + 1):
            with connection.cursor() as cursor, connection.transaction():
                if options.new:
                    part = documents[rewrite * options.documents :][: options.documents]
                    cursor.executemany(
                        "UPDATE graphrag.documents SET content = %s WHERE corpus = 'bench' AND source_key = %s",
                        [(text.content, f"{number:05}") for number, text in enumerate(part)],
                    )
                else:
                    cursor.execute(
                        "UPDATE graphrag.documents SET content = regexp_replace(content, ' Revision [0-9]+ is in force\\.$', '')"
                        " || format(' Revision %%s is in force.', %s::text)",
                        [rewrite],
                    )
            connection.execute("CALL graphrag.process_jobs()")
            if rewrite % 5 == 0:
                print(
                    f"after {rewrite} rewrites: {total(sizes(connection)):.1f} MB, {time.monotonic() - began:.0f} s",
                    flush=True,
                )
        seconds, cpu = time.monotonic() - began, session_cpu(connection) - cpu
        changes = options.rewrites * options.documents
        print(
            f"a rewrite took {seconds / options.rewrites:.1f} s; worker's processor {1000 * cpu / changes:.1f} ms a document"
        )
        before = sizes(connection)
        connection.execute("VACUUM FULL")
        packed = sizes(connection)
    print(
        f"{'MB':40} {'left':>7} {'packed':>7} {'ratio':>6} {'inserted':>9} {'updated':>9} {'HOT':>9} {'deleted':>9} {'vacuum':>7}"
    )
    for name, (size, _, inserted, updated, hot, deleted, vacuums) in sorted(
        before.items(), key=lambda item: -item[1][0]
    ):
        if size > 500_000:
            print(
                f"{name:40} {size / 1e6:7.1f} {packed[name][0] / 1e6:7.1f} {size / packed[name][0]:6.1f}"
                f" {inserted:9} {updated:9} {hot:9} {deleted:9} {vacuums:7}"
            )
    left, least = total(before), total(packed)
    print(f"{'all':40} {left:7.1f} {least:7.1f} {left / least:6.1f}   load {os.getloadavg()[0]:.1f}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--url", required=True, help="of the server, as superuser")
    parser.add_argument("--documents", type=int, default=600)
    parser.add_argument("--rewrites", type=int, default=20)
    parser.add_argument("--new", action="store_true", help="rewrite with other text altogether")
    options = parser.parse_args()
    command = [sys.executable, "-m", "tests.endpoint", "--dimensions", str(DIMENSIONS)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, cwd=ROOT) as endpoint:
        assert endpoint.stdin is not None
        assert endpoint.stdout is not None
        try:
            with database(options.url, "bench_rewrites") as url:
                run(url, endpoint.stdout.readline().strip(), options)
        finally:
            endpoint.stdin.close()


if __name__ == "__main__":
    main()
