"""A connection of the package's own notices within minutes that the network went silent; Linux would take two hours."""

import socket
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import psycopg
import pytest
from pg_graphrag import GraphRAG
from pg_graphrag.beside.cli.open_database import connect
from pg_graphrag.beside.serve.caller_database import Database as Served
from psycopg.conninfo import make_conninfo

from tests.runtime.cluster import Database

LONGEST_SECONDS = 180
pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="asks Linux for the options of a socket")


def option(connection: psycopg.Connection[Any], number: int) -> int:
    with socket.fromfd(connection.pgconn.socket, socket.AF_INET, socket.SOCK_STREAM) as end:
        return end.getsockopt(socket.IPPROTO_TCP, number)


def seconds_to_notice(connection: psycopg.Connection[Any]) -> tuple[float, float]:
    """How long the silence of a server lasts that nothing is sent to, and of one that does not take what is sent."""
    waiting = option(connection, socket.TCP_KEEPIDLE)
    waiting += option(connection, socket.TCP_KEEPINTVL) * option(connection, socket.TCP_KEEPCNT)
    sending = option(connection, socket.TCP_USER_TIMEOUT) / 1000
    return waiting, sending or float("inf")


@contextmanager
def of_the_command(url: str) -> Iterator[psycopg.Connection[Any]]:
    with connect(url) as connection:
        yield connection


@contextmanager
def of_the_client(url: str) -> Iterator[psycopg.Connection[Any]]:
    with GraphRAG(url) as rag, rag._connection() as connection:
        yield connection


@contextmanager
def of_the_pages(url: str) -> Iterator[psycopg.Connection[Any]]:
    served = Served(url, 1, 1, [], 10)
    served.open()
    try:
        with served._pool.connection() as connection:
            yield connection
    finally:
        served.close()


@pytest.mark.parametrize("open_one", [of_the_command, of_the_client, of_the_pages])
def test_a_silent_network_is_noticed_in_minutes(db: Database, open_one: Any) -> None:
    with open_one(db.url) as connection:
        assert max(seconds_to_notice(connection)) <= LONGEST_SECONDS


@pytest.mark.parametrize("open_one", [of_the_command, of_the_client, of_the_pages])
def test_what_the_url_says_goes(db: Database, open_one: Any) -> None:
    with open_one(make_conninfo(db.url, keepalives_idle=777, tcp_user_timeout=888000)) as connection:
        assert option(connection, socket.TCP_KEEPIDLE) == 777
        assert option(connection, socket.TCP_USER_TIMEOUT) == 888000
