"""Checks of every request before it is read (host, origin, size, caller, rate), and headers of every reply."""

import ipaddress
import logging
import secrets
import time
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlsplit

from starlette.requests import cookie_parser
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from pg_graphrag.beside.serve.callers import Caller, Callers, Session
from pg_graphrag.beside.serve.http_errors import Refusal, error_reply
from pg_graphrag.beside.serve.settings import Settings

log = logging.getLogger("pg_graphrag.beside.serve")

CSRF_HEADER = "x-csrf-token"
CALLER = "pg_graphrag.caller"
SESSION = "pg_graphrag.session"
PASSWORD_PATH = "/api/sign-in/password"
LOOPBACK = ("127.0.0.1", "localhost", "[::1]")


_NO_TOKEN = "this request has no token"
_SAFE = frozenset(("GET", "HEAD"))
# What a browser needs before it can show a token.
_PUBLIC = ("/static/", "/healthz", "/readyz", "/docs", "/api/sign-in")
_MAX_BUCKETS = 10_000
_ORIGIN_HINT = "Start it with --origin for its public address."
# No inline script, nothing of other hosts, no frame around the page.
_HEADERS = {
    "content-security-policy": "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; font-src 'self';"
    " connect-src 'self'; frame-src 'self'; worker-src 'self'; manifest-src 'self';"
    " base-uri 'none'; form-action 'none'; frame-ancestors 'none'",
    "x-content-type-options": "nosniff",
    "referrer-policy": "no-referrer",
    "cross-origin-opener-policy": "same-origin",
    "cross-origin-resource-policy": "same-origin",
    "permissions-policy": "camera=(), geolocation=(), microphone=()",
}


@dataclass
class _Bucket:
    """Requests left of an allowance that fills by `rate` a second up to `size`."""

    left: float
    at: float

    def take(self, rate: float, size: float) -> float:
        """Take one; return 0, or the seconds until there is one."""
        now = time.monotonic()
        self.left, self.at = min(size, self.left + (now - self.at) * rate), now
        if self.left < 1:
            return (1 - self.left) / rate
        self.left -= 1
        return 0.0


