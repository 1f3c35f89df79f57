"""What the APIs for chat programs (OpenAI's, Ollama's) share: models, conversations, and streamed answers."""

import json
import re
from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any
from urllib.parse import quote

from starlette.requests import Request

from pg_graphrag.beside.client import Answer
from pg_graphrag.beside.serve import answers
from pg_graphrag.beside.serve.callers import Caller
from pg_graphrag.beside.serve.http_errors import Refusal
from pg_graphrag.beside.serve.service import Service, address_of, begun, while_connected
from pg_graphrag.ground.bounds import MAX_ANSWER_TOKENS, MAX_INSTRUCTIONS, MAX_TURNS
from pg_graphrag.ground.errors import GraphRAGError
from pg_graphrag.ground.lenient_json import objects
from pg_graphrag.ground.mode_names import MODES

# What a model's name ends with: the model without documents, and sources in the text. Ollama's clients add its own.
BYPASS, SOURCES, LATEST = "bypass", "sources", "latest"
# Characters of the conversation before a question, which suit small models, and messages of a request.
MAX_HISTORY, MAX_MESSAGES = 32_768, 10_000
# Characters of a passage by which the pages find it.
_PLACE = 120
# No tokenizer makes tokens of so many letters on average; and bytes of a token, if nothing was counted.
_BYTES_AT_MOST, _BYTES_PER_TOKEN = 8, 4

# Prompts by which chat programs ask for titles and the like: Open WebUI; LibreChat, NextChat, Chatbox and similar ones
# by the words after "this conversation"; others by the task in their system message.
_TASK = re.compile(
    r"\A\s*(?:#+ *Task:(?:.*<chat_history>|\s*Summarize the conversation history\b)"
    r"|Your task is to reflect the speaker's likely facial expression\b"
    r"|You have been provided with a set of responses from various models\b)",
    re.DOTALL,
)
_TOOLS = re.compile(r"\A\s*Available Tools: .*\bYour task is to choose and return the correct tool", re.DOTALL)
_TITLE = re.compile(
    r"\A\W*(?:please |kindly )?(?:generate|provide|create|write|give|suggest|make|propose|summari[sz]e|analy[sz]e|based on)\b"
    r".{0,120}?(?:\b(?:title|tags)\b.{0,60}?\b(?:this|the|our|a) (?:conversation|chat|discussion|dialogue)"
    r"(?=(?: history| session| above| so far)?\s*(?:[.,:;](?=\s|\Z)|\n|\Z|using\b|without\b|that (?:starts|begins)\b"
    r"|in (?:\S+ ){0,4}words\b))"
    r"|\bthis (?:conversation|chat) (?:a|an) (?:\w+ )?(?:name|title)\b"
    r"|\bdetected language of the conversation\b)",
    re.IGNORECASE | re.DOTALL,
)
_TITLING = re.compile(
    r"\b(?:generat|creat|writ|produc)\w*\s+(?:[\w-]+[\s,]+){0,4}titles?\s+(?:(?:that )?(?:captur|summari)\w*\b[^.\n]{0,30}"
    r"|for (?:(?:a|an|the|this|new|our)\s+)?(?:\w+ )?)\b(?:chat|conversation)"
    r"|\b(?:chat|conversation)s?(?: thread)? (?:title|titling|naming) (?:generator|assistant)"
    r"|(?:会话|對話|对话|聊天)[^。\n]{0,10}(?:总结|總結|生成)[^。\n]{0,30}(?:标题|標題)",
    re.IGNORECASE,
)
# Sources below an answer, which are removed when it comes back in a history.
_SOURCES_BELOW = re.compile(r"\n\n---\n(?:\[\d+\] [^\n]*(?:\n|\Z))+\Z")


@dataclass(frozen=True)
class Message:
    """One message of a conversation: role and text."""

    role: str
    text: str


@dataclass(frozen=True)
class Chat:
    """A request of a chat program.

    `model`: ``CORPUS``, then ``:MODE`` or ``:bypass``, then ``:sources``; each but the corpus may be missing.
    `stop`: the text ends before the first of them.
    `max_tokens`: the limit of the answer.
    `schema`: the answer is JSON of this schema; {} is any object.
    `with_sources`: whether sources stand below the answer in any case.
    """

    model: str
    messages: Sequence[Message]
    stop: Sequence[str] = ()
    max_tokens: int | None = None
    schema: dict[str, Any] | None = None
    with_sources: bool = False


@dataclass(frozen=True)
class Outcome:
    """The end of an answer: its text, why it ended (stop, length), its citations, its (tokens in, out), or whether it is a
    refusal.
    """

    text: str
    reason: str
    annotations: list[dict[str, Any]]
    tokens: tuple[int, int]
    is_refusal: bool = False


async def models(service: Service, caller: Caller) -> list[str]:
    """Return the names of the models that a caller has."""
    endings = ("", f":{SOURCES}", *(f":{mode}" for mode in MODES))
    return [
        row["name"] + ending
        for row in await service.corpora(caller)
        for ending in (*endings, *([f":{BYPASS}"] if row["bypass"] else ()))
    ]


