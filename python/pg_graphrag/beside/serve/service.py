"""What all protocols (HTTP, MCP, OpenAI) share: a call with its caller's rights and within the caller's limits."""

import asyncio
from collections.abc import AsyncIterator, Callable, Coroutine, Iterator, Sequence
from contextlib import aclosing, contextmanager
from typing import Annotated, Any, Generic, TypeVar
from urllib.parse import urlsplit

import psycopg
from fastapi import Depends
from starlette.requests import Request

from pg_graphrag.beside.client import Answer, GraphRAG, Results, SearchResult, nodes
from pg_graphrag.beside.client.nodes import MAX_STEPS
from pg_graphrag.beside.serve import answers, reading
from pg_graphrag.beside.serve.caller_database import Connection, Database
from pg_graphrag.beside.serve.callers import Caller, Callers
from pg_graphrag.beside.serve.guard import CALLER
from pg_graphrag.beside.serve.http_errors import Refusal
from pg_graphrag.beside.serve.reading import ElsewhereError, UnknownError
from pg_graphrag.beside.serve.settings import Settings
from pg_graphrag.ground.bounds import ALL
from pg_graphrag.ground.errors import GraphRAGError

T = TypeVar("T")
# For a role that a node does not have, or that the URL's role may not take on.
_NO_ROLE = (psycopg.errors.InvalidParameterValue, psycopg.errors.InsufficientPrivilege)
# Arguments of a search that are no options.
_OF_CALL = ("mode", "filter", "low_level_keywords", "high_level_keywords", "top_k", "corpus_timeout")
# How long another node may take to name its corpora.
NODE_SECONDS = 2.0


class _Checked(Generic[T]):
    """Work on corpora, once it is known that the caller has them in a database."""

    def __init__(self, corpora: Sequence[str], work: Callable[[GraphRAG, Connection], T]) -> None:
        self._corpora, self._work = corpora, work
        self.has_begun = False

    def __call__(self, rag: GraphRAG, connection: Connection) -> T:
        self.has_begun = True
        reading.check_corpora(connection, self._corpora)
        return self._work(rag, connection)


