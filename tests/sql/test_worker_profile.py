"""The setting graphrag.profile_time: at the end of a run a worker says where its time went, by step."""

import json
import re
from collections.abc import Iterator
from contextlib import contextmanager

import psycopg
import pytest

from tests.runtime.cluster import Database
from tests.sql.ingest import STORIES, new_corpus, put_all, refused, work

STEPS = {"queue", "commit", "read", "chunks", "concepts", "embed", "write", "vectors", "lock", "merge", "cypher"}


@contextmanager
def notices(db: Database) -> Iterator[list[tuple[str, str]]]:
    """Yield the (message, detail) of notices, as they come."""
    heard: list[tuple[str, str]] = []

    def hear(notice: psycopg.errors.Diagnostic) -> None:
        heard.append((notice.message_primary or "", notice.message_detail or ""))

    db.add_notice_handler(hear)
    yield heard
    db.remove_notice_handler(hear)


@pytest.fixture
def profiled(module_db: Database) -> Iterator[Database]:
    module_db.execute("SET graphrag.profile_time = 'on'")
    yield module_db
    module_db.execute("RESET graphrag.profile_time")


def test_the_steps_of_a_run_add_up_to_its_time(profiled: Database) -> None:
    put_all(profiled, new_corpus(profiled, communities=True), STORIES)
    with notices(profiled) as heard:
        work(profiled)
    ((message, detail),) = heard
    milliseconds = json.loads(detail)
    total = milliseconds.pop("total")
    assert re.fullmatch(r"process_jobs\(\) did \d+ jobs", message)
    assert milliseconds.keys() >= STEPS | {"communities"}
    assert total == pytest.approx(sum(milliseconds.values()), abs=0.01 * len(milliseconds))
    assert milliseconds["embed"] > 0


def test_nothing_is_said_of_a_run_without_jobs(profiled: Database) -> None:
    work(profiled)
    with notices(profiled) as heard:
        work(profiled)
    assert not heard


def test_nothing_is_said_where_nobody_asked(module_db: Database) -> None:
    put_all(module_db, new_corpus(module_db), STORIES)
    with notices(module_db) as heard:
        work(module_db)
    assert not heard


def test_a_value_that_is_no_boolean_is_an_error(module_db: Database) -> None:
    module_db.execute("SET graphrag.profile_time = 'often'")
    refusal = refused(module_db, "CALL graphrag.process_jobs()")
    module_db.execute("RESET graphrag.profile_time")
    assert refusal.sqlstate == "22023"
    assert "often" in (refusal.message_primary or "")
    assert refusal.message_hint
