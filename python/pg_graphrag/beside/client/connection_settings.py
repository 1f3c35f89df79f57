"""How the client and the CLI connect."""

from typing import Any

from psycopg.conninfo import conninfo_to_dict

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
    "sqlalchemy": "Give connection.connection.driver_connection of an engine with postgresql+psycopg, or the URL.",
}


def settings_of(url: str) -> dict[str, Any]:
    """Return how to connect to a URL: SETTINGS, and what the URL does not say itself of a silent network."""
    parameters = conninfo_to_dict(url)
    return SETTINGS | {name: value for name, value in _KEEPALIVES.items() if name not in parameters}


def check_source(source: Any) -> None:
    """Refuse connections and pools of other libraries than psycopg 3.

    Raises
    ------
    GraphRAGError
        0A000 for one of asyncpg, psycopg2 or SQLAlchemy.
    """
    library = type(source).__module__.partition(".")[0]
    if library in _OTHERS:
        raise GraphRAGError(
            f"a {type(source).__name__} of {library} cannot be used", sqlstate="0A000", hint=_OTHERS[library]
        )
