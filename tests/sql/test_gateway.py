"""The gateway to models on the real server: many at once, within limits, from the cache, within budget, broken off in time."""

import threading
import time
from datetime import timedelta
from typing import Any

import psycopg
import pytest

from tests.endpoint import Endpoint
from tests.runtime.cluster import Database
from tests.sql.ingest import Background, corpus_id, rows, value, wait_for
from tests.sql.llm import ask, faults, messages, modelled, places_held, provider, work, work_statement

REPLY = '{"answer": 42}'


def corpus_of(db: Database, endpoint: Endpoint, llm: dict[str, Any] | None = None, **options: Any) -> str:
    return modelled(db, provider(db, endpoint, **options), **(llm or {}))


def other_session(db: Database, corpus: str, prompts: list[str], *before: str, **options: Any) -> Background:
    """A worker in a session of its own, on its way to the endpoint."""
    return Background(db.url, work_statement(corpus, prompts, **options), *before)


def answers_kept(db: Database, corpus: str) -> int:
    return int(value(db, "SELECT count(*) FROM graphrag.llm_cache WHERE corpus_id = %s", corpus_id(db, corpus)))


@pytest.mark.parametrize("call", [ask, work])
def test_requests_run_side_by_side_up_to_the_concurrency(models: Database, endpoint: Endpoint, call: Any) -> None:
    corpus = corpus_of(models, endpoint, concurrency=5)
    endpoint.latency = 0.05
    result = call(models, corpus, [f"prompt {n}" for n in range(20)])
    assert faults(result) == [None] * 20, messages(result)
    assert result["usage"]["calls"] == endpoint.count() == 20
    assert endpoint.peak == 5
    assert places_held(models) == 0


def test_sessions_together_stay_within_the_concurrency_and_none_starves(models: Database, endpoint: Endpoint) -> None:
    corpus = corpus_of(models, endpoint, concurrency=2)
    endpoint.latency = 0.05
    busy = other_session(models, corpus, [f"busy {n}" for n in range(2000)])
    wait_for(lambda: endpoint.in_flight == 2, "a busy worker")
    assert faults(ask(models, corpus, ["in between"])) == [None]
    assert busy.is_alive(), "the other waited until the busy one had ended"
    busy.connection.cancel()
    assert isinstance(busy.finish(), psycopg.errors.QueryCanceled)
    assert endpoint.peak == 2
    wait_for(lambda: places_held(models) == 0, "the end of the session")


def test_the_same_prompt_is_sent_once_and_the_second_time_not_at_all(models: Database, endpoint: Endpoint) -> None:
    corpus = corpus_of(models, endpoint)
    result = work(models, corpus, ["one", "two", "one", "one"])
    assert result["outcomes"] == [{"ok": {"answer": 42}}] * 4
    assert endpoint.count() == 2
    again = ask(models, corpus, ["one", "two"])
    assert again["outcomes"] == [{"ok": {"answer": 42}}] * 2
    assert again["usage"] == {"calls": 0, "tokens_in": 0, "tokens_out": 0, "cost": 0.0, "cache_hits": 2}
    assert endpoint.count() == 2


def test_only_what_was_read_completely_is_cached(models: Database, endpoint: Endpoint) -> None:
    corpus = corpus_of(models, endpoint)
    endpoint.misbehave("cut_off")
    endpoint.misbehave("prose")
    assert faults(work(models, corpus, ["a"])) == ["ItemFault"]
    assert faults(work(models, corpus, ["a"])) == ["ItemFault"]
    assert faults(work(models, corpus, ["a"])) == [None]
    assert endpoint.count() == 3


def test_nothing_is_written_where_nothing_may_be_written(models: Database, endpoint: Endpoint) -> None:
    corpus = corpus_of(models, endpoint)
    models.execute("BEGIN READ ONLY")
    try:
        assert faults(ask(models, corpus, ["a"], writes=False)) == [None]
    finally:
        models.execute("ROLLBACK")
    assert endpoint.count() == 1


