"""Requests to models, the tasks that make them, and the schemas of their replies."""

import hashlib
from collections.abc import Callable, Generator, Iterable
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar, TypeVar

from pg_graphrag.llm.endpoints.faults import ContextTooLong, ItemFault, Waiting

T = TypeVar("T")

# Bytes of UTF-8 for each token, where an endpoint does not count tokens.
BYTES_PER_TOKEN = 4

# How often a worker asks again after an unusable reply; each time at a higher temperature.
RETRIES = 2
RETRY_TEMPERATURE = 0.3
# Output tokens of a request that does not say how many.
MAX_TOKENS = 4000
# Tokens that a picture counts as before an endpoint has counted them.
PICTURE_TOKENS = 1000
# A text that no endpoint fails on; and the time and output tokens of a probe, sent when another text had a fault.
PROBE, PROBE_SECONDS, PROBE_TOKENS = "text", 20.0, 16


@dataclass(frozen=True, slots=True)
class Picture:
    """A picture that a model is shown: its media type, and its bytes in Base64."""

    media_type: str
    base64: str = field(repr=False)

    @property
    def part(self) -> dict[str, Any]:
        """The part of a message that shows it."""
        return {"type": "image_url", "image_url": {"url": f"data:{self.media_type};base64,{self.base64}"}}


@dataclass(frozen=True, slots=True)
class ChatRequest:
    """One chat request.

    `parse` (answer, whether it was cut off) returns the value or raises `ItemFault`; accepted answers are cached. `role` is
    the option that names provider and model, also in the accounts. `max_tokens` is the limit of the answer. `retry`: how
    often the same was asked before; then it is asked in another way. `blames_endpoint`: whether silence counts against the
    endpoint, not the item. `variant`: distinguishes it from other requests with the same messages. `asked_tokens`: the
    limit that an asker gave, which no option raises. `pictures` are shown with the last message.
    """

    role: str
    messages: tuple[dict[str, str], ...]
    parse: Callable[[str, bool], Any]
    schema: dict[str, Any] | None = None
    cacheable: bool = True
    max_tokens: int = MAX_TOKENS
    retry: int = 0
    blames_endpoint: bool = True
    variant: str = ""
    asked_tokens: int | None = None
    pictures: tuple[Picture, ...] = ()

    @property
    def whole_variant(self) -> str:
        """`variant`, and what tells its pictures from others."""
        return self.variant + "".join(hashlib.sha256(picture.base64.encode()).hexdigest() for picture in self.pictures)

    @property
    def purpose(self) -> str:
        """What accounting calls it."""
        return self.role

    @property
    def temperature(self) -> float:
        """The temperature: at 0 the same question has the same answer."""
        return min(RETRY_TEMPERATURE * self.retry, 1.0)


@dataclass(frozen=True, slots=True)
class EmbedRequest:
    """Texts to embed with a provider's model; the reply's value is (n, dimensions) float32.

    `is_probe`: whether the text is a word that no endpoint stumbles over, so that an error, or silence for `PROBE_SECONDS`, is
    the endpoint's.
    """

    provider: str
    model: str
    texts: tuple[str, ...]
    dimensions: int | None
    is_probe: bool = False
    purpose: ClassVar[str] = "embedding"


@dataclass(frozen=True, slots=True)
class RerankRequest:
    """Texts to score against a query; the reply's value is a list of floats."""

    provider: str
    model: str
    query: str
    texts: tuple[str, ...]
    purpose: ClassVar[str] = "rerank"


# The purpose, in the accounts, of checks of an endpoint.
CHECK = "check"


@dataclass(frozen=True, slots=True)
class ModelsRequest:
    """Asks an endpoint for the names of its models, which costs nothing; the reply's value is a list of them."""

    provider: str
    model: str = ""
    purpose: ClassVar[str] = CHECK


Request = ChatRequest | EmbedRequest | RerankRequest | ModelsRequest


