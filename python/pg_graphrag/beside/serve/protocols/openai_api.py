"""An OpenAI-compatible API: ``/v1/models`` and ``/v1/chat/completions``. A model is a corpus, or a corpus in a mode."""

import json
import time
import uuid
from collections.abc import AsyncIterator, Mapping
from typing import Annotated, Any, Literal

from fastapi import APIRouter, Request
from fastapi.responses import JSONResponse, Response
from pydantic import BaseModel, Field

from pg_graphrag.beside.serve.http_errors import Refusal, openai_error, refusal
from pg_graphrag.beside.serve.protocols import chat
from pg_graphrag.beside.serve.protocols.api import events
from pg_graphrag.beside.serve.service import Service, Who


class Part(BaseModel):
    """A part of a message. Texts are read, and what a model refused; others are refused."""

    type: str
    text: str | None = None
    refusal: str | None = None


class Message(BaseModel):
    """A message. What tools said to another model has no part in an answer."""

    role: Literal["system", "developer", "user", "assistant", "tool", "function"]
    content: str | list[Part] | None = None

    @property
    def text(self) -> str:
        """The message as one text."""
        if isinstance(self.content, list):
            if other := [part.type for part in self.content if part.type not in ("text", "refusal")]:
                raise Refusal(400, "22023", f"a message cannot hold {other[0]!r}", "Send text alone.")
            return "\n".join(part.text or part.refusal or "" for part in self.content)
        return self.content or ""


class JSONSchema(BaseModel):
    """A form of the answer, by name."""

    schema_: dict[str, Any] = Field(alias="schema")


class ResponseFormat(BaseModel):
    """Text, any JSON object, or JSON of a schema."""

    type: Literal["text", "json_object", "json_schema"]
    json_schema: JSONSchema | None = None


class StreamOptions(BaseModel):
    """What a stream has besides."""

    include_usage: bool | None = None


class Completion(BaseModel):
    """A request. Settings of sampling are the corpus' own: such fields are accepted and change nothing."""

    model: str = Field(max_length=300)
    messages: list[Message] = Field(min_length=1, max_length=chat.MAX_MESSAGES)
    stream: bool | None = None
    stream_options: StreamOptions | None = None
    n: int | None = Field(None, ge=1, le=1)
    max_tokens: int | None = Field(None, ge=1)
    max_completion_tokens: int | None = Field(None, ge=1)
    stop: str | Annotated[list[str], Field(max_length=16)] | None = None
    response_format: ResponseFormat | None = None
    tool_choice: Any = None
    function_call: Any = None
    logprobs: bool | None = None
    modalities: list[str] | None = None

    def check(self) -> None:
        """Refuse what a reply would have to hold and cannot: 400."""
        if {str(self.tool_choice), str(self.function_call)} - {"None", "none", "auto"}:
            raise Refusal(400, "22023", "these models call no tools", "Leave tool_choice out.")
        if self.logprobs:
            raise Refusal(400, "22023", "these models tell no logprobs", "Leave logprobs out.")
        if other := [kind for kind in self.modalities or () if kind != "text"]:
            raise Refusal(400, "22023", f"these models give no {other[0]!r}", 'Leave modalities out, or send ["text"].')

    @property
    def as_chat(self) -> chat.Chat:
        """The request, in the form that both protocols share."""
        return chat.Chat(
            self.model,
            [chat.Message(message.role, message.text) for message in self.messages],
            [self.stop] if isinstance(self.stop, str) else self.stop or (),
            self.max_completion_tokens or self.max_tokens,
            self._schema,
        )

    @property
    def _schema(self) -> dict[str, Any] | None:
        form = self.response_format
        if form is None or form.type == "text":
            return None
        if form.type == "json_schema" and form.json_schema is None:
            raise Refusal(400, "22023", "response_format has no json_schema", "Give its name and schema.")
        return {} if form.json_schema is None else form.json_schema.schema_


def router(service: Service) -> APIRouter:
    """Return the routes."""
    api = APIRouter(prefix="/v1", tags=["OpenAI"])

    @api.get("/models")
    async def models(caller: Who) -> dict[str, Any]:
        """List the models of each corpus: its name alone is its mode `hybrid`."""
        return {"object": "list", "data": [_model(name) for name in await chat.models(service, caller)]}

    @api.get("/models/{name:path}")
    async def model(caller: Who, name: str) -> dict[str, Any]:
        """Describe a model."""
        await chat.check_model(service, caller, name)
        return _model(name)

    @api.post("/chat/completions", response_model=None)
    async def complete(caller: Who, request: Completion, connection: Request) -> Response:
        """Answer the last message from the documents. Citations are annotations."""
        request.check()
        identity = {"id": f"chatcmpl-{uuid.uuid4().hex}", "created": int(time.time()), "model": request.model}
        items = await chat.reply(service, caller, request.as_chat, connection, streams=bool(request.stream))
        if request.stream:
            has_usage = request.stream_options is not None and bool(request.stream_options.include_usage)
            return events(_chunks(items, identity, has_usage=has_usage))
        text, outcome = await chat.whole(items, connection)
        message = {
            "role": "assistant",
            "content": None if outcome.is_refusal else text,
            "refusal": text if outcome.is_refusal else None,
            "annotations": outcome.annotations,
        }
        choice = {"index": 0, "message": message, "finish_reason": outcome.reason, "logprobs": None}
        body = {**identity, "object": "chat.completion", "choices": [choice], "usage": _usage(outcome)}
        return JSONResponse(body)

    return api


def _model(name: str) -> dict[str, Any]:
    return {"id": name, "object": "model", "created": 0, "owned_by": "pg_graphrag"}


def _usage(outcome: chat.Outcome) -> dict[str, int]:
    tokens_in, tokens_out = outcome.tokens
    return {"prompt_tokens": tokens_in, "completion_tokens": tokens_out, "total_tokens": tokens_in + tokens_out}


async def _chunks(
    items: AsyncIterator[str | chat.Outcome], identity: Mapping[str, Any], *, has_usage: bool
) -> AsyncIterator[bytes]:
    def chunk(choices: list[dict[str, Any]], usage: dict[str, int] | None = None) -> bytes:
        # With usage asked for, each chunk has the field.
        return _data(
            {**identity, "object": "chat.completion.chunk", "choices": choices}
            | ({"usage": usage} if has_usage else {})
        )

    def delta(content: Mapping[str, Any], finish_reason: str | None = None) -> bytes:
        return chunk([{"index": 0, "delta": content, "finish_reason": finish_reason, "logprobs": None}])

    try:
        yield delta({"role": "assistant", "content": ""})
        async for item in items:
            if isinstance(item, str):
                yield delta({"content": item})
                continue
            if item.is_refusal:
                yield delta({"refusal": item.text})
            if item.annotations:
                yield delta({"annotations": item.annotations})
            yield delta({}, item.reason)
            if has_usage:
                yield chunk([], _usage(item))
    except Exception as error:
        yield _data(openai_error(refusal(error)))
    yield b"data: [DONE]\n\n"


def _data(value: Mapping[str, Any]) -> bytes:
    return f"data: {json.dumps(value, ensure_ascii=False)}\n\n".encode()
