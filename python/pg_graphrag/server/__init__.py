"""The database as the package sees it, and the first of its two hosts: what PL/Python bodies call in the server.

The second host is `pg_graphrag.beside.process`. Every PL/Python body of the extension reads::

    from pg_graphrag.server import call
    return call(plpy, "<extension version>", "search.search:search", …)
"""

import functools
import importlib
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from functools import cache
from itertools import islice
from pathlib import Path
from typing import Any, TypeVar, cast

from pg_graphrag import __version__
from pg_graphrag.ground import precompiled
from pg_graphrag.ground.errors import GraphRAGError
from pg_graphrag.server import versions
from pg_graphrag.server.backend import after_call, cancelled_after, check, loading, undisturbed, watched
from pg_graphrag.server.profile import Profile
from pg_graphrag.server.tracebacks import without_traceback

precompiled.use()

# Characters of one argument. PostgreSQL and PL/Python handle that many in one step of a sixth of a second.
MAX_ARGUMENT = 8_388_608
# Rows of one write or fetch, so that neither memory nor the wait for a query cancel grows with a document.
_SLICE = 5000
# The owner of the extension, or of the plain schema: an oid, for pg_has_role().
OWNER = (
    "(SELECT c.relowner FROM pg_catalog.pg_class c"
    " WHERE c.oid OPERATOR(pg_catalog.=) 'graphrag.corpora'::pg_catalog.regclass)"
)
# For a session with a search_path of somebody else, whose operators and types may come first in it.
PIN_PATH = """
SELECT s.path, pg_catalog.set_config('search_path', 'pg_catalog, pg_temp', false)
  FROM (SELECT pg_catalog.current_setting('search_path') AS path OFFSET 0) s
"""

# What PL/Python passes on of an error beside its texts.
_OBJECTS = ("schema_name", "table_name", "column_name", "datatype_name", "constraint_name")
_NO_PRIVILEGE = "42501"
_READS_ONLY = "25006"
# PostgreSQL's own words, in English: in other languages the HINT is the general one.
_REFUSED = re.compile(
    r"^permission denied for (table|view|materialized view|foreign table|sequence|function|schema) (\S+)$"
)
_PRIVILEGES = {"sequence": ("USAGE", "SEQUENCE"), "function": ("EXECUTE", "FUNCTION"), "schema": ("USAGE", "SCHEMA")}

Row = dict[str, Any]
T = TypeVar("T")


class cached_property(functools.cached_property[T]):
    """Without the lock that Python 3.11 has for all objects of a class: beside a database another call goes on meanwhile."""

    def __init__(self, function: Callable[[Any], T]) -> None:
        super().__init__(function)
        self.lock = nullcontext()


