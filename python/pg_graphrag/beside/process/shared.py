"""`server.Database` for what a process remembers of a database: uses the connection of the call that has its turn."""

from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import Any

from pg_graphrag.beside.process.statement_errors import StatementError
from pg_graphrag.beside.process.turns import running
from pg_graphrag.server import Database


class SharedDatabase(Database):
    """All connections of a process to one database: each statement goes over the one whose call has its turn.

    What the process remembers of the database may ask it for more later, when another connection's call needs that.
    """

    is_server = False
    statement_error = StatementError

    def __init__(self) -> None:
        """It holds nothing: the turn has the connection."""

    def waiting(self) -> AbstractContextManager[None]:
        """Lend the turn to other calls meanwhile."""
        return running().lent()


def _over_the_connection(name: str) -> Callable[..., Any]:
    def method(_: SharedDatabase, *arguments: Any, **fields: Any) -> Any:
        return getattr(running().database, name)(*arguments, **fields)

    return method


for _name in (
    *("query", "literal_query", "prepare", "execute", "cursor", "hold", "call", "poll", "commit", "rollback"),
    *("subtransaction", "bounded", "notice", "warning", "error", "texts_of", "log_unforeseen", "folder"),
):
    setattr(SharedDatabase, _name, _over_the_connection(_name))
