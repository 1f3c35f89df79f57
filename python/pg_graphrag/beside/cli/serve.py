"""``pg-graphrag serve``: starts the server of `pg_graphrag.beside.serve` and prints its address."""

import argparse
import asyncio
import getpass
import logging
import os
import secrets
import signal
import socket
import sys
from contextlib import nullcontext
from dataclasses import replace
from pathlib import Path

import uvicorn

from pg_graphrag.beside.cli.worker import beside
from pg_graphrag.beside.readers.ocr.installed import ocr_of
from pg_graphrag.beside.serve.app import build
from pg_graphrag.beside.serve.callers import Caller, Callers, password_hash, read_callers, sole_caller, token_hash
from pg_graphrag.beside.serve.connections import Connection
from pg_graphrag.beside.serve.guard import LOOPBACK
from pg_graphrag.beside.serve.protocols import mcp_server
from pg_graphrag.beside.serve.service import Service
from pg_graphrag.beside.serve.settings import RIGHTS, Limits, Settings
from pg_graphrag.ground.errors import GraphRAGError

TOKEN_VARIABLE = "PG_GRAPHRAG_TOKEN"
# Connections at a time. A new one takes the place of one that asks nothing; where all are at work it is refused with 503.
_MAX_CONNECTIONS = 500
_MIN_PASSWORD = 10


def serve(args: argparse.Namespace) -> int:
    """Serve until a signal; returns the exit status."""
    if args.new_token:
        token = secrets.token_urlsafe(32)
        print(f"token         {token}\ntoken_sha256  {token_hash(token)}")
        return 0
    if args.new_password:
        password = getpass.getpass("Password: ") if sys.stdin.isatty() else sys.stdin.readline().rstrip("\n")
        if len(password) < _MIN_PASSWORD:
            raise GraphRAGError(f"a password has {_MIN_PASSWORD} characters at least", hint="Choose a longer one.")
        print(f'password_argon2 = "{password_hash(password)}"')
        return 0
    if unknown := sorted(args.mcp_tools - RIGHTS):
        raise GraphRAGError(f"--mcp-tools has no {unknown[0]!r}", hint=f"It may have {', '.join(sorted(RIGHTS))}.")
    settings = Settings(
        url=args.url,
        corpus=args.corpus,
        host=args.host,
        port=args.port,
        origins=tuple(args.origin),
        mcp_rights=args.mcp_tools,
        pictures=args.pictures,
        connections=args.connections,
        waiting=args.waiting,
        ocr=ocr_of(args.ocr, args.ocr_engine),
        ocr_engine=args.ocr_engine,
        limits=Limits(upload=args.max_upload << 20, rate=args.rate, burst=4 * args.rate),
    )
    with beside(args.url) if args.worker else nullcontext():
        return _serve_stdio(settings, args.callers) if args.stdio else _serve_http(settings, args)


def _serve_http(settings: Settings, args: argparse.Namespace) -> int:
    token = None
    if args.callers is not None:
        callers = read_callers(args.callers)
    else:
        token = _token(args.token_file)
        callers = sole_caller(token)
    logging.basicConfig(stream=sys.stderr, format="%(asctime)s %(levelname)s %(message)s", level=logging.WARNING)
    logging.getLogger("pg_graphrag").setLevel(logging.INFO)
    with _listen(settings.host, settings.port) as listener:
        settings = replace(settings, port=listener.getsockname()[1])
        config = uvicorn.Config(
            build(settings, callers),
            # The guard logs requests, without their contents.
            access_log=False,
            log_config=None,
            server_header=False,
            # Who a proxy vouches for, the file of callers says.
            proxy_headers=False,
            http=Connection,
            limit_concurrency=_MAX_CONNECTIONS,
            timeout_graceful_shutdown=5,
            ws="none",
        )
        server = uvicorn.Server(config)
        address = settings.origins[0].rstrip("/") if settings.origins else f"http://{_host(settings)}:{settings.port}"
        # On standard output once, for the person who started it; the log never has it.
        print(f"{address}/#token={token}" if token and args.token_file is None else f"{address}/", flush=True)
        if settings.host not in (*LOOPBACK, "::1") and not any(o.startswith("https:") for o in settings.origins):
            logging.getLogger("pg_graphrag.beside.serve").warning(
                "listening at %s without TLS: tokens and texts can be read on the way; see docs/serve.md", settings.host
            )
        # uvicorn sends it again when it has ended.
        signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))
        server.run(sockets=[listener])
    return 0 if server.started else 1


def _serve_stdio(settings: Settings, path: Path | None) -> int:
    """Speak MCP with the process that started this one: it is the caller."""
    caller = Caller("stdio", rights=RIGHTS)
    callers = Callers({b"": caller})
    if path is not None:
        callers = read_callers(path)
        named = callers.by_token(os.environ.get(TOKEN_VARIABLE, ""))
        if named is None:
            raise GraphRAGError(
                f"{TOKEN_VARIABLE} holds no token of {path}",
                sqlstate="28000",
                hint="Give it the token of a caller; pg-graphrag serve --new-token makes one.",
            )
        caller = named
    service = Service(settings, callers)
    service.database.check(callers.all)
    service.database.open()
    server = mcp_server.build(service, lambda _: caller, settings.mcp_rights)
    try:
        asyncio.run(server.run_stdio_async())
    finally:
        service.database.close()
    return 0


def _token(path: Path | None) -> str:
    """Return the token of a file, which is made where it is not there."""
    if path is None:
        return secrets.token_urlsafe(32)
    if not path.exists():
        descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        with os.fdopen(descriptor, "w") as file:
            file.write(f"{secrets.token_urlsafe(32)}\n")
    if path.stat().st_mode & 0o077:
        raise GraphRAGError(f"others may read {path}", hint=f"chmod 600 {path}")
    token = path.read_text().strip()
    if len(token) < 20:
        raise GraphRAGError(
            f"the token in {path} is shorter than 20 characters", hint="Delete the file; a new one is made."
        )
    return token


def _listen(host: str, port: int) -> socket.socket:
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    # Named TCP, or asyncio does not take its connections for such, and small replies wait 40 ms for an acknowledgement.
    listener = socket.socket(family, socket.SOCK_STREAM, socket.IPPROTO_TCP)
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        listener.bind((host, port))
        # Whoever reads the address may send requests at once.
        listener.listen()
    except OSError as error:
        listener.close()
        raise GraphRAGError(
            f"cannot listen at {host}:{port}: {error.strerror}", sqlstate="55006", hint="Choose another --port."
        ) from None
    return listener


def _host(settings: Settings) -> str:
    return f"[{settings.host}]" if ":" in settings.host else settings.host
