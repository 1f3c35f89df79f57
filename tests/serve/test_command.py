"""``pg-graphrag serve`` as a command: its address, its worker, its end."""

import os
import signal
import subprocess
import sys
from pathlib import Path

import httpx2
import pytest

from tests.runtime.cluster import Database
from tests.sql.ingest import new_corpus, put, value, wait_for


def children(pid: int) -> list[int]:
    listed = Path(f"/proc/{pid}/task/{pid}/children").read_text()
    return [int(child) for child in listed.split()]


def is_gone(pid: int) -> bool:
    try:
        return "State:\tZ" in Path(f"/proc/{pid}/status").read_text()
    except FileNotFoundError:
        return True


@pytest.mark.sample(1)
@pytest.mark.parametrize("how", [signal.SIGTERM, signal.SIGINT, signal.SIGKILL])
def test_the_worker_ends_with_the_server_however_that_ends(module_db: Database, how: signal.Signals) -> None:
    corpus = new_corpus(module_db)
    command = [sys.executable, "-m", "pg_graphrag.beside.cli", "serve", "--worker", "--port", "0", "--corpus", corpus]
    server = subprocess.Popen([*command, "--url", module_db.url], stdout=subprocess.PIPE, text=True, env=os.environ)
    try:
        assert server.stdout is not None
        address, token = server.stdout.readline().strip().split("#token=")
        assert httpx2.get(f"{address}healthz", timeout=60).status_code == 200
        put(module_db, corpus, "ada", "Ada Lovelace wrote notes.")
        indexed = "SELECT count(*) FROM graphrag.documents WHERE corpus = %s AND status = 'indexed'"
        wait_for(lambda: value(module_db, indexed, corpus) == 1, "the worker")
        reply = httpx2.get(f"{address}api/corpora", headers={"authorization": f"Bearer {token}"})
        assert reply.status_code == 200
        workers = children(server.pid)
        assert workers
        server.send_signal(how)
        assert server.wait(30) in (0, 130, -how)
        wait_for(lambda: all(map(is_gone, workers)), "the end of the worker")
    finally:
        server.kill()
        server.wait()


def test_a_database_that_cannot_serve_ends_the_start_at_once_with_its_reason(module_db: Database) -> None:
    url = f"{module_db.url.rpartition('/')[0]}/nowhere"
    command = [sys.executable, "-m", "pg_graphrag.beside.cli", "serve", "--port", "0", "--url", url]
    ended = subprocess.run(command, capture_output=True, text=True, env=os.environ, timeout=60)
    assert (ended.returncode, ended.stdout) == (1, "")
    assert ended.stderr.startswith("pg-graphrag: ") and 'database "nowhere" does not exist' in ended.stderr
    assert "Traceback" not in ended.stderr
