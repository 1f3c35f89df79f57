"""Statements at other nodes, sent side by side in the session's background thread (llm/endpoints/loop.py).

A node's answer is data: rows of text, bounded in number, bytes and seconds. Connections are kept for the next call in
this module's memory, where no SQL can name them. Each is used only with the settings, password included, that it was
opened with.
"""

import asyncio
import fcntl
import re
import select
import struct
import termios
import time
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any

import psycopg
from psycopg.pq import ConnStatus, DiagnosticField, ExecStatus, TransactionStatus

from pg_graphrag.ground.errors import GraphRAGError
from pg_graphrag.llm.endpoints.loop import Requests
from pg_graphrag.search.nodes.links import Link
from pg_graphrag.server import Database

# Seconds between two looks for a cancel, and that a node has to take up a connection.
STEP_SECONDS = 0.03
CONNECT_SECONDS = 10.0
# How long an answer may be: at least, for each of its rows, and at most.
LEAST_BYTES, ROW_BYTES, MOST_BYTES = 2**24, 2**20, 2**28
# Processor time for separating the parts of an answer; the largest takes a third.
MOST_PARSING_SECONDS = 1.0
# Texts of errors and notices, and how many notices of one answer are passed on.
MAX_TEXT, MAX_NOTICES = 2000, 5
# Connections that a session keeps.
MAX_KEPT = 8
# The SQLSTATE of a connection that has ended.
_LOST = "08006"
# SQLSTATEs without those that say that nothing is wrong.
_IS_ERROR = re.compile(r"(?!0[0-3])[0-9A-Z]{5}")

Row = tuple[str | None, ...]


@dataclass(frozen=True, slots=True)
class Question:
    """A statement for a node: its parameters as text, columns and most rows of its answer, and the seconds that it has."""

    sql: str
    values: Sequence[str | None]
    columns: int
    most_rows: int
    seconds: float | None = None


@dataclass(slots=True)
class Answer:
    """Rows of a node, and its messages: (whether it is a WARNING, message, detail, hint)."""

    rows: list[Row] = field(default_factory=list)
    notices: list[tuple[bool, str, str | None, str | None]] = field(default_factory=list)


class NodeError(GraphRAGError):
    """An error at a node, which its message names. `is_lost`: nothing more comes from it in this call."""

    def __init__(self, node: str, message: str, *, sqlstate: str, is_lost: bool = False, **texts: str | None) -> None:
        super().__init__(f'node "{node}": {message}', sqlstate=sqlstate, **texts)
        self.is_lost = is_lost


class Asked:
    """Requests to nodes that are not answered yet. `close` gives them up."""

    def __init__(self, db: Database) -> None:
        self._db = db
        self._requests = Requests()

    def start(self, tag: Any, work: Any) -> None:
        """Start a coroutine, whose result `outcomes` gives with `tag`."""
        self._requests.start(tag, work)

    def outcomes(self) -> Iterator[tuple[Any, Any]]:
        """Yield (tag, result) as they come; an error that is no `GraphRAGError` is raised."""
        while len(self._requests):
            with self._db.waiting():
                outcome = self._requests.take(STEP_SECONDS)
            if outcome is None:
                self._db.poll()
                continue
            tag, result, error = outcome
            if error is not None and not isinstance(error, GraphRAGError):
                raise error
            yield tag, error if error is not None else result

    def close(self) -> None:
        """End the requests under way."""
        self._requests.cancel()


# By settings: connections that no call uses, the latest last.
_kept: dict[Link, "_Connection"] = {}


async def answer(link: Link, question: Question) -> Answer | NodeError:
    """Return what a node answers, or why it did not."""
    # A kept connection may have ended without notice. A search only reads, so it can be repeated.
    for kept in (_kept.pop(link, None), None):
        if kept is not None and not kept.is_usable():
            kept.close()
            continue
        connection = kept
        try:
            async with asyncio.timeout(question.seconds):
                connection = connection or await _connected(link)
                result = await connection.ask(question)
        except TimeoutError:
            message = f"it took longer than {question.seconds:g} s"
            result = NodeError(link.node, message, sqlstate="57014", is_lost=True)
        except NodeError as error:
            result = error
        except BaseException:
            if connection is not None:
                connection.close()
            raise
        if connection is not None and isinstance(result, NodeError) and result.is_lost:
            connection.close()
            if kept is not None and result.sqlstate == _LOST:
                continue
        elif connection is not None:
            _keep(link, connection)
        return result
    raise AssertionError


