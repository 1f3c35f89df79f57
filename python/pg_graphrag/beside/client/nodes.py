"""Nodes: which database holds a corpus, how a client gets from one to another, and questions to several at once.

The owner of a database writes its catalogue. The catalogue says where a node is. The client alone decides as which role
and how it connects. It sends a password only to the host and port that the password was given for; for others it leaves
passwords to libpq's password file, which is keyed by host.
"""

import asyncio
import threading
import time
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from contextvars import copy_context
from dataclasses import dataclass, replace
from typing import Any, NamedTuple, Protocol, TypeVar

import psycopg
from psycopg.conninfo import conninfo_to_dict, make_conninfo

from pg_graphrag.beside.client import hosts
from pg_graphrag.beside.client.display import Results
from pg_graphrag.beside.client.results import SearchResult
from pg_graphrag.beside.client.sql_statements import Row, Statement
from pg_graphrag.ground.bounds import ALL
from pg_graphrag.ground.errors import GraphRAGError
from pg_graphrag.ground.merged_order import row_order

T = TypeVar("T")
# Nodes that a client is sent to, one by the other, before it believes the last: the catalogues contradict each other.
MAX_STEPS = 3
# Parameters of a node's URL: where it is, and which of several hosts is meant.
_PLACES = frozenset(("host", "port", "dbname", "target_session_attrs", "load_balance_hosts"))
# Parameters of the client's URL that belong to one host, or prove to it who the client is. They are replaced by empty
# values, because a variable of the environment would replace absent ones.
_OF_ONE_HOST = ("password", "hostaddr", "gssdelegation", "scram_", "oauth_")
_OF_NO_HOST = {"password": "", "hostaddr": "", "gssdelegation": "0"}
_PORT = "5432"
# Until a node that does not say anything is given up, where the client's own URL does not say it.
CONNECT_SECONDS = "10"


class Place(NamedTuple):
    """A node, and its URL without role and password."""

    node: str
    url: str


class Whereabouts(NamedTuple):
    """Whether a database holds a corpus, and which other database its catalogue names."""

    is_here: bool
    place: Place | None


def whereabouts(corpus: str) -> Statement[Whereabouts]:
    """Where a corpus is, as a database knows."""

    def result(rows: list[Row]) -> Whereabouts:
        is_here, node, url = rows[0]
        return Whereabouts(is_here, None if node is None else Place(node, url))

    return Statement(
        """
        SELECT EXISTS (SELECT FROM graphrag.corpora c WHERE c.name = %(corpus)s AND p.node IS NULL), p.node, p.url
          FROM graphrag._placed(%(corpus)s) p
        """,
        {"corpus": corpus},
        result,
    )


def others() -> Statement[list[Place]]:
    """The other nodes that a database knows."""
    return Statement(
        """
        SELECT n.name, n.url FROM graphrag.nodes n
         WHERE n.name IS DISTINCT FROM pg_catalog.current_setting('graphrag.node', true) ORDER BY 1
        """,
        {},
        lambda rows: [Place(*row) for row in rows],
    )


def elsewhere(corpora: Sequence[str]) -> Statement[dict[Place, list[str]]]:
    """Which other nodes have which of these corpora; all nodes may have more, where all corpora are asked for."""

    def result(rows: list[Row]) -> dict[Place, list[str]]:
        names: dict[Place, list[str]] = {}
        for name, node, url in rows:
            names.setdefault(Place(node, url), []).append(name)
        return names

    return Statement(
        """
        SELECT c.name, p.node, p.url
          FROM pg_catalog.unnest(%(corpora)s::text[]) c (name)
         CROSS JOIN LATERAL graphrag._placed(c.name) p
         WHERE p.node IS NOT NULL
         UNION
        SELECT %(all)s, n.name, n.url
          FROM graphrag.nodes n
         WHERE %(all)s = ANY (%(corpora)s::text[])
           AND n.name IS DISTINCT FROM pg_catalog.current_setting('graphrag.node', true)
         ORDER BY 2, 1
        """,
        {"corpora": list(corpora), "all": ALL},
        result,
    )


