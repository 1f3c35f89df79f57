"""Faults of models: of the endpoint, the item or the budget. Each has its own consequence (docs/decisions/llm.md)."""

import re
from collections.abc import Iterable

from pg_graphrag.ground.errors import GraphRAGError
from pg_graphrag.text.letters import one_line

# Statuses by which firewalls refuse a text, and by which TEI reports an error within its model. 408 and 409 are the
# endpoint's.
_FORBIDDEN, _FAILED_WITHIN = frozenset({403, 406, 451}), 424


class ItemFault(GraphRAGError):
    """The model gave an unusable answer: counts against the item. `raw` is the answer."""

    def __init__(self, message: str, *, raw: str = "", hint: str | None = None):
        super().__init__(message, sqlstate="22000", detail=one_line(raw) or None, hint=hint)
        self.raw = raw


class Silence(ItemFault):
    """The model ended without an answer: without a word, or with a refusal."""


class ContextTooLong(ItemFault):
    """The prompt does not fit the model: split it and try the parts."""


class PromptCut(ContextTooLong):
    """The endpoint read only a part of the prompt and did not say so."""

    def __init__(self, provider: str, model: str, tokens_read: int):
        self.tokens_read = tokens_read
        super().__init__(
            f'provider "{provider}" read only {tokens_read:,} tokens of the prompt for model "{model}"',
            hint="Give the model a longer context at its server: OLLAMA_CONTEXT_LENGTH or num_ctx in Ollama, -c in llama.cpp.",
        )


class Repetition(ItemFault):
    """The model repeats itself. `raw` is its text before."""

    def __init__(self, raw: str):
        super().__init__("the model's answer repeats itself", raw=raw)


class Unembeddable(ItemFault):
    """A text that an endpoint gives no vector of, though it does of others."""


class ProviderFault(GraphRAGError):
    """The endpoint failed: time-out, connection, 429, 5xx. Counts against the provider, not the item.

    `retry_after` is the endpoint's own wish in seconds; `permanent` faults (key refused, no such model) will not pass by
    waiting. `status` is the HTTP status, if there was one. `was_sent` is False if the breaker held the request back.
    `is_of_vector`: a vector, of one text or all, is not of the model's form.
    """

    def __init__(
        self,
        message: str,
        *,
        retry_after: float | None = None,
        permanent: bool = False,
        status: int | None = None,
        was_sent: bool = True,
        is_of_vector: bool = False,
        hint: str | None = None,
    ):
        super().__init__(message, sqlstate="08006", hint=hint)
        self.is_of_vector = is_of_vector
        self.was_sent = was_sent
        self.status = status
        self.retry_after = retry_after
        self.permanent = permanent

    @property
    def is_forbidden(self) -> bool:
        """Whether the endpoint, or a firewall before it, may have forbidden the request, or the key."""
        return self.was_sent and self.status in _FORBIDDEN

    @property
    def may_be_of_text(self) -> bool:
        """Whether the text may be the reason: an odd vector, a filter, an error within the endpoint, a broken connection or
        silence.
        """
        if self.is_of_vector or not self.was_sent:
            return self.is_of_vector
        is_within = self.status is None or self.status >= 500 or self.status == _FAILED_WITHIN
        return self.is_forbidden or (is_within and not (self.permanent or self.retry_after))


class TimedOut(ProviderFault):
    """No token came for `seconds`; `has_begun`: some came before."""

    def __init__(self, message: str, seconds: float, has_begun: bool = False):
        super().__init__(message)
        self.seconds = seconds
        self.has_begun = has_begun


class CallersFault(GraphRAGError):
    """A fault of the caller, whose text he sees unchanged: it tells nothing of the owner's settings."""


class TooManyStreams(CallersFault):
    """A role has opened all of its streams."""

    def __init__(self, role: str, limit: int):
        super().__init__(
            f'role "{role}" has {limit} answers of ask_stream() open, as many as it may',
            sqlstate="53300",
            hint="Fetch one to its end or close its cursor; or ask the owner of the extension for more (provider option "
            "streams_per_role).",
        )


class StreamExpired(CallersFault):
    """A stream was open for too long, or not fetched for too long. Its place may be another's by now."""

    def __init__(self, condition: str, seconds: float, option: str):
        super().__init__(
            f"the answer of ask_stream() was {condition} for more than {seconds:g} s",
            sqlstate="57014",
            hint=f"Fetch it without long breaks, or ask again with ask(); provider option {option} is the limit.",
        )


class DeadlineReached(CallersFault):
    """The time that a caller gave is over."""

    def __init__(self) -> None:
        super().__init__("the models did not answer in time", sqlstate="57014", hint="Give a longer answer_timeout.")


class BudgetReached(GraphRAGError):
    """The corpus' monthly budget is spent."""

    def __init__(self, corpus: str, spent: float, budget: float):
        super().__init__(
            f'the monthly budget of corpus "{corpus}" is reached: {spent:.4f} of {budget:.4f} spent',
            sqlstate="53400",
            hint='Raise it: SELECT graphrag.alter_corpus(…, \'{"llm": {"monthly_budget": …}}\'); or wait for the next month.',
        )


class RoleLimitReached(BudgetReached, CallersFault):
    """A role has reached a limit of cost or of requests."""

    def __init__(self, message: str, hint: str):
        GraphRAGError.__init__(self, message, sqlstate="53400", hint=hint)

    @classmethod
    def of_budget(cls, corpus: str, role: str, budget: float) -> "RoleLimitReached":
        """The role's part of the corpus' budget is spent."""
        return cls(
            f'the monthly budget of role "{role}" for corpus "{corpus}" is reached: {budget:.4f}',
            "Wait for the next month, or ask the owner of the extension for more (corpus option llm.role_limits).",
        )

    @classmethod
    def of_rate(cls, corpus: str, role: str, limit: int) -> "RoleLimitReached":
        """The role has sent its requests of this minute."""
        return cls(
            f'role "{role}" has made the {limit} requests to models that it may make in a minute for corpus "{corpus}"',
            "Wait a minute, or ask the owner of the extension for more (corpus option llm.role_limits).",
        )


class Waiting(GraphRAGError):
    """The answer comes by the endpoint's batch API, later.

    `keys` are the requests that are waited for, `seconds` when to look again at the latest.
    """

    def __init__(self, message: str, keys: Iterable[str] = (), seconds: float = 3600.0):
        super().__init__(message, sqlstate="55000")
        self.keys = set(keys)
        self.seconds = seconds

    def with_keys(self, fault: "Waiting") -> "Waiting":
        """Add the keys of another fault; return this one."""
        self.keys |= fault.keys
        return self


def kind_of(error: str) -> str:
    """Return the kind of an error whose message may quote a request or its reply."""
    return match[0] if (match := re.match("[A-Za-z]+:", error)) else "other:"
