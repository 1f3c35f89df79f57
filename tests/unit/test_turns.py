"""Calls of one process: each goes on over its own connection, whoever else has had a turn meanwhile."""

import threading
import time
from collections.abc import Callable
from typing import Any

import pytest
from pg_graphrag.beside.process import turns
from pg_graphrag.beside.process.turns import Turn


class Connection:
    """Stands for a `ProcessDatabase`."""

    is_cancelled = False

    def begin_call(self) -> None:
        self.is_cancelled = False

    def check_cancelled(self) -> None:
        if self.is_cancelled:
            raise InterruptedError

    def error(self, error: Exception) -> Exception:
        return error


@pytest.fixture(autouse=True)
def short(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(turns, "LONG_STATEMENT", 0.01)
    # Other threads run meanwhile.
    monkeypatch.setattr(turns, "remember", lambda identity: time.sleep(0.001))


def together(*calls: Callable[[], Any]) -> list[BaseException]:
    """Run calls side by side; return what they raise."""
    raised: list[BaseException] = []

    def run(call: Callable[[], Any]) -> None:
        try:
            call()
        except BaseException as error:
            raised.append(error)

    threads = [threading.Thread(target=run, args=[call]) for call in calls]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(20)
    assert not any(thread.is_alive() for thread in threads)
    assert turns._running is None and turns._at_work == {}
    return raised


def test_a_call_has_its_own_connection_after_it_waited_or_ran_a_long_statement() -> None:
    def call() -> None:
        own: Any = Connection()
        for _ in range(20):
            with Turn(own, 1) as _:
                for _ in range(3):
                    with turns.running().in_statement():
                        time.sleep(0.012)
                    assert turns.running().database is own
                    with turns.running().lent():
                        time.sleep(0.002)
                    assert turns.running().database is own

    assert together(*[call] * 4) == []


def test_a_connection_serves_one_thread_at_a_time() -> None:
    shared: Any = Connection()
    at_work: list[int] = []

    def call() -> None:
        with Turn(shared, 1), turns.running().lent():
            at_work.append(1)
            assert len(at_work) == 1
            time.sleep(0.02)
            at_work.pop()

    assert together(*[call] * 4) == []


def test_within_a_call_another_threads_connection_is_refused() -> None:
    first: Any = Connection()
    second: Any = Connection()
    is_lent = threading.Event()

    def wait() -> None:
        with Turn(first, 1), turns.running().lent():
            is_lent.set()
            time.sleep(0.1)

    def nest() -> None:
        is_lent.wait()
        with Turn(second, 1), pytest.raises(Exception, match="another thread") as raised, Turn(first, 1):
            pass
        assert getattr(raised.value, "sqlstate", None) == "55000"

    assert together(wait, nest) == []


def test_a_call_that_waits_for_its_turn_hears_a_cancel() -> None:
    own: Any = Connection()
    waits, is_over = threading.Event(), threading.Event()

    def work() -> None:
        with Turn(Connection(), 1):  # type: ignore[arg-type]
            waits.set()
            # The turn is given to nobody meanwhile.
            assert is_over.wait(10)

    def wait() -> None:
        waits.wait()
        with pytest.raises(InterruptedError), Turn(own, 1):
            pass
        is_over.set()

    def cancel() -> None:
        while id(own) not in turns._at_work:
            time.sleep(0.001)
        own.is_cancelled = True

    assert together(work, wait, cancel) == []


def test_what_ends_a_cancelled_call_waits_for_its_turn() -> None:
    own: Any = Connection()
    waits, has_ended = threading.Event(), threading.Event()

    def work() -> None:
        with Turn(Connection(), 1):  # type: ignore[arg-type]
            waits.set()
            assert not has_ended.wait(0.2)

    def end() -> None:
        waits.wait()
        with Turn(own, 1, is_end=True):
            has_ended.set()

    def cancel() -> None:
        while id(own) not in turns._at_work and not has_ended.is_set():
            time.sleep(0.001)
        own.is_cancelled = True

    assert together(work, end, cancel) == []


def test_a_cancelled_call_goes_on_at_the_next_statement_of_another() -> None:
    own: Any = Connection()
    is_lent, is_over = threading.Event(), threading.Event()

    def wait() -> None:
        with Turn(own, 1):
            with turns.running().lent():
                is_lent.set()
                own.is_cancelled = True
                time.sleep(0.05)
            is_over.set()

    def work() -> None:
        is_lent.wait()
        with Turn(Connection(), 1):  # type: ignore[arg-type]
            while not is_over.is_set():
                with turns.running().in_statement():
                    pass

    assert together(wait, work) == []


def test_an_interrupt_is_raised_when_the_turn_is_there(monkeypatch: pytest.MonkeyPatch) -> None:
    own: Any = Connection()
    waits = iter([KeyboardInterrupt()])
    wait_for = turns._changed.wait_for

    def interrupted(may: Callable[[], bool], seconds: float) -> bool:
        for error in waits:
            raise error
        return wait_for(may, seconds)

    with pytest.raises(KeyboardInterrupt), Turn(own, 1), turns.running().lent():
        monkeypatch.setattr(turns._changed, "wait_for", interrupted)
    assert turns._running is None and turns._at_work == {}


def test_a_thread_without_a_turn_sends_nothing() -> None:
    with pytest.raises(RuntimeError, match="no turn"):
        turns.running()
