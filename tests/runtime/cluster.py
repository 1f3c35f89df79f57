"""Throwaway PostgreSQL clusters inside the server root that ``bin/graphrag-server prepare`` builds."""

from __future__ import annotations

import hashlib
import os
import secrets
import shutil
import signal
import socket
import subprocess
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Self
from urllib.parse import urlsplit

import psycopg
import pytest
from psycopg import sql

PROJECT = Path(__file__).resolve().parents[2]

# Where the tests that need only a database run instead; the others are skipped.
TEST_URL = os.environ.get("PG_GRAPHRAG_TEST_URL", "")
# The PostgreSQL of the server root, which `bin/graphrag-server` builds.
POSTGRES = os.environ.get("PG_GRAPHRAG_TEST_PG", "17")
OWN_CLUSTER = "needs a cluster of its own, and PG_GRAPHRAG_TEST_URL names an existing server"

# Durable against kill -9 of processes, which is what tests do; not against loss of power.
SETTINGS = {
    "listen_addresses": "127.0.0.1",
    "unix_socket_directories": "",
    "fsync": "off",
    "full_page_writes": "off",
    "shared_buffers": "128MB",
    "max_wal_size": "1GB",
    "scram_iterations": "1",
    "dynamic_shared_memory_type": "mmap",
    "shared_preload_libraries": "pg_cron",
    "cron.database_name": "postgres",
    "cron.use_background_workers": "on",
    "max_worker_processes": "16",
    "timezone": "UTC",
    # On tables that were never analyzed, compiling a statement takes longer than running it: a view of the graph a second.
    "jit": "off",
    # Most sessions of tests embed a few short texts: loading the engine takes longer. tests/sql/test_embedding_engine.py has it.
    "graphrag.embedding_engine": "numpy",
    "log_line_prefix": "%m [%p] %d ",
}


