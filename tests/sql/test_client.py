"""The Python client on a real server, blocking and on asyncio."""

import asyncio
import inspect
import json
import subprocess
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import fields
from datetime import UTC, date, datetime, timedelta, timezone
from decimal import Decimal
from typing import Any
from uuid import uuid4

import psycopg
import pytest
from pg_graphrag.beside.client import AsyncGraphRAG, Document, GraphRAG, InsertSummary, WaitResult
from pg_graphrag.ground.errors import GraphRAGError
from psycopg.types.json import set_json_dumps
from psycopg_pool import AsyncConnectionPool, ConnectionPool

from tests.runtime.cluster import Database
from tests.sql.ingest import wait_for_lock

# What a PNG begins with.
PNG = b"\x89PNG\r\n\x1a\n"
LETTERS = [
    Document(
        "Ada Lovelace wrote to Charles Babbage about the Analytical Engine.", "letter", "A letter", {"year": 1843}
    ),
    Document("Charles Babbage designed the Difference Engine in London.", "design", "A design", {"year": 1822}),
    Document("The Jacquard loom wove patterns from punched cards.", "loom", "A loom", {"year": 1804}),
]


@pytest.fixture
def client(db: Database) -> Iterator[GraphRAG]:
    with GraphRAG(db.url) as client:
        yield client


@pytest.fixture(scope="module")
def filled(module_db: Database) -> Iterator[GraphRAG]:
    """A client whose documents are indexed; for tests that only read."""
    with GraphRAG(module_db.url) as client:
        client.insert(LETTERS)
        client.process_jobs()
        yield client


def test_insert_says_what_is_new_changed_and_unchanged(db: Database, client: GraphRAG) -> None:
    assert client.insert(LETTERS) == InsertSummary(3, 0, 0)
    changed = [LETTERS[0], Document("New text.", "design"), Document("Another.", "other"), "A text alone."]
    assert client.insert(changed) == InsertSummary(2, 1, 1)
    assert client.insert({"content": "Another.", "source_key": "other", "metadata": {"k": 1}}) == InsertSummary(0, 1, 0)
    assert client.insert([]) == InsertSummary(0, 0, 0)
    rows = db.execute("SELECT source_key, content, metadata FROM graphrag.documents WHERE content ~ 'Another|New'")
    assert sorted(rows) == [("design", "New text.", {}), ("other", "Another.", {"k": 1})]


def test_unchanged_documents_queue_nothing_and_metadata_alone_is_not_indexed_anew(
    db: Database, client: GraphRAG
) -> None:
    client.insert(LETTERS)
    client.process_jobs()
    assert client.insert(LETTERS) == InsertSummary(0, 0, 3)
    assert client.insert(Document(LETTERS[0].content, "letter", "A letter", {"year": 1844})) == InsertSummary(0, 1, 0)
    assert db.execute("SELECT count(*) FROM graphrag.jobs WHERE kind = 'index'").fetchone() == (0,)
    assert client.progress().indexed == 3


def test_validity_and_odd_characters_are_kept(db: Database, client: GraphRAG) -> None:
    since, until = datetime(2026, 1, 1, tzinfo=UTC), datetime(2026, 2, 1, tzinfo=UTC)
    odd = 'quotes \' " back\\slash $$ {} {"a",NULL} \t\n 知識 😀 \u202e right to left'
    client.insert(Document(odd, odd, odd, {odd: [odd, None]}, since, until))
    row = db.execute(
        "SELECT source_key, title, content, metadata, valid_from, valid_to FROM graphrag.documents"
    ).fetchone()
    assert row == (odd, odd, odd, {odd: [odd, None]}, since, until)


def test_many_documents_are_one_transaction(db: Database, client: GraphRAG) -> None:
    def documents() -> Iterator[Document]:
        for number in range(1_200):
            yield Document(f"text {number}", str(number))
        raise RuntimeError("the source broke")

    with pytest.raises(RuntimeError):
        client.insert(documents())
    assert db.execute("SELECT count(*) FROM graphrag.documents").fetchone() == (0,)


