"""Versions of the extension that this package serves: its own, and released ones, each by a package of its own beside
this one.

A database keeps its version until its ALTER EXTENSION UPDATE. Bodies of all versions import ``pg_graphrag.server``, so
one package at a time has that name in a session. A session changes the package when a body of another version calls:
after an update, which another session may have made, and back if the update was rolled back.
"""

import importlib
import re
import sys
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any

import pg_graphrag
from pg_graphrag.ground.errors import GraphRAGError

_NAME = "pg_graphrag"
# In the folder of each installed package, one for each version (extension/install-package).
_RELEASED = "released"
_VERSION = re.compile(r'^__version__ = "(.*)"$', re.MULTILINE)

# Packages of this session that do not have the name now: their modules, by version.
_asleep: dict[str, dict[str, ModuleType]] = {}


def served() -> list[str]:
    """Return the versions, in no order."""
    return list(_folders())


def check_copy() -> None:
    """Raise 55000 if this session's copy of the package is gone: modules that it has not imported yet are lost.

    The second installation after a session began removes it (extension/install-package).
    """
    copy = Path(pg_graphrag.__path__[0])
    if not copy.exists():
        raise GraphRAGError(
            "the Python package that this session loaded was replaced",
            sqlstate="55000",
            detail=f"Folder: {copy}",
            hint="Reconnect: new sessions load the package that is installed now.",
        )


def turn_to(version: str) -> Callable[..., Any] | None:
    """Make the package of a version the active one; return its ``server.call``, or None if there is no such package."""
    folder = _folders().get(version)
    if version not in _asleep and folder is None:
        return None
    awake = {name: module for name, module in sys.modules.items() if name.partition(".")[0] == _NAME}
    for name in awake:
        del sys.modules[name]
    try:
        if version in _asleep:
            sys.modules.update(_asleep[version])
        else:
            _import(version, str(folder))
    except BaseException:
        for name in [name for name in sys.modules if name.partition(".")[0] == _NAME]:
            del sys.modules[name]
        sys.modules.update(awake)
        raise
    _asleep.pop(version, None)
    _asleep[awake[_NAME].__version__] = awake
    call: Callable[..., Any] = sys.modules[f"{_NAME}.server"].call
    return call


def _folders() -> dict[str, Path]:
    """Return the folders to import from, by version: of this copy, and of the one that new sessions have."""
    folders: dict[str, Path] = {}
    for copy in (Path(pg_graphrag.__path__[0]), pg_graphrag.installed_folder()):
        packages = [copy, *copy.parent.glob(f"{_RELEASED}/*/{_NAME}")]
        # The second installation after a session began removes the copy that it began with.
        for package in filter(Path.exists, packages):
            if match := _VERSION.search((package / "__init__.py").read_text(encoding="utf-8")):
                folders.setdefault(match[1], package.parent)
    return folders


def _import(version: str, folder: str) -> None:
    """Import the package of a version as ``pg_graphrag``, and have its door pass on what bodies of other versions ask."""
    sys.path.insert(0, folder)
    try:
        server = importlib.import_module(f"{_NAME}.server")
    finally:
        sys.path.remove(folder)
    own: Callable[..., Any] = server.call
    # The next update comes by the link, too.
    vars(sys.modules[_NAME])["INSTALLED"] = pg_graphrag.INSTALLED

    def call(plpy: Any, extension_version: str, path: str, *arguments: Any) -> Any:
        other = None if extension_version == version else turn_to(extension_version)
        return (other or own)(plpy, extension_version, path, *arguments)

    server.call = call  # type: ignore[attr-defined]
