"""Attacks on what streams hold: an answer that nobody fetches keeps no place from others, nor does a role take them all."""

import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import psycopg
import pytest

from tests.endpoint import Endpoint
from tests.runtime.cluster import Database
from tests.security.readers import readers, session_of
from tests.sql.asking import ANSWER, ask, calls, lines, stories
from tests.sql.ingest import Background, Connection, refused, rows, wait_for
from tests.sql.llm import places_held

REPLY = lines
QUESTION = "What did Ada Lovelace write on the Analytical Engine?"


def open_stream(session: Connection, corpus: str, name: str = "answer", question: str = QUESTION) -> None:
    """Open a stream under a cursor, in the session's transaction, and fetch its first piece."""
    call = f"graphrag.ask_stream('{question}', '{corpus}', low_level_keywords => '{{Ada}}')"
    session.execute(f"DECLARE {name} CURSOR FOR SELECT {call}".encode())
    session.execute(f"FETCH 1 FROM {name}".encode())


@contextmanager
def idle_streams(db: Database, role: str, corpus: str, count: int) -> Iterator[list[Connection]]:
    """Sessions of a role that sit idle in a transaction, each with a stream."""
    sessions = [psycopg.connect(db.url, autocommit=True) for _ in range(count)]
    try:
        for number, session in enumerate(sessions):
            session.execute(f"SET ROLE {role}".encode())
            session.execute("BEGIN")
            open_stream(session, corpus, question=f"{QUESTION} {number}")
        yield sessions
    finally:
        for session in sessions:
            session.close()


def test_idle_streams_keep_no_place_from_others_for_long(module_db: Database, endpoint: Endpoint) -> None:
    corpus = stories(module_db, endpoint, concurrency=2, timeout=60, stream_idle=3)
    endpoint.misbehave("hanging_stream", times=2)
    with readers(module_db, 1) as (alice,), idle_streams(module_db, alice, corpus, 2):
        assert places_held(module_db) == 2
        begun = time.monotonic()
        module_db.execute("SET statement_timeout = '20s'")
        assert ask(module_db, QUESTION, corpus)[0] == ANSWER
        module_db.execute("RESET statement_timeout")
        assert time.monotonic() - begun < 10


def test_a_stream_that_was_left_too_long_ends_with_an_error_and_is_paid_for(
    module_db: Database, endpoint: Endpoint
) -> None:
    corpus = stories(module_db, endpoint, concurrency=1, timeout=60, stream_idle=0.3)
    endpoint.misbehave("slow_stream", pause=5)
    with readers(module_db, 1) as (alice,), idle_streams(module_db, alice, corpus, 1) as (session,):
        time.sleep(0.5)
        diag = refused(session, "FETCH 1 FROM answer")
        assert diag.sqlstate == "57014"
        assert "0.3 s" in str(diag.message_detail) + str(diag.message_primary)
        assert diag.message_hint
        wait_for(lambda: endpoint.in_flight == 0, "the closed connection")
        assert places_held(module_db) == places_held(module_db, "streams") == 0
        session.execute("ROLLBACK")
        ask(session, QUESTION, corpus)
    assert ("answer", True) in calls(module_db, corpus)


def test_a_stream_that_is_fetched_slowly_ends_when_its_time_is_over(module_db: Database, endpoint: Endpoint) -> None:
    corpus = stories(module_db, endpoint, concurrency=1, timeout=60, stream_seconds=1, stream_idle=5)
    endpoint.misbehave("slow_stream", pause=0.3, when=lambda request: "<documents-" in str(request.messages))
    begun = time.monotonic()
    diag = refused(module_db, "SELECT graphrag.ask_stream(%s, %s)", QUESTION, corpus)
    assert diag.sqlstate == "57014"
    assert time.monotonic() - begun < 6
    wait_for(lambda: endpoint.in_flight == 0, "the closed connection")


def test_the_request_ends_by_itself_while_its_session_does_something_else_in_python(
    module_db: Database, endpoint: Endpoint
) -> None:
    corpus = stories(module_db, endpoint, timeout=60, stream_idle=0.3)
    endpoint.misbehave("hanging_stream")
    with module_db.transaction(force_rollback=True):
        open_stream(module_db, corpus)
        module_db.execute("DO LANGUAGE plpython3u 'import time; time.sleep(2)'")
        assert endpoint.in_flight == 0
        assert places_held(module_db) == 0


def test_a_stream_whose_answer_is_there_may_be_left_as_long_as_one_likes(
    module_db: Database, endpoint: Endpoint
) -> None:
    corpus = stories(module_db, endpoint, timeout=60, stream_idle=0.3)
    with module_db.transaction():
        open_stream(module_db, corpus)
        module_db.execute("DO LANGUAGE plpython3u 'import time; time.sleep(0.2)'")
        time.sleep(0.5)
        assert len(rows(module_db, "FETCH ALL FROM answer")) > 3


