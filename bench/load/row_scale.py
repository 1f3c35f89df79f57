"""What many attached rows cost: so many rows with three foreign keys each, by step; one changed row; searches beside them.

    python -m bench row_scale --rows 10000 100000 [--texts] [--workers 2]

`items` has a key, a unique name, an amount and three foreign keys to `kinds`, which are a tenth as many; with --texts also a note
of some 400 letters. Both are attached, and workers index them, which begin together: processor time of their sessions a row,
clock by step of `graphrag.profile_time`, how busy each was, and the memory that one has at its end. Then single rows are changed,
each with a worker's run of its own. A database of its own is made, and dropped again. No language model.
"""

from __future__ import annotations

import argparse
import json
import statistics
import time
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import psycopg
from psycopg import conninfo

from bench.retrieval.rows import processor

DATABASE = "bench_row_scale"
TABLES = """
CREATE SCHEMA cost;
CREATE TABLE cost.kinds (id int PRIMARY KEY, name text NOT NULL UNIQUE);
CREATE TABLE cost.items (id int PRIMARY KEY, name text NOT NULL UNIQUE, a int REFERENCES cost.kinds,
                         b int REFERENCES cost.kinds, c int REFERENCES cost.kinds, amount int, note text);
INSERT INTO cost.kinds SELECT n, 'kind ' || n FROM generate_series(0, {kinds}) n;
INSERT INTO cost.items SELECT n, 'Item number ' || n, n % {kinds}, n % 7, n % 50, n FROM generate_series(1, {rows}) n;
"""
# Of each row a text of its own.
NOTES = """
UPDATE cost.items i SET note = (
    SELECT string_agg(format('On day %s the pump of line %s was %s by %s, since its %s had %s.', (i.id * k) % 365, i.id % 97,
                             (ARRAY['mended', 'cleaned', 'replaced', 'opened', 'watched'])[1 + (i.id + k) % 5],
                             (ARRAY['Ann Lee', 'Bob Stone', 'Carla Diaz', 'Dev Rao', 'Eve Okafor'])[1 + (i.id * k) % 5],
                             (ARRAY['seal', 'bearing', 'shaft', 'filter', 'valve', 'motor'])[1 + (i.id / k) % 6],
                             (ARRAY['leaked', 'cracked', 'run dry', 'come loose'])[1 + (i.id * k) % 4]), ' ')
      FROM generate_series(1, 5) k)
"""
ATTACHED = (
    "attach_entities('cost.kinds', 'cost', '{id}', 'name')",
    "attach_entities('cost.items', 'cost', '{id}', 'name', attributes => '{amount}', text => '{note}')",
    *(f"attach_relationships('cost.items', 'cost', 'has {name}', '{{{name}}}', 'cost.kinds')" for name in "abc"),
)


def memory(pid: int) -> float:
    """Return the memory of a process in MB, without what it shares with others; 0 where it is not of this machine."""
    try:
        lines = Path(f"/proc/{pid}/status").read_text(encoding="ascii").splitlines()
    except OSError:
        return 0.0
    return next((int(line.split()[1]) for line in lines if line.startswith("RssAnon")), 0) / 1024


def work(connection: psycopg.Connection[Any]) -> tuple[float, float, dict[str, float]]:
    """Do all that is due; return seconds by the clock, of the processor, and milliseconds by step."""
    details: list[str] = []
    connection.add_notice_handler(lambda notice: details.append(notice.message_detail or "{}"))
    connection.execute("SET graphrag.profile_time = on; SET client_min_messages = notice")
    pid = connection.info.backend_pid
    start, used = time.perf_counter(), processor(pid) or 0.0
    connection.execute("CALL graphrag.process_jobs()")
    seconds, spent = time.perf_counter() - start, (processor(pid) or 0.0) - used
    return seconds, spent, json.loads(details[-1]) if details else {}


def measure(url: str, options: argparse.Namespace, rows: int) -> None:
    """Attach so many rows, and change single ones."""
    kinds = max(rows // 10, 50)
    count = rows + kinds + 1
    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute("SET client_min_messages = error; CREATE EXTENSION pg_graphrag CASCADE")
        connection.execute(TABLES.format(kinds=kinds, rows=rows).encode())
        if options.texts:
            connection.execute(NOTES.encode())
        corpus_options = json.dumps({"communities": False, "cypher": options.cypher})
        connection.execute("SELECT graphrag.create_corpus('cost', %s)", [corpus_options])
        for call in ATTACHED:
            connection.execute(f"SELECT graphrag.{call}".encode())
    with ExitStack() as stack, ThreadPoolExecutor(options.workers) as pool:
        connections = [stack.enter_context(psycopg.connect(url, autocommit=True)) for _ in range(options.workers)]
        runs = list(pool.map(work, connections))
        spent = sum(run[1] for run in runs)
        print(
            f"{count} rows, {3 * rows} foreign keys: {max(run[0] for run in runs):.1f} s, {1000 * spent / count:.3f} ms of"
            f" processor time a row, {memory(connections[0].info.backend_pid):.0f} MB of its own;"
            f" busy {', '.join(f'{run[1]:.1f}' for run in runs)} s",
            flush=True,
        )
        steps: Counter[str] = sum((Counter(run[2]) for run in runs), Counter())
        parts = [(step, value) for step, value in steps.most_common() if step != "total"]
        print("  clock a row: " + ", ".join(f"{step} {value / count:.3f}" for step, value in parts), flush=True)
        connection = connections[0]
        size = connection.execute("SELECT pg_database_size(current_database())").fetchone()
        print(f"  database: {size[0] / count / 1000:.1f} kB a row" if size else "")
    with psycopg.connect(url, autocommit=True) as connection:
        times = []
        for number in range(1, 22):
            connection.execute("UPDATE cost.items SET amount = amount + 1 WHERE id = %s", [number * (rows // 25)])
            times.append(work(connection)[1])
        print(f"  a changed row: {1000 * statistics.mean(times[1:]):.1f} ms of processor time")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--url", required=True, help="of the server, as superuser")
    parser.add_argument("--rows", type=int, nargs="+", default=[10_000])
    parser.add_argument("--cypher", action="store_true", help="with the graph for Cypher")
    parser.add_argument("--texts", action="store_true", help="each row has a note")
    parser.add_argument("--workers", type=int, default=1)
    parser.add_argument("--keep", action="store_true", help="do not drop the last database")
    options = parser.parse_args()
    with psycopg.connect(options.url, autocommit=True) as maintenance:
        for rows in options.rows:
            maintenance.execute(f"DROP DATABASE IF EXISTS {DATABASE} WITH (FORCE)".encode())
            maintenance.execute(f"CREATE DATABASE {DATABASE}".encode())
            measure(conninfo.make_conninfo(options.url, dbname=DATABASE), options, rows)
        if not options.keep:
            maintenance.execute(f"DROP DATABASE {DATABASE} WITH (FORCE)".encode())


if __name__ == "__main__":
    main()
