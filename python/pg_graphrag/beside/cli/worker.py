"""``pg-graphrag worker``: sessions that do the queued work, and end when they are told to.

Beside a database without the extension each is a process, which does the work itself.
"""

import argparse
import json
import logging
import multiprocessing
import os
import random
import select
import signal
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from multiprocessing.context import SpawnProcess
from threading import Event, Thread
from types import FrameType
from typing import Any

import psycopg

from pg_graphrag.beside.cli.open_database import connect, explain
from pg_graphrag.beside.cli.progress import Display
from pg_graphrag.beside.cli.status import follow
from pg_graphrag.beside.client import hosts, sql_statements
from pg_graphrag.beside.client.blocking import execute
from pg_graphrag.ground.errors import GraphRAGError

logger = logging.getLogger("pg_graphrag.operate.jobs")

# Seconds.
_SHORTEST_POLL = 0.5
_LONGEST_POLL = 5.0
_IDLE_CALL = 0.1  # a CALL that returns sooner had nothing to do
_LONGEST_BACKOFF = 30.0
_TICK = 0.25  # how soon a stop is noticed between calls
_BETWEEN_STARTS = 2.0  # of a process in the place of one that was killed
_LONGEST_END = 5.0  # how long a computation of this process may go on after a signal

# SQLSTATE classes that waiting does not mend: invalid authorisation, no such database or schema, syntax or access rule,
# feature not supported, and a package of another version than the extension.
_HOPELESS = ("28", "3D", "3F", "42", "0A", "58P01")

# A database or role may have timeouts for applications; a run lasts as long as there is work. What the URL says goes.
_LIFT_TIMEOUTS = b"""
SELECT pg_catalog.set_config(s.name, '0', false)
  FROM pg_catalog.pg_settings s
 WHERE s.name IN ('statement_timeout', 'lock_timeout', 'transaction_timeout', 'idle_session_timeout',
                  'idle_in_transaction_session_timeout')
   AND s.setting <> '0'
   AND s.source <> 'client'
"""

# What a session sets behind a pooler of transactions, others have.
_POOLED = (
    "a pooler stands before the database: its timeouts hold, notifications are not heard, and a worker that is killed holds"
    " its jobs until its call ends. Give the URL of the server itself"
)


class _JsonFormatter(logging.Formatter):
    """A line of JSON for each event, in UTC; `extra` of the call are its fields."""

    def format(self, record: logging.LogRecord) -> str:
        fields = {
            "time": datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds"),
            "level": record.levelname.lower(),
            "worker": record.threadName,
            "event": getattr(record, "event", record.name),
            "message": record.getMessage(),
            **getattr(record, "fields", {}),
        }
        return json.dumps(fields, ensure_ascii=False)


def _log(*, as_json: bool) -> None:
    handler = logging.StreamHandler(sys.stderr)
    text = logging.Formatter("%(asctime)s %(threadName)s: %(message)s")
    handler.setFormatter(_JsonFormatter() if as_json else text)
    logging.basicConfig(level=logging.INFO, handlers=[handler])


@dataclass(frozen=True)
class Order:
    """What sessions are to do, and how.

    `once`: until nothing is due or at work elsewhere; else until a signal. `profile_time`: say after each run where its time
    went. `log_json`: the log is JSON.
    """

    url: str
    once: bool = False
    profile_time: bool = False
    log_json: bool = False


def worker(args: argparse.Namespace) -> int:
    """Do the queued work; returns the exit status, as `work`."""
    return work(Order(args.url, args.once, args.profile_time, args.log_json), args.concurrency)


def work(order: Order, concurrency: int = 1) -> int:
    """Run `concurrency` worker sessions.

    Returns the exit status: 0 when stopped by a signal or drained; 1 after an error that waiting does not mend; with `once` 128 +
      the signal's number when stopped before the queue was drained.
    """
    _log(as_json=order.log_json)
    stop = _Stop(order.once)
    # A wrong URL or a database without the extension is an error now, not something to wait for.
    with connect(order.url) as connection:
        # Beside a database the work is done here, and a process does one thing at a time.
        kind = _ChildProcess if hosts.is_beside(connection) and concurrency > 1 else _Session
        sessions: list[_Session | _ChildProcess] = [
            kind(order, stop.event, number) for number in range(1, concurrency + 1)
        ]
        for session in sessions:
            session.start()
        # Its lines would stand amid the log's.
        if order.once and not order.log_json:
            _follow(connection, sessions)
    if not order.once:
        logger.info("%d at work", concurrency, extra={"event": "start", "fields": {"concurrency": concurrency}})
    _wait(sessions, stop)
    errors = [session.error for session in sessions if session.error is not None]
    for message in dict.fromkeys(map(explain, errors)):
        print(f"pg-graphrag: {message}", file=sys.stderr)
    if errors:
        return 1
    if order.once and stop.signal:
        return 128 + stop.signal
    return 0


