"""Package and databases are updated in any order, on a primary and its standby, each with packages of its own."""

from __future__ import annotations

import os
import re
import secrets
import shutil
import subprocess
import sys
import tarfile
import threading
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import psycopg
import pytest
from pg_graphrag import __version__ as VERSION
from psycopg.conninfo import make_conninfo

from tests.runtime.cluster import PROJECT, SERVER_PYTHONPATH, Cluster, Database, Runtime
from tests.sql.ingest import delete, index_all, put_all, rows, value, wait_for, work
from tests.upgrade.freeze import MODES
from tests.upgrade.released import SERVED, skip_without_released
from tests.upgrade.test_served_versions import TEXTS, found, neighbors, of_version

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


@pytest.fixture(params=SERVED)
def released(runtime: Runtime, request: pytest.FixtureRequest) -> Iterator[Servers]:
    skip_without_released()
    yield from two_servers(runtime, request.param)


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
        version, before = of_version(writer), found(writer)
        assert list(before) == list(MODES) and found(reader) == before
    # Its modules are imported by the link.
    is_of_link = version == "0.2.0"
    # A session that loaded a part of the released package goes on with this one, also with what it has not loaded.
    old = released.session(standby=True)
    rows(old, "SELECT * FROM graphrag.search('checkpoint', mode => 'bm25')")
    released.on_standby.install()
    folder = "/site-packages/pg_graphrag" if is_of_link else f"/.pg_graphrag-{version}/pg_graphrag"
    assert found(old) == before and loaded(old).endswith(folder)
    with released.session() as writer, released.session(standby=True) as new:
        assert (found(new), graph(new), graph(old)) == (before, graph(writer), graph(writer))
        assert f".pg_graphrag-{VERSION}/released/{version}/" in loaded(new)
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
            for session in (old, writer):
                if is_of_link:
                    # It cannot go over, and says so.
                    with pytest.raises(
                        psycopg.errors.UndefinedFile, match=rf"version {version}, the extension is {VERSION}"
                    ) as error:
                        rows(session, "SELECT * FROM graphrag.search('checkpoint')")
                    assert "reconnect" in str(error.value.diag.message_hint)
                else:
                    assert found(session) == found(other)
    old.close()


@pytest.mark.sample(1)
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


NOTES = {f"n{number}": f"Ann Lee wrote note {number} of the Kestrel database in Osaka." for number in range(100)}
CURATE = (
    "SELECT graphrag.rename_entity('Osaka', 'Osaka City')",
    "SELECT graphrag.merge_entities(ARRAY['Bob Stone'], 'Ann Lee')",
    "SELECT graphrag.create_entity('Nobody', type => 'ghost', description => 'Was never there.')",
    "SELECT graphrag.create_relationship('Ann Lee', 'Nobody', keywords => ARRAY['saw'], description => 'Since 1999.')",
)
ATTACH = """
CREATE SCHEMA shop;
CREATE TABLE shop.notes (id text PRIMARY KEY, body text);
INSERT INTO shop.notes SELECT 'r' || n, 'Row ' || n || ' of Kim Park is in Seoul.' FROM generate_series(1, 30) n;
SELECT graphrag.attach_table('shop.notes', 'shop', 'id', '{body}');
"""


class WorkerThread(threading.Thread):
    """Has loaded the package; started, works until it is ended, and connects again as pg-graphrag worker does.

    `states`: what its errors were.
    """

    def __init__(self, servers: Servers) -> None:
        super().__init__(daemon=True)
        self.states: list[str | None] = []
        self._servers, self._session, self._ends = servers, servers.session(), threading.Event()
        work(self._session, 1)

    def run(self) -> None:
        while not self._ends.wait(0.05):
            try:
                work(self._session, 5)
            except psycopg.Error as error:
                self.states.append(error.sqlstate)
                self._session.close()
                self._session = self._servers.session()

    def end(self) -> None:
        self._ends.set()
        self.join()
        self._session.close()