def url_at(info: psycopg.ConnectionInfo, place: Place) -> str:
    """Return how a client with a connection connects to a node: as the same role, by the same network settings.

    The password is the connection's if host and port are the same, else the one in libpq's password file for the host. It
    is never ``PGPASSWORD``, which belongs to no host.

    Raises GraphRAGError: 22023 if the catalogue says more than where the node is.
    """
    try:
        address = {name: str(value) for name, value in conninfo_to_dict(place.url).items() if value is not None}
    except psycopg.ProgrammingError:
        address = {}
    if not {"host", "dbname"} <= set(address) <= _PLACES:
        raise GraphRAGError(
            f'the url of node "{place.node}" in the catalogue cannot be used',
            hint="Who owns the extension gives it another: SELECT graphrag.add_node(name, 'postgresql://HOST:PORT/DATABASE').",
        )
    address.setdefault("port", _PORT)
    own = {name: value for name, value in info.get_parameters().items() if name not in ("service", "servicefile")}
    own = {"connect_timeout": CONNECT_SECONDS} | own | {"user": info.user}
    if set(_addresses(address)) == {(info.host.lower(), str(info.port))}:
        own["password"] = info.password
    else:
        options = {option.keyword.decode() for option in psycopg.pq.Conninfo.get_defaults()}
        own = {name: value for name, value in own.items() if not name.startswith(_OF_ONE_HOST)}
        own |= {name: value for name, value in _OF_NO_HOST.items() if name in options}
    return make_conninfo("", **own | address)


def _addresses(parameters: Mapping[str, str]) -> list[tuple[str, str]]:
    names = parameters["host"].lower().split(",")
    ports = [port or _PORT for port in parameters["port"].split(",")]
    return list(zip(names, ports * len(names) if len(ports) == 1 else ports, strict=False))


def is_same(info: psycopg.ConnectionInfo, url: str) -> bool:
    """Whether a URL that `url_at` made leads to the database of a connection."""
    parameters = {name: str(value) for name, value in conninfo_to_dict(url).items()}
    same_host = set(_addresses(parameters)) == {(info.host.lower(), str(info.port))}
    return same_host and parameters["dbname"] == info.dbname


def from_here(info: psycopg.ConnectionInfo, names_at: dict[Place, list[str]]) -> dict[Place, list[str]]:
    """Return the places of `elsewhere`, with urls for a client with a connection; without the connection's own database."""
    places = {place._replace(url=url_at(info, place)): names for place, names in names_at.items()}
    return {place: names for place, names in places.items() if not is_same(info, place.url)}


class Request(NamedTuple):
    """A node (None: the first database), and the corpora that it is asked for."""

    place: Place | None
    corpora: tuple[str, ...]


def requests(place: Place | None, names: Iterable[str], elsewhere: Mapping[Place, Sequence[str]]) -> list[Request]:
    """Return what to ask a node for some corpora, and the others that have some of them. All may have more than is known."""
    others = {name for part in elsewhere.values() for name in part} - {ALL}
    rest = tuple(name for name in names if name not in others)
    return [Request(place, rest)] * bool(rest) + [Request(other, tuple(part)) for other, part in elsewhere.items()]


class LateError(GraphRAGError):
    """A node did not answer in time."""

    def __init__(self, place: Place | None, seconds: float) -> None:
        hint = "Give node_timeout more seconds, or leave out its corpora."
        super().__init__(
            f"{_name(place)} did not answer: it took longer than {seconds:g} s", sqlstate="57014", hint=hint
        )


class Client(Protocol):
    """A client whose call can be cancelled through its connection. The connection may then serve another call."""

    _own_connection: Any
    _turn: Any

    def close(self) -> Any:
        """End its connection."""


_ending: set[asyncio.Future[Any]] = set()


async def side_by_side_async(
    clients: Mapping[Request, Client], calls: Mapping[Request, Callable[[], Awaitable[T]]], seconds: float
) -> dict[Request, T | Exception]:
    """Return the result of each call, or its error: LateError after so many seconds. Late calls are ended in the
    background.
    """
    tasks = {request: asyncio.ensure_future(call()) for request, call in calls.items()}
    try:
        await asyncio.wait(tasks.values(), timeout=seconds)
    finally:
        for request, task in tasks.items():
            if not task.done():
                task.cancel()
                ending = asyncio.ensure_future(_end(task, clients[request]))
                _ending.add(ending)
                ending.add_done_callback(_ending.discard)
    answers: dict[Request, T | Exception] = {}
    for request, task in tasks.items():
        if not task.done() or task.cancelled():
            answers[request] = LateError(request.place, seconds)
        elif isinstance(error := task.exception(), Exception):
            answers[request] = error
        else:
            answers[request] = task.result()
    return answers


async def _end(task: asyncio.Future[Any], client: Client) -> None:
    with suppress(BaseException):
        await task
    async with client._turn:
        await client.close()


