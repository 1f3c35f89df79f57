"""What `make dist` makes: packages that install, and the same bytes wherever they are made."""

import os
import shutil
import subprocess
import sys
import tarfile
import tomllib
import venv
import zipfile
from pathlib import Path

import pytest
from pg_graphrag import __version__

from extension.packaging.archive import pack
from tests.runtime.cluster import PROJECT

NAME = f"pg_graphrag-{__version__}"
# Those of developers, and one for older Pythons.
DEVELOPERS = {"docs", "dist", "train", "test", "graspologic"}
EXTRAS = tomllib.loads((PROJECT / "pyproject.toml").read_text(encoding="utf-8"))["project"]["optional-dependencies"]


def build(copy: Path, umask: str, **environment: str) -> Path:
    leave = shutil.ignore_patterns(".git", "__pycache__", "build", "dist", "*_cache", "*.egg-info")
    shutil.copytree(PROJECT, copy, ignore=leave)
    # As a checkout of today under that umask.
    command = f"umask {umask}; find . -type f -exec touch {{}} + -exec chmod u+rw,g-w,o-rwx {{}} +; make -s dist"
    subprocess.run(["sh", "-c", command], cwd=copy, check=True, capture_output=True, env={**os.environ, **environment})
    return copy / "dist"


@pytest.fixture(scope="module")
def dist(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return build(tmp_path_factory.mktemp("dist") / "checkout", "077", TZ="Asia/Tokyo", SOURCE_DATE_EPOCH="1796055146")


@pytest.mark.parametrize("suffix", ["zip", "tar.gz"])
def test_an_archive_is_the_same_whatever_times_and_permissions_files_have(
    suffix: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SOURCE_DATE_EPOCH", "1796055146")
    for place, mode, time in (("one", 0o600, 1_000_000_000), ("other", 0o664, 1_700_000_000)):
        folder = tmp_path / place / NAME
        folder.mkdir(parents=True)
        for name in ("b", "a") if place == "one" else ("a", "b"):
            (folder / name).write_text(name)
            (folder / name).chmod(mode)
            os.utime(folder / name, (time, time))
        (folder / "run").write_text("#!/bin/sh")
        (folder / "run").chmod(0o700)
        pack(folder, tmp_path / f"{place}.{suffix}")
    one, other = ((tmp_path / f"{place}.{suffix}").read_bytes() for place in ("one", "other"))
    assert one == other
    shutil.unpack_archive(tmp_path / f"one.{suffix}", tmp_path / "unpacked")
    assert sorted(path.name for path in (tmp_path / "unpacked" / NAME).iterdir()) == ["a", "b", "run"]


@pytest.mark.slow
def test_another_build_elsewhere_has_the_same_bytes(dist: Path, tmp_path: Path) -> None:
    other = build(tmp_path / "elsewhere", "002", TZ="UTC", SOURCE_DATE_EPOCH="1796055146", LC_ALL="C")
    sums = (dist / "SHA256SUMS").read_text()
    assert sums.count("\n") == 4
    assert (other / "SHA256SUMS").read_text() == sums


@pytest.mark.slow
def test_the_wheel_has_the_package_with_what_builds_make_and_nothing_else(dist: Path) -> None:
    with zipfile.ZipFile(dist / f"{NAME}-py3-none-any.whl") as wheel:
        names = {name for name in wheel.namelist() if ".dist-info/" not in name}
    here = {
        path.relative_to(PROJECT / "python").as_posix() for path in (PROJECT / "python").rglob("*") if path.is_file()
    }
    built = {f"pg_graphrag/beside/{name}" for name in ("process/plain/schema.sql", "client/blocking.py")}
    assert names == {name for name in here if "__pycache__" not in name and ".egg-info" not in name}
    assert built <= names
    with tarfile.open(dist / f"{NAME}.tar.gz") as sdist:
        inside = {name.removeprefix(f"{NAME}/python/") for name in sdist.getnames()}
    assert names - inside == set()
    assert not {name for name in inside if name.startswith((f"{NAME}/tests", f"{NAME}/sql", f"{NAME}/extension"))}


@pytest.mark.slow
@pytest.mark.parametrize("extra", ["", *sorted(EXTRAS.keys() - DEVELOPERS)])
def test_the_wheel_installs_with_each_extra(extra: str, dist: Path, tmp_path: Path) -> None:
    venv.create(tmp_path / "venv", symlinks=True)
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}

    def run(*command: str | Path) -> None:
        subprocess.run(command, cwd=tmp_path, env=environment, check=True, stdout=subprocess.DEVNULL)

    python, wheel = tmp_path / "venv/bin/python", f"{dist / NAME}-py3-none-any.whl"
    pip = (sys.executable, "-m", "pip", "--disable-pip-version-check", "--python", python)
    run(*pip, "install", "-q", f"{wheel}[{extra}]" if extra else wheel)
    run(*pip, "check")
    run(python, "-c", "import pg_graphrag; pg_graphrag.GraphRAG, pg_graphrag.AsyncGraphRAG")
    run(tmp_path / "venv/bin/pg-graphrag", "--help")
    if extra == "serve":
        run(tmp_path / "venv/bin/pg-graphrag", "serve", "--new-token")
    shutil.rmtree(tmp_path / "venv")
