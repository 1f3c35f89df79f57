"""Package and databases are updated in any order, on a primary and its standby, each with packages of its own."""

from __future__ import annotations

import os
import re
import secrets
import shutil
import subprocess
import sys
import tarfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import psycopg
import pytest
from pg_graphrag import __version__ as VERSION
from psycopg.conninfo import make_conninfo

from tests.runtime.cluster import PROJECT, SERVER_PYTHONPATH, Cluster, Database, Runtime
from tests.sql.ingest import index_all, rows, value, wait_for, work
from tests.upgrade.freeze import MODES
from tests.upgrade.released import skip_without_released
from tests.upgrade.test_served_versions import BEFORE, TEXTS, found, neighbors, of_version

FOLDER = """
DO LANGUAGE plpython3u $$
import pg_graphrag
plpy.execute(plpy.prepare("SELECT set_config('loaded.folder', $1, false)", ["text"]), [pg_graphrag.__path__[0]])
$$
"""


class Packages:
    """The packages of one server: what its venv is elsewhere, made by the released and by this install script."""

    def __init__(self, runtime: Runtime) -> None:
        # Beside the clusters, and removed like one whose process is dead.
        self.folder = runtime.clusters / f"{os.getpid()}-{secrets.token_hex(4)}"
        subprocess.run([sys.executable, "-m", "venv", "--without-pip", str(self.folder / "venv")], check=True)
        (self.site,) = self.folder.glob("venv/lib/python*/site-packages")
        inside = Path("/srv/pg_graphrag/clusters") / self.site.relative_to(runtime.clusters)
        self.environment = {"PYTHONPATH": ":".join([str(inside), *filter(None, [SERVER_PYTHONPATH])])}
        self.folder.chmod(0o755)

    def release(self, version: str) -> None:
        """Lay the package of a release there, as its own script did."""
        copy = self.site / f".pg_graphrag-{version}"
        with tarfile.open(PROJECT / f"extension/released/pg_graphrag-{version}.tar.xz") as archive:
            archive.extractall(copy, filter="data")
        self._link(f"{copy.name}/pg_graphrag")

    def install(self, version: str = VERSION) -> None:
        """Install this checkout's package; one of a later version is the same one, which serves the version before by a copy."""
        before = VERSION if version != VERSION else None
        tags = {path.name.removeprefix(".pg_graphrag-") for path in self.site.glob(".pg_graphrag-*")}
        subprocess.run(
            ["sh", str(PROJECT / "extension/install-package"), version],
            env=os.environ | {"GRAPHRAG_VENV": str(self.folder / "venv")},
            check=True,
        )
        if before is None:
            return
        package = self.site / f".pg_graphrag-{version}/pg_graphrag"
        for tag in tags:
            served = self.site / f".pg_graphrag-{tag}/pg_graphrag"
            if served.exists():
                shutil.copytree(served, package.parent / f"released/{tag}/pg_graphrag")
        init = package / "__init__.py"
        init.write_text(
            re.sub(r'^__version__ = ".*"$', f'__version__ = "{version}"', init.read_text(), flags=re.MULTILINE)
        )
        shutil.rmtree(package / "__pycache__", ignore_errors=True)

    def copy(self, other: Packages) -> None:
        """Have what another server has, on which the same was installed: an installation takes three seconds of the processor."""
        shutil.rmtree(self.site)
        shutil.copytree(other.site, self.site, symlinks=True)

    def _link(self, target: str) -> None:
        link = self.site / ".link"
        link.symlink_to(target)
        link.rename(self.site / "pg_graphrag")

    def close(self) -> None:
        shutil.rmtree(self.folder)


@dataclass
class Servers:
    primary: Cluster
    standby: Cluster
    on_primary: Packages
    on_standby: Packages
    url: str

    def session(self, standby: bool = False) -> Database:
        return Database.open(make_conninfo(self.url, port=self.standby.port) if standby else self.url)

    def catch_up(self) -> None:
        with self.primary.connect() as connection, self.standby.connect() as replica:
            last = value(connection, "SELECT pg_current_wal_lsn()::text")
            wait_for(lambda: value(replica, "SELECT pg_last_wal_replay_lsn() >= %s::pg_lsn", last), "the standby")


def two_servers(runtime: Runtime, version: str) -> Iterator[Servers]:
    """A primary and its standby, with the package and a database of a version."""
    closing: list[Packages | Cluster] = []
    try:
        packages = [Packages(runtime), Packages(runtime)]
        closing += packages
        packages[0].install() if version == VERSION else packages[0].release(version)
        packages[1].copy(packages[0])
        primary = Cluster(runtime, environment=packages[0].environment)
        closing.append(primary)
        with Database.open(primary.create_database("app")) as db:
            db.url = primary.url("app")
            db.execute(f"CREATE EXTENSION pg_graphrag VERSION '{version}' CASCADE".encode())
            index_all(db, "default", TEXTS)
        standby = Cluster(runtime, primary=primary, environment=packages[1].environment)
        closing.append(standby)
        servers = Servers(primary, standby, *packages, db.url)
        servers.catch_up()
        yield servers
    finally:
        for each in reversed(closing):
            each.close()


