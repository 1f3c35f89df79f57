"""One request to an endpoint, through the ``openai`` package: what is sent, what comes back, and whose fault it is.

Runs in the session's background thread (`pg_graphrag.llm.loop`): nothing here may touch the database.
"""

import asyncio
import base64
import contextlib
import json
import random
import re
import time
from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass
from datetime import UTC
from email.utils import parsedate_to_datetime
from typing import Any

import numpy as np

from pg_graphrag.llm.faults import ContextTooLong, ItemFault, ProviderFault
from pg_graphrag.llm.providers import Provider

# No useful answer is longer; a runaway one must not fill the server's memory.
MAX_REPLY_BYTES = 4_000_000
MAX_VECTORS_BYTES = 256_000_000
_TOO_LONG = re.compile(r"context.{0,20}(length|window|size)|too (long|large|many tokens)|maximum.{0,30}tokens", re.I)
# Fields that some models refuse and that can be done without: their words for it, and the field.
_OPTIONAL = (
    (re.compile(r"response_format|json_schema|json_object|structured output", re.I), "response_format"),
    (re.compile(r"temperature", re.I), "temperature"),
)
# What PostgreSQL's text cannot hold.
_UNSTORABLE = re.compile("[\0\ud800-\udfff]")


@dataclass(frozen=True, slots=True)
class Completion:
    """A model's answer. `finish_reason` is the endpoint's: ``stop``, ``length`` (cut off) …; tokens as it counted them."""

    text: str
    finish_reason: str
    tokens_in: int
    tokens_out: int


@dataclass(frozen=True, slots=True)
class Call:
    """What a chat request needs besides its provider. `schema`: {name, schema} or None for prose."""

    model: str
    messages: Sequence[dict[str, str]]
    schema: dict[str, Any] | None = None
    temperature: float = 0.0


_clients: dict[tuple[Any, ...], Any] = {}
_refused: dict[tuple[str, str], frozenset[str]] = {}


def _client(provider: Provider, api_key: str | None) -> Any:
    """Return the session's client for an endpoint: connections are kept. A new key or setting makes a new client."""
    from openai import AsyncOpenAI, Omit

    identity = (provider.base_url, provider.auth, api_key, str(provider.headers), str(provider.query))
    if identity not in _clients:
        # What the package would take from the server's environment for OpenAI is not for other endpoints.
        headers: dict[str, Any] = {"OpenAI-Organization": Omit(), "OpenAI-Project": Omit(), **provider.headers}
        if provider.auth == "api-key" and api_key:
            headers["api-key"] = api_key
        _clients[identity] = AsyncOpenAI(
            base_url=provider.base_url,
            api_key=api_key or "none",
            organization="",
            project="",
            max_retries=0,
            timeout=None,
            default_headers=headers,
            default_query=dict(provider.query) or None,
            http_client=_http_client(provider),
        )
    return _clients[identity]


def _http_client(provider: Provider) -> Any:
    """Return the HTTP client; the server's HTTPS_PROXY and NO_PROXY hold, but nobody's proxy leads to this machine."""
    from urllib.parse import urlsplit

    from openai import DefaultAsyncHttpxClient

    host = urlsplit(provider.base_url).hostname or ""
    local = host == "localhost" or host.startswith("127.") or host == "::1"
    return DefaultAsyncHttpxClient(timeout=None, trust_env=not local)


def clean(text: str) -> str:
    """Return `text` without what PostgreSQL cannot hold: NUL, and halves of surrogate pairs."""
    return _UNSTORABLE.sub("", text)


async def chat(provider: Provider, api_key: str | None, call: Call) -> Completion:
    """Return the completion of one chat request.

    Raises
    ------
    ProviderFault
        Time-out, connection, status 401, 403, 404, 408, 409, 429, 5xx, or a body that is not the API's JSON.
    ItemFault
        An empty or endless answer; `ContextTooLong` when the prompt does not fit.
    """
    while True:
        refused = _refused.get((provider.base_url, call.model), frozenset())
        try:
            sent = _chat_body(provider, call, refused)
            body = await _post(provider, api_key, "/chat/completions", sent, MAX_REPLY_BYTES)
            break
        except _FieldRefused as error:
            _refused[provider.base_url, call.model] = refused | {error.field}
    try:
        choice = body["choices"][0]
        text = _text(choice["message"].get("content"))
        reason = clean(str(choice.get("finish_reason") or "stop"))
    except (KeyError, IndexError, TypeError, AttributeError):
        raise ProviderFault(
            f'provider "{provider.name}" answered with something other than a chat completion'
        ) from None
    usage = body.get("usage") if isinstance(body.get("usage"), dict) else {}
    if not text.strip():
        raise ItemFault(f"the model gave an empty answer (finish_reason {reason})")
    return Completion(
        text,
        reason,
        _count(usage.get("prompt_tokens"), json.dumps(list(call.messages), ensure_ascii=False)),
        _count(usage.get("completion_tokens"), text),
    )


