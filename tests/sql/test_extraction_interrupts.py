"""A worker that is stopped while it waits for a model: nothing half written, nothing paid twice."""

import os
import signal
from collections import Counter
from collections.abc import Callable
from contextlib import closing
from typing import Any

import psycopg
import pytest

from tests.endpoint import Endpoint
from tests.runtime.cluster import Cluster, Database
from tests.sql.extracting import about, chats, extracted, hurry, knows, noted, text_of, traces, undisturbed
from tests.sql.ingest import (
    STORIES,
    Connection,
    canonical,
    corpus_id,
    jobs,
    put,
    put_all,
    rows,
    statuses,
    value,
    wait_for,
    work,
    worker,
)

REPLY = knows


@pytest.fixture(scope="module")
def whole(module_db: Database) -> Any:
    return undisturbed(module_db, STORIES)


def hanging(db: Connection, endpoint: Endpoint) -> str:
    """A corpus of the stories whose model never says anything about two of them, and would be waited for for ten minutes."""
    endpoint.misbehave("timeout", None, when=about("Grace Hopper"))
    endpoint.misbehave("hang_mid_body", None, when=about("rotors"))
    corpus = extracted(db, endpoint, provider={"timeout": 600})
    put_all(db, corpus, STORIES)
    return corpus


def answered(db: Connection, corpus: str) -> int:
    return int(value(db, "SELECT count(*) FROM graphrag.llm_cache WHERE corpus_id = %s", corpus_id(db, corpus)))


@pytest.mark.sample(1)
@pytest.mark.parametrize("how", ["statement_timeout", "pg_cancel_backend", "pg_terminate_backend"])
def test_a_worker_that_waits_for_a_model_can_be_stopped(
    module_db: Database, endpoint: Endpoint, whole: Any, how: str
) -> None:
    corpus = hanging(module_db, endpoint)
    # The endpoint stays silent: whatever ends, ends without it.
    if how == "statement_timeout":
        module_db.execute("SET statement_timeout = '3s'")
        with pytest.raises(psycopg.errors.QueryCanceled):
            work(module_db)
        module_db.execute("RESET statement_timeout")
    else:
        worker_session = worker(module_db.url)
        wait_for(lambda: answered(module_db, corpus) == 3, "the answers that come")
        module_db.execute(f"SELECT {how}(%s)".encode(), [worker_session.pid])
        assert worker_session.finish() is not None
    wait_for(lambda: endpoint.in_flight == 0, "the connections to be closed")
    assert set(statuses(module_db, corpus).values()) == {"pending"}
    assert [traces(module_db, corpus, key) for key in STORIES] == [0] * 5
    if how != "pg_terminate_backend":  # else its leases are void with its session
        assert {(state, leased) for _, _, state, leased in jobs(module_db, corpus)} == {("pending", False)}
        attempts = (
            "SELECT DISTINCT attempts, errors FROM graphrag.jobs WHERE corpus_id = %s AND document_id IS NOT NULL"
        )
        assert rows(module_db, attempts, corpus_id(module_db, corpus)) == [(0, 0)]
    endpoint.behave()
    endpoint.forget()
    hurry(module_db, corpus)
    assert canonical(module_db, corpus) == whole
    assert len(chats(endpoint)) == 2, "what had been answered is not asked again"


def test_what_changes_while_the_model_thinks_is_not_overwritten(module_db: Database, endpoint: Endpoint) -> None:
    corpus = extracted(module_db, endpoint)
    put_all(module_db, corpus, STORIES)
    work(module_db, 5)  # the texts
    endpoint.pause()
    late = worker(module_db.url)
    wait_for(lambda: endpoint.in_flight == 5, "the worker to ask")
    put(module_db, corpus, "ada", STORIES["hopper"])
    module_db.execute("DELETE FROM graphrag.documents WHERE corpus = %s AND source_key = 'enigma'", [corpus])
    endpoint.resume()
    assert late.finish() is None
    work(module_db)
    left = {key: text for key, text in STORIES.items() if key != "enigma"} | {"ada": STORIES["hopper"]}
    assert canonical(module_db, corpus) == undisturbed(module_db, left)


