"""One request to an endpoint, through the ``openai`` package: what is sent, what comes back, and whose fault it is.

Runs in the session's background thread (`pg_graphrag.llm.loop`): nothing here may touch the database.
"""

import asyncio
import base64
import contextlib
import json
import random
import re
from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from pg_graphrag.llm.faults import ContextTooLong, ItemFault, ProviderFault
from pg_graphrag.llm.providers import Provider

# No useful answer is longer; a runaway one must not fill the server's memory.
MAX_REPLY_BYTES = 4_000_000
MAX_VECTORS_BYTES = 256_000_000
_TOO_LONG = re.compile(r"context.{0,20}(length|window|size)|too (long|large|many tokens)|maximum.{0,30}tokens", re.I)
_FORMAT = re.compile(r"response_format|json_schema|json_object|structured output", re.I)


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
_without_format: set[tuple[str, str]] = set()


def _client(provider: Provider, api_key: str | None) -> Any:
    """Return the session's client for an endpoint: connections are kept. A new key or setting makes a new client."""
    from openai import AsyncOpenAI

    identity = (provider.base_url, provider.auth, api_key, str(provider.headers), str(provider.query), provider.concurrency)
    if identity not in _clients:
        headers = dict(provider.headers)
        if provider.auth == "api-key" and api_key:
            headers["api-key"] = api_key
        if api_key is None or provider.auth == "api-key":
            # The package insists on a key; without one the header is left out.
            from openai import Omit

            headers["Authorization"] = Omit()  # type: ignore[assignment]
        _clients[identity] = AsyncOpenAI(
            base_url=provider.base_url,
            api_key=api_key or "none",
            organization="",
            project="",
            max_retries=0,
            timeout=None,
            default_headers=headers,
            default_query=dict(provider.query) or None,
        )
    return _clients[identity]


async def chat(provider: Provider, api_key: str | None, call: Call) -> Completion:
    """Return the completion of one chat request.

    Raises
    ------
    ProviderFault
        Time-out, connection, status 401, 403, 404, 408, 409, 429, 5xx, or a body that is not the API's JSON.
    ItemFault
        An empty or endless answer; `ContextTooLong` when the prompt does not fit.
    """
    with_format = (provider.base_url, call.model) not in _without_format
    try:
        body = await _post(provider, api_key, "/chat/completions", _chat_body(provider, call, with_format), MAX_REPLY_BYTES)
    except _FormatRefused:
        _without_format.add((provider.base_url, call.model))
        body = await _post(provider, api_key, "/chat/completions", _chat_body(provider, call, False), MAX_REPLY_BYTES)
    try:
        choice = body["choices"][0]
        text = choice["message"]["content"]
        reason = str(choice.get("finish_reason") or "stop")
    except (KeyError, IndexError, TypeError):
        raise ProviderFault(f'provider "{provider.name}" answered with something other than a chat completion') from None
    usage = body.get("usage") if isinstance(body.get("usage"), dict) else {}
    if not isinstance(text, str) or not text.strip():
        raise ItemFault(f"the model gave an empty answer (finish_reason {reason})")
    return Completion(
        text.replace("\0", ""),
        reason,
        _count(usage.get("prompt_tokens"), json.dumps(list(call.messages), ensure_ascii=False)),
        _count(usage.get("completion_tokens"), text),
    )


def _count(stated: Any, text: str) -> int:
    """Tokens as the endpoint counted them; where it does not say, a quarter of the bytes."""
    return stated if isinstance(stated, int) and stated >= 0 else len(text.encode()) // 4 + 1


def _chat_body(provider: Provider, call: Call, with_format: bool) -> dict[str, Any]:
    body: dict[str, Any] = {"model": call.model, "messages": list(call.messages), "temperature": call.temperature}
    if call.schema is not None and with_format:
        if provider.json == "schema":
            body["response_format"] = {"type": "json_schema", "json_schema": {**call.schema, "strict": True}}
        elif provider.json == "object":
            body["response_format"] = {"type": "json_object"}
    body |= provider.chat_request
    return {name: value for name, value in body.items() if value is not None}


