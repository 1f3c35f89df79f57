"""What thousands of corpora cost: made, filled with a document each, repaired, dumped, restored, uninstalled.

    python -m bench many_corpora [--corpora 2000] [--no-cypher]

One session and one worker; NLP concepts; vectors by the hash embedder of tests/endpoint, so that the time is the database's.
The server has the locks that PostgreSQL gives by default. The dump leaves out the graphs, which repair_corpora() makes anyway:
pg_dump locks every table it dumps. Two databases of its own are made, and dropped again. CPU is of the backend.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import psycopg
from psycopg import conninfo, sql
from psycopg.types.json import Jsonb

from tests.endpoint import Endpoint

ROOT = Path(__file__).resolve().parents[2]

SOURCE, TARGET = "bench_many_corpora", "bench_many_corpora_restored"
DIMENSIONS = 32
TICKS = os.sysconf("SC_CLK_TCK")
RELATIONS = (
    "SELECT count(*) FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace WHERE n.nspname ~ '^graphrag'"
)


def cpu(connection: psycopg.Connection[Any]) -> float:
    """Seconds of processor time that the session's backend has used."""
    fields = Path(f"/proc/{connection.info.backend_pid}/stat").read_text(encoding="utf-8").rsplit(")", 1)[1].split()
    return (int(fields[11]) + int(fields[12])) / TICKS


def step(name: str, count: int, connection: psycopg.Connection[Any] | None, action: Callable[[], Any]) -> Any:
    """Do something, and print what it took."""
    begin, used = time.monotonic(), cpu(connection) if connection else 0.0
    result = action()
    seconds = time.monotonic() - begin
    spent = f"{cpu(connection) - used:8.1f}" if connection else "       –"
    print(f"{name:34} {seconds:8.1f} {spent} {1000 * seconds / max(count, 1):9.1f}", flush=True)
    return result


def server(*arguments: str, stdin: str | None = None) -> str:
    """Run a program where the server runs; return what it prints."""
    command = [str(ROOT / "bin/graphrag-server"), "exec", *arguments]
    done = subprocess.run(command, input=stdin or "", text=True, stdout=subprocess.PIPE, check=True)
    return done.stdout


def only(connection: psycopg.Connection[Any], query: str) -> Any:
    row = connection.execute(query.encode()).fetchone()
    assert row is not None
    return row[0]


