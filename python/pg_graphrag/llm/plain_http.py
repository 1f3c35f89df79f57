"""HTTP/1.1 without TLS, proxies and compression: the way to an endpoint on this machine or in its network.

A request takes a tenth of the processor time that it takes with httpx2 (docs/decisions.md), which is a quarter of what a short
text costs that a model reads. Runs in the session's background thread, as `pg_graphrag.llm.transport`, which is its only caller.
"""

import asyncio
import re
import time
from collections.abc import AsyncIterator, Mapping
from urllib.parse import parse_qsl, quote, urlencode, urlsplit

# As httpx2 has it: connections that are kept, and for how long.
MAX_KEPT = 100
KEPT_SECONDS = 5.0
# A closed connection shows within one round trip.
STALE_SECONDS = 1.0
# Bytes of the head of an answer, and of one reading.
_MAX_HEAD = 1 << 18
_PIECE = 1 << 18
_STATUS = re.compile(rb"HTTP/1\.([01]) (\d{3})(?: |$)")
_LENGTH = re.compile(r"\d{1,18}")
_CHUNK_SIZE = re.compile(rb"([0-9A-Fa-f]{1,15})[ \t]*(?:;.*)?\r?\n")
_SAFE_IN_PATH = "/%:@!$&'()*+,;=~"


class BrokenAnswer(Exception):
    """What came is no answer of HTTP/1.1, or not all of one."""


def is_local(host: str | None) -> bool:
    """Whether a name or an address is of this machine."""
    return host is not None and (host in ("localhost", "::1") or host.startswith("127."))


def is_plain(base_url: str) -> bool:
    """Whether requests to an endpoint need neither TLS nor a proxy, nor a password that stands in the URL."""
    parts = urlsplit(base_url)
    if parts.scheme != "http" or not parts.hostname or parts.username is not None:
        return False
    if is_local(parts.hostname):
        return True
    # A library for the web, which takes 5 ms.
    from urllib.request import getproxies

    return not getproxies().keys() & {"http", "all"}