class Database:
    """Statements through SPI, in the caller's transaction and snapshot. `process.database` has them over a connection.

    Every name in a statement is qualified, except ``unnest`` with several arrays: that is grammar and finds pg_catalog's.

    Plans are kept per (statement, types) for the session. In a STABLE function every statement is read only.
    """

    # Whether it is the server's own process, which has files beside the data.
    is_server = True
    # For a worker's run with a profile.
    profile: Profile | None = None

    def __init__(self, plpy: Any):
        self.plpy = plpy
        self._plans: dict[tuple[str, tuple[str, ...]], Any] = {}

    def query(self, sql: str, types: Sequence[str] = (), values: Sequence[Any] = ()) -> list[Row]:
        """Run `sql` with parameters ``$1`` … of the given SQL types; return its rows as dictionaries."""
        key = (sql, tuple(types))
        plan = self._plans.get(key)
        if plan is None:
            plan = self._plans[key] = self.prepare(sql, types)
        return self.execute(plan, values)

    def value(self, sql: str, types: Sequence[str] = (), values: Sequence[Any] = ()) -> Any:
        """Run `sql`, which returns one row of one column; return the value."""
        (row,) = self.query(sql, types, values)
        (value,) = row.values()
        return value

    def query_rows(self, sql: str, types: Sequence[str], rows: Iterable[Any], *first: Any) -> list[Row]:
        """Run `sql` for rows, many at a time; return all that it returns.

        Its parameters are `first`, then arrays: the rows' columns, or the rows themselves where they are single values.
        """
        result_rows: list[Row] = []
        for part in slices(rows):
            arrays = columns(part) if isinstance(part[0], tuple) else [part]
            result_rows += self.query(sql, types, [*first, *arrays])
        return result_rows

    def literal_query(self, sql: str) -> list[Row]:
        """Run `sql` literally, planned each time, because vector indexes need a literal (docs/decisions/indexing.md)."""
        with undisturbed():
            return list(self.plpy.execute(sql))

    def prepare(self, sql: str, types: Sequence[str]) -> Any:
        """Return a plan that is not kept."""
        with undisturbed():
            return self.plpy.prepare(sql, list(types))

    def execute(self, plan: Any, values: Sequence[Any]) -> list[Row]:
        """Run a plan."""
        with undisturbed():
            return list(self.plpy.execute(plan, list(values)))

    def step(self, name: str) -> AbstractContextManager[None]:
        """Count the time inside for a step of a run whose time is asked for."""
        return nullcontext() if self.profile is None else self.profile.step(name)

    def waiting(self) -> AbstractContextManager[None]:
        """Enclose a wait for a model or a place, without statements."""
        return nullcontext()

    def poll(self) -> None:
        """Let cancel, timeout and terminate through, where much is done without a statement."""
        self.literal_query("SELECT 1")

    def call(self, routine: str, types: Sequence[str], values: Sequence[Any]) -> None:
        """Call a function of the schema whose body is Python, with the rights and the snapshot that SQL gives it."""
        parameters = ", ".join(f"${place}" for place in range(1, len(types) + 1))
        self.query(f"SELECT graphrag.{routine}({parameters})", types, values)

    @property
    def statement_error(self) -> type[Exception]:
        """The class of the errors of statements. They have ``sqlstate``; their text is the message."""
        error: type[Exception] = self.plpy.SPIError
        return error

    def texts_of(self, error: Any) -> tuple[str | None, str | None]:
        """Return DETAIL and HINT of an error of a statement, or of the package."""
        if isinstance(error, self.plpy.SPIError):
            return error.spidata[1], error.spidata[2]
        return error.detail, error.hint

    def log_unforeseen(self, error: Exception) -> None:
        """Write to the server's log where an error of Python came from, without the value, which may be a text."""
        self.plpy.log(f"pg_graphrag: {type(error).__name__}, at {places(error)}")

    def error(self, error: GraphRAGError) -> Exception:
        """Return what to raise where nothing of the package is left to turn `error` into one of SQL."""
        # PL/Python puts the name of the exception's class before the message: users see "graphrag: …", not "plpy.Error: …".
        kind = type("graphrag", (self.plpy.Error,), {"__module__": "builtins"})
        raised: Any = kind(error.message)
        raised.sqlstate, raised.detail, raised.hint = error.sqlstate, error.detail, error.hint
        return without_traceback(raised)  # type: ignore[no-any-return]

    def error_of_statement(self, error: Any) -> Exception:
        """Return what to raise for the error of a statement: the same, without its class before the message and the traceback."""
        # An SPIError's SQLSTATE, DETAIL, HINT, statement, position, and object.
        _, detail, hint, _, _, *objects = error.spidata
        # An inner call of the extension may have put the name there.
        message = str(error).removeprefix("graphrag: ")
        if error.sqlstate == _NO_PRIVILEGE and hint is None:
            hint = self._missing_grant(message)
        if error.sqlstate == _READS_ONLY and hint is None:
            hint = "On a standby, ask the primary; elsewhere SET default_transaction_read_only = off, outside a transaction."
        raised: Any = self.error(GraphRAGError(message, sqlstate=error.sqlstate, detail=detail, hint=hint))
        for name, value in zip(_OBJECTS, objects, strict=True):
            setattr(raised, name, value)
        return raised  # type: ignore[no-any-return]

    def _missing_grant(self, message: str) -> str:
        """Return the HINT of a refusal: which grant is missing, or which setting is in the way."""
        if message.startswith("query would be affected by row-level security policy"):
            return "Row-level security shows you what you may read where it is on: SET row_security = on."
        role = self.value("SELECT pg_catalog.quote_ident(current_user)")
        refused = _REFUSED.search(message)
        if refused is not None and not self._is_own(refused[2]):
            kind, name = refused[1], refused[2]
            privilege, place = _PRIVILEGES.get(kind, ("SELECT", "TABLE"))
            return f"Its owner may GRANT {privilege} ON {place} {name} TO {role}."
        return (
            f"A superuser may GRANT graphrag_reader TO {role}, for every corpus, or call graphrag.grant_corpus() for one."
            " What is neither a search, a question nor a view is the owner's of the extension."
        )

    def _is_own(self, name: str) -> bool:
        """Tell whether an object of the schema has this name, or it is the schema."""
        rows = self.query(
            "SELECT FROM pg_catalog.pg_class c WHERE c.relnamespace = 'graphrag'::pg_catalog.regnamespace AND c.relname = $1"
            " UNION ALL"
            " SELECT FROM pg_catalog.pg_proc p WHERE p.pronamespace = 'graphrag'::pg_catalog.regnamespace AND p.proname = $1",
            ["text"],
            [name],
        )
        return name == "graphrag" or bool(rows)

    def folder(self, name: str) -> Path:
        """Return the folder ``pg_stat`` or ``pg_stat_tmp``, for files that all sessions of the database share."""
        return Path(name)

    @cached_property
    def server_run(self) -> str | None:
        """What names this run of the server: another one after each start and crash. None where the role may not see that.

        After a crash the number of a transaction that was not on disk yet may come again. Every process is new then, also
        where the postmaster lives on.
        """
        run: str | None = self.value(
            "SELECT extract(epoch FROM pg_catalog.pg_postmaster_start_time())::text || ' '"
            "       || extract(epoch FROM pg_catalog.min(a.backend_start))::text"
            "  FROM pg_catalog.pg_stat_get_activity(NULL) a WHERE a.backend_type = 'checkpointer'"
        )
        return run

    @cached_property
    def vector_type(self) -> str:
        """pgvector's type, qualified by the schema it was installed in."""
        name: str = self.value(
            "SELECT pg_catalog.format('%I.vector', n.nspname) FROM pg_catalog.pg_extension e"
            " JOIN pg_catalog.pg_namespace n ON n.oid = e.extnamespace WHERE e.extname = 'vector'"
        )
        return name

    @property
    def cosine_distance(self) -> str:
        """pgvector's operator ``<=>``, qualified."""
        return f"OPERATOR({self.vector_type.rsplit('.', 1)[0]}.<=>)"

    def cursor(self, sql: str, types: Sequence[str], values: Sequence[Any]) -> Any:
        """Open a cursor: the server produces rows as they are fetched. It lives as long as the object, at most the
        transaction.
        """
        plan = self.prepare(sql, types)
        with undisturbed():
            return self.plpy.cursor(plan, list(values))

    def stream(self, sql: str, types: Sequence[str], values: Sequence[Any], fetch: int = _SLICE) -> Iterator[Row]:
        """Yield the rows of a statement, fetched `fetch` at a time: a cancel waits for one fetch at most."""
        cursor = self.cursor(sql, types, values)
        try:
            while rows := cursor.fetch(fetch):
                yield from rows
        finally:
            cursor.close()

    def hold(self, sql: str) -> None:
        """Lock the relations that a SELECT names, until `bounded` ends; nothing of them is run or planned."""
        self.prepare(sql, [])

    def subtransaction(self) -> AbstractContextManager[object]:
        """A statement that fails inside takes nothing else back. Only in a function that reads."""
        return cast(AbstractContextManager[object], self.plpy.subtransaction())

    @contextmanager
    def bounded(self, seconds: float) -> Iterator[None]:
        """Cancel statements inside after so many seconds: OutOfTimeError, which no other cancel raises.

        A statement that fails inside takes nothing else back. Only in a function that reads.
        """
        with cancelled_after(self.plpy, seconds), self.subtransaction():
            yield

    def commit(self) -> None:
        """Commit; only under a top-level CALL."""
        self.plpy.commit()

    def rollback(self) -> None:
        """Roll back; only under a top-level CALL. This also releases the snapshot, which would pin vacuum."""
        self.plpy.rollback()

    def notice(self, message: str, **fields: str) -> None:
        """Send a NOTICE with optional ``detail`` and ``hint``."""
        _send(self.plpy, self.plpy.notice, message, fields)

    def warning(self, message: str, **fields: str) -> None:
        """Send a WARNING with optional ``detail`` and ``hint``."""
        _send(self.plpy, self.plpy.warning, message, fields)


