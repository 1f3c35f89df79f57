"""A chat request to an endpoint, and its reply as it comes.

Runs in the session's background thread (`pg_graphrag.llm.endpoints.loop`): nothing here may touch the database.
"""

import asyncio
import contextlib
import json
import time
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

from pg_graphrag.ground.reasoning import without_reasoning
from pg_graphrag.llm.endpoints.faults import ItemFault, PromptCut, ProviderFault, Repetition, Silence, TimedOut
from pg_graphrag.llm.endpoints.providers import Provider
from pg_graphrag.llm.endpoints.refusals import SCHEMA_BOUNDS, SCHEMA_FIELDS
from pg_graphrag.llm.endpoints.repetition import RepetitionWatch, repetition
from pg_graphrag.llm.endpoints.requests import ASKERS_SCHEMA, MAX_TOKENS, Picture, count_tokens, without_bounds
from pg_graphrag.llm.endpoints.transport import (
    MAX_REPLY_BYTES,
    FieldRefused,
    connection_fault,
    note_refusal,
    open_response,
    refuse_error,
    refused_fields,
    without_key,
)
from pg_graphrag.text.letters import clean, one_line

# Finish reasons of our own: the answer repeats itself, or took longer than it may.
REPETITION, TIME = "repetition", "time"
# Finish reasons of a cut-off answer: by its length, or by a filter.
_CUT_OFF = ("length", "max_tokens", "model_length", "content_filter", TIME)
# Tokens a second of the slowest model that is waited for.
SLOWEST = 5.0
# Output tokens for the reasoning of a model, besides its answer; fields in which endpoints return the reasoning.
REASONING_TOKENS = 8192
_REASONING = ("reasoning_content", "reasoning", "thinking")
# No answer has more characters for each token.
_CHARACTERS_PER_TOKEN = 16
# The penalty of a retry for words that were said before.
RETRY_PENALTY = 0.5
# Tokens of the shortest context of a server, or half of it, which some keep of a longer prompt.
_SHORTEST_CONTEXT = 1000
# Tokens by which a count may differ from the estimate of a short prompt.
_TEMPLATE_TOKENS = 200
# Characters that are kept of a finish reason, and of the words of a refusal.
_MAX_REASON, _MAX_REFUSAL = 40, 1000


@dataclass(frozen=True, slots=True)
class Completion:
    """A model's answer. `finish_reason` is the endpoint's (``stop``, ``length`` …) or ours; tokens as it counted them.

    `first_seconds`: when the first of its `pieces` came. `counted`: whether the endpoint counted the tokens it read.
    `reasons`: whether the model thought before. `read_tokens`: how many tokens of the prompt were read, without those known
    from an earlier prompt, in the `read_seconds` until the first sign of a reply; 0 if unknown.
    """

    text: str
    finish_reason: str
    tokens_in: int
    tokens_out: int
    first_seconds: float = 0.0
    pieces: int = 1
    counted: bool = True
    reasons: bool = False
    read_tokens: int = 0
    read_seconds: float = 0.0
    is_llama_cpp: bool = False

    @property
    def cut_off(self) -> bool:
        """Whether the answer is cut off."""
        return self.finish_reason.lower() in _CUT_OFF

    @property
    def repeats(self) -> bool:
        """Whether the answer was stopped because it repeats itself."""
        return self.finish_reason == REPETITION


@dataclass(frozen=True, slots=True)
class Call:
    """What a chat request needs besides its provider. `schema`: {name, schema} or None for prose."""

    model: str
    messages: Sequence[dict[str, str]]
    schema: dict[str, Any] | None = None
    temperature: float = 0.0
    max_tokens: int = MAX_TOKENS
    retry: int = 0
    # Time for the whole answer; None: the provider's time-out for each silence, and the slowest model's for the whole.
    seconds: float | None = None
    # Time until the answer begins, where it is less.
    first: float | None = None
    # Shown with the last message.
    pictures: Sequence[Picture] = ()
    # Whether the server is known to be llama.cpp's, which can be told to notice that nobody waits.
    is_llama_cpp: bool = False


# By address and model: the most tokens that were read, and models that reason.
_most_read: dict[tuple[str, str], int] = {}
_reasoning_models: set[tuple[str, str]] = set()


