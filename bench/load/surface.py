"""What all that users call takes as a corpus grows: processor time at three sizes, and the exponent of its growth.

    python -m bench surface [--sizes 100 400 1600] [--states usual removals …] [--only graph_nodes check …] [--all]

So many rows of an attached table, with aliases and a foreign key, and as many tickets that name them. Views and functions are
read from the catalog (public_surface.py has their usual arguments), with what the pages, exports and docs/bi.md send. Each
runs in a transaction that is rolled back, as the owner and as a reader of every other ticket and row. The figure is the
processor time of the backend (getrusage). Against noise: sizes in turns, in sessions of their own, the least of two to five
turns; what fails narrowly gets as many again.

The exponent is log(t2 / t1) / log(s2 / s1) of neighbouring sizes; the greatest counts of those where t2 is above 20 ms. Above
1.15 (more where public_surface.py says why), with an error or past --timeout a call fails, and so does this command. What ran
into --timeout is not run at a larger size.

States: usual (VACUUM ANALYZE), before ANALYZE, pg_stat_reset, removals (a tenth of the tickets deleted, and no worker came), no
rows (the tickets alone), restored (pg_dump, pg_restore, repair(); on the server of this checkout alone). Databases of its own are
made, and dropped again without --keep.
"""

from __future__ import annotations

import argparse
import itertools
import math
import os
import subprocess
import sys
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import psycopg
from pg_graphrag.ground.errors import GraphRAGError
from psycopg import conninfo, sql

from bench.load.public_surface import LEFT_OUT, OTHER_ROLE, READER, STEPS, WITHOUT_AUTOVACUUM, Call, calls, fill

ROOT = Path(__file__).resolve().parents[2]
DATABASE = "bench_surface"
MOST_EXPONENT, MOST_MS = 1.15, 20.0
# From which exponent on a call need not be looked at again.
CLEAR = 1.6
# Turns of a call at most; what takes longer gets two.
TURNS, SECONDS = 5, 1.0
PROCESSOR = """
CREATE FUNCTION public.processor_ms() RETURNS float8 LANGUAGE plpython3u AS $$
    from resource import RUSAGE_SELF, getrusage
    used = getrusage(RUSAGE_SELF)
    return 1000 * (used.ru_utime + used.ru_stime)
$$
"""
Connection = psycopg.Connection[Any]


@dataclass
class Measured:
    """What one call took, by size; infinite: longer than the time-out."""

    call: Call
    ms: dict[int, float] = field(default_factory=dict)
    error: str = ""

    @property
    def exponent(self) -> float:
        """Return how it grew between neighbouring sizes, as far as the larger took long enough to tell."""
        sizes = sorted(self.ms)
        return max(
            (
                math.log(self.ms[larger] / self.ms[size]) / math.log(larger / size)
                for size, larger in itertools.pairwise(sizes)
                if self.ms[larger] > MOST_MS
            ),
            default=0.0,
        )

    @property
    def fails(self) -> bool:
        most, _ = STEPS.get(self.call.name.partition("(")[0], (MOST_EXPONENT, ""))
        return bool(self.error) or math.inf in self.ms.values() or self.exponent > most

    @property
    def line(self) -> str:
        figures = " ".join(f"{ms:9.1f}" for _, ms in sorted(self.ms.items()))
        told = self.error or f"{figures} {self.exponent:6.2f}"
        return f"{'FAILS' if self.fails else '     '} {self.call.name[:80]:80} {told}"


def used(connection: Connection) -> float:
    ((ms,),) = connection.execute("SELECT public.processor_ms()").fetchall()
    return float(ms)


def once(connection: Connection, call: Call, timeout: float) -> float:
    """Return the milliseconds of the backend's processor for one run; the busier the machine, the longer it may last."""
    busy = max(1.0, os.getloadavg()[0] / (os.cpu_count() or 1))
    connection.execute(f"SET statement_timeout = {round(1000 * timeout * busy)}".encode())
    try:
        before = used(connection)
        call.run(connection)
        return used(connection) - before
    except psycopg.errors.QueryCanceled:
        return math.inf
    finally:
        connection.execute("SET statement_timeout = 0")


def take_turns(measured: Measured, sessions: dict[int, Connection], turns: int, timeout: float) -> None:
    """Run a call at all sizes in turns, and keep the least; the second turn is the first with warm memory."""
    for turn in range(turns):
        spent = 0.0
        for size, session in sessions.items():
            if math.inf in measured.ms.values():
                return
            ms = once(session, measured.call, timeout)
            measured.ms[size] = min(ms, measured.ms.get(size, math.inf))
            spent += ms
        if turn > 0 and spent > 1000 * SECONDS:
            return


