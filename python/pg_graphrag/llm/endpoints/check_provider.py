"""graphrag.check_provider(): tries what a model at an endpoint can do, with a few requests.

They go through the gateway, so limits, accounts, budget and cancel apply as to any other request. Each is sent once.
"""

import json
import random
import re
import time
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

from pg_graphrag.ground.errors import GraphRAGError
from pg_graphrag.llm.endpoints import wire
from pg_graphrag.llm.endpoints.faults import (
    ContextTooLong,
    DeadlineReached,
    ItemFault,
    PromptCut,
    ProviderFault,
    Repetition,
    TimedOut,
)
from pg_graphrag.llm.endpoints.gateway import Gateway
from pg_graphrag.llm.endpoints.providers import load_provider, refuse_others
from pg_graphrag.llm.endpoints.requests import (
    CHECK,
    ChatRequest,
    EmbedRequest,
    ModelsRequest,
    Reply,
    Request,
    RerankRequest,
    asked,
    reply_of,
)
from pg_graphrag.llm.endpoints.transport import forget_refusals
from pg_graphrag.server import Database
from pg_graphrag.server.corpus.corpora import Corpus, find_corpus
from pg_graphrag.server.corpus.options import ROLES

# The longest that a request may take, one with a long prompt, and all of a call.
SECONDS, CONTEXT_SECONDS, ALL_SECONDS = 20.0, 45.0, 180.0
# Tokens of the answer that is measured, and of the prompt that shows whether a context is read as a whole.
OUTPUT_TOKENS, PROMPT_TOKENS = 64, 6000
# Tokens a second that people complain about.
SLOW = 10.0
# Models that are named, and characters of a name or of a model's words.
MOST_NAMES, MOST_CHARACTERS = 10, 60

# Each is one token or more for every tokenizer.
_WORDS = (
    "time year people way day man thing woman life child world school state family student group country problem hand part"
    " place case week company system program question work government number night point home water room mother area money"
    " story fact month lot right study book eye job word business issue side kind head house service friend father power"
).split()
_COUNT = "Write the whole numbers from 1 to 200 as figures, with commas between them. Write nothing else."
_SCHEMA = reply_of("check", colour={"type": "string", "enum": ["red", "green"]}, bright={"type": "boolean"})
_QUERY = "What does the engine burn?"
_TEXTS = ("The Kestrel engine burns methane.", "Bread is made of flour, water and salt.")


@dataclass(frozen=True, slots=True)
class _Use:
    """A model and its use: chat, embedding, rerank, or "" (the endpoint is asked for its models)."""

    provider: str
    model: str
    purpose: str
    dimensions: int | None = None


@dataclass(frozen=True, slots=True)
class Finding:
    """What was found out; `ok` is None where it cannot be told. `value` is the number of `detail`, if it has one."""

    subject: str
    ok: bool | None
    value: float | None
    detail: str
    hint: str | None = None


def check_provider(
    db: Database, provider: str | None, model: str | None, corpus: str | None
) -> Iterator[tuple[Any, ...]]:
    """Try one model, or all that a corpus uses; yield (provider, model, subject, ok, value, detail, hint).

    Raises GraphRAGError: 42501 for anyone but the extension's owner and superusers, whatever was granted; 42704 when there is
      no such provider or corpus; 55000 when the corpus uses no model at an endpoint.
    """
    refuse_others(db, "check a provider")
    used_corpus = find_corpus(db, corpus)
    until = time.monotonic() + ALL_SECONDS
    for use in _uses(db, used_corpus, provider, model):
        for finding in _Trial(db, used_corpus, use, until).findings():
            values = finding.subject, finding.ok, finding.value, finding.detail, finding.hint
            yield use.provider, use.model or None, *values


