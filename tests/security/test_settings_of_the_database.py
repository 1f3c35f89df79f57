"""The owner of the database, who need not be a superuser, sets settings for every session: what they get is the same."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import psycopg
import pytest
from pg_graphrag.beside.cli import main
from psycopg.conninfo import make_conninfo

from tests.runtime.cluster import Database
from tests.sql.ingest import STORIES, long_text, new_corpus, put, put_all, refused, rows, search, statuses, value, work

# What they say of texts, values and names, and of plans.
SETTINGS = (
    "quote_all_identifiers = on",
    "bytea_output = 'escape'",
    "extra_float_digits = -15",
    "datestyle = 'SQL, DMY'",
    "intervalstyle = 'iso_8601'",
    "timezone = 'Asia/Kathmandu'",
    "xmlbinary = 'hex'",
    "transform_null_equals = on",
    "array_nulls = off",
    "backslash_quote = off",
    "standard_conforming_strings = off",
    "default_transaction_isolation = 'repeatable read'",
    "default_tablespace = 'nowhere'",
    "temp_tablespaces = 'nowhere'",
    "default_text_search_config = 'pg_catalog.german'",
    "gin_fuzzy_search_limit = 1",
    "search_path = 'pg_temp, public, pg_catalog'",
    "plan_cache_mode = 'force_generic_plan'",
    "enable_hashjoin = off",
    "enable_sort = off",
    "join_collapse_limit = 1",
    "geqo_threshold = 2",
    "work_mem = '64kB'",
)


@pytest.fixture
def usual(module_db: Database) -> str:
    corpus = new_corpus(module_db)
    put_all(module_db, corpus, STORIES)
    work(module_db)
    return corpus


@pytest.fixture
def unusual(module_db: Database) -> Iterator[Any]:
    """A session of the database with all these settings."""
    name = value(module_db, "SELECT quote_ident(current_database())")
    try:
        for setting in SETTINGS:
            module_db.execute(f"ALTER DATABASE {name} SET {setting}".encode())
        with psycopg.connect(module_db.url, autocommit=True) as connection:
            yield connection
    finally:
        module_db.execute(f"ALTER DATABASE {name} RESET ALL".encode())


def test_workers_write_the_same(module_db: Database, usual: str, unusual: Any) -> None:
    corpus = new_corpus(unusual)
    put_all(unusual, corpus, STORIES)
    work(unusual)
    assert set(statuses(unusual, corpus).values()) == {"indexed"}
    assert rows(unusual, "SELECT * FROM graphrag.check(%s)", corpus) == []
    expected = value(module_db, "SELECT graphrag.fingerprint(%s)", usual)
    assert value(unusual, "SELECT graphrag.fingerprint(%s)", corpus) == expected
    assert value(module_db, "SELECT graphrag.fingerprint(%s)", corpus) == expected


@pytest.mark.sample(1)
@pytest.mark.parametrize("mode", ["bm25", "hybrid", "local", "path"])
def test_readers_find_the_same(module_db: Database, usual: str, unusual: Any, mode: str) -> None:
    unusual.execute("SET extra_float_digits = 1")  # by it the server writes what it sends
    question = "Who met Charles Babbage in London?"
    assert search(unusual, question, usual, mode) == search(module_db, question, usual, mode)


@contextmanager
def setting_of_the_database(db: Database, setting: str) -> Iterator[Any]:
    """A session of the database with a setting that its other sessions are not to have."""
    name = value(db, "SELECT quote_ident(current_database())")
    try:
        db.execute(f"ALTER DATABASE {name} SET {setting}".encode())
        with psycopg.connect(db.url, autocommit=True) as connection:
            yield connection
    finally:
        db.execute(f"ALTER DATABASE {name} RESET ALL".encode())


@pytest.mark.sample(1)
@pytest.mark.parametrize(
    "setting",
    ["exit_on_error = on", "restrict_nonsystem_relation_kind = 'view'", "session_replication_role = 'replica'"],
)
def test_workers_go_on_where_sessions_end_at_errors_views_are_hidden_or_triggers_rest(
    module_db: Database, usual: str, setting: str
) -> None:
    corpus = new_corpus(module_db)
    put_all(module_db, corpus, STORIES)
    with setting_of_the_database(module_db, setting) as connection:
        show = f"SHOW {setting.split()[0]}"
        before = value(connection, show)
        work(connection)
        assert value(connection, show) == before
    assert set(statuses(module_db, corpus).values()) == {"indexed"}
    assert rows(module_db, "SELECT * FROM graphrag.check(%s)", corpus) == []
    expected = value(module_db, "SELECT graphrag.fingerprint(%s)", usual)
    assert value(module_db, "SELECT graphrag.fingerprint(%s)", corpus) == expected


_NOTE_TIMEOUTS = """
CREATE TABLE public.timeouts (transactions text, locks text);
CREATE FUNCTION public.note_timeouts() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    INSERT INTO public.timeouts SELECT current_setting('transaction_timeout'), current_setting('lock_timeout');
    RETURN NULL;
