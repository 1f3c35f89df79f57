"""``pg-graphrag export`` and ``export-graphrag``: the graph of a corpus as files."""

from pathlib import Path

from pg_graphrag.beside.cli.open_database import connect
from pg_graphrag.beside.client.graph_items import stream
from pg_graphrag.beside.exchange.graphrag_export import Export
from pg_graphrag.beside.exchange.xml import write


def export(url: str, corpus: str, path: Path) -> int:
    """Write the graph to `path` and say what was written."""
    with connect(url) as connection:
        nodes, edges = write(path, stream(connection, corpus))
    print(f"{path}: {nodes:,} entities, {edges:,} relationships")
    return 0


def export_graphrag(url: str, corpus: str, folder: Path) -> int:
    """Write GraphRAG's tables into `folder` and say what was written."""
    with connect(url) as connection:
        counts = Export(connection, corpus, folder).write()
    for name, count in counts.items():
        print(f"{folder / name}.parquet: {count:,} rows")
    return 0
