"""``pg-graphrag import-graphrag`` and ``import-lightrag``: an index made by another system."""

import sys
from pathlib import Path

from psycopg.types.json import Jsonb

from pg_graphrag.cli.database import connect
from pg_graphrag.cli.worker import work
from pg_graphrag.exchange.given import send
from pg_graphrag.exchange.graphrag import Communities, Output
from pg_graphrag.exchange.lightrag import WorkingDirectory


def import_index(url: str, corpus: str, system: str, folder: Path) -> int:
    """Import the index in `folder`, and index what was imported; returns the exit status."""
    index = Output(folder) if system == "GraphRAG" else WorkingDirectory(folder)
    with connect(url) as connection, connection.transaction():
        done = send(connection, corpus, index.documents())
        found = index.communities() if isinstance(index, Output) else Communities()
        if found.communities:
            connection.execute(
                "SELECT graphrag.import_communities(%s, %s, %s)",
                [corpus, Jsonb(found.communities), Jsonb(found.cited)],
            )
    counts = f"{done.documents:,} documents, {done.unchanged:,} of them unchanged"
    print(counts + (f"; {len(found.communities):,} communities" if found.communities else ""), flush=True)
    for reason in (*done.dropped, *found.dropped):
        print(f"pg-graphrag: left out: {reason}", file=sys.stderr)
    return work(url, 1, once=True)
