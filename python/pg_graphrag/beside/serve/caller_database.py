"""Runs calls of the client with the caller's rights, in threads, each with a deadline."""

import asyncio
import threading
import time
from collections import Counter
from collections.abc import AsyncGenerator, Callable, Collection, Iterable, Iterator
from contextlib import contextmanager, suppress
from contextvars import copy_context
from functools import partial
from typing import Any, TypeVar

import anyio
import psycopg
from anyio import CapacityLimiter, to_thread
from psycopg_pool import ConnectionPool, PoolTimeout

from pg_graphrag.beside.client import GraphRAG, hosts
from pg_graphrag.beside.client.connection_settings import settings_of
from pg_graphrag.beside.serve.callers import Caller
from pg_graphrag.ground.errors import GraphRAGError

T = TypeVar("T")
Connection = psycopg.Connection[Any]

# Seconds that the pool tries to make a connection, ever more rarely: by itself it would leave a server that was gone for
# minutes alone for as long again.
PATIENCE = 10.0
# A call that takes longer is taken for one that waits.
LONG_CALL = 1.0
# How long it holds that the database answers, or does not.
PING_SECONDS = 2.0


class Database:
    """Connections of one role, which takes on the callers' roles, call by call.

    A connection says who it acts for before every call: the role, and all settings that any caller has. Nothing of the
    last caller can be left, and a connection where that fails is not used.

    `connections`, `waiting`: how many there are at most, and how many more for calls that wait for a model.
    `wait`: longest time in seconds that a call waits for one.
    """

    def __init__(self, url: str, connections: int, waiting: int, callers: Collection[Caller], wait: float) -> None:
        names = {name for caller in callers for name, _ in caller.settings}
        self._setting_names = sorted(names)
        self._url, self._wait = url, wait
        # Whatever search_path the database's owner gave the session: an operator of his would run with the callers' rights.
        self._become = (
            "SELECT pg_catalog.set_config('role', %s, false),"
            " pg_catalog.set_config('search_path', 'pg_catalog, pg_temp', false)"
        ) + "".join(", pg_catalog.set_config(%s, %s, false)" for _ in self._setting_names)
        self._pool: ConnectionPool[Connection] = ConnectionPool(
            url,
            min_size=1,
            max_size=connections + waiting,
            kwargs=settings_of(url),
            configure=_check_installed,
            timeout=PATIENCE,
            reconnect_timeout=PATIENCE,
            open=False,
            name="pg_graphrag",
        )
        self._ping: asyncio.Future[bool] | None = None
        self._ping_until = 0.0
        self._threads = CapacityLimiter(connections + waiting)
        self._shares = _Shares(connections, waiting, is_shared=len(set(callers)) > 1)

    def check(self, callers: Iterable[Caller]) -> None:
        """Connect once, and take on every caller's role. The pool would only retry, without saying why it fails.

        Raises psycopg.Error, GraphRAGError when there is no such server, schema or role, or the role of the URL may not
          take on the caller's.
        """
        with psycopg.connect(self._url, **settings_of(self._url)) as connection:
            _check_installed(connection)
            for caller in {caller.role: caller for caller in callers}.values():
                self._act_for(caller, connection)

    def open(self) -> None:
        """Begin to connect."""
        self._pool.open(wait=False)

    def close(self) -> None:
        """Close all connections."""
        self._pool.close(timeout=2.0)

    async def answers(self) -> bool:
        """Whether the database answers: a connection of its own is asked, once in some seconds, whoever wants to know."""
        now = asyncio.get_running_loop().time()
        if self._ping is None or now > self._ping_until:
            self._ping_until = now + PING_SECONDS
            self._ping = asyncio.ensure_future(to_thread.run_sync(self._pinged))
        return await asyncio.shield(self._ping)

    def _pinged(self) -> bool:
        try:
            with psycopg.connect(self._url, **settings_of(self._url) | {"connect_timeout": 2}) as connection:
                connection.execute("SELECT 1")
        except psycopg.Error:
            return False
        return True

    @contextmanager
    def connection(self, caller: Caller) -> Iterator[Connection]:
        """Take a connection that acts for a caller.

        Raises psycopg.Error: a PoolTimeout where all connections are at work; an OperationalError where the server cannot be
          reached.
        """
        connection = self._take(caller)
        try:
            yield connection
        finally:
            self._pool.putconn(connection)

    def _take(self, caller: Caller) -> Connection:
        # Every connection ends with the server, and says so when it is used: nothing of the call has been done by then.
        for is_last in (*[False] * self._pool.max_size, True):
            failures = self._failures()
            try:
                connection = self._pool.getconn()
            except PoolTimeout:
                if self._failures() > failures:
                    raise psycopg.OperationalError("no connection could be made") from None
                raise
            try:
                self._act_for(caller, connection)
                return connection
            except psycopg.Error as error:
                is_lost = isinstance(error, psycopg.OperationalError) and connection.closed
                connection.close()
                self._pool.putconn(connection)
                if is_last or not is_lost:
                    raise
        raise AssertionError("the last attempt returns or raises")

    def _failures(self) -> int:
        """Return how many connections could not be made."""
        return self._pool.get_stats().get("connections_errors", 0)

    def _act_for(self, caller: Caller, connection: Connection) -> None:
        claims = dict(caller.settings)
        values = [caller.role or "none"]
        for name in self._setting_names:
            values += [name, claims.get(name, "")]
        connection.execute(self._become.encode(), values)

    async def run(
        self,
        caller: Caller,
        corpus: str,
        work: Callable[[GraphRAG, Connection], T],
        seconds: float,
        *,
        waits: bool = False,
    ) -> T:
        """Return what `work` returns, as the caller. What takes longer, or whose request has gone, is cancelled.

        `waits`: for a model, it may be for long.

        Raises psycopg.Error, GraphRAGError: of the call; 57014 after `seconds`.
        """
        loop = asyncio.get_running_loop()
        deadline = loop.time() + seconds
        call = await self._begin(caller, seconds, waits=waits)

        def body() -> T:
            with call.under_way(), self.connection(caller) as connection, call.of(connection):
                return work(GraphRAG(connection, corpus), connection)

        try:
            with anyio.fail_after(deadline - loop.time()):
                return await to_thread.run_sync(body, abandon_on_cancel=True, limiter=self._threads)
        except TimeoutError:
            raise _too_long(seconds) from None
        finally:
            call.end()

    async def _begin(self, caller: Caller, seconds: float, *, waits: bool) -> "_Call":
        """Return a call that may take a connection, once its caller leaves others enough."""
        try:
            place = await asyncio.wait_for(self._shares.take(caller, waits=waits), min(self._wait, seconds))
        except TimeoutError:
            raise _all_at_work(self._wait) from None
        return _Call(partial(asyncio.get_running_loop().call_soon_threadsafe, place.give_back))

    async def stream(
        self, caller: Caller, corpus: str, work: Callable[[GraphRAG, Connection], Iterator[T]], seconds: float
    ) -> AsyncGenerator[T, None]:
        """Yield what `work` yields, an answer, as the caller. Closing the iterator ends the call."""
        loop = asyncio.get_running_loop()
        deadline = loop.time() + seconds
        call = await self._begin(caller, seconds, waits=True)
        items: asyncio.Queue[tuple[T] | BaseException | None] = asyncio.Queue()

        def put(item: "tuple[T] | BaseException | None") -> None:
            with suppress(RuntimeError):  # the loop has ended
                loop.call_soon_threadsafe(items.put_nowait, item)

        def body() -> None:
            try:
                with call.under_way(), self.connection(caller) as connection, call.of(connection):
                    for item in work(GraphRAG(connection, corpus), connection):
                        put((item,))
                        if call.is_over:
                            return
                put(None)
            except BaseException as error:
                put(error)

        try:
            # With the context of the request: spans are within its span.
            threading.Thread(target=copy_context().run, args=(body,), daemon=True).start()
            while True:
                try:
                    item = await asyncio.wait_for(items.get(), deadline - loop.time())
                except TimeoutError:
                    raise _too_long(seconds) from None
                if item is None:
                    return
                if isinstance(item, BaseException):
                    raise item
                yield item[0]
        finally:
            call.end()