def _send(plpy: Any, send: Callable[..., None], message: str, fields: dict[str, str]) -> None:
    try:
        with undisturbed():
            send(message, **fields)
    except plpy.Error as error:
        # An error while it sends is a cancel or a timeout, of which PL/Python keeps the message alone.
        raise GraphRAGError(str(error), sqlstate="57014") from None


def check_may_commit(db: Database, procedure: str) -> None:
    """Commit, or say how to call a procedure that commits its work."""
    try:
        db.commit()
    except Exception as error:
        if getattr(error, "sqlstate", None) != "2D000":
            raise
        raise GraphRAGError(
            f"{procedure} commits its work, which is not possible inside a transaction block or a function",
            sqlstate="2D000",
            hint=f"Send CALL graphrag.{procedure} as a statement of its own, with autocommit on.",
        ) from None


def columns(rows: Sequence[tuple[Any, ...]]) -> list[list[Any]]:
    """Turn rows into column lists, as unnest() takes them."""
    return [list(column) for column in zip(*rows, strict=True)]


def to_json(value: Any) -> str:
    """Return a value as JSON; for a context this takes a fifth of json.dumps' time."""
    import pydantic_core  # what only says a little in JSON need not wait for it

    return pydantic_core.to_json(value).decode()


def slices(rows: Iterable[T], size: int = _SLICE) -> Iterator[list[T]]:
    """Yield `rows` in lists of at most `size`."""
    remaining = iter(rows)
    while part := list(islice(remaining, size)):
        yield part