async def chat_stream(provider: Provider, api_key: str | None, call: Call) -> AsyncIterator[str | Completion]:
    """Yield the pieces of an answer as they come, then the `Completion` of the whole.

    Raises
    ------
    ProviderFault, ItemFault
        As `chat`. A stream that breaks off raises too: what was yielded is not the whole.
    """
    body = _chat_body(provider, call, False) | {"stream": True, "stream_options": {"include_usage": True}}
    pieces: list[str] = []
    size, reason, usage = 0, "", {}
    async with _sent(provider, api_key, "/chat/completions", body) as response:
        lines = response.iter_lines().__aiter__()
        while True:
            try:
                line = await asyncio.wait_for(lines.__anext__(), provider.timeout)
            except StopAsyncIteration:
                break
            except TimeoutError:
                raise ProviderFault(f'provider "{provider.name}" sent nothing for {provider.timeout:g} s') from None
            except Exception as error:
                raise _connection_fault(provider, error) from None
            if not line.startswith("data:") or line[5:].strip() == "[DONE]":
                continue
            try:
                event = json.loads(line[5:])
                usage = event.get("usage") or usage
                choices = event.get("choices") or [{}]
                piece = (choices[0].get("delta") or {}).get("content") or ""
                reason = choices[0].get("finish_reason") or reason
            except (ValueError, AttributeError, TypeError, KeyError):
                raise ProviderFault(f'provider "{provider.name}" sent a stream that is not the API\'s') from None
            if piece:
                pieces.append(piece.replace("\0", ""))
                size += len(piece)
                if size > MAX_REPLY_BYTES:
                    raise ItemFault("the model's answer has no end")
                yield pieces[-1]
    text = "".join(pieces)
    if not reason:
        raise ProviderFault(f'provider "{provider.name}" broke off its answer')
    if not text.strip():
        raise ItemFault(f"the model gave an empty answer (finish_reason {reason})")
    prompt = json.dumps(list(call.messages), ensure_ascii=False)
    tokens_in, tokens_out = _count(usage.get("prompt_tokens"), prompt), _count(usage.get("completion_tokens"), text)
    yield Completion(text, reason, tokens_in, tokens_out)


