"""`pg-graphrag worker` beside a database without the extension: several processes, and how they end."""

import multiprocessing
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import psycopg
import pytest
from pg_graphrag import GraphRAG
from pg_graphrag.beside.cli.worker import beside

from tests.endpoint import Endpoint
from tests.endpoint.server import Messages
from tests.runtime.cluster import PROJECT, Cluster, Server
from tests.sql.ingest import long_text, wait_for
from tests.sql.two_hosts import plain_database

Start = Callable[..., "subprocess.Popen[str]"]


@pytest.fixture(scope="module")
def plain(shared_cluster: Cluster | Server) -> Iterator[str]:
    with plain_database(shared_cluster) as url:
        yield url


@pytest.fixture
def start(plain: str) -> Iterator[Start]:
    """Start workers; whatever still runs after the test is killed."""
    started: list[subprocess.Popen[str]] = []

    def start(*arguments: str) -> subprocess.Popen[str]:
        environment = os.environ | {"PG_GRAPHRAG_URL": plain, "PYTHONPATH": str(PROJECT / "python")}
        command = [sys.executable, "-m", "pg_graphrag.beside.cli", "worker", *arguments]
        started.append(subprocess.Popen(command, env=environment, stderr=subprocess.PIPE, text=True))
        return started[-1]

    yield start
    for process in started:
        process.kill()
        process.wait()
        assert process.stderr is not None
        process.stderr.close()


def fill(rag: GraphRAG, documents: int) -> None:
    rag.insert(
        {
            "source_key": f"{number}",
            "content": " ".join(f"Engineer Smith{number} met Director Jones{other}." for other in range(8)),
        }
        for number in range(documents)
    )


@pytest.fixture(scope="module")
def alone(plain: str) -> object:
    """The fingerprint of what one session makes of the documents."""
    with GraphRAG(plain, "alone") as rag:
        rag.create_corpus(communities=False)
        fill(rag, 80)
        rag.process_jobs()
        fingerprint = rag.call("fingerprint")
        rag.drop_corpus()
    return fingerprint


def count(url: str, what: str) -> int:
    with psycopg.connect(url, autocommit=True) as connection:
        row = connection.execute(f"SELECT count(*) FROM {what}".encode()).fetchone()
    assert row is not None
    return int(row[0])


@pytest.mark.sample(1)
@pytest.mark.parametrize(
    ("number", "concurrency"), [(signal.SIGTERM, "1"), (signal.SIGINT, "2")], ids=["SIGTERM", "SIGINT"]
)
def test_a_signal_ends_workers_and_others_do_what_is_left(
    plain: str, start: Start, alone: object, number: int, concurrency: str
) -> None:
    with GraphRAG(plain, f"signal {number} {concurrency}") as rag:
        rag.create_corpus(communities=False)
        fill(rag, 80)
        process = start("--concurrency", concurrency)
        wait_for(lambda: count(plain, "graphrag.jobs WHERE state = 'leased'"), "a lease")
        process.send_signal(number)
        assert process.wait(20) == 0, process.communicate()
        pending = count(plain, "graphrag.documents WHERE status = 'pending'")
        assert pending > 0, "the worker was done before the signal: the test shows nothing"
        assert count(plain, "graphrag.jobs WHERE errors > 0") == 0
        # Their sessions are gone, and with them what holds the leases.
        assert count(plain, "pg_locks WHERE locktype = 'advisory'") == 0
        again = start("--once", "--concurrency", concurrency)
        assert again.wait(240) == 0, again.communicate()
        assert rag.progress().indexed == 80 and rag.call("check") == []
        assert rag.call("fingerprint") == alone
        rag.drop_corpus()


def test_a_signal_ends_a_worker_that_waits_for_a_model(plain: str, start: Start) -> None:
    ended = threading.Event()

    def slowly(messages: Messages) -> str:
        ended.wait(30)
        return "{}"

    with Endpoint() as endpoint, GraphRAG(plain, "slow") as rag:
        endpoint.reply(slowly)
        rag.call("set_provider", name="slow", kind="openai", base_url=endpoint.url)
        rag.create_corpus(extractor="llm", llm={"provider": "slow", "model": "m"})
        rag.insert("Ada Lovelace met Charles Babbage.")
        process = start()
        wait_for(lambda: endpoint.requests, "a request")
        begin = time.monotonic()
        process.terminate()
        assert process.wait(20) == 0, process.communicate()
        assert time.monotonic() - begin < 4
        ended.set()
        rag.drop_corpus()


def test_an_idle_worker_ends_at_once(plain: str, start: Start) -> None:
    process = start("--concurrency", "2")
    # Two children, each with a session, and the parent's.
    wait_for(lambda: len(children(process.pid)) >= 2, "children")
    time.sleep(2)
    begin = time.monotonic()
    process.terminate()
    assert process.wait(30) == 0
    assert time.monotonic() - begin < 4


def test_workers_end_with_a_parent_that_is_killed(plain: str, start: Start) -> None:
    process = start("--concurrency", "2")
    wait_for(lambda: len(children(process.pid)) >= 2, "children")
    pids = children(process.pid)
    time.sleep(2)
    process.kill()
    wait_for(lambda: not any(is_alive(pid) for pid in pids), "their end")


def test_a_worker_that_is_killed_is_replaced(plain: str, start: Start) -> None:
    concurrency = 2
    process = start("--concurrency", str(concurrency))
    wait_for(lambda: len(children(process.pid)) == concurrency, "children")
    killed = children(process.pid)
    for pid in killed:
        os.kill(pid, signal.SIGKILL)
    wait_for(lambda: len(set(children(process.pid)) - set(killed)) == concurrency, "others")
    with GraphRAG(plain, "killed") as rag:
        rag.create_corpus(communities=False)
        rag.insert("Ada Lovelace met Charles Babbage.")
        assert rag.wait_until_indexed(timeout=60).indexed == 1
        rag.drop_corpus()
    process.terminate()
    assert process.wait(30) == 0
    assert process.stderr is not None
    assert process.stderr.read().count("was ended by signal 9; another takes its place") == concurrency


@pytest.mark.slow
def test_a_session_that_waits_for_its_process_is_not_idle_for_too_long(plain: str, start: Start) -> None:
    with psycopg.connect(plain, autocommit=True) as connection, GraphRAG(plain, "timeouts") as rag:
        rag.create_corpus(communities=False)
        rag.insert(long_text(90))
        for setting in ("idle_session_timeout", "idle_in_transaction_session_timeout"):
            connection.execute(f"ALTER ROLE CURRENT_USER SET {setting} = '200ms'".encode())
        try:
            process = start("--once")
            assert process.wait(60) == 0, process.communicate()
        finally:
            connection.execute("ALTER ROLE CURRENT_USER RESET ALL")
        assert rag.progress().indexed == 1
        rag.drop_corpus()


def test_the_worker_of_the_pages_is_replaced_when_it_is_killed(plain: str) -> None:
    with beside(plain):
        (child,) = multiprocessing.active_children()
        assert child.pid is not None
        os.kill(child.pid, signal.SIGKILL)
        wait_for(lambda: [other for other in multiprocessing.active_children() if other.pid != child.pid], "another")
    assert multiprocessing.active_children() == []


def children(pid: int) -> list[int]:
    """The processes that a worker has started, which have threads of their own, and no helper of multiprocessing."""
    pids = []
    for child in Path(f"/proc/{pid}/task/{pid}/children").read_text().split():
        if "spawn_main" in Path(f"/proc/{child}/cmdline").read_text():
            pids.append(int(child))
    return pids


def is_alive(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0] != "Z"
    except FileNotFoundError:
        return False
