"""graphrag.schedule_worker: pg_cron runs workers, or the error says what to do."""

from collections.abc import Callable

import psycopg
import pytest

from tests.runtime.cluster import Cluster, Database
from tests.sql.ingest import STORIES, put_all, refused, rows, statuses, value, wait_for


def test_without_pg_cron_the_error_says_where_to_install_it_and_what_to_run(module_db: Database) -> None:
    diag = refused(module_db, "SELECT graphrag.schedule_worker('10 seconds')")
    assert diag.sqlstate == "42704"
    assert "pg_cron" in str(diag.message_primary)
    assert "postgres" in str(diag.message_hint)  # where it lives
    assert "process_jobs" in str(diag.message_hint)


@pytest.mark.parametrize("every", ["0 seconds", "61 seconds", "1.5 seconds", "2 hours", "-5 seconds", "1 month", None])
def test_an_interval_that_cron_cannot_keep_is_an_error(module_db: Database, every: str | None) -> None:
    diag = refused(module_db, "SELECT graphrag.schedule_worker(%s::interval)", every)
    assert diag.sqlstate == "22023"
    assert diag.message_hint


@pytest.mark.parametrize("workers", [-1, 65, None])
def test_a_bad_number_of_workers_is_an_error(module_db: Database, workers: int | None) -> None:
    diag = refused(module_db, "SELECT graphrag.schedule_worker('10 seconds', %s)", workers)
    assert (diag.sqlstate, bool(diag.message_hint)) == ("22023", True)


def test_pg_cron_indexes_what_is_inserted_until_it_is_told_to_stop(cluster: Callable[..., Cluster]) -> None:
    own_cluster = cluster()
    with psycopg.connect(own_cluster.url("postgres"), autocommit=True) as db:
        db.execute("CREATE EXTENSION pg_graphrag CASCADE")
        diag = refused(db, "SELECT graphrag.schedule_worker('10 seconds')")
        assert diag.message_hint == "Run CREATE EXTENSION pg_cron, then this again."
        db.execute("CREATE EXTENSION pg_cron")
        jobs = "SELECT schedule, command, database FROM cron.job ORDER BY jobid"
        for every, schedule in (("5 minutes", "*/5 * * * *"), ("1 hour", "0 * * * *"), ("1 second", "1 seconds")):
            assert value(db, "SELECT graphrag.schedule_worker(%s::interval, 2)", every) == 2
            assert rows(db, jobs) == [(schedule, "CALL graphrag.process_jobs()", "postgres")] * 2
        put_all(db, "default", STORIES)
        wait_for(lambda: set(statuses(db, "default").values()) == {"indexed"}, "the scheduled workers")
        assert value(db, "SELECT graphrag.schedule_worker('1 second', 0)") == 0
        assert rows(db, jobs) == []
        # Of a database that is dropped, and of one that is there.
        db.execute("CREATE DATABASE gone")
        for name in ("gone", "template1"):
            db.execute(
                "SELECT cron.schedule_in_database('pg_graphrag ' || %s, '0 * * * *', 'SELECT 1', %s)", [name, name]
            )
        db.execute("DROP DATABASE gone")
        assert value(db, "SELECT graphrag.schedule_worker('1 second', 0)") == 0
        assert rows(db, jobs) == [("0 * * * *", "SELECT 1", "template1")]
        db.execute("SELECT cron.unschedule(jobid) FROM cron.job")
        db.execute("SELECT graphrag.schedule_worker('1 hour', 2)")
        db.execute("SELECT graphrag.uninstall()")
        assert rows(db, jobs) == [], "uninstall() tells it too"
