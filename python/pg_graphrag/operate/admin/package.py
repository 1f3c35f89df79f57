"""The version of the package that serves a database."""

import pg_graphrag
from pg_graphrag.server import Database


def version(_: Database) -> str:
    """Return its version."""
    return pg_graphrag.__version__