def _keep(link: Link, connection: "_Connection") -> None:
    if (other := _kept.pop(link, None)) is not None:
        other.close()
    _kept[link] = connection
    while len(_kept) > MAX_KEPT:
        _kept.pop(next(iter(_kept))).close()


async def _connected(link: Link) -> "_Connection":
    """Return a new connection, which has asked for the password."""
    try:
        async with asyncio.timeout(CONNECT_SECONDS):
            settings: dict[str, Any] = dict(link.settings)
            hosts = settings.get("host", "").count(",") + 1
            if hosts > 1:
                # The second is asked while there is time for it.
                settings["connect_timeout"] = max(2, int(CONNECT_SECONDS / (hosts + 0.5)))
            connection = await psycopg.AsyncConnection.connect(**settings, autocommit=True)
    except TimeoutError:
        raise _unreached(link, f"it did not take up a connection in {CONNECT_SECONDS:g} s") from None
    except (psycopg.Error, OSError) as error:
        raise _unreached(link, _shortened(str(error))) from None
    opened = _Connection(link, connection)
    if not connection.pgconn.used_password:
        # It would be a connection by the rights of the server's own user.
        opened.close()
        raise _unreached(link, "it lets the role in without its password")
    return opened


def _unreached(link: Link, detail: str) -> NodeError:
    hint = (
        f'Whether it is up, and what the foreign server "{link.node}" and your user mapping for it say, decides. '
        "A search of other corpora alone does without it."
    )
    return NodeError(link.node, "it cannot be reached", sqlstate="08001", is_lost=True, detail=detail, hint=hint)


