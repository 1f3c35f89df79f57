"""Documents follow an attached partitioned table, whichever of its tables is written, attached or detached."""

import time

import pytest

from tests.runtime.cluster import Database
from tests.sql.attach import attach, backfill, backfill_by_workers, documents, session, states, unfollowed
from tests.sql.rows import own_by_owner

# Two levels: articles, of which one partition has partitions.
TABLES = (
    "CREATE TABLE articles (id int PRIMARY KEY, body text) PARTITION BY RANGE (id);"
    "CREATE TABLE low PARTITION OF articles FOR VALUES FROM (0) TO (10);"
    "CREATE TABLE high (body text, id int NOT NULL) PARTITION BY RANGE (id);"
    "ALTER TABLE articles ATTACH PARTITION high FOR VALUES FROM (10) TO (100);"
    "CREATE TABLE tens PARTITION OF high FOR VALUES FROM (10) TO (20)"
)


def partitioned(app: Database) -> None:
    app.execute(TABLES.encode())
    attach(app)
    app.execute("INSERT INTO articles VALUES (1, 'one'), (11, 'eleven')")
    backfill(app)


def triggers(db: Database, table: str) -> int:
    ((count,),) = db.execute(
        "SELECT count(*) FROM pg_trigger WHERE tgrelid = %s::regclass AND tgname LIKE 'graphrag%%'", [table]
    ).fetchall()
    return int(count)


@pytest.mark.sample(4)
@pytest.mark.parametrize(
    ("statement", "expected"),
    [
        ("INSERT INTO low VALUES (2, 'two')", {"1": "one", "2": "two", "11": "eleven"}),
        ("INSERT INTO high VALUES ('twelve', 12)", {"1": "one", "11": "eleven", "12": "twelve"}),
        ("INSERT INTO tens (id, body) VALUES (12, 'twelve')", {"1": "one", "11": "eleven", "12": "twelve"}),
        ("UPDATE tens SET body = 'ELEVEN'", {"1": "one", "11": "ELEVEN"}),
        ("UPDATE tens SET id = 13", {"1": "one", "13": "eleven"}),
        ("DELETE FROM high", {"1": "one"}),
        ("DELETE FROM low", {"11": "eleven"}),
        ("TRUNCATE low", {"11": "eleven"}),
        ("TRUNCATE high", {"1": "one"}),
        ("TRUNCATE ONLY tens", {"1": "one"}),
        ("TRUNCATE articles", {}),
        (
            "MERGE INTO low USING (VALUES (1), (3)) v (n) ON id = n"
            " WHEN MATCHED THEN DELETE WHEN NOT MATCHED THEN INSERT VALUES (n, 'three')",
            {"3": "three", "11": "eleven"},
        ),
        (
            "WITH moved AS (DELETE FROM low RETURNING id + 18 AS id, body) INSERT INTO tens SELECT body, id FROM moved",
            {"11": "eleven", "19": "one"},
        ),
    ],
)
def test_what_is_written_to_a_partition_is_followed(
    db: Database, app: Database, statement: str, expected: dict[str, str]
) -> None:
    partitioned(app)
    app.execute(statement.encode())
    assert (documents(db), states(db)) == (expected, {"app.articles": "current"})


def test_a_copy_into_a_partition_is_followed(db: Database, app: Database) -> None:
    partitioned(app)
    with app.cursor() as cursor, cursor.copy("COPY low FROM STDIN") as copy:
        copy.write_row((5, "five"))
    assert documents(db) == {"1": "one", "5": "five", "11": "eleven"}


def test_a_partition_is_truncated_beside_a_large_one_in_no_time(db: Database, app: Database) -> None:
    """Also with the plan that a session keeps after five: document by key, 20,000 rows took four seconds."""
    app.execute(TABLES.replace("TO (100)", "TO (30000)").replace("TO (20)", "TO (30000)").encode())
    attach(app)
    app.execute("INSERT INTO articles SELECT n, 'text ' || n FROM generate_series(9, 20009) n")
    app.execute("SET plan_cache_mode = force_generic_plan")
    start = time.monotonic()
    app.execute("TRUNCATE low")
    assert time.monotonic() - start < 1.5
    assert "9" not in documents(db) and len(documents(db)) == 20_000


