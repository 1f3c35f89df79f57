"""The way to an endpoint, without a server of ours: back-off, Retry-After, and what becomes of a key."""

from __future__ import annotations

import asyncio
import time
from email.utils import formatdate
from typing import Any

import pytest
from pg_graphrag.errors import GraphRAGError
from pg_graphrag.llm import batch_api, wire
from pg_graphrag.llm.faults import ItemFault, ProviderFault
from pg_graphrag.llm.providers import Provider
from pg_graphrag.llm.transport import back_off, clean, count_tokens, retry_after_seconds

from tests.endpoint import Endpoint

KEY = "secret-of-the-test"
CALL = wire.Call("m", [{"role": "user", "content": "question"}])


def of(endpoint: Endpoint, **options: Any) -> Provider:
    return Provider(1, "p", "openai", endpoint.url, timeout=options.pop("timeout", 5.0), **options)


async def streamed(provider: Provider) -> list[Any]:
    return [item async for item in wire.chat_stream(provider, KEY, CALL)]


@pytest.mark.parametrize(
    ("options", "path"),
    [
        ({}, "/v1/chat/completions"),
        ({"auth": "api-key"}, "/chat/completions"),
        ({"auth": "api-key", "batch_endpoint": "/v1/chat/completions"}, "/v1/chat/completions"),
    ],
)
def test_a_batch_asks_for_what_its_endpoint_calls_chat(options: dict[str, Any], path: str) -> None:
    async def made(provider: Provider) -> dict[str, Any]:
        file = await batch_api.upload(provider, KEY, "mark", b"{}\n")
        return await batch_api.create(provider, KEY, "mark", file)

    with Endpoint() as endpoint:
        assert asyncio.run(made(of(endpoint, **options)))["endpoint"] == path


@pytest.mark.parametrize(
    ("header", "seconds"),
    [
        ("", None),
        ("soon", None),
        ("nan", None),
        ("-5", 0.0),
        ("2.5", 2.5),
        ("1e9", 3600.0),
        ("Wed, 21 Oct 2015 07:28:00 GMT", 0.0),
        ("Wed, 21 Oct 2015 07:28:00 -0000", 0.0),
        ("Wed, 99 Oct 2015", None),
    ],
)
def test_retry_after_is_seconds_or_a_date(header: str, seconds: float | None) -> None:
    assert retry_after_seconds(header) == seconds


def test_retry_after_as_a_date_is_the_time_until_then() -> None:
    found = retry_after_seconds(formatdate(time.time() + 100, usegmt=True))
    assert found is not None
    assert 90 < found <= 100


def test_back_off_doubles_with_jitter_and_never_undercuts_the_endpoint() -> None:
    for tries in range(12):
        waits = [back_off(tries) for _ in range(50)]
        assert all(min(2**tries, 300) / 2 <= wait <= min(2**tries, 300) for wait in waits)
        assert len(set(waits)) > 1
    assert back_off(0, 30.0) == 30.0


def test_text_is_what_the_database_can_hold() -> None:
    assert clean("a\0b\ud800c😊") == "abc😊"


@pytest.mark.parametrize("stated", [None, -1, True, "7", 1.5])
def test_tokens_that_are_not_counted_are_estimated(stated: Any) -> None:
    assert count_tokens(stated, "x" * 40) == 11


def test_tokens_beyond_reason_still_fit_the_database() -> None:
    assert count_tokens(10**12, "") == 2**31 - 1


@pytest.mark.parametrize("kind", ["unauthorized", "bad_request", "reset", "html_502", "html", "truncated_json"])
def test_no_fault_repeats_the_key(kind: str) -> None:
    with Endpoint() as endpoint:
        endpoint.misbehave(kind, times=None, message=f"key {KEY} or sk-proj-abcdefgh is wrong")
        for work in (wire.chat(of(endpoint), KEY, CALL), streamed(of(endpoint))):
            with pytest.raises(GraphRAGError) as caught:
                asyncio.run(fresh(work))
            error = caught.value
            assert KEY not in f"{error.message}{error.detail}{error.hint}{getattr(error, 'raw', '')}"
            assert "abcdefgh" not in error.message
            assert error.__suppress_context__


async def fresh(work: Any) -> Any:
    """Run with a client of its own: kept connections belong to the loop they were made in."""
    from pg_graphrag.llm import transport

    transport._clients.clear()
    return await work


def test_a_message_in_parts_is_put_together() -> None:
    with Endpoint() as endpoint:
        parts = [{"type": "thinking", "thinking": "hm"}, {"type": "text", "text": "a"}, {"type": "text", "text": "b"}]
        endpoint.reply(parts)
        assert asyncio.run(fresh(wire.chat(of(endpoint), None, CALL))).text == "ab"


def test_a_stream_is_split_at_line_feeds_alone() -> None:
    text = "line\u2028separator next\x85line 日本"
    with Endpoint() as endpoint:
        endpoint.reply(text)
        *pieces, whole = asyncio.run(fresh(streamed(of(endpoint))))
    assert "".join(pieces) == whole.text == text
    assert whole.finish_reason == "stop"


def test_a_stream_that_stops_without_an_end_is_a_fault_after_its_pieces() -> None:
    async def taken() -> tuple[list[str], BaseException | None]:
        pieces: list[str] = []
        try:
            async for item in wire.chat_stream(of(endpoint), None, CALL):
                pieces.append(str(item))
        except GraphRAGError as error:
            return pieces, error
        return pieces, None

    with Endpoint() as endpoint:
        endpoint.reply("one two three four")
        endpoint.misbehave("broken_stream")
        pieces, error = asyncio.run(fresh(taken()))
    assert pieces[0] == "one"
    assert isinstance(error, ProviderFault)


def test_embeddings_come_normalised_whatever_their_form() -> None:
    with Endpoint() as endpoint:
        packed = of(endpoint, embedding_request={"dimensions": 8})
        plain = of(endpoint, embedding_request={"dimensions": 8, "encoding_format": "float"})
        one, _ = asyncio.run(fresh(wire.embed(plain, None, "m", ["a b", "c"], 8)))
        two, _ = asyncio.run(fresh(wire.embed(packed, None, "m", ["a b", "c"], 8)))
        asked = [request.body["encoding_format"] for request in endpoint.requests]
    assert asked == ["float", "base64"]
    assert one.shape == (2, 8)
    assert (one == two).all()
    assert abs((one**2).sum(axis=1) - 1).max() < 1e-6


def test_a_number_instead_of_a_vector_is_a_fault() -> None:
    with Endpoint() as endpoint:
        endpoint._embeddings = lambda body: endpoint_answer({"data": [{"index": 0, "embedding": 5}]})
        with pytest.raises((ItemFault, ProviderFault)):
            asyncio.run(fresh(wire.embed(of(endpoint), None, "m", ["a"], None)))


def endpoint_answer(body: dict[str, Any]) -> Any:
    import json

    from tests.endpoint.server import Answer

    return Answer(content=json.dumps(body).encode())
