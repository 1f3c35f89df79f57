"""HTTP/1.1 of our own: every form of an answer, what is no answer, and which connections are kept."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any

import pytest
from pg_graphrag.llm.plain_http import BrokenAnswer, Endpoint, is_plain

OK = b"HTTP/1.1 200 OK\r\n"


class Server:
    """Answers each request with the next of `answers`; None: it closes the connection. `heads` of the requests."""

    def __init__(self, answers: Sequence[bytes | None]) -> None:
        self._answers = list(answers)
        self.heads: list[str] = []
        self.connections = 0

    async def __aenter__(self) -> Endpoint:
        self._server = await asyncio.start_server(self._serve, "127.0.0.1", 0)
        port = self._server.sockets[0].getsockname()[1]
        return Endpoint(f"http://127.0.0.1:{port}/v1")

    async def __aexit__(self, *_: object) -> None:
        self._server.close()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.connections += 1
        while self._answers:
            try:
                head = (await reader.readuntil(b"\r\n\r\n")).decode()
            except asyncio.IncompleteReadError:
                break
            self.heads.append(head)
            length = head.lower().partition("content-length: ")[2].partition("\r\n")[0]
            await reader.readexactly(int(length or 0))
            answer = self._answers.pop(0)
            if answer is None:
                break
            writer.write(answer)
            if b"Content-Length" not in answer and b"chunked" not in answer:
                break
        writer.close()


async def asked(endpoint: Endpoint, *, at_most_once: bool = False) -> tuple[int, bytes]:
    response = await endpoint.send(
        "POST", "/ä b?version=1&mode=a", {"mode": "é&b"}, {"X-One": "1"}, b"{}", at_most_once=at_most_once
    )
    try:
        return response.status_code, b"".join([piece async for piece in response.aiter_bytes()])
    finally:
        await response.aclose()


def answered(*answers: bytes | None) -> tuple[list[tuple[int, bytes]], Server]:
    server = Server(answers)

    async def talk() -> list[tuple[int, bytes]]:
        async with server as endpoint:
            return [await asyncio.wait_for(asked(endpoint), 5) for answer in answers if answer is not None]

    return asyncio.run(talk()), server


LONG = b"x" * 700_000
ANSWERS = {
    "a length": (OK + b"Content-Length: 3\r\n\r\none", b"one"),
    "a long one": (OK + b"content-length: 700000\r\n\r\n" + LONG, LONG),
    "no body": (b"HTTP/1.1 204 No Content\r\nContent-Length: 9\r\n\r\n", b""),
    "chunks": (OK + b"Transfer-Encoding: chunked\r\n\r\n2;x=y\r\non\r\n1\r\ne\r\n0\r\nTrailer: 1\r\n\r\n", b"one"),
    "until the end": (OK + b"\r\none", b"one"),
    "a first word before it": (b"HTTP/1.1 100 Continue\r\n\r\n" + OK + b"Content-Length: 3\r\n\r\none", b"one"),
    "no reason": (b"HTTP/1.1 200\r\nContent-Length: 3\r\n\r\none", b"one"),
    "not compressed": (OK + b"Content-Encoding: identity\r\nContent-Length: 3\r\n\r\none", b"one"),
}


@pytest.mark.parametrize("form", ANSWERS)
def test_an_answer_of_every_form_is_read(form: str) -> None:
    answer, body = ANSWERS[form]
    ((status, read),), _ = answered(answer)
    assert (status, read) == (204 if form == "no body" else 200, body)


BROKEN = {
    "another protocol": b"SSH-2.0-OpenSSH_9.6\r\n\r\n",
    "too short": OK + b"content-length: 9\r\n\r\none",
    "no length": OK + b"Content-Length: -3\r\n\r\none",
    "no number": OK + b"Transfer-Encoding: chunked\r\n\r\n0x3\r\none\r\n0\r\n\r\n",
    "a chunk too long": OK + b"Transfer-Encoding: chunked\r\n\r\n2\r\none\r\n0\r\n\r\n",
    "compressed": OK + b"Content-Encoding: gzip\r\nContent-Length: 3\r\n\r\none",
    "packed": OK + b"Transfer-Encoding: gzip, chunked\r\n\r\n0\r\n\r\n",
    "a head without end": OK + b"X: " + b"x" * 600_000 + b"\r\n\r\n",
}


@pytest.mark.parametrize("form", BROKEN)
def test_what_is_no_whole_answer_is_an_error(form: str) -> None:
    async def talk() -> None:
        async with Server([BROKEN[form]]) as endpoint:
            await asyncio.wait_for(asked(endpoint), 5)

    with pytest.raises(BrokenAnswer):
        asyncio.run(talk())


def test_a_request_says_what_it_is_for() -> None:
    _, server = answered(OK + b"Content-Length: 0\r\n\r\n")
    first, *lines = server.heads[0].strip().split("\r\n")
    assert first == "POST /v1/%C3%A4%20b?version=1&mode=%C3%A9%26b HTTP/1.1"
    assert {"X-One: 1", "Content-Length: 2", "Accept-Encoding: identity", "Content-Type: application/json"} <= set(
        lines
    )
    assert any(line.startswith("Host: 127.0.0.1:") for line in lines)


def test_connections_are_kept_as_long_as_the_endpoint_keeps_them() -> None:
    whole = OK + b"Content-Length: 3\r\n\r\none"
    answers, server = answered(whole, whole, whole)
    assert (len(answers), server.connections) == (3, 1)
    closing = OK + b"Connection: close\r\nContent-Length: 3\r\n\r\none"
    answers, server = answered(closing, closing)
    assert (len(answers), server.connections) == (2, 2)


def test_a_kept_connection_that_is_closed_at_the_request_is_replaced_once_it_may_be() -> None:
    whole = OK + b"Content-Length: 3\r\n\r\none"
    answers, server = answered(whole, None, whole)
    assert (len(answers), server.connections, len(server.heads)) == (2, 2, 3)

    async def once() -> None:
        async with Server([whole, None, whole]) as endpoint:
            await asked(endpoint)
            with pytest.raises((OSError, asyncio.IncompleteReadError)):
                await asked(endpoint, at_most_once=True)

    asyncio.run(once())


def test_an_answer_that_is_left_takes_its_connection_along() -> None:
    whole = OK + b"Content-Length: 3\r\n\r\none"
    server = Server([whole, whole])

    async def talk() -> tuple[int, bytes]:
        async with server as endpoint:
            response = await endpoint.send("GET", "/", {}, {}, b"", at_most_once=False)
            await response.aclose()
            return await asked(endpoint)

    assert asyncio.run(talk()) == (200, b"one")
    assert server.connections == 2


@pytest.mark.parametrize(
    ("url", "proxies", "expected"),
    [
        ("http://127.0.0.1:11434/v1", {"http": "http://proxy"}, True),
        ("http://[::1]:11434/v1", {"all": "http://proxy"}, True),
        ("http://models.example/v1", {}, True),
        ("http://models.example/v1", {"https": "http://proxy"}, True),
        ("http://models.example/v1", {"http": "http://proxy"}, False),
        ("http://models.example/v1", {"all": "socks5://proxy"}, False),
        ("https://localhost/v1", {}, False),
        ("http://me:secret@localhost/v1", {}, False),
        ("", {}, False),
    ],
)
def test_tls_proxies_and_passwords_are_for_httpx2(
    monkeypatch: pytest.MonkeyPatch, url: str, proxies: dict[str, Any], expected: bool
) -> None:
    monkeypatch.setattr("urllib.request.getproxies", lambda: proxies)
    assert is_plain(url) is expected