def _count(stated: Any, text: str) -> int:
    """Tokens as the endpoint counted them; where it does not say, a quarter of the bytes."""
    if isinstance(stated, int) and not isinstance(stated, bool) and stated >= 0:
        return min(stated, 2**31 - 1)
    return len(text.encode("utf-8", "replace")) // 4 + 1


def _text(content: Any) -> str:
    """The text of a message, which some endpoints give in parts, beside parts of other types."""
    if isinstance(content, list):
        content = "".join(part["text"] for part in content if isinstance(part.get("text"), str))
    return clean(content) if isinstance(content, str) else ""


def _chat_body(provider: Provider, call: Call, refused: frozenset[str]) -> dict[str, Any]:
    body: dict[str, Any] = {"model": call.model, "messages": list(call.messages), "temperature": call.temperature}
    if call.schema is not None:
        if provider.json == "schema":
            body["response_format"] = {"type": "json_schema", "json_schema": {**call.schema, "strict": True}}
        elif provider.json == "object":
            body["response_format"] = {"type": "json_object"}
    body |= provider.chat_request
    return {name: value for name, value in body.items() if value is not None and name not in refused}


async def chat_stream(provider: Provider, api_key: str | None, call: Call) -> AsyncIterator[str | Completion]:
    """Yield the pieces of an answer as they come, then the `Completion` of the whole.

    Raises
    ------
    ProviderFault, ItemFault
        As `chat`. A stream that breaks off raises too: what was yielded is not the whole.
    """
    pieces: list[str] = []
    size, reason = 0, ""
    usage: Any = {}
    async for data in _events(provider, api_key, call):
        if data == b"[DONE]":
            reason = reason or "stop"
            continue
        try:
            event = json.loads(data)
            usage = event.get("usage") or usage
            choices = event.get("choices") or [{}]
            piece = clean((choices[0].get("delta") or {}).get("content") or "")
            reason = choices[0].get("finish_reason") or reason
        except (ValueError, AttributeError, TypeError, KeyError, IndexError, RecursionError):
            raise ProviderFault(f'provider "{provider.name}" sent a stream that is not the API\'s') from None
        if piece:
            pieces.append(piece)
            size += len(piece)
            if size > MAX_REPLY_BYTES:
                raise ItemFault("the model's answer has no end", raw=pieces[0][:2000])
            yield piece
    text = "".join(pieces)
    if not reason:
        raise ProviderFault(f'provider "{provider.name}" broke off its answer')
    if not text.strip():
        raise ItemFault(f"the model gave an empty answer (finish_reason {reason})")
    prompt = json.dumps(list(call.messages), ensure_ascii=False)
    stated = usage if isinstance(usage, dict) else {}
    tokens_in, tokens_out = _count(stated.get("prompt_tokens"), prompt), _count(stated.get("completion_tokens"), text)
    yield Completion(text, clean(str(reason)), tokens_in, tokens_out)


async def _events(provider: Provider, api_key: str | None, call: Call) -> AsyncIterator[bytes]:
    """Yield the data of a stream's server-sent events; split at line feeds only, since data may hold other breaks."""
    streaming = {"stream": True, "stream_options": {"include_usage": True}}
    async with contextlib.AsyncExitStack() as stack:
        while True:
            refused = _refused.get((provider.base_url, call.model), frozenset())
            body = _chat_body(provider, call, refused) | streaming
            try:
                response = await stack.enter_async_context(_sent(provider, api_key, "/chat/completions", body))
                break
            except _FieldRefused as error:
                _refused[provider.base_url, call.model] = refused | {error.field}
        parts = response.iter_bytes().__aiter__()
        buffer = b""
        while True:
            try:
                buffer += await asyncio.wait_for(parts.__anext__(), provider.timeout)
            except StopAsyncIteration:
                return
            except TimeoutError:
                raise ProviderFault(f'provider "{provider.name}" sent nothing for {provider.timeout:g} s') from None
            except Exception as error:
                raise _connection_fault(provider, error) from None
            *lines, buffer = buffer.split(b"\n")
            if len(buffer) > MAX_REPLY_BYTES:
                raise ProviderFault(f'provider "{provider.name}" sent a stream that is not the API\'s')
            for line in lines:
                if line.startswith(b"data:"):
                    yield line[5:].strip()