class _Connection:
    """A connection to a node, for one statement at a time."""

    def __init__(self, link: Link, connection: "psycopg.AsyncConnection[Any]") -> None:
        self._node = link.node
        # It closes with its object.
        self._connection = connection
        self._pgconn = connection.pgconn
        self._answer, self._parsing = Answer(), 0.0
        connection.add_notice_handler(self._note)

    def close(self) -> None:
        """Close the connection; the node notices and ends its work."""
        self._pgconn.finish()

    def is_usable(self) -> bool:
        """Whether it is there still, as far as is known."""
        pgconn = self._pgconn
        if pgconn.status != ConnStatus.OK or pgconn.transaction_status != TransactionStatus.IDLE:
            return False
        with suppress(psycopg.Error, OSError, ValueError):
            if not select.select([pgconn.socket], [], [], 0)[0]:
                return True
            pgconn.consume_input()
            return not pgconn.is_busy() and pgconn.status == ConnStatus.OK
        return False

    async def ask(self, question: Question) -> Answer | NodeError:
        """Return the rows of a statement, or its error, after which others can be asked.

        Raises NodeError if the connection is unusable: it was lost, or answers something else.
        """
        pgconn, self._answer, self._parsing = self._pgconn, Answer(), 0.0
        fault: NodeError | None = None
        received, most_bytes = 0, min(max(LEAST_BYTES, ROW_BYTES * question.most_rows), MOST_BYTES)
        try:
            pgconn.send_query_params(
                question.sql.encode(), [None if value is None else value.encode() for value in question.values]
            )
            pgconn.set_single_row_mode()
            while pgconn.flush():
                await _ready(pgconn.socket, writes=True)
                pgconn.consume_input()
            while True:
                while self._is_busy():
                    await _ready(pgconn.socket)
                    # The library buffers an incomplete row: the unread bytes tell how long it will be.
                    received += _waiting_bytes(pgconn.socket)
                    if received > most_bytes:
                        raise self._odd(f"its answer has more than {most_bytes // 2**20} MB")
                    pgconn.consume_input()
                result = pgconn.get_result()
                if result is None:
                    break
                if result.status == ExecStatus.FATAL_ERROR:
                    fault = self._error(result)
                elif result.status not in (ExecStatus.SINGLE_TUPLE, ExecStatus.TUPLES_OK):
                    raise self._odd("it answers what was not asked")
                elif result.nfields != question.columns:
                    raise self._odd(f"its rows have {result.nfields} columns, not {question.columns}")
                elif result.ntuples:
                    if len(self._answer.rows) == question.most_rows:
                        raise self._odd(f"it has more than {question.most_rows} rows")
                    self._answer.rows.append(
                        tuple(_text(result.get_value(0, column)) for column in range(question.columns))
                    )
        except UnicodeDecodeError:
            raise self._odd("its texts are not UTF-8") from None
        except (psycopg.Error, OSError) as error:
            raise self._lost(str(error)) from None
        if pgconn.status != ConnStatus.OK:
            raise self._lost(fault.message if fault is not None else "")
        return self._answer if fault is None else fault

    def _is_busy(self) -> bool:
        """Whether more must come before there is a result."""
        began = time.thread_time()
        is_busy = bool(self._pgconn.is_busy())
        # The library keeps notifications until they are taken.
        while self._pgconn.notifies() is not None:
            pass
        # It looks for each setting that a node reports among all before.
        self._parsing += time.thread_time() - began
        if self._parsing > MOST_PARSING_SECONDS:
            raise self._odd("it answers what was not asked")
        return is_busy

    def _note(self, diagnostic: Any) -> None:
        if len(self._answer.notices) < MAX_NOTICES and diagnostic.severity_nonlocalized in ("WARNING", "NOTICE"):
            self._answer.notices.append(
                (
                    diagnostic.severity_nonlocalized == "WARNING",
                    _shortened(diagnostic.message_primary or ""),
                    _shortened(diagnostic.message_detail),
                    _shortened(diagnostic.message_hint),
                )
            )

    def _error(self, result: Any) -> NodeError:
        """Return the error of a statement, with its SQLSTATE."""
        fields = DiagnosticField
        sqlstate, message, detail, hint = (
            _shortened((result.error_field(name) or b"").decode(errors="replace"))
            for name in (fields.SQLSTATE, fields.MESSAGE_PRIMARY, fields.MESSAGE_DETAIL, fields.MESSAGE_HINT)
        )
        if not _IS_ERROR.fullmatch(sqlstate):
            sqlstate = "08P01"
        elif sqlstate.startswith("57P"):
            # The node's session has ended, not this one.
            sqlstate = _LOST
        # A DETAIL may be a url, which programs follow where it is this database's own.
        detail = f'At node "{self._node}": {detail}' if detail else ""
        message = message.removeprefix("graphrag: ") or "it failed without a reason"
        return NodeError(self._node, message, sqlstate=sqlstate, detail=detail or None, hint=hint or None)

    def _lost(self, detail: str) -> NodeError:
        return NodeError(
            self._node,
            "the connection was lost",
            sqlstate=_LOST,
            is_lost=True,
            detail=_shortened(detail) or None,
            hint="Ask again when it is up. A search of other corpora alone does without it.",
        )

    def _odd(self, message: str) -> NodeError:
        hint = f'Whoever runs node "{self._node}" can say what answers there.'
        return NodeError(self._node, message, sqlstate="08P01", is_lost=True, hint=hint)


async def _ready(socket: int, *, writes: bool = False) -> None:
    """Wait until a socket can be read; or, with `writes`, written."""
    loop = asyncio.get_running_loop()
    ready: asyncio.Future[None] = loop.create_future()

    def set_ready() -> None:
        if not ready.done():
            ready.set_result(None)

    loop.add_reader(socket, set_ready)
    if writes:
        loop.add_writer(socket, set_ready)
    try:
        await ready
    finally:
        loop.remove_reader(socket)
        if writes:
            loop.remove_writer(socket)


def _waiting_bytes(socket: int) -> int:
    """Return how many bytes have come and are not read yet."""
    count: int = struct.unpack("i", fcntl.ioctl(socket, termios.FIONREAD, b"\0" * 4))[0]
    return count


def _text(value: bytes | None) -> str | None:
    return None if value is None else value.decode()


def _shortened(text: Any) -> Any:
    """Return a node's text as it is passed on."""
    return None if text is None else str(text).strip()[:MAX_TEXT]
