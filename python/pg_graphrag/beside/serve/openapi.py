"""The description of the HTTP API, ``/api/openapi.json``: FastAPI's, with sign-in and the form of errors added."""

from typing import Any

from fastapi import FastAPI

from pg_graphrag.beside.serve.guard import CSRF_HEADER
from pg_graphrag.beside.serve.http_errors import OLLAMA_PATHS, PROBLEM
from pg_graphrag.beside.serve.protocols.replies import Problem

_SCHEMES = {
    "token": {"type": "http", "scheme": "bearer", "description": "A caller's token."},
    "session": {
        "type": "apiKey",
        "in": "cookie",
        "name": "pg_graphrag_PORT",
        "description": f"A browser's session, from POST /api/session. What changes something needs the header {CSRF_HEADER} too.",
    },
}
_MEANINGS = {
    "401": "No token that is known.",
    "4XX": "Refused.",
    "5XX": "The database or a model failed, or is at work.",
}


def described(app: FastAPI) -> dict[str, Any]:
    """Return the description of an application, made once."""
    if app.openapi_schema is not None:
        return app.openapi_schema
    schema: dict[str, Any] = FastAPI.openapi(app)
    schema["info"]["license"] = {"name": "PostgreSQL License", "identifier": "PostgreSQL"}
    schema["servers"] = [{"url": "/"}]
    schema["security"] = [{name: []} for name in _SCHEMES]
    components = schema["components"]
    components["securitySchemes"] = _SCHEMES
    components["schemas"]["Problem"] = Problem.model_json_schema()
    for path, operations in schema["paths"].items():
        for operation in operations.values():
            # A request that is not as described is refused like any other.
            operation["responses"].pop("422", None)
            operation["responses"] |= _errors(path)
            if path.startswith("/api/sign-in"):
                operation["security"] = []
    for name in ("HTTPValidationError", "ValidationError"):
        components["schemas"].pop(name, None)
    return schema


def _errors(path: str) -> dict[str, Any]:
    is_own = path.startswith("/api/") and path not in OLLAMA_PATHS
    schema = {"$ref": "#/components/schemas/Problem"} if is_own else {"type": "object"}
    content = {PROBLEM if is_own else "application/json": {"schema": schema}}
    return {status: {"description": meaning, "content": content} for status, meaning in _MEANINGS.items()}
