"""``pg-graphrag export``: the graph of a corpus as a file."""

from pathlib import Path

from pg_graphrag.cli.database import connect
from pg_graphrag.exchange.graph import stream
from pg_graphrag.exchange.xml import write


def export(url: str, corpus: str, path: Path) -> int:
    """Write the graph to `path` and say what was written."""
    with connect(url) as connection:
        nodes, edges = write(path, stream(connection, corpus))
    print(f"{path}: {nodes:,} entities, {edges:,} relationships")
    return 0