def test_delete_takes_one_key_or_many(client: GraphRAG) -> None:
    client.insert(LETTERS)
    assert client.delete("loom") == 1
    assert client.delete(["letter", "design", "none"]) == 2
    assert client.progress().documents == 0


def test_search_finds_the_letter_first(filled: GraphRAG) -> None:
    for mode in ("naive", "bm25", "local", "global", "hybrid", "mix"):
        results = filled.search("Who wrote about the Analytical Engine?", mode=mode, top_k=2)
        assert 1 <= len(results) <= 2, mode
        first = results[0]
        assert (first.rank, first.source_key, first.title) == (1, "letter", "A letter"), mode
        assert "Analytical Engine" in first.content
        assert isinstance(first.score, float)
        assert first.explain


def test_search_takes_filter_keywords_and_options(filled: GraphRAG) -> None:
    assert {results.source_key for results in filled.search("Babbage", filter={"year": 1822})} == {"design"}
    assert filled.search("Babbage", top_k=0) == []
    given = filled.search(
        "?", mode="local", low_level_keywords=["Ada Lovelace"], high_level_keywords=["correspondence"]
    )
    assert given[0].source_key == "letter"
    assert filled.search("engine", mode="path", rrf_k=10)
    with pytest.raises(psycopg.Error) as error:
        filled.search("engine", no_such_option=1)
    assert error.value.sqlstate == "22023"
    assert error.value.diag.message_hint
    with pytest.raises(psycopg.Error) as error:
        filled.search("engine", mode="astral")
    assert error.value.sqlstate == "22023"
    assert "astral" in str(error.value)


def test_entities_relationships_neighbors_and_context(filled: GraphRAG) -> None:
    entity = filled.search_entities("Charles Babbage", top_k=1)[0]
    assert (entity.rank, entity.name) == (1, "Charles Babbage")
    assert entity.degree >= 1
    edges = filled.search_relationships("Who wrote to Charles Babbage?", top_k=5)
    assert any({edge.source, edge.target} == {"Ada Lovelace", "Charles Babbage"} for edge in edges)
    assert all(edge.weight >= 1 for edge in edges)
    names = {neighbor.name for neighbor in filled.neighbors("charles  BABBAGE")}
    assert "Ada Lovelace" in names
    assert all(neighbor.path[0] == "Charles Babbage" for neighbor in filled.neighbors("Charles Babbage", hops=2))
    context = filled.context("Who wrote to Charles Babbage?", max_tokens=500)
    assert "Ada Lovelace" in context["prompt"]
    assert context["tokens"] <= 500


def test_cypher_rows_are_dictionaries(filled: GraphRAG) -> None:
    query = "MATCH (e:Entity) WHERE e.name = $name RETURN e.name AS name, 1 AS one"
    assert filled.cypher(query, {"name": "Ada Lovelace"}) == [{"name": "Ada Lovelace", "one": 1}]


def test_results_have_the_columns_of_the_sql_functions(filled: GraphRAG, module_db: Database) -> None:
    """The statements name the columns; this proves that none is missing here."""
    calls = {
        "search('x', corpora => '{*}')": filled.search("engine", top_k=1),
        "search_entities('x')": filled.search_entities("Charles Babbage", top_k=1),
        "search_relationships('x')": filled.search_relationships("engine", top_k=1),
        "neighbors('x')": filled.neighbors("Charles Babbage"),
        "evaluate('x', '[]'::jsonb)": filled.evaluate([{"question": "The engine?", "evidence": ["letter"]}], k=[1]),
    }
    for call, results in calls.items():
        columns = [
            column.name for column in module_db.execute(f"SELECT * FROM graphrag.{call} LIMIT 0").description or []
        ]
        assert [field.name for field in fields(results[0])] == columns
    # Of one corpus the client knows it.
    assert filled.search("engine", top_k=1)[0].corpus == filled.corpus
    for view, result in (("progress", filled.progress()),):
        columns = [
            column.name for column in module_db.execute(f"SELECT * FROM graphrag.{view} LIMIT 0").description or []
        ]
        assert [field.name for field in fields(result)] == columns