async def embed(
    provider: Provider, api_key: str | None, model: str, texts: Sequence[str], dimensions: int | None
) -> tuple[Any, int]:
    """Return ((len(texts), dimensions) float32, L2-normalised; tokens in).

    Raises
    ------
    ProviderFault
        As `chat`; also another dimension than `dimensions` (None: any): no item can help it.
    ItemFault
        Fewer vectors than texts, NaN, or a vector of zeros: models do that to some texts and not to others.
    """
    body = {"model": model, "input": list(texts), "encoding_format": "float"} | provider.embedding_request
    body = {name: value for name, value in body.items() if value is not None}
    reply = await _post(provider, api_key, "/embeddings", body, MAX_VECTORS_BYTES)
    try:
        rows: list[Any] = [None] * len(texts)
        for place, item in enumerate(reply["data"]):
            vector = item["embedding"]
            packed = np.frombuffer(base64.b64decode(vector), "<f4") if isinstance(vector, str) else vector
            rows[int(item.get("index", place))] = np.asarray(packed, np.float32)
    except (KeyError, IndexError, TypeError, ValueError, AttributeError):
        raise ProviderFault(f'provider "{provider.name}" answered with something other than embeddings') from None
    got = sum(row is not None for row in rows)
    if got != len(texts):
        raise ItemFault(f'model "{model}" of provider "{provider.name}" gave {got} vectors for {len(texts)} texts')
    wanted = dimensions or rows[0].size
    for row in rows:
        if row.ndim != 1 or len(row) != wanted:
            raise ProviderFault(
                f'model "{model}" of provider "{provider.name}" gave a vector of {row.size} dimensions, not {wanted}',
                permanent=True,
                hint="Set embedding.dimensions of the corpus to what the model gives, with graphrag.reembed(…).",
            )
    vectors = np.stack(rows)
    lengths = np.linalg.norm(vectors.astype(np.float64), axis=1)
    if not np.isfinite(lengths).all() or not lengths.all():
        raise ItemFault(f'model "{model}" of provider "{provider.name}" gave a vector with NaN, infinity or only zeros')
    usage = reply.get("usage")
    stated = usage.get("prompt_tokens") if isinstance(usage, dict) else None
    return (vectors / lengths[:, None]).astype(np.float32), _count(stated, "".join(texts))


async def rerank(
    provider: Provider, api_key: str | None, model: str, query: str, texts: Sequence[str]
) -> tuple[list[float], int]:
    """Return (relevance of each text, in their order; tokens in, estimated where the endpoint does not say).

    Request shapes: ``cohere`` (Cohere, Jina, vLLM: model, query, documents) and ``tei`` (query, texts).
    """
    if provider.shape == "tei":
        body: dict[str, Any] = {"query": query, "texts": list(texts), "raw_scores": False}
    else:
        body = {"model": model, "query": query, "documents": list(texts), "top_n": len(texts)}
    reply = await _post(provider, api_key, "/rerank", body, MAX_REPLY_BYTES)
    results = reply if isinstance(reply, list) else reply.get("results") if isinstance(reply, dict) else None
    scores: list[float | None] = [None] * len(texts)
    try:
        for item in results or ():
            score = float(item["relevance_score"] if "relevance_score" in item else item["score"])
            if not np.isfinite(score) or int(item["index"]) < 0:
                raise ValueError
            scores[int(item["index"])] = score
    except (KeyError, IndexError, TypeError, ValueError):
        raise ProviderFault(f'provider "{provider.name}" answered with something other than a ranking') from None
    if any(score is None for score in scores):
        raise ProviderFault(f'provider "{provider.name}" did not score all {len(texts)} texts')
    return [float(score or 0.0) for score in scores], _count(None, query * len(texts) + "".join(texts))


class _FieldRefused(Exception):
    """The model does not know a field that can be left out."""

    def __init__(self, field: str) -> None:
        super().__init__(field)
        self.field = field


def _options(provider: Provider, api_key: str | None) -> Any:
    """What the package needs to know of one request."""
    from openai import Omit

    # As the package's own with_streaming_response asks for a response whose body it has not read.
    headers: dict[str, Any] = {"X-Stainless-Raw-Response": "stream"}
    if api_key is None or provider.auth == "api-key":
        # The package insists on a key; the header is left out.
        headers["Authorization"] = Omit()
    # A redirect would take key and texts where nobody told us to.
    return {"headers": headers, "follow_redirects": False}


@contextlib.asynccontextmanager
async def _sent(provider: Provider, api_key: str | None, path: str, body: dict[str, Any]) -> AsyncIterator[Any]:
    """Send a request; yield its response, headers read, body unread. Errors become faults."""
    import openai

    client, options = _client(provider, api_key), _options(provider, api_key)
    try:
        sending = client.post(path, body=body, cast_to=object, options=options)
        response = await asyncio.wait_for(sending, provider.timeout)
    except TimeoutError:
        raise ProviderFault(f'provider "{provider.name}" did not answer within {provider.timeout:g} s') from None
    except openai.APIStatusError as error:
        raise _status_fault(provider, api_key, body, error) from None
    except Exception as error:
        raise _connection_fault(provider, error) from None
    try:
        yield response
    finally:
        with contextlib.suppress(Exception):
            await response.close()


