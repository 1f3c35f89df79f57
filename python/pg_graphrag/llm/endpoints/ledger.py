"""Costs and answers of calls (llm_calls, llm_cache), and the rest of the budget."""

import hashlib
import json
import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from pg_graphrag.llm.endpoints.faults import BudgetReached, RoleLimitReached, kind_of
from pg_graphrag.llm.endpoints.meters import Meter
from pg_graphrag.llm.endpoints.providers import Provider
from pg_graphrag.llm.endpoints.requests import ChatRequest, count_tokens, estimated_tokens
from pg_graphrag.server import Database, columns
from pg_graphrag.server.access.caller import Caller
from pg_graphrag.server.corpus.corpora import Corpus


@dataclass(slots=True)
class Usage:
    """Calls, tokens and cost (in the currency of the provider's prices) of one piece of work."""

    calls: int = 0
    tokens_in: int = 0
    tokens_out: int = 0
    cost: float = 0.0
    cache_hits: int = 0

    def add(self, tokens: tuple[int, int], cost: float) -> None:
        """Count one call; `tokens` in and out."""
        self.calls += 1
        self.tokens_in += tokens[0]
        self.tokens_out += tokens[1]
        self.cost += cost

    def as_dict(self) -> dict[str, Any]:
        """The usage as users see it."""
        return {
            "calls": self.calls,
            "tokens_in": self.tokens_in,
            "tokens_out": self.tokens_out,
            "cost": round(self.cost, 8),
            "cache_hits": self.cache_hits,
        }


def cache_key(model: str, messages: Sequence[dict[str, str]], retry: int = 0, variant: str = "") -> str:
    """Return the SHA-256 that is an answer's key in its corpus."""
    parts = [model, list(messages), *([retry] if retry else []), *([variant] if variant else [])]
    text = json.dumps(parts, ensure_ascii=False, sort_keys=True)
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()


def cost(provider: Provider, tokens_in: int, tokens_out: int) -> float:
    """Return what a call costs by the provider's prices per million tokens."""
    return (tokens_in * provider.price_input + tokens_out * provider.price_output) / 1e6


# The session's knowledge of the recorded cost of this month's calls, of a corpus or of a role: (when it was read, the
# sum). It is not read at every request: the month may have many calls.
BUDGET_SECONDS = 5.0
_written_costs: dict[tuple[int, str | None], tuple[float, float]] = {}
_WRITTEN = """
SELECT coalesce(pg_catalog.sum(c.cost), 0)::float8 AS spent FROM graphrag.llm_calls c
 WHERE c.corpus_id = $1 AND ($2 IS NULL OR c.role = $2) AND c.at >= pg_catalog.date_trunc('month', pg_catalog.now(), 'UTC')
"""
# What a session was told where nothing may be written (search, a standby): {(corpus, key): answer}, oldest first; and the
# calls it made there, by corpus, until it may write them down, each with Corpus.forgets when it was asked.
MAX_REMEMBERED = 2000
_remembered_replies: dict[tuple[int, str], str] = {}
_unwritten: dict[int, list[tuple[Any, ...]]] = {}
# The answers among them, by corpus: {key: (purpose, model, answer, forgets)}.
_Kept = tuple[str, str, str, int]
_unsaved: dict[int, dict[str, _Kept]] = {}
# Answers that were cut off, which only the role and the transaction that paid for them have again:
# {(corpus, role, key): (its begin, answer)}.
MAX_CUT_OFF = 100
_cut_off: dict[tuple[int, str | None, str], tuple[str, str]] = {}

# The requests that were listed in a transaction, which knows their replies: {(corpus, role, key): (its begin, request)}.
MAX_LISTED = 100
_listed: dict[tuple[int, str | None, str], tuple[str, dict[str, Any]]] = {}

# The place of the error in a call; `forgets` is the last.
_ERROR = 7


def hold_replies(db: Database, corpus: Corpus) -> int:
    """Keep forget() waiting until the transaction ends, and return the `Corpus.forgets` of now."""
    return int(db.value("SELECT graphrag._hold_replies($1)", ["int4"], [corpus.id]))


def may_note(db: Database, corpus_id: int) -> bool:
    """Whether requests of a corpus may be recorded: not while it moves to another database."""
    return bool(db.value("SELECT graphrag._may_note($1)", ["int4"], [corpus_id]))