async def chat(
    provider: Provider, api_key: str | None, call: Call, give: Callable[[str], None] | None = None
) -> Completion:
    """Return the completion of one chat request, read as a stream, which ends as soon as something goes wrong.

    `give` gets the pieces as they come.

    Raises ProviderFault: connection, status 401, 403, 404, 408, 409, 429, 5xx, or a body that is not the API's; `TimedOut`.
    Raises ItemFault: an empty answer; `ContextTooLong` when the prompt does not fit, `PromptCut` when it was not read
      whole.
    """
    item: str | Completion = ""
    async with contextlib.aclosing(chat_stream(provider, api_key, call)) as items:
        async for item in items:
            if give is not None and isinstance(item, str):
                give(item)
    assert isinstance(item, Completion)
    return item


def completion(provider: Provider, messages: Sequence[dict[str, str]], body: Any) -> Completion:
    """Read the body of a chat completion; `messages` are those of the request. Raises as `chat`."""
    try:
        choice = body["choices"][0]
        message = choice["message"]
        text, refusal_text = clean(_message_text(message)), _text(message.get("refusal"))
        reason = _reason(choice) or "stop"
    except (KeyError, IndexError, TypeError, AttributeError):
        raise ProviderFault(
            f'provider "{provider.name}" answered with something other than a chat completion'
        ) from None
    usage = body.get("usage") if isinstance(body.get("usage"), dict) else {}
    if (end := repetition(text)) is not None:
        text, reason = text[:end], REPETITION
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
        content = "".join(
            part["text"] for part in content if isinstance(part.get("text"), str) and part.get("type") not in _REASONING
        )
    return content if isinstance(content, str) else ""


def _message_text(message: dict[str, Any], *, takes_calls: bool = True) -> str:
    """Return the text of a message or of a piece of one; where JSON is asked for, some models give it as a tool's arguments."""
    if not (message.get("tool_calls") or message.get("function_call")):
        return _content_text(message.get("content"))
    calls = [call.get("function") for call in message.get("tool_calls") or () if isinstance(call, dict)]
    arguments = [call.get("arguments") for call in [*calls, message.get("function_call")] if isinstance(call, dict)]
    texts = [part if isinstance(part, str) else json.dumps(part, ensure_ascii=False) for part in arguments if part]
    return _content_text(message.get("content")) + ("".join(texts) if takes_calls else "")


def _whole_characters(text: str) -> tuple[str, str]:
    """Return the complete characters of a piece, and the half of a surrogate pair at its end."""
    if text.isascii() and "\0" not in text:
        return text, ""
    half = text[-1:] if "\ud800" <= text[-1:] < "\udc00" else ""
    complete = text.removesuffix(half).encode("utf-16-le", "surrogatepass").decode("utf-16-le", "surrogatepass")
    return clean(complete), half


def _refuse_unfinished(provider: Provider, text: str, refusal_text: str, reason: str) -> None:
    """Raise the fault of an answer that ended without text or with an error."""
    if reason == "error":
        raise ProviderFault(f'provider "{provider.name}" broke off its answer')
    if not text.strip() and refusal_text.strip():
        raise Silence(f"the model refused to answer: {one_line(refusal_text)}")
    if not text.strip() and reason == REPETITION:
        raise Repetition("")
    if not text.strip():
        raise Silence(f"the model gave an empty answer (finish_reason {reason})")


def chat_body(
    provider: Provider, call: Call, refused: frozenset[str] = frozenset(), stream: bool = False
) -> dict[str, Any]:
    """Return the body of a chat request, without the fields that its model refuses."""
    messages: list[dict[str, Any]] = list(call.messages)
    if call.pictures:
        parts = [{"type": "text", "text": messages[-1]["content"]}, *(picture.part for picture in call.pictures)]
        messages[-1] = messages[-1] | {"content": parts}
    body: dict[str, Any] = {"model": call.model, "messages": messages, "temperature": call.temperature}
    if call.retry:
        body["frequency_penalty"] = RETRY_PENALTY
    limit = "max_completion_tokens" if "max_tokens" in refused else "max_tokens"
    if not provider.chat_request.keys() & {"max_tokens", "max_completion_tokens"}:
        body[limit] = _output_limit(provider, call, refused)
    if stream and "stream" not in refused:
        body |= {"stream": True, "stream_options": {"include_usage": True}}
        if call.is_llama_cpp:
            # It notices that nobody waits when it has something to send: now after each batch of the prompt.
            body["return_progress"] = True
    if call.schema is not None:
        schema = without_bounds(call.schema) if SCHEMA_BOUNDS in refused else call.schema
        if provider.json == "schema":
            body["response_format"] = {"type": "json_schema", "json_schema": {**schema, "strict": True}}
        elif provider.json == "object":
            body["response_format"] = {"type": "json_object"}
    body |= provider.chat_request
    return {name: value for name, value in body.items() if value is not None and name not in refused}


