"""Optional libraries, loaded when first needed."""

from importlib import import_module
from typing import Any

from pg_graphrag.errors import GraphRAGError


def load(module: str, extra: str) -> Any:
    """Import `module`, which the extra `extra` of this package installs.

    Raises
    ------
    GraphRAGError
        58P01 with the command that installs it.
    """
    try:
        return import_module(module)
    except ImportError as error:
        raise GraphRAGError(
            f'the Python module "{module}" is not installed',
            sqlstate="58P01",
            detail=str(error),
            hint=f"Install it for the server's Python: pip install 'pg-graphrag[{extra}]'.",
        ) from error
