"""`server.Database` over a connection: the same statements, types, rights and snapshots, in a process beside the
database.

A call of a routine is one transaction, or several where the routine commits. Calls inside `transaction()` are one
transaction together.
"""

import hashlib
import logging
import os
import stat
import tempfile
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import psycopg
from psycopg import sql
from psycopg.pq import TransactionStatus

from pg_graphrag.beside.process.routines import Routine, routines
from pg_graphrag.beside.process.session import Session
from pg_graphrag.beside.process.statement_errors import CANCELLED, StatementError, as_psycopg, database_error
from pg_graphrag.beside.process.values import encode, parameter_of
from pg_graphrag.ground.errors import GraphRAGError
from pg_graphrag.server import Database, Row, Rows, places, run

# A statement, and the types of its parameters.
Plan = tuple[str, tuple[str, ...]]


class ProcessDatabase(Database):
    """Statements over a connection in autocommit mode, which is this object's while a call is under way.

    Raises GraphRAGError: 55000 for a connection in a transaction: of another isolation level, it would not have the snapshot
      of a search.
    """

    is_server = False

    def __init__(self, connection: psycopg.Connection[Any]) -> None:
        self.connection = connection
        self._session = Session(connection)
        self._session.check_encoding()
        self._encoders: dict[str, Callable[[Any], Any]] = {}
        self._cursors = 0
        # The database that routines get: this one, or the one that stands for all connections.
        self.shared: Database = self
        self._is_streaming = False

    # Calls

    def run(self, routine: Routine, arguments: Sequence[Any]) -> Any:
        """Return what a routine returns for the values of all its arguments, in its own transaction.

        Raises psycopg.Error: the error of a statement, or the package's own as the server would raise it: with SQLSTATE,
          DETAIL and HINT.
        """
        with self._call(routine):
            returned = run(self.shared, routine.path, arguments)
            return list(returned) if isinstance(returned, Rows) else returned

    def rows(self, routine: Routine, arguments: Sequence[Any]) -> Generator[Any, None, None]:
        """Yield the rows of a routine as they are produced; closing the iterator ends the transaction."""
        with self._call(routine):
            for row in run(self.shared, routine.path, arguments):
                self._is_streaming = True
                try:
                    yield row
                finally:
                    self._is_streaming = False

    @contextmanager
    def _call(self, routine: Routine) -> Iterator[None]:
        session = self._session
        if self._is_streaming:
            # The transaction may belong to another caller, with rights that this call was not checked for.
            raise self.error(
                GraphRAGError(
                    "this connection has a stream under way",
                    sqlstate="55000",
                    hint="Take all of its pieces, or close it; or use another connection.",
                )
            )
        if session.routines:
            # A routine within a routine is a part of its transaction.
            with session.within(routine):
                yield
            return
        if not session.is_joint:
            session.check_idle()
        try:
            with session.within(routine), session.admitted(routine):
                yield
            if not session.is_joint:
                session.end("COMMIT")
        except BaseException as error:
            with suppress(psycopg.Error):
                session.end("ROLLBACK")
            if isinstance(error, StatementError) and isinstance(error.__cause__, psycopg.Error):
                raise error.__cause__ from None
            if isinstance(error, StatementError):
                raise as_psycopg(str(error), error.sqlstate, error.detail, error.hint) from None
            if isinstance(error, GraphRAGError):
                raise self.error(error) from None
            raise

    @contextmanager
    def transaction(self) -> Iterator[None]:
        """Have the calls inside be one transaction: all of them, or none. Procedures are refused there.

        Raises psycopg.Error: 25P02 for a call after one that failed; else of the calls.
        """
        with self._session.joint():
            yield

    def cancel(self) -> None:
        """End the call under way or waiting for its turn, from another thread: 57014 there."""
        self._session.is_cancelled = True
        self.connection.cancel_safe(timeout=2.0)

    @property
    def is_cancelled(self) -> bool:
        """Whether the call under way is to end."""
        return self._session.is_cancelled

    def begin_call(self) -> None:
        """Forget the cancel of an earlier call."""
        if not self._session.routines:
            self._session.is_cancelled = False

    def check_cancelled(self) -> None:
        """Let a cancel through before a call begins; 57014."""
        if self.is_cancelled:
            raise as_psycopg(*CANCELLED, None, None)

    def call(self, routine: str, types: Sequence[str], values: Sequence[Any]) -> None:
        """Call a routine as a part of the call under way, with its own rights."""
        (inner,) = routines()[routine]
        with self._session.within(inner):
            run(self.shared, inner.path, list(values))

    # Transactions

    def commit(self) -> None:
        """Commit; only in a procedure."""
        self._check_procedure()
        self._session.end("COMMIT")

    def rollback(self) -> None:
        """Roll back; only in a procedure."""
        self._check_procedure()
        self._session.end("ROLLBACK")

    def _check_procedure(self) -> None:
        if self._session.is_joint or not all(routine.is_procedure for routine in self._session.routines):
            raise StatementError("invalid transaction termination", "2D000")

    # Statements

    def query(self, sql: str, types: Sequence[str] = (), values: Sequence[Any] = ()) -> list[Row]:
        """Run a statement with parameters of the given SQL types; the server keeps its plan."""
        return self.execute((sql, tuple(types)), values)

    def literal_query(self, sql: str) -> list[Row]:
        """Run a statement without parameters, as it is."""
        return self._session.run(sql)

    def prepare(self, sql: str, types: Sequence[str]) -> Plan:
        """Return a statement with the types of its parameters: the server plans it when it is first run."""
        return sql, tuple(types)

    def execute(self, plan: Plan, values: Sequence[Any]) -> list[Row]:
        """Run what `prepare` returned."""
        return self._session.run(plan[0], self._encoded(plan[1], values), prepare=True, may_open=True)

    def cursor(self, sql: str, types: Sequence[str], values: Sequence[Any]) -> "ProcessCursor":
        """Open a cursor, which lives as long as the transaction."""
        self._cursors += 1
        name = f"graphrag_{self._cursors}"
        self._session.run(f"DECLARE {name} NO SCROLL CURSOR FOR {sql}", self._encoded(tuple(types), values))
        return ProcessCursor(self._session, name)

    def hold(self, sql: str) -> None:
        """Lock the relations that a SELECT names, without running it."""
        self._session.run(f"PREPARE graphrag_held AS {sql}; DEALLOCATE graphrag_held")

    @contextmanager
    def subtransaction(self) -> Iterator[None]:
        """Have what fails inside take nothing else back; nothing inside writes."""
        self._session.run("SAVEPOINT reading")
        try:
            self._session.run("SET LOCAL transaction_read_only = on")
            yield
        finally:
            # It takes the settings back too, among them a limit that may end it.
            for _ in range(2):
                with suppress(psycopg.OperationalError):
                    self._session.cursor.execute(b"ROLLBACK TO SAVEPOINT reading; RELEASE SAVEPOINT reading")
                    break

    @contextmanager
    def bounded(self, seconds: float) -> Iterator[None]:
        """Cancel statements inside after so many seconds: OutOfTimeError, which no other cancel raises."""
        with self.subtransaction(), self._session.bounded(seconds):
            yield

    def poll(self) -> None:
        """Let a cancel through; a session that has ended shows at the next statement."""
        self._session.check_cancelled()

    def notice(self, message: str, **fields: str) -> None:
        """Have the server send a NOTICE."""
        self._raise("NOTICE", message, fields)

    def warning(self, message: str, **fields: str) -> None:
        """Have the server send a WARNING."""
        self._raise("WARNING", message, fields)

    def _raise(self, severity: str, message: str, fields: Mapping[str, str]) -> None:
        """Have the server send a message, so that it takes the way of the server's own."""
        texts = {"MESSAGE": message, **{name.upper(): text for name, text in fields.items()}}
        options = sql.SQL(", ").join(
            sql.SQL("{} = {}").format(sql.SQL(name), sql.Literal(text)) for name, text in texts.items()
        )
        statement = sql.SQL("BEGIN RAISE {} USING {}; END").format(sql.SQL(severity), options)
        body = statement.as_string(self.connection)
        self._session.run(f"DO {sql.Literal(body).as_string(self.connection)}")

    def _encoded(self, types: tuple[str, ...], values: Sequence[Any]) -> list[Any]:
        return [self._encoder(name)(value) for name, value in zip(types, values, strict=True)]

    def _encoder(self, name: str) -> Callable[[Any], Any]:
        """Return what makes parameters of the SQL type called `name`."""
        encoder = self._encoders.get(name)
        if encoder is None:
            element, is_array = name.removesuffix("[]"), name.endswith("[]")
            info = self._session.cursor.adapters.types.get(element)
            if info is not None:
                oid = info.array_oid if is_array else info.oid
            else:
                statement = "SELECT pg_catalog.to_regtype($1)::pg_catalog.oid AS oid"
                oid = self._session.run(statement, [name])[0]["oid"]
            cls, dumper = parameter_of(oid)
            self._session.cursor.adapters.register_dumper(cls, dumper)

            def encoder(value: Any) -> Any:
                return cls(encode(value, is_array=is_array, element=element))

            self._encoders[name] = encoder
        return encoder

    # The host

    @property
    def statement_error(self) -> type[Exception]:
        """The class of the errors of statements."""
        return StatementError

    def texts_of(self, error: Any) -> tuple[str | None, str | None]:
        """Return DETAIL and HINT of an error of a statement, or of the package."""
        return error.detail, error.hint

    def log_unforeseen(self, error: Exception) -> None:
        """Write to the program's log where an error of Python came from, without the value, which may be a text."""
        logging.getLogger("pg_graphrag").error("%s, at %s", type(error).__name__, places(error))

    def error(self, error: GraphRAGError) -> Exception:
        """Return an error of the package as the server would raise it."""
        return database_error(error)

    def folder(self, name: str) -> Path:
        """Return a folder of this machine, of the user whose process it is and of this database."""
        info = self.connection.info
        place = hashlib.sha256(f"{info.host}:{info.port}/{info.dbname}".encode()).hexdigest()[:16]
        if name == "pg_stat":
            base = Path(os.environ.get("XDG_STATE_HOME") or Path.home() / ".local/state")
        else:
            base = Path(os.environ.get("XDG_RUNTIME_DIR") or tempfile.gettempdir())
        own_folder = base / f"pg_graphrag-{os.getuid()}"
        own_folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        status = own_folder.lstat()
        if not stat.S_ISDIR(status.st_mode) or status.st_uid != os.getuid() or status.st_mode & 0o022:
            raise GraphRAGError(
                f"{own_folder} is another user's, or others may write in it",
                sqlstate="58030",
                hint="Remove it, or set XDG_RUNTIME_DIR and XDG_STATE_HOME to folders of your own.",
            )
        folder = own_folder / place
        folder.mkdir(mode=0o700, exist_ok=True)
        return folder

    def __hash__(self) -> int:
        return id(self)


class ProcessCursor:
    """A cursor of the server, with PL/Python's methods."""

    def __init__(self, session: Session, name: str) -> None:
        self._session = session
        self._name = name

    def fetch(self, count: int) -> list[Row]:
        """Return the next rows, at most `count`."""
        return self._session.run(f"FETCH {count} FROM {self._name}")

    def close(self) -> None:
        """Free it. In a transaction that has failed it is free already."""
        if self._session.connection.info.transaction_status == TransactionStatus.INTRANS:
            self._session.run(f"CLOSE {self._name}")