@pytest.mark.parametrize(
    ("limit", "size", "asked"), [({"requests_per_minute": 3}, 1, 3), ({"tokens_per_minute": 1000}, 1600, 2)]
)
def test_what_a_minute_has_holds_back_the_rest_also_in_a_new_session(
    models: Database, endpoint: Endpoint, limit: dict[str, int], size: int, asked: int
) -> None:
    corpus = corpus_of(models, endpoint, **limit)
    for session in range(2):
        other = other_session(models, corpus, [f"{session} {n}" + "x" * size for n in range(5)])
        wait_for(lambda: endpoint.count() >= asked, "the minute's requests")
        # It waits, and can be cancelled while it waits.
        time.sleep(0.5)
        models.execute("SELECT pg_cancel_backend(%s)", [other.pid])
        assert isinstance(other.finish(), psycopg.errors.QueryCanceled)
        assert endpoint.count() == asked


def test_a_spent_budget_stops_new_calls_but_not_the_cache(models: Database, endpoint: Endpoint) -> None:
    corpus = corpus_of(models, endpoint, {"monthly_budget": 1.0}, price_input=1e6, price_output=0)
    result = work(models, corpus, ["abcd" * 10])
    assert result["usage"]["cost"] == 11.0
    again = work(models, corpus, ["abcd" * 10, "another"])
    assert faults(again) == [None, "BudgetReached"]
    assert f'budget of corpus "{corpus}" is reached: 11.0000 of 1.0000' in messages(again)
    with psycopg.connect(models.url, autocommit=True) as other:
        assert faults(work(other, corpus, ["a third"])) == ["BudgetReached"]
    assert endpoint.count() == 1


def test_calls_are_accounted_with_tokens_cost_and_failures(models: Database, endpoint: Endpoint) -> None:
    corpus = corpus_of(models, endpoint, price_input=2.0, price_output=8.0)
    endpoint.misbehave("server_error")
    assert faults(work(models, corpus, ["a" * 4000])) == ["ProviderFault"]
    assert faults(work(models, corpus, ["a" * 4000])) == [None]
    records = rows(
        models,
        "SELECT l.purpose, l.model, l.tokens_in, l.tokens_out, l.cost::float8, l.seconds > 0, l.error FROM graphrag.llm_calls l"
        " JOIN graphrag.corpora c ON c.id = l.corpus_id AND c.name = %s ORDER BY l.id",
        corpus,
    )
    assert [row[:6] for row in records] == [
        ("extract", "model-1", 0, 0, 0.0, True),
        ("extract", "model-1", 1001, 4, (1001 * 2 + 4 * 8) / 1e6, True),
    ]
    assert "answered 500" in records[0][6]
    assert records[1][6] is None


def test_someone_who_waits_has_failures_tried_again_and_a_worker_leaves_that_to_the_queue(
    models: Database, endpoint: Endpoint
) -> None:
    corpus = corpus_of(models, endpoint)
    endpoint.misbehave("server_error", times=2)
    assert faults(ask(models, corpus, ["a"])) == [None]
    assert endpoint.count() == 3
    endpoint.forget()
    endpoint.misbehave("server_error", times=1)
    assert faults(work(models, corpus, ["b"])) == ["ProviderFault"]
    assert endpoint.count() == 1


@pytest.mark.parametrize("after", [40, timedelta(seconds=41)])
def test_retry_after_is_heard_by_every_session(models: Database, endpoint: Endpoint, after: Any) -> None:
    corpus = corpus_of(models, endpoint, concurrency=1)
    endpoint.misbehave("rate_limited", retry_after=after)
    result = work(models, corpus, ["a", "b"])
    assert faults(result) == ["ProviderFault"] * 2
    assert endpoint.count() == 1
    assert all(35 < outcome["retry_after"] <= 41 for outcome in result["outcomes"])
    with psycopg.connect(models.url, autocommit=True) as other:
        again = work(other, corpus, ["c"])
        assert faults(again) == faults(ask(other, corpus, ["d"])) == ["ProviderFault"]
        assert "Rate limit reached" in messages(again)
        assert again["outcomes"][0]["hint"] == "graphrag.retry_failed() asks it again at once."
    assert endpoint.count() == 1


