"""Searches of a client go to replicas within a bound of their lag, and fall back; on both hosts."""

import time
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import psycopg
import pytest
from pg_graphrag import GraphRAG
from pg_graphrag.beside.client import blocking
from psycopg.conninfo import conninfo_to_dict, make_conninfo

from tests.runtime.cluster import Cluster, Database, Runtime
from tests.sql.ingest import STORIES, wait_for
from tests.sql.two_hosts import plain_database

QUESTION = "Who admired Ada Lovelace at Harvard?"


@dataclass
class Servers:
    primary: Cluster
    replicas: list[Cluster]

    def urls(self, url: str) -> list[str]:
        """A database of the primary at each replica."""
        return [make_conninfo(url, port=replica.port) for replica in self.replicas]

    def catch_up(self) -> None:
        with self.primary.connect() as connection:
            (last,) = connection.execute("SELECT pg_current_wal_lsn()::text").fetchone() or ("",)
        caught_up = "SELECT pg_last_wal_replay_lsn() >= %s::pg_lsn"
        for replica in self.replicas:
            with replica.connect() as connection:
                wait_for(lambda c=connection: (c.execute(caught_up, [last]).fetchone() or (False,))[0], "a replica")


@pytest.fixture(scope="module")
def servers(runtime: Runtime) -> Iterator[Servers]:
    primary = Cluster(runtime)
    replicas: list[Cluster] = []
    try:
        replicas += [Cluster(runtime, primary=primary) for _ in range(2)]
        yield Servers(primary, replicas)
    finally:
        for cluster in (*replicas, primary):
            cluster.close()


@pytest.fixture(params=["server", pytest.param("process", marks=pytest.mark.slow)])
def url(request: pytest.FixtureRequest, servers: Servers) -> Iterator[str]:
    """A database of the primary with documents, by its owner, on either host."""
    if request.param == "process":
        with plain_database(servers.primary) as url:
            fill(url, servers)
            yield url
        return
    with Database.open(servers.primary.create_database("app")) as connection:
        connection.execute("CREATE EXTENSION pg_graphrag CASCADE")
        fill(connection.url, servers)
        yield connection.url
    servers.primary.drop_database("app")


def fill(url: str, servers: Servers) -> None:
    with GraphRAG(url) as rag:
        rag.create_corpus(communities=False)
        rag.insert({"source_key": key, "content": text} for key, text in STORIES.items())
        rag.process_jobs()
    servers.catch_up()


def sessions(cluster: Cluster, url: str) -> int:
    """Sessions of clients in a database."""
    with cluster.connect() as connection:
        row = connection.execute(
            "SELECT count(*) FROM pg_stat_activity WHERE datname = %s AND backend_type = 'client backend'",
            [conninfo_to_dict(url)["dbname"]],
        ).fetchone()
    assert row is not None
    return int(row[0])


def test_searches_go_to_one_replica_after_the_other_and_writes_to_the_primary(servers: Servers, url: str) -> None:
    before = sessions(servers.primary, url)
    with GraphRAG(url) as plain, GraphRAG(url, replicas=servers.urls(url)) as rag:
        calls: list[Any] = [
            lambda client: client.search(QUESTION),
            lambda client: client.context(QUESTION),
            lambda client: client.search_entities(QUESTION),
            lambda client: client.search_relationships(QUESTION),
            lambda client: client.neighbors("Ada Lovelace"),
        ]
        rows = [call(rag) for call in calls]
        assert [sessions(replica, url) for replica in servers.replicas] == [1, 1]
        assert sessions(servers.primary, url) == before
        assert rows == [call(plain) for call in calls]
        rag.insert({"source_key": "new", "content": "Ada Lovelace left Harvard to Grace Hopper."})
        rag.process_jobs()
        assert rag.progress().indexed == len(STORIES) + 1


@pytest.mark.slow
def test_a_replica_that_is_behind_is_not_asked(servers: Servers, url: str) -> None:
    for replica in servers.replicas:
        with replica.connect() as connection:
            connection.execute("SELECT pg_wal_replay_pause()")
    try:
        with (
            GraphRAG(url, replicas=servers.urls(url), max_lag=0.2) as near,
            GraphRAG(url, replicas=servers.urls(url), max_lag=3600.0) as far,
        ):
            near.insert({"source_key": "new", "content": "Ada Lovelace left Harvard to Grace Hopper."})
            near.process_jobs()
            time.sleep(blocking.LOOK_SECONDS + 0.2)
            assert "new" in {row.source_key for row in near.search(QUESTION)}
            assert "new" not in {row.source_key for row in far.search(QUESTION)}
    finally:
        for replica in servers.replicas:
            with replica.connect() as connection:
                connection.execute("SELECT pg_wal_replay_resume()")
    servers.catch_up()
    with GraphRAG(url, replicas=servers.urls(url), max_lag=0.2) as near:
        assert "new" in {row.source_key for row in near.search(QUESTION)}
        assert sum(sessions(replica, url) for replica in servers.replicas) >= 1


@pytest.mark.slow
def test_replicas_that_fail_cost_time_alone(servers: Servers, url: str) -> None:
    with GraphRAG(url) as plain, GraphRAG(url, replicas=servers.urls(url)) as rag:
        expected = plain.search(QUESTION)
        assert rag.search(QUESTION) == rag.search(QUESTION) == expected
        try:
            for replica in servers.replicas:
                replica.kill()
                assert [rag.search(QUESTION) for _ in range(3)] == [expected] * 3
        finally:
            for replica in servers.replicas:
                replica.start()
        wait_for(
            lambda: rag.search(QUESTION) and sum(sessions(replica, url) for replica in servers.replicas), "a replica"
        )


@pytest.mark.slow
def test_errors_of_the_call_are_no_failures_of_a_replica(servers: Servers, url: str) -> None:
    with GraphRAG(url, replicas=servers.urls(url)) as rag, pytest.raises(psycopg.errors.InvalidParameterValue):
        rag.search(QUESTION, mode="nonsense")