def _output_limit(provider: Provider, call: Call, refused: frozenset[str]) -> int:
    """Return the most tokens of an answer; what a model needs to reason comes on top."""
    reasons = "max_tokens" in refused or (provider.base_url, call.model) in _reasoning_models
    return call.max_tokens + (REASONING_TOKENS if reasons else 0)


async def chat_stream(provider: Provider, api_key: str | None, call: Call) -> AsyncGenerator[str | Completion]:
    """Yield the pieces of an answer as they come, then the `Completion` of the whole.

    Its finish reason is `REPETITION` where it was stopped for that; the text then ends before. It is `TIME` where the answer
    took longer than it may, and ``length`` also where the endpoint went on beyond the limit.

    Raises ProviderFault, ItemFault: as `chat`. A stream that breaks off raises too: the answer is incomplete.
    """
    spent = 0
    times = _Times.of(provider, call)
    while True:
        answer = _Answer(provider, call)
        try:
            async with contextlib.aclosing(_events(provider, api_key, call, answer, times)) as events:
                async for together in events:
                    for data in together:
                        if piece := answer.add(data, api_key):
                            yield piece
                        if answer.reason:
                            break
                    if answer.reason:
                        break
        except FieldRefused as error:
            if answer.has_begun:
                raise ProviderFault(f'provider "{provider.name}" broke off its answer') from None
            if call.schema is not None and call.schema["name"] == ASKERS_SCHEMA and error.field in SCHEMA_FIELDS:
                # One asker's schema must not cost others theirs.
                bare = without_bounds(call.schema) if error.field == SCHEMA_BOUNDS else call.schema
                call = replace(call, schema=None if bare == call.schema else bare)
            else:
                note_refusal(provider, call.model, error.field)
            continue
        if answer.is_reasoning_only and (provider.base_url, call.model) not in _reasoning_models:
            # Its limit was spent before the answer began: once more, with room for both.
            _reasoning_models.add((provider.base_url, call.model))
            spent += answer.tokens_out
            continue
        yield answer.completion(spent)
        return


@dataclass(frozen=True, slots=True)
class _Times:
    """Seconds of silence that are waited for, and when (monotonic seconds) an answer must have begun and ended."""

    silence: float
    begins: float
    end: float

    @classmethod
    def of(cls, provider: Provider, call: Call) -> "_Times":
        now, silence = time.monotonic(), min(call.seconds or provider.timeout, provider.timeout)
        end = now + (call.seconds or silence + call.max_tokens / SLOWEST)
        return cls(silence, end if call.first is None else now + call.first, end)


