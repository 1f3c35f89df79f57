"""Cancel, timeout and terminate end a statement within what is promised, wherever Python is; the session goes on to work."""

from __future__ import annotations

import psycopg
import pytest
from psycopg.types.json import Jsonb

from tests.runtime.cluster import Database
from tests.security.interrupting import PROMISED, large_graph, stopped
from tests.sql.ingest import rows, value

HOWS = ["pg_cancel_backend", "statement_timeout", "pg_terminate_backend"]


@pytest.fixture(scope="module")
def large(module_db: Database) -> Database:
    module_db.execute("SELECT graphrag.create_corpus('default')")
    large_graph(module_db, "large", entities=20_000, degree=8)
    return module_db


@pytest.mark.parametrize("how", HOWS)
@pytest.mark.parametrize(
    "call",
    ["graphrag.suggest_merges('large')", "graphrag.refresh_communities('large')"],
)
def test_work_on_a_large_graph_is_stopped(large: Database, call: str, how: str) -> None:
    for after in (0.4, 0.8):
        assert stopped(large, f"SELECT count(*) FROM {call}", after=after, how=how) <= PROMISED
    assert value(large, "SELECT count(*) FROM graphrag.communities") == 0


@pytest.mark.parametrize("how", HOWS)
def test_embedding_of_many_names_is_stopped_and_nothing_is_half_written(large: Database, how: str) -> None:
    graph = {"entities": [{"name": f"The long name of the thing with number {number}"} for number in range(3000)]}
    before = rows(large, "SELECT count(*) FROM graphrag.entities")
    assert stopped(large, "SELECT graphrag.insert_graph('large', %s)", [Jsonb(graph)], after=1.0, how=how) <= PROMISED
    assert rows(large, "SELECT count(*) FROM graphrag.entities") == before
    assert value(large, "SELECT count(*) FROM graphrag.curations") == 0


@pytest.mark.parametrize("how", HOWS)
@pytest.mark.parametrize(
    "sentence",
    [
        "Ann Lee and Bob Stone of Acme Rockets designed the Kestrel engine in Osaka. ",
        "アクメ社は大阪で新しい小型ロケットエンジンを設計した。",
        "张伟在北京大学研究人工智能和量子计算机的基础理论。",
    ],
)
def test_indexing_of_a_long_document_is_stopped_and_leaves_nothing(db: Database, sentence: str, how: str) -> None:
    db.execute("SELECT graphrag.create_corpus('default')")
    db.execute(
        "INSERT INTO graphrag.documents (source_key, content) VALUES ('long', repeat(%s, %s))",
        [sentence, 3_000_000 // len(sentence)],
    )
    for after in (0.7, 1.5):
        assert stopped(db, "CALL graphrag.process_jobs()", after=after, how=how) <= PROMISED
    assert rows(db, "SELECT count(*) FROM graphrag.chunks") == [(0,)]
    assert rows(db, "SELECT DISTINCT indexed_at FROM graphrag.documents") == [(None,)]


def test_a_session_cancelled_at_any_moment_of_its_first_search_searches_as_a_new_one(large: Database) -> None:
    large.execute("SELECT graphrag.insert_graph('default', %s)", [Jsonb({"entities": [{"name": "Kestrel engine"}]})])
    search = b"SELECT name, score FROM graphrag.search_entities('the Kestrel engine')"
    expected = large.execute(search).fetchall()
    assert expected
    for moment in range(1, 30):
        with psycopg.connect(large.url, autocommit=True) as session:
            session.execute(f"SET statement_timeout = {20 * moment}".encode())
            try:
                session.execute(search)
            except psycopg.errors.QueryCanceled:
                session.execute("SET statement_timeout = 0")
            assert session.execute(search).fetchall() == expected


def test_the_user_who_catches_a_cancel_finds_the_timer_off(large: Database) -> None:
    """A signal that comes when no call is under way would end the session: nobody has a handler for it but we."""
    with psycopg.connect(large.url, autocommit=True) as session:
        session.execute("SET statement_timeout = '300ms'")
        with pytest.raises(psycopg.errors.QueryCanceled):
            session.execute("SELECT graphrag.suggest_merges('large')")
        session.execute("RESET statement_timeout")
        timer = (
            "CREATE FUNCTION pg_temp.timer() RETURNS text LANGUAGE plpython3u AS"
            " 'import signal; return str(signal.getitimer(signal.ITIMER_VIRTUAL))'"
        )
        session.execute(timer.encode())
        assert session.execute("SELECT pg_temp.timer()").fetchall() == [("(0.0, 0.0)",)]
