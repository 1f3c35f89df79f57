"""The background thread: results as they end, cancel that closes, and no signal for it."""

from __future__ import annotations

import asyncio
import signal
import threading
from collections.abc import AsyncIterator

import pytest
from pg_graphrag.llm.endpoints.faults import StreamExpired
from pg_graphrag.llm.endpoints.loop import Requests, Stream


def test_results_and_errors_come_with_their_tags_in_the_order_in_which_they_end() -> None:
    async def work(seconds: float) -> float:
        await asyncio.sleep(seconds)
        if seconds < 0.02:
            raise ValueError("short")
        return seconds

    requests = Requests()
    for seconds in (0.1, 0.01, 0.05):
        requests.start(seconds, lambda seconds=seconds: work(seconds))
    ended = [requests.take(5) for _ in range(3)]
    assert [result[0] for result in ended if result] == [0.01, 0.05, 0.1]
    assert isinstance(ended[0][2], ValueError)
    assert len(requests) == 0
    assert requests.take(0.01) is None


def test_cancel_returns_when_what_ran_has_let_go() -> None:
    closed: list[str] = []

    async def work(name: str) -> None:
        try:
            await asyncio.sleep(60)
        finally:
            await asyncio.sleep(0.01)
            closed.append(name)

    requests = Requests()
    requests.start(1, lambda: work("a"))
    requests.start(2, lambda: work("b"))
    assert requests.take(0.05) is None
    requests.cancel()
    assert sorted(closed) == ["a", "b"]
    assert len(requests) == 0


@pytest.mark.filterwarnings("error")
def test_cancel_before_the_beginning_leaves_nothing_unawaited() -> None:
    async def work() -> None:
        await asyncio.sleep(60)

    for _ in range(20):
        requests = Requests()
        requests.start(1, work)
        requests.cancel()


def test_the_thread_is_spared_the_signals() -> None:
    async def work() -> set[signal.Signals]:
        return set(signal.pthread_sigmask(signal.SIG_BLOCK, ()))

    requests = Requests()
    requests.start(1, work)
    ended = requests.take(5)
    assert ended is not None
    assert {signal.SIGINT, signal.SIGTERM, signal.SIGUSR1, signal.SIGALRM} <= ended[1]
    assert signal.SIGTERM not in signal.pthread_sigmask(signal.SIG_BLOCK, ())


def test_a_stream_gives_items_then_its_end_or_its_error() -> None:
    async def items(bad: bool) -> AsyncIterator[str]:
        yield "a"
        yield "b"
        if bad:
            raise ValueError("broken")

    stream = Stream(items(False), lambda: None, lambda: None)
    assert [stream.take(5) for _ in range(3)] == [(False, "a"), (False, "b"), (True, None)]
    stream = Stream(items(True), lambda: None, lambda: None)
    assert [stream.take(5) for _ in range(2)] == [(False, "a"), (False, "b")]
    with pytest.raises(ValueError, match="broken"):
        stream.take(5)


def test_a_stream_that_is_left_is_closed() -> None:
    closed: list[bool] = []

    async def items() -> AsyncIterator[str]:
        try:
            yield "a"
            await asyncio.sleep(60)
        finally:
            closed.append(True)

    stream = Stream(items(), lambda: None, lambda: None)
    assert stream.take(5) == (False, "a")
    assert stream.take(0.01) == (False, None)
    stream.cancel()
    assert closed == [True]


def test_a_stream_whose_time_is_over_is_closed_although_nobody_takes_anything() -> None:
    ended = threading.Event()

    async def items() -> AsyncIterator[str]:
        yield "a"
        await asyncio.sleep(60)

    stream = Stream(items(), lambda: StreamExpired("open", 0, "stream_seconds"), ended.set)
    assert ended.wait(5)
    assert stream.take(5) == (False, "a")
    with pytest.raises(StreamExpired):
        stream.take(5)