@pytest.mark.slow
def test_an_update_under_workers_of_both_packages_loses_nothing_and_ends_as_a_fresh_database(released: Servers) -> None:
    """The queue is full; an attached table and documents change meanwhile; people have curated."""
    with released.session() as db:
        db.execute("SELECT graphrag.create_corpus('shop')")
        db.execute(ATTACH)
        for statement in CURATE:
            db.execute(statement)
        curated = rows(db, "SELECT id, kind, arguments FROM graphrag.curations ORDER BY id")
        workers = [WorkerThread(released), WorkerThread(released)]
        released.on_primary.install()
        workers += [WorkerThread(released), WorkerThread(released)]
        put_all(db, "default", NOTES)
        delete(db, "default", "wal")
        db.execute("UPDATE shop.notes SET body = 'Kim Park left for Leeds.' WHERE id < 'r2'")
        for worker in workers:
            worker.start()
        indexed = "SELECT count(*) FROM graphrag.documents WHERE source_key LIKE 'n%%' AND status = 'indexed'"
        wait_for(lambda: value(db, indexed), "the first documents")
        waiting = "SELECT count(*) FROM graphrag.jobs WHERE kind IN ('index', 'remove')"
        with released.session() as updater:
            updater.execute("ALTER EXTENSION pg_graphrag UPDATE")
        assert value(db, waiting) > 0
    with released.session() as db:
        db.execute("UPDATE shop.notes SET body = body || ' Again.' WHERE id > 'r2'")
        db.execute("DELETE FROM shop.notes WHERE id = 'r3'")
        wait_for(lambda: not value(db, "SELECT count(*) FROM graphrag.jobs WHERE state <> 'failed'"), "the queue")
        for worker in workers:
            worker.end()
        # Those that had loaded the released package reconnect; no document is blamed.
        # Who reads a view that the update replaces may be ended by a deadlock, and tries again.
        assert {state for worker in workers for state in worker.states} <= {"58P01", "42883", "40P01"}
        assert rows(db, "SELECT * FROM graphrag.failed_jobs") == []
        assert rows(db, "SELECT corpus, status, count(*) FROM graphrag.documents GROUP BY 1, 2 ORDER BY 1") == [
            ("default", "indexed", len(NOTES) + len(TEXTS) - 1),
            ("shop", "indexed", 29),
        ]
        table = "SELECT id, body FROM shop.notes ORDER BY 1"
        assert rows(db, table) == rows(
            db, "SELECT source_key, content FROM graphrag.documents WHERE corpus = 'shop' ORDER BY 1"
        )
        assert rows(db, "SELECT id, kind, arguments FROM graphrag.curations ORDER BY id") == curated
        for corpus in ("default", "shop"):
            assert rows(db, "SELECT * FROM graphrag.check(%s)", corpus) == []
            db.execute("SELECT graphrag.reindex(%s)", [corpus])
        work(db)
        released.primary.create_database("fresh")
        with released.primary.connect("fresh") as fresh:
            fresh.execute("CREATE EXTENSION pg_graphrag CASCADE")
            fresh.execute("SELECT graphrag.create_corpus('shop')")
            fresh.execute(ATTACH)
            fresh.execute("TRUNCATE shop.notes")
            for row in rows(db, table):
                fresh.execute("INSERT INTO shop.notes VALUES (%s, %s)", row)
            put_all(fresh, "default", {**NOTES, **{key: text for key, text in TEXTS.items() if key != "wal"}})
            work(fresh)
            for statement in CURATE:
                fresh.execute(statement)
            work(fresh)
            for corpus in ("default", "shop"):
                sections = "SELECT section, hash FROM graphrag.fingerprint_sections(%s) ORDER BY 1"
                assert rows(db, sections, corpus) == rows(fresh, sections, corpus), corpus
            assert rows(db, "SELECT * FROM graphrag.health()") == []
