"""`server.Database` over a connection: the same statements, types, rights and snapshots, in a process beside the database.

A call of a routine is a transaction of its own, or several where the routine commits; calls inside `transaction()` are one
together. What SQL declares of a routine holds here too: STABLE is one REPEATABLE READ snapshot, SECURITY DEFINER is the owner's
role, SET is a setting of the transaction. The caller is the role that the session has when the call begins.
"""

import hashlib
import os
import stat
import tempfile
from collections.abc import Callable, Generator, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from functools import cache
from pathlib import Path
from typing import Any, TypeVar

import psycopg
from psycopg import sql
from psycopg.pq import DiagnosticField, ExecStatus, TransactionStatus
from psycopg.rows import dict_row

from pg_graphrag import __version__
from pg_graphrag.errors import GraphRAGError
from pg_graphrag.process.routines import Routine, routines
from pg_graphrag.process.values import encode, parameter_of, register_loaders
from pg_graphrag.server import OWNER, Database, Row, Rows, run

T = TypeVar("T")

# A statement, and the types of its parameters.
Plan = tuple[str, tuple[str, ...]]


class StatementError(Exception):
    """An error of a statement as PL/Python shows it: its text is the message; `sqlstate`, `detail` and `hint` beside it."""

    def __init__(self, message: str, sqlstate: str | None, detail: str | None = None, hint: str | None = None) -> None:
        super().__init__(message)
        self.sqlstate = sqlstate
        self.detail = detail
        self.hint = hint


