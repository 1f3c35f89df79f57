"""Single requests to an endpoint: chat, embeddings, rerank.

Runs in the session's background thread (`pg_graphrag.llm.loop`): nothing here may touch the database.
"""

import asyncio
import base64
import contextlib
import json
import time
from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass
from typing import Any

from pg_graphrag.llm.answers import clean, count_tokens
from pg_graphrag.llm.faults import ItemFault, ProviderFault
from pg_graphrag.llm.providers import Provider
from pg_graphrag.llm.transport import (
    MAX_REPLY_BYTES,
    FieldRefused,
    connection_fault,
    open_response,
    post,
    refuse_error,
    without_key,
)
from pg_graphrag.numeric import np

# Bytes of a number in a vector, and bytes and values around vectors. A model's vectors are no longer than the longest known.
_NUMBER_BYTES, _FRAME_BYTES, _FRAME_VALUES = 64, 1_000_000, 100
_LONGEST_VECTOR = 8192
# Finish reasons of a cut-off answer: by its length, or by a filter.
_CUT_OFF = ("length", "max_tokens", "model_length", "content_filter")
# Characters that are kept of a finish reason, and of the words of a refusal.
_MAX_REASON, _MAX_REFUSAL = 40, 1000


@dataclass(frozen=True, slots=True)
class Completion:
    """A model's answer. `finish_reason` is the endpoint's: ``stop``, ``length`` (cut off) …; tokens as it counted them."""

    text: str
    finish_reason: str
    tokens_in: int
    tokens_out: int

    @property
    def cut_off(self) -> bool:
        """Whether the answer is cut off."""
        return self.finish_reason.lower() in _CUT_OFF


@dataclass(frozen=True, slots=True)
class Call:
    """What a chat request needs besides its provider. `schema`: {name, schema} or None for prose."""

    model: str
    messages: Sequence[dict[str, str]]
    schema: dict[str, Any] | None = None
    temperature: float = 0.0


_refused_fields: dict[tuple[str, str], frozenset[str]] = {}


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
        refused_fields = _refused_fields.get((provider.base_url, call.model), frozenset())
        try:
            request_body = chat_body(provider, call, refused_fields)
            body = await post(provider, api_key, "/chat/completions", request_body, MAX_REPLY_BYTES)
            break
        except FieldRefused as error:
            _refused_fields[provider.base_url, call.model] = refused_fields | {error.field}
    return completion(provider, call.messages, body)


def completion(provider: Provider, messages: Sequence[dict[str, str]], body: Any) -> Completion:
    """Read the body of a chat completion; `messages` are those of the request. Raises as `chat`."""
    try:
        choice = body["choices"][0]
        message = choice["message"]
        text, refusal_text = _text(message.get("content")), _text(message.get("refusal"))
        reason = _reason(choice) or "stop"
    except (KeyError, IndexError, TypeError, AttributeError):
        raise ProviderFault(
            f'provider "{provider.name}" answered with something other than a chat completion'
        ) from None
    usage = body.get("usage") if isinstance(body.get("usage"), dict) else {}
    _refuse_unfinished(provider, text, refusal_text, reason)
    return Completion(
        text,
        reason,
        count_tokens(usage.get("prompt_tokens"), json.dumps(list(messages), ensure_ascii=False)),
        count_tokens(usage.get("completion_tokens"), text),
    )


def _reason(choice: dict[str, Any]) -> str:
    """Return why an answer ended, as the endpoint says; empty where it does not."""
    reason = choice.get("finish_reason")
    return clean(reason)[:_MAX_REASON] if isinstance(reason, str) else ""


def _text(content: Any) -> str:
    """Return the text of a complete message."""
    return clean(_content_text(content))


def _content_text(content: Any) -> str:
    """Return the text of a message; some endpoints give it in parts, among parts of other types."""
    if isinstance(content, list):
        content = "".join(part["text"] for part in content if isinstance(part.get("text"), str))
    return content if isinstance(content, str) else ""


def _whole_characters(text: str) -> tuple[str, str]:
    """Return the complete characters of a piece, and the half of a surrogate pair at its end."""
    half = text[-1:] if "\ud800" <= text[-1:] < "\udc00" else ""
    complete = text.removesuffix(half).encode("utf-16-le", "surrogatepass").decode("utf-16-le", "surrogatepass")
    return clean(complete), half


def _refuse_unfinished(provider: Provider, text: str, refusal_text: str, reason: str) -> None:
    """Raise the fault of an answer that ended without text or with an error."""
    if reason == "error":
        raise ProviderFault(f'provider "{provider.name}" broke off its answer')
    if not text.strip() and refusal_text.strip():
        raise ItemFault(f"the model refused to answer: {' '.join(refusal_text.split())[:300]}")
    if not text.strip():
        raise ItemFault(f"the model gave an empty answer (finish_reason {reason})")


