"""Calls of a process beside a plain database: with asyncio, one after another, from many connections; what it remembers."""

import asyncio
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import psycopg
import pytest
from pg_graphrag import AsyncGraphRAG, GraphRAG
from pg_graphrag.beside.client import Document
from pg_graphrag.ground.errors import GraphRAGError

from tests.endpoint import Endpoint
from tests.endpoint.server import Messages
from tests.runtime.cluster import Cluster, Database, Server
from tests.runtime.link import Link
from tests.sql.two_hosts import (
    MODES,
    OPEN,
    QUESTION,
    Hosts,
    close,
    outcome,
    plain_database,
    plain_values,
    reply,
    role_of_both,
    same,
)

REPLY = reply


def test_a_call_within_a_transaction_of_its_caller_is_refused(plain: str, hosts: Hosts) -> None:
    with psycopg.connect(plain) as connection:
        connection.execute("SELECT 1")
        assert outcome(lambda: GraphRAG(connection, "stories").search("Enigma"))[1] == "25001"
    with psycopg.connect(plain, autocommit=True) as connection, connection.transaction():
        assert outcome(lambda: GraphRAG(connection, "stories").search("Enigma"))[1] == "25001"
    with psycopg.connect(plain, autocommit=True) as connection, connection.pipeline():
        with pytest.raises(GraphRAGError, match="pipeline") as error:
            GraphRAG(connection, "stories").search("Enigma")
        assert error.value.sqlstate == "0A000"


def test_asyncio_gets_the_same_and_keeps_going(plain: str, hosts: Hosts) -> None:
    async def ask_all() -> Any:
        async with (
            AsyncGraphRAG(plain, "stories") as rag,
            await psycopg.AsyncConnection.connect(plain, autocommit=True) as connection,
        ):
            other = AsyncGraphRAG(connection, "stories")
            ticks = 0

            async def tick() -> None:
                nonlocal ticks
                while True:
                    await asyncio.sleep(0.001)
                    ticks += 1

            ticking = asyncio.create_task(tick())
            rows = await asyncio.gather(
                *(client.search(QUESTION, mode=mode) for mode in MODES for client in (rag, other))
            )
            context = await rag.context(QUESTION)
            pieces = [piece async for piece in other.ask_stream(QUESTION)]
            answer = await rag.ask(QUESTION)
            ticking.cancel()
            with pytest.raises(psycopg.errors.InvalidParameterValue):
                await rag.search("x", mode="nonsense")
            return rows, context, pieces, answer.answer, ticks

    # Who asks first is told that a model read the question, the others that the cache knows it.
    hosts[1].rag.understand(QUESTION)
    rows, context, pieces, answer, ticks = asyncio.run(ask_all())
    expected = [hosts[1].rag.search(QUESTION, mode=mode) for mode in MODES]
    assert close(plain_values(rows[::2]), plain_values(expected)) and close(
        plain_values(rows[1::2]), plain_values(expected)
    )
    assert close(context, hosts[1].rag.context(QUESTION))
    assert "".join(pieces) == answer and ticks > 20


def test_a_task_that_is_cancelled_ends_its_call_and_leaves_the_connection_usable(
    plain: str, hosts: Hosts, module_endpoint: Endpoint
) -> None:
    async def cancel() -> Any:
        async with await psycopg.AsyncConnection.connect(plain, autocommit=True) as connection:
            rag = AsyncGraphRAG(connection, "stories")
            asking = asyncio.create_task(rag.ask("What is asked nowhere else?", mode="naive"))
            await asyncio.sleep(0.5)
            asking.cancel()
            start = time.monotonic()
            with pytest.raises(asyncio.CancelledError):
                await asking
            cancelled.set()
            return time.monotonic() - start, await rag.search(QUESTION)

    cancelled = threading.Event()

    def slowly(messages: Messages) -> str:
        cancelled.wait(10)
        return REPLY(messages)

    module_endpoint.reply(slowly)
    try:
        seconds, rows = asyncio.run(cancel())
    finally:
        module_endpoint.reply(REPLY)
    assert seconds < 5 and rows


