"""An OpenAI-compatible front: ``/v1/models`` and ``/v1/chat/completions``. A model is a corpus, or a corpus in a mode."""

import json
import time
import uuid
from collections.abc import AsyncIterator, Mapping, Sequence
from typing import Annotated, Any, Literal
from urllib.parse import quote

from fastapi import APIRouter, Depends, Request
from fastapi.responses import JSONResponse, Response, StreamingResponse
from pydantic import BaseModel, ConfigDict, Field

from pg_graphrag.beside.client import Answer
from pg_graphrag.beside.serve import answers
from pg_graphrag.beside.serve.api import events
from pg_graphrag.beside.serve.callers import Caller
from pg_graphrag.beside.serve.http_errors import Refusal, refusal
from pg_graphrag.beside.serve.service import Service, caller_of, while_connected
from pg_graphrag.ground.mode_names import MODES

Who = Annotated[Caller, Depends(caller_of)]
# Characters of a passage by which the pages find it.
_PLACE = 120
_KINDS = {
    400: "invalid_request_error",
    401: "authentication_error",
    403: "permission_error",
    404: "invalid_request_error",
}


class Part(BaseModel):
    """A part of a message. Texts are read; others are refused."""

    type: str
    text: str | None = None


class Message(BaseModel):
    """A message. `tool` and the like have no place here."""

    role: Literal["system", "developer", "user", "assistant"]
    content: str | list[Part] | None = None

    @property
    def text(self) -> str:
        """The message as one text."""
        if isinstance(self.content, list):
            if other := [part.type for part in self.content if part.type != "text"]:
                raise Refusal(400, "22023", f"a message cannot hold {other[0]!r}", "Send text alone.")
            return "\n".join(part.text or "" for part in self.content)
        return self.content or ""


class Completion(BaseModel):
    """A request. Settings of sampling are the corpus' own: such fields are accepted and change nothing."""

    model_config = ConfigDict(extra="ignore")

    model: str = Field(max_length=300)
    messages: list[Message] = Field(min_length=1, max_length=201)
    stream: bool = False
    n: int = Field(1, ge=1, le=1)
    tools: list[Any] | None = None


def error_body(error: Refusal) -> dict[str, Any]:
    """Return an error as OpenAI's clients read it."""
    message = error.message if error.hint is None else f"{error.message}. {error.hint}"
    kind = _KINDS.get(error.status, "rate_limit_error" if error.status == 429 else "api_error")
    return {"error": {"message": message, "type": kind, "param": None, "code": error.code}}


def router(service: Service) -> APIRouter:
    """Return the routes."""
    api = APIRouter(prefix="/v1", tags=["OpenAI"])

    @api.get("/models")
    async def models(caller: Who) -> dict[str, Any]:
        """List a model for each corpus and mode. The name of a corpus alone is its mode `hybrid`."""
        corpora = await service.corpora(caller)
        names = [name for row in corpora for name in (row["name"], *(f"{row['name']}:{mode}" for mode in MODES))]
        return {"object": "list", "data": [_model(name) for name in names]}

    @api.get("/models/{name:path}")
    async def model(caller: Who, name: str) -> dict[str, Any]:
        """Describe a model."""
        corpus, _ = _corpus_and_mode(name)
        corpora = await service.corpora(caller)
        if corpus not in {row["name"] for row in corpora}:
            raise Refusal(404, "42704", f"there is no model {name!r}")
        return _model(name)

    @api.post("/chat/completions", response_model=None)
    async def complete(caller: Who, request: Completion, connection: Request) -> Response:
        """Answer the last message from the documents. Citations are annotations."""
        if request.tools:
            raise Refusal(400, "22023", "these models call no tools", "Leave tools out.")
        corpus, mode = _corpus_and_mode(request.model)
        question, arguments = _question(request.messages)
        arguments["mode"] = mode
        address = _address(connection, service.settings.origins)
        identity = {"id": f"chatcmpl-{uuid.uuid4().hex}", "created": int(time.time()), "model": request.model}
        if request.stream:
            return _streamed(service.ask(caller, corpus, question, arguments), identity, address, corpus)
        answer = await while_connected(connection, service.answer(caller, corpus, question, arguments))
        message = {
            "role": "assistant",
            "content": answer.answer,
            "refusal": None,
            "annotations": annotations(answer, address, corpus),
        }
        choice = {"index": 0, "message": message, "finish_reason": "stop", "logprobs": None}
        body = {**identity, "object": "chat.completion", "choices": [choice], "usage": _usage(answer.usage)}
        return JSONResponse(body)

    return api