def chat_body(
    provider: Provider, call: Call, refused_fields: frozenset[str] = frozenset(), stream: bool = False
) -> dict[str, Any]:
    """Return the body of a chat request, without the fields that its model refuses."""
    body: dict[str, Any] = {"model": call.model, "messages": list(call.messages), "temperature": call.temperature}
    if stream:
        body |= {"stream": True, "stream_options": {"include_usage": True}}
    if call.schema is not None:
        if provider.json == "schema":
            body["response_format"] = {"type": "json_schema", "json_schema": {**call.schema, "strict": True}}
        elif provider.json == "object":
            body["response_format"] = {"type": "json_object"}
    body |= provider.chat_request
    return {name: value for name, value in body.items() if value is not None and name not in refused_fields}


async def chat_stream(provider: Provider, api_key: str | None, call: Call) -> AsyncIterator[str | Completion]:
    """Yield the pieces of an answer as they come, then the `Completion` of the whole.

    Raises
    ------
    ProviderFault, ItemFault
        As `chat`. A stream that breaks off raises too: the answer is incomplete.
    """
    pieces: list[str] = []
    size, reason, refusal_text, half = 0, "", "", ""
    usage: Any = {}
    data = None
    async for data in _events(provider, api_key, call):
        if data == b"[DONE]":
            reason = reason or "stop"
            continue
        try:
            event = json.loads(data)
            refuse_error(provider, event, api_key)
            usage = event.get("usage") or usage
            (choice, *_) = event.get("choices") or [{}]
            # One complete message where the endpoint does not stream.
            message = choice.get("delta") or choice.get("message") or {}
            piece, half = _whole_characters(half + _content_text(message.get("content")))
            refused = _text(message.get("refusal"))
            reason = _reason(choice) or reason
        except (ValueError, AttributeError, TypeError, KeyError, IndexError, RecursionError):
            raise ProviderFault(f'provider "{provider.name}" sent a stream that is not the API\'s') from None
        size += len(piece) + len(refused)
        if size > MAX_REPLY_BYTES:
            raise ItemFault("the model's answer has no end", raw="".join(pieces[:1])[:2000])
        refusal_text += refused[: _MAX_REFUSAL - len(refusal_text)]
        if piece:
            pieces.append(piece)
            yield piece
    if data is None:
        raise ProviderFault(f'provider "{provider.name}" answered with something other than a stream') from None
    text = "".join(pieces)
    _refuse_unfinished(provider, text, refusal_text, reason or "error")
    prompt = json.dumps(list(call.messages), ensure_ascii=False)
    counts = usage if isinstance(usage, dict) else {}
    tokens_in, tokens_out = (
        count_tokens(counts.get("prompt_tokens"), prompt),
        count_tokens(counts.get("completion_tokens"), text),
    )
    yield Completion(text, reason, tokens_in, tokens_out)


