"""Fixtures of the suites. Loaded as a plugin, since the other tests' conftest.py needs their environment."""

from __future__ import annotations

import os
from collections.abc import Iterator
from uuid import uuid4

import psycopg
import pytest
from pg_graphrag import GraphRAG

URL = os.environ["GRAPHRAG_FRAMEWORK_URL"]
needs_cypher = pytest.mark.skipif(
    os.environ.get("PG_GRAPHRAG_TEST_HOST") == "process", reason="beside a database: Apache AGE is not there"
)


@pytest.fixture(scope="session")
def url() -> str:
    """A database with the extension, or with the schema beside one, of its owner."""
    return URL


@pytest.fixture
def corpus(url: str) -> Iterator[str]:
    """An empty corpus of the test's own."""
    name = f"corpus_{uuid4().hex}"
    with GraphRAG(url, name) as client:
        client.create_corpus()
    yield name


@pytest.fixture
def client(url: str, corpus: str) -> Iterator[GraphRAG]:
    with GraphRAG(url, corpus) as client:
        yield client


@pytest.fixture
def db(url: str) -> Iterator[psycopg.Connection[tuple[object, ...]]]:
    with psycopg.connect(url, autocommit=True) as connection:
        yield connection