async def _post(provider: Provider, api_key: str | None, path: str, body: dict[str, Any], limit: int) -> Any:
    """Return the JSON of a response within the provider's time-out and `limit` bytes."""

    async def read() -> bytes:
        data = bytearray()
        async with _sent(provider, api_key, path, body) as response:
            async for piece in response.iter_bytes():
                data += piece
                if len(data) > limit:
                    raw = clean(data[:2000].decode("utf-8", "replace"))
                    raise ItemFault(f"the answer is longer than {limit:,} bytes", raw=raw)
        return bytes(data)

    _client(provider, api_key)  # the first time it imports the package: that is not the endpoint's time
    try:
        data = await asyncio.wait_for(read(), provider.timeout)
    except TimeoutError:
        raise ProviderFault(f'provider "{provider.name}" did not finish within {provider.timeout:g} s') from None
    except (ItemFault, ProviderFault, _FieldRefused):
        raise
    except Exception as error:
        raise _connection_fault(provider, error) from None
    try:
        reply = json.loads(data)
    except (ValueError, RecursionError):
        start = _without_key(data[:80].decode("utf-8", "replace"), api_key)
        raise ProviderFault(f'provider "{provider.name}" did not answer with JSON but with {start!r}') from None
    if not isinstance(reply, (dict, list)):
        raise ProviderFault(f'provider "{provider.name}" answered with JSON that is not an object')
    return reply


def _connection_fault(provider: Provider, error: BaseException) -> ProviderFault:
    # Only the classes' names: messages of libraries may repeat what was sent.
    cause = error.__cause__ or error.__context__
    name = type(cause).__name__ if cause is not None else type(error).__name__
    return ProviderFault(f'the connection to provider "{provider.name}" failed ({name})')


def _status_fault(provider: Provider, api_key: str | None, body: dict[str, Any], error: Any) -> Exception:
    """Whose fault a status is."""
    status, said = int(error.status_code), _said(error, api_key)
    if status in (400, 413, 422):
        if _TOO_LONG.search(said) or status == 413:
            return ContextTooLong(f'the prompt is too long for model "{body.get("model")}"', raw=said)
        for words, field in _OPTIONAL:
            if field in body and words.search(said):
                return _FieldRefused(field)
        return ItemFault(f'provider "{provider.name}" refused the request ({status}): {said}')
    where = f'provider "{provider.name}" answered {status}'
    if status in (401, 403):
        return ProviderFault(f"{where}: it does not accept the key", permanent=True, hint=_KEY_HINT)
    if status == 404:
        return ProviderFault(
            f'{where}: no such model ("{body.get("model")}") or path: {said}', permanent=True, hint=_ADDRESS_HINT
        )
    if status < 400:
        return ProviderFault(f"{where}: a redirect, which is not followed", permanent=True, hint=_ADDRESS_HINT)
    return ProviderFault(f"{where}: {said}", retry_after=_retry_after(error.response.headers.get("retry-after", "")))


_KEY_HINT = "Check the variable or file that api_key_env or api_key_file names, then graphrag.retry_failed()."


_ADDRESS_HINT = "Check base_url (graphrag.set_provider) and the model (graphrag.alter_corpus)."


def _said(error: Any, api_key: str | None) -> str:
    """The endpoint's own words, if it is short about it; a key it may repeat is cut out."""
    body = getattr(error, "body", None)
    message = body.get("message") if isinstance(body, dict) else None
    return _without_key(" ".join(str(message or "no reason given").split()), api_key)[:300]


def _without_key(text: str, api_key: str | None) -> str:
    """Cut out the key, and what looks like one (endpoints show parts of it)."""
    if api_key:
        text = text.replace(api_key, "…")
    return clean(re.sub(r"\b(sk|key|pk)-[\w*.-]{6,}", "…", text))


def _retry_after(value: str) -> float | None:
    """Seconds of a Retry-After header (a number or a date), at most an hour; None without one."""
    value = value.strip()
    try:
        seconds = float(value)
    except ValueError:
        try:
            date = parsedate_to_datetime(value)
            # A zone of -0000 says only that it is UTC.
            seconds = (date if date.tzinfo else date.replace(tzinfo=UTC)).timestamp() - time.time()
        except (ValueError, TypeError, IndexError):
            return None
    return min(max(seconds, 0.0), 3600.0) if seconds == seconds else None


def back_off(tries: int, retry_after: float | None = None) -> float:
    """Seconds to wait after `tries` failures: exponential with jitter, never less than the endpoint asked for."""
    return max(random.uniform(0.5, 1.0) * min(2.0**tries, 300.0), retry_after or 0.0)
