"""The models of a corpus for searches and answers. Needs the owner's rights, for providers, cache and accounts.

A request is a task of `pg_graphrag.llm.asking.tasks` with its arguments. Only the owner sees an endpoint's own error
text. The gateway is imported at the first request, because most sessions search without a model.
"""

import math
import re
import time
from collections.abc import Callable, Generator, Iterator
from dataclasses import dataclass, field, replace
from functools import cache, partial
from typing import TYPE_CHECKING, Any, ClassVar

from pg_graphrag.ground.errors import GraphRAGError
from pg_graphrag.ground.numeric import np
from pg_graphrag.ground.reasoning import MAX_HELD, ReasoningFilter, held_of
from pg_graphrag.llm.endpoints.faults import (
    BudgetReached,
    CallersFault,
    ContextTooLong,
    DeadlineReached,
    ItemFault,
    ProviderFault,
    Repetition,
    Silence,
    TimedOut,
    Unembeddable,
)
from pg_graphrag.llm.endpoints.requests import ChatRequest, RerankRequest, asked
from pg_graphrag.server import Database
from pg_graphrag.server.access.caller import Caller
from pg_graphrag.server.corpus.corpora import Corpus

if TYPE_CHECKING:
    from pg_graphrag.llm.endpoints.gateway import Gateway
    from pg_graphrag.llm.endpoints.providers import ModelHabits

# Longest wait for these roles: a search can do without them.
PATIENCE_SECONDS = {"keywords": 2.0, "relevance": 2.0}
# The share of its time in which an answer's prompt is to be read.
READING_SHARE = 0.8
# Characters of a text that models embed or re-rank.
MAX_CHARACTERS = 8000


# Why a reply is unusable though its endpoint works: then the material gathered without it is used.
DEADLINE, REPETITION, NO_CITATION, FORM = "deadline", "repetition", "no citation", "form"


class Uncited(ItemFault):
    """An answer that cites nothing of its context."""


class ModelFault(GraphRAGError):
    """A model's fault, as its caller may see it. `kind`: item, budget, provider, setting or caller.

    `reason`: why the reply is unusable although the endpoint works; None: it does not work. `is_late`: it came too late.
    `is_too_long`: the prompt is longer than the model can read.
    """

    def __init__(
        self,
        message: str,
        kind: str = "item",
        *,
        sqlstate: str = "22000",
        detail: str | None = None,
        hint: str | None = None,
        reason: str | None = None,
        is_late: bool = False,
        is_too_long: bool = False,
    ):
        super().__init__(message, sqlstate=sqlstate, detail=detail, hint=hint)
        self.kind = kind
        self.reason = reason
        self.is_late = is_late
        self.is_too_long = is_too_long

    @property
    def fields(self) -> dict[str, str]:
        """Detail and hint, where there are any, as a WARNING takes them."""
        return {name: text for name, text in (("detail", self.detail), ("hint", self.hint)) if text}


@dataclass(frozen=True, slots=True)
class Outcome:
    """The outcome of a task: its `value`, or a `fault`. `usage`: of a task that was asked alone."""

    value: Any = None
    fault: ModelFault | None = None
    cached: bool = False
    usage: dict[str, Any] = field(default_factory=dict)