def probe_of(request: Request) -> ChatRequest | RerankRequest | None:
    """Return a request that no endpoint stumbles over, to the model of another; None where that is not known to be of a text."""
    if isinstance(request, ChatRequest):
        messages = ({"role": "user", "content": "Say OK."},)
        tokens = PROBE_TOKENS
        return ChatRequest(
            request.role, messages, lambda text, _: text, cacheable=False, max_tokens=tokens, asked_tokens=tokens
        )
    if isinstance(request, RerankRequest):
        return RerankRequest(request.provider, request.model, PROBE, (PROBE,))
    return None


@dataclass(frozen=True, slots=True)
class Reply:
    """An answer: `text` as the model gave it, `value` as the request parsed it, `completion` as it came, unless cached."""

    value: Any
    text: str = ""
    cached: bool = False
    completion: Any = None
    cut_off: bool = False


# Yields requests, is sent the reply (or thrown the fault) of each, and returns its result.
Task = Generator[Request, Reply, Any]


def asked(request: Request) -> Task:
    """The task of one request, whose result is the reply."""
    reply: Reply = yield request
    return reply


def asked_again(request: ChatRequest) -> Generator[ChatRequest, Reply, Reply]:
    """Return the reply to a request, asked again while replies are unusable, `RETRIES` times at most; raise the last fault."""
    for retry in range(RETRIES):
        try:
            return (yield replace(request, retry=retry))
        except ContextTooLong:
            raise
        except ItemFault:
            continue
    return (yield replace(request, retry=RETRIES))


def in_turn(tasks: Iterable[Generator[ChatRequest, Reply, T]]) -> Generator[ChatRequest, Reply, list[T]]:
    """Run tasks one after another and return their results; while one waits for a later answer, the others are asked."""
    results: list[T] = []
    fault: Waiting | None = None
    for task in tasks:
        try:
            results.append((yield from task))
        except Waiting as error:
            fault = error if fault is None else fault.with_keys(error)
    if fault is not None:
        raise fault
    return results


def estimated_tokens(request: Request) -> int:
    """Return an estimate of a request's tokens: a quarter of its bytes."""
    if isinstance(request, ModelsRequest):
        return 0
    if isinstance(request, ChatRequest):
        texts, pictures = [message["content"] for message in request.messages], len(request.pictures)
    else:
        texts, pictures = list(request.texts), 0
    return PICTURE_TOKENS * pictures + sum(len(text.encode()) for text in texts) // BYTES_PER_TOKEN + 1


def count_tokens(api_count: Any, text: str) -> int:
    """Return the endpoint's count of tokens; without one, a quarter of the bytes."""
    if isinstance(api_count, int) and not isinstance(api_count, bool) and api_count >= 0:
        return min(api_count, 2**31 - 1)
    return len(text.encode("utf-8", "replace")) // BYTES_PER_TOKEN + 1


# JSON schemas for replies, for endpoints that enforce one.
Schema = dict[str, Any]

STRING: Schema = {"type": "string"}


# What bounds a value. Some endpoints refuse schemas with them.
_BOUNDS = ("maxItems", "maxLength")


def text_of(most: int) -> Schema:
    """Return the schema of a text with a maximum length in characters."""
    return STRING | {"maxLength": most}


def list_of(item: Schema, most: int | None = None) -> Schema:
    """Return the schema of a list, of at most `most` items."""
    schema: Schema = {"type": "array", "items": item}
    return schema if most is None else schema | {"maxItems": most}


def without_bounds(schema: Any) -> Any:
    """Return a schema without the lengths of its lists and texts."""
    if isinstance(schema, dict):
        # A property may have such a name.
        return {
            name: without_bounds(value)
            for name, value in schema.items()
            if name not in _BOUNDS or not isinstance(value, int)
        }
    return [without_bounds(value) for value in schema] if isinstance(schema, list) else schema


def object_of(**properties: Schema) -> Schema:
    """Return the schema of an object that has all of the properties and no other."""
    return {"type": "object", "properties": properties, "required": list(properties), "additionalProperties": False}


def reply_of(name: str, **properties: Schema) -> dict[str, Any]:
    """Return what a request takes as its schema: a name, and the schema of an object."""
    return {"name": name, "schema": object_of(**properties)}


# The name of a schema that the asker wrote: an endpoint's refusal of it says nothing about others.
ASKERS_SCHEMA = "asked_for"

STRINGS = list_of(STRING)
