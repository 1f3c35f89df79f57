"""Errors of the database as HTTP says them."""

import psycopg
from psycopg_pool import PoolTimeout
from starlette.exceptions import HTTPException

from pg_graphrag.ground.errors import GraphRAGError

# By the first characters of the SQLSTATE, the longest that fits.
_STATUS = {
    "02": 404,
    "08": 502,
    "0A": 501,
    "22": 400,
    "23": 409,
    "25006": 409,
    "28": 403,
    "42": 400,
    "42501": 403,
    "42704": 404,
    "53": 503,
    "54": 413,
    "53400": 429,
    "55": 409,
    "57014": 504,
    "57P": 503,
}


class Refusal(HTTPException):
    """A request that is refused: HTTP's status, a code, and what to do.

    Starlette's own class, which FastAPI lets pass where it reads a body.
    """

    def __init__(self, status: int, code: str, message: str, hint: str | None = None):
        super().__init__(status, message)
        self.status, self.code, self.message, self.hint = status, code, message, hint

    def body(self) -> dict[str, dict[str, str | None]]:
        """Return the body of the reply."""
        return {"error": {"code": self.code, "message": self.message, "hint": self.hint}}


def refusal(error: Exception) -> Refusal:
    """Return what the caller is told of an error. What is neither the package's nor the database's own says nothing."""
    if isinstance(error, Refusal):
        return error
    if isinstance(error, GraphRAGError):
        return Refusal(_status(error.sqlstate), error.sqlstate, error.message, error.hint)
    if isinstance(error, PoolTimeout):
        return Refusal(503, "53300", "all connections are at work", "Try again in some seconds.")
    if isinstance(error, psycopg.Error) and (sqlstate := error.sqlstate) is not None:
        message, hint = error.diag.message_primary or type(error).__name__, error.diag.message_hint
        detail = error.diag.message_detail
        if detail is not None and detail.startswith("graphrag: "):
            # Between two pieces of an answer, PL/Python's own words come first.
            message = detail
        status = _status(sqlstate)
        if status == 500 or sqlstate.startswith("58"):
            return Refusal(500, sqlstate, "the database failed", "The server's log says more.")
        return Refusal(status, sqlstate, message, hint)
    if isinstance(error, psycopg.DataError):
        # psycopg's own, of a value that it cannot send.
        return Refusal(400, "22021", str(error))
    if isinstance(error, psycopg.OperationalError):
        return Refusal(503, "08006", "the database cannot be reached", "Try again in some seconds.")
    return Refusal(500, "XX000", "the server failed", "The server's log says more.")


def _status(sqlstate: str) -> int:
    return next((_STATUS[sqlstate[:length]] for length in (5, 3, 2) if sqlstate[:length] in _STATUS), 500)
