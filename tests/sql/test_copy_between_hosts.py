"""`pg-graphrag copy` moves everything from the extension to a database without it, and back."""

from collections.abc import Iterator
from typing import Any

import psycopg
import pytest
from pg_graphrag import GraphRAG
from pg_graphrag.beside import cli
from pg_graphrag.beside.process import copying
from pg_graphrag.ground.errors import GraphRAGError

from tests.endpoint import Endpoint
from tests.runtime.cluster import Cluster, Database, Server
from tests.security.acting import new_role
from tests.sql.ingest import STORIES
from tests.sql.themes import SEA
from tests.sql.two_hosts import OWNER, close, plain_database, reply

REPLY = reply
QUESTION = "What did Ada Lovelace write, and who broke Enigma?"
CORPORA = ("stories", "packed")


@pytest.fixture
def source(db: Database, endpoint: Endpoint) -> Iterator[GraphRAG]:
    """A database with the extension: reports by a model, curations, packed and deleted documents, one that waits, protection."""
    with GraphRAG(db.url, "stories") as rag, GraphRAG(db.url, "packed") as packed:
        rag.call("set_provider", name="stand-in", kind="openai", base_url=endpoint.url)
        model = {"provider": "stand-in", "model": "m"}
        rag.create_corpus(communities={"max_cluster_size": 5}, llm=model, query_log=True, cypher=True)
        rag.insert({"source_key": key, "content": text, "metadata": {"key": key}} for key, text in STORIES.items())
        rag.process_jobs()
        rag.call("merge_entities", entities=["Enigma machine"], target="Enigma")
        rag.ask(QUESTION)
        packed.create_corpus(communities=False)
        packed.insert({"source_key": key, "content": text} for key, text in SEA.items())
        packed.process_jobs()
        db.execute("SELECT graphrag.optimize('packed')")
        # As an index of vectors has it.
        db.execute(
            "SELECT graphrag._make_tables(s.id)"
            "  FROM graphrag.embedding_spaces s JOIN graphrag.corpora c ON c.id = s.corpus_id AND c.name = 'packed'"
        )
        packed.delete(next(iter(SEA)))
        packed.process_jobs()
        packed.insert({"source_key": "late", "content": "Captain Nemo waits."})
        db.execute("SELECT graphrag.protect('stories', $$metadata ->> 'key' = 'ada'$$)")
        yield rag


def state(url: str) -> Any:
    """What a database makes of its corpora, without ids of its own."""
    result = []
    for corpus in CORPORA:
        with GraphRAG(url, corpus) as rag:
            rows = rag.call("fingerprint_sections"), rag.call("check")
            searches = [
                rag.search(QUESTION, mode=mode) for mode in ("hybrid", "bm25", "naive", "graph_local", "graph_global")
            ]
            result.append((rows, [[vars_of(row) for row in rows] for rows in searches], rag.progress().documents))
    return result


def without_graphs(states: Any) -> Any:
    """Without the sections of Apache AGE's graph, which is not there beside a database."""
    return [
        (([row for row in sections if not row["section"].startswith("graph: ")], violations), *rest)
        for (sections, violations), *rest in states
    ]


def vars_of(row: Any) -> Any:
    return row.source_key, row.content, row.score, row.explain


def accounts(url: str) -> Any:
    with psycopg.connect(url) as connection:
        return [
            connection.execute(f"SELECT count(*) FROM graphrag.{table}".encode()).fetchone()
            for table in ("llm_cache", "llm_calls", "query_log", "curations", "community_reports", "providers")
        ]


def test_to_the_other_host_and_back_everything_is_the_same(
    source: GraphRAG, db: Database, empty_db: Database, shared_cluster: Cluster | Server
) -> None:
    before = state(db.url)
    with plain_database(shared_cluster) as beside, new_role(db, "IN ROLE graphrag_reader") as reader:
        assert cli.main(["copy", "--url", beside, db.url]) == 0
        assert close(without_graphs(state(beside)), without_graphs(before))
        assert accounts(beside) == accounts(db.url)
        db.execute(f"GRANT {reader} TO {OWNER}".encode())
        try:
            with psycopg.connect(beside, autocommit=True) as connection:
                connection.execute(f"SET ROLE {reader}".encode())
                keys = "SELECT source_key FROM graphrag.documents WHERE corpus = 'stories'"
                assert connection.execute(keys).fetchall() == [("ada",)]
                assert {row.source_key for row in GraphRAG(connection, "stories").search(QUESTION)} == {"ada"}
        finally:
            db.execute(f"REVOKE {reader} FROM {OWNER}".encode())

        empty_db.execute("CREATE EXTENSION pg_graphrag CASCADE")
        assert cli.main(["copy", "--url", empty_db.url, beside]) == 0
        assert close(state(empty_db.url), before)
        triggers = """
            SELECT tgname, tgenabled::text FROM pg_trigger
             WHERE tgrelid::regclass::text ^@ 'graphrag.' AND NOT tgisinternal ORDER BY 1"""
        assert empty_db.execute(triggers).fetchall() == db.execute(triggers).fetchall()
        names = """
            SELECT graphrag.cypher('packed', 'MATCH (e:Entity) RETURN e.name AS name') ->> 'name' AS name ORDER BY 1"""
        assert empty_db.execute(names).fetchall() == db.execute(names).fetchall() != []

        # What waits is done on each, and makes the same.
        later = []
        for url in (db.url, beside, empty_db.url):
            with GraphRAG(url, "packed") as rag:
                rag.process_jobs()
                later.append((rag.call("fingerprint_sections"), rag.call("check"), rag.progress().indexed))
        assert later[0] == later[2]
        assert without_graphs([(row[:2], row[2]) for row in later[:1]]) == without_graphs(
            [(row[:2], row[2]) for row in later[1:2]]
        )


@pytest.mark.slow
def test_a_database_that_has_corpora_or_no_schema_is_no_target(
    source: GraphRAG, db: Database, shared_cluster: Cluster | Server
) -> None:
    with psycopg.connect(db.url) as reading, psycopg.connect(db.url) as writing:
        with pytest.raises(GraphRAGError, match='has corpora already, such as "stories"') as refusal:
            copying.copy(reading, writing)
        assert refusal.value.sqlstate == "55000" and refusal.value.hint
    with (
        plain_database(shared_cluster, schema_too=False) as url,
        psycopg.connect(db.url) as reading,
        psycopg.connect(url) as writing,
    ):
        with pytest.raises(GraphRAGError, match="neither extension nor schema") as refusal:
            copying.copy(reading, writing)
        assert refusal.value.sqlstate == "58P01"


def test_who_may_not_read_everything_copies_nothing(
    source: GraphRAG, db: Database, shared_cluster: Cluster | Server
) -> None:
    with (
        plain_database(shared_cluster) as url,
        new_role(db, "IN ROLE graphrag_reader") as reader,
        psycopg.connect(db.url, autocommit=True) as reading,
        psycopg.connect(url, autocommit=True) as writing,
    ):
        reading.execute(f"SET ROLE {reader}".encode())
        with pytest.raises(psycopg.errors.InsufficientPrivilege):
            copying.copy(reading, writing)
        assert writing.execute("SELECT count(*) FROM graphrag.corpora").fetchone() == (0,)
        disabled = "SELECT count(*) FROM pg_trigger WHERE tgrelid = 'graphrag.documents'::regclass AND tgenabled = 'D'"
        assert writing.execute(disabled).fetchone() == (0,)
