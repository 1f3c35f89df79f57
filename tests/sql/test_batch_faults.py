"""Everything that can go wrong with a batch: lines, batches, the endpoint, the worker; nothing is lost or paid twice."""

import json
import os
import signal
from collections import Counter
from collections.abc import Callable

import psycopg
import pytest

from tests.endpoint import Endpoint
from tests.endpoint.server import Request
from tests.runtime.cluster import Cluster, Database
from tests.sql.batching import (
    all_indexed,
    batch_line,
    batch_states,
    batched,
    dead,
    found_in,
    hurry,
    lines,
    posted,
    requests,
    sent,
    settle,
    until,
    waiting,
)
from tests.sql.ingest import STORIES, corpus_id, put_all, rows, statuses, value, wait_for, worker

REPLY = found_in


def test_a_line_that_the_endpoint_failed_at_is_asked_again_and_no_other(
    module_db: Database, endpoint: Endpoint
) -> None:
    corpus = batched(module_db, endpoint)
    endpoint.misbehave("server_error", when=batch_line("Grace Hopper wrote"))
    put_all(module_db, corpus, STORIES)
    settle(module_db, corpus)
    assert all_indexed(module_db, corpus)
    asked = Counter(json.dumps(line["body"]["messages"]) for line in lines(endpoint))
    assert sorted(asked.values()) == [1, 1, 1, 1, 2]
    assert value(module_db, "SELECT count(*) FROM graphrag.jobs WHERE errors > 0") == 0


def test_an_answer_that_cannot_be_used_is_asked_for_again_warmer(module_db: Database, endpoint: Endpoint) -> None:
    corpus = batched(module_db, endpoint)
    endpoint.misbehave("prose", when=batch_line("Grace Hopper wrote"))
    put_all(module_db, corpus, STORIES)
    settle(module_db, corpus)
    assert all_indexed(module_db, corpus)
    temperatures = [line["body"]["temperature"] for line in lines(endpoint) if "Grace Hopper wrote" in json.dumps(line)]
    assert temperatures == [0.0, 0.3]
    usage = "SELECT sum(calls), sum(failures) FROM graphrag.llm_usage WHERE corpus = %s"
    assert rows(module_db, usage, corpus) == [(6, 1)]
    assert (
        value(module_db, "SELECT count(*) FROM graphrag.llm_cache WHERE corpus_id = %s", corpus_id(module_db, corpus))
        == 5
    )


def stood_in(db: Database, corpus: str) -> list[tuple[str, str]]:
    """(source_key, reason) of documents with the graph of NLP."""
    sql = "SELECT source_key, reason FROM graphrag.unfit_extractions WHERE corpus = %s AND kind = 'reply'"
    return rows(db, sql, corpus)


def test_after_three_unusable_answers_the_document_alone_has_the_graph_of_nlp_until_it_is_asked_about_again(
    module_db: Database, endpoint: Endpoint
) -> None:
    corpus = batched(module_db, endpoint)
    endpoint.misbehave("prose", times=None, when=batch_line("Grace Hopper wrote"))
    put_all(module_db, corpus, STORIES)
    settle(module_db, corpus)
    assert all_indexed(module_db, corpus)
    assert stood_in(module_db, corpus) == [("hopper", "the reply is no extraction")]
    assert sum("Grace Hopper wrote" in json.dumps(line) for line in lines(endpoint)) == 3
    endpoint.behave()
    assert value(module_db, "SELECT graphrag.reindex(%s, extraction => 'stood in')", corpus) == 1
    settle(module_db, corpus)
    assert all_indexed(module_db, corpus)
    assert stood_in(module_db, corpus) == []


def test_a_refused_line_leaves_its_document_the_graph_of_nlp(module_db: Database, endpoint: Endpoint) -> None:
    corpus = batched(module_db, endpoint)
    endpoint.misbehave("bad_request", times=None, when=batch_line("Grace Hopper wrote"))
    put_all(module_db, corpus, STORIES)
    settle(module_db, corpus)
    assert all_indexed(module_db, corpus)
    assert stood_in(module_db, corpus) == [("hopper", "the reply is no extraction")]


