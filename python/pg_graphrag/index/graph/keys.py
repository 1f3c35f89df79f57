"""The key of a name, for SQL."""

from pg_graphrag.ground import bounds
from pg_graphrag.server import Database
from pg_graphrag.text import concept


def key(db: Database, name: str) -> str:
    """Return the key of an entity called `name`; 22023 if it is too long for a name."""
    return concept.key(bounds.name(name))