def test_two_sessions_truncate_two_partitions_at_once(db: Database, app: Database) -> None:
    """Each has locked its own, and what reads the table looks at both."""
    partitioned(app)
    with session(db) as other:
        for connection, table in ((app, "low"), (other, "tens")):
            connection.execute(f"BEGIN; SET LOCAL lock_timeout = '5s'; LOCK TABLE {table}".encode())
        for connection, table in ((app, "low"), (other, "tens")):
            connection.execute(f"TRUNCATE {table}".encode())
        other.execute("COMMIT")
        app.execute("COMMIT")
    assert states(db) == {"app.articles": "waiting"}
    backfill(app)
    assert (documents(db), states(db)) == ({}, {"app.articles": "current"})


@pytest.mark.parametrize("statement", ["INSERT INTO low VALUES (2, 'two')", "INSERT INTO articles VALUES (2, 'two')"])
def test_who_locks_a_partition_holds_up_nobody_who_writes_another(db: Database, app: Database, statement: str) -> None:
    """As without us: the statement needs nothing of that partition. Its documents come with a pass, and it keeps its settings."""
    partitioned(app)
    with session(db) as other:
        other.execute("BEGIN; ALTER TABLE tens ADD CHECK (id < 20)")
        app.execute("SET lock_timeout = '30s'")
        start = time.monotonic()
        app.execute(statement.encode())
        assert time.monotonic() - start < 5
        assert app.execute("SHOW lock_timeout").fetchone() == ("30s",)
        assert states(db) == {"app.articles": "waiting"}
        other.execute("COMMIT")
    backfill(app)
    assert (documents(db), states(db)) == ({"1": "one", "2": "two", "11": "eleven"}, {"app.articles": "current"})


def test_who_writes_a_partition_needs_no_right_on_the_table_or_ours(db: Database, app: Database) -> None:
    partitioned(app)
    db.execute(
        "DO $$ BEGIN CREATE ROLE attach_other LOGIN PASSWORD 'attach_other'; EXCEPTION WHEN duplicate_object THEN NULL; END $$"
    )
    app.execute("GRANT USAGE ON SCHEMA app TO attach_other; GRANT INSERT ON low TO attach_other")
    with session(db, "attach_other") as other:
        other.execute("INSERT INTO low VALUES (2, 'two')")
    assert documents(db) == {"1": "one", "2": "two", "11": "eleven"}
    db.execute("DROP OWNED BY attach_other; DROP ROLE attach_other")


@pytest.mark.sample(4)
@pytest.mark.parametrize(
    ("statement", "expected"),
    [
        ("ALTER TABLE articles DETACH PARTITION low", {"11": "eleven"}),
        ("ALTER TABLE articles DETACH PARTITION low CONCURRENTLY", {"11": "eleven"}),
        ("ALTER TABLE articles DETACH PARTITION high", {"1": "one"}),
        ("ALTER TABLE high DETACH PARTITION tens", {"1": "one"}),
        ("DROP TABLE low", {"11": "eleven"}),
        ("DROP TABLE high", {"1": "one"}),
        (
            "CREATE TABLE more (id int PRIMARY KEY, body text); INSERT INTO more VALUES (25, 'more');"
            " ALTER TABLE high ATTACH PARTITION more FOR VALUES FROM (20) TO (30)",
            {"1": "one", "11": "eleven", "25": "more"},
        ),
    ],
)
@pytest.mark.parametrize("watched", [True, False])
def test_partitions_that_come_and_go_are_followed_after_a_pass(
    db: Database, statement: str, expected: dict[str, str], watched: bool
) -> None:
    """With event triggers, and where nobody may make them."""
    db.execute(TABLES.encode())
    attach(db, table="public.articles")
    db.execute("INSERT INTO articles VALUES (1, 'one'), (11, 'eleven')")
    backfill_by_workers(db)
    assert documents(db) == {"1": "one", "11": "eleven"}
    if not watched:
        db.execute(
            "ALTER EVENT TRIGGER graphrag_attached_altered DISABLE; ALTER EVENT TRIGGER graphrag_attached_dropped DISABLE"
        )
    db.execute(statement.encode())
    if "more" in statement:
        own_by_owner(db, "TABLE more")
    if watched:
        assert states(db) == {"public.articles": "behind"}
    db.execute("UPDATE graphrag.jobs SET next_attempt_at = 'infinity' WHERE kind <> 'attach'")
    db.execute("CALL graphrag.process_jobs()")
    assert (documents(db), states(db)) == (expected, {"public.articles": "current"})