def test_failures_in_a_row_open_the_breaker_and_retry_failed_closes_it(models: Database, endpoint: Endpoint) -> None:
    corpus = corpus_of(models, endpoint, concurrency=1)
    endpoint.misbehave("unavailable", times=None)
    result = work(models, corpus, [f"{n}" for n in range(20)])
    assert faults(result) == ["ProviderFault"] * 20
    # A probe says that it is none of the texts.
    assert endpoint.count() == 6
    assert "is not asked for" in result["outcomes"][-1]["message"]
    state = "SELECT failures, openings, open_until > now() FROM graphrag.provider_state"
    assert rows(models, state)[-1] == (5, 1, True)
    endpoint.behave()
    assert faults(work(models, corpus, ["x"])) == ["ProviderFault"]
    assert endpoint.count() == 6
    models.execute("SELECT graphrag.retry_failed()")
    assert rows(models, state) == []
    assert faults(work(models, corpus, ["x"])) == [None]


def test_a_burst_of_failures_counts_as_one_opening(models: Database, endpoint: Endpoint) -> None:
    corpus = corpus_of(models, endpoint, concurrency=16)
    endpoint.misbehave("unavailable", times=None)
    endpoint.latency = 0.1
    assert faults(work(models, corpus, [f"{n}" for n in range(16)])) == ["ProviderFault"] * 16
    assert endpoint.count() == 17
    assert rows(models, "SELECT openings, open_until < now() + '3 s' FROM graphrag.provider_state") == [(1, True)]
    models.execute("SELECT graphrag.retry_failed()")


def test_after_its_time_the_breaker_lets_one_failure_open_it_for_longer_and_an_answer_close_it(
    models: Database, endpoint: Endpoint
) -> None:
    corpus = corpus_of(models, endpoint, concurrency=1)
    past = "UPDATE graphrag.provider_state SET open_until = now() - interval '1 s'"
    endpoint.misbehave("unavailable", times=8)
    work(models, corpus, [f"{n}" for n in range(6)])
    models.execute(past)
    assert faults(work(models, corpus, ["a", "b"])) == ["ProviderFault"] * 2
    assert endpoint.count() == 8
    assert rows(models, "SELECT failures, openings FROM graphrag.provider_state") == [(6, 2)]
    models.execute(past)
    assert faults(work(models, corpus, ["a", "b"])) == [None, None]
    assert rows(models, "SELECT failures, openings FROM graphrag.provider_state") == [(0, 0)]
    models.execute("SELECT graphrag.retry_failed()")


HANGING = ["timeout", "hang_mid_body"]


@pytest.mark.sample(2)
@pytest.mark.parametrize("kind", HANGING)
@pytest.mark.parametrize("how", ["statement_timeout", "pg_cancel_backend", "pg_terminate_backend"])
def test_a_hanging_call_ends_at_once_and_leaves_nothing_behind(
    models: Database, endpoint: Endpoint, kind: str, how: str
) -> None:
    corpus = corpus_of(models, endpoint, concurrency=3)
    endpoint.misbehave(kind, times=None, when=lambda request: "hang" in request.text)
    before = []
    if how == "statement_timeout":
        # Not while the package is imported.
        before = [work_statement(corpus_of(models, endpoint), ["warm up"]), "SET statement_timeout = '3s'"]
    other = other_session(models, corpus, ["good", "hang 1", "hang 2"], *before)
    wait_for(lambda: sum(bool(request.faults) for request in endpoint.requests) == 2, "two calls that hang")
    # A second, in which what is done is written down: what is answered must not be paid again.
    wait_for(lambda: answers_kept(models, corpus), "the answer")
    if how == "statement_timeout":
        ended = other.finish()
    else:
        asked = time.monotonic()
        models.execute(f"SELECT {how}(%s)".encode(), [other.pid])
        ended = other.finish()
        took = time.monotonic() - asked
        print(f"{how} of {kind}: {took:.3f} s")
        assert took < 3
    assert ended is not None
    assert ended.sqlstate in ("57014", "57P01", None)
    wait_for(lambda: endpoint.connections == 0 or how != "pg_terminate_backend", "connections to close")
    wait_for(lambda: endpoint.in_flight == 0, "the calls to end at the endpoint too")
    wait_for(lambda: places_held(models) == 0, "the slots")
    endpoint.behave()
    endpoint.forget()
    assert faults(work(models, corpus, ["good", "hang 1"])) == [None, None]
    assert endpoint.count() == 1