def side_by_side(
    clients: Mapping[Request, Client], calls: Mapping[Request, Callable[[], T]], seconds: float
) -> dict[Request, T | Exception]:
    """As `side_by_side_async`, in threads."""
    answers: dict[Request, T | Exception] = {}
    late: set[Request] = set()

    def run(request: Request, call: Callable[[], T]) -> None:
        try:
            answers[request] = call()
        except Exception as error:
            answers[request] = error
        if request in late:
            with clients[request]._turn:
                clients[request].close()

    threads = {
        request: threading.Thread(target=copy_context().run, args=(run, request, call), daemon=True)
        for request, call in calls.items()
    }
    deadline = time.monotonic() + seconds
    for thread in threads.values():
        thread.start()
    try:
        for thread in threads.values():
            thread.join(max(deadline - time.monotonic(), 0))
    finally:
        for request, thread in threads.items():
            if thread.is_alive():
                late.add(request)
                if (connection := clients[request]._own_connection) is not None:
                    threading.Thread(target=_cancel, args=(connection,), daemon=True).start()
    return {request: LateError(request.place, seconds) if request in late else answers[request] for request in calls}


def _cancel(connection: Any) -> None:
    with suppress(psycopg.Error):
        hosts.cancel(connection)


# What a caller is told at once: a corpus that he named is not there, or is not for him.
_OF_NAMES = (psycopg.errors.UndefinedObject, psycopg.errors.InsufficientPrivilege)
_OF_NODES = (psycopg.Error, GraphRAGError)


@dataclass(frozen=True)
class Form:
    """The question to each database, and which rows of the merged answer are wanted.

    `count`: how many rows, of which `offset` are left out; `minimum`: the least relevance.
    """

    arguments: dict[str, Any]
    count: int
    offset: int
    minimum: float | None

    @classmethod
    def of(cls, arguments: dict[str, Any]) -> "Form":
        """Return the form of a search with these arguments. What they cannot be a database says."""
        # This client asks the others itself.
        options, top_k = dict(arguments["options"]) | {"nodes": "here"}, arguments["top_k"]
        offset, minimum = options.get("offset"), options.get("min_relevance")
        if isinstance(offset, int) and not isinstance(offset, bool) and offset > 0:
            del options["offset"]
            top_k += offset
        else:
            offset = 0
        # Then each row says how relevant it is.
        if isinstance(minimum, int | float) and not isinstance(minimum, bool) and 0 <= minimum <= 1:
            options["min_relevance"] = 0
        else:
            minimum = None
        return cls(arguments | {"top_k": top_k, "options": options}, top_k, offset, minimum)

    def merged(self, answers: Mapping[Request, Results[SearchResult] | Exception]) -> Results[SearchResult]:
        """Return the rows of several databases as the search of one that has all their corpora.

        Raises Exception: of a corpus that was named and is not there or not for the caller; and where nothing was found and a
          node did not answer.
        """
        notes: dict[str, list[str]] = {}
        rows: list[SearchResult] = []
        whose: dict[str, Place | None] = {}
        faults: list[Exception] = []
        for (place, corpora), answer in answers.items():
            if isinstance(answer, Exception):
                # A node may hold none of the corpora that the caller may read.
                has_nothing = isinstance(answer, _OF_NAMES) and set(corpora) == {ALL}
                if not has_nothing and (isinstance(answer, _OF_NAMES) or not isinstance(answer, _OF_NODES)):
                    raise answer
                faults.append(answer)
                late = isinstance(answer, LateError)
                reason = reason_of(answer) if late else f"{_name(place)} did not answer: {reason_of(answer)}"
                for name in () if has_nothing else corpora:
                    notes.setdefault(name, []).append(reason)
                continue
            for name, reason in answer[0].explain.get("unanswered", {}).items() if answer else ():
                notes.setdefault(name, []).append(reason)
            for row in answer:
                if whose.setdefault(row.corpus, place) == place:
                    rows.append(row)
            for name in {row.corpus for row in answer if whose[row.corpus] != place}:
                notes.setdefault(name, []).append(f"that of {_name(place)}: {_name(whose[name])} has one of this name")
        if not rows and (notes or len(faults) == len(answers)) and faults:
            raise faults[0]
        rows.sort(
            key=lambda row: row_order(row.explain["corpus_relevance"], row.explain["corpus_rank"] - 1, row.corpus)
        )
        note = {"unanswered": {name: "; ".join(reasons) for name, reasons in notes.items()}} if notes else {}
        return Results(
            replace(
                row,
                rank=rank,
                explain={name: value for name, value in row.explain.items() if name != "unanswered"} | note,
            )
            for rank, row in enumerate(rows[: self.count], 1)
            if rank > self.offset and (self.minimum is None or row.explain["relevance"] >= self.minimum)
        )


def _name(place: Place | None) -> str:
    return "the first database" if place is None else f'node "{place.node}"'


def reason_of(error: Exception) -> str:
    """Return what an error says, on a line."""
    text = error.diag.message_primary if isinstance(error, psycopg.Error) else None
    return (text or str(error)).removeprefix("graphrag: ").partition("\n")[0]
