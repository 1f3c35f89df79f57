"""Fixtures of the security tests: those of the SQL tests, and Mallory."""

from collections.abc import Iterator

import pytest

from tests.runtime.cluster import Cluster, Database, Server
from tests.security.mallory import attacking
from tests.security.node_b import node_b
from tests.sql.conftest import endpoint, module_endpoint

__all__ = ["endpoint", "module_endpoint"]


@pytest.fixture
def db(fresh_db: Database) -> Database:
    """A new database, whose session has planned nothing yet: attacks change what plans mean."""
    return fresh_db


@pytest.fixture(scope="module")
def there(shared_cluster: Cluster | Server, module_db: Database) -> Iterator[Database]:
    """Node b, which the database of the module asks."""
    with node_b(shared_cluster, module_db) as node:
        yield node


@pytest.fixture
def mallory(db: Database) -> Iterator[Database]:
    """Mallory's session; her schema is her own, and she may attach tables."""
    with attacking(db) as connection:
        yield connection