@pytest.mark.parametrize("watched", [True, False])
def test_a_partition_that_left_is_the_applications_own(db: Database, watched: bool) -> None:
    db.execute(TABLES.encode())
    attach(db, table="public.articles")
    if not watched:
        db.execute("ALTER EVENT TRIGGER graphrag_attached_altered DISABLE")
    db.execute("ALTER TABLE articles DETACH PARTITION low")
    db.execute("INSERT INTO low VALUES (2, 'two')")
    db.execute("CALL graphrag.process_jobs()")
    assert triggers(db, "low") == 0
    db.execute("INSERT INTO low VALUES (3, 'three')")
    assert (documents(db), states(db)) == ({}, {"public.articles": "current"})


def test_an_empty_partition_is_attached_without_a_pass(db: Database, app: Database) -> None:
    partitioned(app)
    app.execute("CREATE TABLE twenties PARTITION OF high FOR VALUES FROM (20) TO (30)")
    app.execute("INSERT INTO twenties (id, body) VALUES (21, 'x')")
    assert (documents(db), states(db)) == ({"1": "one", "11": "eleven", "21": "x"}, {"app.articles": "current"})


def test_the_owner_is_told_to_bring_in_the_rows_of_a_new_partition(db: Database, app: Database) -> None:
    partitioned(app)
    notices: list[str] = []
    app.add_notice_handler(lambda diagnostic: notices.append(str(diagnostic.message_primary)))
    app.execute("CREATE TABLE hundreds (id int PRIMARY KEY, body text); INSERT INTO hundreds VALUES (121, 'x')")
    assert notices == []
    app.execute("ALTER TABLE articles ATTACH PARTITION hundreds FOR VALUES FROM (100) TO (200)")
    assert len(notices) == 1 and "backfill_table" in notices[0]
    assert states(db) == {"app.articles": "waiting"}
    backfill(app)
    assert (documents(db)["121"], states(db)) == ("x", {"app.articles": "current"})


def test_a_table_that_is_detached_leaves_no_trigger_on_partitions(db: Database, app: Database) -> None:
    partitioned(app)
    assert [triggers(db, f"app.{table}") for table in ("articles", "low", "high", "tens")] == [4] * 4
    app.execute("SELECT graphrag.detach_table('articles')")
    assert [triggers(db, f"app.{table}") for table in ("articles", "low", "high", "tens")] == [0] * 4


@pytest.mark.sample(3)
@pytest.mark.parametrize(
    ("statement", "undo"),
    [
        (
            "CREATE TABLE above (LIKE articles) PARTITION BY RANGE (id); ALTER TABLE above ATTACH PARTITION articles DEFAULT",
            "ALTER TABLE above DETACH PARTITION articles",
        ),
        ("CREATE TABLE child () INHERITS (articles)", "DROP TABLE child"),
        ("CREATE TABLE parent (id int); ALTER TABLE articles INHERIT parent", "ALTER TABLE articles NO INHERIT parent"),
        ("ALTER TABLE articles SET UNLOGGED", "ALTER TABLE articles SET LOGGED"),
        ("ALTER TABLE articles DISABLE TRIGGER USER", "ALTER TABLE articles ENABLE TRIGGER USER"),
    ],
)
@pytest.mark.parametrize("watched", [True, False])
def test_what_makes_writes_pass_by_is_said_and_made_good(
    db: Database, statement: str, undo: str, watched: bool
) -> None:
    db.execute("CREATE TABLE articles (id int PRIMARY KEY, body text)")
    attach(db, table="public.articles")
    backfill_by_workers(db)
    if watched:
        with unfollowed(db, "55000") as hints:
            db.execute(statement.encode())
        assert hints[0]
    else:
        db.execute("ALTER EVENT TRIGGER graphrag_attached_altered DISABLE")
        db.execute(statement.encode())
    db.execute("INSERT INTO articles VALUES (1, 'one')")
    db.execute("CALL graphrag.process_jobs()")
    assert states(db) == {"public.articles": "broken"}
    assert db.execute("SELECT hint IS NOT NULL FROM graphrag.health() WHERE subject ~ 'articles'").fetchall() == [
        (True,)
    ]
    db.execute(undo.encode())
    db.execute("CALL graphrag.process_jobs()")
    assert (documents(db), states(db)) == ({"1": "one"}, {"public.articles": "current"})
