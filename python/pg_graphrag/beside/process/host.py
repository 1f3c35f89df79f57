"""Calls by name: `Process` gives a connection the routines that the server of an extension has."""

import json
from collections.abc import Generator, Hashable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from decimal import Decimal
from itertools import islice
from typing import Any

import psycopg

from pg_graphrag.beside.process.database import ProcessDatabase
from pg_graphrag.beside.process.routines import Argument, Routine, find
from pg_graphrag.beside.process.schema import check_owner
from pg_graphrag.beside.process.shared import SharedDatabase
from pg_graphrag.beside.process.turns import Turn
from pg_graphrag.ground.errors import GraphRAGError

# What the package cannot do without the server's Python or Apache AGE, and what does instead.
REFUSED = {
    "cypher": "It needs Apache AGE. Use neighbors(), or the views graphrag.graph_nodes and graphrag.graph_edges.",
    "_visible_nodes": "Restricted readers ask by GraphRAG(url).neighbors() and context().",
    "_visible_edges": "Restricted readers ask by GraphRAG(url).neighbors() and context().",
}

_databases: dict[Hashable, SharedDatabase] = {}
# An attribute of the connection. A dictionary would keep the connection alive, because its process refers to it.
_PROCESS = "_pg_graphrag_process"


def process_of(connection: psycopg.Connection[Any]) -> "Process":
    """Return the one `Process` of a connection."""
    process: Process | None = getattr(connection, _PROCESS, None)
    if process is None:
        process = Process(connection)
        setattr(connection, _PROCESS, process)
    return process


class Process:
    """The routines of the package over a connection to a database that `schema.install` has prepared.

    Raises psycopg.Error: 42501 as `schema.check_owner` says; 22021 for another encoding.
    """

    def __init__(self, connection: psycopg.Connection[Any]) -> None:
        self._db = ProcessDatabase(connection)
        cursor = connection.cursor(row_factory=psycopg.rows.tuple_row)
        try:
            check_owner(cursor)
        except GraphRAGError as error:
            raise self._db.error(error) from None
        row = cursor.execute(_IDENTITY).fetchone()
        assert row is not None
        info = connection.info
        self._identity = (info.host, info.port, info.dbname, *row)
        self._db.shared = _databases.setdefault(self._identity, SharedDatabase())

    def call(
        self, name: str, arguments: Mapping[str, Any], columns: Sequence[str] | None = None
    ) -> list[tuple[Any, ...]]:
        """Return the rows of a routine, each a tuple of its columns; no row for a procedure or void.

        `arguments`: by name; those with a default may be left out. A jsonb argument may be a Python object.
        `columns`: which columns, in this order; all when None.

        Raises psycopg.Error: as the server would raise it; 58P01 if package and schema have different versions, 42883 for
          an unknown function or argument, 0A000 for what this host lacks.
        """
        routine, values = self._resolve(name, arguments)
        with self._turn():
            returned = self._db.run(routine, values)
        rows = list(_rows(routine, returned))
        if columns is None:
            return rows
        places = [[name for name, _ in routine.columns].index(column) for column in columns]
        return [tuple(row[place] for place in places) for row in rows]

    def stream(self, name: str, arguments: Mapping[str, Any]) -> Generator[tuple[Any, ...], None, None]:
        """Yield the rows of a routine as they are produced. Other calls of the process take turns between two rows."""
        routine, values = self._resolve(name, arguments)
        returned = self._db.rows(routine, values)
        try:
            while True:
                with self._turn():
                    rows = list(_rows(routine, list(islice(returned, 1))))
                if not rows:
                    return
                yield from rows
        finally:
            # Also where it was cancelled: without its turn it would end in the midst of another call.
            with Turn(self._db, self._identity, is_end=True):
                returned.close()

    @contextmanager
    def transaction(self) -> Iterator[None]:
        """Have the calls inside be one transaction: all of them, or none. Other calls of the process wait meanwhile."""
        with self._turn(), self._db.transaction():
            yield

    def _turn(self) -> Turn:
        """Have the modules serve this connection alone."""
        return Turn(self._db, self._identity)

    def cancel(self) -> None:
        """End the call under way, from another thread: 57014 there."""
        self._db.cancel()

    def _resolve(self, name: str, arguments: Mapping[str, Any]) -> tuple[Routine, list[Any]]:
        """Return the routine of that name whose arguments fit, and the values of all of them."""
        if name in REFUSED:
            raise self._db.error(
                GraphRAGError(
                    f"graphrag.{name}() is not possible in a database without the extension",
                    sqlstate="0A000",
                    hint=REFUSED[name],
                )
            )
        try:
            routine = find(name, arguments.keys())
            values = {item.name: _input(arguments.get(item.name, item.default), item) for item in routine.arguments}
        except GraphRAGError as error:
            raise self._db.error(error) from None
        return routine, [values[name] for name in routine.passed]


