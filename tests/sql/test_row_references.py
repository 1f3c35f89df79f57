"""A session caches where rows lead and what they say: whatever changes of documents, attachments, rights or role, it answers as a
new one."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import psycopg
import pytest

from tests.runtime.cluster import Cluster, Database
from tests.sql.rows import attach_works, index

QUESTIONS = ("Which models did Maker Aort make?", "Maker Bort and M-12", "QX-30 or Big Bertha")
SEARCH = "SELECT to_jsonb(s)::text FROM graphrag.search(%s, mode => %s, top_k => 20) s"
CONTEXT = "SELECT graphrag.context(%s, mode => %s, max_tokens => 2000)::text"
MAKER = '"with_rows": ["makers/'
# Each changes where rows lead or what they say, and is seen before a worker has looked at it.
CHANGES = {
    "what a row says": "UPDATE works.machines SET nick = 'Bertha the Second' WHERE nick = 'Big Bertha'",
    "a name": "UPDATE works.makers SET name = 'Maker Zwort' WHERE id = 1",
    "a title alone": "UPDATE graphrag.documents SET title = 'Maker Zwort' WHERE source_key = 'makers/1'",
    "a title that is another's": "UPDATE graphrag.documents SET title = 'Maker Bort' WHERE source_key = 'makers/1'",
    "metadata alone": 'UPDATE graphrag.documents SET metadata = metadata || \'{"made by": "makers/9"}\''
    " WHERE source_key = 'models/1'",
    "a row": "UPDATE works.models SET maker = 9 WHERE id = 1",
    "a row that is led to": "DELETE FROM works.makers WHERE id = 1",
    "its key": "UPDATE works.makers SET id = 99 WHERE id = 1",
    "a document that takes its key": "DELETE FROM works.makers WHERE id = 1;"
    " INSERT INTO graphrag.documents (source_key, content) VALUES ('makers/1', 'Maker Aort is a document.')",
    "all rows": "TRUNCATE works.makers",
    "the attachment": "SELECT graphrag.detach_table('works.makers', 'default')",
}


@pytest.fixture(scope="module")
def works(module_db: Database) -> Database:
    attach_works(module_db)
    module_db.execute(
        "CREATE ROLE maker_reader; GRANT graphrag_reader TO maker_reader; GRANT USAGE ON SCHEMA works TO maker_reader;"
        " GRANT SELECT ON works.models, works.machines TO maker_reader; GRANT SELECT ON works.makers TO maker_reader"
    )
    return module_db


def answers(session: psycopg.Connection[Any]) -> list[str]:
    calls = [*((SEARCH, mode) for mode in ("hybrid", "ppr", "lazy")), *((CONTEXT, mode) for mode in ("hybrid", "path"))]
    return [str(session.execute(sql, [question, mode]).fetchall()) for sql, mode in calls for question in QUESTIONS]


def new_answers(session: psycopg.Connection[Any]) -> list[str]:
    """What a session answers that caches nothing, in the same transaction."""
    session.execute("SET graphrag.session_memory = '0'")
    try:
        return answers(session)
    finally:
        session.execute("RESET graphrag.session_memory")


@contextmanager
def warm(db: Database) -> Iterator[tuple[psycopg.Connection[Any], list[str]]]:
    """A session that has cached where rows lead, and what it answered."""
    with psycopg.connect(db.url, autocommit=True) as session:
        answers(session)
        before = answers(session)
        assert before == new_answers(session)
        session.execute("""
            DO LANGUAGE plpython3u $$
            from pg_graphrag.server.caches.session_cache import cache
            assert {
                "references of rows", "rows", "documents of rows", "names of rows", "nodes of rows", "titles of rows"
            } <= cache.sizes().keys()
            $$
        """)
        yield session, before


@pytest.mark.sample(2)
@pytest.mark.parametrize("change", CHANGES)
def test_a_change_that_no_worker_has_seen_is_in_the_next_answer(works: Database, change: str) -> None:
    with warm(works) as (session, before):
        session.execute("BEGIN")
        assert answers(session) == before
        session.execute(CHANGES[change].encode())
        changed = answers(session)
        assert changed != before
        assert changed == new_answers(session)
        session.execute("ROLLBACK")
        assert answers(session) == before


def test_changes_of_one_transaction_are_told_apart(works: Database) -> None:
    change = (
        'UPDATE graphrag.documents SET metadata = metadata || \'{{"made by": "makers/{}"}}\''
        " WHERE source_key = 'models/1'"
    )
    with warm(works) as (session, before):
        session.execute("BEGIN")
        session.execute(change.format(9).encode())
        ninth = answers(session)
        session.execute(change.format(2).encode())
        second = answers(session)
        assert second == new_answers(session)
        session.execute("SAVEPOINT one")
        session.execute(change.format(9).encode())
        assert answers(session) == ninth
        session.execute("ROLLBACK TO one")
        assert answers(session) == second
        session.execute("SAVEPOINT one")
        session.execute(change.format(1).encode())
        # As before, but that the row waits for a worker.
        first = answers(session)
        assert first == new_answers(session) and first not in (second, ninth)
        session.execute("ROLLBACK")
        assert answers(session) == before
        assert len({str(found) for found in (before, ninth, second)}) == 3


@pytest.mark.slow
def test_a_prepared_transaction_is_seen_when_it_is_committed(cluster: Callable[..., Cluster]) -> None:
    """The session itself made the change: what it cached then is none of what it reads afterwards, until it is again."""
    own = cluster({"max_prepared_transactions": "2"})
    url = own.create_database("prepared")
    with Database.open(url) as db:
        db.execute("CREATE EXTENSION pg_graphrag CASCADE")
        attach_works(db)
        with warm(db) as (session, before):
            for end in ("ROLLBACK", "COMMIT"):
                session.execute("BEGIN")
                session.execute(CHANGES["metadata alone"].encode())
                changed = answers(session)
                assert changed == new_answers(session) != before
                session.execute("PREPARE TRANSACTION 'one'")
                assert answers(session) == before
                session.execute(f"{end} PREPARED 'one'".encode())
                after = answers(session)
                assert after == new_answers(session) == (before if end == "ROLLBACK" else changed)


@pytest.mark.slow
def test_another_session_sees_a_change_when_it_is_committed(works: Database) -> None:
    with warm(works) as (session, before), psycopg.connect(works.url) as writer:
        writer.execute("UPDATE works.models SET maker = 9 WHERE id = 1")
        assert answers(session) == before
        session.execute("BEGIN ISOLATION LEVEL REPEATABLE READ")
        assert answers(session) == before
        writer.commit()
        assert answers(session) == before
        session.execute("COMMIT")
        try:
            assert answers(session) != before
            assert answers(session) == new_answers(session)
        finally:
            writer.execute("UPDATE works.models SET maker = 1 WHERE id = 1")
            writer.commit()
            index(works)


@pytest.mark.slow
def test_more_changes_than_a_session_looks_at_are_seen(works: Database) -> None:
    with warm(works) as (session, before):
        session.execute("BEGIN")
        for _ in range(70):
            session.execute("UPDATE graphrag.documents SET metadata = metadata WHERE source_key = 'models/2'")
        assert answers(session) == before
        session.execute(CHANGES["metadata alone"].encode())
        assert answers(session) == new_answers(session) != before
        session.execute("ROLLBACK")


def test_what_one_role_read_another_does_not_see(works: Database) -> None:
    with warm(works) as (session, before):
        session.execute("SET ROLE maker_reader")
        allowed = answers(session)
        assert any("with_rows" in answer for answer in allowed)
        session.execute("RESET ROLE; REVOKE SELECT ON works.makers FROM maker_reader; SET ROLE maker_reader")
        try:
            hidden = answers(session)
            assert not any(text in answer for text in (MAKER, '"source_key": "makers/') for answer in hidden)
            assert hidden == new_answers(session)
        finally:
            session.execute("RESET ROLE; GRANT SELECT ON works.makers TO maker_reader")
        assert answers(session) == before
        session.execute("SET ROLE maker_reader")
        assert answers(session) == allowed


def test_an_answer_is_the_same_where_a_session_drops_what_it_knows(works: Database) -> None:
    with warm(works) as (session, before):
        session.execute(
            "DO LANGUAGE plpython3u 'from pg_graphrag.search.graph_view import chunk_concept_graph as chunk_concepts;"
            " from pg_graphrag.search.contexts import row_tables;"
            " from pg_graphrag.search.graph_view import row_references, topology_graph;"
            " row_references.MAX_CACHED = 5; row_tables.MAX_CACHED = 2; row_tables.MAX_CACHED_ENTITIES = 2;"
            " topology_graph.MAX_CACHED_ROWS = 3; topology_graph.MAX_TITLES = 5; chunk_concepts.MAX_NODES = 5'"
        )
        assert answers(session) == before
        assert answers(session) == before
