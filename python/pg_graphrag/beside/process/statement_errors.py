"""Errors of the process host: those of statements look as in PL/Python, those of the package as psycopg raises them."""

from typing import Any

import psycopg
from psycopg.pq import DiagnosticField

from pg_graphrag.ground.errors import GraphRAGError


class StatementError(Exception):
    """An error of a statement as PL/Python shows it: its text is the message; `sqlstate`, `detail` and `hint` beside it."""

    def __init__(self, message: str, sqlstate: str | None, detail: str | None = None, hint: str | None = None) -> None:
        super().__init__(message)
        self.sqlstate = sqlstate
        self.detail = detail
        self.hint = hint


def cannot_act(user: str, owner: str) -> GraphRAGError:
    """Return the error of a process that may not take on the role of the schema's owner."""
    return GraphRAGError(
        f'role "{user}" cannot act for "{owner}", who owns the schema graphrag',
        sqlstate="42501",
        hint="Let the process connect as the owner, or as a member of it; SET ROLE, or the URL's "
        "options=-c role=…, says who asks.",
    )


CANCELLED = "canceling statement due to user request", "57014"


def as_psycopg(message: str, sqlstate: str | None, detail: str | None, hint: str | None) -> psycopg.Error:
    """Return an error as psycopg makes it of one of the server."""
    fields = {
        DiagnosticField.SEVERITY: "ERROR",
        DiagnosticField.SEVERITY_NONLOCALIZED: "ERROR",
        DiagnosticField.SQLSTATE: sqlstate,
        DiagnosticField.MESSAGE_PRIMARY: message,
        DiagnosticField.MESSAGE_DETAIL: detail,
        DiagnosticField.MESSAGE_HINT: hint,
    }
    text = "\n".join([message, *([f"DETAIL:  {detail}"] if detail else []), *([f"HINT:  {hint}"] if hint else [])])
    try:
        kind: type[psycopg.Error] = psycopg.errors.lookup(sqlstate or "")
    except KeyError:
        kind = psycopg.DatabaseError
    info: Any = {field: None if value is None else value.encode() for field, value in fields.items()}
    error = kind(text, info=info, encoding="utf-8")
    if error.sqlstate is None:
        error.sqlstate = sqlstate
    return error


def database_error(error: GraphRAGError) -> psycopg.Error:
    """Return an error of the package as the server would raise it."""
    return as_psycopg(f"graphrag: {error.message}", error.sqlstate, error.detail, error.hint)