@pytest.fixture
def released(runtime: Runtime) -> Iterator[Servers]:
    skip_without_released()
    yield from two_servers(runtime, BEFORE)


@pytest.fixture
def current(runtime: Runtime) -> Iterator[Servers]:
    yield from two_servers(runtime, VERSION)


def loaded(db: Database) -> str:
    """Return the folder of the package that has the name in the session."""
    db.execute(FOLDER)
    return str(value(db, "SELECT current_setting('loaded.folder')"))


def graph(db: Database) -> list[object]:
    nodes = rows(db, "SELECT key, degree FROM graphrag.graph_nodes ORDER BY 1")
    return [nodes, [row["name"] for row in neighbors(db, "Ann Lee")]]


@pytest.mark.slow
def test_standby_first(released: Servers) -> None:
    with released.session() as writer, released.session(standby=True) as reader:
        before = found(writer)
        assert list(before) == list(MODES) and found(reader) == before
    # A session that loaded a part of the released package goes on with this one, also with what it has not loaded.
    old = released.session(standby=True)
    rows(old, "SELECT * FROM graphrag.search('checkpoint', mode => 'bm25')")
    released.on_standby.install()
    assert found(old) == before and loaded(old).endswith("/site-packages/pg_graphrag")
    with released.session() as writer, released.session(standby=True) as new:
        assert (found(new), graph(new), graph(old)) == (before, graph(writer), graph(writer))
        assert f".pg_graphrag-{VERSION}/released/{BEFORE}/" in loaded(new)
        # The primary works on with its package, and the standby shows it.
        index_all(writer, "default", {"new": "Kim Park starts a checkpoint in Osaka."})
        released.catch_up()
        assert found(new) == found(writer) == found(old) != before

        # Then the primary, whose session goes on likewise.
        released.on_primary.copy(released.on_standby)
        index_all(writer, "default", {"newer": "Bob Stone reads the checkpoint of Kim Park."})
        with released.session() as other:
            index_all(other, "default", {"newest": "Ann Lee praises the checkpoint of Bob Stone."})
            released.catch_up()
            assert found(other) == found(writer) == found(new) == found(old)
            assert rows(other, "SELECT * FROM graphrag.check('default')") == []

            # Then the database.
            other.execute("ALTER EXTENSION pg_graphrag UPDATE")
            work(other)
            released.catch_up()
            assert of_version(new) == VERSION
            assert (found(new), graph(new)) == (found(other), graph(other))
            assert rows(other, "SELECT * FROM graphrag.check('default')") == []
        # What has loaded the released package itself must be opened anew, and says so.
        for session in (old, writer):
            with pytest.raises(
                psycopg.errors.UndefinedFile, match=rf"version {BEFORE}, the extension is {VERSION}"
            ) as error:
                rows(session, "SELECT * FROM graphrag.search('checkpoint')")
            assert "reconnect" in str(error.value.diag.message_hint)
    old.close()


def test_a_standby_that_is_behind_its_database_says_so_until_its_package_is_there(released: Servers) -> None:
    released.on_primary.install()
    with released.session() as writer:
        writer.execute("ALTER EXTENSION pg_graphrag UPDATE")
        work(writer)
        released.catch_up()
        expected = found(writer)
    with released.session(standby=True) as reader, pytest.raises(psycopg.errors.UndefinedFile) as error:
        rows(reader, "SELECT * FROM graphrag.search('checkpoint')")
    assert "Install the package" in str(error.value.diag.message_hint)
    released.on_standby.copy(released.on_primary)
    with released.session(standby=True) as reader:
        assert found(reader) == expected


def updated(db: Database, version: str, to: str) -> None:
    """Make the extension of another version: the same, by another name."""
    db.execute(
        "UPDATE pg_proc SET prosrc = replace(prosrc, %s, %s) WHERE pronamespace = 'graphrag'::regnamespace",
        [f'"{version}"', f'"{to}"'],
    )
    db.execute("UPDATE pg_extension SET extversion = %s WHERE extname = 'pg_graphrag'", [to])


@pytest.mark.slow
def test_sessions_of_this_version_go_over_to_every_later_one(current: Servers) -> None:
    with current.session() as writer, current.session(standby=True) as reader:
        expected = found(writer)
        with current.session() as half:
            rows(half, "SELECT * FROM graphrag.search('checkpoint', mode => 'bm25')")
            for version, later in ((VERSION, "0.9.1"), ("0.9.1", "0.9.2")):
                current.on_standby.install(later)
                current.on_primary.copy(current.on_standby)
                assert found(half) == found(reader) == expected
                assert loaded(half).endswith(f".pg_graphrag-{version}/pg_graphrag")
                updated(writer, version, later)
                current.catch_up()
                for session in (half, reader, writer):
                    assert found(session) == expected
                    assert loaded(session).endswith(f".pg_graphrag-{later}/pg_graphrag")
