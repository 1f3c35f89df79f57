"""Which host serves a connection: the server, if its database has the extension, else this process beside it.

Programs that speak SQL reach `process` through this module alone. It starts `process` only for a database with the
plain schema.
"""

import asyncio
import sys
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar
from weakref import WeakKeyDictionary

import psycopg

from pg_graphrag import __version__
from pg_graphrag.beside.client.connection_settings import SETTINGS
from pg_graphrag.beside.client.sql_statements import Row, Statement
from pg_graphrag.ground.errors import GraphRAGError, missing_package

if TYPE_CHECKING:
    from pg_graphrag.beside.process.corpus_copy import CorpusCopy
    from pg_graphrag.beside.process.corpus_move import CorpusMove
    from pg_graphrag.beside.process.host import Process

T = TypeVar("T")

# Asked in whatever search_path the session has, in which operators of others may come first; of the system's catalogues, where
# nobody is refused: a server logs that. A table with no block never had a row.
_INSTALLED = """
SELECT coalesce(pg_catalog.bool_or(c.relname OPERATOR(pg_catalog.=) '_installed'), false) AS beside,
       EXISTS (SELECT FROM pg_catalog.pg_extension e WHERE e.extname OPERATOR(pg_catalog.=) 'pg_graphrag') AS has_extension,
       EXISTS (SELECT FROM pg_catalog.pg_proc p
                 JOIN pg_catalog.pg_namespace n ON n.oid OPERATOR(pg_catalog.=) p.pronamespace
                WHERE p.proname OPERATOR(pg_catalog.=) '_placed' AND n.nspname OPERATOR(pg_catalog.=) 'graphrag'
                  AND pg_catalog.has_function_privilege(p.oid, 'EXECUTE')) AS reads_nodes,
       coalesce(pg_catalog.bool_or(c.relname OPERATOR(pg_catalog.=) 'nodes'
                                   AND pg_catalog.pg_relation_size(c.oid) OPERATOR(pg_catalog.>) 0), false) AS has_nodes
  FROM pg_catalog.pg_class c
  JOIN pg_catalog.pg_namespace n ON n.oid OPERATOR(pg_catalog.=) c.relnamespace
 WHERE n.nspname OPERATOR(pg_catalog.=) 'graphrag'
   AND c.relname OPERATOR(pg_catalog.=) ANY ('{_installed,nodes}'::pg_catalog.name[])
"""
_VERSION = "SELECT e.extversion FROM pg_catalog.pg_extension e WHERE e.extname OPERATOR(pg_catalog.=) 'pg_graphrag'"
# Errors of a database that lacks the requested object.
LACKS = (
    *(psycopg.errors.UndefinedFunction, psycopg.errors.UndefinedTable, psycopg.errors.UndefinedColumn),
    psycopg.errors.InvalidSchemaName,
)


class Catalogue(NamedTuple):
    """Whether a role may ask a database for nodes, and whether there may have been any when it connected."""

    is_readable: bool
    had_nodes: bool


# For as long as a connection lives; not where there is nothing yet.
_is_beside: WeakKeyDictionary[Any, bool] = WeakKeyDictionary()
_catalogues: WeakKeyDictionary[Any, Catalogue] = WeakKeyDictionary()


def is_beside(connection: psycopg.Connection[Any]) -> bool:
    """Whether the functions of the database's schema are served by this process."""
    if connection not in _is_beside:
        cursor = connection.cursor(row_factory=psycopg.rows.tuple_row)
        return _note(connection, cursor.execute(_INSTALLED, prepare=False).fetchone())
    return _is_beside[connection]


def is_installed(connection: psycopg.Connection[Any]) -> bool:
    """Whether the database has the extension or the plain schema."""
    is_beside(connection)
    return connection in _is_beside


def is_pooled(connection: psycopg.Connection[Any]) -> bool:
    """Whether a pooler stands before the server, so that settings of a session may reach other clients."""
    cursor = connection.cursor(row_factory=psycopg.rows.tuple_row)
    row = cursor.execute("SELECT pg_catalog.pg_backend_pid()", prepare=False).fetchone()
    return row is None or row[0] != connection.info.backend_pid


def cancel(connection: psycopg.Connection[Any]) -> None:
    """End the call that another thread has under way on a connection."""
    if _is_beside.get(connection):
        process(connection).cancel()
    else:
        connection.cancel_safe(timeout=2.0)


