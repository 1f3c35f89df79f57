"""HTTP to an endpoint: the client, the time-out, and how errors become faults.

Runs in the session's background thread (`pg_graphrag.llm.endpoints.loop`): nothing here may touch the database.
"""

import asyncio
import contextlib
import json
import re
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from datetime import UTC
from email.utils import parsedate_to_datetime
from functools import cache, partial
from typing import TYPE_CHECKING, Any, TypeVar
from urllib.parse import urlsplit

from pg_graphrag.llm.endpoints.faults import ContextTooLong, ItemFault, ProviderFault, TimedOut
from pg_graphrag.llm.endpoints.providers import Provider
from pg_graphrag.llm.endpoints.refusals import (
    FORBIDDEN,
    LOADING,
    NO_VECTOR,
    OPTIONAL,
    SCHEMA_BOUNDS,
    TOO_LONG,
    TOO_LONG_EVER,
    is_too_long,
    refused_limit,
)
from pg_graphrag.text.letters import clean

if TYPE_CHECKING:
    import httpx2

T = TypeVar("T")
# No useful answer is longer; an endless one must not fill the server's memory.
MAX_REPLY_BYTES = 4_000_000
# Bytes that are read of an error's body, and errors within each other that are looked into.
MAX_ERROR_BYTES = 64_000
_MAX_ERROR_DEPTH = 10
# A closed connection shows within one round trip.
STALE_SECONDS = 1.0
# A shorter key is a word ("none", "ollama"), not a secret; answers may contain it.
_MIN_SECRET = 12
# Seconds until an endpoint that still loads its model is asked again.
_LOADING_SECONDS = 5.0
_KEY_HINT = "Check the variable or file that api_key_env or api_key_file names, then graphrag.retry_failed()."
_ADDRESS_HINT = "Check base_url (graphrag.set_provider) and the model (graphrag.alter_corpus)."
# Characters of an endpoint's words that are shown, and that are looked at.
_SHOWN, _LOOKED_AT = 300, 4000
_HTML = re.compile(r"\s*<(?:!doctype|html|head|body|\?xml|!--|center|title|h\d|p|div|pre|script)\b", re.IGNORECASE)


@cache
def _client(base_url: str) -> "httpx2.AsyncClient":
    """Return the session's HTTP client for an endpoint: connections are kept.

    The server's HTTPS_PROXY and NO_PROXY hold, but nobody's proxy leads to this machine.
    """
    # Imported here because it takes 70 ms, which sessions without endpoints save.
    from http.cookiejar import CookieJar, DefaultCookiePolicy

    import httpx2

    parts = urlsplit(base_url)
    host = parts.hostname or ""
    local = host == "localhost" or host.startswith("127.") or host == "::1"
    return httpx2.AsyncClient(
        timeout=None,
        # A provider's concurrency is the limit, and to read the authorities that certify endpoints takes 20 ms.
        limits=httpx2.Limits(max_connections=None, max_keepalive_connections=100),
        trust_env=not local,
        verify=not local or parts.scheme == "https",
        # What an endpoint sets for one key must not go out with another.
        cookies=CookieJar(DefaultCookiePolicy(allowed_domains=[])),
    )


def _was_stale(steps: Sequence[str], began: float) -> bool:
    """Whether a request failed because the endpoint had closed the kept connection meanwhile.

    Such an endpoint has not read it. A slower failure is that of a request that was read.
    """
    has_opened = any(step.startswith("connection.") for step in steps)
    answered = any(step.endswith("receive_response_headers.complete") for step in steps)
    return bool(steps) and not has_opened and not answered and time.monotonic() - began < STALE_SECONDS


async def _error_body(response: "httpx2.Response") -> Any:
    """Return what comes with an error, or its beginning: JSON, or text."""
    data = bytearray()
    async for piece in response.aiter_bytes():
        data += piece
        if len(data) >= MAX_ERROR_BYTES:
            break
    text = data[:MAX_ERROR_BYTES].decode("utf-8", "replace").strip()
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return text


# By address and model.
_refused_fields: dict[tuple[str, str], frozenset[str]] = {}


def refused_fields(provider: Provider, model: str) -> frozenset[str]:
    """Return the fields that a model has refused."""
    return _refused_fields.get((provider.base_url, model), frozenset())


def note_refusal(provider: Provider, model: str, field: str) -> None:
    """Send a model without a field from now on."""
    _refused_fields[provider.base_url, model] = refused_fields(provider, model) | {field}


def forget_refusals(provider: Provider, model: str) -> None:
    """Send a model again the fields that it refused: it may be another by now."""
    _refused_fields.pop((provider.base_url, model), None)


class FieldRefused(Exception):
    """The model does not know a field that can be left out."""

    def __init__(self, field: str) -> None:
        super().__init__(field)
        self.field = field


