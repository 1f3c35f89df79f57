"""The owner of the database, who need not be a superuser, sets settings for every session: what they get is the same."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import psycopg
import pytest

from tests.runtime.cluster import Database
from tests.sql.ingest import STORIES, new_corpus, put_all, rows, search, statuses, value, work

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


@pytest.mark.parametrize("mode", ["bm25", "hybrid", "local", "path"])
def test_readers_find_the_same(module_db: Database, usual: str, unusual: Any, mode: str) -> None:
    unusual.execute("SET extra_float_digits = 1")  # by it the server writes what it sends
    question = "Who met Charles Babbage in London?"
    assert search(unusual, question, usual, mode) == search(module_db, question, usual, mode)
