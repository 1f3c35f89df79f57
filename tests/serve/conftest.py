"""Fixtures of the tests of ``pg-graphrag serve``."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.endpoint import Endpoint
from tests.runtime.cluster import Database
from tests.serve.serving import Serving, serving
from tests.sql import asking


@pytest.fixture(scope="module")
def module_endpoint() -> Iterator[Endpoint]:
    """An endpoint for models, shared by the tests of a module."""
    with Endpoint() as server:
        server.reply(asking.lines)
        yield server


@pytest.fixture(scope="module")
def corpus(module_db: Database, module_endpoint: Endpoint) -> str:
    """The stories, with communities and the endpoint's model."""
    return asking.stories(module_db, module_endpoint, corpus={"communities": True})


@pytest.fixture(scope="module")
def server(module_db: Database, corpus: str) -> Iterator[Serving]:
    """The server of the stories."""
    with serving(module_db.url, corpus=corpus, mcp_rights=frozenset(("insert", "curate", "cypher"))) as address:
        yield address
