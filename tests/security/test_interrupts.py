"""Cancel, timeout and terminate end a statement within what is promised, wherever Python is; the session goes on to work."""

from collections.abc import Callable, Iterator
from typing import Any

import psycopg
import psycopg.sql
import pytest
from psycopg.types.json import Jsonb

from tests.runtime.cluster import Database
from tests.security.interrupting import PROMISED, compile_statements, large_graph, stopped
from tests.sql.ingest import rows, value

pytestmark = pytest.mark.usefixtures("real_encoder")

HOWS = ["pg_cancel_backend", "statement_timeout", "pg_terminate_backend"]


@pytest.fixture(scope="module")
def large(module_db: Database) -> Database:
    compile_statements(module_db)
    module_db.execute("SELECT graphrag.create_corpus('default')")
    large_graph(module_db, "large", entities=20_000, degree=8)
    return module_db


@pytest.mark.sample(2)
@pytest.mark.parametrize("how", HOWS)
@pytest.mark.parametrize("call", ["graphrag.suggest_merges('large')", "graphrag.refresh_communities('large')"])
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


@pytest.fixture
def engine(large: Database) -> Iterator[None]:
    """New sessions embed documents as they do by default; those of other tests do it by numpy."""
    name = psycopg.sql.Identifier(large.info.dbname)
    large.execute(psycopg.sql.SQL("ALTER DATABASE {} SET graphrag.embedding_engine = 'auto'").format(name))
    yield
    large.execute(psycopg.sql.SQL("ALTER DATABASE {} RESET graphrag.embedding_engine").format(name))


@pytest.mark.sample(2)
@pytest.mark.usefixtures("engine")
@pytest.mark.parametrize("after", [0.1, 0.2, 0.3, 0.5, 1.0])
def test_the_engine_is_stopped_while_it_is_loaded_and_while_it_computes(large: Database, after: float) -> None:
    """By processor time: one call makes the kernels, and takes a fifth of what is promised on a machine of its own."""
    graph = {"entities": [{"name": f"The long name of the thing with number {number}"} for number in range(6000)]}
    spent = "CREATE FUNCTION pg_temp.spent() RETURNS float8 LANGUAGE plpython3u AS 'import time; return time.process_time()'"
    with psycopg.connect(large.url, autocommit=True) as session:
        session.execute(spent.encode())
        before = session.execute("SELECT pg_temp.spent()").fetchone()
        session.execute(f"SET statement_timeout = {round(1000 * after)}".encode())
        with pytest.raises(psycopg.errors.QueryCanceled):
            session.execute("SELECT graphrag.insert_graph('large', %s)", [Jsonb(graph)])
        session.execute("SET statement_timeout = 0")
        at_end = session.execute("SELECT pg_temp.spent()").fetchone()
    assert before
    assert at_end
    assert at_end[0] - before[0] <= after + PROMISED
    assert value(large, "SELECT count(*) FROM graphrag.curations") == 0


