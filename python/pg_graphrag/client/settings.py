"""How the client and the CLI connect."""

from typing import Any

SETTINGS: dict[str, Any] = {
    # Every statement is a transaction of its own, as CALL process_jobs() needs it to be.
    "autocommit": True,
    # Whatever PGCLIENTENCODING says: documents may hold any character.
    "client_encoding": "UTF8",
    # Behind a pool of transactions (pgbouncer) a prepared statement is another session's.
    "prepare_threshold": None,
    "fallback_application_name": "pg_graphrag",
}