def reserve(db: Database, sequence: str, count: int) -> list[int]:
    """Return `count` new numbers of a sequence of the schema."""
    if not count:
        return []
    rows = db.query(
        f"SELECT pg_catalog.nextval('graphrag.{sequence}') AS id FROM pg_catalog.generate_series(1, $1)",
        ["int4"],
        [count],
    )
    return [row["id"] for row in rows]


_databases: dict[int, Database] = {}


def database(plpy: Any) -> Database:
    """Return the session's one `Database`."""
    if id(plpy) not in _databases:
        _databases[id(plpy)] = Database(plpy)
    return _databases[id(plpy)]


@cache
def function_at(path: str) -> Callable[..., Any]:
    """Return a function of the package by its path, ``<module>:<function>``; the module is imported when it is asked for."""
    module, name = path.split(":")
    function: Callable[..., Any] = getattr(importlib.import_module(f"pg_graphrag.{module}"), name)
    return function


@cache
def _load(path: str) -> None:
    """Import what a function of the package needs, as a session does: once for each."""
    with loading():
        function_at(path)


def call(plpy: Any, extension_version: str, path: str, *arguments: Any) -> Any:
    """Call ``pg_graphrag.<module>:<function>`` with the session's database and the SQL function's arguments.

    Raises plpy.Error: 58P01 for a version of the extension that is not served; 53200 where memory is short; for a
      `GraphRAGError` its own SQLSTATE, DETAIL and HINT; XX000 for an error that nothing foresaw. Errors of SQL statements,
      query cancel among them, keep these; a refusal without a HINT gets one.
    """
    db = database(plpy)
    if extension_version != __version__:
        served = versions.turn_to(extension_version)
        if served is not None:
            return served(plpy, extension_version, path, *arguments)
        raise db.error(
            GraphRAGError(
                f"the Python package pg_graphrag is version {__version__}, the extension is {extension_version}",
                sqlstate="58P01",
                detail=f"The package serves extensions of version {', '.join(versions.served())}.",
                hint="Install the package of the extension's version, or run ALTER EXTENSION pg_graphrag UPDATE; "
                "then reconnect.",
            )
        )
    try:
        with watched(plpy):
            # A cancel that came while PL/Python made the arguments must not wait for the imports.
            check()
            _load(path)
            result = run(db, path, arguments)
            after_call()
            return result
    except GraphRAGError as error:
        raise db.error(error) from None
    except db.statement_error as error:
        raise db.error_of_statement(error) from None
    except RecursionError:
        deep = GraphRAGError(
            "functions of the extension call each other too deep",
            sqlstate="54001",
            hint="A view or function that a filter or policy names may not search through itself.",
        )
        raise db.error(deep) from None
    except MemoryError as error:
        lack = GraphRAGError(
            "out of memory",
            sqlstate="53200",
            detail=str(error) or None,
            hint="Free memory of the server's machine, or SET graphrag.session_memory lower than it is.",
        )
        raise db.error(lack) from None
    except (ImportError, OSError):
        try:
            versions.check_copy()
        except GraphRAGError as error:
            raise db.error(error) from None
        raise
    except Exception as error:
        db.log_unforeseen(error)
        raise db.error(unforeseen(error)) from None


