"""What endpoints say when they refuse a request, in their own words: each is the fault that it means.

The words are of documentation and public reports.
"""

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest
from pg_graphrag.ground.errors import GraphRAGError
from pg_graphrag.llm.endpoints import transport, wire
from pg_graphrag.llm.endpoints.faults import ContextTooLong, ItemFault, ProviderFault
from pg_graphrag.llm.endpoints.providers import Provider
from pg_graphrag.llm.endpoints.transport import FieldRefused, refusal, words_of

from tests.endpoint import Endpoint
from tests.endpoint.server import Answer

PROVIDER = Provider(1, "p", "openai", "http://localhost")
CHAT: dict[str, Any] = {
    "model": "m",
    "messages": [],
    "temperature": 0,
    "max_tokens": 5,
    "stream": True,
    "stream_options": {},
    "frequency_penalty": 0.5,
    "seed": 1,
    "reasoning_effort": "low",
}
BOUNDED = CHAT | {"response_format": {"json_schema": {"maxItems": 3}}}
EMBED = {"model": "m", "input": ["a"], "encoding_format": "base64", "dimensions": 3}

WORDS = json.loads(Path(__file__).with_name("refusals.json").read_text(encoding="utf-8"))
FIELDS = [(field, words) for field, refusals in WORDS["fields"].items() for words in refusals]


@pytest.mark.parametrize("words", WORDS["too long"])
def test_a_prompt_or_text_that_is_too_long_is_known_as_such(words: str) -> None:
    assert isinstance(refusal(PROVIDER, 400, words, CHAT), ContextTooLong)
    assert isinstance(refusal(PROVIDER, 400, words, BOUNDED), ContextTooLong)
    assert isinstance(refusal(PROVIDER, 413, words, EMBED), ContextTooLong)


def refused(status: int | None, words: str, body: dict[str, Any]) -> str | None:
    fault = refusal(PROVIDER, status, words, body)
    return fault.field if isinstance(fault, FieldRefused) else None


@pytest.mark.parametrize("words", WORDS["too much output"])
def test_a_limit_of_output_that_is_refused_is_no_long_prompt(words: str) -> None:
    assert refused(400, words, CHAT) == "max_tokens"


@pytest.mark.parametrize("words", WORDS["schema"])
def test_a_schema_that_is_refused_is_left_out_in_steps(words: str) -> None:
    for status in (400, 500):
        assert refused(status, words, BOUNDED) in ("schema_bounds", "response_format")
    assert refused(400, words, CHAT | {"response_format": {"type": "json_schema"}}) == "response_format"


@pytest.mark.parametrize(("field", "words"), FIELDS)
def test_a_field_that_a_model_does_not_take_is_left_out(field: str, words: str) -> None:
    assert refused(400, words, CHAT) == field


@pytest.mark.parametrize("words", ["Internal server error", "out of memory", "CUDA error", "Rate limit exceeded"])
def test_what_says_nothing_of_a_request_does_not_blame_it(words: str) -> None:
    assert [refusal(PROVIDER, status, words, BOUNDED) for status in (500, None, 429, 503)] == [None] * 4


def test_more_than_the_tokens_of_a_minute_is_too_long() -> None:
    words = "Request too large for m on tokens per min (TPM): Limit 30000, Requested 50000. The tokens must be reduced."
    assert isinstance(refusal(PROVIDER, 429, words, CHAT), ContextTooLong)


@pytest.mark.parametrize(
    "words",
    [
        "failed to encode response: json: unsupported value: NaN",
        "Out of range float values are not JSON compliant: nan",
    ],
)
def test_a_text_without_a_vector_is_at_fault_not_its_endpoint(words: str) -> None:
    assert type(refusal(PROVIDER, 500, words, EMBED)) is ItemFault
    assert refusal(PROVIDER, 500, words, CHAT) is None


def test_a_text_that_a_policy_forbids_is_at_fault_and_the_key_is_not() -> None:
    words = "Your chosen model requires moderation and your input was flagged"
    assert type(refusal(PROVIDER, 403, words, CHAT)) is type(refusal(PROVIDER, 403, words, EMBED)) is ItemFault
    for account in (
        "The key may not use this model",
        "Your account was flagged",
        "No access to the moderation endpoint",
    ):
        assert refusal(PROVIDER, 403, account, CHAT) is None


def test_the_tokens_of_a_minute_are_no_long_prompt_in_any_language() -> None:
    for words in ("1分あたりのトークンの上限を超えました", "분당 토큰 한도를 초과했습니다"):
        assert refusal(PROVIDER, 500, words, CHAT) is refusal(PROVIDER, None, words, CHAT) is None


