"""What pg_monitor may watch holds no word of documents, questions, models and errors, whatever he puts into his statements."""

from collections.abc import Iterator

import psycopg
import pytest
from psycopg.conninfo import make_conninfo

from tests.runtime.cluster import Database
from tests.security.acting import new_role
from tests.sql.ingest import Connection, put, refused, rows, searched_corpus, work

WORD = "zanzibar"
WATCHED = (
    *("progress", "failed_jobs", "llm_usage", "llm_usage_by_role", "budgets", "query_stats", "metrics", "_health"),
    "health()",
)
# A function of the monitor's own, which the planner may ask before anything else, and which tells what it is asked about.
LEAK = """
CREATE FUNCTION pg_temp.leak(anyelement) RETURNS boolean LANGUAGE plpgsql COST 0.0000001 AS
 $$ BEGIN RAISE WARNING 'leak %', $1; RETURN true; END $$;
CREATE FUNCTION pg_temp.fail(text) RETURNS boolean LANGUAGE plpgsql COST 0.0000001 AS
 $$ BEGIN RETURN $1::int > 0; END $$;
"""
ERRORS = (
    f"ItemFault: the model's answer cannot be used\nDETAIL:  The model said: {WORD}",
    f'ProviderFault: provider "p": {WORD}\nHINT:  {WORD}',
    f'provider "p" gave no answer in 3 batches: {WORD}: {WORD}',
    f'UniqueViolation: duplicate key value violates unique constraint "k"\nDETAIL:  Key (name)=({WORD}) already exists.',
    f'StringDataRightTruncation: value too long: "{WORD}"',
)


@pytest.fixture(scope="module")
def watched(module_db: Database) -> Database:
    """A corpus whose every text says the word, with a job failed by each kind of error."""
    corpus = searched_corpus(module_db, query_log=True)
    for number in range(len(ERRORS) + 2):
        put(module_db, corpus, f"{WORD} {number}", f"Ada {WORD.title()} wrote of {WORD} {number}.", title=WORD)
    work(module_db)
    module_db.execute("SELECT graphrag.search(%s, %s, 'bm25')", [WORD, corpus])
    module_db.execute("SELECT graphrag.log_query(%s, %s, 'search', 'bm25', 1.0, 1, 1, 1, '{}')", [WORD, corpus])
    module_db.execute("UPDATE graphrag.documents SET content = content || ' Again.'")
    ids = [number for (number,) in rows(module_db, "SELECT id FROM graphrag.jobs WHERE document_id IS NOT NULL")]
    for place, number in enumerate(ids):
        state = ("failed", "pending")[place >= len(ERRORS)]
        module_db.execute(
            "UPDATE graphrag.jobs SET state = %s, last_error = %s, next_attempt_at = now() + interval '1 hour',"
            " payload = jsonb_build_object('raw', %s::text) WHERE id = %s",
            [state, ERRORS[place % len(ERRORS)], WORD, number],
        )
    module_db.execute(
        "INSERT INTO graphrag.providers (name, kind, base_url) VALUES ('p', 'openai', 'http://127.0.0.1:1/' || %s)",
        [WORD],
    )
    module_db.execute(
        "INSERT INTO graphrag.provider_state (provider, failures, openings, last_error, open_until)"
        " VALUES ('p', 5, 1, %s, now() + interval '1 hour')",
        [f'provider "p": {WORD}'],
    )
    return module_db


@pytest.fixture
def monitor(watched: Database) -> Iterator[Connection]:
    with (
        new_role(watched, "LOGIN PASSWORD 'm' IN ROLE pg_monitor") as role,
        psycopg.connect(make_conninfo(watched.url, user=role, password="m"), autocommit=True) as session,
    ):
        session.execute(LEAK.encode())
        yield session


@pytest.mark.sample(3)
@pytest.mark.parametrize("relation", WATCHED)
def test_a_monitor_reads_no_word(watched: Database, monitor: Connection, relation: str) -> None:
    heard: list[str] = []
    monitor.add_notice_handler(lambda notice: heard.append(str(notice.message_primary)))
    shown = rows(monitor, f"SELECT * FROM graphrag.{relation}")
    described = monitor.execute(f"SELECT * FROM graphrag.{relation} LIMIT 0".encode()).description
    for column in described or ():
        for condition in (f"pg_temp.leak(x.{column.name})", f"pg_temp.leak(x.{column.name}::text || '')"):
            for clause in (
                "WHERE {}",
                "ORDER BY {}",
                "JOIN generate_series(1, 2) g ON {}",
                "WHERE EXISTS (SELECT WHERE {})",
            ):
                sql = f"SELECT count(*) FROM (SELECT * FROM graphrag.{relation} x {clause.format(condition)}) y"
                monitor.execute(sql.encode())
        # Errors and plans tell what they stumble over.
        for sql in (
            f"SELECT FROM graphrag.{relation} x WHERE pg_temp.fail(x.{column.name}::text)",
            f"EXPLAIN (ANALYZE, VERBOSE) SELECT FROM graphrag.{relation} x WHERE x.{column.name}::text ^@ 'z'",
        ):
            try:
                heard += [str(row) for row in monitor.execute(sql.encode()).fetchall()]
            except psycopg.Error as error:
                heard.append(str(error))
    text = f"{shown} {heard}".lower()
    assert WORD not in text
    # It would be heard, were it there.
    assert shown or relation in ("llm_usage", "llm_usage_by_role", "budgets", "query_stats")


def test_a_monitor_reads_nothing_else(watched: Database, monitor: Connection) -> None:
    closed = "documents chunks jobs providers provider_state query_log llm_calls corpora _workers"
    for relation in closed.split():
        assert refused(monitor, f"SELECT FROM graphrag.{relation}").sqlstate == "42501", relation
    for call in ("search('Ada')", "neighbors('Ada')", "wait_indexed()", "warm()", "check()", "retry_failed()"):
        assert refused(monitor, f"SELECT * FROM graphrag.{call}").sqlstate == "42501", call


def test_the_errors_of_others_have_a_kind_and_the_owner_reads_them_whole(
    watched: Database, monitor: Connection
) -> None:
    kinds = {error for (error,) in rows(monitor, "SELECT DISTINCT last_error FROM graphrag.failed_jobs")}
    assert kinds == {None, *(error.partition(":")[0] for error in ERRORS if " " not in error.partition(":")[0])}
    assert {key for (key,) in rows(monitor, "SELECT source_key FROM graphrag.failed_jobs")} == {None}
    assert all(WORD in error for (error,) in rows(watched, "SELECT last_error FROM graphrag.failed_jobs"))
