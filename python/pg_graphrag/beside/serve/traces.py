"""A span for each request within the sender's trace, if the process has a provider of spans."""

from contextlib import suppress

from starlette.types import ASGIApp, Message, Receive, Scope, Send

from pg_graphrag.beside.client.tracing import tracer
from pg_graphrag.beside.serve.guard import CALLER


class Traced:
    """ASGI middleware around the whole server. Spans have route, status and caller; never a query, a body or a key."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        own = tracer() if scope["type"] == "http" else None
        if own is None:
            await self._app(scope, receive, send)
            return
        from opentelemetry.propagate import extract
        from opentelemetry.trace import SpanKind, StatusCode

        headers = {name.decode("latin-1"): value.decode("latin-1") for name, value in scope["headers"]}
        method = scope["method"]
        with own.start_as_current_span(
            method, extract(headers), SpanKind.SERVER, record_exception=False, set_status_on_exception=False
        ) as span:

            async def watched(message: Message) -> None:
                if message["type"] == "http.response.start":
                    span.set_attribute("http.response.status_code", message["status"])
                    if message["status"] >= 500:
                        span.set_status(StatusCode.ERROR)
                await send(message)

            span.set_attribute("http.request.method", method)
            try:
                await self._app(scope, receive, watched)
            finally:
                with suppress(KeyError, AttributeError):
                    span.set_attribute("http.route", scope["route"].path)
                    span.update_name(f"{method} {scope['route'].path}")
                if (caller := scope.get(CALLER)) is not None:
                    span.set_attribute("user.id", caller.name)
