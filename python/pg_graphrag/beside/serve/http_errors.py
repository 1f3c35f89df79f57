"""Database errors as HTTP errors, in the form of each protocol."""

import json
from http.client import responses
from typing import Any

import psycopg
from psycopg_pool import PoolTimeout
from starlette.exceptions import HTTPException

from pg_graphrag.ground.errors import GraphRAGError

PROBLEM = "application/problem+json"
# Ollama's addresses, beside those of this server's own API; and those that its clients ask for and that are not here.
OLLAMA_PATHS = frozenset(f"/api/{name}" for name in ("version", "tags", "ps", "show", "chat", "generate"))
_ELSE_OF_OLLAMA = frozenset(
    f"/api/{name}" for name in ("embed", "embeddings", "pull", "push", "create", "copy", "delete")
)
# What clients of OpenAI's API ask for whose address lacks /v1.
_WITHOUT_V1 = frozenset(("/models", "/chat/completions", "/completions", "/embeddings", "/responses"))
_OPENAI_KINDS = {
    400: "invalid_request_error",
    401: "authentication_error",
    403: "permission_error",
    404: "invalid_request_error",
    405: "invalid_request_error",
    409: "invalid_request_error",
}
# By the first characters of the SQLSTATE, the longest that fits.
_STATUS = {
    "02": 404, "08": 502, "0A": 501, "22": 400, "23": 409, "25006": 409, "28": 403, "42": 400, "42501": 403,
    "42704": 404, "53": 503, "54": 413, "53400": 429, "55": 409, "57014": 504, "57P": 503,
}  # fmt: skip
MCP_PATH = "/mcp"
# The first of JSON-RPC's codes for errors that a server defines.
_SERVER_ERROR = -32000


class Refusal(HTTPException):
    """A request that is refused: HTTP's status, a code, and what to do.

    Starlette's own class, which FastAPI lets pass where it reads a body.
    """

    def __init__(self, status: int, code: str, message: str, hint: str | None = None):
        super().__init__(status, message)
        self.status, self.code, self.message, self.hint = status, code, message, hint

    @property
    def problem(self) -> dict[str, str | int | None]:
        """What the caller is told: problem details of RFC 9457, with the SQLSTATE as `code`, and `hint`."""
        title = responses.get(self.status, "Client Closed Request")
        return {
            "type": "about:blank",
            "title": title,
            "status": self.status,
            "detail": self.message,
            "code": self.code,
            "hint": self.hint,
        }

    @property
    def sentence(self) -> str:
        """Message and hint, for programs that show one text."""
        return self.message if self.hint is None else f"{self.message.removesuffix('.')}. {self.hint}"


def openai_error(error: Refusal) -> dict[str, Any]:
    """Return an error as OpenAI's clients read it."""
    kind = _OPENAI_KINDS.get(error.status, "rate_limit_error" if error.status == 429 else "api_error")
    return {"error": {"message": error.sentence, "type": kind, "param": None, "code": error.code}}


def ollama_error(error: Refusal) -> dict[str, Any]:
    """Return an error as Ollama's clients read it."""
    return {"error": error.sentence}


def error_reply(path: str, error: Refusal) -> tuple[int, str, bytes]:
    """Return (status, media type, body) of an error, in the form of the path's protocol."""
    # Clients of OpenAI's API ask again after a conflict, which nothing here mends; so may those of Ollama's.
    status = 400 if error.status == 409 else error.status
    if path.startswith("/v1/") or path in _WITHOUT_V1:
        return status, "application/json", json.dumps(openai_error(error)).encode()
    if path in OLLAMA_PATHS | _ELSE_OF_OLLAMA:
        return status, "application/json", json.dumps(ollama_error(error)).encode()
    if path == MCP_PATH:
        return error.status, "application/json", json.dumps(_of_json_rpc(error)).encode()
    return error.status, PROBLEM, json.dumps(error.problem).encode()


def no_route(path: str, status: int) -> Refusal:
    """Return the error for an unknown path (404), or an unsupported method (405), with what exists."""
    hint = "See /api/openapi.json."
    if status == 405:
        return Refusal(405, "0A000", "this path takes no such method", hint)
    if path in _WITHOUT_V1:
        hint = "OpenAI's API is under /v1 here: end the address with it."
    elif path.startswith("/v1/"):
        hint = "Of OpenAI's API there are /v1/models and /v1/chat/completions."
    elif path in _ELSE_OF_OLLAMA:
        hint = f"Of Ollama's API there are {', '.join(sorted(OLLAMA_PATHS))}."
    return Refusal(404, "42704", "there is no such path", hint)


def _of_json_rpc(refused: Refusal) -> dict[str, Any]:
    """Return a refusal as clients of MCP read it: of any other body they tell nothing."""
    error = {
        "code": _SERVER_ERROR,
        "message": refused.sentence,
        "data": {"code": refused.code, "status": refused.status},
    }
    return {"jsonrpc": "2.0", "id": None, "error": error}


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
        message = message.removeprefix("graphrag: ")
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