def places(error: Exception) -> str:
    """Return where an error of Python came from: the last lines of code."""
    from traceback import extract_tb

    frames = extract_tb(error.__traceback__)[-5:]
    return ", ".join(f"{'/'.join(Path(frame.filename).parts[-2:])}:{frame.lineno}" for frame in frames)


def unforeseen(error: Exception) -> GraphRAGError:
    """Return what to raise for an error of Python itself: mostly the tables of an index do not belong together."""
    return GraphRAGError(
        "rows of the index do not fit together, or this is a defect",
        sqlstate="XX000",
        detail=f"At {places(error)}.",
        hint="Rows of the index may be missing, after TRUNCATE or the restore of a part: SELECT * FROM graphrag.check('…') names"
        " them, and graphrag.reindex('…') makes them again. Where it names none, this is a defect: please report it.",
    )


def run(db: Database, path: str, arguments: Sequence[Any]) -> Any:
    """Check the arguments of an SQL function and return what its function of the package returns: for either host."""
    for argument in arguments:
        if isinstance(argument, list) and argument and isinstance(argument[0], list):
            raise GraphRAGError(
                f"an array of several dimensions is not understood: {str(argument)[:200]}",
                hint="Give an array of one, such as ARRAY['a', 'b'].",
            )
    check_size(arguments)
    result = function_at(path)(db, *arguments)
    # Rows are made here: an error while PL/Python iterates would lose its SQLSTATE.
    return list(result) if isinstance(result, Iterator) else result


def check_size(arguments: Sequence[Any]) -> None:
    """Refuse an argument of a function that is too long: 54000."""
    for argument in arguments:
        parts = argument if isinstance(argument, list) else (argument,)
        size = 0
        for part in parts:
            size += len(part) if isinstance(part, (str, bytes)) else 0
        if size > MAX_ARGUMENT:
            begin = next(part for part in parts if part)[:60]
            raise GraphRAGError(
                f"an argument has {size:,} characters, more than {MAX_ARGUMENT:,}: {begin!r}…",
                sqlstate="54000",
                hint="Send it in parts, with several calls.",
            )


class Rows:
    """Rows of a set-returning function: the first ones at once, the others as they are produced.

    An error in a later row keeps its SQLSTATE and HINT; PL/Python shows its message as the DETAIL.
    """

    def __init__(self, db: Database, first: Sequence[Any], rest: Iterator[Any]) -> None:
        self._db = db
        self._first = first
        self._rest = rest

    def __iter__(self) -> Iterator[Any]:
        yield from self._first
        try:
            yield from self._rest
        except GraphRAGError as error:
            raise self._db.error(error) from None