def test_statement_timeout_ends_a_hanging_call_of_someone_who_waits(models: Database, endpoint: Endpoint) -> None:
    corpus = corpus_of(models, endpoint)
    ask(models, corpus, ["warm up"])
    endpoint.misbehave("timeout", times=None)
    models.execute("SET statement_timeout = '500ms'")
    try:
        began = time.monotonic()
        with pytest.raises(psycopg.errors.QueryCanceled):
            ask(models, corpus, ["hang"])
        took = time.monotonic() - began
        print(f"statement_timeout of .5 s: {took:.3f} s")
        assert took < 3
    finally:
        models.execute("RESET statement_timeout")
    wait_for(lambda: endpoint.in_flight == 0, "the call to end at the endpoint too")
    assert places_held(models) == 0


def test_no_transaction_is_open_while_a_worker_waits_for_models(models: Database, endpoint: Endpoint) -> None:
    corpus = corpus_of(models, endpoint)
    endpoint.pause()
    other = other_session(models, corpus, ["a", "b", "c"])
    wait_for(lambda: endpoint.in_flight == 3, "calls on their way")
    activity = "SELECT backend_xid IS NULL AND backend_xmin IS NULL FROM pg_stat_activity WHERE pid = %s"
    # It looks for cancel now and then, for a moment.
    seen = [value(models, activity, other.pid) for _ in range(200) if time.sleep(0.005) is None]
    endpoint.resume()
    assert other.finish() is None
    assert sum(seen) > 150


def test_what_is_answered_is_written_down_while_others_still_run(models: Database, endpoint: Endpoint) -> None:
    corpus = corpus_of(models, endpoint)
    endpoint.misbehave("timeout", times=None, when=lambda request: "hang" in request.text)
    other = other_session(models, corpus, ["good", "hang"])
    wait_for(lambda: answers_kept(models, corpus), "the answer")
    models.execute("SELECT pg_terminate_backend(%s)", [other.pid])
    assert other.finish() is not None
    endpoint.behave()
    endpoint.forget()
    assert faults(work(models, corpus, ["good", "hang"])) == [None, None]
    assert endpoint.count() == 1


@pytest.mark.slow
def test_a_thousand_calls_leave_the_session_as_large_as_a_hundred(models: Database, endpoint: Endpoint) -> None:
    with psycopg.connect(models.url, autocommit=True) as session:
        corpus = corpus_of(models, endpoint, concurrency=16)
        sizes = []
        for part in range(11):
            result = work(session, corpus, [f"{part} {n} " + "x" * 2000 for n in range(100)])
            assert faults(result) == [None] * 100
            sizes.append(int(result["memory"]))
    print("ru_maxrss, kB:", sizes)
    assert sizes[-1] - sizes[1] < 4096
    assert endpoint.connections <= 16


def test_a_provider_that_knows_no_structured_output_or_temperature_is_asked_without(
    models: Database, endpoint: Endpoint
) -> None:
    corpus = corpus_of(models, endpoint)
    endpoint.misbehave("no_response_format", times=None)
    endpoint.misbehave(
        "bad_request",
        times=None,
        when=lambda request: "temperature" in request.body and "response_format" not in request.body,
        message="Unsupported value: 'temperature' does not support 0 with this model.",
    )
    schema = {"name": "keywords", "schema": {"type": "object"}}
    assert faults(work(models, corpus, ["a"], schema=schema)) == [None]
    assert [sorted(set(r.body) & {"response_format", "temperature"}) for r in endpoint.requests] == [
        ["response_format", "temperature"],
        ["temperature"],
        [],
    ]
    assert faults(work(models, corpus, ["b"], schema=schema)) == [None]
    assert endpoint.count() == 4