def _wait(sessions: "Sequence[_Session | _ChildProcess]", stop: "_Stop") -> None:
    """Wait for the end of sessions; after a signal, end them."""
    stopped_at: float | None = None
    while alive := [session for session in sessions if session.is_alive()]:
        if stop.event.is_set():
            stopped_at = stopped_at or time.monotonic()
            for session in alive:
                session.cancel()
            if time.monotonic() - stopped_at > _LONGEST_END and all(session.is_beside for session in alive):
                # In the middle of a computation of this process' own, which no cancel ends. The database takes the jobs back.
                logger.warning("ended in the middle of a computation", extra={"event": "killed"})
                os._exit(128 + stop.signal if stop.exits_early else 0)
        # With an interval, not a bare join(): the main thread must get to run signal handlers.
        alive[0].join(_TICK)


def _follow(connection: psycopg.Connection[Any], sessions: "Sequence[_Session | _ChildProcess]") -> None:
    """Show the progress while sessions work, of the corpora that they work on."""
    display, worked = Display(), set[str]()
    try:
        while any(session.is_alive() and not session.stop.is_set() for session in sessions):
            _, pause = follow(connection, None, display, worked)
            until = time.monotonic() + pause
            while time.monotonic() < until and any(session.is_alive() for session in sessions):
                if sessions[0].stop.wait(_TICK):
                    return
        follow(connection, None, display, worked)
    except psycopg.OperationalError:
        pass  # the server has gone; the sessions notice it themselves, and say so
    finally:
        display.close()


class _Stop:
    """Turns the first SIGTERM or SIGINT into an event, and the second into an exit at once.

    `exits_early`: whether to end before the queue is drained is a failure.
    """

    def __init__(self, exits_early: bool) -> None:
        self.event = Event()
        self.signal = 0
        self.exits_early = exits_early
        for number in (signal.SIGTERM, signal.SIGINT):
            signal.signal(number, self._handle)

    def _handle(self, number: int, frame: FrameType | None) -> None:
        if self.signal:
            os._exit(128 + number)
        self.signal = number
        self.event.set()


class _Session(Thread):
    """One session at work. psycopg lets go of the interpreter's lock while the server works, so threads suffice."""

    def __init__(self, order: Order, stop: Event, number: int) -> None:
        super().__init__(name=f"worker {number}", daemon=True)
        self.stop = stop
        self.error: psycopg.Error | GraphRAGError | None = None
        self._order = order
        self._connection: psycopg.Connection[Any] | None = None
        self._poll = _SHORTEST_POLL
        self._is_pooled = False
        self.is_beside = False

    def cancel(self) -> None:
        """End the running CALL; the server gives its jobs back."""
        connection = self._connection
        if connection is not None and not connection.closed:
            try:
                hosts.cancel(connection)
            except psycopg.Error as error:
                logger.warning("cannot cancel: %s", explain(error), extra={"event": "error"})

    def run(self) -> None:
        failures = 0
        while not self.stop.is_set():
            try:
                with connect(self._order.url) as connection:
                    self._connection = connection
                    self.is_beside = hosts.is_beside(connection)
                    self._is_pooled = hosts.is_pooled(connection)
                    if self._is_pooled:
                        logger.warning(_POOLED, extra={"event": "pooled"})
                    else:
                        # When this process is killed, its sessions must end with it, not with the queue.
                        connection.execute("SET client_connection_check_interval = '2s'")
                        connection.execute(_LIFT_TIMEOUTS)
                    if self._order.profile_time and not self._is_pooled:
                        connection.execute("SET graphrag.profile_time = on")
                        connection.add_notice_handler(_log_profile)
                    while not self.stop.is_set():
                        self._drain(connection)
                        failures = 0
                        if self._order.once and not _is_at_work(connection):
                            return
                        self._sleep(connection)
            except (psycopg.Error, GraphRAGError) as error:
                if self.stop.is_set():
                    return  # cancelled
                if self._order.once or _is_hopeless(error):
                    self.error = error
                    self.stop.set()
                    return
                failures += 1
                pause = min(_LONGEST_BACKOFF, 2.0 ** min(failures - 1, 6)) * random.uniform(0.75, 1.0)
                fields = {"sqlstate": error.sqlstate, "retry_seconds": round(pause)}
                message = explain(error).replace("\n", " ")
                logger.warning("%s; trying again in %.0f s", message, pause, extra={"event": "error", "fields": fields})
                self.stop.wait(pause)
            finally:
                self._connection = None

    def _drain(self, connection: psycopg.Connection[Any]) -> None:
        """Work until nothing is due, and poll the less often the longer there has been nothing."""
        start = time.monotonic()
        execute(connection, sql_statements.process_jobs(None))
        self._poll = min(_LONGEST_POLL, 2 * self._poll) if time.monotonic() - start < _IDLE_CALL else _SHORTEST_POLL

    def _sleep(self, connection: psycopg.Connection[Any]) -> None:
        """Wait for a notification, the next poll or a stop, whichever is first."""
        if self._is_pooled:
            self.stop.wait(self._poll)
            return
        # A hint only, and only where the database's owner turned it on; polling finds the work anyway. Anybody may send any
        # number of any size: so it listens only here, and keeps none.
        connection.execute("LISTEN graphrag_jobs")
        until = time.monotonic() + self._poll
        while not self.stop.is_set() and time.monotonic() < until:
            if sum(1 for _ in connection.notifies(timeout=_TICK, stop_after=1)):
                self._poll = _SHORTEST_POLL
                break
        _stop_listening(connection)