async def is_beside_async(connection: psycopg.AsyncConnection[Any]) -> bool:
    """As `is_beside`, for a connection of asyncio."""
    if connection not in _is_beside:
        cursor = connection.cursor(row_factory=psycopg.rows.tuple_row)
        return _note(connection, await (await cursor.execute(_INSTALLED, prepare=False)).fetchone())
    return _is_beside[connection]


def catalogue_of(connection: Any) -> Catalogue:
    """Return what is known of the node catalogue behind a connection, once its host was determined."""
    return _catalogues.get(connection, Catalogue(is_readable=False, had_nodes=False))


def _note(connection: Any, row: tuple[Any, ...] | None) -> bool:
    if connection.info.encoding == "ascii":
        # psycopg would give texts as bytes.
        hint = "Connect with client_encoding=UTF8."
        raise GraphRAGError("the connection's client_encoding is SQL_ASCII", sqlstate="22021", hint=hint)
    is_installed, has_extension, *catalogue = row or [False] * 4
    is_served_here = bool(is_installed and not has_extension)
    if is_installed or has_extension:
        _is_beside[connection] = is_served_here
        _catalogues[connection] = Catalogue(*catalogue)
    if is_served_here and _is_own(connection):
        # What a call asks again and again is planned once: it says so itself. No pool of transactions is between: docs/hosts.md.
        connection.prepare_threshold, connection.prepared_max = sys.maxsize, 1000
    return is_served_here


def _is_own(connection: Any) -> bool:
    """Whether the package has made a connection. What somebody else's prepares is his to say."""
    name = "fallback_application_name"
    return bool(connection.info.get_parameters().get(name) == SETTINGS[name])


def lacking(connection: psycopg.Connection[Any], error: psycopg.Error) -> psycopg.Error:
    """Return the error to raise where a database lacks something, with a HINT where its extension is missing or another."""
    if connection.info.transaction_status != psycopg.pq.TransactionStatus.IDLE:
        return error
    row = connection.cursor(row_factory=psycopg.rows.tuple_row).execute(_VERSION, prepare=False).fetchone()
    return _with_hint(error, row)


async def lacking_async(connection: psycopg.AsyncConnection[Any], error: psycopg.Error) -> psycopg.Error:
    """As `lacking`, for a connection of asyncio."""
    if connection.info.transaction_status != psycopg.pq.TransactionStatus.IDLE:
        return error
    cursor = connection.cursor(row_factory=psycopg.rows.tuple_row)
    return _with_hint(error, await (await cursor.execute(_VERSION, prepare=False)).fetchone())


def _with_hint(error: psycopg.Error, row: tuple[Any, ...] | None) -> psycopg.Error:
    if isinstance(error, psycopg.errors.InvalidSchemaName) and row is None:
        hint = "Run CREATE EXTENSION pg_graphrag CASCADE there, or pg-graphrag install where it has only pgvector."
    elif row is None or row[0] == __version__:
        return error
    else:
        versions = f"The extension is version {row[0]}, this client {__version__}."
        hint = f"{versions} Run ALTER EXTENSION pg_graphrag UPDATE there, or use the client of its version."
    return type(error)(f"{error.diag.message_primary}\nHINT:  {hint}")


@contextmanager
def transaction(connection: psycopg.Connection[Any]) -> Iterator[None]:
    """Have the calls inside be one transaction, whoever serves them: all of them, or none."""
    with process(connection).transaction() if is_beside(connection) else connection.transaction():
        yield


def rows_beside(connection: psycopg.Connection[Any], statement: Statement[Any]) -> list[Row] | None:
    """Return the rows of a statement that this process serves; None where the database does."""
    if not is_beside(connection) or statement.function is None:
        return None
    return process(connection).call(statement.function, statement.parameters, statement.columns)


async def rows_beside_async(connection: psycopg.AsyncConnection[Any], statement: Statement[Any]) -> list[Row] | None:
    """As `rows_beside`; other tasks go on meanwhile, and cancelling the task ends the call."""
    if not await is_beside_async(connection) or statement.function is None:
        return None
    name, parameters, columns = statement.function, statement.parameters, statement.columns
    async with connection.lock:
        serving = process(_blocking(connection))
        return await _in_thread(serving, lambda: serving.call(name, parameters, columns))


def stream_beside(connection: psycopg.Connection[Any], statement: Statement[Any]) -> Iterator[Row]:
    """Yield the rows of a statement that this process serves, as they are produced."""
    assert statement.function is not None
    yield from process(connection).stream(statement.function, statement.parameters)