@dataclass(eq=False)
class Models:
    """The models of a corpus, for a caller.

    `deadline` (monotonic seconds): when all requests end, `first_token`: when an answer must have begun; None: their own limits
    hold. `requests`: where they are listed, if anybody wants to know (`Ledger.list_requests`).
    """

    db: Database
    corpus: Corpus
    caller: Caller
    deadline: float | None = None
    first_token: float | None = None
    requests: list[dict[str, Any]] | None = None

    # Whether requests are sent, not only counted.
    sends: ClassVar[bool] = True

    @property
    def seconds_left(self) -> float:
        """The time until the deadline."""
        return math.inf if self.deadline is None else self.deadline - time.monotonic()

    def ask(
        self,
        task: str,
        arguments: dict[str, Any],
        *,
        retry: int = 0,
        check: Callable[[dict[str, Any]], None] | None = None,
    ) -> Outcome:
        """Have a task done.

        `retry`: how often it was asked before; `check` raises the `ItemFault` of a reply of no use.

        A fault is a value, for callers that can do without the model. The session keeps cost and answer until
        `save_accounts` writes them. For others than the owner `cached` is always false: others may have asked.
        """
        (outcome,), gateway = self._outcomes([_checked(self._request(task, arguments), check, retry)])
        return replace(outcome, usage=gateway.visible_usage)

    def ask_all(
        self, task: str, arguments: list[dict[str, Any]], retries: int | None = None
    ) -> tuple[list[Outcome], dict[str, Any]]:
        """Have a task done for each of several arguments, side by side; return (outcomes, usage).

        `retries`: how many requests may be sent again after a fault, all together; None: each as often as the gateway does.
        `usage` says with `sent_again` how many were.
        """
        if not arguments:
            return [], {}
        outcomes, gateway = self._outcomes([self._request(task, argument) for argument in arguments], retries)
        sent_again = max(0, gateway.usage.calls + gateway.usage.cache_hits - len(outcomes))
        return outcomes, gateway.visible_usage | {"sent_again": sent_again}

    def _outcomes(self, requests: list[ChatRequest], retries: int | None = None) -> tuple[list[Outcome], "Gateway"]:
        gateway = self._gateway(requests[0].role, retries)
        outcomes = [
            Outcome(fault=self._visible(request.role, reply))
            if isinstance(reply, GraphRAGError)
            else Outcome(reply.value, cached=reply.cached and self.caller.is_owner)
            for request, reply in zip(requests, gateway.run([asked(request) for request in requests]), strict=True)
        ]
        return outcomes, gateway

    def stream(
        self, task: str, arguments: dict[str, Any], *, check: Callable[[dict[str, Any]], None] | None = None
    ) -> Generator[str, None, None]:
        """Have a task done; yield the pieces of its answer as they come, none empty. Closing the generator ends the request.

        `check` as in `ask`: its fault comes behind the pieces.
        """
        request = _checked(self._request(task, arguments), check, 0)
        pieces: Iterator[str] = self._without_reasoning(self._gateway(request.role).stream(request), request.role)
        try:
            for piece in pieces if self.caller.is_owner else _by_words(pieces):
                if piece:
                    yield piece
        except GraphRAGError as fault:
            raise self._visible(request.role, fault) from None

    def _without_reasoning(self, pieces: Iterator[str], role: str) -> Iterator[str]:
        """Leave out the reasoning of an answer, as `replies.answer` does for a complete one."""
        from pg_graphrag.llm.endpoints.providers import THINKS_UNMARKED

        habits = self._habits(role)
        held = MAX_HELD if habits and habits.has(THINKS_UNMARKED) else held_of(self.corpus.options.llm.of(role)[1])
        reasoning = ReasoningFilter(held)
        try:
            for piece in pieces:
                yield reasoning.feed(piece)
        except GraphRAGError:
            # The beginning of an answer is one, too.
            if not reasoning.may_think:
                yield reasoning.finish()
            raise
        yield reasoning.finish()
        if reasoning.has_shown_reasoning:
            self.db.warning(
                "the answer began with the model's reasoning, which no mark had begun: it ends before a blank line",
                hint="Streams wait for the end of this model's reasoning from now on.",
            )

    def embed(self, texts: list[str], without: dict[str, GraphRAGError] | None = None) -> tuple[Any, dict[str, Any]]:
        """Return (vectors of texts by the corpus' embedding model at an endpoint, (texts, dimensions) float32; usage).

        Of a long text its beginning. One request, unless the endpoint refuses so many texts, or such a length. `without`
        collects the texts without a vector by the model, with their faults.
        """
        if not texts or not all(texts):
            raise GraphRAGError("an empty text has no vector", hint="Give a text.")
        from pg_graphrag.llm.endpoints.endpoint_embedding import embedding

        gateway = self._gateway("embedding")
        try:
            vectors = gateway.run_one(
                embedding(
                    self.corpus.options.embedding,
                    [text[:MAX_CHARACTERS] for text in texts],
                    is_waited_for=without is None,
                )
            )
            for text, vector in zip(texts, vectors, strict=True):
                if isinstance(vector, Unembeddable) and without is not None:
                    without[text] = vector
                elif isinstance(vector, GraphRAGError):
                    raise vector
        except GraphRAGError as fault:
            raise self._visible("embedding", fault) from None
        return np.array([vector for vector in vectors if not isinstance(vector, GraphRAGError)]), gateway.visible_usage

    def rerank(self, query: str, texts: list[str]) -> tuple[list[float], dict[str, Any]]:
        """Return (relevance of each text to the query by the corpus' cross-encoder; usage); of long texts their beginning."""
        gateway = self._gateway("rerank")
        cut = tuple(text[:MAX_CHARACTERS] for text in texts)
        try:
            request = RerankRequest(*self.corpus.options.reranker(), query[:MAX_CHARACTERS], cut)
            scores: list[float] = gateway.run_one(asked(request)).value
        except GraphRAGError as fault:
            raise self._visible("rerank", fault) from None
        return scores, gateway.visible_usage

    def readable(self, task: str, arguments: dict[str, Any], seconds: float) -> tuple[float, int] | None:
        """Return (tokens a second that a task's model reads, tokens of texts that it reads within so many seconds).

        None if unknown. `arguments`: those of the task, with empty texts.
        """
        from pg_graphrag.llm.endpoints.requests import estimated_tokens

        request = self._request(task, arguments)
        habits = self._habits(request.role)
        speed = habits and habits.tokens_a_second()
        if not habits or not speed:
            return None
        waited = min(seconds, habits.provider.timeout, self.corpus.options.llm.timeout_of(request.role) or math.inf)
        return speed, int(READING_SHARE * waited * speed) - estimated_tokens(request)

    def _habits(self, role: str) -> "ModelHabits | None":
        """Return the recorded habits of a role's model; None if its provider is not set up, which the request itself will
        report.
        """
        from pg_graphrag.llm.endpoints.providers import ModelHabits, load_provider

        name, model = self.corpus.options.llm.of(role)
        try:
            return ModelHabits(self.db, load_provider(self.db, name), model)
        except GraphRAGError:
            return None

    def _visible(self, role: str, fault: GraphRAGError) -> ModelFault:
        """Return a fault as the caller may see it."""
        visible = partial(
            ModelFault,
            sqlstate=fault.sqlstate,
            reason=_reason(fault),
            is_late=isinstance(fault, (DeadlineReached, TimedOut)),
            is_too_long=isinstance(fault, ContextTooLong),
        )
        if isinstance(fault, CallersFault):
            return visible(fault.message, "caller", detail=fault.detail, hint=fault.hint)
        kind = "setting"
        for name, fault_type in (("item", ItemFault), ("budget", BudgetReached), ("provider", ProviderFault)):
            kind = name if isinstance(fault, fault_type) else kind
        if not self.caller.is_owner:
            hint = _SHORTEN if isinstance(fault, ContextTooLong) else _HINTS[kind]
            return visible(_public_message(self.corpus, role, kind, fault), kind, hint=hint)
        # A prompt that was read in part alone names the setting of its server.
        owners_hint = _SHORTEN if isinstance(fault, ContextTooLong) else _OWNERS_HINTS.get(kind)
        return visible(fault.message, kind, detail=fault.detail, hint=fault.hint or owners_hint)

    def _request(self, task: str, arguments: dict[str, Any]) -> ChatRequest:
        from pg_graphrag.llm.asking import tasks

        return tasks.request(self.corpus.options, task, arguments)

    def _gateway(self, role: str, retries: int | None = None) -> "Gateway":
        from pg_graphrag.llm.endpoints.gateway import INTERACTIVE_SECONDS, Gateway

        patience = PATIENCE_SECONDS.get(role, INTERACTIVE_SECONDS)
        gateway = Gateway(
            self.db,
            self.corpus,
            worker=False,
            writes=False,
            caller=self.caller,
            patience=patience,
            retries=retries,
            deadline=self.deadline,
            first_token=self.first_token,
        )
        if self.requests is not None:
            gateway.ledger.list_requests(self.requests)
        return gateway