@pytest.mark.parametrize("outcome", ["expired", "cancelled"])
def test_of_a_batch_that_ended_early_the_answers_are_used_and_the_rest_is_asked_again(
    module_db: Database, endpoint: Endpoint, outcome: str
) -> None:
    corpus = batched(module_db, endpoint)
    endpoint.batches.hold = True
    sent(module_db, corpus)
    endpoint.batches.hold, endpoint.batches.outcome = False, outcome
    until(module_db, corpus, lambda: len(endpoint.batches.made) == 2)
    indexed = [key for key, status in statuses(module_db, corpus).items() if status == "indexed"]
    assert len(indexed) == 2, "five requests, of which the first half was answered"
    endpoint.batches.outcome = "completed"
    settle(module_db, corpus)
    assert all_indexed(module_db, corpus)
    assert len(lines(endpoint)) == 5 + 3
    usage = "SELECT sum(calls), sum(failures) FROM graphrag.llm_usage WHERE corpus = %s"
    assert rows(module_db, usage, corpus) == [(5, 0)]


def test_a_batch_that_fails_three_times_makes_dead_letters_that_say_why(
    module_db: Database, endpoint: Endpoint
) -> None:
    corpus = batched(module_db, endpoint)
    endpoint.batches.outcome = "failed"
    put_all(module_db, corpus, STORIES)
    settle(module_db, corpus)
    assert len(endpoint.batches.made) == 3
    assert set(statuses(module_db, corpus).values()) == {"failed"}
    assert all("not JSON" in error for error in dead(module_db, corpus).values())
    endpoint.batches.outcome = "completed"
    assert value(module_db, "SELECT graphrag.retry_failed(%s)", corpus) == 5
    settle(module_db, corpus)
    assert all_indexed(module_db, corpus)


def test_a_full_queue_at_the_endpoint_is_waited_for(module_db: Database, endpoint: Endpoint) -> None:
    corpus = batched(module_db, endpoint)
    endpoint.batches.outcome, endpoint.batches.error = (
        "failed",
        ("token_limit_exceeded", "Enqueued token limit reached"),
    )
    put_all(module_db, corpus, STORIES)
    until(module_db, corpus, lambda: len(endpoint.batches.made) == 5)
    assert waiting(module_db, corpus) == [("pending", 0, 0, True)]
    endpoint.batches.outcome = "completed"
    settle(module_db, corpus)
    assert all_indexed(module_db, corpus)


@pytest.mark.parametrize(
    ("kind", "where", "said"),
    [
        ("unauthorized", "files", "does not accept the key"),
        ("model_not_found", "files", "does not take the batch"),
        ("bad_request", "batches", "does not take the batch"),
        ("model_not_found", "batches", "does not take the batch"),
    ],
)
def test_what_the_endpoint_refuses_becomes_dead_letters_that_say_why_and_retry_failed_heals(
    module_db: Database, endpoint: Endpoint, kind: str, where: str, said: str
) -> None:
    corpus = batched(module_db, endpoint)
    endpoint.misbehave(kind, times=None, when=posted(where), message="batch is not supported")
    put_all(module_db, corpus, STORIES)
    settle(module_db, corpus)
    assert set(statuses(module_db, corpus).values()) == {"failed"}
    assert all(said in error for error in dead(module_db, corpus).values())
    assert len(dead(module_db, corpus)) == 5
    assert batch_states(module_db, corpus) == ["failed"]
    endpoint.behave()
    assert value(module_db, "SELECT graphrag.retry_failed(%s)", corpus) == 5
    settle(module_db, corpus)
    assert all_indexed(module_db, corpus)
    assert batch_states(module_db, corpus) == ["failed", "done"]


