"""A server that restarts under ``pg-graphrag serve``: no request fails that has done nothing yet."""

from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import psycopg
import pytest
from pg_graphrag.beside.serve import caller_database
from psycopg.conninfo import make_conninfo

from tests.runtime.cluster import Cluster, Database
from tests.serve.serving import OWNER, Serving, serving

CONNECTIONS = 4


@pytest.fixture
def named(db: Database) -> str:
    """A URL whose sessions can be told from others."""
    return make_conninfo(db.url, application_name="pages")


@pytest.fixture
def server(db: Database, named: str) -> Iterator[Serving]:
    db.execute("SELECT graphrag.create_corpus('default')")
    with serving(named, connections=CONNECTIONS) as address:
        yield address


def fill_pool(served: caller_database.Database) -> None:
    """Have the pool make all its connections."""
    connections = [served._pool.getconn() for _ in range(CONNECTIONS)]
    for connection in connections:
        served._pool.putconn(connection)


def end_sessions(db: Database) -> int:
    ended = db.execute("SELECT pg_terminate_backend(pid, 60000) FROM pg_stat_activity WHERE application_name = 'pages'")
    return len(ended.fetchall())


def test_requests_after_a_restart_get_connections_that_live(db: Database, server: Serving) -> None:
    with server.client() as client:

        def ask(_: int) -> int:
            return client.get("/api/documents").status_code

        with ThreadPoolExecutor(CONNECTIONS) as threads:
            assert set(threads.map(ask, range(4 * CONNECTIONS))) == {200}
            assert end_sessions(db)
            assert set(threads.map(ask, range(4 * CONNECTIONS))) == {200}


def test_a_call_takes_the_next_connection_until_one_lives(db: Database, named: str) -> None:
    served = caller_database.Database(named, CONNECTIONS, 1, [OWNER], 10)
    served.open()
    try:
        fill_pool(served)
        assert end_sessions(db) == CONNECTIONS
        with served.connection(OWNER) as connection:
            assert connection.execute("SELECT 1").fetchone() == (1,)
    finally:
        served.close()


def test_a_server_that_is_gone_is_named_and_asked_again(
    cluster: Callable[..., Cluster], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(caller_database, "PATIENCE", 1.5)
    own_cluster = cluster()
    url = own_cluster.create_database("pages")
    with psycopg.connect(url, autocommit=True) as db:
        db.execute("CREATE EXTENSION pg_graphrag CASCADE")
    with serving(url, connections=1) as server, server.client() as client:
        assert client.get("/api/documents").status_code == 200
        own_cluster.stop("immediate")
        for _ in range(2):
            reply: Any = client.get("/api/documents")
            assert (reply.status_code, reply.json()["code"]) == (503, "08006")
        own_cluster.start()
        replies = [client.get("/api/documents").status_code for _ in range(3)]
        assert 200 in replies
        assert replies[-1] == 200