@pytest.mark.parametrize(
    ("sql", "expected"),
    [
        ("infinity", datetime(9999, 12, 30, 23, 59, 59, 999999)),
        ("12026-01-01", datetime(9999, 12, 30, 23, 59, 59, 999999)),
        ("-infinity", datetime(1, 1, 2)),
        ("0044-03-15 BC", datetime(1, 1, 2)),
    ],
)
def test_times_that_python_has_not_are_its_last_or_first(
    db: Database, client: GraphRAG, sql: str, expected: datetime
) -> None:
    db.execute("INSERT INTO graphrag.documents (source_key, content, valid_from) VALUES ('x', 'x', %s)", [sql])
    moment = client.get("x")[0].valid_from
    assert moment == expected.replace(tzinfo=UTC)
    for hours in (-12, 14):
        assert moment.astimezone(timezone(timedelta(hours=hours))) == moment


def test_progress_of_what_waits_for_a_person_has_no_time(db: Database, client: GraphRAG) -> None:
    db.execute(
        "CREATE TABLE public.notes (id int PRIMARY KEY, title text, body text);"
        "SELECT graphrag.attach_table('public.notes', 'default', 'id', '{body}', 'title')"
    )
    client.process_jobs()
    # As a migration does.
    db.execute("ALTER TABLE public.notes DROP title; INSERT INTO public.notes VALUES (1, 'Ada Lovelace.')")
    progress = client.progress()
    assert progress.waiting and progress.waiting_until is None
    assert 'columns it no longer has: "title"' in str(progress.waiting_for)


@pytest.mark.parametrize(
    "bad", [datetime(2026, 1, 1), uuid4(), Decimal("1.5"), {1, 2}, b"x", float("nan"), {("a", "b"): 1}]
)
def test_what_is_no_json_is_refused(filled: GraphRAG, bad: Any) -> None:
    calls = (
        lambda: filled.search("loom", filter={"year": bad}),
        lambda: filled.insert({"source_key": "loom", "content": "x", "metadata": {"year": bad}}),
    )
    for call in calls:
        with pytest.raises(GraphRAGError, match="JSON") as error:
            call()
        assert error.value.sqlstate == "22023" and "isoformat" in str(error.value.hint)
        assert str(bad) == "nan" or isinstance(bad, dict) or repr(bad) in str(error.value)
    assert filled.get("loom") == [LETTERS[2]]


@pytest.mark.parametrize("is_for_all", [True, False])
def test_json_is_written_as_the_application_does(module_db: Database, filled: GraphRAG, is_for_all: bool) -> None:
    def write(value: Any) -> str:
        return json.dumps(value, default=date.isoformat)

    with psycopg.connect(module_db.url, autocommit=True) as connection:
        set_json_dumps(write, None if is_for_all else connection)
        try:
            client = GraphRAG(connection)
            client.insert({"source_key": "dated", "content": "x", "metadata": {"day": date(2026, 1, 2)}})
            assert [found.metadata for found in client.get("dated")] == [{"day": "2026-01-02"}]
            with pytest.raises(GraphRAGError, match="JSON") as error:
                client.search("loom", filter={"year": b"x"})
            assert error.value.sqlstate == "22023" and error.value.hint
        finally:
            set_json_dumps(json.dumps)
            filled.delete("dated")


def test_sources_of_another_kind_are_refused(filled: GraphRAG, module_db: Database) -> None:
    def refused(client: type[Any], source: Any) -> str:
        with pytest.raises(GraphRAGError, match="cannot be used") as error:
            client(source)
        assert error.value.hint
        return error.value.sqlstate

    async def use() -> None:
        async with await psycopg.AsyncConnection.connect(module_db.url) as connection:
            AsyncGraphRAG(connection)
            assert refused(GraphRAG, connection) == "0A000"
            pool = AsyncConnectionPool(module_db.url, open=False)
            AsyncGraphRAG(pool)
            assert refused(GraphRAG, pool) == "0A000"

    asyncio.run(use())
    with psycopg.connect(module_db.url) as connection, ConnectionPool(module_db.url, open=False) as pool:
        assert [refused(AsyncGraphRAG, source) for source in (connection, pool)] == ["0A000", "0A000"]
        assert refused(GraphRAG, connection.cursor()) == "22023"
    for other in (None, 5, "postgresql+psycopg://app@localhost/app", "mysql://localhost"):
        assert refused(GraphRAG, other) == "22023"
    for url in ("", "dbname=app", "options=-c%20x=a://b", "postgres://localhost", "postgresql://"):
        GraphRAG(url)