@pytest.mark.sample(2)
@pytest.mark.parametrize(
    ("sentence", "how"),
    [
        *(("Ann Lee and Bob Stone of Acme Rockets designed the Kestrel engine in Osaka. ", how) for how in HOWS),
        ("アクメ社は大阪で新しい小型ロケットエンジンを設計した。", "pg_cancel_backend"),
        ("张伟在北京大学研究人工智能和量子计算机的基础理论。", "pg_cancel_backend"),
    ],
)
def test_indexing_of_a_long_document_is_stopped_and_leaves_nothing(db: Database, sentence: str, how: str) -> None:
    compile_statements(db)
    db.execute("SELECT graphrag.create_corpus('default')")
    db.execute(
        "INSERT INTO graphrag.documents (source_key, content) VALUES ('long', repeat(%s, %s))",
        [sentence, 3_000_000 // len(sentence)],
    )
    for after in (0.7, 1.5):
        assert stopped(db, "CALL graphrag.process_jobs()", after=after, how=how) <= PROMISED
    assert rows(db, "SELECT count(*) FROM graphrag.chunks") == [(0,)]
    assert rows(db, "SELECT DISTINCT indexed_at FROM graphrag.documents") == [(None,)]


@pytest.mark.slow
def test_a_session_cancelled_at_any_moment_of_its_first_search_searches_as_a_new_one(large: Database) -> None:
    large.execute("SELECT graphrag.insert_graph('default', %s)", [Jsonb({"entities": [{"name": "Kestrel engine"}]})])
    search = b"SELECT name, score FROM graphrag.search_entities('the Kestrel engine')"
    expected = large.execute(search).fetchall()
    assert expected
    cancelled = completed = 0
    moment = 20.0
    # Later than when searches have ended, there is nothing to cancel.
    while completed < 2 and cancelled < 30:
        with psycopg.connect(large.url, autocommit=True) as session:
            session.execute(f"SET statement_timeout = {round(moment)}".encode())
            moment *= 1.25
            try:
                session.execute(search)
                completed += 1
            except psycopg.errors.QueryCanceled:
                session.execute("SET statement_timeout = 0")
                cancelled += 1
            assert session.execute(search).fetchall() == expected
    assert cancelled >= 3


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


# A conversion that takes longer than a look at the flag waits, then one that PL/Python takes for granted succeeds.
_WRITES = """
DO LANGUAGE plpython3u $$
from pg_graphrag.server.backend import watched
from pg_graphrag.server import database
lists = "[" + ",".join(["[]"] * 1_000_000) + "]"
with watched(plpy):
    while True:
        database(plpy).query("SELECT $2", ["jsonb", "int8"], [lists, 1])
$$
"""


@pytest.mark.sample(1)
@pytest.mark.parametrize("how", HOWS)
def test_a_cancel_while_arguments_of_a_statement_are_made_does_not_take_the_server_down(
    large: Database, how: str
) -> None:
    started = value(large, "SELECT pg_postmaster_start_time()::text || (SELECT oid FROM pg_database LIMIT 1)")
    for after in (0.5, 0.7, 0.9):
        assert stopped(large, _WRITES, after=after, how=how) <= PROMISED
    assert value(large, "SELECT pg_postmaster_start_time()::text || (SELECT oid FROM pg_database LIMIT 1)") == started


def _document(content: str = "Ann met Bob.", metadata: Any = None, entities: int = 1) -> dict[str, Any]:
    named = [{"name": f"Name {number}", "description": "somebody"} for number in range(entities)]
    chunk = {"start": 0, "end": len(content), "entities": named}
    return {"source_key": "a", "content": content, "metadata": metadata or {}, "chunks": [chunk]}


_MANY = 8_000_000
# What the functions that take JSON are given, a little under what they take: by what is large in it.
_JSON: dict[str, tuple[str, Callable[[], Any]]] = {
    "content": ("import_documents", lambda: [_document(content="Ann met Bob in Osaka. " * (_MANY // 22))]),
    "mentions": ("import_documents", lambda: [_document(entities=_MANY // 60)]),
    "metadata": (
        "import_documents",
        lambda: [_document(metadata={f"k{number}": number for number in range(_MANY // 18)})],
    ),
    "empty lists": ("import_documents", lambda: [[] for _ in range(_MANY // 4)]),
    "reports": (
        "import_communities",
        lambda: [
            {
                "number": number,
                "level": 0,
                "entities": [],
                "report": {"title": "t", "summary": "s", "content": "x" * 5000},
            }
            for number in range(_MANY // 5100)
        ],
    ),
    "a graph": (
        "insert_graph",
        lambda: {"entities": [{"name": f"N{n}", "description": "y" * 30_000} for n in range(_MANY // 30_050)]},
    ),
}


@pytest.mark.sample(2)
@pytest.mark.parametrize("what", _JSON)
def test_functions_that_take_much_json_are_stopped_at_any_moment(large: Database, what: str) -> None:
    function, made = _JSON[what]
    large.execute("CREATE TABLE IF NOT EXISTS given (what text PRIMARY KEY, json jsonb)")
    large.execute("INSERT INTO given VALUES (%s, %s)", [what, Jsonb(made())])
    call = f"SELECT graphrag.{function}('default', g.json) FROM given g WHERE g.what = '{what}'"
    late = {}
    # Half of the moments lie early, where one step follows another.
    for moment in (0.1, 0.2, 0.3, 0.5, 0.8):
        try:
            seconds = stopped(large, call, after=moment)
        except AssertionError as error:
            assert "too quick" in str(error)
            break
        if seconds > PROMISED:
            late[moment] = seconds
    # What was too quick at the last moment is there.
    large.execute("DELETE FROM graphrag.documents")
    large.execute("DELETE FROM graphrag.imported_communities")
    assert late == {}


@pytest.mark.parametrize("function", ["import_documents", "import_communities", "insert_graph"])
def test_more_json_than_one_argument_may_hold_is_refused(large: Database, function: str) -> None:
    large.execute("CREATE TABLE IF NOT EXISTS given (what text PRIMARY KEY, json jsonb)")
    large.execute("INSERT INTO given VALUES ('too much', %s) ON CONFLICT DO NOTHING", [Jsonb(["x" * 999_998] * 17)])
    with pytest.raises(psycopg.errors.ProgramLimitExceeded, match="17,0") as raised:
        large.execute(f"SELECT graphrag.{function}('default', g.json) FROM given g WHERE g.what = 'too much'".encode())
    assert "parts" in str(raised.value.diag.message_hint)


def test_no_function_in_python_has_its_statements_compiled(large: Database) -> None:
    """LLVM takes a second for a large statement, and hears no cancel. A procedure that commits cannot set it; workers do."""
    compiled = rows(
        large,
        "SELECT p.oid::regprocedure::text FROM pg_proc p JOIN pg_language l ON l.oid = p.prolang"
        " WHERE l.lanname = 'plpython3u' AND p.pronamespace = 'graphrag'::regnamespace AND p.prokind = 'f'"
        "   AND NOT coalesce(p.proconfig, '{}') @> '{jit=off}'",
    )
    assert compiled == []
