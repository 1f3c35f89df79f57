"""Violations as rows of a statement."""

from collections.abc import Iterator, Sequence
from typing import Any

from pg_graphrag.server import Database, Row

_FETCH = 100


def violations(db: Database, sql: str, types: Sequence[str], values: Sequence[Any]) -> Iterator[tuple[str, str]]:
    """Yield (object, detail) of a statement with these two columns, as they are found."""
    for row in stream(db, sql, types, values):
        yield row["object"], row["detail"]


def stream(db: Database, sql: str, types: Sequence[str], values: Sequence[Any], fetch: int = _FETCH) -> Iterator[Row]:
    """Yield the rows of a statement, which are made as they are fetched."""
    cursor = db.cursor(sql, types, values)
    try:
        while rows := cursor.fetch(fetch):
            yield from rows
    finally:
        cursor.close()
