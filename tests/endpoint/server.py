"""The endpoint: HTTP/1.1 with keep-alive on asyncio, its own parser, no framework: thousands of requests a second."""

from __future__ import annotations

import asyncio
import base64
import contextlib
import json
import socket
import struct
import threading
import time
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, Self

from tests.endpoint.batches import Batches
from tests.endpoint.embedder import as_json, embed_one
from tests.endpoint.misbehaviour import MISBEHAVIOURS, Misbehaviour

Messages = Sequence[dict[str, Any]]
_ROUTES = {"/chat/completions": "chat", "/embeddings": "embeddings", "/rerank": "rerank", "/stats": "stats"}


@dataclass(eq=False)
class Request:
    """One request as it arrived. `kind`: chat, embeddings, rerank, files, batches, other; `at`: monotonic seconds."""

    number: int
    method: str
    path: str
    kind: str
    headers: dict[str, str]
    data: bytes
    at: float
    body: Any = None
    faults: list[str] = field(default_factory=list)
    # Pieces of a stream that went out before the other side had enough.
    sent: int = 0

    @property
    def messages(self) -> list[dict[str, Any]]:
        """The conversation of a chat request."""
        return list(self.body["messages"])

    @property
    def text(self) -> str:
        """All that the conversation says."""
        return "\n".join(str(message["content"]) for message in self.messages)


@dataclass
class Answer:
    """What goes back, after a `delay`: `pieces` of a body, a `pause` between them; `then`: close, hang, reset or keep (alive)."""

    status: int = 200
    content: bytes = b""
    content_type: str = "application/json"
    headers: dict[str, str] = field(default_factory=dict)
    pieces: list[bytes] | None = None
    delay: float = 0.0
    pause: float = 0.0
    cut: int | None = None
    then: str = "keep"


