"""bin/graphrag-server, from a checkout of its own whose path has a space in it."""

import os
import shutil
import signal
import socket
import subprocess
import time
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import psycopg
import pytest
from pg_graphrag import __version__

from tests.runtime.cluster import PROJECT, Runtime

needs_make = pytest.mark.skipif(shutil.which("make") is None, reason="no make on this host")
PARTS = ("bin", "docker", "extension", "python", "sql")


class Checkout:
    """A copy of the project, and its server."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.environment = os.environ | {"GRAPHRAG_RUNTIME": "bubblewrap" if os.geteuid() else "chroot"}
        for part in PARTS:
            shutil.copytree(PROJECT / part, folder / part, ignore=shutil.ignore_patterns("__pycache__", "build"))

    def run(self, *arguments: str, code: int = 0) -> str:
        """Run a command of bin/graphrag-server, expect an exit code, and return both outputs."""
        done = subprocess.run(
            [str(self.folder / "bin/graphrag-server"), *arguments],
            env=self.environment,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            timeout=120,
        )
        assert done.returncode == code, done.stdout
        return done.stdout

    def where(self, what: str) -> str:
        """Return a line of ``status``."""
        lines = dict(line.split(":", 1) for line in self.run("status").splitlines())
        return lines[what].strip()

    def connect(self) -> psycopg.Connection[tuple[object, ...]]:
        """Connect through ``url``."""
        return psycopg.connect(self.run("url").strip(), autocommit=True)

    def postmaster(self) -> int:
        """Return the process id of the running server."""
        (pid_file,) = Path(self.where("folder")).glob("root-*/srv/pg_graphrag/data/postmaster.pid")
        return int(pid_file.read_text().split()[0])

    def remove(self) -> None:
        """Stop the server and remove everything it has made."""
        done = self.run("up")
        folder = next(line.split(":", 1)[1].strip() for line in done.splitlines() if line.startswith("folder:"))
        self.run("down")
        shutil.rmtree(folder)


@pytest.fixture(scope="module")
def checkout(runtime: Runtime, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Checkout]:
    """A checkout whose server runs; ``runtime`` has built the base that they share."""
    checkout = Checkout(tmp_path_factory.mktemp("a checkout"))
    checkout.run("up")
    yield checkout
    checkout.remove()


def test_up_says_which_runtime_ran_and_where_the_server_is(checkout: Checkout) -> None:
    output = checkout.run("up")
    assert f"runtime:   {checkout.environment['GRAPHRAG_RUNTIME']}" in output
    assert str(checkout.folder) in output
    assert "127.0.0.1 port" in output


def test_second_up_is_instant(checkout: Checkout) -> None:
    checkout.run("up")
    begin = time.monotonic()
    checkout.run("up")
    # 0.1 s on an idle machine.
    # It neither builds nor starts anything, which takes longer by far.
    assert time.monotonic() - begin < 10


def test_url_connects_as_superuser_to_a_database_without_the_extension(checkout: Checkout) -> None:
    with checkout.connect() as connection:
        row = connection.execute(
            "SELECT current_database(), rolsuper FROM pg_roles WHERE rolname = current_user"
        ).fetchone()
        assert row == ("graphrag", True)
        assert connection.execute("SELECT 1 FROM pg_extension WHERE extname = 'pg_graphrag'").fetchone() is None


def test_url_takes_a_database_name(checkout: Checkout) -> None:
    assert checkout.run("url", "other").strip().endswith("/other")


def test_psql_passes_its_arguments(checkout: Checkout) -> None:
    assert checkout.run("psql", "-d", "postgres", "-Atc", "SELECT current_database()").strip() == "postgres"


def test_exec_runs_inside_the_root_with_the_way_to_the_server(checkout: Checkout) -> None:
    assert checkout.run("exec", "psql", "-Atc", "SELECT current_user").strip() == "postgres"
    assert "VERSION_CODENAME=trixie" in checkout.run("exec", "cat", "/etc/os-release")


def test_nobody_connects_without_the_password(checkout: Checkout) -> None:
    address = checkout.run("url").strip()
    scheme, rest = address.split("://postgres:", 1)
    with pytest.raises(psycopg.OperationalError, match="password"):
        psycopg.connect(f"{scheme}://postgres:wrong@{rest.split('@')[1]}")
    assert Path(checkout.where("folder"), "password").stat().st_mode & 0o077 == 0


def test_database_users_cannot_change_what_the_server_imports(checkout: Checkout) -> None:
    with checkout.connect() as connection:
        connection.execute("CREATE EXTENSION IF NOT EXISTS plpython3u")
        connection.execute(
            """
            CREATE OR REPLACE FUNCTION pg_temp.writable() RETURNS text[] LANGUAGE plpython3u AS $$
            import os, sys
            places = [*sys.path, "/usr/lib/pg_graphrag", "/usr/share/postgresql/17/extension"]
            return [place for place in places if os.path.exists(place) and os.access(place, os.W_OK)]
            $$
            """
        )
        assert connection.execute("SELECT pg_temp.writable()").fetchone() == ([],)
        connection.execute("DROP EXTENSION plpython3u CASCADE")


def test_background_jobs_are_available(checkout: Checkout) -> None:
    with checkout.connect() as connection:
        connection.execute("CREATE EXTENSION pg_cron")
        connection.execute("DROP EXTENSION pg_cron")
        assert connection.execute("SHOW cron.use_background_workers").fetchone() == ("on",)


def test_databases_without_the_extension_are_as_in_any_server(checkout: Checkout) -> None:
    with checkout.connect() as connection:
        connection.execute("CREATE TABLE ordinary (id int)")
        connection.execute("DROP TABLE ordinary")


@pytest.mark.slow
def test_up_installs_changed_sources_without_a_restart(checkout: Checkout) -> None:
    pid = checkout.postmaster()
    (checkout.folder / "python/pg_graphrag/new_module.py").write_text('ANSWER = "new"\n')
    (checkout.folder / "sql/99_test").mkdir()
    (checkout.folder / "sql/99_test/marker.sql").write_text("-- version @extversion@ marker\n")
    assert "installed" in checkout.run("up")
    assert checkout.postmaster() == pid
    imported = checkout.run("exec", "python3", "-c", "from pg_graphrag.new_module import ANSWER; print(ANSWER)")
    assert imported.strip() == "new"
    (script,) = Path(checkout.where("folder")).glob(
        f"root-*/usr/share/postgresql/17/extension/pg_graphrag--{__version__}.sql"
    )
    assert f"-- version {__version__} marker" in script.read_text().splitlines()
    assert "installed" not in checkout.run("up")


def test_down_stops_and_keeps_the_data(checkout: Checkout) -> None:
    with checkout.connect() as connection:
        connection.execute("CREATE TABLE kept AS SELECT 42 AS value")
    checkout.run("down")
    assert "stopped" in checkout.run("status", code=3)
    assert "Run: bin/graphrag-server up" in checkout.run("url", code=1)
    checkout.run("up")
    with checkout.connect() as connection:
        assert connection.execute("SELECT value FROM kept").fetchone() == (42,)


@pytest.mark.slow
def test_the_first_up_after_a_kill_starts_the_server(checkout: Checkout) -> None:
    checkout.run("up")
    (pid_file,) = Path(checkout.where("folder")).glob("root-*/srv/pg_graphrag/data/postmaster.pid")
    with closing(checkout.connect()) as busy:
        busy.execute("CREATE EXTENSION IF NOT EXISTS plpython3u")
        busy.execute("SET statement_timeout = 0")
        # A session that does not look whether its server lives keeps the memory that the next one wants.
        busy.pgconn.send_query(b"DO LANGUAGE plpython3u 'while True: pass'")
        for is_stale in (False, True):
            os.kill(checkout.postmaster(), signal.SIGKILL)
            if is_stale:  # and the number is another process's by now
                pid_file.write_text(f"{os.getpid()}\n" + pid_file.read_text().partition("\n")[2])
            checkout.run("up")
            with checkout.connect() as connection:
                assert connection.execute("SELECT 1").fetchone() == (1,)


def test_no_server_starts_beside_processes_that_do_not_end(tmp_path: Path) -> None:
    pid_file = tmp_path / "srv/pg_graphrag/data/postmaster.pid"
    pid_file.parent.mkdir(parents=True)
    pid_file.write_text("4711\n")
    script = (
        f"source {PROJECT}/bin/lib/server.sh; root={tmp_path};"
        " our_processes() { echo 4711; }; kill() { :; }; sleep() { :; };"
        ' die() { echo "$*" >&2; exit 1; }; say() { echo "$*" >&2; }; set -euo pipefail; clear_away'
    )
    done = subprocess.run(["bash", "-c", script], capture_output=True, text=True, check=False)
    assert (done.returncode, pid_file.exists()) == (1, True)
    assert "4711" in done.stderr


def test_a_taken_port_is_left_to_its_owner(checkout: Checkout) -> None:
    with checkout.connect() as connection:
        taken = connection.info.port
    checkout.run("down")
    with socket.create_server(("127.0.0.1", taken)):
        checkout.run("up")
        with checkout.connect() as connection:
            assert connection.info.port != taken


@pytest.mark.sample(2)
@pytest.mark.parametrize("torn", ["", "2", "99999", "12 34", "port"])
def test_a_torn_number_of_the_port_is_replaced(checkout: Checkout, torn: str) -> None:
    port = Path(checkout.where("folder"), "port")
    checkout.run("down")
    port.write_text(torn)
    checkout.run("up")
    with checkout.connect() as connection:
        assert connection.execute("SELECT 1").fetchone() == (1,)


def test_an_unknown_command_shows_the_usage(checkout: Checkout) -> None:
    assert "usage: bin/graphrag-server" in checkout.run("sideways", code=2)


@pytest.mark.slow
def test_two_checkouts_do_not_collide_and_an_interrupted_up_recovers(
    checkout: Checkout, tmp_path_factory: pytest.TempPathFactory
) -> None:
    other = Checkout(tmp_path_factory.mktemp("another"))
    # Killed while it copies the root, installs, makes the cluster, or starts it.
    for seconds in (0.2, 0.7, 1.2, 1.8):
        process = subprocess.Popen([str(other.folder / "bin/graphrag-server"), "up"], env=other.environment)
        time.sleep(seconds)
        process.kill()
        process.wait()
    try:
        other.run("up")
        assert other.where("folder") != checkout.where("folder")
        with checkout.connect() as here, other.connect() as there:
            assert here.info.port != there.info.port
            assert there.execute("SELECT 1").fetchone() == (1,)
    finally:
        other.remove()


@pytest.mark.slow
def test_the_cluster_moves_along_when_the_base_changes(checkout: Checkout, tmp_path: Path) -> None:
    with checkout.connect() as connection:
        connection.execute("CREATE TABLE moved AS SELECT 'here' AS value")
    old = checkout.where("log")
    # A changed list gives the base another name; the build itself would take minutes, so the present base stands in.
    (lock := checkout.folder / "docker/models.lock").write_text(lock.read_text() + "# changed\n")
    script = 'cache=$1 checkout=$2 runtime=$3 postgres=17; . "$checkout/bin/lib/base.sh"; base_path'
    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "pg_graphrag"
    arguments = [str(cache), str(checkout.folder), checkout.environment["GRAPHRAG_RUNTIME"]]
    new = subprocess.run(["bash", "-c", script, "-", *arguments], capture_output=True, text=True, check=True).stdout
    arguments[1] = str(PROJECT)
    base = subprocess.run(["bash", "-c", script, "-", *arguments], capture_output=True, text=True, check=True).stdout
    subprocess.run(["cp", "-al", base, new], check=True)
    try:
        checkout.run("up")
        assert checkout.where("log") != old
        assert not Path(old).exists()
        with checkout.connect() as connection:
            assert connection.execute("SELECT value FROM moved").fetchone() == ("here",)
    finally:
        shutil.rmtree(new)


@needs_make
def test_make_needs_no_postgres(checkout: Checkout) -> None:
    extension = checkout.folder / "extension"
    subprocess.run(["make", "-s", "-C", str(extension), "PG_CONFIG=/nowhere/pg_config"], check=True)
    lines = (extension / f"build/pg_graphrag--{__version__}.sql").read_text().splitlines()
    assert lines[0] == r'\echo Use "CREATE EXTENSION pg_graphrag CASCADE" to load this file. \quit'
    assert not any("@extversion@" in line for line in lines)


@needs_make
def test_make_refuses_a_package_of_another_version(checkout: Checkout) -> None:
    init = checkout.folder / "python/pg_graphrag/__init__.py"
    before = init.read_text()
    init.write_text(before.replace(f'"{__version__}"', '"9.9.9"'))
    try:
        done = subprocess.run(
            ["make", "-C", str(checkout.folder / "extension"), "PG_CONFIG=/nowhere/pg_config"],
            capture_output=True,
            text=True,
        )
        assert done.returncode != 0
        assert f"version {__version__}" in done.stderr and "says 9.9.9" in done.stderr
    finally:
        init.write_text(before)


def test_where_namespaces_are_not_allowed_up_says_what_to_do(tmp_path: Path) -> None:
    bwrap = tmp_path / "bwrap"
    bwrap.write_text("#!/bin/sh\necho 'bwrap: No permissions to create new namespace' >&2\nexit 1\n")
    bwrap.chmod(0o755)
    environment = os.environ | {"GRAPHRAG_RUNTIME": "bubblewrap", "PATH": f"{tmp_path}:{os.environ['PATH']}"}
    environment |= {"XDG_CACHE_HOME": str(tmp_path / "cache"), "XDG_DATA_HOME": str(tmp_path / "data")}
    command = [str(PROJECT / "bin/graphrag-server"), "up"]
    done = subprocess.run(
        command, env=environment, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=60
    )
    assert done.returncode == 1
    assert "No permissions to create new namespace" in done.stderr
    assert "or run this as root" in done.stderr