def _headers(provider: Provider, api_key: str | None) -> dict[str, str]:
    headers = {"Accept": "application/json", "User-Agent": "pg_graphrag", **provider.headers}
    if api_key is not None:
        headers |= {"api-key": api_key} if provider.auth == "api-key" else {"Authorization": f"Bearer {api_key}"}
    return headers


@contextlib.asynccontextmanager
async def open_response(
    provider: Provider,
    api_key: str | None,
    path: str,
    body: dict[str, Any],
    *,
    method: str = "POST",
    file: tuple[str, bytes] | None = None,
    seconds: float | None = None,
    at_most_once: bool = False,
) -> AsyncIterator["httpx2.Response"]:
    """Send a request; yield its response, headers read, body unread. Errors become faults.

    `method` is POST, GET or DELETE; `file` (name, content) goes with a form of the fields of `body`; `seconds` is the
    time-out if it differs from the provider's. A kept connection that turns out to be closed is replaced, unless the
    request must not be made twice (`at_most_once`), because it is not quite sure that the endpoint has not read it.
    Redirects are not followed: they would take key and texts to an address that nobody configured.
    """
    import httpx2

    client = _client(provider.base_url)
    content: dict[str, Any] = {"data": body, "files": {"file": file}} if file else {"json": body or None}

    async def send(steps: list[str]) -> httpx2.Response:
        async def note(step: str, _: Any) -> None:
            steps.append(step)

        url = httpx2.URL(provider.base_url.rstrip("/") + path).copy_merge_params(provider.query)
        headers = _headers(provider, api_key)
        request = client.build_request(method, url, headers=headers, extensions={"trace": note}, **content)
        return await client.send(request, stream=True)

    async def sent_anew() -> httpx2.Response:
        while True:
            steps: list[str] = []
            began = time.monotonic()
            try:
                return await send(steps)
            except httpx2.TransportError:
                # Each failure discards its connection; the last one is new.
                if at_most_once or not _was_stale(steps, began):
                    raise

    async def answered() -> httpx2.Response:
        response = await sent_anew()
        if "," in response.headers.get("content-encoding", ""):
            # A few kB can be unpacked to many GB and at last to nothing: no time-out would end that.
            await response.aclose()
            raise ProviderFault(f'provider "{provider.name}" sent a body that is packed more than once')
        if response.is_success:
            return response
        try:
            raise _status_fault(provider, api_key, body, response, await _error_body(response)) from None
        finally:
            await response.aclose()

    response = await _within(provider, seconds or provider.timeout, answered(), lambda: "answer")
    try:
        yield response
    finally:
        with contextlib.suppress(Exception):
            await response.aclose()


async def _within(provider: Provider, seconds: float, work: Awaitable[T], verb: Callable[[], str]) -> T:
    """Return the result of work within so many seconds; `verb` names the work in the error. Errors become faults."""
    try:
        return await asyncio.wait_for(work, seconds)
    except TimeoutError:
        raise TimedOut(f'provider "{provider.name}" did not {verb()} within {seconds:.3g} s', seconds) from None
    except (ItemFault, ProviderFault, FieldRefused):
        raise
    except Exception as error:
        raise connection_fault(provider, error) from None


async def post(
    provider: Provider,
    api_key: str | None,
    path: str,
    body: dict[str, Any],
    limit: int,
    *,
    most_values: int | None = None,
    **options: Any,
) -> Any:
    """Return the JSON of a response within the time-out and `limit` bytes; `options` as in `open_response`.

    JSON of more commas than `most_values` is refused unread: while the library reads, no cancel is heard.
    """
    seconds = options.get("seconds") or provider.timeout

    answered = False

    async def read_body() -> bytes:
        nonlocal answered
        data = bytearray()
        async with open_response(provider, api_key, path, body, **options) as response:
            answered = True
            async for piece in response.aiter_bytes():
                data += piece
                if len(data) > limit:
                    raw = clean(data[:2000].decode("utf-8", "replace"))
                    raise ItemFault(f"the answer is longer than {limit:,} bytes", raw=raw)
        if most_values is not None and (count := data.count(b",")) > most_values:
            raise ItemFault(f"the answer has {count:,} values, more than {most_values:,}")
        return without_key(bytes(data), api_key)

    # The import on first use must not count against the endpoint's time-out.
    _client(provider.base_url)
    data = await _within(provider, seconds, read_body(), lambda: "finish" if answered else "answer")
    try:
        reply = json.loads(data)
    except (ValueError, RecursionError):
        start = clean(data[:80].decode("utf-8", "replace"))
        raise ProviderFault(f'provider "{provider.name}" did not answer with JSON but with {start!r}') from None
    if not isinstance(reply, (dict, list)):
        raise ProviderFault(f'provider "{provider.name}" answered with JSON that is not an object')
    refuse_error(provider, reply, api_key, body)
    return reply


