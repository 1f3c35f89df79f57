"""Limits of a provider: concurrent requests, requests and tokens a minute, and a circuit breaker."""

import hashlib
import random
import time
from collections import deque
from collections.abc import Callable

from pg_graphrag.llm.endpoints.faults import ProviderFault, StreamExpired, TooManyStreams, kind_of
from pg_graphrag.llm.endpoints.providers import Provider
from pg_graphrag.server import Database
from pg_graphrag.server.session_places import Place, Places

# Failures in a row that open the breaker.
BREAKER_FAILURES = 5
MINUTE = 60.0
# Longest wait for a place before cancel is checked.
_QUEUE_SECONDS = 0.5


class Slots:
    """Places at a provider, so that all sessions together stay within its concurrency."""

    def __init__(self, db: Database, provider: Provider) -> None:
        self._db = db
        self._places = Places(db, f"provider_{provider.id}", provider.concurrency)
        self._count = provider.concurrency
        self._taken_places: list[Place] = []

    def __len__(self) -> int:
        return len(self._taken_places)

    def take(self, count: int, seconds: float = 0.0) -> bool:
        """Take free places until `count` are taken; return whether they are."""
        while len(self._taken_places) < min(count, self._count):
            place = self._places.take(seconds)
            if place is None:
                return False
            self._taken_places.append(place)
        return len(self._taken_places) >= count

    def queue(self) -> None:
        """Wait half a second at most for one more place, in turn with all who wait: no busy session starves others."""
        with self._db.waiting():
            self.take(len(self._taken_places) + 1, _QUEUE_SECONDS)

    def hand_over(self) -> Place:
        """Hand one of the taken places over; its new owner releases it."""
        return self._taken_places.pop()

    def give_back(self, keep: int = 0) -> None:
        """Free places until `keep` are left."""
        while len(self._taken_places) > keep:
            self._taken_places.pop().release()


class OpenStream:
    """The places of an open stream and their deadline: one of its role's streams, then one at the provider.

    Its time is over once nobody has fetched anything for too long, or it is open for too long. A session that sits idle in a
    transaction runs nothing, not even the thread that reads: others take its places then, and it finds out when it goes on.

    `role`: whose streams are counted; None: nobody's, for the owner.
    """

    def __init__(self, db: Database, provider: Provider, role: str | None) -> None:
        self._provider = provider
        self._limit = provider.streams_per_role
        self._role = role
        self._end = time.monotonic() + provider.stream_seconds
        self._rested: float | None = None
        # A role's name may hold what a file's may not.
        name = hashlib.sha256((role or "").encode()).hexdigest()[:32]
        self._places = None if role is None else Places(db, f"streams_{name}", self._limit)
        self._open: list[Place] = []
        self._is_released = False

    def begin(self) -> None:
        """Take one of the role's streams; raise `TooManyStreams` where all of them are open, in whatever session."""
        if self._places is not None:
            place = self._places.take(_STREAM_SECONDS)
            if place is None:
                raise TooManyStreams(str(self._role), self._limit)
            self._open.append(place)

    def add(self, place: Place) -> None:
        """Take the place at the provider along."""
        self._open.append(place)
        self._extend(self._end)

    def rest(self) -> None:
        """Note that somebody has an item, and is to fetch the next."""
        self._rested = time.monotonic()
        self._extend(min(self._end, self._rested + self._provider.stream_idle))

    def go_on(self) -> StreamExpired | None:
        """Note that somebody fetches the next item; return the fault where that is too late. What has come whole has time."""
        if self._is_released:
            return None
        fault = self.expired()
        self._rested = None
        self._extend(self._end)
        return fault

    def expired(self) -> StreamExpired | None:
        """What is wrong, once the stream's time is over; may be called in any thread."""
        now, rested = time.monotonic(), self._rested
        if now >= self._end:
            return StreamExpired("open", self._provider.stream_seconds, "stream_seconds")
        if rested is not None and now >= rested + self._provider.stream_idle:
            return StreamExpired("not fetched from", self._provider.stream_idle, "stream_idle")
        return None

    def _extend(self, until: float) -> None:
        for place in self._open:
            place.extend(until + _GRACE_SECONDS)

    def release(self) -> None:
        """Free the places; needs no SQL, and may be called in any thread and repeatedly."""
        self._is_released = True
        for place in self._open:
            place.release()


# Another session's turn is over sooner.
_STREAM_SECONDS = 0.05
# Between the end of a stream's time and that others take its places.
_GRACE_SECONDS = 1.0


# Requests of the last minute, per provider: (time, tokens), and the sum of the tokens.
_recent_requests: dict[int, deque[tuple[float, int]]] = {}


