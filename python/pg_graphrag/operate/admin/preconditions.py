"""Checks of the caller and the transaction, for functions that go through a whole corpus."""

from pg_graphrag.ground.errors import GraphRAGError
from pg_graphrag.server import Database


def check_sees_all(db: Database, function: str) -> None:
    """Refuse a caller from whom row-level security hides documents (42501)."""
    if not db.value("SELECT graphrag._sees_all()"):
        raise GraphRAGError(
            f"{function} cannot work under row-level security: it would not see what it looks for",
            sqlstate="42501",
            hint="Call it as the owner of the extension, a superuser, or a role with BYPASSRLS.",
        )


def check_isolation(db: Database, function: str) -> None:
    """Refuse a transaction that does not see what others commit meanwhile (25001)."""
    level = db.value("SELECT pg_catalog.current_setting('transaction_isolation')")
    if level in ("repeatable read", "serializable"):
        raise GraphRAGError(
            f"{function} cannot work in a transaction that is {level.upper()}: it would not see what others write meanwhile",
            sqlstate="25001",
            hint="Use BEGIN ISOLATION LEVEL READ COMMITTED.",
        )
