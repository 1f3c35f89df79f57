"""What the benches beside other systems share: databases, processor time, passages, and the venv of each system."""

import hashlib
import json
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import psycopg
from psycopg import sql

from bench.peers.halves.peer_half import TICKS

ROOT = Path(__file__).resolve().parents[2]
WORK = "CALL graphrag.process_jobs()"
HALVES = ROOT / "bench/peers/halves"


def interpreter(least: tuple[int, int]) -> str | None:
    """Return a Python of at least this version: the running one, one on the path, or pyenv's; None where there is none."""
    if sys.version_info[:2] >= least:
        return sys.executable
    names = [f"python3.{minor}" for minor in range(13, least[1] - 1, -1)]
    pyenv = sorted((Path.home() / ".pyenv/versions").glob("3.*/bin/python3"), reverse=True)
    for python in [path for name in names if (path := shutil.which(name))] + [str(path) for path in pyenv]:
        question = f"import ensurepip, sys; sys.exit(sys.version_info[:2] < {least})"
        if subprocess.run([python, "-c", question], capture_output=True).returncode == 0:
            return python
    return None


def peer_python(
    name: str, requirements: Sequence[str], python: str = sys.executable, alone: Sequence[str] = ()
) -> Path:
    """Return the Python of a venv that holds `requirements`, the first of which is the system: made once, in the cache.

    `alone`: what is installed without that which it requires, before; then its first is the system.
    """
    kind = (sys.version, sys.base_prefix) if python == sys.executable else (python,)
    digest = hashlib.sha256(" ".join((*kind, *alone, *requirements)).encode()).hexdigest()[:12]
    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "pg_graphrag"
    venv = cache / f"{name}-{digest}"
    own = venv / "bin/python"
    if not (venv / "complete").exists():
        print(f"installing {(*alone, *requirements)[0]} in {venv} (once)", file=sys.stderr)
        subprocess.run([python, "-m", "venv", "--clear", venv], check=True)
        pip = [own, "-m", "pip", "install", "-qq", "--disable-pip-version-check", "--progress-bar", "off"]
        if alone:
            subprocess.run([*pip, "--no-deps", *alone], check=True)
        subprocess.run([*pip, *requirements], check=True)
        (venv / "complete").touch()
    return own


def peer_step(
    python: Path, half: str, task: dict[str, Any], *, seconds: float | None = None, **surroundings: str
) -> Any:
    """Run a step of a peer's half of a benchmark in the peer's venv; return what it made of the task.

    A process for each step, so that its sessions end with it. BENCH_VERBOSE=1 shows what the peer prints.

    Raises
    ------
    RuntimeError
        The peer failed; the message ends with the last line that it printed.
    subprocess.TimeoutExpired
        It took more than so many seconds, and was ended.
    """
    own = ("PYTHONPATH", "PG_GRAPHRAG_HOME")
    kept = {name: value for name, value in os.environ.items() if name not in own}
    done = subprocess.run(
        [python, "-P", HALVES / half],
        input=json.dumps(task),
        stdout=subprocess.PIPE,
        stderr=None if os.environ.get("BENCH_VERBOSE") else subprocess.PIPE,
        text=True,
        timeout=seconds,
        env=kept | {"NO_PROXY": "127.0.0.1", "no_proxy": "127.0.0.1", "PYTHONPATH": str(HALVES)} | surroundings,
    )
    if done.returncode:
        last_line = (done.stderr or "").strip().rpartition("\n")[2]
        raise RuntimeError(f"{half} ended with {done.returncode}: {last_line}")
    return json.loads(done.stdout)


@contextmanager
def database(url: str, name: str) -> Iterator[str]:
    """Make a database for as long as it is needed; yield its URL."""
    parts = urlsplit(url)
    drop = sql.SQL("DROP DATABASE IF EXISTS {} WITH (FORCE)").format(sql.Identifier(name))
    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute(drop)
        connection.execute(sql.SQL("CREATE DATABASE {}").format(sql.Identifier(name)))
        try:
            yield parts._replace(path=f"/{name}").geturl()
        finally:
            connection.execute(drop)


def postmaster(connection: psycopg.Connection[Any]) -> int | None:
    """Return the process id of the server; None where its processes cannot be seen from here."""
    backend = connection.info.backend_pid
    try:
        stat = Path(f"/proc/{backend}/stat").read_text()
    except OSError:
        return None
    return int(stat.rpartition(")")[2].split()[1]) if "postgres" in stat else None


def session_cpu(connection: psycopg.Connection[Any]) -> float:
    """Return the CPU seconds of a session so far, where its process can be seen from here."""
    used = Path(f"/proc/{connection.info.backend_pid}/stat").read_text().rpartition(")")[2].split()
    return sum(map(int, used[11:13])) / TICKS


def work(url: str) -> None:
    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute(WORK)


def passages(data: Path, count: int | None) -> list[tuple[str, str, str]]:
    """Return (key, title, text) of the first `count` passages whose extraction was recorded."""
    with (data / "musique/docs.jsonl").open(encoding="utf-8") as file:
        loaded = [json.loads(line) for line in file]
    return [(document["id"], document["title"], document["text"]) for document in loaded[:count]]