class Endpoint:
    """The endpoint, running in a thread of its own from `__enter__` to `__exit__`.

    Parameters
    ----------
    host, port : str, int
        Where to listen; port 0: a free one.
    key : str, optional
        The key that requests must bring, as bearer or ``api-key``; others are answered 401.
    latency : float
        Seconds that every answer takes.
    dimensions : int
        Length of embeddings where the request names none.
    keep : bool
        Whether requests are kept in `requests` (False for benchmarks: they are only counted).
    """

    def __init__(
        self,
        host: str = "127.0.0.1",
        port: int = 0,
        *,
        key: str | None = None,
        latency: float = 0.0,
        dimensions: int = 384,
        keep: bool = True,
    ) -> None:
        self.key = key
        self.latency = latency
        # What it says that it is.
        self.server = ""
        self.dimensions = dimensions
        self.requests: list[Request] = []
        self.batches = Batches()
        self.counts: Counter[str] = Counter()
        self.in_flight = self.peak = self.connections = 0
        self._keep = keep
        self._misbehaving: list[Misbehaviour] = []
        self._reply: Callable[[Any], Any] = lambda body: "ok"
        self._respond: Callable[[Request], Answer] | None = None
        self._embed: Callable[[Sequence[str], int], Sequence[Any]] = lambda texts, dimensions: [
            embed_one(text, dimensions) for text in texts
        ]
        self._relevance: Callable[[str, Sequence[str]], Sequence[float]] = _cosines
        self._lock = threading.Lock()
        self._address = (host, port)
        self._loop: asyncio.AbstractEventLoop | None = None
        self._open: asyncio.Event
        self._transports: set[Any] = set()

    # What tests say.

    @property
    def url(self) -> str:
        """The base URL to give to set_provider()."""
        return f"http://{self._address[0]}:{self._address[1]}/v1"

    def reply(self, answer: Callable[[Messages], Any] | str | list[dict[str, str]]) -> None:
        """Answer chat requests with `answer` (messages), or always with the same text or list of content parts."""
        self._reply = lambda body: answer(body["messages"]) if callable(answer) else answer

    def reply_to_body(self, answer: Callable[[dict[str, Any]], str]) -> None:
        """Answer chat requests with `answer` (body of the request), which also sees the form that is asked for."""
        self._reply = answer

    def embed(self, embedder: Callable[[Sequence[str], int], Sequence[Any]]) -> None:
        """Answer embedding requests with the vectors, float32, of `embedder` (texts, dimensions)."""
        self._embed = embedder

    def rerank(self, relevance: Callable[[str, Sequence[str]], Sequence[float]]) -> None:
        """Answer rerank requests with the scores of `relevance` (query, texts)."""
        self._relevance = relevance

    def respond(self, answer: Callable[[Request], Answer] | Answer) -> None:
        """Answer every request with `answer` (request), or always with the same, down to its bytes."""
        self._respond = answer if callable(answer) else lambda request: answer

    def misbehave(
        self, kind: str, times: int | None = 1, *, when: Callable[[Request], bool] | None = None, **details: Any
    ) -> None:
        """Misbehave (see `MISBEHAVIOURS`) at the next `times` requests it applies to (None: until `behave`).

        `when` picks the requests; `details` are the misbehaviour's own (``retry_after`` of rate_limited, …).
        """
        if kind not in MISBEHAVIOURS:
            raise ValueError(f"no misbehaviour {kind!r}; there are {', '.join(MISBEHAVIOURS)}")
        with self._lock:
            self._misbehaving.append(Misbehaviour(kind, times, when, details))

    def behave(self) -> None:
        """Misbehave no more."""
        with self._lock:
            self._misbehaving.clear()

    def pause(self) -> None:
        """Take requests, but answer none before `resume`."""
        self._call(lambda: self._open.clear())

    def resume(self) -> None:
        """Answer again, first what waits."""
        self._call(lambda: self._open.set())

    def forget(self) -> None:
        """Start counting anew."""
        with self._lock:
            self.requests.clear()
            self.counts.clear()
            self.peak = self.in_flight

    def count(self, kind: str = "chat") -> int:
        """How many requests of a kind have arrived."""
        return self.counts[kind]

    # Running.

    def __enter__(self) -> Self:
        ready = threading.Event()
        thread = threading.Thread(target=self._run, args=[ready], name="endpoint", daemon=True)
        thread.start()
        ready.wait()
        self._thread = thread
        return self

    def __exit__(self, *_: object) -> None:
        assert self._loop is not None
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()

    def _run(self, ready: threading.Event) -> None:
        loop = self._loop = asyncio.new_event_loop()
        self._open = asyncio.Event()
        self._open.set()
        server = loop.run_until_complete(
            loop.create_server(lambda: _Connection(self, loop), *self._address, backlog=512)
        )
        self._address = server.sockets[0].getsockname()[:2]
        ready.set()
        loop.run_forever()
        server.close()
        for transport in list(self._transports):
            transport.abort()
        for task in asyncio.all_tasks(loop):
            task.cancel()
        loop.run_until_complete(asyncio.sleep(0))
        loop.close()

    def _call(self, what: Callable[[], None]) -> None:
        """Run something in the endpoint's thread, and wait until it is done."""
        assert self._loop is not None
        done = threading.Event()
        self._loop.call_soon_threadsafe(lambda: (what(), done.set()))
        done.wait()

    # What comes in.

    def arrived(self, method: str, path: str, headers: dict[str, str], data: bytes) -> Request:
        """Note a request."""
        plain = path.partition("?")[0]
        kind = next((kind for end, kind in _ROUTES.items() if plain.endswith(end)), None)
        if kind is None:
            kind = "files" if "/files" in plain else "batches" if "/batches" in plain else "other"
        request = Request(sum(self.counts.values()) + 1, method, path, kind, headers, data, time.monotonic())
        if headers.get("content-type", "").startswith("application/json") and data:
            request.body = json.loads(data)
        if kind != "stats":
            with self._lock:
                self.counts[kind] += 1
                if self._keep:
                    self.requests.append(request)
        return request

    def misbehaviour_of(self, request: Request) -> Misbehaviour | None:
        """What is to go wrong with this request, if anything."""
        with self._lock:
            for fault in self._misbehaving:
                if fault.applies(request):
                    request.faults.append(fault.kind)
                    if fault.times is not None:
                        fault.times -= 1
                        if fault.times == 0:
                            self._misbehaving.remove(fault)
                    return fault
        return None

    def answer(self, request: Request) -> Answer:
        """What a request is answered when nothing goes wrong on the way."""
        if self._respond is not None:
            return self._respond(request)
        if self.key is not None:
            given = request.headers.get("authorization", "").removeprefix("Bearer ") or request.headers.get("api-key")
            if given != self.key:
                return error(401, f"Incorrect API key provided: {given}.", "invalid_api_key")
        if request.kind == "chat":
            return self._chat(request)
        if request.kind == "embeddings":
            return self._embeddings(request.body)
        if request.kind == "rerank":
            return _rerank(request.body, self._relevance)
        if request.kind in ("files", "batches"):
            status, content = self.batches.handle(request, self._batch_line)
            return Answer(status, content)
        if request.kind == "stats":
            stats = {"counts": self.counts, "in_flight": self.in_flight, "peak": self.peak}
            return Answer(content=json.dumps(stats).encode())
        return error(404, f"Unknown request URL: {request.method} {request.path}.", "unknown_url")

    def _batch_line(self, body: dict[str, Any], custom_id: str) -> tuple[int, Any]:
        """(status, body) of one request of a batch; misbehaviours apply to it too."""
        request = Request(0, "POST", "/v1/chat/completions", "batch_line", {"custom-id": custom_id}, b"", 0.0, body)
        reply = self.answer_with(request, self.misbehaviour_of(request))
        try:
            return reply.status, json.loads(reply.content)
        except ValueError:
            return 500, {"error": {"message": "the model server sent no JSON"}}

    def answer_with(self, request: Request, wrong: Misbehaviour | None) -> Answer:
        """The answer, spoiled as it should be."""
        chat = request.kind in ("chat", "batch_line")
        reply = self._chat(request, wrong) if chat and wrong is not None and wrong.content else None
        if reply is None:
            reply = self._chat(request) if request.kind == "batch_line" else self.answer(request)
        return reply if wrong is None else wrong.spoil(request, reply)

    def _chat(self, request: Request, wrong: Misbehaviour | None = None) -> Answer:
        body = request.body
        text: Any = self._reply(body)
        reason = "stop"
        if wrong is not None:
            text, reason = wrong.say(text or "", body)
        tokens = text if wrong is not None and isinstance(text, list) else None
        if tokens is not None:
            text = "".join(tokens)
        written = text if isinstance(text, str) else json.dumps(text)
        usage = {
            "prompt_tokens": sum(len(str(message["content"]).encode()) for message in body["messages"]) // 4 + 1,
            "completion_tokens": len(tokens or ()) or len(written.encode("utf-8", "replace")) // 4 + 1,
        }
        usage["total_tokens"] = usage["prompt_tokens"] + usage["completion_tokens"]
        head = {"id": f"chatcmpl-{request.number}", "created": int(time.time()), "model": body["model"]}
        if body.get("stream"):
            with_usage = (body.get("stream_options") or {}).get("include_usage")
            return _stream(head, tokens or _words(text or ""), reason, usage if with_usage else None)
        choice = {"index": 0, "message": {"role": "assistant", "content": text}, "finish_reason": reason}
        created = {**head, "object": "chat.completion", "choices": [choice], "usage": usage}
        return Answer(content=json.dumps(created).encode())

    def _embeddings(self, body: dict[str, Any]) -> Answer:
        texts = body["input"] if isinstance(body["input"], list) else [body["input"]]
        dimensions = body.get("dimensions") or self.dimensions
        packed = body.get("encoding_format") == "base64"
        items = []
        for place, vector in enumerate(self._embed(texts, dimensions)):
            value = f'"{base64.b64encode(vector.tobytes()).decode()}"' if packed else as_json(vector)
            items.append(f'{{"object":"embedding","index":{place},"embedding":{value}}}')
        tokens = sum(len(text.encode()) for text in texts) // 4 + 1
        usage = json.dumps({"prompt_tokens": tokens, "total_tokens": tokens})
        model = json.dumps(body["model"])
        content = f'{{"object":"list","data":[{",".join(items)}],"model":{model},"usage":{usage}}}'
        return Answer(content=content.encode())