class _Connection:
    """A connection, and whether an answer has come by it before."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.reader = reader
        self.writer = writer
        self.kept_at: float | None = None

    @property
    def is_usable(self) -> bool:
        """Whether the endpoint has not closed it, as far as is known, nor sent what nobody asked for."""
        is_young = self.kept_at is not None and time.monotonic() - self.kept_at < KEPT_SECONDS
        return is_young and not (self.writer.is_closing() or self.reader.at_eof() or self.reader._buffer)  # type: ignore[attr-defined]

    def abort(self) -> None:
        self.writer.transport.abort()


class Response:
    """An answer, its head read. `headers` by lower-case name, of several the last."""

    def __init__(
        self, pool: "Endpoint", connection: _Connection, status: int, headers: dict[str, str], *, may_keep: bool
    ) -> None:
        self.status_code = status
        self.headers = headers
        self._pool = pool
        self._connection: _Connection | None = connection
        self._may_keep = may_keep

    @property
    def is_success(self) -> bool:
        return 200 <= self.status_code < 300

    async def aiter_bytes(self) -> AsyncIterator[bytes]:
        """Yield the body as it comes."""
        connection = self._connection
        if connection is None:
            return
        encoding = self.headers.get("transfer-encoding", "").lower()
        length = self.headers.get("content-length")
        if self.status_code in (204, 304):
            length, encoding = "0", ""
        if self.headers.get("content-encoding", "identity").lower() != "identity":
            raise BrokenAnswer("compressed, which was not asked for")
        if encoding and encoding != "chunked":
            raise BrokenAnswer("of an unknown transfer coding")
        if encoding:
            async for piece in _chunks(connection.reader):
                yield piece
        elif length is not None:
            if not _LENGTH.fullmatch(length):
                raise BrokenAnswer("of an unreadable length")
            async for piece in _exactly(connection.reader, int(length)):
                yield piece
        else:
            self._may_keep = False
            while piece := await connection.reader.read(_PIECE):
                yield piece
        self._connection = None
        if self._may_keep:
            self._pool.keep(connection)
        else:
            connection.abort()

    async def aclose(self) -> None:
        """Close the connection, unless the whole answer was read."""
        if self._connection is not None:
            self._connection.abort()
            self._connection = None


async def _exactly(reader: asyncio.StreamReader, size: int) -> AsyncIterator[bytes]:
    while size:
        piece = await reader.read(min(size, _PIECE))
        if not piece:
            raise BrokenAnswer("cut off")
        size -= len(piece)
        yield piece


async def _chunks(reader: asyncio.StreamReader) -> AsyncIterator[bytes]:
    while True:
        match = _CHUNK_SIZE.fullmatch(await reader.readline())
        if match is None:
            raise BrokenAnswer("cut off, or a chunk without a size")
        size = int(match[1], 16)
        if not size:
            break
        async for piece in _exactly(reader, size):
            yield piece
        if (await reader.readline()).strip():
            raise BrokenAnswer("a chunk of another size")
    # What may follow the body says nothing here.
    while (await reader.readline()).strip():
        pass


class Endpoint:
    """The connections to one endpoint."""

    def __init__(self, base_url: str) -> None:
        self._base_url = base_url.rstrip("/")
        parts = urlsplit(base_url)
        self._host, self._port = parts.hostname or "", parts.port or 80
        self._host_header = parts.netloc
        self._kept: list[_Connection] = []

    def keep(self, connection: _Connection) -> None:
        """Keep a connection for the next request."""
        connection.kept_at = time.monotonic()
        self._kept.append(connection)
        if len(self._kept) > MAX_KEPT:
            self._kept.pop(0).abort()

    async def send(
        self,
        method: str,
        path: str,
        query: Mapping[str, str],
        headers: Mapping[str, str],
        content: bytes,
        *,
        at_most_once: bool,
    ) -> Response:
        """Send a request; return its answer. Whoever takes it closes it.

        A kept connection that turns out to be closed is replaced, unless the request may not be made twice (`at_most_once`):
        that the endpoint has not read it is all but sure.
        """
        head = self._head(method, path, query, headers, content)
        while True:
            connection = self._take()
            is_kept, began = connection is not None, time.monotonic()
            if connection is None:
                connection = _Connection(*await asyncio.open_connection(self._host, self._port, limit=_MAX_HEAD))
            try:
                # In one piece: each costs a call of the system and wakes the endpoint.
                connection.writer.write(head + content)
                return await self._answer(connection)
            except (OSError, asyncio.IncompleteReadError) as error:
                connection.abort()
                is_silent = not getattr(error, "partial", b"")
                is_stale = is_kept and is_silent and time.monotonic() - began < STALE_SECONDS
                if at_most_once or not is_stale:
                    raise
            except BaseException:
                connection.abort()
                raise

    def _head(
        self, method: str, path: str, query: Mapping[str, str], headers: Mapping[str, str], content: bytes
    ) -> bytes:
        parts = urlsplit(self._base_url + path)
        parameters = urlencode(dict(parse_qsl(parts.query, keep_blank_values=True)) | dict(query))
        target = quote(parts.path or "/", safe=_SAFE_IN_PATH) + (f"?{parameters}" if parameters else "")
        lines = [f"{method} {target} HTTP/1.1", f"Host: {self._host_header}", "Accept-Encoding: identity"]
        lines += [f"{name}: {value}" for name, value in headers.items()]
        if content or method == "POST":
            lines += [f"Content-Length: {len(content)}", "Content-Type: application/json"]
        return "\r\n".join([*lines, "", ""]).encode("ascii")

    def _take(self) -> _Connection | None:
        while self._kept:
            connection = self._kept.pop()
            if connection.is_usable:
                return connection
            connection.abort()
        return None

    async def _answer(self, connection: _Connection) -> Response:
        while True:
            try:
                head = await connection.reader.readuntil(b"\r\n\r\n")
            except asyncio.LimitOverrunError:
                raise BrokenAnswer("a head without end") from None
            status_line, *lines = head.split(b"\r\n")
            match = _STATUS.match(status_line)
            if match is None:
                raise BrokenAnswer("no HTTP/1.1")
            status = int(match[2])
            # 100 and the like: the answer is still to come.
            if status >= 200:
                break
        headers = {}
        for line in lines:
            name, _, value = line.decode("latin-1").partition(":")
            headers[name.strip().lower()] = value.strip()
        said = headers.get("connection", "").lower()
        may_keep = "close" not in said and (match[1] == b"1" or "keep-alive" in said)
        return Response(self, connection, status, headers, may_keep=may_keep)
