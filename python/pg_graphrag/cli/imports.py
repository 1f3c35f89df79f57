"""``pg-graphrag import-graphrag`` and ``import-lightrag``: an index made by another system."""

import sys
from pathlib import Path

from pg_graphrag.cli.database import connect
from pg_graphrag.cli.worker import work
from pg_graphrag.client.hosts import transaction
from pg_graphrag.exchange.graphrag import Communities, Output
from pg_graphrag.exchange.imports import send, send_communities
from pg_graphrag.exchange.lightrag import WorkingDirectory


def import_index(url: str, corpus: str, system: str, folder: Path) -> int:
    """Import the index in `folder`, and index what was imported; returns the exit status."""
    index = Output(folder) if system == "GraphRAG" else WorkingDirectory(folder)
    with connect(url) as connection, transaction(connection):
        summary = send(connection, corpus, index.documents())
        communities = index.communities() if isinstance(index, Output) else Communities()
        if communities.communities:
            send_communities(connection, corpus, communities.communities, communities.cited)
    counts = f"{summary.documents:,} documents, {summary.unchanged:,} of them unchanged"
    print(counts + (f"; {len(communities.communities):,} communities" if communities.communities else ""), flush=True)
    for reason in (*summary.left_out, *communities.left_out):
        print(f"pg-graphrag: left out: {reason}", file=sys.stderr)
    return work(url, 1, exit_when_drained=True)
