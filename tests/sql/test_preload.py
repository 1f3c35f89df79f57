"""A server that preloads PL/Python and the package: sessions begin with what first searches load, and answer the same."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import psycopg
import pytest

from tests.runtime.cluster import Cluster
from tests.sql.ingest import STORIES, put_all, rows, value, work

SITE = "/usr/lib/pg_graphrag/venv/lib/python3.{}/site-packages/pg_graphrag/preload"
SEARCH = "SELECT source_key, score FROM graphrag.search('Which notes did Ada Lovelace write?', %s, %s)"


@pytest.fixture
def preloaded(cluster: Callable[..., Cluster]) -> Cluster:
    folders = ":".join(SITE.format(minor) for minor in (11, 12, 13, 14))
    server = cluster({"shared_preload_libraries": "plpython3"}, environment={"PYTHONPATH": folders})
    server.create_database("graph")
    with server.connect("graph") as db:
        db.execute("CREATE EXTENSION pg_graphrag CASCADE")
        db.execute("SELECT graphrag.create_corpus('stories', '{\"communities\": false}')")
        put_all(db, "stories", STORIES)
        work(db)
    return server


@pytest.fixture
def modules(preloaded: Cluster) -> Callable[[Any], set[str]]:
    def loaded(db: Any) -> set[str]:
        db.execute(
            "CREATE OR REPLACE FUNCTION public.modules() RETURNS text[] LANGUAGE plpython3u"
            " AS $$ import sys; return list(sys.modules) $$"
        )
        return set(value(db, "SELECT public.modules()"))

    return loaded


def test_sessions_begin_with_the_package_and_answer_as_others_do(
    preloaded: Cluster, modules: Callable[[Any], set[str]]
) -> None:
    with preloaded.connect("graph") as db:
        assert {"pg_graphrag.search.search", "pg_graphrag.modes.hybrid", "numpy", "tokenizers"} <= modules(db)
        assert "cannot be preloaded" not in preloaded.log
    preloaded_rows = {}
    for mode in ("hybrid", "path", "bm25"):
        with preloaded.connect("graph") as db:
            preloaded_rows[mode] = rows(db, SEARCH, "stories", mode)
            assert preloaded_rows[mode]
    preloaded.stop()
    preloaded.start(shared_preload_libraries="")
    for mode, expected in preloaded_rows.items():
        with preloaded.connect("graph") as db:
            assert rows(db, SEARCH, "stories", mode) == expected


def test_a_statement_of_a_preloaded_session_can_be_cancelled(preloaded: Cluster) -> None:
    with preloaded.connect("graph") as db:
        db.execute("SET statement_timeout = '200ms'")
        start = time.monotonic()
        with pytest.raises(psycopg.errors.QueryCanceled):
            db.execute("SELECT pg_sleep(10), count(*) FROM graphrag.search('Ada', 'stories')")
        assert time.monotonic() - start < 5


def test_the_postmaster_stops_at_a_signal_and_has_no_threads(preloaded: Cluster) -> None:
    pid = preloaded.postmaster_pid
    assert len(list(Path(f"/proc/{pid}/task").iterdir())) == 1
    os.kill(pid, signal.SIGINT)
    deadline = time.monotonic() + 30
    while preloaded.folder.joinpath("data/postmaster.pid").exists():
        assert time.monotonic() < deadline
        time.sleep(0.05)
    preloaded.start()
    with preloaded.connect("graph") as db:
        assert rows(db, SEARCH, "stories", "hybrid")
