"""The way to an endpoint, through the ``openai`` package: the client, the time-out, and whose fault an error is.

Runs in the session's background thread (`pg_graphrag.llm.loop`): nothing here may touch the database.
"""

import asyncio
import contextlib
import json
import random
import re
import sys
import time
from collections.abc import AsyncIterator
from datetime import UTC
from email.utils import parsedate_to_datetime
from typing import Any

from pg_graphrag.llm import openai_package
from pg_graphrag.llm.faults import ContextTooLong, ItemFault, ProviderFault
from pg_graphrag.llm.providers import Provider

# No useful answer is longer; a runaway one must not fill the server's memory.
MAX_REPLY_BYTES = 4_000_000
# Of what comes with an error, its beginning is read.
MAX_ERROR_BYTES = 64_000
# That an endpoint has closed a connection shows within the way there and back.
STALE_SECONDS = 1.0
# A shorter key is no secret but a word ("none", "ollama"), which answers may hold.
_MIN_SECRET = 12
_TOO_LONG = re.compile(r"context.{0,20}(length|window|size)|too (long|large|many tokens)|maximum.{0,30}tokens", re.I)
# Fields that some models refuse and that can be done without: their words for it, and the field.
_OPTIONAL = (
    (re.compile(r"response_format|json_schema|json_object|structured output", re.I), "response_format"),
    (re.compile(r"temperature", re.I), "temperature"),
    (re.compile(r"dimensions|matryoshka", re.I), "dimensions"),
    (re.compile(r"encoding_format", re.I), "encoding_format"),
    (re.compile(r"stream_options", re.I), "stream_options"),
)
# What PostgreSQL's text cannot hold.
_UNSTORABLE = re.compile("[\0\ud800-\udfff]")


_clients: dict[tuple[Any, ...], Any] = {}


