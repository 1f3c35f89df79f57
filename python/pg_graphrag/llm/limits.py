"""What a provider allows: so many requests at once, so many requests and tokens a minute, none while its breaker is open."""

import time
from collections import deque

from pg_graphrag.interrupts import undisturbed
from pg_graphrag.llm.faults import ProviderFault
from pg_graphrag.llm.loop import Stream
from pg_graphrag.llm.providers import Provider
from pg_graphrag.llm.transport import back_off
from pg_graphrag.server import Database

# First half of the advisory lock of a slot; the second is provider << 8 | slot. Shared with every session of the database.
SLOT_LOCK = 1735549295
# So many failures in a row open the breaker.
BREAKER_FAILURES = 5
MINUTE = 60.0
# Shorter than deadlock_timeout: two sessions that wait for each other's slots at two providers let go first.
_QUEUE_SECONDS = 0.5
# This session's open streams by their places, whose locks it would be given once more: {first place: {place: stream}}.
_streams: dict[int, dict[int, Stream]] = {}
_STREAM_SECONDS = 0.1


class Slots:
    """Places at a provider, each an advisory lock, so that all sessions together stay within its concurrency.

    Parameters
    ----------
    for_transaction : bool
        Places are freed by the end of the transaction alone: for a stream, whose end may come when no SQL can be run.
    """

    def __init__(self, db: Database, provider: Provider, *, for_transaction: bool = False) -> None:
        self._db = db
        self._first = provider.id << 8
        self._count = provider.concurrency
        self._xact = "_xact" if for_transaction else ""
        self._held: list[int] = []

    def __len__(self) -> int:
        return len(self._held)

    def serve(self, stream: Stream) -> None:
        """Give the place that is held to a stream, until it has come to its end or `leave` is called."""
        _streams.setdefault(self._first, {})[self._held[-1]] = stream

    def leave(self, stream: Stream) -> None:
        """Take a stream off its place; needs no SQL."""
        mine = _streams.get(self._first, {})
        for place in [place for place, other in mine.items() if other is stream]:
            del mine[place]

    def _taken(self) -> list[int]:
        """Places that are held here, or by streams of this session to which more is still to come."""
        others = [place for place, stream in _streams.get(self._first, {}).items() if not stream.received]
        return [*self._held, *(place for place in others if place not in self._held)]

    def take(self, wanted: int) -> bool:
        """Take free places until `wanted` are held; return whether they are."""
        while len(self._held) < min(wanted, self._count):
            # CASE: the lock must not be tried on a place that is held, which would take it twice.
            with undisturbed():
                rows = self._db.query(
                    f"SELECT s FROM pg_catalog.generate_series($1, $1 + $2 - 1) AS s WHERE CASE WHEN s = ANY ($3) THEN false"
                    f" ELSE pg_catalog.pg_try_advisory{self._xact}_lock($4, s) END LIMIT 1",
                    ["int4", "int4", "int4[]", "int4"],
                    [self._first, self._count, self._taken(), SLOT_LOCK],
                )
                self._held += [row["s"] for row in rows]
            if not rows:
                return False
        return len(self._held) >= wanted

    def queue(self) -> None:
        """Wait half a second at most for one place, in turn with the sessions that wait too: no busy one starves others.

        Where streams of this session have all places, their answers are read on in the background meanwhile.
        """
        taken = self._taken()
        places = [place for place in range(self._first, self._first + self._count) if place not in taken]
        if not places:
            time.sleep(_STREAM_SECONDS)
            return
        row = self._db.query(
            "SELECT pg_catalog.pg_backend_pid() % $1 AS place, pg_catalog.current_setting('lock_timeout') AS timeout",
            ["int4"],
            [len(places)],
        )[0]
        place = places[int(row["place"])]
        try:
            with undisturbed():
                self._db.query(
                    "SELECT pg_catalog.set_config('lock_timeout', $3, true),"
                    f" pg_catalog.pg_advisory{self._xact}_lock($1, $2), pg_catalog.set_config('lock_timeout', $4, true)",
                    ["int4", "int4", "text", "text"],
                    [SLOT_LOCK, place, f"{_QUEUE_SECONDS * 1000:.0f}ms", row["timeout"]],
                )
                self._held.append(place)
        except Exception as error:
            if getattr(error, "sqlstate", None) != "55P03":
                raise

    def give_back(self, keep: int = 0) -> None:
        """Free places until `keep` are held."""
        while len(self._held) > keep:
            with undisturbed():
                place = self._held.pop()
                if not self._xact:
                    self._db.query("SELECT pg_catalog.pg_advisory_unlock($1, $2)", ["int4", "int4"], [SLOT_LOCK, place])


# Requests of the last minute, per provider: (time, tokens), and the sum of the tokens.
_sent: dict[int, deque[tuple[float, int]]] = {}