def test_words_are_those_of_the_endpoint_that_knows_and_html_has_none() -> None:
    raw = json.dumps({"error": {"message": "prompt is too long: 9 tokens > 8 maximum"}})
    wrapped = {"error": {"message": "Provider returned error", "code": 400, "metadata": {"raw": raw}}}
    assert words_of(wrapped, None) == "Provider returned error: prompt is too long: 9 tokens > 8 maximum"
    assert words_of(WORDS["too long"][0], None) == WORDS["too long"][0]
    assert words_of({"error": {"code": "1261", "message": "超"}}, None, 400) == "超 (1261)"
    assert words_of("<!DOCTYPE html><p>502", None) == words_of("<html>", None) == "no reason given"


ERRORS: dict[str, tuple[bytes, type[GraphRAGError], int | None]] = {
    "LM Studio": (
        b'event: error\ndata: {"error": "Trying to keep 9 tokens when context the overflows"}',
        ContextTooLong,
        None,
    ),
    "an event that says it": (b'event: error\ndata: {"message": "prompt is too long"}', ContextTooLong, None),
    "an event that says it in plain words": (b"event: error\ndata: prompt is too long", ContextTooLong, None),
    "SGLang": (
        b'data: {"object": "error", "message": "The input (9 tokens) is longer than the model\'s context length (8 tokens).",'
        b' "type": "BadRequestError", "code": 400}',
        ContextTooLong,
        None,
    ),
    "DashScope": (
        b'data: {"code": "InvalidParameter", "message": "Range of input length: [1, 8]"}',
        ContextTooLong,
        None,
    ),
    "OpenRouter": (
        b'data: {"error": {"code": 429, "message": "Rate limit exceeded"}, "choices": []}',
        ProviderFault,
        429,
    ),
    "vLLM": (b'data: {"error": {"message": "CUDA error", "code": 500}}', ProviderFault, 500),
}


@pytest.mark.parametrize("name", ERRORS)
def test_an_error_within_a_stream_is_what_its_words_mean(name: str) -> None:
    event, kind, status = ERRORS[name]
    with Endpoint() as endpoint:
        endpoint.respond(lambda request: Answer(200, event + b"\n\n", "text/event-stream"))
        with pytest.raises(kind) as raised:
            asyncio.run(asked(endpoint))
    assert getattr(raised.value, "status", None) == status


def test_a_field_that_is_refused_within_a_stream_is_left_out() -> None:
    events = [b'event: error\ndata: {"error": {"code": 400, "message": "temperature is not supported"}}\n\n']
    events += [b'data: {"choices": [{"message": {"content": "one"}}]}\n\n']
    with Endpoint() as endpoint:
        endpoint.respond(lambda request: Answer(200, events.pop(0), "text/event-stream"))
        assert asyncio.run(asked(endpoint)).text == "one"
        assert ["temperature" in request.body for request in endpoint.requests] == [True, False]


CALLED = [
    {"tool_calls": [{"index": 0, "function": {"name": "extract", "arguments": '{"entities":'}}]},
    {"tool_calls": [{"index": 0, "function": {"arguments": " []}"}}]},
]


def test_where_json_is_asked_for_it_may_come_as_the_arguments_of_a_tool() -> None:
    stream = b"".join(b"data: %s\n\n" % json.dumps({"choices": [{"delta": delta}]}).encode() for delta in CALLED)
    whole = {"choices": [{"message": {"content": None, "tool_calls": [{"function": {"arguments": {"entities": []}}}]}}]}
    for body, kind in (
        (stream + b"data: [DONE]\n\n", "text/event-stream"),
        (json.dumps(whole).encode(), "application/json"),
    ):
        with Endpoint() as endpoint:
            endpoint.respond(lambda request, body=body, kind=kind: Answer(200, body, kind))
            assert json.loads(asyncio.run(asked(endpoint, schema={"name": "x", "schema": {}})).text) == {"entities": []}
            with pytest.raises(ItemFault, match="empty answer"):
                asyncio.run(asked(endpoint))


async def asked(endpoint: Endpoint, schema: dict[str, Any] | None = None) -> wire.Completion:
    transport._client.cache_clear()
    call = wire.Call("m", [{"role": "user", "content": "q"}], schema)
    return await wire.chat(Provider(1, "p", "openai", endpoint.url, timeout=5.0), None, call)