async def _events(provider: Provider, api_key: str | None, call: Call) -> AsyncIterator[bytes]:
    """Yield the data of a stream's server-sent events, or the one answer of an endpoint that does not stream.

    Lines are split at line feeds only, since data may hold other breaks. Comments keep a connection open, but are no answer.
    """
    async with contextlib.AsyncExitStack() as stack:
        while True:
            refused_fields = _refused_fields.get((provider.base_url, call.model), frozenset())
            body = chat_body(provider, call, refused_fields, stream=True)
            try:
                response = await stack.enter_async_context(open_response(provider, api_key, "/chat/completions", body))
                break
            except FieldRefused as error:
                _refused_fields[provider.base_url, call.model] = refused_fields | {error.field}
        parts = response.aiter_bytes()
        is_json = response.headers.get("content-type", "").startswith("application/json")
        buffer, at_end, last = b"", False, time.monotonic()
        while not at_end:
            try:
                buffer += await asyncio.wait_for(anext(parts), max(0.0, last + provider.timeout - time.monotonic()))
            except StopAsyncIteration:
                at_end = True
            except TimeoutError:
                raise ProviderFault(f'provider "{provider.name}" sent nothing for {provider.timeout:g} s') from None
            except Exception as error:
                raise connection_fault(provider, error) from None
            if len(buffer) > 2 * MAX_REPLY_BYTES:
                raise ProviderFault(f'provider "{provider.name}" sent a stream that is not the API\'s')
            if is_json and at_end:
                yield without_key(buffer, api_key)
            if is_json:
                continue
            lines = buffer.split(b"\n")
            # The last line is complete only at the end.
            buffer = b"" if at_end else lines.pop()
            for line in lines:
                if line.startswith(b"data:"):
                    last = time.monotonic()
                    yield without_key(line[5:].strip(), api_key)


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
    # Packed vectors are half as long and need no parsing; endpoints that do not know them send numbers.
    fields = {"model": model, "input": list(texts), "encoding_format": "base64", "dimensions": dimensions}
    fields |= provider.embedding_request
    # What is longer is no answer, and to read it would take memory and, as nothing interrupts that, time.
    most_values = _FRAME_VALUES + len(texts) * (_FRAME_VALUES + (dimensions or _LONGEST_VECTOR))
    limit = _FRAME_BYTES + most_values * _NUMBER_BYTES
    while True:
        # Only some models can shorten their vectors; the length is checked in any case.
        refused_fields = _refused_fields.get((provider.base_url, model), frozenset())
        body = {name: value for name, value in fields.items() if value is not None and name not in refused_fields}
        try:
            reply = await post(provider, api_key, "/embeddings", body, limit, most_values=most_values)
            break
        except FieldRefused as error:
            _refused_fields[provider.base_url, model] = refused_fields | {error.field}
    try:
        items = list(reply["data"])
        vectors = _packed(items, len(texts), dimensions)
        if vectors is None:
            vectors = _any_form(provider, model, items, len(texts), dimensions)
    except (KeyError, IndexError, TypeError, ValueError, AttributeError, OverflowError):
        raise ProviderFault(f'provider "{provider.name}" answered with something other than embeddings') from None
    lengths = np.linalg.norm(vectors.astype(np.float64), axis=1)
    if not np.isfinite(lengths).all() or not lengths.all():
        raise ItemFault(f'model "{model}" of provider "{provider.name}" gave a vector with NaN, infinity or only zeros')
    usage = reply.get("usage")
    token_count = usage.get("prompt_tokens") if isinstance(usage, dict) else None
    return (vectors / lengths[:, None]).astype(np.float32), count_tokens(token_count, "".join(texts))


def _packed(items: Sequence[Any], count: int, dimensions: int | None) -> Any:
    """Return the vectors of an answer in its usual form: each packed, in order; None where it has another."""
    packed = [item["embedding"] for item in items]
    size = (dimensions or 0) * 4
    # Then a string has no padding, and all can be read as one, in a third of the time.
    if not size or size % 3 or len(items) != count or [item.get("index") for item in items] != list(range(count)):
        return None
    if any(not isinstance(text, str) or len(text) != size // 3 * 4 for text in packed):
        return None
    return np.frombuffer(base64.b64decode("".join(packed), validate=True), "<f4").reshape(count, -1)


def _any_form(provider: Provider, model: str, items: Sequence[Any], text_count: int, dimensions: int | None) -> Any:
    """Return the vectors of an answer in whatever form; raises as `embed`, and what is not of its form raises."""
    rows: list[Any] = [None] * text_count
    for place, item in enumerate(items[:text_count]):
        index = place if item.get("index") is None else int(item["index"])
        if index < 0:
            raise ValueError
        rows[index] = _vector(item["embedding"])
    count = sum(row is not None for row in rows) + max(0, len(items) - text_count)
    if count != text_count:
        raise ItemFault(f'model "{model}" of provider "{provider.name}" gave {count} vectors for {text_count} texts')
    size = dimensions or rows[0].size
    for row in rows:
        if row.size != size:
            raise ProviderFault(
                f'model "{model}" of provider "{provider.name}" gave a vector of {row.size} dimensions, not {size}',
                permanent=True,
                hint="Set embedding.dimensions of the corpus to what the model gives, with graphrag.reembed(…).",
            )
    return np.stack(rows)


def _vector(value: Any) -> Any:
    """A vector as numbers or packed; ValueError or TypeError for anything else."""
    if isinstance(value, str):
        return np.frombuffer(base64.b64decode(value, validate=True), "<f4")
    vector = np.asarray(value, np.float32)
    if vector.ndim != 1:
        raise ValueError
    return vector


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
    reply = await post(provider, api_key, "/rerank", body, MAX_REPLY_BYTES)
    results = reply if isinstance(reply, list) else reply.get("results") if isinstance(reply, dict) else None
    scores: list[float | None] = [None] * len(texts)
    try:
        for item in results or ():
            score = float(item["relevance_score"] if "relevance_score" in item else item["score"])
            if not np.isfinite(score) or int(item["index"]) < 0:
                raise ValueError
            scores[int(item["index"])] = score
    except (KeyError, IndexError, TypeError, ValueError, OverflowError):
        raise ProviderFault(f'provider "{provider.name}" answered with something other than a ranking') from None
    if any(score is None for score in scores):
        raise ProviderFault(f'provider "{provider.name}" did not score all {len(texts)} texts')
    return [float(score or 0.0) for score in scores], count_tokens(None, query * len(texts) + "".join(texts))
