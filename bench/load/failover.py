"""Fail-over of the primary under Patroni while documents come in, workers index and searches go to replicas.

    python -m bench failover [--seconds 60] [--documents 400] [--workers 2] [--rounds 1] [--max-lag 60]

Needs the command patroni (Debian: apt-get install patroni python3-pysyncobj). Three nodes of PostgreSQL 16 with pgvector alone
(tests/runtime/versions.py), each with its Patroni, which elect by Raft; synchronous_mode: a commit is on two nodes. Beside them,
on this machine: one writer, which notes what was committed; workers; searches by `GraphRAG(url, replicas=[…])`. In each round
Patroni and PostgreSQL of the leader are killed (SIGKILL), and started again once there is another leader. All URLs name the three
nodes and ask for the one that takes writes.

"writes" and "searches": the longest time between two that succeeded. Lost: committed documents that are not there at the end.
The graph is compared with that of the same documents indexed at once in another database, by `fingerprint_sections`.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
import urllib.request
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import psycopg
from pg_graphrag import GraphRAG
from pg_graphrag.beside.process import schema

from tests.runtime import versions
from tests.runtime.cluster import free_port

ROOT = Path(__file__).resolve().parents[2]

NODES = 3
VERSION = "16"
PASSWORD = "bench"
OWNER = "bench_owner"
DATABASE = "bench_failover"
CONFIG = """
scope: bench
name: node{number}
restapi: {{listen: '127.0.0.1:{rest}', connect_address: '127.0.0.1:{rest}'}}
raft: {{data_dir: '{folder}/raft', self_addr: '127.0.0.1:{raft}', partner_addrs: [{partners}]}}
bootstrap:
  dcs:
    ttl: 20
    loop_wait: 2
    retry_timeout: 3
    synchronous_mode: true
    maximum_lag_on_failover: 1048576
    postgresql: {{use_pg_rewind: true, parameters: {{wal_log_hints: 'on', max_connections: 100}}}}
  initdb: [{{encoding: UTF8}}, {{locale: C}}, data-checksums]
postgresql:
  listen: '127.0.0.1:{port}'
  connect_address: '127.0.0.1:{port}'
  data_dir: '{folder}/data'
  bin_dir: '{binaries}'
  pgpass: '{folder}/pgpass'
  authentication:
    superuser: {{username: postgres, password: {password}}}
    replication: {{username: replicator, password: {password}}}
    rewind: {{username: postgres, password: {password}}}
  parameters: {{unix_socket_directories: '', shared_buffers: 128MB, jit: 'off'}}
  pg_hba: ['host all all 127.0.0.1/32 scram-sha-256', 'host replication all 127.0.0.1/32 scram-sha-256']
