"""An update that is stopped in its midst, and sessions that read and write meanwhile."""

from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import psycopg

from tests.sql.ingest import Background, rows, wait_for, wait_for_lock

# Stops an update at the first view that it replaces, while somebody has the advisory lock.
_PAUSE = """
CREATE FUNCTION public.pause() RETURNS event_trigger LANGUAGE plpgsql AS 'BEGIN PERFORM pg_advisory_xact_lock(1); END';
CREATE EVENT TRIGGER pause ON ddl_command_start WHEN TAG IN ('CREATE VIEW') EXECUTE FUNCTION public.pause();
SELECT pg_advisory_lock(1);
"""
_PAUSED = """
SELECT pid FROM pg_locks
 WHERE locktype = 'advisory' AND NOT granted AND database = (SELECT oid FROM pg_database WHERE datname = current_database())
"""
_NOT_LOCKED = """
SELECT c.oid::regclass::text
  FROM pg_class c
  JOIN pg_namespace n ON n.oid = c.relnamespace
 WHERE n.nspname IN ('graphrag', 'graphrag_attached') AND c.relkind IN ('r', 'p', 'v')
   AND NOT EXISTS (SELECT FROM pg_locks l
                    WHERE l.pid = %s AND l.relation = c.oid AND l.granted AND l.mode = 'AccessExclusiveLock')
 ORDER BY 1
"""


READERS = ("SELECT FROM graphrag.progress", "SELECT FROM graphrag.graph_edges")


def update_under_others(
    url: str, superuser_url: str, update: Callable[[], Any], statements: Sequence[str] = READERS
) -> tuple[list[str], list[psycopg.Error | None]]:
    """Run an update, and statements in its midst.

    Returns the tables and views that it had not locked when it came to its first view, and the errors of the statements.
    Raises what the update raises.
    """
    with ThreadPoolExecutor() as pool, psycopg.connect(superuser_url, autocommit=True) as holder:
        holder.execute(_PAUSE.encode())
        updating = pool.submit(update)
        ((pid,),) = wait_for(lambda: rows(holder, _PAUSED), "the first view of the update")
        not_locked = [name for (name,) in rows(holder, _NOT_LOCKED, pid)]
        others = [Background(url, statement) for statement in statements]
        for other in others:
            wait_for_lock(holder, other.pid)
        holder.execute("SELECT pg_advisory_unlock(1)")
        updating.result(120)
        errors = [other.finish() for other in others]
        holder.execute("DROP EVENT TRIGGER pause; DROP FUNCTION public.pause()")
    return not_locked, errors