def save_accounts(db: Database, corpus: Corpus) -> None:
    """Write what the session's requests for a corpus answered and cost, where the transaction may write."""
    from pg_graphrag.llm.endpoints.ledger import Ledger

    read_only = db.value("SELECT pg_catalog.current_setting('transaction_read_only')::boolean")
    Ledger(db, corpus, writes=not read_only).save()


def _checked(request: ChatRequest, check: Callable[[dict[str, Any]], None] | None, retry: int) -> ChatRequest:
    """Return a request with another check of its reply; a reply that fails it is not cached."""
    if check is None:
        return replace(request, retry=retry)

    def parse(text: str, cut_off: bool) -> Any:
        value = request.parse(text, cut_off)
        check(value)
        return value

    return replace(request, parse=parse, retry=retry)


@cache
def _word() -> re.Pattern[str]:
    """Scripts without spaces between words go one character at a time. Compiled on first use: that takes 2 ms."""
    return re.compile(r"\s*(?:[\u2e80-\uffff]|[^\s\u2e80-\uffff]+)")


def _by_words(pieces: Iterator[str]) -> Iterator[str]:
    """Yield the same text word by word: the pieces must not reveal whether the answer was cached."""
    rest = ""
    for piece in pieces:
        rest += piece
        words = list(_word().finditer(rest))
        # A word is complete only when another follows.
        for word in words[:-1]:
            yield word.group()
        rest = rest[words[-1].start() :] if words else rest
    yield rest


