"""A large graph made by SQL, and statements that are stopped in the middle."""

import threading
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import psycopg

from tests.runtime.cluster import Database
from tests.sql.ingest import value

# Seconds from a cancel to the end of the statement: what is promised.
PROMISED = 0.6

# Names that are alike: a tenth of them differ by a letter, as typing errors do.
_ENTITIES = """
INSERT INTO graphrag.entities (corpus_id, key, name, type, mention_count, degree)
SELECT c.id, lower(n.name), n.name, 'NAME', 2, 5
  FROM graphrag.corpora c,
       (SELECT initcap(translate(md5((i / 2)::text), '0123456789', 'ghijklmnop'))
               || (ARRAY[' engine', ' engin'])[1 + i %% 2] AS name
          FROM generate_series(1, %s) i) n
 WHERE c.name = %s
"""
_RELATIONSHIPS = """
WITH e AS (SELECT e.id, row_number() OVER (ORDER BY e.id) AS n, count(*) OVER () AS total
             FROM graphrag.entities e JOIN graphrag.corpora c ON c.id = e.corpus_id WHERE c.name = %(corpus)s)
INSERT INTO graphrag.relationships
       (corpus_id, low_id, high_id, source_id, target_id, weight, keywords, description, mention_count)
SELECT DISTINCT ON (a.id, b.id) c.id, a.id, b.id, a.id, b.id, 1, '{}', 'they meet', 1
  FROM graphrag.corpora c, generate_series(1, %(degree)s) g, e a, e b
 WHERE c.name = %(corpus)s AND b.n = 1 + (a.n * 7919 + g * g * 104729) %% a.total AND a.id < b.id
"""


def compile_statements(db: Database) -> None:
    """Have statements compiled, as servers ship: LLVM takes its time, and hears no cancel."""
    value(db, "SELECT set_config('jit', 'on', false)")
    db.execute(f"ALTER DATABASE {db.info.dbname} SET jit = on".encode())


def large_graph(db: Database, corpus: str, entities: int, degree: int) -> None:
    """Make a corpus of so many entities, each related to about `degree` others."""
    db.execute("SELECT graphrag.create_corpus(%s, '{\"communities\": false}')", [corpus])
    db.execute(_ENTITIES.encode(), [entities, corpus])
    db.execute(_RELATIONSHIPS.encode(), {"corpus": corpus, "degree": 2 * degree})


def stopped(
    db: Database, sql: str, values: Sequence[Any] = (), after: float = 0.5, how: str = "pg_cancel_backend"
) -> float:
    """Stop a statement as `stopped_once` does, again where it took longer than promised; return the least time.

    What is late on a machine that is busy with other tests is not late three times.
    """
    least = float("inf")
    for _ in range(3):
        least = min(least, stopped_once(db, sql, values, after, how))
        if least <= PROMISED:
            break
    return least


def queued(pid: int) -> float:
    """Seconds in which a process of this machine was ready to run and had no processor; 0 of one that is not there."""
    try:
        return int(Path(f"/proc/{pid}/schedstat").read_text().split()[1]) / 1e9
    except OSError:
        return 0.0


def stopped_once(db: Database, sql: str, values: Sequence[Any], after: float, how: str) -> float:
    """Stop a statement, `after` seconds from its start, in a session of its own; return in how many seconds it ended.

    The session goes on to work, unless it was terminated. Fails where the statement ended before.
    """
    with psycopg.connect(db.url, autocommit=True) as session:
        number = session.info.backend_pid
        errors: list[BaseException] = []

        def run() -> None:
            try:
                session.execute(sql.encode(), values)
            except psycopg.Error as error:
                errors.append(error)

        if how == "statement_timeout":
            session.execute(f"SET statement_timeout = {round(1000 * after)}".encode())
        started = time.monotonic()
        thread = threading.Thread(target=run)
        thread.start()
        thread.join(after)
        if how != "statement_timeout":
            assert thread.is_alive(), "the statement is too quick to be stopped"
            delay, started = queued(number), time.monotonic()
            db.execute(f"SELECT {how}(%s)".encode(), [number])
            thread.join(60)
            seconds = time.monotonic() - started
        else:
            thread.join(after)
            delay = queued(number)
            thread.join(60)
            seconds = time.monotonic() - started - after
        # What others had the processor for, the session could not end in. One that was terminated says no more of it.
        seconds -= max(queued(number) - delay, 0.0)
        (error,) = errors
        assert isinstance(error, psycopg.Error)
        if how == "pg_terminate_backend":
            assert session.broken
        else:
            assert error.sqlstate == "57014", error
            session.execute("SET statement_timeout = 0")
            assert session.execute("SELECT count(*) FROM graphrag.search('engine')").fetchall() == [(0,)]
        return seconds
