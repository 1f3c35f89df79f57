"""bin/graphrag-server where a Docker engine answers: what it asks of docker, with a stand-in that records the calls."""

import os
import subprocess
from pathlib import Path

import pytest

from tests.runtime.cluster import PROJECT

# `docker info` answers, `up` and `stop` change what `ps` says, and every call is written down with what it was given.
DOCKER = """#!/bin/sh
printf '%s\\n' "$*" >> "$FAKE/calls"
case $* in
    info) exit 0 ;;
    *" up "*) env | grep ^GRAPHRAG_ > "$FAKE/environment"; : > "$FAKE/runs" ;;
    *" stop") rm -f "$FAKE/runs" ;;
    *" ps "*) [ ! -e "$FAKE/runs" ] || echo 0123456789ab ;;
    *" exec "*" cat "*) echo the-token ;;
    *" exec "*) cat ;;
esac
"""


class Engine:
    """The stand-in, and bin/graphrag-server with it first on the path."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.data = folder / "data/pg_graphrag/docker-test"
        (folder / "bin").mkdir()
        (folder / "bin/docker").write_text(DOCKER)
        (folder / "bin/docker").chmod(0o755)
        self.environment = os.environ | {
            "PATH": f"{folder / 'bin'}:{os.environ['PATH']}",
            "FAKE": str(folder),
            "XDG_DATA_HOME": str(folder / "data"),
            "GRAPHRAG_INSTANCE": "docker-test",
        }
        self.environment.pop("GRAPHRAG_RUNTIME", None)

    def run(self, *arguments: str, code: int = 0, stdin: str = "") -> str:
        """Run a command of bin/graphrag-server, expect an exit code, and return both outputs."""
        done = subprocess.run(
            [PROJECT / "bin/graphrag-server", *arguments],
            env=self.environment,
            input=stdin,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            timeout=60,
        )
        assert done.returncode == code, done.stdout
        return done.stdout

    def compose(self) -> list[str]:
        """Return the calls of docker compose for this instance, without what they have in common, and forget them."""
        calls = (self.folder / "calls").read_text().splitlines()
        (self.folder / "calls").unlink()
        common = f"compose --project-name graphrag-docker-test --file {PROJECT}/docker/compose.yaml "
        composed = [call for call in calls if call != "info"]
        assert all(call.startswith(common) for call in composed)
        return [call.removeprefix(common) for call in composed]


@pytest.fixture
def engine(tmp_path: Path) -> Engine:
    return Engine(tmp_path)


def test_up_builds_and_starts_the_container_and_says_that_docker_ran(engine: Engine) -> None:
    output = engine.run("up")
    assert "runtime:   docker" in output
    assert "up --detach --build --wait" in engine.compose()
    given = dict(line.split("=", 1) for line in (engine.folder / "environment").read_text().splitlines())
    port = (engine.data / "port").read_text().strip()
    assert given["GRAPHRAG_PASSWORD"] == (engine.data / "password").read_text()
    assert given["GRAPHRAG_PORT"] == port
    assert given["GRAPHRAG_PAGES_PORT"] == (engine.data / "pages_port").read_text().strip() != port
    assert Path(given["GRAPHRAG_CA_BUNDLE"]).exists()
    assert f"127.0.0.1 port {port}," in output
    assert engine.run("url").strip() == f"postgresql://postgres:{given['GRAPHRAG_PASSWORD']}@127.0.0.1:{port}/graphrag"
    engine.run("up")
    assert (engine.data / "port").read_text().strip() == port


def test_psql_and_exec_go_into_the_container_and_down_stops_it(engine: Engine) -> None:
    engine.run("up")
    engine.compose()
    assert engine.run("psql", "-c", "SELECT 1", stdin="passed on") == "passed on"
    assert "exec --no-TTY server psql -c SELECT 1" in engine.compose()
    engine.run("exec", "ls", "/srv")
    assert "exec --no-TTY server ls /srv" in engine.compose()
    engine.run("down")
    assert "stop" in engine.compose()
    assert "stopped" in engine.run("status", code=3)
    assert "Run: bin/graphrag-server up" in engine.run("url", code=1)


def test_the_pages_are_a_container_of_their_own_and_their_address_has_the_token(engine: Engine) -> None:
    engine.run("up")
    port = (engine.data / "pages_port").read_text().strip()
    assert engine.run("serve").strip() == f"http://127.0.0.1:{port}/#token=the-token"
    assert f"pages:     http://127.0.0.1:{port}/" in engine.run("status")


def test_an_instance_stays_what_it_was_made_as(engine: Engine) -> None:
    engine.run("up")
    engine.environment["GRAPHRAG_RUNTIME"] = "chroot"
    assert "runtime:   docker" in engine.run("status")
    assert "is a container" in engine.run("prepare", code=1)


def test_an_unknown_runtime_is_refused_and_makes_nothing(engine: Engine) -> None:
    engine.environment["GRAPHRAG_RUNTIME"] = "podman"
    output = engine.run("up", code=1)
    assert "podman" in output and "chroot, bubblewrap or docker" in output
    assert not engine.data.exists()
