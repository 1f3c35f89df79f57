"""The client behind pgbouncer in transaction mode, where the next statement may be another session's."""

from __future__ import annotations

import os
import shutil
import socket
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

import psycopg
import pytest
from pg_graphrag.client import Document, GraphRAG
from psycopg.conninfo import conninfo_to_dict, make_conninfo

from tests.runtime.cluster import Database
from tests.sql.ingest import new_corpus, work

PGBOUNCER = os.environ.get("GRAPHRAG_PGBOUNCER") or shutil.which("pgbouncer")
if PGBOUNCER is None:
    pytest.skip("no pgbouncer: apt-get install pgbouncer, or set GRAPHRAG_PGBOUNCER", allow_module_level=True)


@pytest.fixture(scope="module")
def pool(module_db: Database, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """A URL of pgbouncer in transaction mode, with two sessions of the server."""
    folder: Path = tmp_path_factory.mktemp("pgbouncer")
    target = conninfo_to_dict(module_db.url)
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    settings = folder / "pgbouncer.ini"
    server = make_conninfo(**{name: target[name] for name in ("host", "port", "user", "password") if name in target})
    settings.write_text(
        f"[databases]\n* = {server}\n[pgbouncer]\nlisten_addr = 127.0.0.1\nlisten_port = {port}\nunix_socket_dir =\n"
        "auth_type = any\npool_mode = transaction\ndefault_pool_size = 2\n"
    )
    folder.chmod(0o755)
    settings.chmod(0o644)
    command = [str(PGBOUNCER), str(settings)] + (["-u", "nobody"] if os.geteuid() == 0 else [])
    process = subprocess.Popen(command, stderr=subprocess.DEVNULL)
    url = make_conninfo(
        host="127.0.0.1", port=port, dbname=str(target["dbname"]), user=str(target.get("user", "postgres"))
    )
    try:
        for _ in range(100):
            try:
                psycopg.connect(url).close()
                break
            except psycopg.OperationalError:
                time.sleep(0.1)
        yield url
    finally:
        process.terminate()
        process.wait()


def test_every_call_works_whichever_session_it_meets(module_db: Database, pool: str) -> None:
    corpus = new_corpus(module_db)
    # Takes a session now and then, so that the calls change theirs.
    with GraphRAG(pool, corpus=corpus) as client, psycopg.connect(pool, prepare_threshold=None) as other:
        client.insert([Document("Ada Lovelace wrote notes.", source_key=f"{n}") for n in range(3)])
        work(module_db)
        for n in range(30):
            if n % 3 == 0:
                other.execute("SELECT 1")
            elif n % 3 == 2:
                other.rollback()
            assert client.search("Ada Lovelace", mode="bm25")
            client.insert([Document(f"Alan Turing read page {n}.", source_key=f"page {n}")])
            assert client.wait_indexed(["0"]).indexed == 1
    ((count,),) = module_db.execute("SELECT count(*) FROM graphrag.documents WHERE corpus = %s", [corpus]).fetchall()
    assert count == 33


def test_a_pool_of_ones_own_that_prepares_works_too(module_db: Database, pool: str) -> None:
    corpus = new_corpus(module_db)
    with psycopg.connect(pool, autocommit=True) as first, psycopg.connect(pool, autocommit=True) as two:
        for _ in range(10):
            assert GraphRAG(first, corpus=corpus).search("Ada") == GraphRAG(two, corpus=corpus).search("Ada") == []