async def stream_beside_async(
    connection: psycopg.AsyncConnection[Any], statement: Statement[Any]
) -> AsyncIterator[Row]:
    """As `stream_beside`; other tasks go on meanwhile."""
    assert statement.function is not None
    async with connection.lock:
        serving = process(_blocking(connection))
        rows = serving.stream(statement.function, statement.parameters)
        try:
            while (row := await _in_thread(serving, lambda: next(rows, None))) is not None:
                yield row
        finally:
            await _in_thread(serving, rows.close)


def _blocking(connection: psycopg.AsyncConnection[Any]) -> psycopg.Connection[Any]:
    """Return the one connection without asyncio that has the same session: whoever uses it has the lock of the other."""
    attributes = vars(connection)
    if "_pg_graphrag_blocking" not in attributes:
        handler = connection.pgconn.notice_handler
        attributes["_pg_graphrag_blocking"] = psycopg.Connection(connection.pgconn)
        # Its own has taken the place of the other's, whose handlers of notices the caller knows.
        connection.pgconn.notice_handler = handler
    blocking: psycopg.Connection[Any] = attributes["_pg_graphrag_blocking"]
    if blocking.info.transaction_status == psycopg.pq.TransactionStatus.IDLE:
        blocking.autocommit = connection.autocommit
    return blocking


async def _in_thread(serving: "Process", work: Callable[[], T]) -> T:
    """Return what `work` returns, done in a thread; cancelled, it is ended there first: the session is one call's at a time."""
    running = asyncio.ensure_future(asyncio.to_thread(work))
    try:
        return await asyncio.shield(running)
    except asyncio.CancelledError:
        while not running.done():
            await asyncio.to_thread(serving.cancel)
            await asyncio.wait([running], timeout=0.5)
        with suppress(BaseException):
            running.result()
        raise


def check_no_pipeline(connection: "psycopg.Connection[Any] | psycopg.AsyncConnection[Any]") -> None:
    """Refuse a connection in psycopg's pipeline mode where one reply makes the next statement; 0A000."""
    if connection.pgconn.pipeline_status:
        raise GraphRAGError(
            "this call cannot be part of a pipeline",
            sqlstate="0A000",
            hint="Make it outside of connection.pipeline(), or give GraphRAG the URL.",
        )


def process(connection: psycopg.Connection[Any]) -> "Process":
    """Return what serves a connection beside its database.

    Raises GraphRAGError: 58P01 where the packages that it needs are not installed; 0A000 in a pipeline.
    """
    check_no_pipeline(connection)
    try:
        from pg_graphrag.beside.process.host import process_of

        return process_of(connection)
    except ModuleNotFoundError as error:
        whose_need = "a database without the extension is served by this process, which needs"
        raise missing_package(whose_need, error.name, "server") from error


def install(connection: psycopg.Connection[Any]) -> str | None:
    """Make the plain schema in a database, or update it: `process.schema.install`."""
    try:
        from pg_graphrag.beside.process import schema

        return schema.install(connection)
    except ModuleNotFoundError as error:
        raise missing_package("install needs", error.name, "server") from error


def copy(source: psycopg.Connection[Any], target: psycopg.Connection[Any]) -> int:
    """Copy one database into another, on whichever hosts: `process.copying.copy`."""
    from pg_graphrag.beside.process import copying

    return copying.copy(source, target)


def copy_corpus(
    source: psycopg.Connection[Any], target: psycopg.Connection[Any], name: str, **options: Any
) -> "CorpusCopy":
    """Copy one corpus into a database that has others: `process.corpus_copy.copy_corpus`."""
    try:
        from pg_graphrag.beside.process import corpus_copy

        return corpus_copy.copy_corpus(source, target, name, **options)
    except ModuleNotFoundError as error:
        raise missing_package("a copy of a corpus needs", error.name, "server") from error


def move_corpus(
    source: psycopg.Connection[Any], target: psycopg.Connection[Any], name: str, **options: Any
) -> "CorpusMove":
    """Move one corpus to another database while it is read and written: `process.corpus_move.move_corpus`."""
    try:
        from pg_graphrag.beside.process import corpus_move

        return corpus_move.move_corpus(source, target, name, **options)
    except ModuleNotFoundError as error:
        raise missing_package("a move of a corpus needs", error.name, "server") from error


def undo_move(
    source: psycopg.Connection[Any], target: psycopg.Connection[Any] | None, name: str, *, force: bool = False
) -> None:
    """Take a move back: `process.corpus_move.undo_move`."""
    try:
        from pg_graphrag.beside.process import corpus_move

        corpus_move.undo_move(source, target, name, force=force)
    except ModuleNotFoundError as error:
        raise missing_package("a move of a corpus needs", error.name, "server") from error
