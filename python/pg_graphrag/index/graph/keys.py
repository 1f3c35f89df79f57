"""The key of a name, for SQL."""

from pg_graphrag.ground import bounds
from pg_graphrag.server import Database
from pg_graphrag.text import concept


def key(db: Database, name: str) -> str:
    """Return the key under which an entity called `name` is found; 22023 for what is too long to be a name."""
    return concept.key(bounds.name(name))
