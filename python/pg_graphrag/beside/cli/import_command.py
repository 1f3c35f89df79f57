"""``pg-graphrag import-graphrag`` and ``import-lightrag``: take over an index that another system made."""

import argparse
import signal
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import FrameType
from typing import Any
from xml.etree import ElementTree

import psycopg

from pg_graphrag.beside.cli.open_database import connect, explain
from pg_graphrag.beside.cli.worker import Order, work
from pg_graphrag.beside.client.hosts import transaction
from pg_graphrag.beside.exchange.foreign_documents import Imported, send, send_communities
from pg_graphrag.beside.exchange.graphrag import Communities, Output
from pg_graphrag.beside.exchange.lightrag import WorkingDirectory
from pg_graphrag.ground.errors import GraphRAGError

# What a file that is cut off, or of another version, is found to be.
_UNREADABLE = (ValueError, KeyError, TypeError, AttributeError, ElementTree.ParseError)


def import_index(args: argparse.Namespace) -> int:
    """Import the index in a folder, and index the imported documents; returns the exit status.

    The import is one transaction: if it fails, nothing is left. If the indexing fails, the rest stays queued, and the next
    run goes on.
    """
    with connect(args.url, args.corpus) as connection:
        summary, communities = _import(connection, args.corpus, args.system, args.folder)
    counts = f"{summary.documents:,} documents, {summary.unchanged:,} of them unchanged"
    print(counts + (f"; {len(communities.communities):,} communities" if communities.communities else ""), flush=True)
    for reason in (*summary.left_out, *communities.left_out):
        print(f"pg-graphrag: left out: {reason}", file=sys.stderr)
    status = work(Order(args.url, once=True))
    if status:
        rest = "all of it is imported, and what is not indexed yet is queued: pg-graphrag worker --once goes on"
        print(f"pg-graphrag: {rest}", file=sys.stderr)
    return status


def _import(
    connection: psycopg.Connection[Any], corpus: str, system: str, folder: Path
) -> tuple[Imported, Communities]:
    index = Output(folder) if system == "GraphRAG" else WorkingDirectory(folder)
    # When this process is killed, its transaction must not keep the next run waiting.
    connection.execute("SET client_connection_check_interval = '2s'")
    try:
        with _stopped_by_sigterm(), transaction(connection):
            summary = send(connection, corpus, _documents(index, system, folder))
            with _reading(system, folder):
                communities = index.communities() if isinstance(index, Output) else Communities()
            if communities.communities:
                send_communities(connection, corpus, communities.communities, communities.cited)
        return summary, communities
    except psycopg.OperationalError as error:
        if not connection.closed:
            raise
        raise GraphRAGError(
            f"the connection was lost: {explain(error)}",
            sqlstate="08006",
            hint="Run it again: nothing was imported, or, where only the last word was lost, everything, which stays as it is.",
        ) from None
    except KeyboardInterrupt:
        print("pg-graphrag: nothing was imported", file=sys.stderr)
        raise


def _documents(index: Output | WorkingDirectory, system: str, folder: Path) -> Iterator[dict[str, Any]]:
    with _reading(system, folder):
        yield from index.documents()


@contextmanager
def _reading(system: str, folder: Path) -> Iterator[None]:
    """Say of a folder whose files cannot be read as that system's that they cannot."""
    try:
        yield
    except _UNREADABLE as error:
        raise GraphRAGError(
            f"{folder} cannot be read as an index of {system}: {type(error).__name__}: {error}",
            sqlstate="22000",
            hint="Is it whole? It may be cut off by a full disk or a copy, still be written, or of another version.",
        ) from None


@contextmanager
def _stopped_by_sigterm() -> Iterator[None]:
    """Let SIGTERM end the import like SIGINT: psycopg cancels the statement, so that its session ends too."""

    def stop(number: int, frame: FrameType | None) -> None:
        raise KeyboardInterrupt

    before = signal.signal(signal.SIGTERM, stop)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)