def _reason(fault: GraphRAGError) -> str | None:
    for fault_type, reason in ((DeadlineReached, DEADLINE), (Repetition, REPETITION), (Uncited, NO_CITATION)):
        if isinstance(fault, fault_type):
            return reason
    # The model said nothing, or something that cannot be read. What an endpoint refuses has no words of a model.
    is_answered = isinstance(fault, Silence) or (isinstance(fault, ItemFault) and fault.raw)
    return FORM if is_answered and not isinstance(fault, ContextTooLong) else None


_OWNER = "Who owns the extension finds the reason in graphrag.llm_calls."
_HINTS = {
    "item": "Ask again, or otherwise.",
    "budget": "Who owns the extension can raise it.",
    "provider": f"Ask again later. {_OWNER}",
    "setting": "Who owns the extension must set the model up: graphrag.set_provider(…), graphrag.alter_corpus(…).",
}
_OWNERS_HINTS = {
    "item": _HINTS["item"],
    "provider": "Ask again later, or check the endpoint and what graphrag.set_provider(…) says of it (base_url, timeout).",
}
_SHORTEN = "Give a smaller max_tokens, or a shorter question or history."


def _public_message(corpus: Corpus, role: str, kind: str, fault: GraphRAGError) -> str:
    if isinstance(fault, ContextTooLong):
        return f'the prompt is too long for the model of the role "{role}"'
    return {
        "item": f'the model of the role "{role}" gave no usable answer',
        "budget": f'the monthly budget of corpus "{corpus.name}" is reached',
        "provider": f'the model of the role "{role}" cannot be reached',
        "setting": f'the model of the role "{role}" is not set up',
    }[kind]