class _Answer:
    """An answer as it comes."""

    def __init__(self, provider: Provider, call: Call) -> None:
        self._provider, self._call = provider, call
        self._pieces: list[str] = []
        self._size = 0
        self._half = ""
        self._reasoning = 0
        self._read = 0
        self._refusal = ""
        self._usage: dict[str, Any] = {}
        self._watch = RepetitionWatch()
        self._reasoning_watch = RepetitionWatch()
        self._end: int | None = None
        self._finish = ""
        self._began = time.monotonic()
        self._most_characters = _CHARACTERS_PER_TOKEN * (call.max_tokens + REASONING_TOKENS)
        self._first_seconds = self._sign_seconds = 0.0
        # The request's body; why no more is read.
        self.sent: dict[str, Any] = {}
        self.reason = ""
        self.is_llama_cpp = False

    @property
    def has_begun(self) -> bool:
        """Whether anything of the answer itself came."""
        return bool(self._size)

    @property
    def has_sign(self) -> bool:
        """Whether the prompt was read, as an answer or thoughts before it show."""
        return bool(self._sign_seconds)

    def add(self, data: bytes, api_key: str | None) -> str:
        """Take an event of the stream; return the piece of the answer in it."""
        if data == b"[DONE]":
            self._finish = self._finish or "stop"
            return ""
        try:
            event = json.loads(data)
            refuse_error(self._provider, event, api_key, self.sent)
            if isinstance(event.get("usage"), dict):
                self._usage = event["usage"]
            (choice, *_) = event.get("choices") or [{}]
            # One complete message where the endpoint does not stream.
            message = choice.get("delta") or choice.get("message") or {}
            piece, self._half = _whole_characters(
                self._half + _message_text(message, takes_calls=self._call.schema is not None)
            )
            refused = _text(message["refusal"]) if message.get("refusal") else ""
            reasoning = next((_text(message[name]) for name in _REASONING if message.get(name)), "")
            self._finish = _reason(choice) or self._finish or ("stop" if "message" in choice else "")
        except (ValueError, AttributeError, TypeError, KeyError, IndexError, RecursionError):
            raise ProviderFault(
                f'provider "{self._provider.name}" answered with something other than a chat completion'
            ) from None
        # One event may be as long as the whole.
        piece = piece[: max(0, self._most_characters - self._read)]
        self._read += len(piece)
        if refused or reasoning:
            self._refusal += refused[: _MAX_REFUSAL - len(self._refusal)]
            self._read += len(refused) + len(reasoning)
            self._reasoning += len(reasoning)
        if (piece or reasoning) and not self._sign_seconds:
            self._sign_seconds = time.monotonic() - self._began
        if reasoning and self._reasoning_watch.feed(reasoning) is not None:
            self.reason = REPETITION
        if piece:
            if not self._first_seconds:
                self._first_seconds = time.monotonic() - self._began
            self._pieces.append(piece)
            self._size += len(piece)
            self._end = self._watch.feed(piece)
        if self._end is not None:
            self.reason = REPETITION
        elif self._read >= self._most_characters:
            self.reason = "length"
        return piece

    @property
    def _answer_text(self) -> str:
        return "".join(self._pieces)[: self._end]

    @property
    def is_reasoning_only(self) -> bool:
        """Whether the limit was reached before the answer began."""
        text = self._answer_text.strip()
        is_inside = bool(text) and not without_reasoning(text, is_prose=True).strip()
        return self._finish.lower() in _CUT_OFF and (is_inside or (not text and bool(self._reasoning)))

    @property
    def tokens_out(self) -> int:
        """Tokens of the answer."""
        return count_tokens(self._usage.get("completion_tokens"), self._answer_text)

    def completion(self, tokens_spent: int) -> Completion:
        """Return the whole; `tokens_spent` were for an answer that did not come. Raises as `chat`."""
        reason, text = self.reason or self._finish or "error", self._answer_text
        if reason == TIME and not text.strip():
            seconds = time.monotonic() - self._began
            raise TimedOut(
                f'provider "{self._provider.name}" began no answer within {seconds:.3g} s', seconds, has_begun=True
            )
        _refuse_unfinished(self._provider, text, self._refusal, reason)
        prompt = json.dumps(list(self._call.messages), ensure_ascii=False)
        tokens_in = count_tokens(self._usage.get("prompt_tokens"), prompt)
        most_read = max(tokens_in, _most_read.get((self._provider.base_url, self._call.model), 0))
        _most_read[self._provider.base_url, self._call.model] = most_read
        # A server that counts only uncached tokens reports fewer now and then; one that cuts prompts reports the same
        # each time.
        is_steady = tokens_in >= max(_SHORTEST_CONTEXT, 0.9 * most_read)
        if "prompt_tokens" in self._usage and is_steady and _is_cut(self._call.messages, tokens_in):
            raise PromptCut(self._provider.name, self._call.model, tokens_in)
        return Completion(
            text,
            reason,
            tokens_in,
            tokens_spent + self.tokens_out,
            self._first_seconds,
            len(self._pieces),
            "prompt_tokens" in self._usage,
            bool(self._reasoning) or bool(tokens_spent),
            self._read_tokens(tokens_in),
            self._sign_seconds,
            self.is_llama_cpp,
        )

    def _read_tokens(self, tokens_in: int) -> int:
        """Return how many tokens of the prompt were read before the first sign; 0 where the model may have thought unseen."""
        details = [self._usage.get(f"{part}_tokens_details") for part in ("prompt", "completion")]
        counted, hidden = (part if isinstance(part, dict) else {} for part in details)
        if hidden.get("reasoning_tokens") and not self._reasoning:
            return 0
        if len(self._pieces) <= 1 and not self._reasoning:
            # What came as a whole took the time to write it, too.
            return 0
        # A second try begins with the same text as the first.
        cached = counted.get("cached_tokens") or 0
        return 0 if self._call.retry or not isinstance(cached, int) else max(0, tokens_in - cached)