def error(status: int, message: str, code: str, **headers: str) -> Answer:
    """An error as OpenAI words it."""
    body = {"error": {"message": message, "type": "invalid_request_error", "param": None, "code": code}}
    return Answer(status, json.dumps(body).encode(), headers=headers)


def _words(text: Any) -> list[Any]:
    if not isinstance(text, str):
        return [text]
    return [word if n == 0 else f" {word}" for n, word in enumerate(text.split(" "))]


def _stream(head: dict[str, Any], tokens: list[Any], reason: str, usage: dict[str, int] | None) -> Answer:
    head = {**head, "object": "chat.completion.chunk"}
    events: list[dict[str, Any]] = [
        {**head, "choices": [{"index": 0, "delta": {"content": token}, "finish_reason": None}]} for token in tokens
    ]
    events.append({**head, "choices": [{"index": 0, "delta": {}, "finish_reason": reason}]})
    if usage is not None:
        events.append({**head, "choices": [], "usage": usage})
    pieces = [b"data: " + json.dumps(event).encode() + b"\n\n" for event in events]
    return Answer(content_type="text/event-stream", pieces=[*pieces, b"data: [DONE]\n\n"])


def _cosines(query: str, texts: Sequence[str]) -> list[float]:
    """The cosines of the hash embeddings."""
    asked = embed_one(query)
    return [float(asked @ embed_one(text)) for text in texts]


