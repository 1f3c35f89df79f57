"""``pg-graphrag export`` and ``export-graphrag``: the graph of a corpus as files."""

import argparse

from pg_graphrag.beside.cli.open_database import connect
from pg_graphrag.beside.client.graph_items import stream
from pg_graphrag.beside.exchange.graphrag_export import Export
from pg_graphrag.beside.exchange.xml import write


def export(args: argparse.Namespace) -> int:
    """Write the graph to a file and say what was written."""
    with connect(args.url, args.corpus) as connection:
        nodes, edges = write(args.file, stream(connection, args.corpus))
    print(f"{args.file}: {nodes:,} entities, {edges:,} relationships")
    return 0


def export_graphrag(args: argparse.Namespace) -> int:
    """Write GraphRAG's tables into a folder and say what was written."""
    with connect(args.url, args.corpus) as connection:
        counts = Export(connection, args.corpus, args.folder).write()
    for name, count in counts.items():
        print(f"{args.folder / name}.parquet: {count:,} rows")
    return 0