class ProcessDatabase(Database):
    """Statements over a connection in autocommit mode, which is this object's while a call is under way.

    Raises
    ------
    GraphRAGError
        55000 for a connection in a transaction: of another isolation level, it would not have the snapshot of a search.
    """

    def __init__(self, connection: psycopg.Connection[Any]) -> None:
        self.connection = connection
        self._cursor = psycopg.RawCursor(connection, row_factory=dict_row)
        register_loaders(self._cursor)
        self._parameters: dict[str, Callable[[Any], Any]] = {}
        self._routines: list[Routine] = []
        self._owner = ""
        self._cursors = 0
        # What routines are given: this, or what stands for all connections to the database.
        self.shared: Database = self
        self._is_streaming = False
        # Whether calls are parts of the one transaction of `transaction()`.
        self._is_joint = False
        # Of the transaction that is open: the caller's role, the role in force, and whether it has one snapshot.
        self._caller = self._role = ""
        self._is_snapshot = False
        # A role to take on with the next statement.
        self._pending_role: str | None = None
        self._role_cursor = psycopg.RawCursor(connection)
        # Whether the next statement opens the transaction.
        self._is_opening = False
        self._opening_cursor = psycopg.RawCursor(connection, row_factory=dict_row)
        self.is_cancelled = False

    # Calls

    def run(self, routine: Routine, arguments: Sequence[Any]) -> Any:
        """Return what a routine returns for the values of all its arguments, in its own transaction.

        Raises
        ------
        psycopg.Error
            The error of a statement, or the package's own as the server would raise it: with SQLSTATE, DETAIL and HINT.
        """
        with self._call(routine):
            returned = run(self.shared, routine.path, arguments)
            return list(returned) if isinstance(returned, Rows) else returned

    def rows(self, routine: Routine, arguments: Sequence[Any]) -> Generator[Any, None, None]:
        """Yield the rows of a routine as they are made; closing the iterator ends the transaction."""
        with self._call(routine):
            for row in run(self.shared, routine.path, arguments):
                self._is_streaming = True
                try:
                    yield row
                finally:
                    self._is_streaming = False

    @contextmanager
    def _call(self, routine: Routine) -> Iterator[None]:
        if self._is_streaming:
            # Its transaction is of another caller, perhaps, and of rights that this call was not asked about.
            raise self.error(
                GraphRAGError(
                    "this connection has a stream under way",
                    sqlstate="55000",
                    hint="Take all of its pieces, or close it; or use another connection.",
                )
            )
        if self._routines:
            # A routine within a routine is a part of its transaction.
            with self._within(routine):
                yield
            return
        if not self._is_joint:
            self._check_idle()
        self.is_cancelled = False
        try:
            with self._within(routine), self._admitted(routine):
                yield
            if not self._is_joint:
                self._end("COMMIT")
        except BaseException as error:
            with suppress(psycopg.Error):
                self._end("ROLLBACK")
            if isinstance(error, StatementError) and isinstance(error.__cause__, psycopg.Error):
                raise error.__cause__ from None
            if isinstance(error, StatementError):
                raise _as_psycopg(str(error), error.sqlstate, error.detail, error.hint) from None
            if isinstance(error, GraphRAGError):
                raise self.error(error) from None
            raise

    @contextmanager
    def _admitted(self, routine: Routine) -> Iterator[None]:
        """Check that the caller may call the routine, before anything of its arguments is said."""
        if self._is_joint:
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
    def transaction(self) -> Iterator[None]:
        """Have the calls inside be one transaction: all of them, or none. Procedures are refused there.

        Raises
        ------
        psycopg.Error
            25P02 for a call after one that failed; else of the calls.
        """
        self._check_idle()
        self._cursor.execute(b"BEGIN ISOLATION LEVEL READ COMMITTED")
        self._is_joint, self._is_snapshot, self._caller = True, False, ""
        try:
            yield
            self._end("COMMIT")
        except BaseException:
            with suppress(psycopg.Error):
                self._end("ROLLBACK")
            raise
        finally:
            self._is_joint = False

    @contextmanager
    def _within(self, routine: Routine) -> Iterator[None]:
        self._routines.append(routine)
        try:
            yield
        finally:
            self._routines.pop()

    def call(self, routine: str, types: Sequence[str], values: Sequence[Any]) -> None:
        (inner,) = routines()[routine]
        with self._within(inner):
            run(self.shared, inner.path, list(values))

    def check_encoding(self) -> None:
        """Check that the connection speaks UTF-8; 22021."""
        if self.connection.info.encoding != "utf-8":
            # Statements and parameters are sent as UTF-8: read as another encoding, a text could end where it does not.
            raise self.error(
                GraphRAGError(
                    f"the connection's client_encoding is {self.connection.info.encoding}",
                    sqlstate="22021",
                    hint="Connect with client_encoding=UTF8.",
                )
            )

    def _check_idle(self) -> None:
        self.check_encoding()
        status = self.connection.info.transaction_status
        if not self.connection.autocommit or status == TransactionStatus.INTRANS:
            raise self.error(
                GraphRAGError(
                    "a call of pg_graphrag is a transaction of its own, and this connection has one of its caller's",
                    sqlstate="25001",
                    hint="Give GraphRAG a URL, or a connection with autocommit=True outside of a transaction.",
                )
            )

    # Transactions

    def _prepare_for_statement(self, *, may_open: bool = False) -> None:
        """Begin the transaction that the routine needs, where none is open, and take on the role that it has.

        `may_open`: the next statement may do that itself, in one message to the server.
        """
        self._is_opening = False
        if self.is_cancelled:
            self.is_cancelled = False
            raise StatementError("canceling statement due to user request", "57014")
        if self.connection.info.transaction_status == TransactionStatus.IDLE:
            if may_open and self._owner and _may_open(self._routines[0]) and not self._as_owner():
                self._is_opening, self._pending_role = True, None
                return
            self._begin()
        elif self._is_snapshot and not any(item.reads for item in self._routines):
            # What reads one snapshot has not written; what writes is to see what others have written meanwhile.
            self._end("COMMIT")
            self._begin()
        role = self._owner if self._as_owner() else self._caller
        if role != self._role:
            self._pending_role = role

    def _as_owner(self) -> bool:
        """Whether SECURITY DEFINER holds: of the routines under way, any."""
        return any(item.as_owner for item in self._routines)

    def _begin(self) -> None:
        self._pending_role = None
        self._is_snapshot = any(item.reads for item in self._routines)
        mode = "REPEATABLE READ" if self._is_snapshot else "READ COMMITTED"
        # What a routine that writes has to write afterwards shows in this setting.
        self._admit(f"BEGIN ISOLATION LEVEL {mode}{' READ ONLY' if self._routines[0].reads else ''}")

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

    def _admit(self, command: str) -> None:
        """Run a command; then check that the caller may call the routine, and note who he is.

        Raises
        ------
        GraphRAGError
            58P01 where package and schema are of different versions.
        StatementError
            42501 where he may not.
        """
        self._check_admission(self._execute(f"{command}; {_settings_and_identity(self._routines[0])}")[0])
        if not self._owner:
            self._owner = self._execute(f"SELECT pg_catalog.pg_get_userbyid({OWNER})::text AS name")[0]["name"]

    def _open_with(self, statement: str, parameters: Sequence[Any] | None, prepare: bool) -> None:
        """Begin a transaction that only reads and run its first statement, all in one message to the server.

        Where the caller may not call the routine, what he read with his own rights is dropped.
        """
        self._is_snapshot = True
        opening_cursor = self._opening_cursor
        try:
            with self.connection.pipeline():
                self._role_cursor.execute(b"BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY", prepare=True)
                opening_cursor.execute(_settings_and_identity(self._routines[0]).encode(), prepare=True)
                self._cursor.execute(statement.encode(), parameters, prepare=prepare)
        except psycopg.Error:
            # The rows of an earlier call have been fetched.
            if opening_cursor.pgresult is not None and opening_cursor.pgresult.status == ExecStatus.TUPLES_OK:
                for row in opening_cursor.fetchall():
                    self._check_admission(row)
            raise
        self._check_admission(opening_cursor.fetchall()[0])

    def _check_admission(self, row: Row) -> None:
        if row["version"] != __version__:
            raise GraphRAGError(
                f"the Python package pg_graphrag is version {__version__}, the schema graphrag is {row['version']}",
                sqlstate="58P01",
                hint="Install the package of the schema's version, or bring the schema to the package's: pg-graphrag install.",
            )
        if not row["may_execute"]:
            outer = self._routines[0]
            kind = "procedure" if outer.is_procedure else "function"
            raise StatementError(f"permission denied for {kind} {outer.name}", "42501")
        self._caller = self._role = row["role"]

    def _execute_as(self, role: str, statement: str, parameters: Sequence[Any] | None, prepare: bool) -> None:
        """Take on a role and run a statement, both in one message to the server: without the role, nothing is run."""
        role_cursor = self._role_cursor
        try:
            with self.connection.pipeline():
                role_cursor.execute(b"SELECT pg_catalog.set_config('role', $1, true)", [role], prepare=True)
                self._cursor.execute(statement.encode(), parameters, prepare=prepare)
        except psycopg.Error as error:
            has_role = role_cursor.pgresult is not None and role_cursor.pgresult.status == ExecStatus.TUPLES_OK
            if has_role or error.sqlstate != "42501":
                raise
            raise GraphRAGError(
                f'role "{self.connection.info.user}" cannot act for "{role}", who owns the schema graphrag',
                sqlstate="42501",
                hint="Let the process connect as the owner, or as a member of it; SET ROLE, or the URL's "
                "options=-c role=…, says who asks.",
            ) from None
        self._role = role

    def _end(self, command: str) -> None:
        if self.connection.info.transaction_status != TransactionStatus.IDLE:
            self._cursor.execute(command.encode())

    def commit(self) -> None:
        """Commit; only in a procedure."""
        self._check_procedure()
        self._end("COMMIT")

    def rollback(self) -> None:
        """Roll back; only in a procedure."""
        self._check_procedure()
        self._end("ROLLBACK")

    def _check_procedure(self) -> None:
        if self._is_joint or not all(routine.is_procedure for routine in self._routines):
            raise StatementError("invalid transaction termination", "2D000")

    # Statements

    def query(self, sql: str, types: Sequence[str] = (), values: Sequence[Any] = ()) -> list[Row]:
        return self.execute((sql, tuple(types)), values)

    def literal_query(self, sql: str) -> list[Row]:
        self._prepare_for_statement()
        return self._execute(sql)

    def prepare(self, sql: str, types: Sequence[str]) -> Plan:
        return sql, tuple(types)

    def execute(self, plan: Plan, values: Sequence[Any]) -> list[Row]:
        self._prepare_for_statement(may_open=True)
        return self._execute(plan[0], self._encoded(plan[1], values), prepare=True)

    def cursor(self, sql: str, types: Sequence[str], values: Sequence[Any]) -> "ProcessCursor":
        self._prepare_for_statement()
        self._cursors += 1
        name = f"graphrag_{self._cursors}"
        self._execute(f"DECLARE {name} NO SCROLL CURSOR FOR {sql}", self._encoded(tuple(types), values))
        return ProcessCursor(self, name)

    def hold(self, sql: str) -> None:
        self.run_command(f"PREPARE graphrag_held AS {sql}; DEALLOCATE graphrag_held")

    @contextmanager
    def bounded(self, seconds: float) -> Iterator[None]:
        self.run_command("SAVEPOINT bounded")
        try:
            # A shorter limit of the session's holds.
            limit = (
                "SELECT pg_catalog.set_config('statement_timeout',"
                f" least(nullif(s.setting::int, 0), {round(1000 * seconds)})::text, true) FROM pg_catalog.pg_settings s"
                " WHERE s.name = 'statement_timeout'"
            )
            self.run_command(f"SET LOCAL transaction_read_only = on; {limit}")
            yield
        finally:
            # It takes the settings back too.
            with suppress(psycopg.OperationalError):
                self._cursor.execute(b"ROLLBACK TO SAVEPOINT bounded; RELEASE SAVEPOINT bounded")

    def poll(self) -> None:
        """Let a cancel through; a session that has ended shows at the next statement."""
        if self.is_cancelled:
            self._prepare_for_statement()

    def notice(self, message: str, **fields: str) -> None:
        self._raise("NOTICE", message, fields)

    def warning(self, message: str, **fields: str) -> None:
        self._raise("WARNING", message, fields)

    def _raise(self, severity: str, message: str, fields: Mapping[str, str]) -> None:
        """Have the server send a message, so that it takes the way of the server's own."""
        texts = {"MESSAGE": message, **{name.upper(): text for name, text in fields.items()}}
        options = sql.SQL(", ").join(
            sql.SQL("{} = {}").format(sql.SQL(name), sql.Literal(text)) for name, text in texts.items()
        )
        statement = sql.SQL("BEGIN RAISE {} USING {}; END").format(sql.SQL(severity), options)
        body = statement.as_string(self.connection)
        self.run_command(f"DO {sql.Literal(body).as_string(self.connection)}")

    def run_command(self, command: str) -> list[Row]:
        """Run a command of this class' own, in the transaction of the call."""
        self._prepare_for_statement()
        return self._execute(command)

    def _execute(self, statement: str, parameters: Sequence[Any] | None = None, *, prepare: bool = False) -> list[Row]:
        cursor = self._cursor
        role, self._pending_role = self._pending_role, None
        is_opening, self._is_opening = self._is_opening, False
        try:
            if is_opening:
                self._open_with(statement, parameters, prepare)
            elif role is None:
                cursor.execute(statement.encode(), parameters, prepare=prepare)
            else:
                self._execute_as(role, statement, parameters, prepare)
        except psycopg.Error as error:
            diag = error.diag
            message = diag.message_primary or str(error)
            raise StatementError(message, error.sqlstate, diag.message_detail, diag.message_hint) from error
        while cursor.nextset():
            pass
        # What describes the columns for a program would take as long as reading a row.
        returns_rows = cursor.pgresult is not None and cursor.pgresult.status == ExecStatus.TUPLES_OK
        return cursor.fetchall() if returns_rows else []

    def _encoded(self, types: tuple[str, ...], values: Sequence[Any]) -> list[Any]:
        return [self._encoder(name)(value) for name, value in zip(types, values, strict=True)]

    def _encoder(self, name: str) -> Callable[[Any], Any]:
        """Return what makes parameters of the SQL type called `name`."""
        encoder = self._parameters.get(name)
        if encoder is None:
            element, is_array = name.removesuffix("[]"), name.endswith("[]")
            info = self._cursor.adapters.types.get(element)
            if info is not None:
                oid = info.array_oid if is_array else info.oid
            else:
                statement = "SELECT pg_catalog.to_regtype($1)::oid AS oid"
                oid = self._execute(statement, [name])[0]["oid"]
            cls, dumper = parameter_of(oid)
            self._cursor.adapters.register_dumper(cls, dumper)

            def encoder(value: Any) -> Any:
                return cls(encode(value, is_array=is_array, element=element))

            self._parameters[name] = encoder
        return encoder

    # The host

    @property
    def statement_error(self) -> type[Exception]:
        return StatementError

    def error(self, error: GraphRAGError) -> Exception:
        return _as_psycopg(f"graphrag: {error.message}", error.sqlstate, error.detail, error.hint)

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