def test_a_key_that_is_refused_while_the_endpoint_works_loses_no_batch(module_db: Database, endpoint: Endpoint) -> None:
    corpus = batched(module_db, endpoint)
    endpoint.batches.hold = True
    sent(module_db, corpus)
    endpoint.misbehave("unauthorized", times=None, when=lambda request: request.kind == "batches")
    hurry(module_db)
    assert set(statuses(module_db, corpus).values()) == {"failed"}
    assert batch_states(module_db, corpus) == ["open"]
    endpoint.behave()
    endpoint.batches.hold = False
    assert value(module_db, "SELECT graphrag.retry_failed(%s)", corpus) >= 5
    settle(module_db, corpus)
    assert all_indexed(module_db, corpus)
    assert len(endpoint.batches.made) == 1


def older(db: Database, corpus: str, hours: int) -> None:
    """As if the open batches of the corpus had been made so much earlier."""
    db.execute(
        "UPDATE graphrag.llm_batches SET submitted_at = submitted_at - %s * interval '1 h' WHERE corpus_id = %s",
        [hours, corpus_id(db, corpus)],
    )


def test_a_batch_in_a_state_that_nobody_knows_is_cancelled_then_given_up_and_retry_failed_heals(
    module_db: Database, endpoint: Endpoint
) -> None:
    corpus = batched(module_db, endpoint)
    endpoint.batches.hold, endpoint.batches.word = True, "pondering"
    sent(module_db, corpus)
    older(module_db, corpus, 30)
    hurry(module_db)
    assert waiting(module_db, corpus) == [("pending", 0, 0, True)], "the endpoint has a day, and some grace"
    older(module_db, corpus, 10)
    hurry(module_db)
    assert requests(endpoint)["POST /batches/ID/cancel"] == 1
    records = rows(
        module_db,
        "SELECT state, remote_state, error FROM graphrag.llm_batches WHERE corpus_id = %s",
        corpus_id(module_db, corpus),
    )
    assert [row[:2] for row in records] == [("open", "pondering")]
    assert '"pondering", 40 h after it was made' in records[0][2]
    older(module_db, corpus, 10)
    hurry(module_db)
    assert batch_states(module_db, corpus) == ["failed"]
    assert set(statuses(module_db, corpus).values()) == {"failed"}
    assert all("pondering" in error and "HINT:" in error for error in dead(module_db, corpus).values())
    assert len(endpoint.batches.made) == 1, "not asked again by itself: it may be paid"
    endpoint.batches.hold, endpoint.batches.word = False, None
    assert value(module_db, "SELECT graphrag.retry_failed(%s)", corpus) == 5
    settle(module_db, corpus)
    assert all_indexed(module_db, corpus)
    assert len(endpoint.batches.made) == 2


def test_of_a_lost_batch_the_answers_are_used(module_db: Database, endpoint: Endpoint) -> None:
    corpus = batched(module_db, endpoint)
    endpoint.batches.hold, endpoint.batches.word = True, "done"
    sent(module_db, corpus)
    endpoint.batches.hold = False
    for _ in range(4):
        hurry(module_db)
    assert set(statuses(module_db, corpus).values()) == {"pending"}
    older(module_db, corpus, 50)
    settle(module_db, corpus)
    assert all_indexed(module_db, corpus)
    assert len(endpoint.batches.made) == 1
    assert batch_states(module_db, corpus) == ["failed"]


@pytest.mark.sample(2)
@pytest.mark.parametrize("kind", ["reset", "unavailable", "html", "truncated_json", "hang_mid_body", "not_an_object"])
def test_an_endpoint_that_is_away_while_it_is_asked_how_far_it_is_loses_nothing(
    module_db: Database, endpoint: Endpoint, kind: str
) -> None:
    corpus = batched(module_db, endpoint, timeout=0.5)
    endpoint.batches.hold = True
    sent(module_db, corpus)
    endpoint.misbehave(kind, times=None, when=lambda request: request.kind in ("batches", "files"))
    for _ in range(4):
        hurry(module_db)
    assert waiting(module_db, corpus) == [("pending", 0, 0, True)]
    endpoint.behave()
    endpoint.batches.hold = False
    # And while the answers come.
    endpoint.misbehave(kind, times=2, when=lambda request: request.path.endswith("/content"))
    settle(module_db, corpus)
    assert all_indexed(module_db, corpus)
    assert len(endpoint.batches.made) == 1
    assert (
        value(module_db, "SELECT count(*) FROM graphrag.llm_calls WHERE corpus_id = %s", corpus_id(module_db, corpus))
        == 5
    )


