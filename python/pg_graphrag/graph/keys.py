"""The key of a name, for SQL."""

from pg_graphrag.server import Database
from pg_graphrag.text import concepts


def key(db: Database, name: str) -> str:
    """Return the key under which an entity called `name` is found."""
    return concepts.key(name)