class Ledger:
    """The accounts of a corpus.

    `writes`: False if nothing may be written: in search, on a standby.
    `caller`: who asks; None: a worker, whose calls are recorded for the session's role.
    """

    def __init__(self, db: Database, corpus: Corpus, writes: bool, caller: Caller | None = None) -> None:
        self._db = db
        self._corpus = corpus
        self._role = None if caller is None else caller.role
        # All roles share the cache: a reader must not learn from his usage what others asked before.
        self.discreet = caller is not None and not caller.is_owner
        self.writes = writes
        self._calls: list[tuple[Any, ...]] = _unwritten.pop(corpus.id, []) if writes else []
        self._answers: dict[str, _Kept] = _unsaved.pop(corpus.id, {}) if writes else {}
        # The cache has them from now on, if the transaction commits.
        for key in self._answers:
            _remembered_replies.pop((corpus.id, key), None)
        # Whether forget() has taken a document out of the corpus since it was read: what an error says may quote it.
        self.is_outdated = False
        self.usage = Usage()
        self._answered = Usage()
        self._list: list[dict[str, Any]] | None = None
        self._begin = ""

    def list_requests(self, requests: list[dict[str, Any]]) -> None:
        """Record requests in a list from now on: {purpose, provider, model, tokens_in, tokens_out, cost, ended, seconds}.

        `ended`: by time.perf_counter(). For readers, as in their usage, each answered request is listed, from the cache or
        not; therefore its `seconds` are null.
        """
        self._list, self._begin = requests, self._transaction()

    @property
    def limited_role(self) -> str | None:
        """The role whose limits hold; None: nobody's, for the owner and workers."""
        return self._role if self.discreet else None

    @property
    def visible_usage(self) -> Usage:
        """The usage that the caller may see: for readers a cached answer counts as much as a new one."""
        return self._answered if self.discreet else self.usage

    def cached(self, keys: Sequence[str]) -> dict[str, str]:
        """Return {key: answer} of the cached answers."""
        if not keys:
            return {}
        rows = self._db.query(
            "SELECT c.key, c.reply FROM graphrag.llm_cache c WHERE c.corpus_id = $1 AND c.key = ANY ($2)",
            ["int4", "text[]"],
            [self._corpus.id, list(keys)],
        )
        replies = {row["key"]: row["reply"] for row in rows}
        for key in keys:
            if key not in replies and (self._corpus.id, key) in _remembered_replies:
                replies[key] = _remembered_replies[self._corpus.id, key]
        return replies

    def cut_off(self, key: str) -> str | None:
        """Return the answer that was cut off earlier in this transaction, if there is one."""
        transaction, reply = _cut_off.get((self._corpus.id, self._role, key), ("", ""))
        return reply if transaction and transaction == self._transaction() else None

    def keep_cut_off(self, key: str, reply: str) -> None:
        """Keep an answer that was cut off for the rest of the transaction: ask() after ask_stream() has the same."""
        _cut_off[self._corpus.id, self._role, key] = self._transaction(), reply
        while len(_cut_off) > MAX_CUT_OFF:
            del _cut_off[next(iter(_cut_off))]

    def _transaction(self) -> str:
        return str(self._db.value("SELECT pg_catalog.transaction_timestamp()::text"))

    def note_call(
        self,
        provider: Provider,
        model: str,
        purpose: str,
        tokens: tuple[int, int],
        seconds: float,
        error: str | None,
        reserved: float,
        key: str,
    ) -> None:
        """Note one request, also a failed one; `reserved` is the cost counted when it was sent."""
        spent = cost(provider, *tokens)
        self.usage.add(tokens, spent)
        is_never_cached = purpose in ("embedding", "rerank")
        if is_never_cached:
            self._answered.add(tokens, spent)
        if is_never_cached or not self.discreet:
            self._note_request(key, purpose, provider, model, tokens, seconds)
        self._meter(spent - reserved)
        self._calls.append(
            (
                provider.name,
                model,
                purpose,
                *tokens,
                spent,
                seconds,
                error and error[:500],
                self._role,
                self._corpus.forgets,
            )
        )

    def note_answer(
        self, provider: Provider, request: ChatRequest, text: str, key: str, seconds: float | None = None
    ) -> None:
        """Note that a request was answered, by the endpoint or from the cache: its tokens are a quarter of the bytes.

        `seconds`: that the endpoint took.
        """
        tokens = estimated_tokens(request), count_tokens(None, text)
        self._answered.add(tokens, cost(provider, *tokens))
        if self.discreet and (seconds is not None or not self.note_known(key)):
            model = self._corpus.options.llm.of(request.role)[1]
            self._note_request(key, request.role, provider, model, tokens, None)

    def note_known(self, key: str) -> bool:
        """List a request whose reply is known where this transaction sent it: ask() after ask_stream(). Return whether it did."""
        begin, request = _listed.get((self._corpus.id, self._role, key), ("", {}))
        if self._list is None or not begin or begin != self._begin:
            return False
        self._list.append(request)
        return True

    def _note_request(
        self, key: str, purpose: str, provider: Provider, model: str, tokens: tuple[int, int], seconds: float | None
    ) -> None:
        if self._list is None:
            return
        request = {
            "purpose": purpose,
            "provider": provider.name,
            "model": model,
            "tokens_in": tokens[0],
            "tokens_out": tokens[1],
            "cost": round(cost(provider, *tokens), 8),
            "ended": time.perf_counter(),
            "seconds": seconds,
        }
        self._list.append(request)
        _listed[self._corpus.id, self._role, key] = self._begin, request
        while len(_listed) > MAX_LISTED:
            del _listed[next(iter(_listed))]

    def keep(self, key: str, purpose: str, model: str, reply: str) -> None:
        """Keep a completely parsed answer."""
        self._answers[key] = (purpose, model, reply, self._corpus.forgets)

    def save(self) -> None:
        """Write the notes in the caller's transaction; keep them in the session where nothing may be written."""
        if not self.writes or ((self._calls or self._answers) and not may_note(self._db, self._corpus.id)):
            self.remember()
            return
        if self._answers or any(call[_ERROR] for call in self._calls):
            self._leave_out_forgotten()
        if self._calls:
            self._db.query(
                "INSERT INTO graphrag.llm_calls"
                " (corpus_id, provider, model, purpose, tokens_in, tokens_out, cost, seconds, error, role)"
                " SELECT $1, u.provider, u.model, u.purpose, u.tokens_in, u.tokens_out, u.cost, u.seconds, u.error,"
                " coalesce(u.role, session_user) FROM unnest($2, $3, $4, $5, $6, $7, $8, $9, $10)"
                " AS u (provider, model, purpose, tokens_in, tokens_out, cost, seconds, error, role)",
                ["int4", *["text[]"] * 3, "int4[]", "int4[]", "numeric[]", "float8[]", "text[]", "name[]"],
                [self._corpus.id, *columns([call[:-1] for call in self._calls])],
            )
        if self._answers:
            self._db.query(
                "SELECT graphrag._keep_replies($1, $2, $3, $4, $5)",
                ["int4", "text[]", "text[]", "text[]", "text[]"],
                [self._corpus.id, *columns([(key, *kept[:-1]) for key, kept in sorted(self._answers.items())])],
            )
        self._calls.clear()
        self._answers.clear()

    def _leave_out_forgotten(self) -> None:
        """Leave out what models said to questions of before forget() took a document out of the corpus: it may quote it."""
        forgets = hold_replies(self._db, self._corpus)
        self.is_outdated = forgets != self._corpus.forgets
        self._answers = {key: kept for key, kept in self._answers.items() if kept[-1] == forgets}
        self._calls = [
            call
            if call[-1] == forgets or call[_ERROR] is None
            else (*call[:_ERROR], kind_of(call[_ERROR]), *call[_ERROR + 1 :])
            for call in self._calls
        ]

    def remember(self) -> None:
        """Keep the notes in the session; needs no SQL."""
        for key, (_, _, reply, _) in self._answers.items():
            _remembered_replies[self._corpus.id, key] = reply
        while len(_remembered_replies) > MAX_REMEMBERED:
            del _remembered_replies[next(iter(_remembered_replies))]
        unsaved = _unsaved.setdefault(self._corpus.id, {})
        unsaved |= self._answers
        for key in list(unsaved)[:-MAX_REMEMBERED]:
            del unsaved[key]
        unwritten = _unwritten.setdefault(self._corpus.id, [])
        unwritten += self._calls
        del unwritten[:-MAX_REMEMBERED]
        self._calls.clear()
        self._answers.clear()

    def check_budget(self, ahead: float = 0.0) -> None:
        """Raise `BudgetReached` if this month's calls, whatever became of them, cost the budget or more.

        The budget is the corpus', and for a role with a limit, the role's. `ahead`: the cost of requests under way.
        """
        budget = self._corpus.options.llm.monthly_budget
        if budget is not None and (spent := self._spent(None) + ahead) >= budget:
            raise BudgetReached(self._corpus.name, spent, budget)
        role = self.limited_role
        if role is None:
            return
        budget = self._corpus.options.llm.limits_of(role).monthly_budget
        if budget is not None and self._spent(role) + ahead >= budget:
            raise RoleLimitReached.of_budget(self._corpus.name, role, budget)

    def admit(self) -> None:
        """Count a request of a role with a limit, even one that a cache answers; raise `RoleLimitReached` beyond it."""
        role = self.limited_role
        if role is None:
            return
        limit = self._corpus.options.llm.limits_of(role).requests_per_minute
        if limit is not None and not Meter(self._db, self._corpus.id, role).admit(limit):
            raise RoleLimitReached.of_rate(self._corpus.name, role, limit)

    def reserve(self, provider: Provider, tokens: int) -> float:
        """Count what a request will cost at least, before it is sent: it may end where nothing more can be counted."""
        amount = cost(provider, tokens, 0)
        self._meter(amount)
        return amount

    def _meter(self, amount: float) -> None:
        if amount:
            for role in (None, self._role) if self._role is not None else (None,):
                Meter(self._db, self._corpus.id, role).add(amount)

    def _spent(self, role: str | None) -> float:
        """Return the month's cost: the meter includes rolled-back calls, llm_calls those of a restored database."""
        key = self._corpus.id, role
        read_at, amount = _written_costs.get(key, (-BUDGET_SECONDS, 0.0))
        if read_at <= time.monotonic() - BUDGET_SECONDS:
            amount = float(self._db.value(_WRITTEN, ["int4", "name"], [*key]))
            _written_costs[key] = time.monotonic(), amount
        meter = Meter(self._db, self._corpus.id, role)
        metered = meter.spent()
        if metered is None:
            meter.add(0.0, initial=amount)
        return max(amount, metered or 0.0)
