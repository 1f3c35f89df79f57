"""Ollama's API, for programs that know only it: ``/api/tags``, ``/api/chat``, ``/api/generate`` and related calls."""

import hashlib
import time
from collections.abc import AsyncIterator, Callable
from datetime import UTC, datetime
from typing import Annotated, Any, Literal

from fastapi import APIRouter, Request
from fastapi.responses import JSONResponse, Response, StreamingResponse
from pydantic import BaseModel, Field
from pydantic_core import to_json

from pg_graphrag.beside.serve.callers import Caller
from pg_graphrag.beside.serve.http_errors import Refusal, ollama_error, refusal
from pg_graphrag.beside.serve.protocols import chat
from pg_graphrag.beside.serve.service import Service, Who

Name = Annotated[str, Field(max_length=300)]
# The version of Ollama whose API this is: clients ask for a least one.
VERSION = "0.12.0"
_BEGAN = "2026-01-01T00:00:00Z"


class OllamaMessage(BaseModel):
    """A message."""

    role: Literal["system", "user", "assistant", "tool"]
    content: str | None = None
    images: list[Any] | None = None


class OllamaOptions(BaseModel):
    """Options. Those of sampling are the corpus' own: they are accepted and change nothing."""

    num_predict: int | None = None
    stop: str | Annotated[list[str], Field(max_length=16)] | None = None


class _Asked(BaseModel):
    model: Name
    stream: bool | None = None
    format: Literal["", "json"] | dict[str, Any] | None = None
    options: OllamaOptions | None = None

    def chat(self, messages: list[chat.Message]) -> chat.Chat:
        """The request, in the form that both protocols share. There are no annotations here, so sources stand in the text."""
        options = self.options or OllamaOptions()
        stop, limit = options.stop, options.num_predict
        return chat.Chat(
            self.model,
            messages,
            [stop] if isinstance(stop, str) else stop or (),
            limit if limit is not None and limit > 0 else None,
            {} if self.format == "json" else self.format or None,
            with_sources=True,
        )


class OllamaChat(_Asked):
    """A conversation."""

    messages: list[OllamaMessage] | None = Field(None, max_length=chat.MAX_MESSAGES)


class OllamaGenerate(_Asked):
    """A prompt."""

    prompt: str | None = None
    system: str | None = None
    images: list[Any] | None = None


class OllamaShow(BaseModel):
    """The name of a model."""

    model: Name | None = None
    name: Name | None = None


def router(service: Service) -> APIRouter:
    """Return the routes."""
    api = APIRouter(prefix="/api", tags=["Ollama"])

    @api.get("/version")
    def version(_: Who) -> dict[str, str]:
        """Say which version's API this is."""
        return {"version": VERSION}

    @api.get("/tags")
    async def tags(caller: Who) -> dict[str, Any]:
        """List the models, as `/v1/models` does."""
        return {"models": [_model(name) for name in await chat.models(service, caller)]}

    @api.get("/ps")
    def running(_: Who) -> dict[str, Any]:
        """List the models that are loaded: none ever is."""
        return {"models": []}

    @api.post("/show")
    async def show(caller: Who, request: OllamaShow) -> dict[str, Any]:
        """Describe a model."""
        name = request.model or request.name or ""
        await chat.check_model(service, caller, name)
        described = {"details": _model(name)["details"], "model_info": {}, "capabilities": ["completion"]}
        return {"modelfile": "", "parameters": "", "template": "", "modified_at": _BEGAN, **described}

    @api.post("/chat", response_model=None)
    async def converse(caller: Who, request: OllamaChat, connection: Request) -> Response:
        """Answer the last message from the documents, with the sources below."""
        messages = request.messages or []
        if any(message.images for message in messages):
            raise _no_pictures()
        conversation = [chat.Message(message.role, message.content or "") for message in messages]
        return await answer(
            caller, request, conversation, connection, lambda text: {"message": {"role": "assistant", "content": text}}
        )

    @api.post("/generate", response_model=None)
    async def generate(caller: Who, request: OllamaGenerate, connection: Request) -> Response:
        """Answer a prompt from the documents, with the sources below."""
        if request.images:
            raise _no_pictures()
        conversation = [chat.Message("system", request.system)] if request.system else []
        if request.prompt:
            conversation.append(chat.Message("user", request.prompt))
        return await answer(caller, request, conversation, connection, lambda text: {"response": text})

    async def answer(
        caller: Caller,
        request: _Asked,
        messages: list[chat.Message],
        connection: Request,
        as_field: Callable[[str], dict[str, Any]],
    ) -> Response:
        start = time.monotonic_ns()
        if not messages or (isinstance(request, OllamaGenerate) and not request.prompt):
            # So clients load a model.
            await chat.check_model(service, caller, request.model)
            return JSONResponse(_line(request.model) | as_field("") | {"done": True, "done_reason": "load"})
        streams = request.stream is not False
        items = await chat.reply(service, caller, request.chat(messages), connection, streams=streams)

        async def lines() -> AsyncIterator[bytes]:
            try:
                async for item in items:
                    if isinstance(item, str):
                        yield to_json(_line(request.model) | as_field(item) | {"done": False}) + b"\n"
                    else:
                        yield to_json(_line(request.model) | as_field("") | _end(item, start)) + b"\n"
            except Exception as error:
                yield to_json(ollama_error(refusal(error))) + b"\n"

        if streams:
            return StreamingResponse(lines(), media_type="application/x-ndjson", headers={"x-accel-buffering": "no"})
        text, outcome = await chat.whole(items, connection)
        return JSONResponse(_line(request.model) | as_field(text) | _end(outcome, start))

    return api


def _no_pictures() -> Refusal:
    return Refusal(400, "22023", "a message cannot hold pictures", "Send text alone.")


def _line(model: str) -> dict[str, Any]:
    return {"model": model, "created_at": datetime.now(UTC).isoformat().replace("+00:00", "Z")}


def _end(outcome: chat.Outcome, start: int) -> dict[str, Any]:
    tokens_in, tokens_out = outcome.tokens
    elapsed = time.monotonic_ns() - start
    return {
        "done": True,
        "done_reason": outcome.reason,
        "total_duration": elapsed,
        "load_duration": 0,
        "prompt_eval_count": tokens_in,
        "prompt_eval_duration": 0,
        "eval_count": tokens_out,
        "eval_duration": elapsed,
    }


def _model(name: str) -> dict[str, Any]:
    details = {
        "parent_model": "",
        "format": "",
        "family": "pg_graphrag",
        "families": ["pg_graphrag"],
        "parameter_size": "",
        "quantization_level": "",
    }
    digest = hashlib.sha256(name.encode("utf-8", "replace")).hexdigest()
    return {"name": name, "model": name, "modified_at": _BEGAN, "size": 0, "digest": digest, "details": details}