class SharedDatabase(Database):
    """All connections of a process to one database: each statement goes over the one whose call has its turn.

    What the process remembers of the database may ask it for more later, when another connection's call needs that.
    """

    def __init__(self) -> None:
        self._current: list[ProcessDatabase] = []

    @contextmanager
    def over(self, database: ProcessDatabase) -> Iterator[None]:
        """Have the statements go over a connection."""
        self._current.append(database)
        try:
            yield
        finally:
            self._current.pop()

    @property
    def _database(self) -> ProcessDatabase:
        return self._current[-1]

    def query(self, sql: str, types: Sequence[str] = (), values: Sequence[Any] = ()) -> list[Row]:
        return self._database.query(sql, types, values)

    def literal_query(self, sql: str) -> list[Row]:
        return self._database.literal_query(sql)

    def hold(self, sql: str) -> None:
        self._database.hold(sql)

    @contextmanager
    def bounded(self, seconds: float) -> Iterator[None]:
        with self._database.bounded(seconds):
            yield

    def prepare(self, sql: str, types: Sequence[str]) -> Plan:
        return self._database.prepare(sql, types)

    def execute(self, plan: Plan, values: Sequence[Any]) -> list[Row]:
        return self._database.execute(plan, values)

    def cursor(self, sql: str, types: Sequence[str], values: Sequence[Any]) -> "ProcessCursor":
        return self._database.cursor(sql, types, values)

    def call(self, routine: str, types: Sequence[str], values: Sequence[Any]) -> None:
        self._database.call(routine, types, values)

    def poll(self) -> None:
        self._database.poll()

    def commit(self) -> None:
        self._database.commit()

    def rollback(self) -> None:
        self._database.rollback()

    def notice(self, message: str, **fields: str) -> None:
        self._database.notice(message, **fields)

    def warning(self, message: str, **fields: str) -> None:
        self._database.warning(message, **fields)

    @property
    def statement_error(self) -> type[Exception]:
        return StatementError

    def error(self, error: GraphRAGError) -> Exception:
        return self._database.error(error)

    def folder(self, name: str) -> Path:
        return self._database.folder(name)


