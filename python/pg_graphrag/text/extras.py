"""Optional libraries, imported on first use."""

from importlib import import_module
from typing import Any

from pg_graphrag.ground.errors import GraphRAGError, install_hint


def load_library(module: str, extra: str) -> Any:
    """Import `module`, which the extra `extra` of this package installs.

    Raises GraphRAGError: 58P01 with the command that installs it.
    """
    try:
        return import_module(module)
    except ImportError as error:
        raise GraphRAGError(
            f'the Python module "{module}" is not installed',
            sqlstate="58P01",
            detail=str(error),
            hint=f"{install_hint(extra)} For the server: docker/install-python.",
        ) from error