def _started(pid: int) -> str:
    """Return when a process was started, in ticks of the machine's clock."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[19]
    except FileNotFoundError:
        return "0"


# What `./test --coverage` has servers import.
SERVER_PYTHONPATH = os.environ.get("GRAPHRAG_SERVER_PYTHONPATH", "")
# The process whose end is that of the run, and what its workers share: what models made of texts.
RUN = int(os.environ.get("GRAPHRAG_TEST_RUN", os.getpid()))
# A dead run's process may have had the same id, and another checkout's package.
READINGS = f"{RUN}-{_started(RUN)}-readings"
KEEPER = Path(__file__).with_name("kept_readings") / "sitecustomize.py"
# In a server's data directory it has new sessions read all texts themselves.
REAL_MODEL = "reads_by_the_model"

# Where clusters lie, and the bytes that must be free there: for six workers' and their private ones.
MEMORY = Path("/dev/shm")
NEEDED_MEMORY = 4 << 30

# Waits for the end of its standard input, which comes however the test process ends, and clears up.
GUARD = """
trap '' INT TERM HUP
while read -r line; do :; done
shm=$(awk 'NR == 7 { print $2 }' "$1/data/postmaster.pid" 2> /dev/null)
pg_ctl stop -D "$1/data" -m immediate > /dev/null 2>&1
[ -z "$shm" ] || ipcrm -m "$shm" 2> /dev/null
rm -rf "$1"
"""


class Database(psycopg.Connection[tuple[Any, ...]]):
    """An autocommit connection that knows the libpq URL of its database."""

    url: str
    # As `Cluster.create_database` got it.
    name: str
    # Whether a test ran Python of its own in the session, which may have changed the package there.
    ran_python = False

    @classmethod
    def open(cls, url: str) -> Self:
        """Connect to ``url``."""
        database = cls.connect(url, autocommit=True)
        database.url = url
        return database

    def execute(self, query: Any, *arguments: Any, **options: Any) -> psycopg.Cursor[tuple[Any, ...]]:
        """Execute as any connection does."""
        if not self.ran_python and "plpython3u" in str(query):
            self.ran_python = True
        return super().execute(query, *arguments, **options)


class Runtime:
    """The server root of this checkout's tests: an instance of its own, apart from the developer's server."""

    # Where servers keep what models make of texts; only the tests' own do.
    readings = ""

    def __init__(self) -> None:
        key = hashlib.sha256(str(PROJECT).encode()).hexdigest()[:12]
        self._environment = os.environ | {
            "GRAPHRAG_INSTANCE": f"{key}-test" if POSTGRES == "17" else f"{key}-test-{POSTGRES}",
            "GRAPHRAG_POSTGRES": POSTGRES,
            "GRAPHRAG_RUNTIME": "bubblewrap" if os.geteuid() else "chroot",
        }
        prepare = [str(PROJECT / "bin/graphrag-server"), "prepare"]
        # Standard error stays visible: the first time it takes minutes.
        done = subprocess.run(
            prepare, env=self._environment, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, text=True, check=True
        )
        self.root = Path(done.stdout.strip())
        self.folder = self.root / "srv/pg_graphrag"
        self._make_template()
        self.clusters = self._memory(f"{key}-{POSTGRES}") or self.folder / "clusters"

    def command(self, *arguments: str) -> list[str]:
        """Return the command line that runs ``arguments`` inside the root, as the server's user."""
        return [str(PROJECT / "bin/graphrag-server"), "exec", *arguments]

    def run(self, *arguments: str, stdin: str | None = None) -> str:
        """Run a command inside the root and return what it prints.

        Raises
        ------
        AssertionError
            If it fails, with its output.
        """
        done = subprocess.run(
            self.command(*arguments), env=self._environment, input=stdin or "", capture_output=True, text=True
        )
        assert done.returncode == 0, f"{arguments}: exit code {done.returncode}\n{done.stdout}\n{done.stderr}"
        return done.stdout

    def popen(self, *arguments: str, **options: Any) -> subprocess.Popen[bytes]:
        """Start a command inside the root."""
        return subprocess.Popen(self.command(*arguments), env=self._environment, **options)

    def _memory(self, key: str) -> Path | None:
        """Return a folder in memory for clusters, or None where there is none or the root cannot have it.

        To make the thousand files of a database takes a file system on disk ten times as long.
        """
        if not MEMORY.is_dir() or shutil.disk_usage(MEMORY).free < NEEDED_MEMORY:
            return None
        folder = MEMORY / f"pg_graphrag-{key}-{os.geteuid()}"
        folder.mkdir(mode=0o700, exist_ok=True)
        owner = self.folder.stat()
        if folder.is_symlink() or folder.stat().st_uid not in (os.geteuid(), owner.st_uid):
            return None  # somebody else's
        os.chown(folder, owner.st_uid, owner.st_gid)
        environment = self._environment | {"GRAPHRAG_CLUSTERS": str(folder)}
        if subprocess.run(self.command("true"), env=environment, capture_output=True, check=False).returncode != 0:
            return None
        self._environment = environment
        return folder

    def keep_readings(self) -> None:
        """Have the clusters that are made from now on keep what models make of texts, for all of this run."""
        folder = self.clusters / READINGS
        folder.mkdir(exist_ok=True)
        unfinished = folder / f"{os.getpid()}"
        shutil.copyfile(KEEPER, unfinished)
        unfinished.rename(folder / KEEPER.name)
        owner = self.folder.stat()
        for path in (folder, folder / KEEPER.name):
            os.chown(path, owner.st_uid, owner.st_gid)
        self.readings = f"/srv/pg_graphrag/clusters/{READINGS}"

    def _make_template(self) -> None:
        """Run initdb once per root; a rename makes it safe against other workers and interruptions."""
        password = secrets.token_hex(16)
        own = f"/srv/pg_graphrag/template.{os.getpid()}"
        script = f"""set -eu
            cd /srv/pg_graphrag
            [ ! -d template ] || exit 0
            umask 077
            mkdir -p clusters {own}
            echo {password} > {own}/password
            initdb -D {own}/data --username=postgres --pwfile={own}/password --auth=scram-sha-256 --no-sync \
                --encoding=UTF8 --locale-provider=builtin --locale=C.UTF-8
            mv -T {own} template 2> /dev/null || rm -rf {own}"""
        self.run("sh", "-s", stdin=script)
        self.password = (self.folder / "template/password").read_text().strip()


