"""Public data sets that stand in git repositories: some of their paths, at one commit, fetched once into the user's cache."""

import hashlib
import json
import os
import subprocess
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple


class Repository(NamedTuple):
    """A public repository, the commit that figures are of, and the paths that are needed of it."""

    url: str
    commit: str
    paths: tuple[str, ...]


def fetched(repository: Repository, data: Path | None) -> Path:
    """Return a folder that has the paths: `data` where it is given, or the clone in it; else the cache, filled where it is empty.

    Raises
    ------
    SystemExit
        Saying what to do, when `data` lacks a path or the repository cannot be reached.
    """
    name_of_clone = repository.url.rpartition("/")[2]
    if data is not None:
        data = data / name_of_clone if (data / name_of_clone).exists() else data
        if absent := [path for path in repository.paths if not (data / path).exists()]:
            raise SystemExit(f"{data} has no {', '.join(absent)}: {_by_hand(repository)}")
        return data
    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "pg_graphrag"
    digest = hashlib.sha256(json.dumps(repository).encode()).hexdigest()[:12]
    folder = cache / f"{name_of_clone}-{digest}"
    if not folder.exists():
        cache.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=cache) as name:
            _fetch(repository, Path(name) / "whole")
            (Path(name) / "whole").rename(folder)
    return folder


def fetched_json(repository: Repository, data: Path | None) -> list[Any]:
    """Return what its files hold, each of which is JSON."""
    folder = fetched(repository, data)
    return [json.loads((folder / path).read_text(encoding="utf-8")) for path in repository.paths]


def _fetch(repository: Repository, folder: Path) -> None:
    # Nothing but the files that are checked out comes over the network.
    steps: list[Sequence[str]] = [
        ["init", "--quiet", str(folder)],
        ["-C", str(folder), "remote", "add", "origin", repository.url],
        ["-C", str(folder), "fetch", "--quiet", "--depth=1", "--filter=blob:none", "origin", repository.commit],
        ["-C", str(folder), "checkout", "--quiet", "FETCH_HEAD", "--", *repository.paths],
    ]
    for step in steps:
        try:
            subprocess.run(["git", *step], check=True, stderr=subprocess.PIPE, text=True)
        except (OSError, subprocess.CalledProcessError) as error:
            said = getattr(error, "stderr", None) or str(error)
            reason = said.strip().splitlines()[-1]
            raise SystemExit(f"{repository.url} could not be fetched ({reason}): {_by_hand(repository)}") from error


def _by_hand(repository: Repository) -> str:
    return f"where it can be reached, git clone {repository.url}, git checkout {repository.commit}; name that folder with --data"