def _uses(db: Database, corpus: Corpus, provider: str | None, model: str | None) -> list[_Use]:
    """Return what to try, each model once."""
    purpose = ""
    if provider is not None:
        purpose = "rerank" if load_provider(db, provider, None).kind == "rerank" else "chat"
    if model is not None and provider is None:
        raise GraphRAGError(f'model "{model}" is of no provider', hint="Give its provider too, or leave out both.")
    if model is not None:
        return [_Use(str(provider), model, purpose)]
    options = corpus.options
    used = [_Use(*options.llm.of(role), "chat") for role in ROLES if options.llm.has(role)]
    if not options.embedding.local:
        used.append(
            _Use(options.embedding.provider, options.embedding.model, "embedding", options.embedding.dimensions)
        )
    if options.rerank.provider:
        used.append(_Use(*options.reranker(), "rerank"))
    if provider is not None:
        unused = _Use(provider, "", purpose if purpose == "rerank" else "")
        used = [use for use in used if use.provider == provider] or [unused]
    if not used:
        raise GraphRAGError(
            f'corpus "{corpus.name}" uses no model at an endpoint',
            sqlstate="55000",
            hint="Name a provider and a model: SELECT * FROM graphrag.check_provider('ollama', 'qwen3:4b').",
        )
    return list(dict.fromkeys(used))