class _Share:
    """How many of some connections each caller has. One gets another while more are free than he has: of eight the first
    one four, the next two, then one each.
    """

    def __init__(self, connections: int, *, is_shared: bool) -> None:
        self._free, self._is_shared = connections, is_shared
        self.in_use: Counter[Caller] = Counter()

    def has_room(self, caller: Caller) -> bool:
        """Whether a caller may have one more."""
        return self._free > (self.in_use[caller] if self._is_shared else 0)

    def add(self, caller: Caller, count: int) -> None:
        self._free -= count
        self.in_use[caller] += count
        if not self.in_use[caller]:
            del self.in_use[caller]


class _Shares:
    """Shares of the connections among callers, in one loop: some for calls, some for calls that wait.

    A model may keep a call waiting for minutes, and its connection with it, because the transaction decides what may be
    seen. So a question to a model takes a connection for waiting calls, and so does any other call that takes long, as soon
    as there is room.
    """

    def __init__(self, connections: int, waiting: int, *, is_shared: bool) -> None:
        self.calls = _Share(connections, is_shared=is_shared)
        self.waits = _Share(waiting, is_shared=is_shared)
        self._turns: list[tuple[Caller, _Share, asyncio.Future[_Place]]] = []

    async def take(self, caller: Caller, *, waits: bool) -> "_Place":
        """Wait for a connection; those of one caller in their order."""
        turn: asyncio.Future[_Place] = asyncio.get_running_loop().create_future()
        self._turns.append((caller, self.waits if waits else self.calls, turn))
        self.hand_out()
        try:
            return await turn
        except asyncio.CancelledError:
            if turn.done() and not turn.cancelled():
                turn.result().give_back()
            raise

    def hand_out(self) -> None:
        """Give free connections to waiting callers: the one that holds fewest comes first."""
        turns, self._turns = self._turns, []
        for caller, share, turn in sorted(turns, key=lambda item: item[1].in_use[item[0]]):
            if turn.cancelled():
                continue
            if share.has_room(caller):
                turn.set_result(_Place(self, caller, share))
            else:
                self._turns.append((caller, share, turn))