def connection_fault(provider: Provider, error: BaseException) -> ProviderFault:
    """Return the fault of a connection that failed; it names the class of the innermost cause."""
    # Only the classes' names: messages of libraries may quote the request.
    cause, depth = error, 0
    while (inner := cause.__cause__ or cause.__context__) is not None and depth < 10:
        cause, depth = inner, depth + 1
    return ProviderFault(f'the connection to provider "{provider.name}" failed ({type(cause).__name__})')


def _status_fault(
    provider: Provider, api_key: str | None, body: dict[str, Any], response: "httpx2.Response", error: Any
) -> Exception:
    """Return the fault of a status; `error` is the body."""
    status, message = response.status_code, words_of(error, api_key)
    if fault := refusal(provider, status, words_of(error, api_key, _LOOKED_AT), body):
        return fault
    prefix = f'provider "{provider.name}" answered {status}'
    if status in (401, 403):
        # A firewall answers 403 to texts, too.
        why = f", or not what was sent: {message}" if status == 403 else ""
        return ProviderFault(
            f"{prefix}: it does not accept the key{why}", permanent=True, status=status, hint=_KEY_HINT
        )
    if status == 404:
        return ProviderFault(
            f'{prefix}: no such model ("{body.get("model")}") or path: {message}',
            permanent=True,
            status=status,
            hint=_ADDRESS_HINT,
        )
    if status < 400:
        return ProviderFault(f"{prefix}: a redirect, which is not followed", permanent=True, hint=_ADDRESS_HINT)
    return ProviderFault(
        f"{prefix}: {message}",
        retry_after=_LOADING_SECONDS
        if status == 503 and LOADING.search(message)
        else retry_after_seconds(response.headers.get("retry-after", "")),
        status=status,
    )


def refusal(
    provider: Provider, status: int | None, message: str, body: dict[str, Any]
) -> ItemFault | FieldRefused | None:
    """Return the fault of the request `body`, if the endpoint blames it, by its status or its words (`message`).

    `status` is None for an error without one: within a stream.
    """
    is_blamed = status in (400, 413, 422) or (status == 403 and FORBIDDEN.search(message) is not None)
    if not is_blamed and status not in (None, 429, 500):
        return None
    if status == 429:
        # More than the tokens of a minute: it would never go.
        return _too_long(body, message) if TOO_LONG_EVER.search(message) else None
    if limit := refused_limit(message, body):
        return FieldRefused(limit)
    for field, words in OPTIONAL:
        is_of_schema = field in (SCHEMA_BOUNDS, "response_format")
        present = "response_format" in body and _has_bounds(body) if field == SCHEMA_BOUNDS else field in body
        # Limits of prompts are named by words of other fields, too.
        if present and words.search(message) and (is_of_schema or (is_blamed and not TOO_LONG.search(message))):
            return FieldRefused(field)
    if is_too_long(message, is_blamed=is_blamed) or status == 413:
        return _too_long(body, message)
    if "input" in body and NO_VECTOR.search(message):
        return ItemFault(f'model "{body.get("model")}" of provider "{provider.name}" has no vector: {message[:_SHOWN]}')
    if is_blamed:
        return ItemFault(f'provider "{provider.name}" refused the request ({status}): {message[:_SHOWN]}')
    return None


def _too_long(body: dict[str, Any], message: str) -> ContextTooLong:
    return ContextTooLong(f'the prompt is too long for model "{body.get("model")}"', raw=message[:_SHOWN])


def _has_bounds(body: dict[str, Any]) -> bool:
    schema = json.dumps(body["response_format"])
    return "maxItems" in schema or "maxLength" in schema


def refuse_error(provider: Provider, reply: Any, api_key: str | None, body: dict[str, Any] | None = None) -> None:
    """Raise an error that came with a successful status (gateways; within streams); `body` is the request's."""
    if not isinstance(reply, dict):
        return
    error = reply.get("error") or _error_in_choice(reply) or (reply if _is_error(reply) else None)
    if not error:
        return
    status = _status_of(error)
    if body is not None and (fault := refusal(provider, status, words_of(error, api_key, _LOOKED_AT), body)):
        raise fault
    message = f'provider "{provider.name}" answered with an error: {words_of(error, api_key)}'
    raise ProviderFault(message, status=status)