class _Trial:
    """What one model is asked."""

    def __init__(self, db: Database, corpus: Corpus, use: _Use, until: float) -> None:
        self._db = db
        self._use = use
        self._until = until
        read_only = db.value("SELECT pg_catalog.current_setting('transaction_read_only')::boolean")
        self._writes = not read_only
        llm = replace(
            corpus.options.llm,
            provider=use.provider,
            model=use.model or "?",
            roles={},
            max_output_tokens=None,
            timeout=None,
        )
        self._corpus = replace(corpus, options=replace(corpus.options, llm=llm))
        self._json = "schema" if use.purpose == "rerank" else load_provider(db, use.provider).json
        self._is_chat = True

    def findings(self) -> Iterator[Finding]:
        """Try one thing after the other, as long as the endpoint answers."""
        endpoint = ("endpoint", self._endpoint)
        steps = {
            "": (endpoint,),
            "chat": (endpoint, ("chat", self._chat), ("JSON", self._schema), ("context", self._context)),
            "embedding": (endpoint, ("embedding", self._embedding)),
            "rerank": (("rerank", self._rerank),),
        }
        for subject, step in steps[self._use.purpose]:
            try:
                yield from step()
            except GraphRAGError as fault:
                # Nothing is known where it was not asked.
                was_asked = isinstance(fault, (ItemFault, ProviderFault))
                yield Finding(subject, False if was_asked else None, None, *_words(fault))
                if not isinstance(fault, ItemFault):
                    return
            if not self._is_chat:
                return

    def _endpoint(self) -> Iterator[Finding]:
        model, began = self._use.model, time.monotonic()
        try:
            names: list[str] = self._ask(ModelsRequest(self._use.provider)).value
        except GraphRAGError as fault:
            if not isinstance(fault, ItemFault) and getattr(fault, "status", None) not in _NO_SUCH_PATH:
                raise
            yield Finding("endpoint", True, None, "answers; it does not list its models")
            return
        seconds = time.monotonic() - began
        # llama.cpp's is the path of a file.
        shown_names = ", ".join(
            name[name.startswith("/") and name.rfind("/") + 1 :][:MOST_CHARACTERS] for name in names[:MOST_NAMES]
        )
        shown_names += ", …" if names[MOST_NAMES:] else ""
        detail = f"answers in {seconds:.1f} s; its models: {shown_names or 'none'}"
        if not model:
            yield Finding("endpoint", True, seconds, detail, "Name one of its models to try what it can do.")
        elif not {model, f"{model}:latest"} & set(names):
            hint = f'"{model}" is not among them: pull it, or name another. llama.cpp answers to any name.'
            yield Finding("endpoint", None, seconds, detail, hint)
        else:
            yield Finding("endpoint", True, seconds, f"answers in {seconds:.1f} s and has the model")

    def _chat(self) -> Iterator[Finding]:
        """One answer shows whether it is streamed, how fast, and whether its limit is kept."""
        began = time.monotonic()
        try:
            completion = self._complete(_COUNT, OUTPUT_TOKENS)
        except (ItemFault, ProviderFault) as fault:
            # For a model that is no chat model: endpoints have many words for that.
            if isinstance(fault, ItemFault) or fault.status in _NO_SUCH_PATH:
                try:
                    yield from self._embedding()
                except GraphRAGError:
                    raise fault from None
                self._is_chat = False
                return
            raise
        seconds, written = time.monotonic() - began, completion.tokens_out
        # Thoughts come before the first words.
        writing = seconds - completion.first_seconds if completion.pieces > 1 and not completion.reasons else seconds
        speed = written / max(writing, 0.001)
        slow = (
            f"An answer of 300 tokens takes {300 / speed:.0f} s: a smaller model is faster." if speed < SLOW else None
        )
        hint = _REASONS if completion.reasons else slow
        yield Finding("chat", True, speed, f"writes {speed:.0f} tokens a second", hint)
        if completion.pieces > 1:
            first = completion.first_seconds
            yield Finding("streaming", True, first, f"the first words come after {first:.1f} s")
        else:
            yield Finding("streaming", False, None, "the answer came in one piece", _NO_STREAM)
        if written <= 1.25 * OUTPUT_TOKENS or completion.reasons:
            is_kept = True if completion.cut_off else None
            yield Finding("output limit", is_kept, written, f"wrote {written} tokens, {OUTPUT_TOKENS} at most")
        else:
            detail = f"wrote {written} tokens, though {OUTPUT_TOKENS} was the limit"
            yield Finding("output limit", False, written, detail, _NO_LIMIT)

    def _schema(self) -> Iterator[Finding]:
        """What is asked for is no JSON: a reply that is some shows that the endpoint enforces it."""
        reply = self._json_of("Say hello in one word.", "schema")
        best, detail = "schema", "keeps to a JSON schema"
        if not (isinstance(reply, dict) and set(reply) == {"colour", "bright"} and reply["colour"] in ("red", "green")):
            reply = self._json_of('Reply with this JSON object: {"colour": "red"}', "object")
            best, detail = (
                ("object", "gives JSON, but keeps to no schema")
                if isinstance(reply, dict)
                else ("none", "gives no JSON when asked")
            )
        hint = f"Set the provider's option json to {best}: it is {self._json}." if best != self._json else None
        yield Finding("JSON", best == self._json, None, detail, hint)

    def _context(self) -> Iterator[Finding]:
        # New each time: what an endpoint has in its cache, some count as unread.
        words = " ".join(random.choices(_WORDS, k=PROMPT_TOKENS))
        prompt = f"{words}\n\nThese words mean nothing. Reply with one word: done"
        try:
            completion = self._complete(prompt, OUTPUT_TOKENS, CONTEXT_SECONDS)
            read, is_counted = completion.tokens_in, completion.counted
        except PromptCut as fault:
            read, is_counted = fault.tokens_read, True
        except ContextTooLong as fault:
            size = re.search(r"context (?:size|length|window)\D{0,20}(\d+)", fault.raw)
            detail = f"refuses a prompt of {PROMPT_TOKENS:,} tokens: {fault.raw[:200]}"
            yield Finding("context", False, float(size[1]) if size else None, detail, _LONGER)
            return
        except TimedOut:
            detail = f"a prompt of {PROMPT_TOKENS:,} tokens was not read within {CONTEXT_SECONDS:g} s"
            yield Finding("context", None, None, detail, _SLOW_READER)
            return
        if not is_counted:
            yield Finding("context", None, None, "how much it reads is not known: it counts no tokens", _NO_USAGE)
        elif read < 0.95 * PROMPT_TOKENS:
            detail = f"read {read:,} of {PROMPT_TOKENS:,} tokens, and said nothing of it"
            yield Finding("context", False, read, detail, _CUT)
        else:
            yield Finding("context", True, read, f"reads a prompt of {read:,} tokens as a whole", _DEFAULT_CONTEXT)

    def _embedding(self) -> Iterator[Finding]:
        use = self._use
        vectors = self._ask(EmbedRequest(use.provider, use.model, _TEXTS, use.dimensions)).value
        dimensions = vectors.shape[1]
        yield Finding("embedding", True, dimensions, f"gives vectors of {dimensions} dimensions")

    def _rerank(self) -> Iterator[Finding]:
        fitting, other = self._ask(RerankRequest(self._use.provider, self._use.model, _QUERY, _TEXTS)).value
        detail = f"scores a text that answers {fitting:.2f}, another {other:.2f}"
        yield Finding("rerank", fitting > other, fitting - other, detail, None if fitting > other else _NO_RERANKER)

    def _complete(self, prompt: str, limit: int, seconds: float = SECONDS, form: str = "none") -> wire.Completion:
        """Return the answer to a prompt that nobody has asked before, so that no cache can have it."""
        messages = ({"role": "user", "content": f"Request {random.randrange(10**6)}. {prompt}"},)
        schema = None if form == "none" else _SCHEMA
        request = ChatRequest(CHECK, messages, lambda text, _: text, schema, cacheable=False, max_tokens=limit)
        completion: wire.Completion = self._ask(request, seconds, form).completion
        return completion

    def _json_of(self, prompt: str, form: str) -> Any:
        """Return the JSON of the reply to a prompt in a form; None if it is none."""
        forget_refusals(load_provider(self._db, self._use.provider), self._use.model)
        try:
            return json.loads(self._complete(prompt, OUTPUT_TOKENS, form=form).text)
        except (ItemFault, ValueError, RecursionError):
            return None

    def _ask(self, request: Request, seconds: float = SECONDS, form: str | None = None) -> Reply:
        seconds = max(0.1, min(seconds, self._until - time.monotonic()))
        # The endpoint's own time-out says more; the deadline is for the wait before the request.
        deadline = time.monotonic() + seconds + 1
        gateway = Gateway(self._db, self._corpus, worker=False, writes=self._writes, retries=0, deadline=deadline)
        endpoint, _ = gateway.endpoint_of(request)
        # It is asked even if it failed lately: that is the question.
        endpoint.breaker.fault = None
        endpoint.provider = replace(
            endpoint.provider, timeout=min(endpoint.provider.timeout, seconds), json=form or endpoint.provider.json
        )
        try:
            reply: Reply = gateway.run_one(asked(request))
        except DeadlineReached:
            waited = f'provider "{self._use.provider}" had no place, or no answer, within {seconds:.0f} s'
            raise TimedOut(waited, seconds) from None
        return reply


