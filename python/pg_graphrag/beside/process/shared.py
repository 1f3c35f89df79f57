"""What a process remembers of a database asks for more by any of its connections: the one whose call has its turn."""

from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from typing import Any

from pg_graphrag.beside.process.database import Plan, ProcessCursor, ProcessDatabase
from pg_graphrag.beside.process.statement_errors import StatementError
from pg_graphrag.beside.process.turns import running
from pg_graphrag.ground.errors import GraphRAGError
from pg_graphrag.server import Database, Row


class SharedDatabase(Database):
    """All connections of a process to one database: each statement goes over the one whose call has its turn.

    What the process remembers of the database may ask it for more later, when another connection's call needs that.
    """

    is_server = False

    def __init__(self) -> None:
        """It holds nothing: the turn has the connection."""

    @property
    def _database(self) -> ProcessDatabase:
        return running().database

    def waiting(self) -> AbstractContextManager[None]:
        return running().lent()

    def query(self, sql: str, types: Sequence[str] = (), values: Sequence[Any] = ()) -> list[Row]:
        return self._database.query(sql, types, values)

    def literal_query(self, sql: str) -> list[Row]:
        return self._database.literal_query(sql)

    def hold(self, sql: str) -> None:
        self._database.hold(sql)

    def subtransaction(self) -> AbstractContextManager[object]:
        return self._database.subtransaction()

    @contextmanager
    def bounded(self, seconds: float) -> Iterator[None]:
        with self._database.bounded(seconds):
            yield

    def prepare(self, sql: str, types: Sequence[str]) -> Plan:
        return self._database.prepare(sql, types)

    def execute(self, plan: Plan, values: Sequence[Any]) -> list[Row]:
        return self._database.execute(plan, values)

    def cursor(self, sql: str, types: Sequence[str], values: Sequence[Any]) -> ProcessCursor:
        return self._database.cursor(sql, types, values)

    def call(self, routine: str, types: Sequence[str], values: Sequence[Any]) -> None:
        self._database.call(routine, types, values)

    def poll(self) -> None:
        self._database.poll()

    def commit(self) -> None:
        self._database.commit()

    def rollback(self) -> None:
        self._database.rollback()

    def notice(self, message: str, **fields: str) -> None:
        self._database.notice(message, **fields)

    def warning(self, message: str, **fields: str) -> None:
        self._database.warning(message, **fields)

    @property
    def statement_error(self) -> type[Exception]:
        return StatementError

    def error(self, error: GraphRAGError) -> Exception:
        return self._database.error(error)

    def folder(self, name: str) -> Path:
        return self._database.folder(name)