def test_a_corpus_dropped_while_the_model_thinks_is_gone(module_db: Database, endpoint: Endpoint) -> None:
    corpus = extracted(module_db, endpoint)
    put_all(module_db, corpus, STORIES)
    number = corpus_id(module_db, corpus)
    work(module_db, 5)  # the texts
    endpoint.pause()
    late = worker(module_db.url)
    wait_for(lambda: endpoint.in_flight == 5, "the worker to ask")
    module_db.execute("SELECT graphrag.drop_corpus(%s)", [corpus])
    endpoint.resume()
    assert late.finish() is None
    for table in ("chunks", "entities", "entity_mentions", "claims", "jobs", "llm_cache", "llm_calls"):
        assert rows(module_db, f"SELECT 1 FROM graphrag.{table} WHERE corpus_id = %s", number) == [], table


@pytest.mark.slow
def test_workers_side_by_side_ask_about_each_document_once(module_db: Database, endpoint: Endpoint, whole: Any) -> None:
    corpus = extracted(module_db, endpoint)
    endpoint.latency = 0.05
    put_all(module_db, corpus, STORIES | {f"more {n}": f"{STORIES['ada']} {n}" for n in range(40)})
    both = [worker(module_db.url) for _ in range(2)]
    assert [session.finish() for session in both] == [None, None]
    wait_for(lambda: work(module_db) or not jobs(module_db, corpus), "an empty queue")
    assert set(Counter(text_of(request.messages) for request in chats(endpoint)).values()) == {1}
    for n in range(40):
        module_db.execute("DELETE FROM graphrag.documents WHERE corpus = %s AND source_key = %s", [corpus, f"more {n}"])
    work(module_db)
    assert canonical(module_db, corpus) == whole
    assert noted(module_db, corpus)[:2] == (45, 0)


def test_documents_that_the_model_has_read_do_not_wait_for_all_of_a_batch(
    module_db: Database, endpoint: Endpoint
) -> None:
    last = list(STORIES)[-1]
    endpoint.misbehave("timeout", None, when=lambda r: r.kind == "chat" and STORIES[last] in r.text)
    corpus = extracted(module_db, endpoint, provider={"timeout": 600, "concurrency": 1})
    put_all(module_db, corpus, STORIES)
    session = worker(module_db.url)
    wait_for(lambda: list(statuses(module_db, corpus).values()).count("indexed") == 4, "the others")
    module_db.execute("SELECT pg_cancel_backend(%s)", [session.pid])
    assert session.finish() is not None
    endpoint.behave()
    work(module_db)
    assert set(statuses(module_db, corpus).values()) == {"indexed"}


@pytest.mark.slow
def test_after_sigkill_what_was_answered_is_not_paid_again(
    cluster: Callable[..., Cluster], endpoint: Endpoint, whole: Any
) -> None:
    own_cluster = cluster()
    url = own_cluster.create_database("faults")
    with closing(psycopg.connect(url, autocommit=True)) as db:
        db.execute("CREATE EXTENSION pg_graphrag CASCADE")
        corpus = hanging(db, endpoint)
        victim = worker(url)
        # Answers are written down once a second, while others are still waited for.
        wait_for(lambda: answered(db, corpus) == 3, "the answers that come")
        os.kill(victim.pid, signal.SIGKILL)
        assert victim.finish() is not None
    wait_for(lambda: own_cluster.log.count("ready to accept connections") > 1, "the server's recovery")
    endpoint.behave()
    endpoint.forget()
    with closing(psycopg.connect(url, autocommit=True)) as db:
        assert set(statuses(db, corpus).values()) == {"pending"}
        assert [traces(db, corpus, key) for key in STORIES] == [0] * 5
        work(db)
        assert canonical(db, corpus) == whole
        assert sorted(text_of(request.messages) for request in chats(endpoint)) == sorted(
            [STORIES["hopper"], STORIES["enigma"]]
        )
        assert rows(db, "SELECT FROM graphrag.failed_jobs") == []
