"""The batch API of an endpoint (OpenAI's ``files`` and ``batches``): requests and results.

Runs in the session's background thread (`pg_graphrag.llm.endpoints.loop`): nothing here may touch the database.
"""

import asyncio
import contextlib
import json
import time
from collections.abc import AsyncIterator
from dataclasses import dataclass
from typing import Any
from urllib.parse import quote

from pg_graphrag.llm.endpoints import wire
from pg_graphrag.llm.endpoints.faults import ContextTooLong, ItemFault, ProviderFault, Repetition
from pg_graphrag.llm.endpoints.providers import Provider
from pg_graphrag.llm.endpoints.transport import (
    MAX_REPLY_BYTES,
    FieldRefused,
    connection_fault,
    open_response,
    post,
    refusal,
    refuse_error,
    without_key,
    words_of,
)
from pg_graphrag.text.letters import clean

# How long the endpoint may take; OpenAI accepts no other value.
WINDOW = "24h"
# Final states.
ENDED = ("completed", "failed", "expired", "cancelled")
# The key of our mark in a batch's metadata.
MARK = "pg_graphrag"
# Pages of a listing that are searched for a mark, at most.
MAX_PAGES = 200
# Slowest upload, and slowest download.
BYTES_PER_SECOND = 200_000
SLOWEST_BYTES_PER_SECOND = 10_000
# Answers about files and batches have at most so many bytes and values; a line of results holds one answer of a model.
_MAX_BYTES, _MAX_VALUES = 8_000_000, 500_000
_MAX_LINE = 2 * MAX_REPLY_BYTES
# Characters of the id of a file or a batch, which is a part of addresses.
_MAX_ID = 500
# A file of results has at most so many bytes for each request, on average, and so many of them are a model's words:
# both are in memory together.
_BYTES_PER_REQUEST, _WORDS_PER_REQUEST = 1_000_000, 64_000


@dataclass(frozen=True, slots=True)
class Line:
    """The outcome of one request.

    `reply` is the answer (for an unusable one, the model's text); `error` its fault, None if unknown; `refused_field` a
    field that the model does not know. `answered` is False if the request was not executed, or the endpoint failed: it is
    sent again.
    """

    reply: str | None = None
    cut_off: bool = False
    error: str | None = None
    too_long: bool = False
    refused_field: str | None = None
    answered: bool = True
    tokens: tuple[int, int] | None = None


class Missing(ProviderFault):
    """The endpoint knows no file or batch of that id (any more)."""


class Refused(ProviderFault):
    """The endpoint takes no batches, or not this one."""


def file_name(mark: str) -> str:
    """Return the name that a batch's file has at the endpoint."""
    return f"{MARK}-{mark}.jsonl"


async def upload(provider: Provider, key: str | None, mark: str, content: bytes) -> str:
    """Upload the requests of a batch; return the file's id."""
    options = {"file": (file_name(mark), content), "seconds": provider.timeout + len(content) / BYTES_PER_SECOND}
    reply = await _ask(provider, key, "/files", {"purpose": "batch"}, at_most_once=True, **options)
    return _id(provider, reply)


async def find_file(provider: Provider, key: str | None, mark: str) -> str | None:
    """Return the id of the file with that mark, if there is one. An endpoint that lists no files has none."""
    try:
        async for item in _items(provider, key, "/files?purpose=batch&limit=10000"):
            if item.get("filename") == file_name(mark):
                return _id(provider, item)
    except ProviderFault as fault:
        if fault.status not in (404, 405):
            raise
    except ItemFault:
        pass
    return None


async def create(provider: Provider, key: str | None, mark: str, file: str) -> dict[str, Any]:
    """Make a batch of an uploaded file; return it."""
    body = {
        "input_file_id": file,
        "endpoint": provider.batch_path,
        "completion_window": WINDOW,
        "metadata": {MARK: mark},
    }
    return await _object(provider, key, "/batches", body, at_most_once=True)


async def find_batch(provider: Provider, key: str | None, mark: str, file: str) -> dict[str, Any] | None:
    """Return the batch with that mark (or of that file), if the endpoint has made it."""
    try:
        async for item in _items(provider, key, "/batches?limit=100"):
            if (item.get("metadata") or {}).get(MARK) == mark or item.get("input_file_id") == file:
                return item
    except (ItemFault, ProviderFault) as fault:
        if isinstance(fault, ItemFault) or fault.status in (404, 405, 501):
            raise _batch_fault(provider, fault) from None
        raise
    return None