def measure(url: str, endpoint: Endpoint, count: int, options: dict[str, Any]) -> None:
    source, target = (conninfo.make_conninfo(url, dbname=name) for name in (SOURCE, TARGET))
    with psycopg.connect(source, autocommit=True) as connection:
        connection.execute("CREATE EXTENSION pg_graphrag CASCADE")
        empty = only(connection, RELATIONS)
        connection.execute("SELECT graphrag.set_provider('bench', 'openai', %s)", [endpoint.url])
        options |= {"embedding": {"provider": "bench", "model": "hash", "dimensions": DIMENSIONS}}
        print(f"{count} corpora, {options}\n{'':34} {'clock, s':>8} {'CPU, s':>8} {'ms/corpus':>9}")
        create = "SELECT graphrag.create_corpus('corpus ' || n, %s) FROM generate_series(1, %s) n"
        step("create_corpus", count, connection, lambda: connection.execute(create, [Jsonb(options), count]))
        insert = (
            "INSERT INTO graphrag.documents (corpus, source_key, content)"
            " SELECT c.name, 'a', format('Ada Lovelace wrote note %%s for Charles Babbage in London.', c.id)"
            "   FROM graphrag.corpora c"
        )
        step("INSERT of a document each", count, connection, lambda: connection.execute(insert, []))
        step("process_jobs", count, connection, lambda: connection.execute("CALL graphrag.process_jobs()"))
        print(f"{'relations of a corpus':34} {(only(connection, RELATIONS) - empty) / count:8.1f}")
        search = "SELECT count(*) FROM generate_series(1, %s) n, graphrag.search('Who wrote notes?', 'corpus ' || n) s"
        asked = min(200, count)
        step(f"{asked} searches, each another corpus", asked, connection, lambda: connection.execute(search, [asked]))
        try:
            step("repair()", count, connection, lambda: connection.execute("SELECT graphrag.repair()"))
        except psycopg.errors.OutOfMemory as error:
            print(f"repair(): {error.sqlstate}; {error.diag.message_hint}")
        repair = "CALL graphrag.repair_corpora()"
        print(step("CALL repair_corpora()", count, connection, lambda: only(connection, repair)))
        step(
            "process_jobs, what that queued",
            count,
            connection,
            lambda: connection.execute("CALL graphrag.process_jobs()"),
        )
        checked = (
            "SELECT count(*) FROM (SELECT k.* FROM graphrag.corpora c, graphrag.check(c.name) k WHERE c.id % 10 = 0) x"
        )
        violations = step("check() of each 10th", count // 10, connection, lambda: only(connection, checked))
        assert violations == 0, violations
    parts = ["--exclude-schema=graphrag_[0-9]*", "--exclude-table-data=ag_catalog.*"]
    dump = step("pg_dump, without graphs", count, None, lambda: server("pg_dump", *parts, "-d", inside(source)))
    print(f"{'its size':34} {len(dump) / 2**20:8.1f} MB")
    psql = ("psql", "-X", "-q", "-v", "ON_ERROR_STOP=1", "-d", inside(target))
    step("restore", count, None, lambda: server(*psql, stdin=dump))
    with psycopg.connect(target, autocommit=True) as connection:
        print(step("CALL repair_corpora(), restored", count, connection, lambda: only(connection, repair)))
        violations = only(connection, checked)
        assert violations == 0, violations
        try:
            step("uninstall()", count, connection, lambda: connection.execute("SELECT graphrag.uninstall()"))
        except psycopg.errors.OutOfMemory as error:
            print(f"uninstall(): {error.sqlstate}; {error.diag.message_hint}")
        uninstall = "CALL graphrag.uninstall_corpora()"
        step("CALL uninstall_corpora()", count, connection, lambda: connection.execute(uninstall.encode()))
        step("DROP EXTENSION", count, connection, lambda: connection.execute("DROP EXTENSION pg_graphrag"))
        connection.execute("DROP SCHEMA graphrag")
        print(f"{'relations left':34} {only(connection, RELATIONS):8}")


def inside(url: str) -> str:
    """The URL for a program in the server's root: the socket is elsewhere there."""
    parts = conninfo.conninfo_to_dict(url)
    return conninfo.make_conninfo("", dbname=parts["dbname"], user=parts["user"])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--url", required=True, help="of the server, as superuser")
    parser.add_argument("--corpora", type=int, default=2000)
    parser.add_argument("--no-cypher", action="store_true", help="corpora with the option cypher: false")
    options = parser.parse_args()
    with (
        psycopg.connect(options.url, autocommit=True) as maintenance,
        Endpoint(keep=False, dimensions=DIMENSIONS) as endpoint,
    ):
        names = [sql.Identifier(name) for name in (SOURCE, TARGET)]
        for name, template in zip(names, ("template1", "template0"), strict=True):
            maintenance.execute(sql.SQL("DROP DATABASE IF EXISTS {} WITH (FORCE)").format(name))
            maintenance.execute(sql.SQL("CREATE DATABASE {} TEMPLATE {}").format(name, sql.Identifier(template)))
        try:
            chosen = {"communities": False} | ({"cypher": False} if options.no_cypher else {})
            measure(options.url, endpoint, options.corpora, chosen)
        finally:
            for name in names:
                maintenance.execute(sql.SQL("DROP DATABASE {} WITH (FORCE)").format(name))


if __name__ == "__main__":
    main()