def test_notices_reach_the_handlers_of_an_asyncio_connection(plain: str, hosts: Hosts) -> None:
    async def search() -> list[str]:
        async with await psycopg.AsyncConnection.connect(plain, autocommit=True) as connection:
            messages: list[str] = []
            connection.add_notice_handler(lambda notice: messages.append(notice.message_primary or ""))
            await AsyncGraphRAG(connection, "stories").search(QUESTION)
            await connection.execute("DO $$ BEGIN RAISE WARNING 'heard'; END $$")
            return messages

    assert "heard" in asyncio.run(search())


def test_other_calls_have_their_turns_between_the_pieces_of_a_stream(hosts: Hosts, plain: str) -> None:
    with GraphRAG(plain, "stories") as other:
        pieces = hosts[1].rag.ask_stream(QUESTION, mode="naive")
        first = next(pieces)
        with ThreadPoolExecutor(1) as pool:
            assert pool.submit(other.search, QUESTION).result(30)
        assert (first + "".join(pieces)) == hosts[1].rag.ask(QUESTION, mode="naive").answer


@pytest.mark.parametrize(("mode", "most"), [("hybrid", 13), ("naive", 12), ("bm25", 12), ("local", 12)])
def test_a_search_of_a_warm_process_takes_few_round_trips(hosts: Hosts, plain: str, mode: str, most: int) -> None:
    with Link(plain) as link, GraphRAG(link.url, "stories") as rag:
        # What is planned and remembered at first; psycopg prepares a statement of a kind it has seen.
        for _ in range(3):
            rag.search(QUESTION, mode=mode)
        before = link.round_trips
        assert rag.search(QUESTION, mode=mode)
        assert link.round_trips - before <= most


def test_connections_of_a_process_share_what_it_remembers_and_no_rights(
    hosts: Hosts, plain: str, module_db: Database
) -> None:
    expected = hosts[1].rag.search(QUESTION)
    with role_of_both(module_db, plain, "IN ROLE graphrag_reader") as reader:
        hosts[1].rows("SELECT graphrag.protect('stories', %s)", OPEN)
        try:
            for _ in range(2):
                # The connection that filled the memory is gone when the next one asks, which is another role's.
                with GraphRAG(plain, "stories") as owner:
                    assert close(plain_values(owner.search(QUESTION)), plain_values(expected))
                with hosts[1].as_role(reader) as restricted:
                    keys = {row.source_key for row in restricted.search(QUESTION, top_k=100)}
                    shown = {key for (key,) in hosts[1].rows(f"SELECT source_key FROM graphrag.documents WHERE {OPEN}")}
                    assert keys and keys <= shown
                with GraphRAG(plain, "stories") as owner, ThreadPoolExecutor(8) as pool:
                    clients = [GraphRAG(plain, "stories") for _ in range(8)]
                    rows = list(pool.map(lambda rag: rag.search(QUESTION), clients * 3))
                    assert all(close(plain_values(result), plain_values(expected)) for result in rows)
                    for client in clients:
                        client.close()
                hosts[1].rag.insert(Document("A late document of Ada Lovelace.", "late"))
                hosts[1].rag.process_jobs()
                hosts[1].rag.delete("late")
                hosts[1].rag.process_jobs()
        finally:
            hosts[1].rows("SELECT graphrag.unprotect('stories')")


def test_a_process_keeps_two_databases_apart(shared_cluster: Cluster | Server, hosts: Hosts) -> None:
    with plain_database(shared_cluster) as url, GraphRAG(url, "stories") as other:
        # With the number that the corpus of the first has.
        assert [(other.create_corpus(),)] == hosts[1].rows("SELECT id FROM graphrag.corpora WHERE name = 'stories'")
        other.insert(Document("Enigma is a puzzle of another database.", "puzzle"))
        other.process_jobs()
        for _ in range(3):
            assert [row.source_key for row in other.search("Enigma")] == ["puzzle"]
            assert same(hosts, lambda rag: rag.search("Enigma"))
