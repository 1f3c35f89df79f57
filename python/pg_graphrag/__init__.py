"""GraphRAG as a PostgreSQL extension: the package that runs inside the server, and its client and CLI."""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pg_graphrag.client import AsyncGraphRAG, GraphRAG

__version__ = "0.3.0"
__all__ = ["AsyncGraphRAG", "GraphRAG", "__version__"]


def __getattr__(name: str) -> Any:
    """Import the client only when it is asked for: the server has no use for it."""
    if name in ("AsyncGraphRAG", "GraphRAG"):
        from pg_graphrag import client

        return getattr(client, name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
