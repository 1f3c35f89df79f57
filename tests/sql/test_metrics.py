"""The numbers for a monitor are those of the corpora and the queue, and pg_monitor may read them."""

import json
import re
import shutil
import subprocess
import threading

import pytest
import yaml

from tests.endpoint import Endpoint
from tests.runtime.cluster import PROJECT, Database
from tests.security.readers import session_of
from tests.sql.ingest import index_all, new_corpus, put, rows
from tests.sql.llm import provider
from tests.sql.test_cli import cli

REPLY = "{}"
LINE = re.compile(r'# (TYPE|HELP|UNIT) \w+ .+|\w+(\{\w+="[^"\n]*"(,\w+="[^"\n]*")*\})? [0-9.e+-]+|# EOF')


def test_a_monitor_reads_the_numbers_of_a_corpus_and_of_the_queue(module_db: Database) -> None:
    corpus = index_all(module_db, new_corpus(module_db), {"a": "Ada Lovelace wrote notes."})
    put(module_db, corpus, "b", "Alan Turing read notes of Ada Lovelace.")
    with session_of(module_db, "pg_monitor") as monitor:
        records = monitor.execute("SELECT name, labels, value FROM graphrag.metrics").fetchall()
    values = {(name, *sorted(labels.items())): value for name, labels, value in records}
    assert len(values) == len(records)
    of_corpus = ("corpus", corpus)
    assert values[("documents", of_corpus, ("status", "indexed"))] == 1
    assert values[("documents", of_corpus, ("status", "pending"))] == 1
    assert values[("searchable_documents", of_corpus)] == 1
    assert values[("index_items", of_corpus, ("kind", "chunks"))] == 1
    assert values[("jobs", of_corpus, ("kind", "index"), ("state", "pending"))] == 1
    assert values[("workers",)] == 0
    assert values[("queue_age_seconds",)] >= 0
    assert values[("health_issues", ("severity", "error"))] == 0


def test_the_command_prints_open_metrics(module_db: Database) -> None:
    corpus = new_corpus(module_db)
    lines = cli(module_db.url, "metrics").stdout.splitlines()
    assert [line for line in lines if not LINE.fullmatch(line)] == []
    assert lines[-1] == "# EOF"
    assert f'pg_graphrag_documents{{corpus="{corpus}",status="pending"}} 0.0' in lines


ALERTS = PROJECT / "docs/alerts.yaml"


def test_alert_rules_ask_for_numbers_that_there_are(module_db: Database) -> None:
    """Some numbers come with a budget, a job or a failure alone: their names are those of the view's text."""
    ((text,),) = module_db.execute("SELECT pg_get_viewdef('graphrag.metrics'::regclass)").fetchall()
    names = {
        f"pg_graphrag_{name}" for name in re.findall(r"'(\w+)'(?:::\w+)?(?: AS name)?,\s+(?:jsonb_build|'{}')", text)
    }
    assert "pg_graphrag_workers" in names
    (group,) = yaml.safe_load(ALERTS.read_text())["groups"]
    for rule in group["rules"]:
        assert {"alert", "expr", "labels", "annotations"} <= set(rule)
        assert set(re.findall(r"pg_graphrag_\w+", rule["expr"])) <= names, rule["alert"]


@pytest.mark.skipif(shutil.which("promtool") is None, reason="needs promtool (Debian: prometheus)")
def test_prometheus_loads_the_alert_rules_and_reads_the_numbers(module_db: Database) -> None:
    subprocess.run(["promtool", "check", "rules", ALERTS], check=True, capture_output=True)
    subprocess.run(
        ["promtool", "check", "metrics"],
        input=cli(module_db.url, "metrics").stdout.removesuffix("# EOF\n"),
        text=True,
        check=True,
        capture_output=True,
    )


def test_a_worker_is_a_row_with_what_it_does(db: Database, endpoint: Endpoint) -> None:
    corpus = new_corpus(db, extractor="llm", llm={"provider": provider(db, endpoint), "model": "m"})
    put(db, corpus, "a", "Ada Lovelace wrote notes.")
    asked, answers = threading.Event(), threading.Event()

    def reply(_: object) -> str:
        asked.set()
        answers.wait(30)
        return "{}"

    endpoint.reply(reply)
    assert rows(db, "SELECT * FROM graphrag.workers") == []
    with Database.open(db.url) as session:
        thread = threading.Thread(target=session.execute, args=["CALL graphrag.process_jobs()"])
        thread.start()
        try:
            assert asked.wait(30)
            pid = session.info.backend_pid
            with session_of(db, "pg_monitor") as monitor:
                columns = "pid = %s, role, corpus, kind, jobs, attempts, since <= clock_timestamp()"
                line = monitor.execute(f"SELECT {columns} FROM graphrag.workers".encode(), [pid]).fetchall()
            assert line == [(True, "postgres", corpus, "graph", 1, 1, True)]
        finally:
            answers.set()
            thread.join()
    assert rows(db, "SELECT * FROM graphrag.workers") == []


def test_a_workers_log_is_json_on_demand(module_db: Database) -> None:
    put(module_db, new_corpus(module_db), "a", "Ada Lovelace wrote notes.")
    lines = cli(module_db.url, "worker", "--once", "--profile-time", "--log-json").stderr.splitlines()
    # Nothing else: a program reads it.
    events = [json.loads(line) for line in lines]
    profile = next(event for event in events if event["event"] == "profile_time")
    assert {"time", "level", "worker", "message"} <= set(profile)
    assert profile["ms"]["total"] > 0
