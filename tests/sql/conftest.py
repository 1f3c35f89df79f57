"""Fixtures of the SQL tests."""

from collections.abc import Iterator
from functools import partial

import pytest

from tests.endpoint import Endpoint
from tests.runtime import beside
from tests.runtime.cluster import Cluster, Database, Server
from tests.runtime.reuse import Reused
from tests.sql import asking, llm, themes, two_hosts
from tests.sql.attach import APP, WRITE, session


@pytest.fixture
def endpoint(request: pytest.FixtureRequest) -> Iterator[Endpoint]:
    """An endpoint for models, which answers what the test's module says in REPLY."""
    with Endpoint() as server:
        server.reply(request.module.REPLY)
        yield server


@pytest.fixture(scope="module")
def module_endpoint(request: pytest.FixtureRequest) -> Iterator[Endpoint]:
    """As `endpoint`, shared by the tests of a module."""
    with Endpoint() as server:
        server.reply(request.module.REPLY)
        yield server


@pytest.fixture
def closed_breakers(module_db: Database) -> Iterator[None]:
    """What an endpoint does in a test is forgotten after it."""
    yield
    module_db.execute("SELECT graphrag.retry_failed()")
    module_db.execute("DELETE FROM graphrag.jobs")


@pytest.fixture(scope="module")
def themed(module_db: Database, module_endpoint: Endpoint) -> str:
    """Stories of two worlds with communities and the endpoint's model, shared by the tests of a module."""
    return themes.themed(module_db, module_endpoint)


@pytest.fixture
def corpus(module_db: Database, endpoint: Endpoint) -> str:
    """The stories, with the endpoint's model; modules about other documents have a corpus of their own."""
    return asking.stories(module_db, endpoint)


@pytest.fixture(scope="module")
def models(module_db: Database) -> Database:
    """The module's database, with the tests' doors to the gateway."""
    llm.prepare(module_db)
    return module_db


@pytest.fixture
def app(request: pytest.FixtureRequest, db: Database) -> Iterator[Database]:
    """A session of an ordinary role, which owns its tables, may write documents, and call the functions of attached tables."""
    db.execute(
        f"DO $$ BEGIN CREATE ROLE {APP} LOGIN PASSWORD '{APP}';"
        " EXCEPTION WHEN duplicate_object OR unique_violation THEN NULL; END $$;"
        f"GRANT USAGE ON SCHEMA graphrag TO {APP};"
        f"GRANT EXECUTE ON ROUTINE graphrag.attach_table, graphrag.detach_table, graphrag.backfill_table TO {APP};"
        f"GRANT {WRITE} ON graphrag.documents TO {APP};"
        f"CREATE SCHEMA app AUTHORIZATION {APP}"
    )
    if beside.IS_BESIDE:
        beside.let_owner_act_for(db, APP)
    if "reused_db" in request.fixturenames and not beside.IS_BESIDE:
        reused: Reused = request.getfixturevalue("reused")
        connection = reused.session(APP, partial(session, db))
        connection.execute("SET search_path = app")
        yield connection
        # What it holds would block.
        connection.rollback()
    else:
        with session(db) as connection:
            yield connection
    db.execute(f"DROP OWNED BY {APP} CASCADE")


@pytest.fixture(scope="module")
def plain(shared_cluster: Cluster | Server) -> Iterator[str]:
    """The URL of a database with pgvector and the plain schema alone, for its owner."""
    with two_hosts.plain_database(shared_cluster) as url:
        yield url


@pytest.fixture(scope="module")
def hosts(module_db: Database, plain: str, module_endpoint: Endpoint) -> Iterator[two_hosts.Hosts]:
    """Both hosts with the same corpus, communities and reports by a model, shared by the tests of a module."""
    with two_hosts.both_hosts(module_db.url, plain, module_endpoint) as both:
        yield both