class Guard:
    """ASGI middleware around the whole server.

    The caller is in ``scope[CALLER]`` afterwards. A request has none only where `_PUBLIC` says so, and at ``/``.
    """

    def __init__(self, app: ASGIApp, settings: Settings, callers: Callers) -> None:
        self._app, self._settings, self._limits, self._callers = app, settings, settings.limits, callers
        hosts = {settings.host, *(LOOPBACK if settings.host in (*LOOPBACK, "::1") else ())}
        self._hosts = {f"{host}:{settings.port}".lower() for host in hosts} | {
            urlsplit(origin).netloc.lower() for origin in settings.origins
        }
        self._buckets: dict[tuple[str, Caller | str], _Bucket] = {}
        self._at_work: dict[Caller, int] = {}

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "lifespan":
            await self._app(scope, receive, send)
            return
        if scope["type"] != "http":  # there are no web sockets
            await send({"type": "websocket.close", "code": 1008})
            return
        start = time.monotonic()
        reply = _Reply(send)
        name = "-"
        try:
            caller = self._admit(scope)
            if caller is None:
                await self._app(scope, self._bounded(scope, receive, reply), reply.send)
                if scope["path"] == PASSWORD_PATH and reply.status == 200:
                    self._give_back(scope)
            else:
                name = caller.name
                await self._run(caller, scope, self._bounded(scope, receive, reply), reply)
        except Refusal as refused:
            await _refuse(reply, scope["path"], refused)
        finally:
            # Never the query: it is what people ask. Names of callers are the server's own words.
            seconds = time.monotonic() - start
            log.info(
                "%s %s %s %d %.0f ms", name, scope["method"], printable(scope["path"]), reply.status, 1000 * seconds
            )

    async def _run(self, caller: Caller, scope: Scope, receive: Receive, reply: "_Reply") -> None:
        at_work = self._at_work.get(caller, 0)
        if at_work >= self._limits.calls:
            raise Refusal(429, "53400", f"{at_work} requests of this caller are at work", "Wait for one of them.")
        self._at_work[caller] = at_work + 1
        try:
            await self._app(scope, receive, reply.send)
        finally:
            self._at_work[caller] -= 1
            if not self._at_work[caller]:
                del self._at_work[caller]

    def _admit(self, scope: Scope) -> Caller | None:
        """Return the caller; None if the path is open to anybody."""
        headers = _headers(scope)
        host = headers.get("host", "").lower()
        if host not in self._hosts:
            # A name that somebody else lets point to this address (DNS rebinding).
            raise Refusal(421, "28000", "this server has no such host name", _ORIGIN_HINT)
        self._check_origin(headers, host)
        path = scope["path"]
        if scope["method"] in _SAFE and (path == "/" or path.startswith(_PUBLIC)):
            return None
        if path == PASSWORD_PATH and bearer_token(headers) is None:
            # The caller has no token yet. Pages of other origins are refused above; a right password gives the attempt back.
            self._allow_failure(scope)
            return None
        caller, session = self._identify(scope, headers)
        if session is not None and scope["method"] not in _SAFE:
            token = headers.get(CSRF_HEADER, "")
            if not secrets.compare_digest(token.encode("utf-8", "surrogateescape"), session.csrf.encode()):
                raise Refusal(403, "28000", "the request has no CSRF token", "Reload the page.")
        self._allow("caller", caller, self._limits.rate, self._limits.burst)
        scope[CALLER], scope[SESSION] = caller, session
        return caller

    def _check_origin(self, headers: Mapping[str, str], host: str) -> None:
        """Refuse what a page of another origin sends. There is no CORS."""
        origin = headers.get("origin")
        allowed = {f"http://{host}", *(item.lower().rstrip("/") for item in self._settings.origins)}
        if origin is not None and origin.lower() not in allowed:
            raise Refusal(403, "28000", "requests of other origins are refused", _ORIGIN_HINT)
        # A link from elsewhere may open a page; it cannot read it.
        is_foreign = headers.get("sec-fetch-site", "none") not in ("none", "same-origin")
        if origin is None and is_foreign and headers.get("sec-fetch-mode") != "navigate":
            raise Refusal(403, "28000", "requests of other origins are refused", _ORIGIN_HINT)

    def _identify(self, scope: Scope, headers: Mapping[str, str]) -> tuple[Caller, Session | None]:
        if (token := bearer_token(headers)) is not None:
            if (caller := self._callers.by_token(token)) is not None:
                return caller, None
            self._allow_failure(scope)
            raise _unauthorized("the token is not known")
        proxy = self._callers.proxy
        if proxy is not None and (caller := proxy.caller(_address(scope), headers)) is not None:
            return caller, None
        if (cookie := cookie_of(headers, self._settings)) and (session := self._callers.session(cookie)) is not None:
            return session.caller, session
        raise _unauthorized(_NO_TOKEN)

    def _clients(self, scope: Scope) -> list[tuple[str, float]]:
        """Return the groups in which failures are counted, with their limits: an address, for IPv6 its 64-bit network.

        Behind a reverse proxy on this machine, or one that shows its secret, the address is the proxy's client. As the
        client may have forged the header, the proxy's own address counts too, with ten times the limit.
        """
        headers, address, most = _headers(scope), _address(scope), float(self._limits.failures)
        try:
            peer = ipaddress.ip_address(address)
        except ValueError:
            return [(address, most)]
        proxy = self._callers.proxy
        is_proxy = (peer.is_loopback and self._settings.origins) or (proxy is not None and proxy.sent(address, headers))
        try:
            forwarded = ipaddress.ip_address(headers.get("x-forwarded-for", "").rpartition(",")[2].strip())
        except ValueError:
            return [(_network(peer), most)]
        return [(_network(forwarded), most), (address, 10 * most)] if is_proxy else [(_network(peer), most)]

    def _allow_failure(self, scope: Scope) -> None:
        """Count an attempt to sign in against its address."""
        for client, most in self._clients(scope):
            self._allow("address", client, most / 60, most)

    def _give_back(self, scope: Scope) -> None:
        for client, _ in self._clients(scope):
            if (bucket := self._buckets.get(("address", client))) is not None:
                bucket.left += 1

    def _allow(self, kind: str, name: Caller | str, rate: float, size: float) -> None:
        if len(self._buckets) >= _MAX_BUCKETS:
            # The longest unused go.
            self._buckets = dict(sorted(self._buckets.items(), key=lambda item: item[1].at)[_MAX_BUCKETS // 2 :])
        bucket = self._buckets.setdefault((kind, name), _Bucket(size, time.monotonic()))
        if (wait := bucket.take(rate, size)) > 0:
            raise _TooMany(wait)

    def _bounded(self, scope: Scope, receive: Receive, reply: "_Reply") -> Receive:
        """Return a `receive` that ends where a body is longer than it may be."""
        limit = self._limits.upload if scope["path"] in ("/api/upload", "/api/documents") else self._limits.body
        length = _headers(scope).get("content-length", "0")
        if not length.isascii() or not length.isdigit() or int(length) > limit:
            raise _too_large(limit)
        count = 0

        async def bounded() -> Message:
            nonlocal count
            message = await receive()
            if message["type"] == "http.request":
                count += len(message.get("body", b""))
                if count > limit:
                    raise _too_large(limit)
            return message

        return bounded


class _TooMany(Refusal):
    def __init__(self, wait: float) -> None:
        super().__init__(429, "53400", "too many requests", f"Wait {wait:.1f} s.")
        self.wait = wait


def _too_large(limit: int) -> Refusal:
    return Refusal(413, "54000", f"the request is larger than {limit:,} bytes", "Send less at a time.")


def _unauthorized(message: str) -> Refusal:
    return Refusal(401, "28000", message, "Send the header Authorization: Bearer TOKEN.")


class _Reply:
    """Sends a reply with the headers that every reply has, and records its outcome."""

    def __init__(self, send: Send) -> None:
        self._send = send
        self.status = 0

    async def send(self, message: Message) -> None:
        if message["type"] == "http.response.start":
            self.status = message["status"]
            names = {name.lower() for name, _ in message.get("headers", ())}
            message = {
                **message,
                "headers": [
                    *message.get("headers", ()),
                    *(
                        (name.encode(), value.encode())
                        for name, value in _HEADERS.items()
                        if name.encode() not in names
                    ),
                    *([] if b"cache-control" in names else [(b"cache-control", b"no-store")]),
                ],
            }
        await self._send(message)


async def _refuse(reply: _Reply, path: str, refused: Refusal) -> None:
    if reply.status:  # it has begun: the connection ends without its end
        return
    status, media_type, body = error_reply(path, refused)
    headers = [(b"content-type", media_type.encode()), (b"connection", b"close")]
    if refused.status == 401:
        # RFC 6750: a caller who showed a token learns that it is invalid.
        error = (
            "" if refused.message == _NO_TOKEN else f', error="invalid_token", error_description="{refused.message}"'
        )
        headers.append((b"www-authenticate", f'Bearer realm="pg_graphrag"{error}'.encode()))
    if isinstance(refused, _TooMany):
        headers.append((b"retry-after", str(int(refused.wait) + 1).encode()))
    headers.append((b"content-length", str(len(body)).encode()))
    await reply.send({"type": "http.response.start", "status": status, "headers": headers})
    await reply.send({"type": "http.response.body", "body": body})


def _headers(scope: Mapping[str, Any]) -> dict[str, str]:
    """Return the headers; of one that stands twice the last."""
    return {name.decode("latin-1").lower(): value.decode("latin-1") for name, value in scope["headers"]}


def bearer_token(headers: Mapping[str, str]) -> str | None:
    """Return the token that a request shows; None without. Basic and others are a proxy's own."""
    kind, _, token = headers.get("authorization", "").partition(" ")
    return token.strip() if kind.lower() == "bearer" else None


def _network(address: ipaddress.IPv4Address | ipaddress.IPv6Address) -> str:
    """Return an address, of IPv6 its network of 64 bits, which one client has as a whole."""
    mapped = address if address.version == 4 else address.ipv4_mapped or address
    return str(mapped if mapped.version == 4 else ipaddress.ip_network((mapped, 64), strict=False))


def _address(scope: Scope) -> str:
    return scope["client"][0] if scope.get("client") else ""


def cookie_name(settings: Settings) -> str:
    """Return the name of the session's cookie: cookies know no ports, and servers of one host have one each."""
    return f"pg_graphrag_{settings.port}"


def cookie_of(headers: Mapping[str, str], settings: Settings) -> str | None:
    """Return the session's cookie from the headers (lower-case names) of a request; None if there is none."""
    return cookie_parser(headers.get("cookie", "")).get(cookie_name(settings))


def printable(path: str) -> str:
    """Return a stranger's text that cannot forge a line of the log: its first 200 characters."""
    return "".join(character if character.isprintable() else "?" for character in path[:200])