"""


class Node:
    """One node: its ports, its configuration, its Patroni while that runs."""

    def __init__(self, number: int, folder: Path) -> None:
        self.number = number
        self.folder = folder / f"node{number}"
        self.port, self.rest, self.raft = (free_port() for _ in range(3))
        self.process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        user: dict[str, Any] = {}
        if os.geteuid() == 0:
            user = {"user": versions._NOBODY, "group": versions._NOBODY, "extra_groups": []}
        with (self.folder / "log").open("ab") as log:
            self.process = subprocess.Popen(
                ["patroni", str(self.folder / "patroni.yml")],
                stdout=log,
                stderr=log,
                cwd="/",
                start_new_session=True,
                **user,
            )

    def kill(self) -> None:
        """SIGKILL Patroni and PostgreSQL, as when the machine is gone."""
        assert self.process is not None
        pids = [self.process.pid]
        with suppress(FileNotFoundError, IndexError):
            postmaster = int((self.folder / "data/postmaster.pid").read_text().splitlines()[0])
            pids += [postmaster, *map(int, Path(f"/proc/{postmaster}/task/{postmaster}/children").read_text().split())]
        for pid in pids:
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        self.process.wait()

    def role(self) -> str:
        """What Patroni says it is, or "" where it does not answer."""
        try:
            with urllib.request.urlopen(f"http://127.0.0.1:{self.rest}/patroni", timeout=2) as reply:
                state = json.load(reply)
        except urllib.error.HTTPError as error:
            state = json.load(error)
        except (OSError, ValueError):
            return ""
        return str(state.get("role")) if state.get("state") in ("running", "streaming") else ""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--url", help="not used: the nodes are this script's own")
    parser.add_argument("--data", type=Path, default=ROOT.parent / "shared/data")
    parser.add_argument("--documents", type=int, default=400)
    parser.add_argument("--seconds", type=float, default=60, help="of one round")
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--rounds", type=int, default=1)
    parser.add_argument("--max-lag", type=float, default=60, help="of a replica, seconds")
    options = parser.parse_args()
    if shutil.which("patroni") is None:
        sys.exit("patroni is not installed: apt-get install patroni python3-pysyncobj")
    lines = (options.data / "musique/docs.jsonl").read_text(encoding="utf-8").splitlines()[: options.documents]
    passages = [json.loads(line) for line in lines]
    folder = Path(tempfile.mkdtemp(prefix="pg_graphrag-failover-"))
    nodes = [Node(number, folder) for number in range(1, NODES + 1)]
    try:
        prepare(folder, nodes)
        measure(nodes, passages, options)
    finally:
        for node in nodes:
            if node.process is not None:
                node.kill()
        shutil.rmtree(folder, ignore_errors=True)


def prepare(folder: Path, nodes: list[Node]) -> None:
    """Start the nodes, and wait until one leads and two follow."""
    folder.chmod(0o755)
    package = versions._package()
    for part in (f"{package.name}/{versions.FOLDERS[VERSION]}", f"{package.name}.libs"):
        shutil.copytree(package.parent / part, folder / part)
    for node in nodes:
        node.folder.mkdir(mode=0o700)
        partners = ", ".join(f"'127.0.0.1:{other.raft}'" for other in nodes if other is not node)
        (node.folder / "patroni.yml").write_text(
            CONFIG.format(
                **vars(node),
                partners=partners,
                password=PASSWORD,
                binaries=folder / package.name / versions.FOLDERS[VERSION] / "bin",
            )
        )
        if os.geteuid() == 0:
            for path in (node.folder, node.folder / "patroni.yml"):
                os.chown(path, versions._NOBODY, versions._NOBODY)
        node.start()
    wait_for(lambda: sorted(node.role() for node in nodes) in (STANDING, OLD_STANDING), "three nodes", 180)


# What Patroni calls the leader depends on its version.
STANDING = ["primary", "replica", "replica"]
OLD_STANDING = ["master", "replica", "replica"]


def leader(nodes: list[Node]) -> Node | None:
    return next((node for node in nodes if node.role() in ("primary", "master")), None)


def wait_for(condition: Callable[[], Any], what: str, seconds: float) -> Any:
    deadline = time.monotonic() + seconds
    while not (value := condition()):
        if time.monotonic() > deadline:
            raise TimeoutError(what)
        time.sleep(0.1)
    return value


def url_of(nodes: list[Node], user: str, database: str = DATABASE) -> str:
    """The URL of whichever node takes writes."""
    hosts = ",".join(f"127.0.0.1:{node.port}" for node in nodes)
    return f"postgresql://{user}:{PASSWORD}@{hosts}/{database}?target_session_attrs=read-write&connect_timeout=2"


class Calls:
    """Calls again and again in a thread; what failed is tried again. `gap`: the longest time between two that succeeded."""

    def __init__(self, call: Callable[[], Any]) -> None:
        self._call = call
        self.count = self.failures = 0
        self.gap = 0.0
        self._last = time.monotonic()
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run)
        self._thread.start()

    def _run(self) -> None:
        while not self._stop.is_set():
            try:
                if self._call() is False:
                    return
            except psycopg.Error:
                self.failures += 1
                time.sleep(0.1)
                continue
            now = time.monotonic()
            self.gap = max(self.gap, now - self._last)
            self._last = now
            self.count += 1

    def end(self) -> None:
        self._stop.set()
        self._thread.join()


def measure(nodes: list[Node], passages: list[dict[str, Any]], options: argparse.Namespace) -> None:
    with psycopg.connect(url_of(nodes, "postgres", "postgres"), autocommit=True) as superuser:
        for role in ("graphrag_member", "graphrag_reader", "graphrag_writer"):
            superuser.execute(
                f"CREATE ROLE {role} NOLOGIN {'IN ROLE graphrag_member' * (role != 'graphrag_member')}".encode()
            )
        superuser.execute(f"CREATE ROLE {OWNER} LOGIN PASSWORD '{PASSWORD}'".encode())
        for database in (DATABASE, f"{DATABASE}_once"):
            superuser.execute(f"CREATE DATABASE {database}".encode())
            with psycopg.connect(url_of(nodes, "postgres", database), autocommit=True) as connection:
                connection.execute("CREATE EXTENSION vector")
                connection.execute(f"GRANT CREATE ON DATABASE {database} TO {OWNER}".encode())
            with psycopg.connect(url_of(nodes, OWNER, database), autocommit=True) as connection:
                schema.install(connection)
    url = url_of(nodes, OWNER)
    replicas = [f"postgresql://{OWNER}:{PASSWORD}@127.0.0.1:{node.port}/{DATABASE}" for node in nodes]
    with GraphRAG(url) as rag:
        rag.create_corpus(communities=False)
    environment = os.environ | {"PYTHONPATH": str(ROOT / "python"), "PG_GRAPHRAG_URL": url}
    with tempfile.TemporaryFile() as log:
        worker = subprocess.Popen(
            [sys.executable, "-m", "pg_graphrag.beside.cli", "worker", "--concurrency", str(options.workers)],
            env=environment,
            stderr=log,
        )
        try:
            rounds(nodes, url, replicas, passages, options)
        finally:
            worker.terminate()
            worker.wait()
    compare(nodes, url, passages)


def rounds(
    nodes: list[Node], url: str, replicas: list[str], passages: list[dict[str, Any]], options: argparse.Namespace
) -> None:
    committed: set[str] = set()
    waiting = iter(passages)
    current: list[dict[str, Any]] = []
    pause = 0.8 * options.seconds * options.rounds / len(passages)

    def write() -> bool:
        if not current:
            passage = next(waiting, None)
            if passage is None:
                return False
            current.append(passage)
        row = current[0]
        writer.insert({"source_key": row["id"], "title": row["title"], "content": row["text"]})
        committed.add(row["id"])
        current.clear()
        time.sleep(pause)
        return True

    with GraphRAG(url) as writer, GraphRAG(url, replicas=replicas, max_lag=options.max_lag) as reader:
        writing, searching = Calls(write), Calls(lambda: reader.search("Who founded the company?", mode="bm25"))
        for number in range(1, options.rounds + 1):
            time.sleep(options.seconds / 3)
            old = leader(nodes)
            assert old is not None
            begin = time.monotonic()
            old.kill()
            new = wait_for(lambda old=old: leader([node for node in nodes if node is not old]), "another leader", 120)
            elected = time.monotonic() - begin
            time.sleep(max(options.seconds * 2 / 3 - elected, 0))
            old.start()
            wait_for(lambda old=old: old.role() == "replica", "the old leader as a replica", 180)
            print(f"round {number}: node {old.number} killed, node {new.number} leads after {elected:.1f} s, back after "
                  f"{time.monotonic() - begin:.0f} s")  # fmt: skip
        wait_for(lambda: len(committed) == len(passages), "the last document", 300)
        writing.end()
        searching.end()
        print(f"writes: {writing.count}, failed {writing.failures}, longest gap {writing.gap:.1f} s")
        print(f"searches: {searching.count}, failed {searching.failures}, longest gap {searching.gap:.1f} s")
        wait_for(lambda: settled(writer), "the queue", 900)
        with psycopg.connect(url) as connection:
            there = {key for (key,) in connection.execute("SELECT source_key FROM graphrag.documents").fetchall()}
        print(f"committed {len(committed)}, lost {len(committed - there)}, indexed {writer.progress().indexed}")


def settled(rag: GraphRAG) -> bool:
    try:
        with psycopg.connect(rag._source) as connection:  # type: ignore[arg-type]
            return connection.execute("SELECT NOT EXISTS (SELECT FROM graphrag.jobs)").fetchone() == (True,)
    except psycopg.Error:
        return False


def compare(nodes: list[Node], url: str, passages: list[dict[str, Any]]) -> None:
    with GraphRAG(url) as rag, GraphRAG(url_of(nodes, OWNER, f"{DATABASE}_once")) as once:
        once.create_corpus(communities=False)
        once.insert({"source_key": row["id"], "title": row["title"], "content": row["text"]} for row in passages)
        once.process_jobs()
        sections = [{row["section"]: row["hash"] for row in side.call("fingerprint_sections")} for side in (rag, once)]
        different = [name for name in sections[1] if sections[0].get(name) != sections[1][name]]
        print(f"check: {rag.call('check') or 'nothing'}; fingerprint beside indexed at once: {different or 'equal'}")


if __name__ == "__main__":
    main()
