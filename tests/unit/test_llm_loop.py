"""The background thread: results as they end, cancel that closes, and no signal for it."""

import asyncio
import signal
import threading

import pytest
from pg_graphrag.llm.endpoints.faults import StreamExpired
from pg_graphrag.llm.endpoints.loop import Piece, Requests


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


class _Lease:
    """Time without end, unless there is a fault."""

    def __init__(self, fault: StreamExpired | None = None) -> None:
        self._fault = fault
        self.is_released = threading.Event()

    def expired(self) -> StreamExpired | None:
        return self._fault

    def release(self) -> None:
        self.is_released.set()


@pytest.mark.parametrize("is_broken", [False, True])
def test_pieces_come_before_the_result_or_the_error(is_broken: bool) -> None:
    async def work() -> str:
        requests.give("tag", "a")
        requests.give("tag", "b")
        if is_broken:
            raise ValueError("broken")
        return "ab"

    requests, lease = Requests(), _Lease()
    requests.start("tag", work, lease)
    taken = [requests.take(5) for _ in range(3)]
    assert [outcome[:2] for outcome in taken if outcome] == [
        ("tag", "a"),
        ("tag", "b"),
        ("tag", None if is_broken else "ab"),
    ]
    assert [isinstance(outcome[1], Piece) for outcome in taken if outcome] == [True, True, False]
    assert len(requests) == 0
    assert lease.is_released.wait(5)


def test_what_is_left_is_closed_and_its_lease_released() -> None:
    closed: list[bool] = []

    async def work() -> None:
        try:
            await asyncio.sleep(60)
        finally:
            closed.append(True)

    requests, lease = Requests(), _Lease()
    requests.start("tag", work, lease)
    assert requests.take(0.05) is None
    requests.cancel()
    assert closed == [True]
    assert lease.is_released.is_set()


def test_what_has_no_time_left_is_closed_although_nobody_takes_anything() -> None:
    async def work() -> None:
        requests.give("tag", "a")
        await asyncio.sleep(60)

    requests, lease = Requests(), _Lease(StreamExpired("open", 0, "stream_seconds"))
    requests.start("tag", work, lease)
    assert lease.is_released.wait(5)
    outcomes = [requests.take(5) for _ in range(2)]
    assert [outcome[1] for outcome in outcomes if outcome] == ["a", None]
    assert outcomes[1] is not None
    assert isinstance(outcomes[1][2], StreamExpired)
