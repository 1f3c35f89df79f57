"""The blocking client is the one on asyncio, without the waiting."""

import shutil
import subprocess
import sys
from pathlib import Path

import pg_graphrag
import pytest

from extension import blocking_client
from tests.runtime.cluster import Runtime

ASYNCHRONOUS = (blocking_client.CLIENT / "asynchronous.py").read_text(encoding="utf-8")


def test_this_package_and_an_installation_have_the_client_that_builds_make(runtime: Runtime) -> None:
    (site,) = runtime.root.glob("usr/lib/pg_graphrag/venv/lib/python3*/site-packages")
    text = blocking_client.blocking(ASYNCHRONOUS)
    assert blocking_client.FILE.read_text(encoding="utf-8") == text, "run ./test, which makes it"
    assert (site / "pg_graphrag/beside/client/blocking.py").read_text(encoding="utf-8") == text


def test_nothing_of_asyncio_is_left() -> None:
    text = blocking_client.blocking(ASYNCHRONOUS)
    assert "async" not in text.replace("asynchronous.py", "").lower()
    assert "await" not in text


def test_a_change_that_finds_nothing_is_named() -> None:
    with pytest.raises(ValueError, match="tasks of one event loop"):
        blocking_client.blocking(ASYNCHRONOUS.replace("tasks of one event loop", "tasks"))


def test_a_client_that_was_not_built_says_so(tmp_path: Path) -> None:
    unbuilt = shutil.ignore_patterns("blocking.py", "plain", "__pycache__")
    shutil.copytree(Path(pg_graphrag.__file__).parent, tmp_path / "pg_graphrag", ignore=unbuilt)
    for program in (["-c", "from pg_graphrag import GraphRAG"], ["-m", "pg_graphrag.beside.cli", "status"]):
        run = subprocess.run([sys.executable, *program], cwd=tmp_path, env={"PYTHONPATH": "."}, capture_output=True)
        error = run.stderr.decode()
        assert run.returncode == 1
        assert "blocking.py, which a build makes" in error and "python -m extension.blocking_client" in error