def measure(urls: dict[int, str], role: str, options: argparse.Namespace) -> int:
    """Run what a role may call, and print it; return how much fails."""
    failed = count = 0
    with ExitStack() as stack:
        sessions = {size: stack.enter_context(psycopg.connect(url, autocommit=True)) for size, url in urls.items()}
        owner = next(iter(sessions.values()))
        wanted = calls(owner, role or str(owner.info.user))
        for session in sessions.values():
            session.execute("SET client_min_messages = error; SET max_parallel_workers_per_gather = 0")
            if role:
                session.execute(sql.SQL("SET SESSION AUTHORIZATION {}").format(sql.Identifier(role)))
        for call in wanted:
            if options.only and not any(call.name.startswith(name) for name in options.only):
                continue
            measured = Measured(call)
            try:
                take_turns(measured, sessions, TURNS, options.timeout)
                if measured.fails and measured.exponent < CLEAR:
                    take_turns(measured, sessions, TURNS, options.timeout)
            except psycopg.errors.InsufficientPrivilege as error:
                # A few refuse others than the owner themselves.
                if role:
                    continue
                measured.error = str(error)
            except (psycopg.Error, GraphRAGError) as error:
                measured.error = " ".join(str(error).split())[:150]
            count, failed = count + 1, failed + measured.fails
            if options.all or measured.fails:
                print(measured.line, flush=True)
    print(f"{count} calls, {failed} fail; load {os.getloadavg()[0]:.1f}", flush=True)
    return failed


def analyze(connection: Connection) -> None:
    connection.execute("VACUUM ANALYZE")


def remove(connection: Connection) -> None:
    analyze(connection)
    connection.execute("DELETE FROM graphrag.documents WHERE source_key ~ '^ticket/.*7$'")


def reset(connection: Connection) -> None:
    analyze(connection)
    connection.execute("SELECT pg_stat_reset()")


STATES: dict[str, Callable[[Connection], None]] = {
    "usual": analyze,
    "before ANALYZE": lambda connection: None,
    "pg_stat_reset": reset,
    "removals": remove,
    "no rows": analyze,
    "restored": lambda connection: None,
}


def server(command: str) -> None:
    """Run a command where the checkout's server runs."""
    subprocess.run([str(ROOT / "bin/graphrag-server"), "exec", "sh", "-c", command], check=True)


def restore(url: str, source: str, target: str) -> None:
    """Copy a database by pg_dump and pg_restore."""
    source_url, target_url = (conninfo.make_conninfo(url, dbname=name) for name in (source, target))
    server(f"pg_dump -Fc '{source_url}' | pg_restore -d '{target_url}'")
    with psycopg.connect(target_url, autocommit=True) as connection:
        # Plans with statistics and without differ by a third, which is as much as an exponent of .2.
        connection.execute(WITHOUT_AUTOVACUUM)
        connection.execute("SELECT graphrag.repair()")
        connection.execute("CALL graphrag.process_jobs()")


class Databases:
    """A database for each size, with rows and without, and copies of them in a state."""

    def __init__(self, url: str) -> None:
        self._url = url
        self.made: set[str] = set()

    def url(self, name: str) -> str:
        return conninfo.make_conninfo(self._url, dbname=name)

    def copy(self, state: str, size: int) -> str:
        """Return the URL of a new copy of the database of a size, in a state."""
        source, target = self._filled(size, state != "no rows"), f"{DATABASE}_copy_{size}"
        if state == "restored":
            self._make(target, "template0")
            restore(self._url, source, target)
        else:
            self._make(target, source)
        with psycopg.connect(self.url(target), autocommit=True) as connection:
            STATES[state](connection)
        return self.url(target)

    def drop(self) -> None:
        with psycopg.connect(self._url, autocommit=True) as connection:
            for name in self.made:
                connection.execute(f"DROP DATABASE IF EXISTS {name} WITH (FORCE)".encode())
            connection.execute(f"DROP ROLE IF EXISTS {READER}, {OTHER_ROLE}".encode())

    def _make(self, name: str, template: str) -> None:
        self.made.add(name)
        with psycopg.connect(self._url, autocommit=True) as connection:
            connection.execute(f"DROP DATABASE IF EXISTS {name} WITH (FORCE)".encode())
            connection.execute(f"CREATE DATABASE {name} TEMPLATE {template}".encode())

    def _filled(self, size: int, rows: bool) -> str:
        name = f"{DATABASE}_{size}" + ("" if rows else "_no_rows")
        if name not in self.made:
            self._make(name, "template1")
            with psycopg.connect(self.url(name), autocommit=True) as connection:
                connection.execute("CREATE EXTENSION pg_graphrag CASCADE")
                connection.execute(PROCESSOR)
                fill(connection, [size], rows)
        return name


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--url", required=True, help="of the server, as superuser")
    parser.add_argument("--sizes", type=int, nargs="+", default=[100, 400, 1600])
    parser.add_argument("--states", nargs="+", choices=STATES, default=["usual"])
    parser.add_argument("--only", nargs="+", help="beginnings of the names of what is measured")
    parser.add_argument("--timeout", type=float, default=5.0, help="seconds after which a call is ended (5)")
    parser.add_argument("--all", action="store_true", help="print what does not fail, too")
    parser.add_argument("--keep", action="store_true", help="keep the databases")
    options = parser.parse_args()
    print(f"ms of the processor at {', '.join(map(str, options.sizes))} rows and tickets, and the exponent")
    for name, reason in LEFT_OUT.items():
        print(f"left out: {name}() {reason}")
    for name, (most, reason) in STEPS.items():
        print(f"up to {most}: {name}() {reason}")
    databases, failed = Databases(options.url), 0
    try:
        for state in options.states:
            urls = {size: databases.copy(state, size) for size in options.sizes}
            for role, who in (("", "owner"), (READER, "reader of a part")):
                print(f"\n{state}, {who}:", flush=True)
                failed += measure(urls, role, options)
    finally:
        if not options.keep:
            databases.drop()
    sys.exit(1 if failed else 0)


if __name__ == "__main__":
    main()
