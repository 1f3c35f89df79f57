"""The client behind pgbouncer in transaction mode, where the next statement may be another session's."""

import os
import shutil
import socket
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path
from threading import Event

import psycopg
import pytest
from pg_graphrag.beside.cli import worker
from pg_graphrag.beside.client import Document, GraphRAG
from psycopg.conninfo import conninfo_to_dict, make_conninfo
from psycopg.sql import SQL, Identifier

from tests.runtime.cluster import Database
from tests.sql.ingest import STORIES, new_corpus, put_all, statuses, wait_for, work

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


def test_a_worker_leaves_nothing_in_sessions_that_are_others_next(
    module_db: Database, pool: str, caplog: pytest.LogCaptureFixture
) -> None:
    corpus = new_corpus(module_db)
    put_all(module_db, corpus, STORIES)
    (name,) = module_db.execute("SELECT current_database()").fetchall()[0]
    module_db.execute(SQL("ALTER DATABASE {} SET statement_timeout = '77s'").format(Identifier(name)))
    # The pool's sessions are from before.
    module_db.execute(
        "SELECT pg_terminate_backend(pid, 5000) FROM pg_stat_activity WHERE datname = %s AND pid <> pg_backend_pid()",
        [name],
    )
    session = worker._Session(worker.Order(pool), Event(), 1)
    session.start()
    wait_for(lambda: set(statuses(module_db, corpus).values()) == {"indexed"}, "the worker")
    with psycopg.connect(pool, autocommit=True) as application:
        settings = application.execute(
            "SELECT current_setting('statement_timeout'), count(*) FROM pg_listening_channels()"
        )
        assert settings.fetchall() == [("77s", 0)]
    session.stop.set()
    session.join(20)
    module_db.execute(SQL("ALTER DATABASE {} RESET statement_timeout").format(Identifier(name)))
    assert not session.is_alive()
    assert "a pooler stands before the database" in caplog.text