class Cluster:
    """One throwaway cluster: started at once, removed by `close` or by the end of this process.

    Parameters
    ----------
    runtime : Runtime
        The server root it lives in.
    settings : mapping of str to str, optional
        Server settings over `SETTINGS`, for example ``{"wal_level": "logical"}``.
    primary : Cluster, optional
        The cluster of which this is a streaming hot standby.
    backup_of : Cluster, optional
        The cluster whose base backup this starts from, on its own.
    environment : Mapping of str to str, optional
        Variables of the server's environment.
    """

    def __init__(
        self,
        runtime: Runtime,
        settings: Mapping[str, str] | None = None,
        primary: Cluster | None = None,
        environment: Mapping[str, str] | None = None,
        backup_of: Cluster | None = None,
    ) -> None:
        self.runtime = runtime
        self.port = free_port()
        name = f"{os.getpid()}-{secrets.token_hex(4)}"
        self._inside = f"/srv/pg_graphrag/clusters/{name}"
        self.folder = runtime.clusters / name
        self._settings = {**SETTINGS, **(settings or {}), "port": str(self.port)}
        self._environment = {"PYTHONPATH": SERVER_PYTHONPATH or runtime.readings, **(environment or {})}
        self._guard = runtime.popen("sh", "-c", GUARD, "guard", self._inside, stdin=subprocess.PIPE)
        runtime.run("mkdir", self._inside)
        data = f"{self._inside}/data"
        if source := primary or backup_of:
            follow = ["-R"] if primary else []
            runtime.run("pg_basebackup", "-d", source.url(), "-D", data, "-c", "fast", "--no-sync", *follow)
        else:
            runtime.run("cp", "-r", "/srv/pg_graphrag/template/data", data)
        self.start()

    def url(self, database: str = "postgres") -> str:
        """Return the libpq URL of a database, as superuser."""
        return f"postgresql://postgres:{self.runtime.password}@127.0.0.1:{self.port}/{database}"

    def connect(self, database: str = "postgres") -> Database:
        """Open an autocommit connection as superuser."""
        return Database.open(self.url(database))

    @property
    def log(self) -> str:
        """What the server has logged so far."""
        return (self.folder / "log").read_text(errors="replace")

    @property
    def postmaster_pid(self) -> int:
        """The process id of the running server, as the host sees it."""
        return int((self.folder / "data/postmaster.pid").read_text().splitlines()[0])

    def start(self, **settings: str) -> None:
        """Start the server and wait until it answers; ``settings`` hold from now on."""
        self._settings |= settings
        options = " ".join(f"-c {name}={_quote(value)}" for name, value in self._settings.items())
        try:
            environment = [f"{name}={value}" for name, value in self._environment.items()]
            self.runtime.run(
                "env",
                *environment,
                "pg_ctl",
                "start",
                "-w",
                "-s",
                "-D",
                f"{self._inside}/data",
                "-l",
                f"{self._inside}/log",
                "-o",
                options,
            )
        except AssertionError as error:
            raise AssertionError(f"{error}\n{self.log[-2000:]}") from None

    def stop(self, mode: str = "fast") -> None:
        """Stop the server; ``mode`` is ``smart``, ``fast`` or ``immediate``."""
        self.runtime.run("pg_ctl", "stop", "-w", "-s", "-D", f"{self._inside}/data", "-m", mode)

    def kill(self) -> None:
        """SIGKILL the postmaster and all its processes, as a machine out of memory would; `start` recovers."""
        pid = self.postmaster_pid
        processes = [pid, *_children(pid)]
        for process in processes:
            os.kill(process, signal.SIGKILL)
        deadline = time.monotonic() + 10
        while any(_is_alive(process) for process in processes):
            assert time.monotonic() < deadline, "the killed server is still there"
            time.sleep(0.02)
        # Where nobody has collected the dead process yet, its number would look like a running server.
        if Path(f"/proc/{pid}").exists():
            (self.folder / "data/postmaster.pid").unlink()

    def create_database(self, name: str, template: str | None = None) -> str:
        """Create a database and return its URL."""
        with self.connect() as connection:
            # To copy the files takes a quarter of what writing them to the WAL does.
            statement = sql.SQL("CREATE DATABASE {} TEMPLATE {} STRATEGY FILE_COPY")
            connection.execute(statement.format(sql.Identifier(name), sql.Identifier(template or "template1")))
        return self.url(name)

    def drop_database(self, name: str) -> None:
        """Drop a database, ending the sessions in it."""
        with self.connect() as connection:
            connection.execute(sql.SQL("DROP DATABASE IF EXISTS {} WITH (FORCE)").format(sql.Identifier(name)))

    def dump(self, database: str, *arguments: str) -> str:
        """Return what ``pg_dump`` of the server's version says of a database."""
        return self.runtime.run("pg_dump", "-d", self.url(database), *arguments)

    def restore(self, database: str, script: str) -> None:
        """Run a plain dump in an existing database; any error ends it."""
        self.runtime.run(
            "psql", "-X", "-q", "-o", "/dev/null", "-v", "ON_ERROR_STOP=1", "-d", self.url(database), stdin=script
        )

    def close(self) -> None:
        """Stop the server and remove the cluster."""
        assert self._guard.stdin is not None
        self._guard.stdin.close()
        self._guard.wait()


