"""What a provider allows: so many requests at once, so many requests and tokens a minute, none while its breaker is open."""

import time
from collections import deque

from pg_graphrag.llm.faults import ProviderFault
from pg_graphrag.llm.providers import Provider
from pg_graphrag.llm.wire import back_off
from pg_graphrag.server import Database

# First half of the advisory lock of a slot; the second is provider << 8 | slot. Shared with every session of the database.
SLOT_LOCK = 1735549295
# So many failures in a row open the breaker.
BREAKER_FAILURES = 5
MINUTE = 60.0

# Sends of this session, per provider: (time, tokens).
_sent: dict[int, deque[tuple[float, int]]] = {}


class Slots:
    """Places at a provider, each an advisory lock, so that all sessions together stay within its concurrency."""

    def __init__(self, db: Database, provider: Provider) -> None:
        self._db = db
        self._provider = provider
        self._held: list[int] = []

    def __len__(self) -> int:
        return len(self._held)

    def take(self, wanted: int) -> int:
        """Take places until `wanted` are held or none is free; return how many are held."""
        while len(self._held) < min(wanted, self._provider.concurrency):
            rows = self._db.query(
                "SELECT s FROM pg_catalog.generate_series($1, $1 + $2 - 1) AS s"
                " WHERE s <> ALL ($3) AND pg_catalog.pg_try_advisory_lock($4, s) LIMIT 1",
                ["int4", "int4", "int4[]", "int4"],
                [self._provider.id << 8, self._provider.concurrency, self._held, SLOT_LOCK],
            )
            if not rows:
                break
            self._held.append(rows[0]["s"])
        return len(self._held)

    def give_back(self, keep: int = 0) -> None:
        """Free places until `keep` are held."""
        while len(self._held) > keep:
            self._db.query(
                "SELECT pg_catalog.pg_advisory_unlock($1, $2)", ["int4", "int4"], [SLOT_LOCK, self._held.pop()]
            )


class Pace:
    """Requests and tokens per minute, of this session's even share: the limit over the workers alive."""

    def __init__(self, provider: Provider, sharers: int) -> None:
        self._sent = _sent.setdefault(provider.id, deque())
        self._requests = None if provider.requests_per_minute is None else max(1, provider.requests_per_minute // sharers)
        self._tokens = None if provider.tokens_per_minute is None else max(1, provider.tokens_per_minute // sharers)

    def wait(self, tokens: int) -> float:
        """Return the seconds until a request of so many tokens may go; 0: now."""
        now = time.monotonic()
        while self._sent and self._sent[0][0] <= now - MINUTE:
            self._sent.popleft()
        if not self._sent:
            return 0.0
        oldest = self._sent[0][0] + MINUTE - now
        if self._requests is not None and len(self._sent) >= self._requests:
            return oldest
        if self._tokens is not None and sum(spent for _, spent in self._sent) + tokens > self._tokens:
            return oldest
        return 0.0

    def note(self, tokens: int) -> None:
        """Note that a request goes."""
        self._sent.append((time.monotonic(), tokens))


class Breaker:
    """Stops asking a provider that fails. What one worker finds out, all know; only workers write it down."""

    def __init__(self, db: Database, provider: Provider, writes: bool) -> None:
        self._db = db
        self._provider = provider
        self._writes = writes
        rows = db.query(
            "SELECT s.failures, s.last_error, pg_catalog.date_part('epoch', s.open_until - pg_catalog.clock_timestamp()) AS wait"
            "  FROM graphrag.provider_state s WHERE s.provider = $1",
            ["text"],
            [provider.name],
        )
        self._failures = self._stored = int(rows[0]["failures"]) if rows else 0
        self.fault: ProviderFault | None = None
        self._wait = 0.0
        self._error = ""
        if rows and rows[0]["wait"] is not None and rows[0]["wait"] > 0:
            self.fault = ProviderFault(
                f'provider "{provider.name}" is not asked for {rows[0]["wait"]:.0f} s more: {rows[0]["last_error"]}',
                retry_after=float(rows[0]["wait"]),
                hint="graphrag.retry_failed() asks it again at once.",
            )

    def succeeded(self) -> None:
        """Note an answer: failures are counted in a row."""
        self._failures = 0

    def failed(self, fault: ProviderFault) -> None:
        """Note a failure; open after several in a row, at once when it will not pass or the endpoint asks for time."""
        self._failures += 1
        self._error = fault.message
        if fault.permanent or fault.retry_after or self._failures >= BREAKER_FAILURES:
            self._wait = back_off(min(self._failures, 8), MINUTE if fault.permanent else fault.retry_after)
            self.fault = ProviderFault(
                f'provider "{self._provider.name}" is not asked for {self._wait:.0f} s: {fault.message}',
                retry_after=self._wait,
                hint=fault.hint or "graphrag.retry_failed() asks it again at once.",
            )

    def save(self) -> None:
        """Write down what changed, in the caller's (short) transaction."""
        if not self._writes or self._failures == self._stored:
            return
        self._db.query(
            "INSERT INTO graphrag.provider_state AS s (provider, failures, last_error, open_until)"
            " VALUES ($1, $2, $3, CASE WHEN $4 > 0 THEN pg_catalog.clock_timestamp() + $4 * interval '1 second' END)"
            " ON CONFLICT (provider) DO UPDATE SET failures = excluded.failures, last_error = excluded.last_error,"
            " open_until = excluded.open_until, updated_at = pg_catalog.now()",
            ["text", "int4", "text", "float8"],
            [self._provider.name, self._failures, self._error, self._wait],
        )
        self._stored = self._failures