# Statuses of an endpoint that has no such path, or not for such a model.
_NO_SUCH_PATH = (404, 405, 501)


def _words(fault: GraphRAGError) -> tuple[str, str | None]:
    """Return what a fault says, and what to do."""
    status = getattr(fault, "status", None)
    hint = fault.hint
    if status == 503:
        hint = "The server may still load the model: try again in a moment."
    elif status == 429:
        hint = "Too many requests: try again later, and set the provider's requests_per_minute and tokens_per_minute."
    elif isinstance(fault, Repetition):
        hint = "The model is too small, or its server has no template for its chats (llama.cpp: --jinja)."
    elif isinstance(fault, TimedOut):
        hint = "The first request waits until the model is loaded: try again. If it stays so, use a smaller model."
    elif isinstance(fault, ProviderFault) and hint is None:
        hint = "Does it run, and is base_url its address as seen from the database server? Ollama's is http://127.0.0.1:11434/v1."
    return fault.message, hint


_REASONS = (
    "It thinks before it answers, which takes time and tokens. The provider's option"
    ' {"chat_request": {"reasoning_effort": "none"}} turns that off, where the model can do without.'
)
_NO_STREAM = "An answer shows at its end only, and one that repeats itself is not stopped: let no proxy collect it."
_NO_LIMIT = (
    "Set a limit at the server (Ollama: num_predict; llama.cpp: -n): a model that repeats itself writes until then."
)
_LONGER = (
    "Give the server a longer context (Ollama: OLLAMA_CONTEXT_LENGTH=16384; llama.cpp: -c 16384 for each slot of -np; vLLM:"
    " --max-model-len 16384), or ask with a smaller max_tokens, which is up to 30,000 by default."
)
_DEFAULT_CONTEXT = "Asking gives it up to 30,000 tokens unless max_tokens says less."
_CUT = f"Most of a context would be lost. Ollama reads num_ctx tokens, by default 4,096. {_LONGER}"
_SLOW_READER = "Answers are given what is read in time: use a faster model. Whether a long prompt is cut is not known."
_NO_USAGE = "Costs and limits go by estimates. See for yourself that its context is longer than the max_tokens that you ask with."
_NO_RERANKER = "It prefers the text that has nothing to do with the question: is it a model that re-ranks?"