def test_a_handed_in_connection_keeps_everything_in_its_transaction(db: Database) -> None:
    with psycopg.connect(db.url) as connection:
        client = GraphRAG(connection)
        client.insert(LETTERS)
        assert client.progress().documents == 3
        connection.rollback()
        client.close()
        assert not connection.closed
        client.insert(LETTERS[0])
    assert db.execute("SELECT source_key FROM graphrag.documents").fetchall() == [("letter",)]


def test_process_jobs_inside_a_transaction_is_the_servers_error(db: Database) -> None:
    with psycopg.connect(db.url) as connection, pytest.raises(psycopg.Error) as error:
        connection.execute("SELECT 1")
        GraphRAG(connection).process_jobs()
    assert error.value.sqlstate == "2D000"


def test_a_connection_that_gives_bytes_for_texts_is_refused(filled: GraphRAG, module_db: Database) -> None:
    with psycopg.connect(module_db.url, client_encoding="SQL_ASCII") as connection:
        for call in (lambda: GraphRAG(connection).search("loom"), lambda: GraphRAG(connection).get("letter")):
            with pytest.raises(GraphRAGError, match="SQL_ASCII") as refused:
                call()
            assert refused.value.sqlstate == "22021"
    # Other encodings, adapters and kinds of rows of a caller's are no matter.
    with psycopg.connect(module_db.url, client_encoding="LATIN1", row_factory=psycopg.rows.dict_row) as connection:
        psycopg.types.json.set_json_loads(lambda text: text, connection)
        hit = GraphRAG(connection).search("Who wrote about the Analytical Engine?")[0]
        assert (hit.source_key, hit.explain["mode"]) == ("letter", "hybrid")


@pytest.mark.parametrize("autocommit", [True, False])
def test_calls_in_a_pipeline_have_their_replies(filled: GraphRAG, module_db: Database, autocommit: bool) -> None:
    new, nowhere = Document("Bob Stone.", "new"), "nowhere"
    with psycopg.connect(module_db.url, autocommit=autocommit) as connection, connection.pipeline():
        client = GraphRAG(connection)
        assert client.search("Who wrote about the Analytical Engine?")[0].source_key == "letter"
        assert client.insert([new, LETTERS[0]]) == InsertSummary(1, 0, 1)
        assert client.get("new") == [new]
        assert client.delete("new") == 1
        with pytest.raises(GraphRAGError, match="pipeline"):
            list(client.ask_stream("Who?"))
        if autocommit:
            client.process_jobs()
        with pytest.raises(psycopg.errors.UndefinedObject, match=nowhere):
            GraphRAG(connection, nowhere).search("Bob")
        connection.rollback()
        assert client.progress().documents == 3

    async def use() -> None:
        async with await psycopg.AsyncConnection.connect(module_db.url, autocommit=autocommit) as connection:
            client = AsyncGraphRAG(connection)
            async with connection.pipeline():
                results = await asyncio.gather(*(client.search(name) for name in ("Analytical Engine", "loom")))
                assert [hits[0].source_key for hits in results] == ["letter", "loom"]
                with pytest.raises(psycopg.errors.UndefinedObject, match=nowhere):
                    await AsyncGraphRAG(connection, nowhere).search("Bob")

    asyncio.run(use())


@pytest.mark.parametrize("factory", [psycopg.RawCursor, psycopg.ClientCursor])
def test_the_class_of_a_connections_cursors_is_its_owners(
    filled: GraphRAG, module_db: Database, factory: type[psycopg.Cursor[Any]]
) -> None:
    with psycopg.connect(module_db.url, cursor_factory=factory) as connection:
        assert GraphRAG(connection).search("Jacquard loom", filter={"year": 1804})[0].source_key == "loom"