class ProcessCursor:
    """A cursor of the server, as PL/Python has it."""

    def __init__(self, db: ProcessDatabase, name: str) -> None:
        self._db = db
        self._name = name

    def fetch(self, count: int) -> list[Row]:
        """Return the next rows, at most `count`."""
        return self._db.run_command(f"FETCH {count} FROM {self._name}")

    def close(self) -> None:
        """Free it. In a transaction that has failed it is free already."""
        if self._db.connection.info.transaction_status == TransactionStatus.INTRANS:
            self._db.run_command(f"CLOSE {self._name}")


def _may_open(routine: Routine) -> bool:
    """Whether a routine's first statement may open its transaction: it only reads, with the caller's own rights."""
    return routine.reads and not routine.as_owner


@cache
def _settings_and_identity(routine: Routine) -> str:
    """Return the statement that makes the settings of a routine, and says who calls and whether he may.

    An update of the schema waits for the end of a transaction that ran it (process/schema.py).
    """
    settings = "".join(
        f"pg_catalog.set_config('{name}', '{value.strip(chr(39))}', true), " for name, value in routine.settings
    )
    # What may be called is said of the function in the database, which does nothing else.
    return (
        f"SELECT {settings}current_user::pg_catalog.text AS role, i.version, pg_catalog.has_function_privilege("
        f"pg_catalog.to_regprocedure('{routine.signature}'), 'EXECUTE') AS may_execute FROM graphrag._installed i"
    )


def _as_psycopg(message: str, sqlstate: str | None, detail: str | None, hint: str | None) -> psycopg.Error:
    """Return an error as psycopg makes it of one of the server."""
    fields = {
        DiagnosticField.SEVERITY: "ERROR",
        DiagnosticField.SEVERITY_NONLOCALIZED: "ERROR",
        DiagnosticField.SQLSTATE: sqlstate,
        DiagnosticField.MESSAGE_PRIMARY: message,
        DiagnosticField.MESSAGE_DETAIL: detail,
        DiagnosticField.MESSAGE_HINT: hint,
    }
    text = "\n".join([message, *([f"DETAIL:  {detail}"] if detail else []), *([f"HINT:  {hint}"] if hint else [])])
    try:
        kind: type[psycopg.Error] = psycopg.errors.lookup(sqlstate or "")
    except KeyError:
        kind = psycopg.DatabaseError
    info: Any = {field: None if value is None else value.encode() for field, value in fields.items()}
    error = kind(text, info=info, encoding="utf-8")
    if error.sqlstate is None:
        error.sqlstate = sqlstate
    return error
