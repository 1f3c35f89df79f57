"""Statements that read a whole corpus, and their rows as violations."""

from collections.abc import Iterator, Sequence
from typing import Any

from pg_graphrag.server import Database, Row

_FETCH = 100
_LOOPS = "SELECT pg_catalog.set_config('enable_nestloop', $1, true)"


def violations(db: Database, sql: str, types: Sequence[str], values: Sequence[Any]) -> Iterator[tuple[str, str]]:
    """Yield (object, detail) of a statement with these two columns, as they are found."""
    for row in read_whole(db, sql, types, values, _FETCH):
        yield row["object"], row["detail"]


def read_whole(db: Database, sql: str, types: Sequence[str], values: Sequence[Any], fetch: int) -> Iterator[Row]:
    """Yield the rows of a statement, joined by hashes or sorts, whatever the statistics say of the size of its tables."""
    (setting,) = db.query("SELECT pg_catalog.current_setting('enable_nestloop') AS value")
    db.query(_LOOPS, ["text"], ["off"])
    # It is planned here.
    cursor = db.cursor(sql, types, values)
    db.query(_LOOPS, ["text"], [setting["value"]])
    try:
        while rows := cursor.fetch(fetch):
            yield from rows
    finally:
        cursor.close()
