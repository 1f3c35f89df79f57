"""The modes of search, context and ask. Each is a module of this package with one object, MODE; a new mode is a new
module.
"""

import importlib
from functools import cache
from pathlib import Path

from pg_graphrag.ground.errors import GraphRAGError
from pg_graphrag.search.query.mode import Mode
from pg_graphrag.server.backend import loading


@cache
def find(name: str | None) -> Mode:
    """Return the mode called `name`, which is loaded the first time; 22023 with the names there are."""
    if name is None or name not in _modules():
        message = "mode cannot be null" if name is None else f'unknown mode "{name}"'
        raise GraphRAGError(message, hint=f"Modes: {', '.join(mode.name for mode in all_modes())}.")
    with loading():
        mode: Mode = importlib.import_module(f"{__name__}.{_modules()[name]}").MODE
    return mode


def all_modes() -> list[Mode]:
    """Return all modes, in the order that lists name them."""
    return sorted(map(find, _modules()), key=lambda mode: (mode.place, mode.name))


@cache
def _modules() -> dict[str, str]:
    """Return {mode: its module}; global is no name for a module."""
    files = (file for folder in __path__ for file in Path(folder).iterdir() if file.suffix == ".py")
    return {file.stem.rstrip("_"): file.stem for file in files if file.stem != "__init__"}