class Service:
    """The database, as callers use it."""

    def __init__(self, settings: Settings, callers: Callers) -> None:
        self.settings, self.callers = settings, callers
        self.database = self._database_at(settings.url)
        # Nodes that have been asked, by URL, and which of them has a corpus.
        self._nodes: dict[str, Database] = {}
        self._node_of: dict[str, str] = {}

    def _database_at(self, url: str) -> Database:
        settings = self.settings
        return Database(url, settings.connections, settings.waiting, self.callers.all, settings.limits.wait)

    def close(self) -> None:
        """Close all connections."""
        for database in (self.database, *self._nodes.values()):
            database.close()

    def _where(self, corpus: str) -> Database:
        """Return the database that holds a corpus, if it is known."""
        url = self._node_of.get(corpus)
        return self.database if url is None else self._node(url)

    def _node(self, url: str) -> Database:
        if url not in self._nodes:
            self._nodes[url] = self._database_at(url)
            self._nodes[url].open()
        return self._nodes[url]

    @contextmanager
    def _following(self, corpus: str, database: Database, call: _Checked[Any], step: int) -> Iterator[None]:
        """Enclose a call that another database may have to answer: then it is made again, at most MAX_STEPS times."""
        try:
            yield
        except UnknownError as error:
            former = self._node_of.pop(corpus, None)
            # A node that does not have it any more may be known to the first database.
            if step == MAX_STEPS or not (isinstance(error, ElsewhereError) or (former is not None and step == 0)):
                raise
            if isinstance(error, ElsewhereError):
                self._node_of[corpus] = error.url
        except _NO_ROLE:
            if call.has_begun or database is self.database:
                raise
            # The node has no such role.
            raise UnknownError(corpus) from None

    async def call(
        self, caller: Caller, corpus: str | None, work: Callable[[GraphRAG], T], seconds: float | None = None
    ) -> T:
        """Return the result of `work` with the client of a corpus. `seconds`: the limit of a call that may wait for long."""
        return await self.read(caller, corpus, lambda rag, _: work(rag), seconds)

    async def read(
        self,
        caller: Caller,
        corpus: str | None,
        work: Callable[[GraphRAG, Connection], T],
        seconds: float | None = None,
    ) -> T:
        """As `call`, with the connection for SQL of the server's own."""
        name = corpus or self.settings.corpus
        limits = self.settings.limits
        for step in range(MAX_STEPS + 1):
            database, checked = self._where(name), _Checked([name], work)
            with self._following(name, database, checked, step):
                return await database.run(
                    caller, name, checked, seconds or limits.seconds, waits=seconds == limits.ask_seconds
                )
        raise AssertionError("the last step returns or raises")

    async def search(
        self, caller: Caller, corpus: str | None, query: str, *, corpora: Sequence[str] | None, **arguments: Any
    ) -> Results[SearchResult]:
        """Return rows of a corpus, or of several, which the nodes that have them are asked for side by side."""
        if corpora is None:
            arguments.pop("corpus_timeout")
            return await self.call(caller, corpus, lambda rag: rag.search(query, **arguments))
        name, seconds = corpus or self.settings.corpus, self.settings.limits.seconds

        def of_first(rag: GraphRAG, connection: Connection) -> Results[SearchResult] | dict[nodes.Place, list[str]]:
            if places := reading.elsewhere(connection, corpora):
                return places
            reading.check_corpora(connection, [name for name in corpora if name != ALL])
            return rag.search(query, corpora=corpora, **arguments)

        result = await self.database.run(caller, name, of_first, seconds)
        if not isinstance(result, dict):
            return result
        of_call = {key: arguments.pop(key) for key in _OF_CALL}
        form = nodes.Form.of(of_call | {"options": arguments})
        options = form.arguments.pop("options")

        async def ask(request: nodes.Request) -> Results[SearchResult] | Exception:
            database = self._node(request.place.url) if request.place else self.database
            named = [name for name in request.corpora if name != ALL]
            checked = _Checked(
                named, lambda rag, _: rag.search(query, corpora=request.corpora, **form.arguments, **options)
            )
            try:
                # Half of the time is left for the others where one does not answer.
                return await database.run(caller, name, checked, seconds / 2)
            except UnknownError:
                raise
            except (psycopg.Error, GraphRAGError) as error:
                if checked.has_begun or not named or not isinstance(error, _NO_ROLE):
                    return error
                raise UnknownError(named[0]) from None

        requests = nodes.requests(None, corpora, result)
        return form.merged(dict(zip(requests, await asyncio.gather(*map(ask, requests)), strict=True)))

    async def corpora(self, caller: Caller) -> list[dict[str, Any]]:
        """Return [{name, bypass}] of the corpora that a caller sees, at all nodes that answer soon."""

        async def of_node(url: str) -> list[dict[str, Any]]:
            try:
                return await self._node(url).run(
                    caller, self.settings.corpus, lambda _, connection: reading.corpora(connection), NODE_SECONDS
                )
            except (psycopg.Error, GraphRAGError):
                return []

        def of_first(_: GraphRAG, connection: Connection) -> tuple[list[dict[str, Any]], list[str], set[str]]:
            urls = reading.other_nodes(connection)
            names = reading.names(connection) if urls else set()
            try:
                return reading.corpora(connection), urls, names
            except psycopg.errors.InsufficientPrivilege:
                # The caller's corpora may be on other nodes alone.
                if not urls:
                    raise
                return [], urls, names

        seconds = self.settings.limits.seconds
        own, urls, names = await self.database.run(caller, self.settings.corpus, of_first, seconds)
        corpora = {row["name"]: row for row in own}
        for url, rows in zip(urls, await asyncio.gather(*map(of_node, urls)), strict=True):
            for row in rows:
                # If two databases have a corpus of one name, the first is asked, also for callers who were granted the
                # other.
                if row["name"] not in names and corpora.setdefault(row["name"], row) is row:
                    self._node_of[row["name"]] = url
        return list(corpora.values())

    async def answer(self, caller: Caller, corpus: str | None, question: str, arguments: dict[str, Any]) -> Answer:
        """Return an answer at once."""
        return await self.call(
            caller, corpus, lambda rag: rag.ask(question, **arguments), self.settings.limits.ask_seconds
        )

    async def ask(
        self, caller: Caller, corpus: str | None, question: str, arguments: dict[str, Any]
    ) -> AsyncIterator[str | Answer]:
        """Yield an answer in pieces, then whole."""
        name = corpus or self.settings.corpus

        def work(rag: GraphRAG, connection: Connection) -> Iterator[str | Answer]:
            return answers.stream(rag, connection, question, arguments)

        for step in range(MAX_STEPS + 1):
            database, checked = self._where(name), _Checked([name], work)
            with self._following(name, database, checked, step):
                pieces = database.stream(caller, name, checked, self.settings.limits.ask_seconds)
                async with aclosing(pieces):
                    async for piece in pieces:
                        yield piece
                return

    def require(self, caller: Caller, right: str) -> None:
        """Refuse what a caller has no right to."""
        if right not in caller.rights:
            raise Refusal(
                403, "42501", f"{caller.name} may not {right}", "The server's file of callers gives this right."
            )


def address_of(request: Request, settings: Settings) -> str:
    """Return this server's address for a caller: the `--origin` with his host, else the first."""
    origins = [origin.rstrip("/") for origin in settings.origins]
    host = request.headers.get("host", "").lower()
    same = [origin for origin in origins if urlsplit(origin).netloc.lower() == host]
    return (same or origins or [f"{request.url.scheme}://{request.url.netloc}"])[0]


async def caller_of(request: Request) -> Caller:
    """Return the caller. The guard has refused everybody else."""
    # Asynchronous, or FastAPI runs it in another thread for every request, which takes longer than all its own work.
    caller: Caller = request.scope[CALLER]
    return caller


Who = Annotated[Caller, Depends(caller_of)]


async def begun(request: Request, items: AsyncIterator[T]) -> AsyncIterator[T]:
    """Return a stream whose first item has come: what fails before is raised here, while a reply can have a status."""

    async def first() -> T:
        return await anext(items)

    item = await while_connected(request, first())

    async def resumed() -> AsyncIterator[T]:
        yield item
        async for other in items:
            yield other

    return resumed()


async def while_connected(request: Request, call: Coroutine[Any, Any, T]) -> T:
    """Return what a call returns; end it when the client goes."""

    async def wait_for_the_end() -> None:
        while (await request.receive())["type"] != "http.disconnect":
            pass

    work, watch = asyncio.ensure_future(call), asyncio.ensure_future(wait_for_the_end())
    try:
        await asyncio.wait((work, watch), return_when=asyncio.FIRST_COMPLETED)
        if not work.done():
            raise Refusal(499, "57014", "the client has gone")
        return work.result()
    finally:
        work.cancel()
        watch.cancel()
        await asyncio.gather(work, watch, return_exceptions=True)