def _rerank(body: dict[str, Any], relevance: Callable[[str, Sequence[str]], Sequence[float]]) -> Answer:
    """The texts by relevance, best first, in the shape that the request's own shape calls for."""
    texts = body["texts"] if "texts" in body else body["documents"]
    scores = sorted(((score, -place) for place, score in enumerate(relevance(body["query"], texts))), reverse=True)
    if "texts" in body:
        results: Any = [{"index": -place, "score": score} for score, place in scores]
    else:
        results = {"results": [{"index": -place, "relevance_score": score} for score, place in scores]}
    return Answer(content=json.dumps(results).encode())


class _Connection(asyncio.Protocol):
    """One connection: reads requests with a Content-Length, answers one after the other."""

    def __init__(self, endpoint: Endpoint, loop: asyncio.AbstractEventLoop) -> None:
        self._endpoint = endpoint
        self._loop = loop
        self._buffer = bytearray()
        self._task: asyncio.Task[None] | None = None
        self._transport: Any = None

    def connection_made(self, transport: Any) -> None:
        self._transport = transport
        self._endpoint.connections += 1
        self._endpoint._transports.add(transport)

    def connection_lost(self, exc: Exception | None) -> None:
        self._endpoint.connections -= 1
        self._endpoint._transports.discard(self._transport)
        if self._task is not None:
            self._task.cancel()

    def data_received(self, data: bytes) -> None:
        self._buffer += data
        if self._task is None:
            self._next()

    def _next(self) -> None:
        """Begin with the next request, if it is here as a whole."""
        end = self._buffer.find(b"\r\n\r\n")
        if end < 0:
            return
        first, *lines = self._buffer[:end].decode("latin-1").split("\r\n")
        headers = {name.lower(): value.strip() for name, _, value in (line.partition(":") for line in lines)}
        whole = end + 4 + int(headers.get("content-length", "0"))
        if len(self._buffer) < whole:
            return
        body = bytes(self._buffer[end + 4 : whole])
        del self._buffer[:whole]
        method, path, _ = first.split(" ")
        self._task = self._loop.create_task(self._serve(method, path, headers, body))

    async def _serve(self, method: str, path: str, headers: dict[str, str], body: bytes) -> None:
        endpoint = self._endpoint
        endpoint.in_flight += 1
        endpoint.peak = max(endpoint.peak, endpoint.in_flight)
        try:
            request = endpoint.arrived(method, path, headers, body)
            if endpoint.latency:
                await asyncio.sleep(endpoint.latency)
            await endpoint._open.wait()
            wrong = endpoint.misbehaviour_of(request)
            await self._send(endpoint.answer_with(request, wrong), request)
        except asyncio.CancelledError:
            return
        except Exception as failure:
            # A reply function that fails must be seen.
            await self._send(error(500, f"{type(failure).__name__} in the endpoint: {failure}", "endpoint"))
        finally:
            endpoint.in_flight -= 1
            self._task = None
        if self._buffer:
            self._next()

    async def _send(self, answer: Answer, request: Request | None = None) -> None:
        write = self._transport.write
        await asyncio.sleep(answer.delay)
        if answer.then == "hang" and answer.cut == 0:
            await asyncio.Future()
        if answer.then == "reset" and answer.cut == 0:
            self._reset()
            return
        lines = [f"HTTP/1.1 {answer.status} X", f"content-type: {answer.content_type}"]
        lines += [f"{name.replace('_', '-')}: {value}" for name, value in answer.headers.items()]
        lines += [f"server: {self._endpoint.server}"] if self._endpoint.server else []
        if answer.pieces is None:
            lines.append(f"content-length: {len(answer.content)}")
            write("\r\n".join([*lines, "", ""]).encode() + answer.content[: answer.cut])
        else:
            write("\r\n".join([*lines, "transfer-encoding: chunked", "", ""]).encode())
            for piece in answer.pieces[: answer.cut]:
                write(b"%x\r\n%b\r\n" % (len(piece), piece))
                if request is not None:
                    request.sent += 1
                await asyncio.sleep(answer.pause)
            if answer.cut is None:
                write(b"0\r\n\r\n")
        if answer.then == "hang":
            await asyncio.Future()
        if answer.then == "reset":
            await asyncio.sleep(0.05)
            self._reset()
        if answer.then == "close":
            self._transport.close()

    def _reset(self) -> None:
        with contextlib.suppress(OSError):
            self._transport.get_extra_info("socket").setsockopt(
                socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0)
            )
        self._transport.abort()