async def look(provider: Provider, key: str | None, batch: str) -> dict[str, Any]:
    """Return the current state of a batch; `Missing` if there is none."""
    return await _object(provider, key, f"/batches/{_path_part(batch)}", method="GET")


async def cancel(provider: Provider, key: str | None, batch: str) -> None:
    """Cancel a batch; one that cannot be cancelled has ended, or will."""
    with contextlib.suppress(Missing, Refused):
        await _object(provider, key, f"/batches/{_path_part(batch)}/cancel", {})


async def delete_file(provider: Provider, key: str | None, file: str) -> None:
    """Delete a file; a missing file is no error."""
    with contextlib.suppress(Missing):
        await _ask(provider, key, f"/files/{_path_part(file)}", {}, method="DELETE")


async def results(
    provider: Provider, key: str | None, file: str, requests: dict[str, dict[str, Any]], strict: bool
) -> dict[str, Line]:
    """Return {custom_id: outcome} of a result or error file; `requests`: {custom_id: body of the request}.

    `strict`: a line that is not the API's makes the whole file a `ProviderFault`, because a proxy's page, or half a file,
    would otherwise cost all answers; else the line is left out.
    """
    lines: dict[str, Line] = {}
    bytes_left = _MAX_LINE + len(requests) * _BYTES_PER_REQUEST
    words_left = _MAX_LINE + len(requests) * _WORDS_PER_REQUEST
    async for text in _lines(provider, key, f"/files/{_path_part(file)}/content", bytes_left):
        try:
            item = json.loads(without_key(text, key))
            name = item["custom_id"]
        except (ValueError, KeyError, TypeError, RecursionError):
            if strict:
                raise ProviderFault(f'provider "{provider.name}" sent results that are not the API\'s') from None
            continue
        if isinstance(name, str) and name in requests:
            line = _line(provider, key, item, requests[name])
            words_left -= len(line.reply or "")
            if words_left < 0:
                raise _endless(provider)
            add_lines(lines, {name: line})
    return lines


def _endless(provider: Provider) -> ProviderFault:
    return ProviderFault(f'provider "{provider.name}" sent more than answers to the requests of a batch can be')


def add_lines(lines: dict[str, Line], more: dict[str, Line]) -> dict[str, Line]:
    """Add `more` to `lines`: of several lines for one request, the first that was answered counts."""
    lines.update((name, line) for name, line in more.items() if name not in lines or not lines[name].answered)
    return lines


def _line(provider: Provider, key: str | None, item: dict[str, Any], request: dict[str, Any]) -> Line:
    response, error = item.get("response"), item.get("error")
    if not isinstance(response, dict) or not isinstance(response.get("status_code"), int):
        return Line(answered=False, error=words_of(error, key) if error else "no answer")
    status, body = response["status_code"], response.get("body")
    if status == 200:
        try:
            refuse_error(provider, body, key)
            completion = wire.completion(provider, request["messages"], body)
        except ItemFault as fault:
            return Line(error=fault.message, tokens=_tokens(body))
        except ProviderFault as fault:
            return Line(answered=False, error=fault.message)
        if completion.repeats:
            error_text = Repetition(completion.text).message
            return Line(completion.text, error=error_text, tokens=(completion.tokens_in, completion.tokens_out))
        return Line(completion.text, completion.cut_off, tokens=(completion.tokens_in, completion.tokens_out))
    text = words_of(body, key)
    wrong = refusal(provider, status, text, request)
    if isinstance(wrong, FieldRefused):
        return Line(refused_field=wrong.field, answered=False, error=text)
    if isinstance(wrong, ContextTooLong):
        return Line(error=wrong.message, too_long=True)
    if isinstance(wrong, ItemFault):
        return Line(error=wrong.message)
    if status in (408, 409, 429) or status >= 500:
        return Line(answered=False, error=f"{status}: {text}")
    return Line(error=f'provider "{provider.name}" refused the request ({status}): {text}')


