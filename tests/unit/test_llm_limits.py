"""Pace and breaker by themselves, with a database that remembers what it was told."""

from typing import Any

import pytest
from pg_graphrag.llm.endpoints import provider_limits
from pg_graphrag.llm.endpoints.faults import ProviderFault
from pg_graphrag.llm.endpoints.provider_limits import Breaker, Pace
from pg_graphrag.llm.endpoints.providers import Provider


class Empty:
    """A database without a row."""

    def query(self, sql: str, types: Any = (), values: Any = ()) -> list[dict[str, Any]]:
        return []


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    now = [1000.0]
    monkeypatch.setattr(provider_limits.time, "monotonic", lambda: now[0])
    monkeypatch.setattr(provider_limits, "_recent_requests", {})
    return now


def pace(sharers: int = 1, **options: Any) -> Pace:
    return Pace(Empty(), Provider(1, "p", "openai", "http://x", **options), lambda: sharers)


def breaker() -> Breaker:
    return Breaker(Empty(), Provider(1, "p", "openai", "http://x"), False)


def test_requests_wait_for_the_oldest_of_a_full_minute_to_pass(clock: list[float]) -> None:
    limiter = pace(requests_per_minute=2)
    for _ in range(2):
        assert limiter.wait(5) == 0
        limiter.note(5)
        clock[0] += 10
    assert limiter.wait(5) == 40
    clock[0] += 40
    assert limiter.wait(5) == 0


def test_tokens_wait_until_they_fit_and_more_than_a_minutes_worth_goes_alone(clock: list[float]) -> None:
    limiter = pace(tokens_per_minute=100)
    assert limiter.wait(1000) == 0
    limiter.note(1000)
    assert limiter.wait(1) == 60
    clock[0] += 60
    assert limiter.wait(60) == 0
    limiter.note(60)
    assert limiter.wait(40) == 0
    assert limiter.wait(41) == 60


def test_sessions_share_a_limit_evenly_and_each_may_send_at_least_one(clock: list[float]) -> None:
    assert pace(4, requests_per_minute=2).wait(1) == 0
    limiter = pace(3, requests_per_minute=6)
    limiter.note(1)
    assert limiter.wait(1) == 0
    limiter.note(1)
    assert limiter.wait(1) == 60


def test_a_new_gateway_of_the_session_goes_on_with_the_same_minute(clock: list[float]) -> None:
    pace(requests_per_minute=1).note(1)
    assert pace(requests_per_minute=1).wait(1) == 60


def test_without_limits_nothing_is_kept(clock: list[float]) -> None:
    limiter = pace()
    limiter.note(1)
    assert limiter.wait(10**9) == 0
    assert provider_limits._recent_requests == {}


def test_five_failures_in_a_row_open_the_breaker_an_answer_between_them_does_not(clock: list[float]) -> None:
    circuit = breaker()
    for _ in range(4):
        circuit.failed(ProviderFault("down"), clock[0])
    circuit.succeeded()
    for _ in range(4):
        circuit.failed(ProviderFault("down"), clock[0])
    assert circuit.fault is None
    circuit.failed(ProviderFault("down"), clock[0])
    assert circuit.fault is not None
    assert "down" in circuit.fault.message


def test_what_was_sent_before_the_breaker_opened_does_not_open_it_wider(clock: list[float]) -> None:
    circuit = breaker()
    circuit.failed(ProviderFault("slow down", retry_after=7.0), 1000.0)
    clock[0] += 1
    first = circuit.fault
    for _ in range(20):
        circuit.failed(ProviderFault("slow down", retry_after=7.0), 999.0)
    assert circuit.fault is first
    assert first is not None
    assert first.retry_after == 7.0


def test_a_permanent_fault_opens_it_at_once_for_a_minute(clock: list[float]) -> None:
    circuit = breaker()
    circuit.failed(ProviderFault("no such model", permanent=True, hint="look"), clock[0])
    assert circuit.fault is not None
    assert (circuit.fault.retry_after, circuit.fault.hint) == (60.0, "look")
