"""Answers that hold. One that repeats itself or cites nothing of its context is asked for once more, then extracts are given.

What has no citation is no answer of this system, in whatever form it was asked for; only the sentence that says that the
documents have none needs no citation. So has a context without references, which cannot be cited.
"""

import hashlib
import json
import re
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import partial
from typing import Any

from pg_graphrag.llm.asking import tasks
from pg_graphrag.llm.asking.models import DEADLINE, FORM, NO_CITATION, REPETITION, ModelFault, Uncited
from pg_graphrag.llm.endpoints.gateway import CUT_OFF
from pg_graphrag.search.answer.extracts import Extracts, extracts
from pg_graphrag.search.contexts.citations import Citations
from pg_graphrag.search.query.query import Query
from pg_graphrag.server import Database
from pg_graphrag.server.access.entry import as_owner
from pg_graphrag.text import prompts

# How often a model is asked for an answer.
ATTEMPTS = 2
# Shares of the time until the first token of an answer: for the context, and for the whole answer.
CONTEXT_SHARE, WHOLE_SHARE = 0.5, 2.0

# So long before the end an answer may have been cut off.
CUT_SECONDS = 0.5

# Why a stream is discarded, besides faults: the model read only a part of the prompt.
CONTEXT = "context"
# Why extracts are given where the corpus has no model for answers.
NO_MODEL = "no model"
_WHY = {
    CONTEXT: "the model read only a part of the documents",
    REPETITION: "the model's answer repeated itself",
    NO_CITATION: "the model's answer cited none of the documents",
    FORM: "the model gave no answer that can be read",
    DEADLINE: "the model gave no answer within answer_timeout ({seconds:g} s)",
}
_HINT = "Another model for answers may do better: corpus option llm.roles.answer."
_HINTS = {
    CONTEXT: "Give it a longer context at its server (num_ctx in Ollama, -c in llama.cpp), or a smaller max_tokens.",
    DEADLINE: "Give a smaller max_tokens, the option answer_timeout more seconds, or a faster model.",
}

# Characters of an answer in which copies are looked for.
MAX_GIVEN = 20_000
# Answers for which extracts were given, which only the role and the transaction that asked have again, for the citations of a
# stream: {(corpus, role, digest of the arguments): (its begin, why)}.
MAX_GIVEN_UP = 100
_given_up: dict[tuple[int, str, str], tuple[str, str]] = {}
# In the same way, why the first answer did not hold where the second did: it is not asked for again.
_held_second: dict[tuple[int, str, str], tuple[str, str]] = {}


@dataclass(frozen=True, slots=True)
class Deadlines:
    """Until when (monotonic seconds) the context may ask models, the first token must come, and all of an answer."""

    seconds: float
    started_at: float = field(default_factory=time.monotonic)

    @property
    def context(self) -> float:
        """The deadline for requests to models by the context."""
        return self.started_at + CONTEXT_SHARE * self.seconds

    @property
    def first_token(self) -> float:
        """When the first token of the answer must have come."""
        return self.started_at + self.seconds

    @property
    def end(self) -> float:
        """The end of everything."""
        return self.started_at + WHOLE_SHARE * self.seconds


