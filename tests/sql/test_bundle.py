"""What `make pgxn` packs installs what the checkout does."""

import json
import shutil
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest
from pg_graphrag import __version__

from tests.runtime.cluster import POSTGRES, PROJECT, Runtime

NAME = f"pg_graphrag-{__version__}"
INSTALLED = f"usr/share/postgresql/{POSTGRES}/extension"


@pytest.fixture(scope="module")
def bundle(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The unpacked bundle of a copy of the checkout, whose own build is left alone."""
    copy = tmp_path_factory.mktemp("checkout")
    leave = shutil.ignore_patterns(".git", "__pycache__", "build", "dist", "*_cache", "*.egg-info")
    shutil.copytree(PROJECT, copy, ignore=leave, dirs_exist_ok=True)
    subprocess.run(["make", "-s", "pgxn", f"TOOLS={sys.executable}"], cwd=copy, check=True, stdout=subprocess.DEVNULL)
    with zipfile.ZipFile(copy / f"dist/{NAME}.zip") as packed:
        packed.extractall(copy / "unpacked")
    assert [path.name for path in (copy / "unpacked").iterdir()] == [NAME]
    return copy / "unpacked" / NAME


def test_the_bundle_installs_through_pgxs_what_the_checkout_installs(bundle: Path, runtime: Runtime) -> None:
    inside = f"/srv/pg_graphrag/{NAME}-{bundle.stat().st_ino}"
    place = runtime.root / inside.removeprefix("/")
    runtime.run("mkdir", inside)
    try:
        for name in ("Makefile", "pg_graphrag.control"):
            runtime.run("tee", f"{inside}/{name}", stdin=(bundle / name).read_text(encoding="utf-8"))
        runtime.run("mkdir", f"{inside}/scripts")
        for path in (bundle / "scripts").iterdir():
            runtime.run("tee", f"{inside}/scripts/{path.name}", stdin=path.read_text(encoding="utf-8"))
        runtime.run("make", "-s", "-C", inside, "install", f"DESTDIR={inside}/to")
        installed = {path.name: path.read_bytes() for path in (place / "to" / INSTALLED).iterdir()}
    finally:
        runtime.run("rm", "-rf", inside)
    ours = {path.name: path.read_bytes() for path in (runtime.root / INSTALLED).glob("pg_graphrag*")}
    assert sorted(installed) == sorted(ours)
    assert [name for name in ours if installed[name] != ours[name]] == []


def test_the_bundle_has_the_package_and_what_installs_it(bundle: Path) -> None:
    def sources(folder: Path) -> set[str]:
        return {path.relative_to(folder).as_posix() for path in folder.rglob("*") if path.is_file()}

    leave = {name for name in sources(PROJECT / "python") if "__pycache__" in name or ".egg-info" in name}
    assert sources(bundle / "python") == sources(PROJECT / "python") - leave
    assert (bundle / "extension/install-package").stat().st_size
    assert (bundle / "docker/install-python").stat().st_size
    meta = json.loads((bundle / "META.json").read_text(encoding="utf-8"))
    assert meta["version"] == __version__
    assert (bundle / meta["provides"]["pg_graphrag"]["file"]).is_file()
