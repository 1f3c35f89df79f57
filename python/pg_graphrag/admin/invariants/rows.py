"""Violations as rows of a statement."""

from collections.abc import Iterator, Sequence
from typing import Any

from pg_graphrag.server import Database

_FETCH = 100


def violations(db: Database, sql: str, types: Sequence[str], values: Sequence[Any]) -> Iterator[tuple[str, str]]:
    """Yield (object, detail) of a statement with these two columns, as they are found."""
    for row in db.stream(sql, types, values, _FETCH):
        yield row["object"], row["detail"]