class Server:
    """An existing server, in which the tests make databases of their own; the part of `Cluster` that needs only these.

    Parameters
    ----------
    url : str
        A libpq URL that connects as superuser.
    """

    def __init__(self, url: str) -> None:
        self._url = url
        self._prefix = f"graphrag_{secrets.token_hex(4)}_"
        self._made: list[str] = []

    def url(self, database: str = "") -> str:
        """Return the libpq URL of a database that was made here; without a name, of the server's own."""
        return urlsplit(self._url)._replace(path=f"/{self._prefix}{database}").geturl() if database else self._url

    def connect(self, database: str = "") -> Database:
        """Open an autocommit connection as superuser."""
        return Database.open(self.url(database))

    def create_database(self, name: str, template: str | None = None) -> str:
        """Create a database and return its URL."""
        source = self._prefix + template if template in self._made else template or "template1"
        with self.connect() as connection:
            statement = sql.SQL("CREATE DATABASE {} TEMPLATE {}")
            connection.execute(statement.format(sql.Identifier(self._prefix + name), sql.Identifier(source)))
        self._made.append(name)
        return self.url(name)

    def drop_database(self, name: str) -> None:
        """Drop a database, ending the sessions in it."""
        with self.connect() as connection:
            statement = sql.SQL("DROP DATABASE IF EXISTS {} WITH (FORCE)")
            connection.execute(statement.format(sql.Identifier(self._prefix + name)))
        if name in self._made:
            self._made.remove(name)

    def dump(self, database: str, *arguments: str) -> str:
        """Skip the test: ``pg_dump`` of the server's version is not at hand."""
        pytest.skip(OWN_CLUSTER)

    def restore(self, database: str, script: str) -> None:
        """Skip the test, as `dump` does."""
        pytest.skip(OWN_CLUSTER)

    def close(self) -> None:
        """Drop what is left of the databases."""
        for name in [*self._made]:
            self.drop_database(name)


def remove_stale(runtime: Runtime) -> None:
    """Remove what clusters of dead processes left behind, should even their guard have been killed."""
    for folder in runtime.clusters.iterdir():
        if not _is_alive(int(folder.name.split("-")[0])):
            shutil.rmtree(folder, ignore_errors=True)


def free_port() -> int:
    # Below the range that the kernel gives to clients, so that nothing takes it between this look and the start.
    while True:
        port = 20000 + secrets.randbelow(12000)
        with socket.socket() as probe:
            if probe.connect_ex(("127.0.0.1", port)) != 0:
                return port


def _children(pid: int) -> list[int]:
    return [int(child) for child in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]


def _is_alive(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0] != "Z"
    except FileNotFoundError:
        return False


def _quote(value: str) -> str:
    return "'" + value.replace("'", "'\\''") + "'"


if __name__ == "__main__":
    # For ./test: build what is missing and say where it is.
    print(Runtime().root)
