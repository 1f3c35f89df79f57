"""The blocking client is the one on asyncio, without the waiting."""

from __future__ import annotations

import pytest

from extension import blocking_client
from tests.runtime.cluster import Runtime

ASYNCHRONOUS = (blocking_client.CLIENT / "asynchronous.py").read_text(encoding="utf-8")


def test_this_package_and_an_installation_have_the_client_that_builds_make(runtime: Runtime) -> None:
    (site,) = runtime.root.glob("usr/lib/pg_graphrag/venv/lib/python3*/site-packages")
    made = blocking_client.blocking(ASYNCHRONOUS)
    assert blocking_client.FILE.read_text(encoding="utf-8") == made, "run ./test, which makes it"
    assert (site / "pg_graphrag/beside/client/blocking.py").read_text(encoding="utf-8") == made


def test_nothing_of_asyncio_is_left() -> None:
    made = blocking_client.blocking(ASYNCHRONOUS)
    assert "async" not in made.replace("asynchronous.py", "").lower()
    assert "await" not in made


def test_a_change_that_finds_nothing_is_named() -> None:
    with pytest.raises(ValueError, match="tasks of one event loop"):
        blocking_client.blocking(ASYNCHRONOUS.replace("tasks of one event loop", "tasks"))