@dataclass
class AskRequest:
    """A question with its context, ready for the model; `usage` counts understanding and context."""

    query: Query
    question: str
    mode: str
    task: str
    context: dict[str, Any]
    arguments: dict[str, Any]
    usage: dict[str, Any]
    deadlines: Deadlines

    def citations(self) -> Citations:
        """Return a filter for its answer."""
        numbers = [reference["number"] for reference in self.context["references"]]
        return Citations(numbers, self.context["prompt"])

    @property
    def has_model(self) -> bool:
        """Whether the corpus has a model for answers."""
        return self.query.corpus.options.llm.has("answer")

    @property
    def language(self) -> str:
        """That of the question."""
        return tasks.language_of(self.query.corpus.options, self.arguments)

    @property
    def not_found(self) -> str:
        """The sentence that says that the documents have no answer."""
        return prompts.sentence("not_found", self.language)

    def in_its_language(self, text: str) -> str:
        """Return an answer; "the documents have none" as that sentence alone, in the question's language if it was in
        English.
        """
        sentence = _NOT_FOUND.get(_bare(text), text)
        return self.not_found if sentence == _NOT_FOUND_IN_ENGLISH else sentence

    def may_be_not_found(self, text: str) -> bool:
        """Whether the text so far may become the sentence that there is no answer, in English or the question's language."""
        begun = _bare(text)
        # In English the sentence is right behind a label, too.
        may_be_label = self.language != "en" and len(text) <= _LONGEST_LABEL and _MAY_BE_LABEL.fullmatch(text)
        return bool(may_be_label) or any(
            _bare(sentence).startswith(begun) for sentence in (_NOT_FOUND_IN_ENGLISH, self.not_found)
        )

    def reason_of(self, fault: ModelFault) -> str | None:
        """Return why an answer does not hold; None where it is the endpoint that fails. What was cut off in time has no end."""
        is_cut = fault.reason is not None and time.monotonic() >= self.deadlines.end - CUT_SECONDS
        return DEADLINE if is_cut else fault.reason

    @property
    def is_chat(self) -> bool:
        """Whether the model is asked without documents."""
        return self.task == "chat"

    @property
    def is_structured(self) -> bool:
        """Whether the answer must be JSON. Extracts are none."""
        return "schema" in self.arguments

    def cited_by(self, reply: dict[str, Any]) -> list[int]:
        """Return the numbers of the context that an answer in JSON names as its sources."""
        numbers = {reference["number"] for reference in self.context["references"]}
        return [number for number in dict.fromkeys(reply.get("sources", ())) if number in numbers]

    def check(self, reply: dict[str, Any]) -> None:
        """Raise the fault of an answer that cites nothing of the context."""
        text = reply["text"]
        citations = self.citations()
        cleaned = citations.feed(text) + citations.finish()
        cited = self.cited_by(reply) if self.is_structured else citations.cited_sentences
        if self.context["references"] and not cited and _bare(cleaned) not in _NOT_FOUND:
            raise Uncited("the model's answer cites none of the documents", raw=text)


@dataclass
class Answer:
    """An answer, its citations as (number, sentence), how many invalid citations it had, and the usage of everything."""

    text: str
    cited_sentences: list[tuple[int, str]]
    invalid: int
    usage: dict[str, Any]


# What models put before the sentence, "1. " or "Final answer: ", and a number that they cite for it though it needs none.
_LABEL = re.compile(r"\A\W*(?:\d{1,2}[.)]\W*)?(?:\w{1,12}(?:\s\w{1,12})?\W*[:：])?")
_CITED = re.compile(r"\[\d+\]")
# What may become such a label: no more than two words, that other answers do not wait for long.
_MAY_BE_LABEL, _LONGEST_LABEL = re.compile(r"\W*(?:\d{1,2}[.)]\W*)?(?:\w{1,12}(?:\s\w{0,12})?)?[*\s]*"), 40
_WORDS = re.compile(r"[^\W_]+")


def _bare(sentence: str) -> str:
    return " ".join(_WORDS.findall(_LABEL.sub("", _CITED.sub("", sentence)).casefold()))


_NOT_FOUND = {_bare(sentence): sentence for sentence in prompts.sentences("not_found").values()}
_NOT_FOUND_IN_ENGLISH = prompts.sentence("not_found", "en")