class _Place:
    """A caller's connection."""

    def __init__(self, shares: _Shares, caller: Caller, share: _Share) -> None:
        self._shares, self._caller, self._share = shares, caller, share
        self._share.add(caller, 1)
        self._look_later()

    def _look_later(self) -> None:
        self._timer = asyncio.get_running_loop().call_later(LONG_CALL, self._wait)

    def _wait(self) -> None:
        waits = self._shares.waits
        if self._share is waits:
            return
        if waits.has_room(self._caller):
            self._share.add(self._caller, -1)
            self._share = waits
            waits.add(self._caller, 1)
            self._shares.hand_out()
        else:
            self._look_later()

    def give_back(self) -> None:
        """Note that the connection is free again."""
        self._timer.cancel()
        self._share.add(self._caller, -1)
        self._shares.hand_out()


class _Call:
    """A call that another thread may end. `give_back` is called once, when it has ended."""

    def __init__(self, give_back: Callable[[], object]) -> None:
        self.is_over = False
        self._has_begun = False
        self._give_back = give_back
        self._lock = threading.Lock()
        self._connection: Connection | None = None

    @contextmanager
    def under_way(self) -> Iterator[None]:
        """Enclose work in another thread."""
        with self._lock:
            if self.is_over:
                raise _gone()
            self._has_begun = True
        try:
            yield
        finally:
            with suppress(RuntimeError):  # the loop has ended
                self._give_back()

    @contextmanager
    def of(self, connection: Connection) -> Iterator[None]:
        with self._lock:
            if self.is_over:
                raise _gone()
            self._connection = connection
        try:
            yield
        finally:
            # After this no cancel can meet the next caller's statement.
            with self._lock:
                self._connection = None

    def end(self) -> None:
        """End the call if it is under way, without waiting for it."""
        with self._lock:
            is_unused = not self._has_begun and not self.is_over
            self.is_over = True
            is_at_work = self._connection is not None
        if is_unused:
            self._give_back()
        if is_at_work:
            threading.Thread(target=self._cancel, daemon=True).start()

    def _cancel(self) -> None:
        # Again until it has ended: a cancel that meets no statement is lost.
        while True:
            with self._lock:
                if self._connection is None:
                    return
                with suppress(psycopg.Error):
                    hosts.cancel(self._connection)
            time.sleep(0.5)


def _gone() -> GraphRAGError:
    return GraphRAGError("the request has gone", sqlstate="57014")


def _all_at_work(seconds: float) -> GraphRAGError:
    return GraphRAGError(
        f"for {seconds:g} s all connections, or those that one caller may have, were at work",
        sqlstate="53300",
        hint="Try again in ten seconds; ask for less at a time, or raise --connections, or --waiting where models are slow.",
    )


def _too_long(seconds: float) -> GraphRAGError:
    return GraphRAGError(
        f"the request took longer than {seconds:g} s",
        sqlstate="57014",
        hint="Ask for less, or raise the server's limit.",
    )


def _check_installed(connection: Connection) -> None:
    if hosts.is_pooled(connection):
        raise GraphRAGError(
            "a pooler stands before the database: the role of one call would be another's",
            sqlstate="0A000",
            hint="Give the URL of the server itself.",
        )
    if not hosts.is_installed(connection):
        raise GraphRAGError(
            f'database "{connection.info.dbname}" has neither the extension pg_graphrag nor its schema',
            sqlstate="58P01",
            hint="CREATE EXTENSION pg_graphrag CASCADE, or pg-graphrag install.",
        )