@pytest.mark.parametrize("what", ["files", "batches"])
def test_a_request_whose_answer_is_lost_is_not_made_twice(module_db: Database, endpoint: Endpoint, what: str) -> None:
    corpus = batched(module_db, endpoint)
    # The endpoint has done it, and the connection breaks.
    endpoint.misbehave("reset", when=posted(what))
    put_all(module_db, corpus, STORIES)
    settle(module_db, corpus)
    assert all_indexed(module_db, corpus)
    assert (requests(endpoint)["POST /files"], requests(endpoint)["POST /batches"]) == (1, 1)


def test_a_batch_that_the_endpoint_forgot_is_sent_again(module_db: Database, endpoint: Endpoint) -> None:
    corpus = batched(module_db, endpoint)
    endpoint.batches.hold = True
    sent(module_db, corpus)
    endpoint.batches.made.clear()
    endpoint.batches.hold = False
    settle(module_db, corpus)
    assert all_indexed(module_db, corpus)
    assert batch_states(module_db, corpus) == ["failed", "done"]


@pytest.mark.slow
def test_after_sigkill_at_any_moment_nothing_is_sent_or_paid_twice(
    cluster: Callable[..., Cluster], endpoint: Endpoint
) -> None:
    own_cluster = cluster()
    url = own_cluster.create_database("batches")
    with psycopg.connect(url, autocommit=True) as db:
        db.execute("CREATE EXTENSION pg_graphrag CASCADE")
        corpus = batched(db, endpoint, timeout=60)
        put_all(db, corpus, STORIES)
    moments: list[tuple[str, Callable[[Request], bool]]] = [
        ("the file is there, and nobody here knows", posted("files")),
        ("the batch is there, and nobody here knows", posted("batches")),
        ("it is asked how far it is", lambda request: request.kind == "batches" and request.method == "GET"),
        ("the answers come", lambda request: request.path.endswith("/content")),
        ("the answers are here, the files still there", lambda request: request.method == "DELETE"),
    ]
    for crashes, (moment, when) in enumerate(moments, 1):
        reached: list[Request] = []

        def hang(request: Request, when: Callable[[Request], bool] = when, reached: list[Request] = reached) -> bool:
            if when(request):
                reached.append(request)
                return True
            return False

        endpoint.misbehave("timeout", when=hang)
        with psycopg.connect(url, autocommit=True) as db:
            for _ in range(20):
                db.execute("UPDATE graphrag.llm_batches SET next_poll_at = now() - interval '1 s'")
                db.execute("UPDATE graphrag.jobs SET next_attempt_at = now() WHERE kind = 'batch'")
                victim = worker(url)
                wait_for(lambda v=victim, r=reached: r or not v.is_alive(), moment)
                if reached:
                    break
                assert victim.finish() is None
            assert reached, moment
            os.kill(victim.pid, signal.SIGKILL)
        assert victim.finish() is not None
        endpoint.behave()
        wait_for(lambda n=crashes: own_cluster.log.count("ready to accept connections") > n, "the server's recovery")
    with psycopg.connect(url, autocommit=True) as db:
        settle(db, corpus)
        assert all_indexed(db, corpus)
        counts = requests(endpoint)
        assert (counts["POST /files"], counts["POST /batches"], counts["POST /chat/completions"]) == (1, 1, 0)
        assert len(endpoint.batches.made) == 1
        assert endpoint.batches.files == {}
        assert rows(db, "SELECT count(*), count(error) FROM graphrag.llm_calls") == [(5, 0)]
        assert rows(db, "SELECT FROM graphrag.failed_jobs") == []