def _stop_listening(connection: psycopg.Connection[Any]) -> None:
    """Hear nothing from now on. What still comes is let go: an execute() would keep it all until the server has answered."""
    pgconn = connection.pgconn
    pgconn.send_query(b"UNLISTEN graphrag_jobs")
    while pgconn.is_busy():
        select.select([pgconn.socket], [], [])
        pgconn.consume_input()
        while pgconn.notifies() is not None:
            pass
    while pgconn.get_result() is not None:
        pass


def _log_profile(notice: psycopg.errors.Diagnostic) -> None:
    """Show the NOTICE that says where the time of a run went; it alone has a DETAIL in JSON."""
    if notice.severity_nonlocalized == "NOTICE" and (notice.message_detail or "").startswith("{"):
        fields = {"ms": json.loads(notice.message_detail or "{}")}
        extra = {"event": "profile_time", "fields": fields}
        logger.info("%s, ms: %s", notice.message_primary, notice.message_detail, extra=extra)


class _ChildProcess:
    """A process with one session at work, as `_Session` is one. It ends when this process has ended, however that was.

    Where something else ends it, as a system without memory does, another takes its place: whoever has it looks at `is_alive`.
    """

    is_beside = False  # it ends by itself

    def __init__(self, order: Order, stop: Event, number: int) -> None:
        self.stop = stop
        self._name = f"worker {number}"
        self._arguments = (order, number, os.getpid())
        self._process = self._new_process()
        self._next_start = 0.0
        self._is_cancelled = False

    def _new_process(self) -> SpawnProcess:
        return multiprocessing.get_context("spawn").Process(
            target=_work_as_child, args=self._arguments, name=self._name
        )

    def start(self) -> None:
        self._next_start = time.monotonic() + _BETWEEN_STARTS
        self._process.start()

    def is_alive(self) -> bool:
        is_alive = self._process.is_alive()
        signal_number = -(self._process.exitcode or 0)
        if signal_number > 0 and not self._is_cancelled and not self.stop.is_set():
            if time.monotonic() >= self._next_start:
                message = "%s was ended by signal %d; another takes its place"
                logger.warning(message, self._name, signal_number, extra={"event": "replaced"})
                self._process = self._new_process()
                self.start()
            return True
        if self._process.exitcode == 1:
            self.stop.set()  # as with an error of a session
        return is_alive

    def join(self, seconds: float) -> None:
        if self._process.exitcode is None:
            self._process.join(seconds)
        else:
            self.stop.wait(seconds)

    def cancel(self) -> None:
        # Once: the second signal ends it in the middle of what it does.
        if not self._is_cancelled:
            self._is_cancelled = True
            self._process.terminate()

    def kill(self) -> None:
        self._process.kill()

    @property
    def error(self) -> GraphRAGError | None:
        if self._process.exitcode == 1:
            return GraphRAGError(f"{self._process.name} ended with an error", hint="Its message is above.")
        return None


@contextmanager
def beside(url: str) -> Iterator[None]:
    """Do the queued work in a process of its own meanwhile. It ends with this one, however that ends."""
    over = Event()
    child = _ChildProcess(Order(url), Event(), 1)
    child.start()

    def watch() -> None:
        while not over.wait(_TICK) and child.is_alive():
            pass

    watcher = Thread(target=watch, daemon=True)
    watcher.start()
    try:
        yield
    finally:
        over.set()
        watcher.join()
        child.cancel()
        child.join(30)
        child.kill()


def _work_as_child(order: Order, number: int, parent: int) -> None:
    os.dup2(2, 1)  # standard output may be MCP's
    _log(as_json=order.log_json)
    stop = _Stop(order.once)
    # A terminal sends it to the parent too, which passes it on.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    session = _Session(order, stop.event, number)
    session.start()
    while session.is_alive() and not stop.event.is_set():
        if os.getppid() != parent:
            stop.event.set()
        session.join(_TICK)
    _wait([session], stop)
    if session.error is not None:
        print(f"pg-graphrag: {explain(session.error)}", file=sys.stderr)
        sys.exit(1)


def _is_at_work(connection: psycopg.Connection[Any]) -> bool:
    """Whether a session has jobs: if it ends before they are done, as one does soon whose client was killed, they are due."""
    statement = "SELECT FROM graphrag.progress WHERE leased OPERATOR(pg_catalog.>) 0 LIMIT 1"
    return connection.execute(statement).fetchone() is not None


def _is_hopeless(error: psycopg.Error | GraphRAGError) -> bool:
    return (error.sqlstate or "").startswith(_HOPELESS)
