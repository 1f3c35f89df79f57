"""The whole server as one ASGI application."""

import logging
import re
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import psycopg
from anyio import to_thread
from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import FileResponse, Response
from mcp.server.transport_security import TransportSecuritySettings
from starlette.exceptions import HTTPException
from starlette.middleware.gzip import GZipMiddleware
from starlette.routing import Mount, Route
from starlette.staticfiles import StaticFiles
from starlette.types import ASGIApp, Receive, Scope, Send

from pg_graphrag import __version__
from pg_graphrag.beside.serve import openapi, sign_in
from pg_graphrag.beside.serve.callers import Callers
from pg_graphrag.beside.serve.guard import Guard
from pg_graphrag.beside.serve.http_errors import MCP_PATH, OLLAMA_PATHS, Refusal, error_reply, no_route, refusal
from pg_graphrag.beside.serve.protocols import api, mcp_server, ollama_api, openai_api
from pg_graphrag.beside.serve.service import Service
from pg_graphrag.beside.serve.settings import Settings
from pg_graphrag.beside.serve.traces import Traced
from pg_graphrag.ground.errors import GraphRAGError

log = logging.getLogger("pg_graphrag.beside.serve")
STATIC = Path(__file__).with_name("static")


def build(settings: Settings, callers: Callers) -> ASGIApp:
    """Return the application: API, OpenAI's front, MCP and pages, behind the guard.

    Raises psycopg.Error, GraphRAGError where the database cannot serve the callers.
    """
    service = Service(settings, callers)
    service.database.check(callers.all)
    mcp = mcp_server.build(service, mcp_server.caller_of_request, settings.mcp_rights)
    # It has no sessions that could be stolen: every request shows who sends it. The guard checks hosts.
    mcp_app = mcp.streamable_http_app(
        streamable_http_path=MCP_PATH,
        stateless_http=True,
        json_response=True,
        transport_security=TransportSecuritySettings(enable_dns_rebinding_protection=False),
    )

    @asynccontextmanager
    async def lifespan(_: FastAPI) -> AsyncIterator[None]:
        service.database.open()
        try:
            async with mcp.session_manager.run():
                yield
        finally:
            await to_thread.run_sync(service.close)

    app = _Described(
        title="pg_graphrag",
        version=__version__,
        lifespan=lifespan,
        # Their pages load scripts of other hosts.
        docs_url=None,
        redoc_url=None,
        openapi_url="/api/openapi.json",
        # The library's own spans and logs would contain questions; earlier versions have none, and ignore this.
        telemetry={"tracing": False, "logs": False},
    )
    _handle_errors(app)
    app.include_router(api.router(service))
    app.include_router(openai_api.router(service))
    app.include_router(ollama_api.router(service))
    app.include_router(sign_in.router(service))
    if callers.provider is not None:
        app.mount("/api/sign-in/provider", sign_in.with_provider(service, callers.provider))
    _add_pages(app, service)
    app.router.routes.extend(route for route in mcp_app.routes if isinstance(route, Route | Mount))
    return Traced(Guard(GZipMiddleware(_as_asked(app), minimum_size=1000, compresslevel=1), settings, callers))


class _Described(FastAPI):
    def openapi(self) -> dict[str, Any]:
        """Return the description of the API, with sign-in and errors."""
        return openapi.described(self)


def _as_asked(app: ASGIApp) -> ASGIApp:
    """Answer HEAD as GET; the web server leaves out the body. MCP has its own. Ollama takes any body for JSON (curl -d)."""

    async def asked(scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "http" and scope["method"] == "HEAD" and not scope["path"].startswith(MCP_PATH):
            scope = {**scope, "method": "GET"}
        elif scope["type"] == "http" and scope["path"] in OLLAMA_PATHS:
            others = [header for header in scope["headers"] if header[0] != b"content-type"]
            scope = {**scope, "headers": [*others, (b"content-type", b"application/json")]}
        await app(scope, receive, send)

    return asked


def _handle_errors(app: FastAPI) -> None:
    def reply(request: Request, reason: Refusal, headers: Mapping[str, str] | None = None) -> Response:
        status, media_type, body = error_reply(request.url.path, reason)
        return Response(body, status, {"retry-after": "10"} if status == 503 else headers, media_type)

    async def handle(request: Request, error: Exception) -> Response:
        reason = refusal(error)
        if reason.status == 500 and isinstance(error, psycopg.Error):
            # Without its text, which may quote the question. Starlette logs other errors.
            log.error("%s of the database: SQLSTATE %s", type(error).__name__, reason.code)
        return reply(request, reason)

    async def handle_validation(request: Request, error: Exception) -> Response:
        assert isinstance(error, RequestValidationError)
        # If a value may have several types, each reports an error; the deepest belongs to the intended type.
        nearest = max(error.errors(), key=lambda item: (len(item["loc"]), not item["type"].endswith("_type")))
        where = ".".join(map(str, nearest["loc"]))
        is_read = re.search("json|multipart/", request.headers.get("content-type", "json"))
        hint = "See /api/openapi.json." if is_read else "Send JSON, with the header Content-Type: application/json."
        return reply(request, Refusal(400, "22023", f"{where}: {nearest['msg']}", hint))

    async def handle_http(request: Request, error: Exception) -> Response:
        assert isinstance(error, HTTPException)
        status, path = error.status_code, request.url.path
        reason = no_route(path, status) if status in (404, 405) else Refusal(status, "0A000", str(error.detail))
        return reply(request, reason, error.headers)

    app.add_exception_handler(RequestValidationError, handle_validation)
    app.add_exception_handler(HTTPException, handle_http)
    for kind in (Refusal, GraphRAGError, psycopg.Error, Exception):
        app.add_exception_handler(kind, handle)


# The frame that draws diagrams: its library writes styles. It runs no script of others, fetches nothing and is in no other page.
_DIAGRAMS = (
    "default-src 'none'; script-src 'self'; style-src 'unsafe-inline'; base-uri 'none'; form-action 'none';"
    " frame-ancestors 'self'"
)


class _Static(StaticFiles):
    """Files that browsers ask about again: after an update they have the new ones."""

    def file_response(self, full_path: Any, *args: Any, **kwargs: Any) -> Response:
        response = super().file_response(full_path, *args, **kwargs)
        response.headers["cache-control"] = "no-cache"
        if Path(full_path) == STATIC / "diagram.html":
            response.headers["content-security-policy"] = _DIAGRAMS
        return response


def _add_pages(app: FastAPI, service: Service) -> None:
    @app.get("/", include_in_schema=False)
    def index() -> FileResponse:
        return FileResponse(STATIC / "index.html")

    @app.get("/healthz", include_in_schema=False)
    def healthz() -> dict[str, str]:
        return {"status": "up"}

    @app.get("/readyz", include_in_schema=False)
    async def readyz() -> dict[str, str]:
        if not await service.database.answers():
            raise Refusal(503, "08006", "the database cannot be reached", "Try again in some seconds.")
        return {"status": "ready"}

    @app.get("/docs", include_in_schema=False)
    def docs() -> FileResponse:
        return FileResponse(STATIC / "docs.html")

    app.mount("/static", _Static(directory=STATIC), name="static")