def annotations(answer: Answer, address: str, corpus: str) -> list[dict[str, Any]]:
    """Return the citations as url_citation; the address opens the document in the pages of this server."""
    by_number = {citation.number: citation for citation in answer.citations}
    texts = answers.texts_of(answer.context)
    return [
        {
            "type": "url_citation",
            "url_citation": {
                "start_index": start,
                "end_index": end,
                "title": citation.title or citation.source_key,
                "url": _document_address(address, corpus, citation.document_id, texts.get(citation.chunk_id)),
            },
        }
        for number, start, end in answers.marks(answer.answer)
        # Rows of a statement have no document, and so no address.
        if (citation := by_number.get(number)) is not None and citation.document_id is not None
    ]


def _document_address(address: str, corpus: str, document_id: int, text: str | None) -> str:
    """Return where the pages show a document. What is behind # is sent to no server."""
    place = f"?text={quote(text[:_PLACE], safe='')}" if text else ""
    return f"{address}/#/{quote(corpus, safe='')}/document/{document_id}{place}"


def _address(request: Request, origins: Sequence[str]) -> str:
    return origins[0].rstrip("/") if origins else f"{request.url.scheme}://{request.url.netloc}"


def _model(name: str) -> dict[str, Any]:
    return {"id": name, "object": "model", "created": 0, "owned_by": "pg_graphrag"}


def _corpus_and_mode(name: str) -> tuple[str, str]:
    corpus, colon, mode = name.rpartition(":")
    return (corpus, mode) if colon and mode in MODES else (name, "hybrid")


def _question(messages: Sequence[Message]) -> tuple[str, dict[str, Any]]:
    """Return the question and the client's arguments. What a system message asks for is the form of the answer."""
    if messages[-1].role != "user" or not messages[-1].text.strip():
        raise Refusal(400, "22023", "the last message is no question", "End with a message of the user.")
    forms = [message.text for message in messages if message.role in ("system", "developer") and message.text.strip()]
    history = [
        {"role": message.role, "content": message.text}
        for message in messages[:-1]
        if message.role in ("user", "assistant") and message.text
    ]
    arguments: dict[str, Any] = {"history": history or None}
    if forms:
        arguments["response_type"] = "\n".join(forms)
    return messages[-1].text, arguments


def _usage(usage: Mapping[str, Any]) -> dict[str, int]:
    tokens_in, tokens_out = int(usage.get("tokens_in") or 0), int(usage.get("tokens_out") or 0)
    return {"prompt_tokens": tokens_in, "completion_tokens": tokens_out, "total_tokens": tokens_in + tokens_out}


def _streamed(
    pieces: AsyncIterator[str | Answer], identity: Mapping[str, Any], address: str, corpus: str
) -> StreamingResponse:
    """Return the chunks. They have no usage: what a stream costs, the database counts and does not say."""

    def chunk(delta: Mapping[str, Any], finish_reason: str | None = None) -> bytes:
        choice = {"index": 0, "delta": delta, "finish_reason": finish_reason, "logprobs": None}
        return _data({**identity, "object": "chat.completion.chunk", "choices": [choice]})

    async def body() -> AsyncIterator[bytes]:
        try:
            yield chunk({"role": "assistant", "content": ""})
            async for item in pieces:
                if not isinstance(item, Answer):
                    yield chunk({"content": item})
                    continue
                yield chunk({"annotations": annotations(item, address, corpus)})
                yield chunk({}, "stop")
        except Exception as error:
            yield _data(error_body(refusal(error)))
        yield b"data: [DONE]\n\n"

    return events(body())


def _data(value: Mapping[str, Any]) -> bytes:
    return f"data: {json.dumps(value, ensure_ascii=False)}\n\n".encode()
