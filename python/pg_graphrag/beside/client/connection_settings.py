"""Settings of the client's and the command's connections, and a check whether an idle connection was lost."""

import inspect
import json
import selectors
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from functools import partial
from typing import Any

import psycopg
from psycopg.abc import AdaptContext
from psycopg.adapt import PyFormat
from psycopg.conninfo import conninfo_to_dict
from psycopg.pq import ConnStatus, TransactionStatus
from psycopg.types.datetime import TimestamptzLoader
from psycopg.types.json import Jsonb, JsonbDumper, JsonbLoader

from pg_graphrag.ground.errors import GraphRAGError

SETTINGS: dict[str, Any] = {
    # Every statement is a transaction of its own, as CALL process_jobs() needs it to be.
    "autocommit": True,
    # Whatever PGCLIENTENCODING says: documents may hold any character.
    "client_encoding": "UTF8",
    # Behind a pool of transactions (pgbouncer) a prepared statement is another session's.
    "prepare_threshold": None,
    "fallback_application_name": "pg_graphrag",
}
# A session notices in two minutes that the network went silent; Linux by itself would wait two hours. Unix sockets have none.
_KEEPALIVES: dict[str, Any] = {
    "keepalives_idle": 60,
    "keepalives_interval": 10,
    "keepalives_count": 6,
    "tcp_user_timeout": 120_000,
}
# Libraries whose connections and pools look usable, with what to give instead.
_OTHERS = {
    "asyncpg": "Give AsyncGraphRAG the URL, or a psycopg_pool.AsyncConnectionPool beside asyncpg's own.",
    "psycopg2": "Give the URL, or a connection of psycopg 3.",
    "sqlalchemy": "Give connection.connection.driver_connection of an engine with postgresql+psycopg, AsyncGraphRAG the "
    "driver_connection of await connection.get_raw_connection(), or the URL.",
}
_KINDS = (
    "Give a URL. GraphRAG takes a psycopg.Connection or a ConnectionPool, too, AsyncGraphRAG an AsyncConnection or an "
    "AsyncConnectionPool."
)


def settings_of(url: str) -> dict[str, Any]:
    """Return how to connect to a URL: SETTINGS, and what the URL does not say itself of a silent network."""
    parameters = conninfo_to_dict(url)
    return SETTINGS | {name: value for name, value in _KEEPALIVES.items() if name not in parameters}


def check_source(source: Any, connection_class: type[Any]) -> None:
    """Refuse a source that is not a URL, a psycopg 3 connection of that class or a pool of such connections.

    Raises GraphRAGError: 0A000 for a connection or pool of another library or of the other client; 22023 for anything else.
    """
    if isinstance(source, str):
        scheme, separator, _ = source.partition("://")
        if separator and "=" not in scheme and scheme not in ("postgresql", "postgres"):
            raise GraphRAGError(
                f'a URL that begins with "{scheme}://" cannot be used',
                hint="Give libpq's, without the name of a driver: postgresql://…",
            )
        return
    library = type(source).__module__.partition(".")[0]
    is_foreign = library in _OTHERS or isinstance(source, psycopg.BaseConnection)
    # SQLAlchemy's asynchronous connection raises where it is looked for.
    lend = None if is_foreign else getattr(source, "connection", None)
    if callable(lend):
        is_async = inspect.isasyncgenfunction(inspect.unwrap(lend))
        is_foreign = (is_async or inspect.isgeneratorfunction(inspect.unwrap(lend))) and is_async != issubclass(
            connection_class, psycopg.AsyncConnection
        )
        if not is_foreign:
            return
    if not isinstance(source, connection_class):
        raise GraphRAGError(
            f"a {type(source).__name__} of {library} cannot be used",
            sqlstate="0A000" if is_foreign else "22023",
            hint=_OTHERS.get(library, _KINDS),
        )


# A day off the ends of datetime: no time zone is further from UTC.
FIRST_MOMENT = datetime.min.replace(tzinfo=UTC) + timedelta(days=1)
LAST_MOMENT = datetime.max.replace(tzinfo=UTC) - timedelta(days=1)


class MomentLoader(TimestamptzLoader):
    """Reads a time that Python's datetime does not have, such as infinity, as the last or the first that all time zones have."""

    def load(self, data: Any) -> datetime:
        """Return an aware datetime."""
        try:
            return super().load(data)
        except psycopg.DataError:
            text = bytes(data)
            is_first = text.startswith(b"-") or text.endswith(b"BC")
            return FIRST_MOMENT if is_first else LAST_MOMENT


class JsonParameterDumper(JsonbDumper):
    """Writes JSON as the application does (psycopg's set_json_dumps). A value that is not JSON is refused when a statement
    is sent: 22023.
    """

    def __init__(self, cls: type, context: AdaptContext | None = None) -> None:
        super().__init__(cls, context)
        # The cursor's own dumper is this one.
        adapters = self.connection.adapters if self.connection else psycopg.adapters
        dumper = adapters.get_dumper(Jsonb, PyFormat.TEXT)(cls, context)
        self.dumps = partial(_json, getattr(dumper, "dumps", json.dumps))


def _json(dumps: Callable[[Any], str | bytes], value: Any) -> str | bytes:
    try:
        # Python's own writes NaN, which no server takes.
        return json.dumps(value, allow_nan=False, default=_refuse) if dumps is json.dumps else dumps(value)
    except (TypeError, ValueError) as error:
        raise _no_json(f"such value: {error}") from error


def _refuse(value: Any) -> Any:
    raise _no_json(f"{value!r:.100}")


def _no_json(what: str) -> GraphRAGError:
    hint = "Give texts, numbers, truth values, None, lists and dictionaries; of a time its isoformat(), else str()."
    return GraphRAGError(f"metadata, filters and options are JSON, which has no {what}", hint=hint)


def adapt(cursor: "psycopg.Cursor[Any] | psycopg.AsyncCursor[Any]") -> None:
    """Have a cursor read values as the client does, whatever its connection does: Django's reads jsonb as text."""
    cursor.adapters.register_dumper(Jsonb, JsonParameterDumper)
    cursor.adapters.register_loader("jsonb", JsonbLoader)
    cursor.adapters.register_loader("timestamptz", MomentLoader)


# The server's last words come before the end: two reads, and one to spare.
_READS = 3


def is_lost(connection: "psycopg.Connection[Any] | psycopg.AsyncConnection[Any]") -> bool:
    """Whether an idle connection has ended. It sends nothing: a network that went silent shows with the next statement."""
    pgconn = connection.pgconn
    if connection.closed:
        return True
    if pgconn.transaction_status != TransactionStatus.IDLE:
        return False
    try:
        with selectors.DefaultSelector() as selector:
            selector.register(pgconn.socket, selectors.EVENT_READ)
            for _ in range(_READS):
                if not selector.select(0):
                    return False
                pgconn.consume_input()
                pgconn.is_busy()  # takes in what was read
    except psycopg.OperationalError:
        return True
    return bool(pgconn.status == ConnStatus.BAD)
