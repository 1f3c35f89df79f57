"""A connection with its transaction: the calls under way, the caller's role, the role in force, the snapshot.

What SQL declares of a routine holds here too: STABLE is one REPEATABLE READ snapshot, SECURITY DEFINER is the owner's
role, SET is a setting of the transaction. The caller is the role that the session has when the call begins.
"""

import math
import time
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from functools import cache
from typing import Any

import psycopg
from psycopg import sql
from psycopg.pq import ExecStatus, TransactionStatus
from psycopg.rows import dict_row

from pg_graphrag import __version__
from pg_graphrag.beside.process.routines import Routine
from pg_graphrag.beside.process.statement_errors import CANCELLED, StatementError, cannot_act, database_error
from pg_graphrag.beside.process.turns import in_statement
from pg_graphrag.beside.process.values import register_loaders
from pg_graphrag.ground.errors import GraphRAGError, OutOfTimeError
from pg_graphrag.server import OWNER, Row

_OWN_LIMIT = "SELECT s.setting::int AS milliseconds FROM pg_catalog.pg_settings s WHERE s.name = 'statement_timeout'"
_LIMIT = b"SELECT pg_catalog.set_config('statement_timeout', $1, true)"


class Session:
    """Statements over a connection in autocommit mode, which is this object's while a call is under way."""

    def __init__(self, connection: psycopg.Connection[Any]) -> None:
        self.connection = connection
        self.cursor = psycopg.RawCursor(connection, row_factory=dict_row)
        register_loaders(self.cursor)
        # The routines under way, the outermost first.
        self.routines: list[Routine] = []
        # Whether calls are parts of one transaction.
        self.is_joint = False
        self.is_cancelled = False
        self._owner = ""
        # The open transaction: the caller's role, the role in force, and whether it has one snapshot.
        self._caller = self._role = ""
        self._is_snapshot = False
        # Whether nothing was asked in it yet.
        self._is_unused = False
        # When the time limit ends (time.monotonic()), its length in seconds, and the session's own statement_timeout
        # (ms; 0: no limit).
        self._deadline: float | None = None
        self._seconds = 0.0
        self._own_limit = 0
        self._limit_cursor = psycopg.RawCursor(connection)
        # A role to take on with the next statement.
        self._pending_role: str | None = None
        self._role_cursor = psycopg.RawCursor(connection)
        # Whether the next statement opens the transaction.
        self._is_opening = False
        self._opening_cursor = psycopg.RawCursor(connection, row_factory=dict_row)

    # Calls

    @contextmanager
    def within(self, routine: Routine) -> Iterator[None]:
        """Have the statements inside be of a routine."""
        self.routines.append(routine)
        try:
            yield
        finally:
            self.routines.pop()

    @contextmanager
    def admitted(self, routine: Routine) -> Iterator[None]:
        """Check that the caller may call the routine, before any error about its arguments."""
        if self.is_joint:
            with self._joined(routine):
                yield
            return
        if not _may_open(routine):
            self._prepare_for_statement()
            yield
            return
        try:
            yield
        except GraphRAGError:
            self._open_if_idle()
            raise
        self._open_if_idle()

    def _open_if_idle(self) -> None:
        """Check that the caller may make a call that has asked the database nothing."""
        if self.connection.info.transaction_status == TransactionStatus.IDLE:
            self._prepare_for_statement()

    @contextmanager
    def _joined(self, routine: Routine) -> Iterator[None]:
        """Have a call be a part of a joint transaction: as its caller. Role and settings are afterwards as before it."""
        if self.connection.info.transaction_status != TransactionStatus.INTRANS:
            raise StatementError("a call of this transaction has failed: all of it is rolled back", "25P02")
        self.check_encoding()
        self._pending_role = None
        restoring = f"SELECT {self._restoring(('role', *(name for name, _ in routine.settings)))}"
        caller = sql.Literal(self._caller).as_string(self.connection) if self._caller else "current_user"
        self._admit(f"SELECT pg_catalog.set_config('role', {caller}, true)")
        self._prepare_for_statement()
        yield
        self._pending_role = None
        self._execute(restoring)

    def _restoring(self, names: Iterable[str]) -> str:
        """Return SQL that gives settings the values that they have now; one that is not known yet is left out."""
        values = self._execute(
            "SELECT " + ", ".join(f"pg_catalog.current_setting('{name}', true) AS \"{name}\"" for name in names)
        )[0]
        return ", ".join(
            f"pg_catalog.set_config('{name}', {sql.Literal(value).as_string(self.connection)}, true)"
            for name, value in values.items()
            if value is not None
        )

    # Transactions

    def check_encoding(self) -> None:
        """Check that the connection speaks UTF-8; 22021."""
        if self.connection.info.encoding != "utf-8":
            # Statements and parameters are sent as UTF-8: read as another encoding, a text could end where it does not.
            raise database_error(
                GraphRAGError(
                    f"the connection's client_encoding is {self.connection.info.encoding}",
                    sqlstate="22021",
                    hint="Connect with client_encoding=UTF8.",
                )
            )

    def check_idle(self) -> None:
        """Check that no transaction of another is open on the connection; 25001."""
        self.check_encoding()
        status = self.connection.info.transaction_status
        if not self.connection.autocommit or status == TransactionStatus.INTRANS:
            raise database_error(
                GraphRAGError(
                    "a call of pg_graphrag is a transaction of its own, and this connection has one of its caller's",
                    sqlstate="25001",
                    hint="Give GraphRAG a URL, or a connection with autocommit=True outside of a transaction.",
                )
            )

    @contextmanager
    def joint(self) -> Iterator[None]:
        """Have the calls inside be one transaction."""
        self.check_idle()
        self.cursor.execute(b"BEGIN ISOLATION LEVEL READ COMMITTED")
        self.is_joint, self._is_snapshot, self._is_unused, self._caller = True, False, False, ""
        try:
            yield
            self.end("COMMIT")
        except BaseException:
            with suppress(psycopg.Error):
                self.end("ROLLBACK")
            raise
        finally:
            self.is_joint = False

    @contextmanager
    def bounded(self, seconds: float) -> Iterator[None]:
        """Limit each statement inside to the rest of so many seconds; OutOfTimeError when none is left."""
        outer = self._deadline, self._seconds
        if self._deadline is None:
            self._own_limit = self.run(_OWN_LIMIT)[0]["milliseconds"]
        deadline = time.monotonic() + seconds
        if self._deadline is None or deadline < self._deadline:
            self._deadline, self._seconds = deadline, seconds
        try:
            yield
        finally:
            self._deadline, self._seconds = outer

    def _milliseconds_left(self) -> int | None:
        """Return how long the next statement may take where it is bounded."""
        if self._deadline is None:
            return None
        left = math.ceil(1000 * (self._deadline - time.monotonic()))
        if left <= 0:
            raise OutOfTimeError(self._seconds)
        return min(left, self._own_limit or left)

    def end(self, command: str) -> None:
        """Run COMMIT or ROLLBACK where a transaction is open."""
        if self.connection.info.transaction_status != TransactionStatus.IDLE:
            with in_statement():
                self.cursor.execute(command.encode())

    def _prepare_for_statement(self, *, may_open: bool = False) -> None:
        """Begin the transaction that the routine needs, where none is open, and take on the role that it has.

        `may_open`: the next statement may do that itself, in one message to the server.
        """
        self._is_opening = False
        if self.is_cancelled:
            self.is_cancelled = False
            raise StatementError(*CANCELLED)
        if self.connection.info.transaction_status == TransactionStatus.IDLE:
            if may_open and self._owner and _may_open(self.routines[0]) and not self._as_owner():
                self._is_opening, self._pending_role = True, None
                return
            self._begin()
        elif self._is_snapshot and not any(item.reads for item in self.routines):
            # A transaction with one snapshot has written nothing; a writing one must see what others have written meanwhile.
            self.end("COMMIT")
            self._begin()
        elif self._is_unused and any(map(_may_open, self.routines)):
            # The call was admitted in a transaction for writing, but begins with a part that reads one snapshot.
            self.end("COMMIT")
            self._begin()
        role = self._owner if self._as_owner() else self._caller
        if role != self._role:
            self._pending_role = role

    def _as_owner(self) -> bool:
        """Whether SECURITY DEFINER holds: of the routines under way, any."""
        return any(item.as_owner for item in self.routines)

    def _begin(self) -> None:
        self._pending_role = None
        self._is_snapshot = any(item.reads for item in self.routines)
        self._is_unused = not self._is_snapshot
        mode = "REPEATABLE READ" if self._is_snapshot else "READ COMMITTED"
        # What a routine that writes has to write afterwards shows in this setting.
        self._admit(f"BEGIN ISOLATION LEVEL {mode}{' READ ONLY' if self.routines[0].reads else ''}")

    # Rights

    def _admit(self, command: str) -> None:
        """Run a command; then check that the caller may call the routine, and remember who he is.

        Raises GraphRAGError: 58P01 if package and schema have different versions.
        Raises StatementError: 42501 if he may not.
        """
        self._check_admission(self._execute(f"{command}; {_settings_and_identity(self.routines[0])}")[0])
        if not self._owner:
            self._owner = self._execute(f"SELECT pg_catalog.pg_get_userbyid({OWNER})::pg_catalog.text AS name")[0][
                "name"
            ]

    def _check_admission(self, row: Row) -> None:
        if row["version"] != __version__:
            raise GraphRAGError(
                f"the Python package pg_graphrag is version {__version__}, the schema graphrag is {row['version']}",
                sqlstate="58P01",
                hint="Install the package of the schema's version, or bring the schema to the package's: pg-graphrag install.",
            )
        if not row["may_execute"]:
            outer = self.routines[0]
            kind = "procedure" if outer.is_procedure else "function"
            raise StatementError(f"permission denied for {kind} {outer.name}", "42501")
        self._caller = self._role = row["role"]

    # Statements

    def run(
        self, statement: str, parameters: Sequence[Any] | None = None, *, prepare: bool = False, may_open: bool = False
    ) -> list[Row]:
        """Return the rows of a statement in the transaction, with the rights and settings, of the routine under way.

        `prepare`: the server keeps its plan. `may_open`: it only reads, and may open the transaction in one message.

        Raises StatementError where the server refuses the statement or cancels it, or the connection is lost.
        """
        self._prepare_for_statement(may_open=may_open)
        self._is_unused = False
        return self._execute(statement, parameters, prepare=prepare)

    def check_cancelled(self) -> None:
        """Raise a pending cancel, 57014, or the end of a time limit."""
        if self.is_cancelled:
            self._prepare_for_statement()
        self._milliseconds_left()

    def _execute(self, statement: str, parameters: Sequence[Any] | None = None, *, prepare: bool = False) -> list[Row]:
        cursor = self.cursor
        role, self._pending_role = self._pending_role, None
        is_opening, self._is_opening = self._is_opening, False
        milliseconds = self._milliseconds_left()
        try:
            with in_statement():
                if is_opening:
                    self._open_with(statement, parameters, prepare)
                elif role is None and milliseconds is None:
                    cursor.execute(statement.encode(), parameters, prepare=prepare)
                else:
                    self._execute_with(role, milliseconds, statement, parameters, prepare)
        except psycopg.Error as error:
            is_over = self._deadline is not None and time.monotonic() >= self._deadline
            if is_over and error.sqlstate == CANCELLED[1] and not self.is_cancelled:
                raise OutOfTimeError(self._seconds) from error
            diag = error.diag
            message = diag.message_primary or str(error)
            raise StatementError(message, error.sqlstate, diag.message_detail, diag.message_hint) from error
        while cursor.nextset():
            pass
        # What describes the columns for a program would take as long as reading a row.
        returns_rows = cursor.pgresult is not None and cursor.pgresult.status == ExecStatus.TUPLES_OK
        return cursor.fetchall() if returns_rows else []

    def _open_with(self, statement: str, parameters: Sequence[Any] | None, prepare: bool) -> None:
        """Begin a read-only transaction and run its first statement, in one message to the server.

        If the caller may not call the routine, the rows that his own rights read are dropped.
        """
        self._is_snapshot = True
        opening_cursor = self._opening_cursor
        try:
            with self.connection.pipeline():
                self._role_cursor.execute(b"BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY", prepare=True)
                opening_cursor.execute(_settings_and_identity(self.routines[0]).encode(), prepare=True)
                self.cursor.execute(statement.encode(), parameters, prepare=prepare)
        except psycopg.Error:
            # The rows of an earlier call have been fetched.
            if opening_cursor.pgresult is not None and opening_cursor.pgresult.status == ExecStatus.TUPLES_OK:
                for row in opening_cursor.fetchall():
                    self._check_admission(row)
            raise
        self._check_admission(opening_cursor.fetchall()[0])

    def _execute_with(
        self,
        role: str | None,
        milliseconds: int | None,
        statement: str,
        parameters: Sequence[Any] | None,
        prepare: bool,
    ) -> None:
        """Take on a role or a limit and run a statement, all in one message to the server: without the role, nothing is run."""
        role_cursor = self._role_cursor
        try:
            with self.connection.pipeline():
                if role is not None:
                    role_cursor.execute(b"SELECT pg_catalog.set_config('role', $1, true)", [role], prepare=True)
                if milliseconds is not None:
                    # For the next statement: this one's time has begun already.
                    self._limit_cursor.execute(_LIMIT, [str(milliseconds)], prepare=True)
                self.cursor.execute(statement.encode(), parameters, prepare=prepare)
        except psycopg.Error as error:
            has_role = role is None or (
                role_cursor.pgresult is not None and role_cursor.pgresult.status == ExecStatus.TUPLES_OK
            )
            if has_role or error.sqlstate != "42501":
                raise
            raise cannot_act(self.connection.info.user, str(role)) from None
        if role is not None:
            self._role = role


def _may_open(routine: Routine) -> bool:
    """Whether a routine's first statement may open its transaction: it only reads, with the caller's own rights."""
    return routine.reads and not routine.as_owner


@cache
def _settings_and_identity(routine: Routine) -> str:
    """Return the statement that applies the settings of a routine, and returns the caller and whether he may call it.

    An update of the schema waits for the end of a transaction that ran it (beside/process/schema.py).
    """
    settings = "".join(f"pg_catalog.set_config('{name}', '{value}', true), " for name, value in routine.settings)
    # What may be called is said of the function in the database, which does nothing else.
    return (
        f"SELECT {settings}current_user::pg_catalog.text AS role, i.version, pg_catalog.has_function_privilege("
        f"pg_catalog.to_regprocedure('{routine.signature}'), 'EXECUTE') AS may_execute FROM graphrag._installed i"
    )