class Pool:
    """A pool of one that behaves as `psycopg_pool.ConnectionPool`: it commits or rolls back what comes back."""

    def __init__(self, url: str):
        self.member = psycopg.connect(url)

    @contextmanager
    def connection(self) -> Iterator[psycopg.Connection[Any]]:
        try:
            yield self.member
        except BaseException:
            self.member.rollback()
            raise
        self.member.commit()


def test_a_pool_lends_a_connection_for_each_call_and_gets_it_back_as_it_was(db: Database) -> None:
    pool = Pool(db.url)
    client = GraphRAG(pool)
    client.insert(LETTERS)
    assert db.execute("SELECT count(*) FROM graphrag.documents").fetchone() == (3,)
    client.process_jobs()
    assert not pool.member.autocommit
    assert client.wait_until_indexed(timeout=1).indexed == 3
    pool.member.close()


def test_threads_share_a_client(client: GraphRAG) -> None:
    def write(number: int) -> int:
        client.insert([Document(f"text {number} {part}", f"{number}/{part}") for part in range(20)])
        return client.progress().documents

    with ThreadPoolExecutor(8) as threads:
        list(threads.map(write, range(16)))
    assert client.progress().documents == 320


def end_sessions(db: Database) -> None:
    """End the client's sessions, as a restart of the server does."""
    db.execute("SELECT pg_terminate_backend(pid, 60000) FROM pg_stat_activity WHERE application_name = 'pg_graphrag'")


def test_a_connection_that_the_server_ended_is_reopened_by_the_next_call(db: Database, client: GraphRAG) -> None:
    client.insert(LETTERS)
    end_sessions(db)
    assert client.progress().documents == 3


def test_a_connection_of_asyncio_that_the_server_ended_is_reopened_too(db: Database) -> None:
    async def twice() -> None:
        async with AsyncGraphRAG(db.url) as client:
            await client.insert(LETTERS)
            await asyncio.to_thread(end_sessions, db)
            assert (await client.progress()).documents == 3

    asyncio.run(twice())


def test_connections_of_a_pool_that_the_server_ended_are_passed_over(db: Database) -> None:
    settings = {"autocommit": True, "application_name": "pg_graphrag"}
    with ConnectionPool(db.url, min_size=3, max_size=3, kwargs=settings) as pool:
        pool.wait()
        client = GraphRAG(pool)
        client.insert(LETTERS)
        end_sessions(db)
        assert [client.progress().documents for _ in range(4)] == [3] * 4


def test_programs_that_write_the_same_keys_in_other_orders_wait_for_each_other(db: Database) -> None:
    db.execute("SELECT graphrag.create_corpus('default')")
    a, b = Document("Ada met Bob.", "a"), Document("Bob met Ada.", "b")
    with psycopg.connect(db.url) as first, psycopg.connect(db.url) as second, ThreadPoolExecutor(1) as thread:
        GraphRAG(first).insert(a)
        other = thread.submit(GraphRAG(second).insert, [b, a])
        wait_for_lock(db, second.info.backend_pid)
        GraphRAG(first).insert(b)
        first.commit()
        assert other.result() == InsertSummary(0, 0, 2)


def test_corpora_are_made_changed_and_dropped(db: Database) -> None:
    with GraphRAG(db.url, corpus="letters") as client:
        with pytest.raises(psycopg.errors.UndefinedObject, match="create_corpus"):
            client.insert(LETTERS)
        client.create_corpus(language="en")
        client.alter_corpus(language=None)
        client.insert(LETTERS)
        db.execute("SELECT graphrag.set_provider('far', 'openai', 'http://127.0.0.1:1/v1')")
        client.reembed("far", model="m", dimensions=64)
        embedding = db.execute("SELECT options -> 'embedding' FROM graphrag.corpora WHERE name = 'letters'").fetchone()
        assert embedding == ({"provider": "far", "model": "m", "dimensions": 64},)
        client.drop_corpus()
        with pytest.raises(GraphRAGError, match='corpus "letters" does not exist'):
            client.progress()


def test_waiting_ends_when_indexed_or_at_the_timeout(client: GraphRAG) -> None:
    client.insert(LETTERS)
    with pytest.raises(TimeoutError, match="3 documents are still pending"):
        client.wait_until_indexed(timeout=0.2)
    with ThreadPoolExecutor(1) as thread:
        waiting = thread.submit(client.wait_until_indexed, 60)
        client.process_jobs()
        assert waiting.result().indexed == 3