class Pace:
    """Requests and tokens per minute, of this session's even share: the limit over the sessions that share it.

    A session begins with what all sessions sent in the last minute: a worker that is started anew every ten seconds
    must not begin anew with its minute.
    """

    def __init__(self, db: Database, provider: Provider, sharers: int) -> None:
        self._requests = (
            None if provider.requests_per_minute is None else max(1, provider.requests_per_minute // sharers)
        )
        self._tokens = None if provider.tokens_per_minute is None else max(1, provider.tokens_per_minute // sharers)
        self._limited = self._requests is not None or self._tokens is not None
        if self._limited and provider.id not in _sent:
            _sent[provider.id] = deque(_sent_lately(db, provider))
        self._sent = _sent.get(provider.id, deque())
        self._spent = sum(tokens for _, tokens in self._sent)

    def wait(self, tokens: int) -> float:
        """Return the seconds until a request of so many tokens may go; 0: now."""
        if not self._limited:
            return 0.0
        now = time.monotonic()
        while self._sent and self._sent[0][0] <= now - MINUTE:
            self._spent -= self._sent.popleft()[1]
        if not self._sent:  # also where one request is more than a minute's tokens: it goes alone
            return 0.0
        full = self._requests is not None and len(self._sent) >= self._requests
        if full or (self._tokens is not None and self._spent + tokens > self._tokens):
            return self._sent[0][0] + MINUTE - now
        return 0.0

    def note(self, tokens: int) -> None:
        """Note that a request goes."""
        if self._limited:
            self._sent.append((time.monotonic(), tokens))
            self._spent += tokens


def _sent_lately(db: Database, provider: Provider) -> list[tuple[float, int]]:
    rows = db.query(
        "SELECT pg_catalog.date_part('epoch', pg_catalog.clock_timestamp() - c.at) AS age, c.tokens_in"
        "  FROM graphrag.llm_calls c WHERE c.provider = $1 AND c.at > pg_catalog.clock_timestamp() - $2 * interval '1 second'"
        " ORDER BY c.at",
        ["text", "float8"],
        [provider.name, MINUTE],
    )
    now = time.monotonic()
    return [(now - float(row["age"]), int(row["tokens_in"])) for row in rows]


class Breaker:
    """Stops asking a provider that fails. What one worker finds out, all know; only workers write it down.

    It opens after several failures in a row, at once where the fault will not pass by itself or the endpoint asks for
    time, and each time for twice as long. Once its time is over requests go again; the first failure opens it anew.
    """

    def __init__(self, db: Database, provider: Provider, writes: bool) -> None:
        self._db = db
        self._provider = provider
        self._writes = writes
        self._failures = self._openings = 0
        self._error = ""
        self._until = self._opened = 0.0
        self._changed = False
        self.fault: ProviderFault | None = None
        self.load()

    def load(self) -> None:
        """Learn what other sessions found out."""
        if self._changed:
            return
        rows = self._db.query(
            "SELECT s.failures, s.openings, s.last_error, coalesce(pg_catalog.date_part('epoch',"
            " s.open_until - pg_catalog.clock_timestamp()), 0) AS wait FROM graphrag.provider_state s WHERE s.provider = $1",
            ["text"],
            [self._provider.name],
        )
        if not rows:
            return
        row = rows[0]
        self._failures, self._openings, self._error = row["failures"], row["openings"], row["last_error"]
        if row["wait"] > 0 and self.fault is None:
            self._open(float(row["wait"]), None)

    def succeeded(self) -> None:
        """Note an answer: failures are counted in a row."""
        self._changed = self._changed or bool(self._failures or self._openings)
        self._failures = self._openings = 0

    def failed(self, fault: ProviderFault, started: float) -> None:
        """Note the failure of a request that was sent at `started`; one sent before the breaker opened is old news."""
        if started < self._opened:
            return
        self._failures += 1
        self._changed = True
        self._error = fault.message
        if fault.permanent or fault.retry_after or self._failures >= BREAKER_FAILURES:
            self._openings += 1
            wait = back_off(min(self._openings, 8), MINUTE if fault.permanent else fault.retry_after)
            self._opened = time.monotonic()
            self._open(wait, fault.hint)

    def _open(self, wait: float, hint: str | None) -> None:
        self._until = time.monotonic() + wait
        self.fault = ProviderFault(
            f'provider "{self._provider.name}" is not asked for {wait:.0f} s: {self._error}',
            retry_after=wait,
            asked=False,
            hint=hint or "graphrag.retry_failed() asks it again at once.",
        )

    def save(self) -> None:
        """Write down what changed, in the caller's (short) transaction; never shorten what another session wrote."""
        if not self._writes or not self._changed:
            return
        self._db.query(
            "INSERT INTO graphrag.provider_state AS s (provider, failures, openings, last_error, open_until)"
            " SELECT p.name, $2, $3, $4, CASE WHEN $5 > 0 THEN pg_catalog.clock_timestamp() + $5 * interval '1 second' END"
            "   FROM graphrag.providers p WHERE p.name = $1"
            " ON CONFLICT (provider) DO UPDATE SET failures = excluded.failures, openings = excluded.openings,"
            " last_error = excluded.last_error, open_until = greatest(s.open_until, excluded.open_until),"
            " updated_at = pg_catalog.now()",
            ["text", "int4", "int4", "text", "float8"],
            [self._provider.name, self._failures, self._openings, self._error, self._until - time.monotonic()],
        )
        self._changed = False
