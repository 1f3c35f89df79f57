"""The blocking client is the one on asyncio, without the waiting."""

from __future__ import annotations

from tests.blocking_client import BLOCKING, COMMAND, blocking


def test_the_blocking_client_is_made_of_the_one_on_asyncio() -> None:
    assert BLOCKING.read_text(encoding="utf-8") == blocking(), f"run {COMMAND}"