_IDENTITY = """
SELECT d.oid, 'graphrag.corpora'::pg_catalog.regclass::oid
  FROM pg_catalog.pg_database d WHERE d.datname = pg_catalog.current_database()
"""


def _boolean(value: Any) -> bool:
    return value if isinstance(value, bool) else str(value).lower() in ("t", "true")


_CONVERSIONS: dict[str, Any] = {
    "integer": int,
    "bigint": int,
    "boolean": _boolean,
    "double precision": float,
    "numeric": lambda value: Decimal(str(value)),
}
_LARGEST = {"integer": 2**31, "bigint": 2**63}


def _input(value: Any, argument: Argument) -> Any:
    if value is None:
        return None
    try:
        if argument.type == "jsonb":
            # psycopg's Jsonb holds the object; a text is JSON already.
            value = getattr(value, "obj", value)
            text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
            if "\\u0000" in text:
                raise GraphRAGError(
                    "unsupported Unicode escape sequence",
                    sqlstate="22P05",
                    detail="\\u0000 cannot be converted to text.",
                )
            return text
        if argument.type.endswith("[]"):
            if any(isinstance(part, list | tuple) for part in value):
                return list(value)  # of several dimensions: refused as in the server
            item = Argument(argument.name, argument.type.removesuffix("[]"))
            return [_input(part, item) for part in value]
        converted = _CONVERSIONS.get(argument.type, str)(value)
    except (TypeError, ValueError, ArithmeticError):
        raise GraphRAGError(
            f"{argument.name} cannot be {str(value)[:100]!r}",
            sqlstate="22P02",
            hint=f"Give a value of type {argument.type}.",
        ) from None
    if (bound := _LARGEST.get(argument.type)) is not None and not -bound <= converted < bound:
        raise GraphRAGError(f"{argument.name} is out of range for type {argument.type}: {value}", sqlstate="22003")
    if isinstance(converted, str) and "\0" in converted:
        raise GraphRAGError(f"{argument.name} has a null character (U+0000)", sqlstate="22021", hint="Remove it.")
    return converted


def _rows(routine: Routine, returned: Any) -> Iterator[tuple[Any, ...]]:
    """Yield what a function of the package returned, a tuple of SQL's columns a row, in the client's types."""
    if not routine.columns:
        return
    names = [name for name, _ in routine.columns]
    types = [type_ for _, type_ in routine.columns]
    for row in (returned or ()) if routine.is_set else (returned,):
        if isinstance(row, Mapping):
            values: Any = [row[name] for name in names]
        elif isinstance(row, tuple) or (isinstance(row, list) and len(names) > 1):
            values = row
        else:
            values = (row,)
        yield tuple(_output(value, type_) for value, type_ in zip(values, types, strict=True))


def _output(value: Any, type_: str) -> Any:
    if value is None or not type_:
        return value
    if type_ == "jsonb":
        return json.loads(value)
    if type_.endswith("[]"):
        return [_output(item, type_.removesuffix("[]")) for item in value]
    return _CONVERSIONS.get(type_, str)(value)