async def check_model(service: Service, caller: Caller, name: str) -> None:
    """Refuse an unknown model: 404."""
    corpus, mode, _ = _parts(name)
    try:
        await service.read(caller, corpus, lambda rag, connection: None)
    except GraphRAGError as error:
        raise _no_model(name) if error.sqlstate == "42704" else error from None
    if mode == BYPASS and f"{corpus}:{BYPASS}" not in await models(service, caller):
        raise _no_model(name)


async def reply(
    service: Service, caller: Caller, request: Chat, connection: Request, *, streams: bool
) -> AsyncIterator[str | Outcome]:
    """Return the answer in pieces, or in one, and its outcome last. What fails before the first piece is raised here.

    Raises Refusal, GraphRAGError, psycopg.Error: 404 for an unknown model, 400 for a conversation without a question.
    """
    corpus, mode, with_sources = _parts(request.model)
    question, arguments = _question(request, mode)
    ask = service.ask if streams else partial(_whole, service)
    items = ask(caller, corpus, question, arguments)
    answer = _answer(
        items, request, address_of(connection, service.settings), corpus, request.with_sources or with_sources
    )
    try:
        return await begun(connection, answer)
    except GraphRAGError as error:
        raise _no_model(request.model) if error.sqlstate == "42704" else error from None


async def whole(items: AsyncIterator[str | Outcome], connection: Request) -> tuple[str, Outcome]:
    """Return an answer's text and its outcome."""

    async def gathered() -> list[str | Outcome]:
        return [item async for item in items]

    *pieces, outcome = await while_connected(connection, gathered())
    assert isinstance(outcome, Outcome)
    return outcome.text if outcome.is_refusal else "".join(map(str, pieces)), outcome


async def _whole(
    service: Service, caller: Caller, corpus: str, question: str, arguments: dict[str, Any]
) -> AsyncIterator[str | Answer]:
    answer = await service.answer(caller, corpus, question, arguments)
    yield answer.answer
    yield answer


async def _answer(
    items: AsyncIterator[str | Answer], request: Chat, address: str, corpus: str, with_sources: bool
) -> AsyncIterator[str | Outcome]:
    cut, sent = _Cut(request.stop, request.max_tokens), ""
    async for item in items:
        if not isinstance(item, Answer):
            # JSON comes whole, with the last piece.
            text = "" if request.schema is not None else cut.feed(item)
            if text:
                sent += text
                yield text
            continue
        if request.schema is not None:
            value = _json_of(item.answer)
            if value is not None:
                yield value
            text = item.answer if value is None else value
            yield _outcome(request, item, text, "stop", [], is_refusal=value is None)
            return
        if rest := cut.finish():
            sent += rest
            yield rest
        citations = annotations(item, sent, address, corpus)
        if with_sources and (below := _sources(item, sent, address, corpus)):
            yield below
        yield _outcome(
            request, item, sent, cut.reason or ("length" if item.usage.get("cut_off") else "stop"), citations
        )


def _outcome(
    request: Chat, answer: Answer, text: str, reason: str, citations: list[dict[str, Any]], *, is_refusal: bool = False
) -> Outcome:
    # Without documents the prompt is the conversation.
    prompt = answer.context["prompt"] or "\n".join(message.text for message in request.messages)
    tokens_in = int(answer.usage.get("tokens_in") or 0) or len(prompt.encode()) // _BYTES_PER_TOKEN + 1
    tokens_out = int(answer.usage.get("tokens_out") or 0) or len(text.encode()) // _BYTES_PER_TOKEN + 1
    return Outcome(text, reason, citations, (tokens_in, tokens_out), is_refusal)


class _Cut:
    """Ends a text before a word of `stop`, or when it may have reached the limit of tokens; `reason` says which."""

    def __init__(self, stop: Sequence[str], max_tokens: int | None) -> None:
        self._stop = [word for word in stop if word]
        self._left = None if max_tokens is None else max_tokens * _BYTES_AT_MOST
        self._pending = ""
        self.reason: str | None = None

    def feed(self, piece: str) -> str:
        """Take a piece; return what can be given: not what may begin a word of `stop`."""
        if self.reason is not None:
            return ""
        self._pending += piece
        ends = [place for word in self._stop if (place := self._pending.find(word)) >= 0]
        if ends:
            self._pending = self._pending[: min(ends)]
            text = self.finish()
            self.reason = self.reason or "stop"
            return text
        longest = max(map(len, self._stop), default=1) - 1
        begins = (
            size for size in range(min(longest, len(self._pending)), 0, -1) if self._begins(self._pending[-size:])
        )
        size = next(begins, 0)
        passed, self._pending = self._pending[: len(self._pending) - size], self._pending[len(self._pending) - size :]
        return self._within(passed)

    def finish(self) -> str:
        """Return the text that is held back."""
        text, self._pending = self._pending, ""
        return "" if self.reason is not None else self._within(text)

    def _begins(self, end: str) -> bool:
        return any(word.startswith(end) for word in self._stop)

    def _within(self, text: str) -> str:
        if self._left is None:
            return text
        kept = text.encode()[: self._left].decode(errors="ignore")
        self._left -= len(text.encode())
        if self._left < 0:
            self.reason = "length"
        return kept


