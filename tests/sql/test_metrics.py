"""The numbers for a monitor are those of the corpora and the queue, and pg_monitor may read them."""

from __future__ import annotations

import re

from tests.runtime.cluster import Database
from tests.security.readers import session_of
from tests.sql.ingest import new_corpus, put, work
from tests.sql.test_cli import cli

LINE = re.compile(r'# (TYPE|HELP|UNIT) \w+ .+|\w+(\{\w+="[^"\n]*"(,\w+="[^"\n]*")*\})? [0-9.e+-]+|# EOF')


def test_a_monitor_reads_the_numbers_of_a_corpus_and_of_the_queue(module_db: Database) -> None:
    corpus = new_corpus(module_db)
    put(module_db, corpus, "a", "Ada Lovelace wrote notes.")
    work(module_db)
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
