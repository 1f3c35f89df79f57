"""What the fronts (HTTP, MCP, OpenAI) share: a call with the rights and within the limits of its caller."""

import asyncio
from collections.abc import AsyncIterator, Callable, Coroutine, Iterator, Sequence
from typing import Annotated, Any, TypeVar
from urllib.parse import urlsplit

from fastapi import Depends
from starlette.requests import Request

from pg_graphrag.beside.client import Answer, GraphRAG
from pg_graphrag.beside.serve import answers, reading
from pg_graphrag.beside.serve.caller_database import Connection, Database
from pg_graphrag.beside.serve.callers import Caller, Callers
from pg_graphrag.beside.serve.guard import CALLER
from pg_graphrag.beside.serve.http_errors import Refusal
from pg_graphrag.beside.serve.settings import Settings
from pg_graphrag.ground.bounds import ALL

T = TypeVar("T")


class Service:
    """The database, as callers use it."""

    def __init__(self, settings: Settings, callers: Callers) -> None:
        self.settings, self.callers = settings, callers
        self.database = Database(
            settings.url, settings.connections, settings.waiting, callers.all, settings.limits.wait
        )

    async def call(
        self,
        caller: Caller,
        corpus: str | None,
        work: Callable[[GraphRAG], T],
        seconds: float | None = None,
        corpora: Sequence[str] | None = None,
    ) -> T:
        """Return what `work` returns of the client of a corpus. `seconds`: of what may wait for long; `corpora`: as in `read`."""
        return await self.read(caller, corpus, lambda rag, _: work(rag), seconds, corpora)

    async def read(
        self,
        caller: Caller,
        corpus: str | None,
        work: Callable[[GraphRAG, Connection], T],
        seconds: float | None = None,
        corpora: Sequence[str] | None = None,
    ) -> T:
        """As `call`, with the connection for SQL of the server's own. `corpora`: those that are read in place of the one."""

        def checked(rag: GraphRAG, connection: Connection) -> T:
            names = [rag.corpus] if corpora is None else [name for name in corpora if name != ALL]
            reading.check_corpora(connection, names)
            return work(rag, connection)

        limits = self.settings.limits
        return await self.database.run(
            caller,
            corpus or self.settings.corpus,
            checked,
            seconds or limits.seconds,
            waits=seconds == limits.ask_seconds,
        )

    async def corpora(self, caller: Caller) -> list[dict[str, Any]]:
        """Return [{name, bypass}] of the corpora that a caller sees."""
        return await self.database.run(
            caller,
            self.settings.corpus,
            lambda _, connection: reading.corpora(connection),
            self.settings.limits.seconds,
        )

    async def answer(self, caller: Caller, corpus: str | None, question: str, arguments: dict[str, Any]) -> Answer:
        """Return an answer at once."""
        return await self.call(
            caller, corpus, lambda rag: rag.ask(question, **arguments), self.settings.limits.ask_seconds
        )

    def ask(
        self, caller: Caller, corpus: str | None, question: str, arguments: dict[str, Any]
    ) -> AsyncIterator[str | Answer]:
        """Yield an answer in pieces, then whole."""

        def work(rag: GraphRAG, connection: Connection) -> Iterator[str | Answer]:
            reading.check_corpora(connection, [rag.corpus])
            return answers.stream(rag, connection, question, arguments)

        return self.database.stream(caller, corpus or self.settings.corpus, work, self.settings.limits.ask_seconds)

    def require(self, caller: Caller, right: str) -> None:
        """Refuse what a caller has no right to."""
        if right not in caller.rights:
            raise Refusal(
                403, "42501", f"{caller.name} may not {right}", "The server's file of callers gives this right."
            )


def address_of(request: Request, settings: Settings) -> str:
    """Return this server's address as the caller has it: of `--origin` that of his host, else the first."""
    origins = [origin.rstrip("/") for origin in settings.origins]
    host = request.headers.get("host", "").lower()
    same = [origin for origin in origins if urlsplit(origin).netloc.lower() == host]
    return (same or origins or [f"{request.url.scheme}://{request.url.netloc}"])[0]


async def caller_of(request: Request) -> Caller:
    """Return who calls. The guard has let nobody else through."""
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