def _tokens(body: Any) -> tuple[int, int]:
    """Return the tokens of an answer without text."""
    usage = body.get("usage") if isinstance(body, dict) else None
    counts = [usage.get(name) if isinstance(usage, dict) else 0 for name in ("prompt_tokens", "completion_tokens")]
    first, second = (count if isinstance(count, int) and 0 <= count < 2**31 else 0 for count in counts)
    return first, second


async def _ask(provider: Provider, key: str | None, path: str, body: dict[str, Any], **options: Any) -> Any:
    """`post`, with the faults of this API: a refusal is permanent."""
    try:
        return await post(provider, key, path, body, _MAX_BYTES, most_values=_MAX_VALUES, **options)
    except ItemFault as fault:
        raise _batch_fault(provider, fault) from None
    except ProviderFault as fault:
        if fault.status == 404 and path.count("/") > 1:
            raise Missing(fault.message, permanent=True, status=404, hint=fault.hint) from None
        if fault.status in (404, 405, 501):
            raise _batch_fault(provider, fault) from None
        raise


def _batch_fault(provider: Provider, fault: ItemFault | ProviderFault) -> Refused:
    return Refused(
        f'provider "{provider.name}" does not take the batch: {fault.message}',
        permanent=True,
        status=getattr(fault, "status", None),
        hint="Set its option batch to false (graphrag.set_provider), or base_url to an endpoint that has batches; then "
        "graphrag.retry_failed().",
    )


async def _object(
    provider: Provider, key: str | None, path: str, body: dict[str, Any] | None = None, **options: Any
) -> dict[str, Any]:
    reply = await _ask(provider, key, path, body or {}, **options)
    _id(provider, reply)
    return dict(reply)


def _id(provider: Provider, reply: Any) -> str:
    if not isinstance(reply, dict) or not isinstance(reply.get("id"), str) or not 0 < len(reply["id"]) <= _MAX_ID:
        raise ProviderFault(f'provider "{provider.name}" answered with something other than a file or batch')
    return clean(reply["id"])


def _path_part(name: str) -> str:
    return quote(name, safe="")


async def _items(provider: Provider, key: str | None, path: str) -> AsyncIterator[dict[str, Any]]:
    """Yield the items of a listing, page by page."""
    cursor = ""
    for _ in range(MAX_PAGES):
        page = await post(provider, key, path + cursor, {}, _MAX_BYTES, most_values=_MAX_VALUES, method="GET")
        data = page.get("data") if isinstance(page, dict) else None
        items = [item for item in data if isinstance(item, dict)] if isinstance(data, list) else []
        for item in items:
            yield item
        if not items or not page.get("has_more") or not isinstance(items[-1].get("id"), str):
            return
        cursor = f"&after={_path_part(items[-1]['id'])}"


async def _lines(provider: Provider, key: str | None, path: str, limit: int) -> AsyncIterator[bytes]:
    """Yield the lines of a file of at most `limit` bytes as they come. A line too long to be an answer is a fault."""
    try:
        async with open_response(provider, key, path, {}, method="GET") as response:
            pieces, buffer, deadline = response.aiter_bytes(), b"", time.monotonic() + provider.timeout
            while True:
                # The file may be large: the deadline moves with each piece, so that only silence or a crawl ends the wait.
                seconds = min(provider.timeout, deadline - time.monotonic())
                piece = await asyncio.wait_for(anext(pieces, None), max(0.0, seconds))
                if piece is None:
                    break
                limit -= len(piece)
                if limit < 0:
                    raise _endless(provider)
                deadline += len(piece) / SLOWEST_BYTES_PER_SECOND
                *lines, buffer = (buffer + piece).split(b"\n")
                for line in lines:
                    if line.strip():
                        yield line
                if len(buffer) > _MAX_LINE:
                    raise ProviderFault(f'provider "{provider.name}" sent a line of more than {_MAX_LINE:,} bytes')
            if buffer.strip():
                yield buffer
    except TimeoutError:
        raise ProviderFault(f'provider "{provider.name}" did not finish within {provider.timeout:g} s') from None
    except ProviderFault as fault:
        if fault.status == 404:
            raise Missing(fault.message, permanent=True, status=404, hint=fault.hint) from None
        raise
    except ItemFault as fault:
        raise _batch_fault(provider, fault) from None
    except Exception as error:
        raise connection_fault(provider, error) from None