def _client(provider: Provider, api_key: str | None) -> Any:
    """Return the session's client for an endpoint: connections are kept. A new key or setting makes a new client."""
    openai = openai_package.openai()
    identity = (provider.base_url, provider.auth, api_key, str(provider.headers), str(provider.query))
    if identity not in _clients:
        # What the package would take from the server's environment for OpenAI is not for other endpoints.
        headers: dict[str, Any] = {
            "OpenAI-Organization": openai.Omit(),
            "OpenAI-Project": openai.Omit(),
            **provider.headers,
        }
        if provider.auth == "api-key" and api_key:
            headers["api-key"] = api_key
        _clients[identity] = openai.AsyncOpenAI(
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

    parts = urlsplit(provider.base_url)
    host = parts.hostname or ""
    local = host == "localhost" or host.startswith("127.") or host == "::1"
    hooks = {"request": [_traced], "response": [_bounded]}
    # To read the authorities that certify endpoints takes 20 ms.
    verify = not local or parts.scheme == "https"
    return openai_package.openai().DefaultAsyncHttpxClient(
        timeout=None, trust_env=not local, verify=verify, event_hooks=hooks
    )


async def _traced(request: Any) -> None:
    """Have the steps of a request noted, for `_was_stale`."""
    steps: list[str] = []

    async def note(step: str, _: Any) -> None:
        steps.append(step)

    request.extensions = {**request.extensions, "trace": note, "steps": steps, "began": time.monotonic()}


def _was_stale(error: BaseException) -> bool:
    """Whether a request failed because it went into a kept connection that the endpoint had closed meanwhile.

    Such an endpoint has not read it. A failure that takes longer is that of a request that was read.
    """
    request: Any = getattr(error, "request", None)
    if request is None or isinstance(error, openai_package.openai().APITimeoutError):
        return False
    noted = request.extensions
    steps = noted.get("steps", ())
    opened = any(step.startswith("connection.") for step in steps)
    answered = any(step.endswith("receive_response_headers.complete") for step in steps)
    return bool(steps) and not opened and not answered and time.monotonic() - noted["began"] < STALE_SECONDS


async def _bounded(response: Any) -> None:
    """Have no more read of an error, which the package reads as a whole, than its beginning."""
    if response.status_code < 300:
        return
    whole = response.stream

    async def beginning(_: Any) -> AsyncIterator[bytes]:
        left = MAX_ERROR_BYTES
        async for piece in whole:
            yield piece[:left]
            left -= len(piece)
            if left <= 0:
                return

    async def close(_: Any) -> None:
        await whole.aclose()

    # The package's HTTP library has had two names.
    library = sys.modules[type(response).__module__.partition(".")[0]]
    response.stream = type("Beginning", (library.AsyncByteStream,), {"__aiter__": beginning, "aclose": close})()


def clean(text: str) -> str:
    """Return `text` without what PostgreSQL cannot hold: NUL, and halves of surrogate pairs."""
    return _UNSTORABLE.sub("", text)


def count_tokens(stated: Any, text: str) -> int:
    """Tokens as the endpoint counted them; where it does not say, a quarter of the bytes."""
    if isinstance(stated, int) and not isinstance(stated, bool) and stated >= 0:
        return min(stated, 2**31 - 1)
    return len(text.encode("utf-8", "replace")) // 4 + 1


class FieldRefused(Exception):
    """The model does not know a field that can be left out."""

    def __init__(self, field: str) -> None:
        super().__init__(field)
        self.field = field


def _options(provider: Provider, api_key: str | None) -> Any:
    """What the package needs to know of one request."""
    # As the package's own with_streaming_response asks for a response whose body it has not read.
    headers: dict[str, Any] = {"X-Stainless-Raw-Response": "stream"}
    if api_key is None or provider.auth == "api-key":
        # The package insists on a key; the header is left out.
        headers["Authorization"] = openai_package.openai().Omit()
    # A redirect would take key and texts where nobody told us to.
    return {"headers": headers, "follow_redirects": False}


@contextlib.asynccontextmanager
async def sent(
    provider: Provider,
    api_key: str | None,
    path: str,
    body: dict[str, Any],
    *,
    method: str = "post",
    file: tuple[str, bytes] | None = None,
    seconds: float | None = None,
    once: bool = False,
) -> AsyncIterator[Any]:
    """Send a request; yield its response, headers read, body unread. Errors become faults.

    `method` is post, get or delete; `file` (name, content) goes with a form of the fields of `body`; `seconds` is the
    time-out where it is not the provider's. A kept connection that turns out to be closed is replaced, unless the request
    may not be made twice (`once`): that the endpoint has not read it is all but sure.
    """
    openai = openai_package.openai()
    client = _client(provider, api_key)

    async def send() -> Any:
        options = _options(provider, api_key)
        if method == "get":
            return await client.get(path, cast_to=object, options=options)
        if file is not None:
            options["headers"]["Content-Type"] = "multipart/form-data"
            return await client.post(path, body=body, files=[("file", file)], cast_to=object, options=options)
        return await getattr(client, method)(path, body=body or None, cast_to=object, options=options)

    async def sent_anew() -> Any:
        while True:
            try:
                return await send()
            except openai.APIConnectionError as error:
                # Each goes with its connection: the last one is new.
                if once or not _was_stale(error):
                    raise

    try:
        response = await asyncio.wait_for(sent_anew(), seconds or provider.timeout)
    except TimeoutError:
        raise ProviderFault(
            f'provider "{provider.name}" did not answer within {seconds or provider.timeout:g} s'
        ) from None
    except openai.APIStatusError as error:
        raise _status_fault(provider, api_key, body, error) from None
    except Exception as error:
        raise connection_fault(provider, error) from None
    try:
        yield response
    finally:
        with contextlib.suppress(Exception):
            await response.close()


async def post(provider: Provider, api_key: str | None, path: str, body: dict[str, Any], limit: int, **how: Any) -> Any:
    """Return the JSON of a response within the time-out and `limit` bytes; `how` as in `sent`."""
    seconds = how.get("seconds") or provider.timeout

    answered = False

    async def read() -> bytes:
        nonlocal answered
        data = bytearray()
        async with sent(provider, api_key, path, body, **how) as response:
            answered = True
            async for piece in response.iter_bytes():
                data += piece
                if len(data) > limit:
                    raw = clean(data[:2000].decode("utf-8", "replace"))
                    raise ItemFault(f"the answer is longer than {limit:,} bytes", raw=raw)
        return without_key(bytes(data), api_key)

    # The first time the package is imported, which takes a second that is not the endpoint's.
    _client(provider, api_key)
    try:
        data = await asyncio.wait_for(read(), seconds)
    except TimeoutError:
        missed = "finish" if answered else "answer"
        raise ProviderFault(f'provider "{provider.name}" did not {missed} within {seconds:g} s') from None
    except (ItemFault, ProviderFault, FieldRefused):
        raise
    except Exception as error:
        raise connection_fault(provider, error) from None
    try:
        reply = json.loads(data)
    except (ValueError, RecursionError):
        start = clean(data[:80].decode("utf-8", "replace"))
        raise ProviderFault(f'provider "{provider.name}" did not answer with JSON but with {start!r}') from None
    if not isinstance(reply, (dict, list)):
        raise ProviderFault(f'provider "{provider.name}" answered with JSON that is not an object')
    refuse_error(provider, reply, api_key)
    return reply


def connection_fault(provider: Provider, error: BaseException) -> ProviderFault:
    # Only the classes' names: messages of libraries may repeat what was sent.
    cause, seen = error, 0
    while (inner := cause.__cause__ or cause.__context__) is not None and seen < 10:
        cause, seen = inner, seen + 1
    return ProviderFault(f'the connection to provider "{provider.name}" failed ({type(cause).__name__})')


def _status_fault(provider: Provider, api_key: str | None, body: dict[str, Any], error: Any) -> Exception:
    """Whose fault a status is."""
    status, said = int(error.status_code), words_of(error.body, api_key)
    if (refused := refusal(provider, status, said, body)) is not None:
        return refused
    where = f'provider "{provider.name}" answered {status}'
    if status in (401, 403):
        return ProviderFault(f"{where}: it does not accept the key", permanent=True, status=status, hint=_KEY_HINT)
    if status == 404:
        return ProviderFault(
            f'{where}: no such model ("{body.get("model")}") or path: {said}',
            permanent=True,
            status=status,
            hint=_ADDRESS_HINT,
        )
    if status < 400:
        return ProviderFault(f"{where}: a redirect, which is not followed", permanent=True, hint=_ADDRESS_HINT)
    return ProviderFault(
        f"{where}: {said}",
        retry_after=retry_after_seconds(error.response.headers.get("retry-after", "")),
        status=status,
    )


def refusal(provider: Provider, status: int, said: str, body: dict[str, Any]) -> ItemFault | FieldRefused | None:
    """What is wrong with the request `body`, where a status says that it is the request; `said`: the endpoint's words."""
    if status not in (400, 413, 422):
        return None
    if _TOO_LONG.search(said) or status == 413:
        return ContextTooLong(f'the prompt is too long for model "{body.get("model")}"', raw=said)
    for words, field in _OPTIONAL:
        if field in body and words.search(said):
            return FieldRefused(field)
    return ItemFault(f'provider "{provider.name}" refused the request ({status}): {said}')


_KEY_HINT = "Check the variable or file that api_key_env or api_key_file names, then graphrag.retry_failed()."


_ADDRESS_HINT = "Check base_url (graphrag.set_provider) and the model (graphrag.alter_corpus)."


def refuse_error(provider: Provider, reply: Any, api_key: str | None) -> None:
    """Raise what an endpoint says went wrong, under a status that says that nothing did (gateways; within streams)."""
    if isinstance(reply, dict) and reply.get("error"):
        raise ProviderFault(f'provider "{provider.name}" answered with an error: {words_of(reply["error"], api_key)}')


def words_of(error: Any, api_key: str | None) -> str:
    """The endpoint's own words of an error, if it is short about it; a key it may repeat, or parts of one, are cut out."""
    text = " ".join(_message(error).split()) or "no reason given"
    if api_key:
        text = text.replace(api_key, "…")
    return clean(re.sub(r"\b(sk|key|pk)-[\w*.-]{6,}", "…", text))[:300]


def _message(error: Any) -> str:
    """The text of an error as OpenAI, TEI, FastAPI and proxies word it; a page of HTML says nothing."""
    if isinstance(error, list):
        return "; ".join(_message(one) for one in error[:5])
    if isinstance(error, dict):
        said = next((error[name] for name in ("error", "message", "detail", "msg", "code") if error.get(name)), None)
        place = error.get("loc")
        return ".".join(map(str, place)) + f": {_message(said)}" if isinstance(place, list) else _message(said)
    return error if isinstance(error, str) and not error.lstrip().startswith("<") else ""


def without_key(data: bytes, api_key: str | None) -> bytes:
    """Cut the key out of an answer: what repeats it must not bring it into tables and messages."""
    return data.replace(api_key.encode(), "…".encode()) if api_key and len(api_key) >= _MIN_SECRET else data


def retry_after_seconds(value: str) -> float | None:
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