def answer_of(request: AskRequest) -> Answer:
    """Return the answer to a question from its context; extracts if the model gives no valid one.

    Raises ModelFault: the fault of an endpoint; that of the model if there is nothing to extract.
    Raises GraphRAGError: 55000 if there is neither a model nor anything to extract.
    """
    models, usage = request.query.models, request.usage
    if request.is_chat:
        return _chat_answer(request)
    if not request.context["prompt"]:
        return Answer(request.not_found, [], 0, usage)
    if not request.has_model:
        return _without_model(request)
    if (reason := _noted(_given_up, request)) is not None and (extracted := _extracts(request)) is not None:
        return _as_answer(extracted, reason, usage)
    models.first_token, models.deadline = request.deadlines.first_token, request.deadlines.end
    reason = _noted(_held_second, request)
    for attempt in range(0 if reason is None else 1, ATTEMPTS):
        arguments = request.arguments | ({"missing": reason} if attempt else {})
        outcome = models.ask(request.task, arguments, retry=attempt, check=request.check if models.sends else None)
        usage = total_usage(usage, outcome.usage)
        if outcome.fault is None:
            if attempt and reason is not None:
                _note(_held_second, request, reason)
            if outcome.value["cut_off"]:
                request.query.db.warning(CUT_OFF)
                usage |= {"cut_off": True}
            if request.is_structured:
                # Brackets here are JSON.
                text, cited = outcome.value["text"], request.cited_by(outcome.value)
                return Answer(text, [(number, text) for number in cited], 0, usage)
            citations = request.citations()
            answer = citations.feed(outcome.value["text"]) + citations.finish()
            text = request.in_its_language(answer)
            return Answer(text, citations.cited_sentences if text == answer else [], citations.invalid, usage)
        fault = outcome.fault
        if (latest := request.reason_of(fault)) is None:
            raise fault
        # A second answer that is late changes nothing.
        reason = reason or latest
        if latest == DEADLINE or time.monotonic() >= request.deadlines.first_token:
            break
    extracted = None if request.is_structured else _extracts(request)
    if extracted is None or reason is None:
        raise fault
    _warn(request, reason)
    return _as_answer(extracted, reason, usage)


def pieces_of(db: Database, request: AskRequest) -> Iterator[str]:
    """Yield the answer in pieces, none empty, without citations of nothing, as they come.

    Where it turns out not to hold it ends there, and extracts follow behind a line that says so. What is a copy of earlier text
    waits until something else follows it: of a repetition only the first is yielded.
    """
    if request.is_chat or request.is_structured:
        # No part of it is taken back, or it comes whole.
        yield as_owner(db, partial(answer_of, request)).text
        return
    if not request.context["prompt"]:
        yield request.not_found
        return
    if not request.has_model:
        yield as_owner(db, partial(_without_model, request)).text
        return
    citations, copies, unsent, has_begun = request.citations(), Copies(), "", False
    models = request.query.models
    models.first_token, models.deadline = request.deadlines.first_token, request.deadlines.end
    stream = models.stream(request.task, request.arguments, check=request.check)
    try:
        while True:
            piece, fault = as_owner(db, partial(_next, stream, has_begun))
            if piece is None:
                break
            has_begun = True
            unsent += citations.feed(piece)
            if not copies.handed_out and request.may_be_not_found(unsent):
                continue
            text, unsent = copies.feed(unsent), ""
            if text:
                yield text
    finally:
        stream.close()
    reason = None if fault is None else request.reason_of(fault) or CONTEXT
    rest = unsent + citations.finish()
    rest = rest if copies.handed_out else request.in_its_language(rest)
    if reason != REPETITION and (text := copies.feed(rest) + copies.finish()):
        yield text
    if reason == DEADLINE and citations.cited_sentences:
        as_owner(db, lambda: request.query.db.warning(CUT_OFF))
    elif reason is not None:
        extracted = as_owner(db, lambda: _extracts(request))
        if extracted is not None:
            as_owner(db, partial(_give_up, request, reason))
            yield ("\n\n" if copies.handed_out else "") + extracted.text
        elif fault is not None:
            raise fault


