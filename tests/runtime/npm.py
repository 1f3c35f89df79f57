"""Packages of npm that tests use, kept between runs."""

import os
import re
import shutil
import subprocess
import tempfile
from contextlib import suppress
from pathlib import Path

import pytest

CACHE = Path(os.environ.get("XDG_CACHE_HOME") or "~/.cache").expanduser() / "pg_graphrag/node"
NO_NETWORK = re.compile("ENOTFOUND|EAI_AGAIN|ETIMEDOUT|ECONNREFUSED|ECONNRESET|ENETUNREACH")


def node_modules(*packages: str) -> Path:
    """Return the folder with these packages (``NAME@VERSION``). The test is skipped where they neither are nor can be had."""
    modules = CACHE / re.sub(r"[^\w.]+", "-", " ".join(packages)).strip("-") / "node_modules"
    if not modules.is_dir():
        if shutil.which("npm") is None:
            pytest.skip(f"no npm here, and no copy of {', '.join(packages)} in {CACHE}")
        CACHE.mkdir(parents=True, exist_ok=True)
        # Another process may install the same: the first that is done is kept.
        with tempfile.TemporaryDirectory(dir=CACHE) as folder:
            command = ["npm", "install", "--no-audit", "--no-fund", "--prefix", folder, *packages]
            done = subprocess.run(command, capture_output=True, text=True, timeout=300, check=False)
            if done.returncode and NO_NETWORK.search(done.stderr):
                pytest.skip(f"npm reaches no registry for {', '.join(packages)}")
            assert done.returncode == 0, done.stderr
            modules.parent.mkdir(exist_ok=True)
            with suppress(OSError):
                (Path(folder) / "node_modules").rename(modules)
    return modules
