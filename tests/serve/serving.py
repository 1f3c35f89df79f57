"""What the tests of ``pg-graphrag serve`` share: the server on a port of its own, and who calls it."""

from __future__ import annotations

import logging
import socket
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

import httpx2
from pg_graphrag.beside.serve.callers import Caller, Callers, Proxy, _hash
from pg_graphrag.beside.serve.settings import RIGHTS, Settings

if TYPE_CHECKING:
    from mcp.client.client import Client

TOKEN = "token-of-the-owner-of-the-schema"
OWNER = Caller("owner", rights=RIGHTS)


@dataclass(frozen=True)
class Serving:
    """A server that runs: `url`, and a client with a token."""

    url: str

    @property
    def cookie(self) -> str:
        """Name of the session's cookie."""
        return f"pg_graphrag_{urlsplit(self.url).port}"

    def client(self, token: str | None = TOKEN, **options: Any) -> httpx2.Client:
        """Return a client; with no token for None."""
        headers = {"authorization": f"Bearer {token}"} if token else {}
        return httpx2.Client(base_url=self.url, headers=headers | options.pop("headers", {}), timeout=60, **options)


def mcp_client(url: str, http: httpx2.AsyncClient) -> Client:
    """The official client of a server's MCP."""
    from mcp.client.client import Client
    from mcp.client.streamable_http import streamable_http_client

    return Client(streamable_http_client(f"{url}/mcp", http_client=http))


def callers(by_token: dict[str, Caller] | None = None, proxy: Proxy | None = None) -> Callers:
    """Who may call: the owner by `TOKEN`, and others by theirs."""
    return Callers({_hash(token): caller for token, caller in ({TOKEN: OWNER} | (by_token or {})).items()}, proxy)


@contextmanager
def serving(url: str, who: Callers | None = None, limit: int | None = None, **settings: Any) -> Iterator[Serving]:
    """Run the server in a thread of this process, as ``pg-graphrag serve`` runs it."""
    # More than a second, which every process that collects tests would take.
    import uvicorn
    from pg_graphrag.beside.serve.app import build
    from pg_graphrag.beside.serve.connections import Connection

    listener = socket.socket(socket.AF_INET, socket.SOCK_STREAM, socket.IPPROTO_TCP)
    listener.bind(("127.0.0.1", 0))
    port = listener.getsockname()[1]
    app = build(replace(Settings(url), port=port, **settings), who or callers())
    config = uvicorn.Config(
        app,
        access_log=False,
        log_config=None,
        proxy_headers=False,
        server_header=False,
        ws="none",
        http=Connection,
        limit_concurrency=limit,
    )
    server = uvicorn.Server(config)
    thread = threading.Thread(target=server.run, kwargs={"sockets": [listener]}, daemon=True)
    thread.start()
    deadline = time.monotonic() + 60
    while not server.started:
        assert thread.is_alive(), "the server did not start"
        assert time.monotonic() < deadline, "the server did not start in time"
        time.sleep(0.01)
    try:
        yield Serving(f"http://127.0.0.1:{port}")
    finally:
        server.should_exit = True
        thread.join(30)
        listener.close()
        assert not thread.is_alive(), "the server did not end"


class Records(logging.Handler):
    """What was logged."""

    def __init__(self) -> None:
        super().__init__()
        self.lines: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        # The tests' own client is none of the server.
        if not record.name.startswith(("httpx", "httpcore")):
            self.lines.append(self.format(record))


@contextmanager
def logged() -> Iterator[list[str]]:
    """All that any logger writes meanwhile, with tracebacks."""
    handler = Records()
    root, own = logging.getLogger(), logging.getLogger("pg_graphrag")
    level, own_level = root.level, own.level
    root.addHandler(handler)
    root.setLevel(logging.DEBUG)
    own.setLevel(logging.DEBUG)
    try:
        yield handler.lines
    finally:
        root.removeHandler(handler)
        root.setLevel(level)
        own.setLevel(own_level)
