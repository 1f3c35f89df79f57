"""Connections of the command line, and database errors in words for its users."""

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import psycopg

from pg_graphrag.beside.cli.terminal import printable
from pg_graphrag.beside.client.blocking import connect as open_connection
from pg_graphrag.beside.client.blocking import connect_to
from pg_graphrag.beside.client.hosts import is_installed, is_pooled
from pg_graphrag.ground.errors import GraphRAGError


def connect(url: str, corpus: str | None = None) -> psycopg.Connection[Any]:
    """Connect to a database that has the extension, or the schema of `pg-graphrag install`; to the node that holds a
    corpus.

    Raises psycopg.OperationalError when there is no such server or database.
    Raises GraphRAGError: 58P01 when the database has neither.
    """
    connection = open_connection(url) if corpus is None else connect_to(url, corpus)[0]
    if not is_installed(connection):
        database = connection.info.dbname
        connection.close()
        raise GraphRAGError(
            f'database "{database}" has no extension pg_graphrag',
            sqlstate="58P01",
            hint="Create it there as a superuser: CREATE EXTENSION pg_graphrag CASCADE; without a superuser, or without"
            " PL/Python: pg-graphrag install.",
        )
    connection.add_notice_handler(_warn)
    # Whatever search_path the database's owner gave the session: an operator of his would run with our rights. Behind a pooler it
    # is others' session, too.
    if not is_pooled(connection):
        connection.execute("SELECT pg_catalog.set_config('search_path', 'pg_catalog, pg_temp', false)")
    return connection


def _warning(notice: psycopg.errors.Diagnostic) -> str:
    """Return the text of a WARNING of the server (something was left out, an answer is incomplete); "" for other notices."""
    if notice.severity_nonlocalized != "WARNING":
        return ""
    hint = f"\nHINT: {notice.message_hint}" if notice.message_hint else ""
    return printable(f"pg-graphrag: warning: {notice.message_primary}{hint}\n")


def _warn(notice: psycopg.errors.Diagnostic) -> None:
    sys.stderr.write(_warning(notice))


@contextmanager
def warnings_after(connection: psycopg.Connection[Any]) -> Iterator[None]:
    """Show warnings at the end: in the middle of a line neither could be read."""
    texts: list[str] = []

    def keep(notice: psycopg.errors.Diagnostic) -> None:
        texts.append(_warning(notice))

    connection.remove_notice_handler(_warn)
    connection.add_notice_handler(keep)
    try:
        yield
    finally:
        connection.remove_notice_handler(keep)
        connection.add_notice_handler(_warn)
        sys.stderr.write("".join(texts))


def explain(error: psycopg.Error | GraphRAGError) -> str:
    """Return message, DETAIL and HINT of an error, without its context of functions and lines."""
    if isinstance(error, GraphRAGError):
        message, detail, hint = error.message, error.detail, error.hint
    else:
        message = error.diag.message_primary or str(error) or type(error).__name__
        detail, hint = error.diag.message_detail, error.diag.message_hint
        if "connection to server on socket" in message:
            # As libpq does where it is given no host.
            hint = "Name the database: --url postgresql://USER:PASSWORD@HOST/DATABASE, or in PG_GRAPHRAG_URL."
        if detail is not None and detail.startswith("graphrag: "):
            # Between two pieces of an answer, PL/Python's own words come first.
            message, detail = detail, None
    parts = [message.strip()]
    parts += [f"DETAIL: {detail}"] if detail else []
    parts += [f"HINT: {hint}"] if hint else []
    return "\n".join(parts)