END
$$;
CREATE TRIGGER note_timeouts AFTER INSERT ON graphrag.chunks EXECUTE FUNCTION public.note_timeouts();
"""


@pytest.mark.parametrize("is_of_session", [False, True])
def test_timeouts_of_the_database_do_not_hold_for_workers_and_those_of_the_session_do(
    db: Database, is_of_session: bool
) -> None:
    put_all(db, new_corpus(db), STORIES)
    db.execute(_NOTE_TIMEOUTS)
    with setting_of_the_database(db, "transaction_timeout = '1h'") as connection:
        connection.execute("SET lock_timeout = 0")
        if is_of_session:
            connection.execute("SET lock_timeout = '2h'; SET transaction_timeout = '2h'")
        work(connection)
        assert set(rows(db, "TABLE public.timeouts")) == {("2h", "2h") if is_of_session else ("0", "0")}
        # Afterwards all is as before, the source too.
        timeouts = "SELECT source, setting FROM pg_settings WHERE name IN ('lock_timeout', 'transaction_timeout') ORDER BY name"
        milliseconds = str(2 * 3600 * 1000)
        assert rows(connection, timeouts) == (
            [("session", milliseconds)] * 2 if is_of_session else [("session", "0"), ("database", "3600000")]
        )


def test_statement_timeout_of_the_database_does_not_end_the_command(module_db: Database) -> None:
    corpus = new_corpus(module_db)
    put(module_db, corpus, "long", long_text(90))
    with setting_of_the_database(module_db, "statement_timeout = '300ms'"):
        assert main(["worker", "--once", "--url", module_db.url]) == 0
    assert statuses(module_db, corpus) == {"long": "indexed"}


def test_read_uncommitted_is_what_it_is(db: Database) -> None:
    corpus = new_corpus(db)
    put_all(db, corpus, STORIES)
    with setting_of_the_database(db, "default_transaction_isolation = 'read uncommitted'") as connection:
        work(connection)
        connection.execute("SELECT graphrag.repair()")
        connection.execute("SELECT graphrag.forget(%s, 'ada')", [corpus])
        work(connection)
    assert "ada" not in statuses(db, corpus)


def test_health_names_a_database_that_refuses_writes(db: Database) -> None:
    health = "SELECT severity, subject, detail FROM graphrag.health()"
    with setting_of_the_database(db, "default_transaction_read_only = on") as connection:
        ((severity, subject, detail),) = rows(connection, health)
        assert refused(connection, "INSERT INTO graphrag.documents (content) VALUES ('x')").sqlstate == "25006"
        assert refused(connection, "CALL graphrag.process_jobs()").sqlstate == "25006"
    assert (severity, subject, "(database)" in detail) == ("error", "default_transaction_read_only", True)
    with db.transaction(force_rollback=True):
        db.execute("SET LOCAL default_transaction_read_only = on")
        assert rows(db, health) == [], "of a session"


def test_health_names_a_database_whose_locale_knows_ascii_alone(module_db: Database) -> None:
    health = "SELECT detail, hint FROM graphrag.health() WHERE subject = 'LC_CTYPE'"
    assert rows(module_db, health) == []
    words = "SELECT array_agg(lexeme) FROM unnest(to_tsvector('simple', 'Der „Ölpreis“ fällt.')) ORDER BY 1"
    assert value(module_db, words) == ["der", "fällt", "ölpreis"]
    module_db.execute("CREATE DATABASE of_ascii TEMPLATE template0 LC_CTYPE 'C'")
    try:
        with psycopg.connect(make_conninfo(module_db.url, dbname="of_ascii"), autocommit=True) as ascii_alone:
            ascii_alone.execute("CREATE EXTENSION pg_graphrag CASCADE")
            assert value(ascii_alone, words) != ["der", "fällt", "ölpreis"]
            ((detail, hint),) = rows(ascii_alone, health)
    finally:
        module_db.execute("DROP DATABASE of_ascii")
    assert detail.startswith("of this database is C:")
    assert "C.UTF-8" in hint