def _is_cut(messages: Sequence[dict[str, str]], tokens_read: int) -> bool:
    """Whether a prompt has more tokens than an endpoint reports to have read.

    No tokenizer makes tokens of so many characters on average. A round number is most likely the context length.
    """
    text = "".join(message["content"] for message in messages)
    ascii_count = sum(map(str.isascii, text))
    least = ascii_count / 8 + (len(text) - ascii_count) / 5
    likely = ascii_count / 5.5 + (len(text) - ascii_count) / 3
    is_round = min(tokens_read % 512, -tokens_read % 512) <= 1
    return 0 < tokens_read < (likely if is_round else least) - _TEMPLATE_TOKENS


class _Inflow:
    """A body that a task of its own reads: everything that has come is taken together, and waited for once."""

    def __init__(self, parts: AsyncIterator[bytes]) -> None:
        self._parts: list[bytes] = []
        self._has_come = asyncio.Event()
        self._error: Exception | None = None
        self._is_at_end = False
        self._task = asyncio.create_task(self._read(parts))

    async def _read(self, parts: AsyncIterator[bytes]) -> None:
        try:
            async for part in parts:
                if part:
                    self._parts.append(part)
                    self._has_come.set()
        except Exception as error:
            self._error = error
        self._is_at_end = True
        self._has_come.set()

    async def take(self, seconds: float) -> bytes:
        """Return what has come, nothing at the end. Raises TimeoutError, or the error that ended the body after its data
        are taken.
        """
        if not self._parts and not self._is_at_end:
            async with asyncio.timeout(seconds):
                await self._has_come.wait()
        self._has_come.clear()
        came = b"".join(self._parts)
        self._parts.clear()
        if not came and self._error is not None:
            raise self._error
        return came

    async def aclose(self) -> None:
        """Read no more."""
        self._task.cancel()
        await asyncio.wait([self._task])


async def _events(
    provider: Provider, api_key: str | None, call: Call, answer: _Answer, times: _Times
) -> AsyncGenerator[list[bytes]]:
    """Yield the data of a stream's server-sent events that came together, or the one answer of an endpoint that does not stream.

    Lines are split at line feeds only, since data may hold other breaks. Comments keep a connection open, but are no answer.
    """
    silence, begins, end = times.silence, times.begins, times.end
    answer.sent = chat_body(provider, call, refused_fields(provider, call.model), stream=True)
    seconds = min(silence, begins - time.monotonic())
    async with (
        open_response(provider, api_key, "/chat/completions", answer.sent, seconds=seconds) as response,
        contextlib.aclosing(_Inflow(response.aiter_bytes())) as inflow,
    ):
        answer.is_llama_cpp = response.headers.get("server") == "llama.cpp"
        is_json = response.headers.get("content-type", "").startswith("application/json")
        buffer, at_end, last = b"", False, time.monotonic()
        beginning, has_data, is_error = b"", False, False
        while not at_end:
            try:
                until = min(end, last + silence, end if answer.has_begun else begins)
                came = await inflow.take(max(0.0, until - time.monotonic()))
                buffer, at_end = buffer + came, not came
            except TimeoutError:
                if until == end and answer.has_begun:
                    answer.reason = TIME
                    return
                waited = silence if until == last + silence else until - last
                message = f'provider "{provider.name}" sent nothing for {waited:.3g} s'
                raise TimedOut(message, waited, answer.has_sign) from None
            except Exception as error:
                raise connection_fault(provider, error) from None
            if len(buffer) > MAX_REPLY_BYTES:
                start = without_key(buffer, api_key)[:2000]
                raise ItemFault("the model's answer has no end", raw=clean(start.decode("utf-8", "replace")))
            beginning = beginning or without_key(buffer, api_key)[:80]
            if is_json and at_end:
                has_data = True
                yield [without_key(buffer, api_key)]
            if is_json:
                continue
            lines = buffer.split(b"\n")
            # The last line is complete only at the end.
            buffer = b"" if at_end else lines.pop()
            together = []
            for line in lines:
                if line.startswith(b"event:"):
                    is_error = line[6:].strip() == b"error"
                if line.startswith(b"data:"):
                    last, has_data = time.monotonic(), True
                    data = without_key(line[5:].strip(), api_key)
                    # LM Studio; an error that does not say so itself.
                    if is_error and data[:1] not in (b"{", b'"'):
                        data = json.dumps(data.decode("utf-8", "replace")).encode()
                    together.append(b'{"error": %s}' % data if is_error else data)
                    is_error = False
            if together:
                yield together
        if not has_data:
            words = clean(beginning.decode("utf-8", "replace"))
            raise ProviderFault(f'provider "{provider.name}" did not answer with JSON but with {words!r}') from None