def _next(stream: Iterator[str], has_begun: bool) -> tuple[str | None, ModelFault | None]:
    """Return (the next piece; None at the end, the fault that ended it)."""
    try:
        return next(stream, None), None
    except ModelFault as fault:
        if fault.reason is None and not (has_begun and fault.is_too_long):
            raise
        return None, fault


def total_usage(first: dict[str, Any], second: dict[str, Any]) -> dict[str, Any]:
    """Return the usage of both."""
    total = {
        name: first.get(name, 0) + second.get(name, 0)
        for name in ("calls", "tokens_in", "tokens_out", "cost", "cache_hits")
    }
    return total | {"cost": round(float(total["cost"]), 8)}


class Copies:
    """Holds back text while all of it occurred before: it may be the next copy of a repetition, or a frequent word."""

    def __init__(self) -> None:
        self.handed_out = self._held = ""

    def feed(self, text: str) -> str:
        """Take text; return what can be given."""
        self._held += text
        held, whole = self._held.lstrip(), self.handed_out + self._held
        if whole.find(held) < len(whole) - len(held) or not held:
            return ""
        return self.finish()

    def finish(self) -> str:
        """Return the text that is held back: it was no repetition."""
        text, self._held = self._held, ""
        self.handed_out = (self.handed_out + text)[-MAX_GIVEN:]
        return text


def _extracts(request: AskRequest) -> Extracts | None:
    return extracts(request.query, request.context, request.language, has_model=request.has_model)


def _chat_answer(request: AskRequest) -> Answer:
    """Return what the model says by itself."""
    models = request.query.models
    models.first_token, models.deadline = request.deadlines.first_token, request.deadlines.end
    outcome = models.ask(request.task, request.arguments)
    if outcome.fault is not None:
        raise outcome.fault
    usage = total_usage(request.usage, outcome.usage)
    return Answer(outcome.value["text"], [], 0, usage | ({"cut_off": True} if outcome.value["cut_off"] else {}))


def _without_model(request: AskRequest) -> Answer:
    extracted = None if request.is_structured else _extracts(request)
    if extracted is not None:
        return _as_answer(extracted, NO_MODEL, request.usage)
    request.query.corpus.options.llm.of("answer")
    raise AssertionError("a corpus without a model has none for answers")


def _as_answer(extracted: Extracts, reason: str, usage: dict[str, Any]) -> Answer:
    return Answer(extracted.text, extracted.cited_sentences, 0, usage | {"answer": "extracts", "reason": reason})


def _warn(request: AskRequest, reason: str) -> None:
    why = _WHY[reason].format(seconds=request.deadlines.seconds)
    request.query.db.warning(f"{why}: what is given are sentences of the documents", hint=_HINTS.get(reason, _HINT))


def _give_up(request: AskRequest, reason: str) -> None:
    """Say that extracts are given, and keep why for the rest of the transaction: ask() after ask_stream() has the same."""
    _warn(request, reason)
    _note(_given_up, request, reason)


def _note(notes: dict[tuple[int, str, str], tuple[str, str]], request: AskRequest, reason: str) -> None:
    notes[_key(request)] = _transaction(request), reason
    while len(notes) > MAX_GIVEN_UP:
        del notes[next(iter(notes))]


def _noted(notes: dict[tuple[int, str, str], tuple[str, str]], request: AskRequest) -> str | None:
    """Return the record of the same question earlier in this transaction; None if there is none."""
    begun, reason = notes.get(_key(request), ("", ""))
    return reason if begun and begun == _transaction(request) else None


def _key(request: AskRequest) -> tuple[int, str, str]:
    arguments = json.dumps([request.task, request.arguments], sort_keys=True, default=list)
    digest = hashlib.sha256(arguments.encode("utf-8", "replace")).hexdigest()
    return request.query.corpus.id, request.query.caller.role, digest


def _transaction(request: AskRequest) -> str:
    return str(request.query.db.value("SELECT pg_catalog.transaction_timestamp()::text"))