def test_every_session_knows_that_a_server_is_llama_cpps_once_one_has_seen_it(
    models: Database, endpoint: Endpoint
) -> None:
    corpus = corpus_of(models, endpoint)
    endpoint.server = "llama.cpp"
    ask(models, corpus, ["a"])
    with psycopg.connect(models.url, autocommit=True) as other:
        ask(other, corpus, ["b"])
    endpoint.server = ""
    # Another server may be behind another address, and refuse what only llama.cpp's knows.
    models.execute("UPDATE graphrag.providers SET base_url = base_url || '/'")
    ask(models, corpus, ["c"])
    assert ["return_progress" in request.body for request in endpoint.requests] == [False, True, False]


def test_a_stream_comes_in_pieces_and_can_be_left_at_any_piece(models: Database, endpoint: Endpoint) -> None:
    corpus = corpus_of(models, endpoint, concurrency=1)
    endpoint.reply("one two three four")
    got = rows(models, "SELECT s FROM public.stream_model(%s, 'x') s", corpus)
    assert [piece for (piece,) in got] == ["one", " two", " three", " four"]
    endpoint.misbehave("slow_stream", times=None, pause=0.3)
    for end in ("CLOSE c; COMMIT", "COMMIT", "ROLLBACK"):
        with psycopg.connect(models.url, autocommit=True) as session:
            session.execute("BEGIN")
            session.execute(f"DECLARE c CURSOR FOR SELECT public.stream_model('{corpus}', '{end}')".encode())
            assert rows(session, "FETCH 1 FROM c") == [("one",)]
            assert places_held(models) == 1
            session.execute(end.encode())
            # The session lives on, idle.
            wait_for(lambda: endpoint.in_flight == 0, "the stream to end at the endpoint too")
            assert places_held(models) == 0
    endpoint.behave()
    endpoint.misbehave("server_error", times=2)
    assert len(rows(models, "SELECT public.stream_model(%s, 'y')", corpus)) == 4


def test_streams_of_one_session_have_their_own_places(models: Database, endpoint: Endpoint) -> None:
    corpus = corpus_of(models, endpoint, concurrency=1)
    endpoint.reply("one two three four")
    endpoint.misbehave("slow_stream", times=None, pause=0.05)
    endpoint.forget()
    with models.transaction():
        for name in ("a", "b"):
            models.execute(f"DECLARE {name} CURSOR FOR SELECT public.stream_model('{corpus}', 'both {name}')".encode())
        assert rows(models, "FETCH 1 FROM a") == rows(models, "FETCH 1 FROM b") == [("one",)]
        # Other requests of the session wait for the second stream as the second for the first.
        assert faults(ask(models, corpus, ["both c"], prose=True)) == [None]
        assert len(rows(models, "FETCH ALL FROM a")) == len(rows(models, "FETCH ALL FROM b")) == 3
    assert endpoint.peak == 1
    assert places_held(models) == 0


@pytest.mark.parametrize("kind", ["broken_stream", "garbled_stream", "reset_mid_body"])
def test_a_stream_that_breaks_off_is_an_error(models: Database, endpoint: Endpoint, kind: str) -> None:
    corpus = corpus_of(models, endpoint)
    endpoint.reply("one two three four")
    endpoint.misbehave(kind, times=None)
    *_, (last,) = rows(models, "SELECT public.stream_model(%s, 'x')", corpus)
    assert last.startswith("ProviderFault: ")
    assert places_held(models) == 0
    assert answers_kept(models, corpus) == 0


def test_a_hanging_stream_is_cancelled_in_time(models: Database, endpoint: Endpoint) -> None:
    corpus = corpus_of(models, endpoint)
    endpoint.reply("one two three four")
    endpoint.misbehave("hanging_stream", times=None)
    other = Background(models.url, f"SELECT public.stream_model('{corpus}', 'x')")
    wait_for(lambda: endpoint.in_flight == 1, "the stream")
    cancel = threading.Timer(0.5, lambda: other.connection.cancel())
    cancel.start()
    assert isinstance(other.finish(), psycopg.errors.QueryCanceled)
    wait_for(lambda: endpoint.in_flight == 0, "the stream to end at the endpoint too")
    assert places_held(models) == 0
