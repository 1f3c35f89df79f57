"""Fixtures: throwaway clusters (one per worker, private ones on demand), fresh databases, and the shared data."""

import gc
import importlib
import itertools
import os
import shutil
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path

import pytest

from tests.runtime import beside, slow_tests
from tests.runtime.cluster import (
    MEMORY,
    OWN_CLUSTER,
    PROJECT,
    READINGS,
    REAL_MODEL,
    RUN,
    TEST_URL,
    Cluster,
    Database,
    Runtime,
    Server,
    remove_stale,
)
from tests.runtime.reuse import Reused

# numpy with one thread, as in the server, whichever test imports it first: several workers share the processors.
importlib.import_module("pg_graphrag.ground.numeric")
_numbers = itertools.count(1)

# They take longest, and come first: at the end one worker would have them and the others nothing.
LONGEST = (
    "sql/test_real_model.py",
    "sql/test_surface_plans.py",
    "sql/test_one_answer.py",
    "security/test_what_readers_see.py",
    "sql/test_quickstart.py",
    "security/test_hostile_text.py",
    "security/test_interrupts.py",
    "security/test_graph_hijack.py",
    "security/test_age_catalog.py",
    "sql/test_server_cli.py",
    "sql/test_process_jobs.py",
    "sql/test_cli.py",
    "upgrade/test_upgrade.py",
    "upgrade/test_two_servers.py",
    "upgrade/test_move.py",
    "upgrade/test_served_versions.py",
)


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Iterator[None]:
    """Collect without the garbage collector, which would look a thousand times at modules and tests that all stay."""
    gc.disable()
    try:
        return (yield)
    finally:
        gc.freeze()
        gc.enable()


# Before pytest chooses by marks.
@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Begin with the files of LONGEST; the rest stays as it is. Mark what is slow, and skip what the second host cannot serve."""
    slow_tests.mark_slow(items)
    config.stash[slow_tests.FILES] = slow_tests.everyday_files(items, config.args, config.invocation_params.dir)
    ranks = {PROJECT / "tests" / file: place for place, file in enumerate(LONGEST)}
    items.sort(key=lambda item: ranks.get(item.path, len(LONGEST)))
    if beside.IS_BESIDE:
        for item in items:
            if reason := beside.reason_to_skip(item.path.name, item.name, getattr(item, "fixturenames", ())):
                item.add_marker(pytest.mark.skip(reason=f"beside a database: {reason}"))


def pytest_unconfigure() -> None:
    """Remove what models made of texts in this run, if it is over."""
    if os.getpid() == RUN:
        for folder in MEMORY.glob(f"*/{READINGS}"):
            shutil.rmtree(folder, ignore_errors=True)


@pytest.fixture(scope="session")
def runtime() -> Runtime:
    """The server root of the tests, with this checkout's extension and package installed in it."""
    if TEST_URL:
        pytest.skip(OWN_CLUSTER)
    runtime = Runtime()
    remove_stale(runtime)
    runtime.keep_readings()
    return runtime


@pytest.fixture(scope="session")
def shared_cluster(request: pytest.FixtureRequest) -> Iterator[Cluster | Server]:
    """This worker's cluster, or the server of PG_GRAPHRAG_TEST_URL; its database ``template`` has the extension."""
    cluster = Server(TEST_URL) if TEST_URL else Cluster(request.getfixturevalue("runtime"))
    try:
        url = cluster.create_database("template")
        with cluster.connect("template") as connection:
            if beside.IS_BESIDE:
                beside.prepare(connection)
            else:
                connection.execute("CREATE EXTENSION pg_graphrag CASCADE")
        if beside.IS_BESIDE:
            beside.install(beside.owner_url(url))
            beside.serve_calls()
        yield cluster
    finally:
        cluster.close()


@pytest.fixture(scope="module")
def real_encoder(shared_cluster: Cluster | Server) -> Iterator[None]:
    """Have the module's new sessions embed every text themselves, also those that another has embedded in this run."""
    if isinstance(shared_cluster, Server):
        yield
        return
    marker = shared_cluster.folder / "data" / REAL_MODEL
    marker.touch()
    yield
    marker.unlink()


@pytest.fixture(scope="session")
def reused(shared_cluster: Cluster | Server) -> Iterator[Reused]:
    """The database of this worker that tests have one after another."""
    reused = Reused(partial(_open_database, shared_cluster), partial(_drop_database, shared_cluster))
    yield reused
    reused.close()


@pytest.fixture
def db(reused_db: Database) -> Database:
    """A database with the extension and nothing in it, for one test: an autocommit connection with ``.url``.

    Others have used it, and its session: a test of what is new takes `fresh_db`.
    """
    return reused_db


@pytest.fixture
def reused_db(request: pytest.FixtureRequest) -> Iterator[Database]:
    """As `db`, also where `db` is a new one."""
    if beside.IS_BESIDE:
        yield request.getfixturevalue("fresh_db")
        return
    reused: Reused = request.getfixturevalue("reused")
    database = reused.take()
    yield database
    reused.give_back(database)


@pytest.fixture
def fresh_db(shared_cluster: Cluster | Server) -> Iterator[Database]:
    """As `db`, new, with a session that has done nothing."""
    yield from _fresh_database(shared_cluster)


@pytest.fixture(scope="module")
def module_db(shared_cluster: Cluster | Server) -> Iterator[Database]:
    """As `fresh_db`, shared by the tests of a module."""
    yield from _fresh_database(shared_cluster)


@pytest.fixture
def empty_db(shared_cluster: Cluster | Server) -> Iterator[Database]:
    """A fresh database without the extension."""
    yield from _fresh_database(shared_cluster, template="template1")


@pytest.fixture
def cluster(runtime: Runtime) -> Iterator[Callable[..., Cluster]]:
    """Make private clusters: ``cluster()``, ``cluster({"wal_level": "logical"})``; they are removed after the test."""
    clusters: list[Cluster] = []

    def make(
        settings: dict[str, str] | None = None,
        primary: Cluster | None = None,
        environment: dict[str, str] | None = None,
        backup_of: Cluster | None = None,
    ) -> Cluster:
        clusters.append(Cluster(runtime, settings, primary, environment, backup_of))
        return clusters[-1]

    yield make
    for server in clusters:
        server.close()


@pytest.fixture(scope="session")
def shared_data() -> Path:
    """The folder of real data beside the project; tests skip where it is absent."""
    folder = PROJECT.parent / "shared" / "data"
    if not folder.is_dir():
        pytest.skip("no real data here: ../shared/data is not beside the project")
    return folder


def _fresh_database(cluster: Cluster | Server, template: str = "template") -> Iterator[Database]:
    database = _open_database(cluster, template)
    try:
        yield database
    finally:
        _drop_database(cluster, database)


def _open_database(cluster: Cluster | Server, template: str = "template") -> Database:
    name = f"test{next(_numbers)}"
    database = Database.open(cluster.create_database(name, template))
    database.name = name
    if beside.IS_BESIDE and template == "template":
        beside.let_owner_create(database)
        database.url = beside.owner_url(database.url)
    return database


def _drop_database(cluster: Cluster | Server, database: Database) -> None:
    database.close()
    cluster.drop_database(database.name)