def annotations(answer: Answer, text: str, address: str, corpus: str) -> list[dict[str, Any]]:
    """Return the citations of a text as OpenAI's url_citation; the address opens the document in the pages of this server."""
    addresses = _addresses(answer, address, corpus)
    return [
        {"type": "url_citation", "url_citation": {"start_index": start, "end_index": end, "title": title, "url": url}}
        for number, start, end in answers.marks(text)
        if number in addresses
        for title, url in [addresses[number]]
    ]


def _sources(answer: Answer, text: str, address: str, corpus: str) -> str:
    """Return the sources of a text as Markdown below it."""
    addresses = _addresses(answer, address, corpus)
    cited = sorted({number for number, _, _ in answers.marks(text)} & addresses.keys())
    lines = [f"[{number}] [{_plain(addresses[number][0])}]({addresses[number][1]})" for number in cited]
    return "\n\n---\n" + "\n".join(lines) if lines else ""


def _plain(title: str) -> str:
    """Return a title as one line of Markdown that is nothing but text."""
    return re.sub(r"([\\\[\]`*_<>])", r"\\\1", " ".join(title.split()))


def _addresses(answer: Answer, address: str, corpus: str) -> dict[int, tuple[str, str]]:
    """Return {number: (title, address)}. Rows of a statement have no document, and so no address."""
    texts = answers.texts_of(answer.context)
    return {
        citation.number: (
            citation.title or citation.source_key or "",
            _document_address(address, corpus, citation.document_id, texts.get(citation.chunk_id)),
        )
        for citation in answer.citations
        if citation.document_id is not None
    }


def _document_address(address: str, corpus: str, document_id: int, text: str | None) -> str:
    """Return where the pages show a document. What is behind # is sent to no server."""
    place = f"?text={quote(text[:_PLACE], safe='')}" if text else ""
    return f"{address}/#/{quote(corpus, safe='')}/document/{document_id}{place}"


def _parts(name: str) -> tuple[str, str, bool]:
    """Return (corpus, mode or bypass, whether sources stand in the text) of a model's name."""
    name = name.removesuffix(f":{LATEST}")
    bare = name.removesuffix(f":{SOURCES}")
    corpus, colon, mode = bare.rpartition(":")
    corpus, mode = (corpus, mode) if colon and mode in (*MODES, BYPASS) else (bare, "hybrid")
    if not corpus:
        # To the service no name is the server's own corpus.
        raise _no_model(name)
    return corpus, mode, bare != name


def _no_model(name: str) -> Refusal:
    return Refusal(404, "42704", f"there is no model {name!r}", "Name one of those that the server lists.")


def _question(request: Chat, mode: str) -> tuple[str, dict[str, Any]]:
    """Return the question and the client's arguments."""
    *before, last = request.messages or [Message("user", "")]
    if not (last.role == "user" or _instructs(last)) or not last.text.strip():
        raise Refusal(400, "22023", "the last message is no question", "End with a message of the user.")
    instructions = [message.text for message in before if _instructs(message)]
    turns = [message for message in before if message.role in ("user", "assistant") and message.text.strip()]
    options: dict[str, Any] = {}
    if mode == BYPASS or _is_task(last, instructions):
        options["bypass"] = True
    if text := "\n\n".join(instructions)[:MAX_INSTRUCTIONS].strip():
        options["instructions"] = text
    if request.max_tokens is not None:
        options["max_answer_tokens"] = min(request.max_tokens, MAX_ANSWER_TOKENS)
    if request.schema is not None:
        options["answer_schema"] = request.schema
    arguments = {"history": _latest(turns) or None, "mode": "hybrid" if mode == BYPASS else mode, **options}
    return last.text, arguments


def _instructs(message: Message) -> bool:
    return message.role in ("system", "developer")


def _is_task(last: Message, instructions: Sequence[str]) -> bool:
    """Whether a program asks for itself, about the conversation: the documents have no part in it."""
    # Where a system message comes last the program asks, too.
    return bool(_instructs(last) or _TASK.match(last.text) or _TITLE.match(last.text[:2000])) or any(
        _TITLING.search(text[:500]) or _TOOLS.match(text) for text in instructions
    )


def _latest(messages: Sequence[Message]) -> list[dict[str, str]]:
    """Return the latest turns within the limit of length; after a cut they begin with the user's."""
    turns: list[dict[str, str]] = []
    left = MAX_HISTORY
    for message in reversed(messages):
        text = _SOURCES_BELOW.sub("", message.text)[-left:]
        if not left or len(turns) == MAX_TURNS:
            while turns and turns[-1]["role"] == "assistant":
                turns.pop()
            break
        if text:
            turns.append({"role": message.role, "content": text})
            left -= len(text)
    return turns[::-1]


def _json_of(text: str) -> str | None:
    """Return the JSON of an answer; None where it is a sentence."""
    try:
        json.loads(text)
    except ValueError:
        value = next(objects(text), None)
        return None if value is None else json.dumps(value, ensure_ascii=False)
    return text
