"""Who has which of the connections of ``serve``."""

import asyncio

import pytest
from pg_graphrag.beside.serve import caller_database
from pg_graphrag.beside.serve.caller_database import _Shares
from pg_graphrag.beside.serve.callers import Caller

ANN, BOB, EVE = Caller("ann"), Caller("bob"), Caller("eve")


def test_a_call_that_takes_long_leaves_its_place_as_soon_as_one_of_those_that_wait_is_free(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(caller_database, "LONG_CALL", 0.01)

    async def scene() -> None:
        shares = _Shares(1, 1, is_shared=True)
        first = await shares.take(ANN, waits=False)
        second = await asyncio.wait_for(shares.take(BOB, waits=False), 10)
        # Both are taken, by calls that take long.
        third = asyncio.ensure_future(shares.take(EVE, waits=False))
        await asyncio.sleep(0.1)
        assert not third.done()
        first.give_back()
        third_place = await asyncio.wait_for(third, 10)
        for place in (second, third_place):
            place.give_back()
        assert not shares.calls.in_use and not shares.waits.in_use

    asyncio.run(scene())


def test_who_leaves_before_his_turn_takes_nothing() -> None:
    async def scene() -> None:
        shares = _Shares(1, 1, is_shared=True)
        place = await shares.take(ANN, waits=True)
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(shares.take(BOB, waits=True), 0.01)
        place.give_back()
        (await asyncio.wait_for(shares.take(EVE, waits=True), 10)).give_back()
        assert not shares.waits.in_use

    asyncio.run(scene())
