"""A model as people run it themselves: what such endpoints can and cannot do, for `Endpoint.respond`."""

import json
from dataclasses import dataclass
from typing import Any

from tests.endpoint import Request
from tests.endpoint.server import Answer, error

OBJECT = '{"colour": "red", "bright": true}'


@dataclass
class Model:
    """What the model of a scripted endpoint can do; a word is a token."""

    names: tuple[str, ...] | None = ("model-1", "hash")
    streams: bool = True
    counts: bool = True
    keeps_limit: bool = True
    # json_schema, json_object: those that are refused; what is not refused is kept to or not.
    refuses: tuple[str, ...] = ()
    ignores: tuple[str, ...] = ()
    # Of a longer prompt the end is read, as Ollama does.
    reads: int = 100_000
    # A longer prompt is refused, as llama.cpp and vLLM do.
    context: int = 100_000
    chats: bool = True
    # Words that it thinks before each answer, of its limit.
    thinks: int = 0
    # What is answered when no form is asked for.
    answer: str = "Hello"

    def __call__(self, request: Request) -> Answer:
        if request.path.endswith("/models"):
            if self.names is None:
                return error(404, "Not Found", "unknown_url")
            listed = {"object": "list", "data": [{"id": name, "object": "model"} for name in self.names]}
            return Answer(content=json.dumps(listed).encode())
        assert request.kind == "chat", request.path
        if not self.chats:
            return error(400, f'"{request.body["model"]}" does not support chat', "invalid_request_error")
        tokens = len(request.text.split())
        if tokens > self.context:
            words = f"request ({tokens} tokens) exceeds the available context size ({self.context} tokens)"
            return error(400, words, "exceed_context_size_error")
        form = (request.body.get("response_format") or {}).get("type")
        if form in self.refuses:
            return error(400, f"'response_format' of type '{form}' is not supported with this model.", "unsupported")
        text = " ".join(map(str, range(1, 201))) if "from 1 to 200" in request.text else self.answer
        if form is not None and form not in self.ignores:
            text = OBJECT if form == "json_schema" else '{"colour": "red"}'
        limit = request.body.get("max_tokens") or request.body.get("max_completion_tokens") or 10**6
        words = text.split(" ")
        deltas = [{"reasoning_content": f"step {number}. "} for number in range(self.thinks)]
        deltas += [{"content": word} for word in [words[0], *(f" {word}" for word in words[1:])]]
        reason = "stop"
        if self.keeps_limit and len(deltas) > limit:
            deltas, reason = deltas[:limit], "length"
        usage = {"prompt_tokens": min(tokens, self.reads), "completion_tokens": len(deltas)}
        return self._answer(request.body, deltas, reason, usage)

    def _answer(self, body: dict[str, Any], deltas: list[dict[str, str]], reason: str, usage: dict[str, int]) -> Answer:
        counted = {"usage": usage} if self.counts else {}
        if not (self.streams and body.get("stream")):
            message = {"role": "assistant", "content": "".join(delta.get("content", "") for delta in deltas)}
            choice = {"index": 0, "message": message, "finish_reason": reason}
            return Answer(content=json.dumps({"choices": [choice], **counted}).encode())
        choices = [{"index": 0, "delta": delta, "finish_reason": None} for delta in deltas]
        events: list[Any] = [{"choices": [choice]} for choice in choices]
        events += [{"choices": [{"index": 0, "delta": {}, "finish_reason": reason}]}, {"choices": [], **counted}]
        lines = [b"data: " + json.dumps(event).encode() + b"\n\n" for event in events]
        return Answer(content_type="text/event-stream", pieces=[*lines, b"data: [DONE]\n\n"])
