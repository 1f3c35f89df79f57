"""A standby that is promoted while sessions and a worker are open on it: they go on, and nothing that was half done is left."""

import os
import signal
import subprocess
import sys
from collections.abc import Iterator

import psycopg
import pytest
from psycopg.conninfo import make_conninfo

from tests.runtime.cluster import PROJECT, Cluster, Database, Runtime
from tests.sql.ingest import (
    STORIES,
    canonical,
    expected,
    index_all,
    keys,
    long_text,
    new_corpus,
    put,
    refused,
    rows,
    search,
    statuses,
    value,
    wait_for,
    wait_for_lease,
    work,
    worker,
)

DOCUMENTS = {**STORIES, "long": long_text(40)}


@pytest.fixture
def worker_process(request: pytest.FixtureRequest) -> Iterator[list[subprocess.Popen[str]]]:
    started: list[subprocess.Popen[str]] = []
    yield started
    for process in started:
        process.send_signal(signal.SIGKILL)
        process.communicate()


def test_sessions_and_workers_of_a_standby_go_on_when_it_is_promoted(
    runtime: Runtime, module_db: Database, worker_process: list[subprocess.Popen[str]]
) -> None:
    whole = expected(module_db, DOCUMENTS)
    primary = Cluster(runtime)
    standby = None
    try:
        with psycopg.connect(primary.create_database("app"), autocommit=True) as source:
            source.execute("CREATE EXTENSION pg_graphrag CASCADE")
            corpus = index_all(source, new_corpus(source), STORIES)
            standby = Cluster(runtime, primary=primary)
            url = standby.url("app")
            with psycopg.connect(url, autocommit=True) as replica:
                question = "Who admired Ada Lovelace at Harvard?"
                before = keys(search(replica, question, corpus))
                assert refused(replica, "CALL graphrag.process_jobs()").sqlstate == "25006"
                environment = os.environ | {
                    "PG_GRAPHRAG_URL": make_conninfo(url),
                    "PYTHONPATH": str(PROJECT / "python"),
                }
                worker_process.append(
                    subprocess.Popen(
                        [sys.executable, "-m", "pg_graphrag.beside.cli", "worker"],
                        env=environment,
                        stderr=subprocess.PIPE,
                        text=True,
                    )
                )
                # The primary is lost while it indexes.
                put(source, corpus, "long", DOCUMENTS["long"])
                victim = worker(primary.url("app"))
                wait_for_lease(source, corpus)
                last = value(source, "SELECT pg_current_wal_lsn()::text")
                wait_for(
                    lambda: value(replica, "SELECT pg_last_wal_replay_lsn() >= %s::pg_lsn", last), "what was leased"
                )
                primary.stop("immediate")
                assert victim.finish() is not None
                assert value(replica, "SELECT pg_promote()")
                assert keys(search(replica, question, corpus)) == before
                wait_for(lambda: statuses(replica, corpus)["long"] == "indexed", "the worker")
                put(replica, corpus, "late", "Grace Hopper met Charles Babbage in a dream.")
                wait_for(lambda: statuses(replica, corpus)["late"] == "indexed", "the worker")
                replica.execute("DELETE FROM graphrag.documents WHERE source_key = 'late'")
                work(replica)
                wait_for(lambda: value(replica, "SELECT count(*) FROM graphrag.jobs") == 0, "an empty queue")
                assert rows(replica, "SELECT * FROM graphrag.check(%s)", corpus) == []
                assert canonical(replica, corpus) == whole
                assert rows(replica, "SELECT * FROM graphrag.failed_jobs") == []
    finally:
        if standby is not None:
            standby.close()
        primary.close()