def test_failed_jobs_are_listed_and_retried(db: Database, client: GraphRAG) -> None:
    client.insert(LETTERS)
    db.execute("UPDATE graphrag.jobs SET state = 'failed', last_error = 'why', lease = NULL")
    (job, *_) = client.failed_jobs()
    assert (job.corpus, job.kind, job.source_key, job.last_error) == ("default", "index", "design", "why")
    assert client.retry_failed() == 3
    assert client.failed_jobs() == []
    client.process_jobs()
    assert client.progress().indexed == 3


def test_the_async_client_does_the_same(db: Database) -> None:
    async def use() -> None:
        async with AsyncGraphRAG(db.url) as client:
            assert await client.insert(LETTERS) == InsertSummary(3, 0, 0)
            await client.process_jobs()
            assert (await client.wait_until_indexed(timeout=5)).indexed == 3
            assert await client.wait_indexed(["letter", "loom"], timeout=5) == WaitResult(2, 0, 0)
            assert await client.health() == []
            assert "documents" in {metric.name for metric in await client.metrics()}
            results, entities, edges, near, context = await asyncio.gather(
                client.search("Who wrote about the Analytical Engine?"),
                client.search_entities("Charles Babbage"),
                client.search_relationships("Charles Babbage"),
                client.neighbors("Charles Babbage", filter={"year": {"$gte": 1800}}),
                client.context("Charles Babbage"),
            )
            assert results[0].source_key == "letter"
            assert entities[0].name == "Charles Babbage"
            assert edges
            assert near
            assert context["prompt"]
            (figures,) = await client.evaluate([{"question": "Loom?", "evidence": ["loom"]}], modes=["bm25"], k=[1])
            assert (figures.mode, figures.recall) == ("bm25", 1)
            assert await client.cypher("MATCH (d:Document) RETURN count(d) AS n") == [{"n": 3}]
            assert len(await client.to_networkx()) > 3
            assert await client.failed_jobs() == []
            assert await client.retry_failed() == 0
            assert await client.call("check") == []
            await client.feedback("Loom?", "good", evidence=["loom"])
            assert [question["evidence"] for question in await client.golden_questions()] == [["loom"]]
            await client.retract("loom", "Written by another.", retracted_at=datetime(2024, 5, 1, tzinfo=UTC))
            assert (await client.progress()).retracted == 1
            await client.undo_retraction("loom")
            await client.process_jobs()
            await client.clone_corpus("clone")
            await client.process_jobs()
            assert {row.difference for row in await client.compare_corpora("clone", modes=["bm25"], k=[1])} == {0}
            assert await client.set_pictures("loom", [{"content": PNG, "caption": "A loom."}]) == 1
            assert await client.delete("loom") == 1
            with pytest.raises(TimeoutError):
                await client.insert("one more")
                await client.wait_until_indexed(timeout=0.1)
        async with await psycopg.AsyncConnection.connect(db.url) as connection:
            client = AsyncGraphRAG(connection, corpus="other")
            await client.create_corpus()
            await client.alter_corpus(language="en")
            await client.reembed("local")
            await client.drop_corpus()
            await connection.rollback()

    # Nothing of the async client may be left untried here.
    calls = {name for name, member in vars(AsyncGraphRAG).items() if inspect.isfunction(member) and name[0] != "_"}
    tried = "".join(
        inspect.getsource(test)
        for test in (
            test_the_async_client_does_the_same,
            test_curations_are_made_undone_and_listed,
            test_reports_of_communities_are_found_and_listed,
            test_documents_are_got_by_their_keys_until_they_are_retracted,
        )
    )
    # What asks models, or says what that would cost, is tried in test_client_ask.py and test_estimate_ask.py.
    left = {"close", "ask", "ask_stream", "estimate_ask", "understand"}
    assert {name for name in calls if f"client.{name}(" not in tried} == left
    asyncio.run(use())


