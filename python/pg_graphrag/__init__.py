"""GraphRAG as a PostgreSQL extension: the package that runs inside the server, and its client and CLI."""

from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pg_graphrag.beside.client import AsyncGraphRAG, GraphRAG

__version__ = "0.4.0"
__all__ = ["AsyncGraphRAG", "GraphRAG", "__version__"]

# Where new sessions import from: in a server a link, which an update turns to another folder.
INSTALLED = __path__[0]


def installed_folder() -> Path:
    """Return the folder of the copy that new sessions have now."""
    # Where sessions of 0.2.0 go on importing by the link, the package is one link further (extension/install-package).
    current = Path(INSTALLED, ".current")
    return (current if current.exists() else Path(INSTALLED)).resolve()


# Modules imported later must come from the same copy as those loaded now. `models` and `alembic` keep their names of 0.2.0.
__path__ = [str(installed_folder()), str(installed_folder() / "integrations/released")]


def __getattr__(name: str) -> Any:
    """Import the client only when it is asked for: the server has no use for it."""
    if name in ("AsyncGraphRAG", "GraphRAG"):
        return getattr(import_module("pg_graphrag.beside.client"), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