def _is_error(reply: dict[str, Any]) -> bool:
    """Whether a reply has the fields of an error itself: SGLang, DashScope; Baidu, Cloudflare, MiniMax."""
    if reply.get("object") == "error" or (reply.get("message") and reply.get("code") and "choices" not in reply):
        return True
    if reply.get("choices") or reply.get("data"):
        return False
    inner = reply.get("base_resp")
    fields = reply | (inner if isinstance(inner, dict) else {})
    codes = {_folded(name): value for name, value in fields.items()}
    if any(_folded(codes.get(name)) in _FINE for name in ("errorcode", "errcode", "statuscode", "statusmsg")):
        return False
    return any(codes.get(name) for name in _ERROR_WORDS) or (
        reply.get("success") is False and bool(reply.get("errors"))
    )


def _error_in_choice(reply: dict[str, Any]) -> Any:
    """Return the error that stands where the message of a reply should."""
    choices = reply.get("choices")
    choice = choices[0] if isinstance(choices, list) and choices and isinstance(choices[0], dict) else {}
    message = choice.get("message") or choice.get("delta")
    content = message.get("content") if isinstance(message, dict) else None
    return content.get("error") if isinstance(content, dict) else None


def _folded(name: object) -> str:
    return str(name).replace("_", "").lower()


def _status_of(error: Any) -> int | None:
    """Return the status that an error names; None if it names none."""
    if not isinstance(error, dict):
        return None
    while isinstance(error.get("error"), dict):
        error = error["error"]
    named = [str(error.get(name)) for name in ("code", "status", "status_code", "type")]
    status = next((int(code) for code in named if re.fullmatch(r"[45]\d\d", code)), None)
    return 400 if status is None and any(re.search("invalid|bad_?request", name, re.I) for name in named) else status


def words_of(error: Any, api_key: str | None, most: int = _SHOWN) -> str:
    """Return the endpoint's own short text of an error, without the key or parts of it."""
    text = " ".join(_message(error, with_codes=most > _SHOWN).split()) or "no reason given"
    if api_key:
        text = text.replace(api_key, "…")
    return clean(re.sub(r"\b(sk|key|pk)-[\w*.-]{6,}", "…", text))[:most]


# Names of fields that describe an error, without "_" and capitals, the best first; and those that only errors have.
_FINE = ("0", "200", "ok", "success", "succeeded")
_ERROR_WORDS = ("errormsg", "errmsg", "errormessage", "statusmsg", "errordescription")
_WORDS = (
    *(
        "error",
        "message",
        "detail",
        "msg",
        *_ERROR_WORDS,
        "errors",
        "details",
        "reason",
        "fault",
        "faultstring",
        "description",
    ),
    *("response", "baseresp", "title", "code"),
)


def _message(error: Any, depth: int = 0, *, with_codes: bool = False) -> str:
    """Return the text of an error in the formats of OpenAI, TEI, FastAPI and proxies; empty for HTML. Codes say things, too."""
    if depth > _MAX_ERROR_DEPTH:
        return ""
    inner_message = partial(_message, depth=depth + 1, with_codes=with_codes)
    if isinstance(error, list):
        return "; ".join(map(inner_message, error[:5]))
    if isinstance(error, dict):
        by_name = {_folded(name): value for name, value in error.items()}
        # In place of the model's words.
        if isinstance(by_name.get("content"), dict) and (words := inner_message(by_name["content"])):
            return words
        words = next(filter(None, (inner_message(by_name[name]) for name in _WORDS if by_name.get(name))), "")
        if not words and depth:
            # {"max_tokens": ["must be less"]}
            by_field = {
                name: inner_message(value) for name, value in list(error.items())[:5] if isinstance(value, list)
            }
            words = "; ".join(f"{name}: {text}" for name, text in by_field.items() if text)
        place = error.get("loc")
        # OpenRouter passes on its provider's words; some providers give a code or a field alone.
        metadata = error.get("metadata")
        inner_words = inner_message(metadata.get("raw")) if isinstance(metadata, dict) else ""
        codes = [error.get(name) for name in ("param", "code")] if with_codes else []
        words += "".join(f" ({code})" for code in codes if isinstance(code, str) and code not in words)
        words += f": {inner_words}" if inner_words else ""
        if not isinstance(place, list):
            return words
        return ".".join(str(step) for step in place if isinstance(step, (str, int))) + f": {words}"
    if not isinstance(error, str) or _HTML.match(error):
        return ""
    if error.lstrip()[:1] in ("{", "["):
        # JSON within a text: LiteLLM, OpenRouter.
        try:
            return inner_message(json.loads(error)) or error
        except (ValueError, RecursionError):
            return error
    return error


def without_key(data: bytes, api_key: str | None) -> bytes:
    """Cut the key out of an answer, so that it gets into no table and no message."""
    if not api_key or len(api_key) < _MIN_SECRET:
        return data
    # JSON of some languages has a backslash before each slash.
    for form in {api_key, api_key.replace("/", "\\/")}:
        data = data.replace(form.encode(), "…".encode())
    return data


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