def test_a_role_has_so_many_streams_open_in_all_its_sessions(module_db: Database, endpoint: Endpoint) -> None:
    corpus = stories(module_db, endpoint, timeout=60, streams_per_role=2)
    endpoint.misbehave("hanging_stream", times=None)
    with readers(module_db, 2) as (alice, bob), idle_streams(module_db, alice, corpus, 2) as (first, _):
        with session_of(module_db, alice) as third, third.transaction(force_rollback=True):
            diag = refused(third, "SELECT graphrag.ask_stream('And why?', %s)", corpus)
            assert (diag.sqlstate, bool(diag.message_hint)) == ("53300", True)
            assert alice in str(diag.message_primary)
        # Other roles are not concerned, nor the owner.
        with idle_streams(module_db, bob, corpus, 2), module_db.transaction(force_rollback=True):
            open_stream(module_db, corpus)
        # What ends makes room.
        first.execute("CLOSE answer")
        open_stream(first, corpus, "another")


def test_a_stream_that_may_not_begin_again_leaves_its_first_request_in_the_accounts(
    module_db: Database, endpoint: Endpoint
) -> None:
    corpus = stories(module_db, endpoint, timeout=60, streams_per_role=1)
    endpoint.misbehave("rate_limited", retry_after=5, when=lambda request: "And why?" in str(request.messages))
    endpoint.misbehave("hanging_stream", times=None)
    with readers(module_db, 1) as (alice,), session_of(module_db, alice) as session:
        call = f"graphrag.ask_stream('And why?', '{corpus}', low_level_keywords => '{{Ada}}')"
        refused_later = Background(module_db.url, f"SELECT {call}", f"SET ROLE {alice}")
        wait_for(lambda: endpoint.requests and not endpoint.in_flight, "the refusal")
        session.execute("BEGIN")
        open_stream(session, corpus)
        refused_later.join(60)
        assert refused_later.error is not None and refused_later.error.diag.sqlstate == "53300"
        session.execute("ROLLBACK")
        endpoint.behave()
        ask(refused_later.connection, QUESTION, corpus)
        refused_later.connection.close()
    assert ("answer", True) in calls(module_db, corpus)


def test_cursors_of_one_session_count_as_those_of_many(module_db: Database, endpoint: Endpoint) -> None:
    corpus = stories(module_db, endpoint, timeout=60, streams_per_role=2)
    endpoint.misbehave("hanging_stream", times=None)
    with readers(module_db, 1) as (alice,), session_of(module_db, alice) as session:
        session.execute("BEGIN")
        for number in range(2):
            open_stream(session, corpus, f"answer{number}", f"{QUESTION} {number}")
        assert refused(session, "SELECT graphrag.ask_stream('And why?', %s)", corpus).sqlstate == "53300"
        session.execute("ROLLBACK")
        session.execute("BEGIN")
        open_stream(session, corpus)
        session.execute("ROLLBACK")
    assert places_held(module_db, "streams") == 0


@pytest.mark.parametrize("end", ["pg_terminate_backend", "close"])
def test_a_session_that_ends_leaves_no_place_taken(module_db: Database, endpoint: Endpoint, end: str) -> None:
    corpus = stories(module_db, endpoint, concurrency=1, timeout=60)
    endpoint.misbehave("hanging_stream")
    with readers(module_db, 1) as (alice,), idle_streams(module_db, alice, corpus, 1) as (session,):
        if end == "close":
            session.close()
        else:
            module_db.execute("SELECT pg_terminate_backend(%s)", [session.info.backend_pid])
        assert ask(module_db, QUESTION, corpus)[0] == ANSWER


def test_no_lock_that_a_user_can_take_keeps_others_from_the_models(module_db: Database, endpoint: Endpoint) -> None:
    corpus = stories(module_db, endpoint, concurrency=1)
    with readers(module_db, 1) as (alice,), session_of(module_db, alice) as session:
        # As slots were locked once.
        session.execute("SELECT pg_advisory_lock(1735549295, n) FROM generate_series(0, 3000) n")
        module_db.execute("SET statement_timeout = '10s'")
        assert ask(module_db, QUESTION, corpus)[0] == ANSWER
        module_db.execute("RESET statement_timeout")


@pytest.mark.parametrize("option", ["stream_idle", "stream_seconds", "streams_per_role"])
@pytest.mark.parametrize("bad", [0, -1, "x", None, True, 1e9])
def test_a_bad_limit_is_refused(module_db: Database, option: str, bad: Any) -> None:
    sql = "SELECT graphrag.set_provider('p', 'openai', 'http://127.0.0.1/v1', options => jsonb_build_object(%s::text, %s::jsonb))"
    given = {None: "null", True: "true", "x": '"x"'}.get(bad, str(bad))
    diag = refused(module_db, sql, option, given)
    assert (diag.sqlstate, option in str(diag.message_primary)) == ("22023", True)