class Pace:
    """Requests and tokens per minute, in this session's equal share: the limit divided by the sessions that share it.

    A session begins with what all sessions sent in the last minute: a worker that is started every ten seconds must not
    begin with a full minute each time.
    """

    def __init__(self, db: Database, provider: Provider, count_sharers: Callable[[], int]) -> None:
        limits = provider.requests_per_minute, provider.tokens_per_minute
        self._limited = any(limit is not None for limit in limits)
        # Asked only where there is something to share.
        sharers = count_sharers() if self._limited else 1
        self._requests, self._tokens = (None if limit is None else max(1, limit // sharers) for limit in limits)
        if self._limited and provider.id not in _recent_requests:
            _recent_requests[provider.id] = deque(_sent_lately(db, provider))
        self._sent = _recent_requests.get(provider.id, deque())
        self._spent = sum(tokens for _, tokens in self._sent)

    def wait(self, tokens: int) -> float:
        """Return the seconds until a request of so many tokens may be sent; 0: now."""
        if not self._limited:
            return 0.0
        now = time.monotonic()
        while self._sent and self._sent[0][0] <= now - MINUTE:
            self._spent -= self._sent.popleft()[1]
        if not self._sent:  # a request of more than a minute's tokens goes alone
            return 0.0
        is_full = self._requests is not None and len(self._sent) >= self._requests
        if is_full or (self._tokens is not None and self._spent + tokens > self._tokens):
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
    """A circuit breaker: stops requests to a failing provider. Workers save its state; all sessions read it.

    It opens after several failures in a row, or at once if the fault will not pass by itself or the endpoint asks for time;
    each time for twice as long. After that time requests go again; the first failure opens it again.
    """

    def __init__(self, db: Database, provider: Provider, writes: bool) -> None:
        self._db = db
        self._provider = provider
        self._writes = writes
        self._failures = self._openings = 0
        self._error = ""
        self._until = self._opened_at = 0.0
        self._is_changed = False
        self.fault: ProviderFault | None = None
        self.load()

    def load(self) -> None:
        """Read the state that other sessions saved."""
        if self._is_changed:
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
        self._is_changed = self._is_changed or bool(self._failures or self._openings)
        self._failures = self._openings = 0

    def would_open(self, fault: ProviderFault) -> bool:
        """Whether one more failure closes the provider, which is open."""
        is_last = self._failures + 1 >= BREAKER_FAILURES
        return self.fault is None and bool(fault.permanent or fault.retry_after or is_last)

    def failed(self, fault: ProviderFault, sent_at: float) -> None:
        """Note the failure of a request sent at `sent_at`; one sent before the breaker opened does not count."""
        if sent_at < self._opened_at:
            return
        self._failures += 1
        self._is_changed = True
        self._error = fault.message
        if fault.permanent or fault.retry_after or self._failures >= BREAKER_FAILURES:
            self._openings += 1
            wait = back_off(min(self._openings, 8), MINUTE if fault.permanent else fault.retry_after)
            self._opened_at = time.monotonic()
            self._open(wait, fault.hint)

    def _open(self, wait: float, hint: str | None) -> None:
        self._until = time.monotonic() + wait
        self.fault = ProviderFault(
            f'provider "{self._provider.name}" is not asked for {wait:.0f} s: {self._error}',
            retry_after=wait,
            was_sent=False,
            hint=hint or "graphrag.retry_failed() asks it again at once.",
        )

    def save(self, *, keeps_words: bool) -> None:
        """Save changes in the caller's (short) transaction; never shorten another session's wait.

        `keeps_words`: what the last error says; else only its kind.
        """
        if not self._writes or not self._is_changed:
            return
        error = self._error if keeps_words else kind_of(self._error)
        self._db.query(
            "INSERT INTO graphrag.provider_state AS s (provider, failures, openings, last_error, open_until)"
            " SELECT p.name, $2, $3, $4, CASE WHEN $5 > 0 THEN pg_catalog.clock_timestamp() + $5 * interval '1 second' END"
            "   FROM graphrag.providers p WHERE p.name = $1"
            " ON CONFLICT (provider) DO UPDATE SET failures = excluded.failures, openings = excluded.openings,"
            " last_error = excluded.last_error, open_until = greatest(s.open_until, excluded.open_until),"
            " updated_at = pg_catalog.now()",
            ["text", "int4", "int4", "text", "float8"],
            [self._provider.name, self._failures, self._openings, error, self._until - time.monotonic()],
        )
        self._is_changed = False


def back_off(tries: int, retry_after: float | None = None) -> float:
    """Seconds to wait after `tries` failures: exponential with jitter, never less than the endpoint asked for."""
    return max(random.uniform(0.5, 1.0) * min(2.0**tries, 300.0), retry_after or 0.0)