async def embed(
    provider: Provider, api_key: str | None, model: str, texts: Sequence[str], dimensions: int | None
) -> tuple[Any, int]:
    """Return ((len(texts), dimensions) float32, L2-normalised; tokens in).

    Raises
    ------
    ProviderFault
        As `chat`; also fewer vectors than inputs, another dimension than `dimensions` (None: any), NaN or a zero vector:
        an endpoint that does so is set up wrongly, and no item can help it.
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
        raise ProviderFault(f'provider "{provider.name}" gave {got} vectors for {len(texts)} texts')
    wanted = dimensions or len(rows[0])
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
        raise ProviderFault(f'model "{model}" of provider "{provider.name}" gave a vector with NaN, infinity or only zeros')
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


class _FormatRefused(Exception):
    """The endpoint knows no structured output; the parser does without."""


# How the package's own with_streaming_response asks for a response whose body it has not read.
_UNREAD = {"X-Stainless-Raw-Response": "stream"}


@contextlib.asynccontextmanager
async def _sent(provider: Provider, api_key: str | None, path: str, body: dict[str, Any]) -> AsyncIterator[Any]:
    """Send a request; yield its response, headers read, body unread. Errors become faults."""
    import openai

    client = _client(provider, api_key)
    try:
        sending = client.post(path, body=body, cast_to=object, options={"headers": _UNREAD})
        response = await asyncio.wait_for(sending, provider.timeout)
    except TimeoutError:
        raise ProviderFault(f'provider "{provider.name}" did not answer within {provider.timeout:g} s') from None
    except openai.APIStatusError as error:
        raise _status_fault(provider, body, error) from None
    except openai.OpenAIError as error:
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
                    raise ItemFault(f"the answer is longer than {limit:,} bytes", raw=data[:2000].decode("utf-8", "replace"))
        return bytes(data)

    try:
        data = await asyncio.wait_for(read(), provider.timeout)
    except TimeoutError:
        raise ProviderFault(f'provider "{provider.name}" did not finish within {provider.timeout:g} s') from None
    except (ItemFault, ProviderFault, _FormatRefused, asyncio.CancelledError):
        raise
    except Exception as error:
        raise _connection_fault(provider, error) from None
    try:
        reply = json.loads(data)
    except ValueError:
        start = data[:80].decode("utf-8", "replace")
        raise ProviderFault(f'provider "{provider.name}" did not answer with JSON but with {start!r}') from None
    if not isinstance(reply, (dict, list)):
        raise ProviderFault(f'provider "{provider.name}" answered with JSON that is not an object')
    return reply


def _connection_fault(provider: Provider, error: BaseException) -> ProviderFault:
    # Only the classes' names: messages of libraries may repeat what was sent.
    cause = error.__cause__ or error.__context__
    name = type(cause).__name__ if cause is not None else type(error).__name__
    return ProviderFault(f'the connection to provider "{provider.name}" failed ({name})')


def _status_fault(provider: Provider, body: dict[str, Any], error: Any) -> Exception:
    """Whose fault a status is."""
    status, said = int(error.status_code), _said(error)
    if status in (400, 413, 422):
        if _TOO_LONG.search(said) or status == 413:
            return ContextTooLong(f'the prompt is too long for model "{body.get("model")}"', raw=said)
        if "response_format" in body and _FORMAT.search(said):
            return _FormatRefused()
        return ItemFault(f'provider "{provider.name}" refused the request ({status}): {said}')
    where = f'provider "{provider.name}" answered {status}'
    if status in (401, 403):
        return ProviderFault(f"{where}: it does not accept the key", permanent=True, hint=_KEY_HINT)
    if status == 404:
        return ProviderFault(
            f'{where}: no such model ("{body.get("model")}") or path: {said}',
            permanent=True,
            hint="Check base_url (graphrag.set_provider) and the model (graphrag.alter_corpus).",
        )
    return ProviderFault(f"{where}: {said}", retry_after=_retry_after(error))


_KEY_HINT = "Check the variable or file that api_key_env or api_key_file names, then graphrag.retry_failed()."


def _said(error: Any) -> str:
    """The endpoint's own words, if it is short about it; a key it may repeat is cut out."""
    body = getattr(error, "body", None)
    message = body.get("message") if isinstance(body, dict) else None
    text = " ".join(str(message or "no reason given").split())[:300].replace("\0", "")
    key = error.request.headers.get("authorization", "").removeprefix("Bearer ")
    for secret in (key, error.request.headers.get("api-key", "")):
        if secret and secret != "none":
            text = text.replace(secret, "…")
    return re.sub(r"\b(sk|key|pk)-[\w*.-]{6,}", "…", text)


def _retry_after(error: Any) -> float | None:
    """Seconds of a Retry-After header (a number or a date), at most an hour; None without one."""
    from email.utils import parsedate_to_datetime

    value = error.response.headers.get("retry-after", "").strip()
    try:
        return min(max(float(value), 0.0), 3600.0)
    except ValueError:
        pass
    try:
        from datetime import UTC, datetime

        return min(max((parsedate_to_datetime(value) - datetime.now(UTC)).total_seconds(), 0.0), 3600.0)
    except (ValueError, TypeError):
        return None


def back_off(tries: int, retry_after: float | None = None) -> float:
    """Seconds to wait after `tries` failures: exponential with jitter, never less than the endpoint asked for."""
    return max(random.uniform(0.5, 1.0) * min(2.0**tries, 300.0), retry_after or 0.0)