def test_curations_are_made_undone_and_listed(db: Database) -> None:
    async def use() -> None:
        async with AsyncGraphRAG(db.url) as client:
            await client.insert(LETTERS)
            await client.process_jobs()
            await client.create_entity("Inventor")
            first = await client.merge_entities(["Charles Babbage"], "Inventor")
            await client.create_entity("Mill", type="part", description="A part of the engine.")
            await client.create_relationship("Mill", "Inventor", keywords=["designed"], weight=2)
            assert (await client.neighbors("Mill"))[0].name == "Inventor"
            await client.edit_relationship("Mill", "Inventor", description="He designed it.")
            await client.edit_entity("Mill", type="device")
            await client.rename_entity("Mill", "The Mill")
            await client.delete_relationship("The Mill", "Inventor")
            await client.delete_entity("The Mill")
            await client.insert_graph({"entities": [{"name": "Store", "type": "part"}]})
            await client.undo_curation(first)
            curations = await client.curations()
            kinds = "create_entity merge_entities create_entity create_relationship edit_relationship edit_entity"
            kinds += " rename_entity delete_relationship delete_entity insert_graph"
            assert [item.kind for item in curations] == kinds.split()
            assert [item.kind for item in curations if item.undone_at is not None] == ["merge_entities"]
            assert (await client.search_entities("Charles Babbage", top_k=1))[0].name == "Charles Babbage"
            assert await client.suggest_merges(5) == []

    asyncio.run(use())


def test_reports_of_communities_are_found_and_listed(db: Database) -> None:
    async def use() -> None:
        async with AsyncGraphRAG(db.url) as client:
            await client.insert(LETTERS)
            await client.process_jobs()
            await client.refresh_communities()
            await client.process_jobs()
            communities = await client.communities(level=0)
            assert communities and communities[0].title
            report = (await client.search_reports("Babbage", top_k=1))[0]
            assert report.community_id in {item.community_id for item in await client.communities()}

    asyncio.run(use())


def test_documents_are_got_by_their_keys_until_they_are_retracted(db: Database) -> None:
    async def use() -> None:
        async with AsyncGraphRAG(db.url) as client:
            await client.insert(LETTERS)
            assert await client.get(["loom", "nobody", "letter"]) == [LETTERS[2], LETTERS[0]]
            await client.retract("design", "wrong")
            assert await client.get("design") == []

    asyncio.run(use())


def test_results_are_lists_that_a_notebook_shows_as_tables(client: GraphRAG) -> None:
    client.insert(LETTERS)
    client.process_jobs()
    hits = client.search("<b>punched cards</b>", top_k=2)
    assert isinstance(hits, list) and hits == list(hits)
    html = hits._repr_html_()
    assert "<th>source_key</th>" in html and "explain" not in html
    frame = hits.to_pandas()
    assert next(iter(frame["source_key"])) == "loom" and frame["explain"][0] == hits[0].explain
    assert client.search("", top_k=2).to_pandas().empty
    assert "no rows" in client.search("", top_k=2)._repr_html_()


def test_pandas_is_not_imported_before_it_is_asked_for() -> None:
    code = "import sys, pg_graphrag.beside.client; print({'pandas', 'numpy', 'IPython'} & set(sys.modules))"
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True).stdout == "set()\n"


def test_waiting_shows_how_far_it_is(client: GraphRAG, capsys: pytest.CaptureFixture[str]) -> None:
    client.insert(LETTERS)
    with pytest.raises(TimeoutError):
        client.wait_until_indexed(0, show_progress=True)
    client.process_jobs()
    assert client.wait_until_indexed(show_progress=True).indexed == 3
    assert capsys.readouterr().err.splitlines() == ["0 of 3 documents are indexed", "3 of 3 documents are indexed"]


def test_a_database_without_the_extension_says_what_makes_it(empty_db: Database) -> None:
    with GraphRAG(empty_db.url) as rag, pytest.raises(psycopg.errors.InvalidSchemaName, match="CREATE EXTENSION"):
        rag.search("Who?")

    async def search() -> None:
        async with AsyncGraphRAG(empty_db.url) as rag:
            await rag.search("Who?")

    with pytest.raises(psycopg.errors.InvalidSchemaName, match="pg-graphrag install"):
        asyncio.run(search())
