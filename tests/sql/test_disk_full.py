"""A disk that is full: a worker stops after its first batch, says so, and goes on when there is room."""

from collections.abc import Iterator
from contextlib import contextmanager

import psycopg
import pytest

from tests.runtime.cluster import Database
from tests.sql.ingest import canonical, expected, jobs, long_text, new_corpus, put_all, rows, statuses, value, work

DOCUMENTS = {f"d{number}": f"Ada Lovelace met traveller {number} in Oslo." for number in range(8)}
# The server's own error where a file cannot grow, and how often it came: a sequence is not rolled back.
_FULL = """
CREATE SEQUENCE public.attempts;
CREATE FUNCTION public.fail_to_extend() RETURNS trigger LANGUAGE plpgsql SECURITY DEFINER AS $$
BEGIN
    PERFORM nextval('public.attempts');
    RAISE EXCEPTION 'could not extend file "base/5/16384": No space left on device'
        USING ERRCODE = 'disk_full', HINT = 'Check free disk space.';
END
$$;
CREATE TRIGGER full_disk BEFORE INSERT ON graphrag.{} FOR EACH STATEMENT EXECUTE FUNCTION public.fail_to_extend();
"""


@contextmanager
def full_disk(db: Database, table: str) -> Iterator[None]:
    """Let no row of a table be written meanwhile."""
    db.execute(_FULL.format(table).encode())
    yield
    db.execute(f"DROP TRIGGER full_disk ON graphrag.{table}".encode())


def attempts(db: Database) -> int:
    return int(value(db, "SELECT CASE WHEN is_called THEN last_value ELSE 0 END FROM public.attempts"))


@pytest.mark.parametrize("table", ["chunks", "entities"])
def test_a_batch_that_finds_no_room_is_made_once_and_put_off_and_the_run_ends(db: Database, table: str) -> None:
    corpus = new_corpus(db)
    put_all(db, corpus, DOCUMENTS)
    with full_disk(db, table):
        with pytest.raises(psycopg.errors.DiskFull, match="No space left"):
            work(db)
        assert attempts(db) == 1
        waiting = "SELECT DISTINCT state, attempts, errors, next_attempt_at > now() FROM graphrag.jobs"
        assert rows(db, waiting) == [("pending", 0, 0, True)]
        ((count, reason),) = rows(db, "SELECT waiting, waiting_for FROM graphrag.progress WHERE corpus = %s", corpus)
        assert (count, reason.partition(":")[0]) == (8, "DiskFull")
        issues = dict(rows(db, "SELECT subject, detail FROM graphrag.health()"))
        assert "8 jobs" in issues["disk"]
    db.execute("SELECT graphrag.retry_failed()")
    work(db)
    assert set(statuses(db, corpus).values()) == {"indexed"}
    assert "disk" not in dict(rows(db, "SELECT subject, detail FROM graphrag.health()"))
    whole = canonical(db, corpus)
    assert whole == expected(db, DOCUMENTS)


def test_a_job_of_a_corpus_that_finds_no_room_ends_the_run_too(db: Database) -> None:
    corpus = new_corpus(db, communities=True)
    put_all(db, corpus, {"long": long_text(20)})
    work(db, 1)
    assert {job[1] for job in jobs(db, corpus)} == {"communities"}
    with full_disk(db, "communities"):
        with pytest.raises(psycopg.errors.DiskFull):
            work(db)
        assert attempts(db) == 1
        assert rows(db, "SELECT state FROM graphrag.jobs WHERE kind = 'communities'") == [("pending",)]
    db.execute("SELECT graphrag.retry_failed()")
    work(db)
    assert jobs(db, corpus) == []
