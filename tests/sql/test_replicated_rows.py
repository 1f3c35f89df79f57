"""Attached tables follow what replication applies: each row once, and what is wrong with one stops nothing."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import psycopg
import pytest

from tests.runtime.cluster import Cluster, Database
from tests.sql.attach import (
    APP,
    ARTICLES,
    articles,
    attach,
    backfill,
    backfill_by_workers,
    documents,
    queued,
    session,
    states,
)
from tests.sql.ingest import Background, refused, rows, value, wait_for, wait_for_lock, work

FIRING = (
    "SELECT tgname, tgenabled::text FROM pg_trigger WHERE tgrelid = %s::regclass AND NOT tgisinternal AND tgenabled <> 'O'"
    " ORDER BY 1"
)


LOCKED = "SELECT wait_event_type = 'Lock' FROM pg_stat_activity WHERE pid = %s"


@contextmanager
def applying(db: Database) -> Iterator[Database]:
    """A session that writes as the worker of a subscription does."""
    with Database.open(db.url) as replica:
        replica.execute("SET session_replication_role = replica; SET search_path = app")
        yield replica


def follow(db: Database) -> None:
    """As a worker does, with attached tables alone."""
    db.execute("SELECT graphrag._watch_attached()")
    backfill_by_workers(db)


def followed(db: Database) -> dict[str, str]:
    """The documents, after a worker has looked, of which no pass was needed."""
    passes = "SELECT count(*) FROM graphrag.jobs WHERE kind = 'attach' AND NOT payload ? 'replicated'"
    db.execute("SELECT graphrag._watch_attached()")
    assert value(db, passes) == 0
    follow(db)
    assert value(db, "SELECT count(*) FROM graphrag_attached._replicated") == 0
    return documents(db)


def test_rows_that_replication_applies_become_documents(db: Database, app: Database) -> None:
    articles(app, 3)
    backfill(app)
    with applying(db) as replica:
        replica.execute("INSERT INTO articles SELECT n, NULL, 'New ' || n FROM generate_series(4, 5) n")
        replica.execute("UPDATE articles SET body = 'Changed' WHERE id = 1")
        replica.execute("UPDATE articles SET id = 9 WHERE id = 2")
        replica.execute("DELETE FROM articles WHERE id = 3")
        assert documents(db) == {"1": "Body 1", "2": "Body 2", "3": "Body 3"}
        assert states(db) == {"app.articles": "behind"}
        assert followed(db) == {"1": "Changed", "4": "New 4", "5": "New 5", "9": "Body 2"}
        assert {key for _, key in queued(db)} >= {"1", "4", "5", "9"}
        assert states(db) == {"app.articles": "current"}
        replica.execute("INSERT INTO articles VALUES (6, NULL, 'Lost')")
        replica.execute("TRUNCATE articles")
        replica.execute("INSERT INTO articles VALUES (7, NULL, 'Kept')")
    follow(db)
    assert documents(db) == {"7": "Kept"}


def test_shifted_and_exchanged_keys_carry_their_content_along(db: Database, app: Database) -> None:
    articles(app, 3)
    backfill(app)
    with applying(db) as replica:
        for key in (3, 2, 1):
            replica.execute("UPDATE articles SET id = id + 1 WHERE id = %s", [key])
        assert followed(db) == {"2": "Body 1", "3": "Body 2", "4": "Body 3"}
        replica.execute("BEGIN; UPDATE articles SET id = 0 WHERE id = 2; UPDATE articles SET id = 2 WHERE id = 4")
        replica.execute("UPDATE articles SET id = 4 WHERE id = 0; COMMIT")
        replica.execute("DELETE FROM articles WHERE id = 3; INSERT INTO articles VALUES (3, NULL, 'Again')")
        assert followed(db) == {"2": "Body 3", "3": "Again", "4": "Body 1"}


def test_a_row_that_does_not_say_something_else_notes_nothing(db: Database, app: Database) -> None:
    articles(app, 2)
    backfill(app)
    with applying(db) as replica:
        replica.execute("UPDATE articles SET hits = hits + 1")
        replica.execute("UPDATE articles SET body = body")
    assert value(db, "SELECT count(*) FROM graphrag_attached._replicated") == 0


def test_the_options_of_an_attachment_hold_for_what_is_replicated(db: Database, app: Database) -> None:
    app.execute(
        "CREATE TABLE notes (a int, b text, body text, shown bool, day date, n numeric, j json, PRIMARY KEY (a, b));"
        " SELECT graphrag.attach_table('notes', 'default', NULL, '{body}', title_column => 'b', metadata_columns => '{n,j}',"
        ' options => \'{"key_columns": ["a", "b"], "key_prefix": "notes/", "where": "shown", "valid_from": "day"}\')'
    )
    backfill(app)
    with applying(db) as replica:
        replica.execute("SET datestyle = 'German'; SET extra_float_digits = -5")
        replica.execute(
            "INSERT INTO notes VALUES (1, 'x/y', 'One.', true, '2024-02-29', 1.50, '{\"a\": 1}'),"
            " (2, 'z', 'Two.', false, NULL, NULL, NULL)"
        )
        assert followed(db) == {r"notes/1/x\/y": "One."}
        stored = "SELECT title, metadata, valid_from::date::text FROM graphrag.documents"
        assert rows(db, stored) == [("x/y", {"n": 1.5, "j": {"a": 1}}, "2024-02-29")]
        replica.execute("UPDATE notes SET shown = NOT shown")
        assert followed(db) == {"notes/2/z": "Two."}


def test_ordinary_writes_and_replicated_ones_end_with_what_the_row_says(db: Database, app: Database) -> None:
    articles(app, 2)
    backfill(app)
    with applying(db) as replica:
        replica.execute(
            "UPDATE articles SET body = 'From there'; INSERT INTO articles VALUES (3, NULL, 'Three'), (4, NULL, 'Four')"
        )
        app.execute("UPDATE articles SET body = 'From here' WHERE id = 1")
        app.execute("DELETE FROM articles WHERE id = 3")
        assert followed(db) == {"1": "From here", "2": "From there", "4": "Four"}
        replica.execute("UPDATE articles SET body = 'Older' WHERE id = 2")
        app.execute("TRUNCATE articles; INSERT INTO articles VALUES (5, NULL, 'Five')")
    assert followed(db) == {"5": "Five"}


def test_a_pass_through_the_table_loses_nothing_that_replication_brings(db: Database, app: Database) -> None:
    articles(app, 3)
    with applying(db) as replica:
        replica.execute("UPDATE articles SET body = 'Changed' WHERE id = 1; DELETE FROM articles WHERE id = 2")
        backfill(app)
        replica.execute("INSERT INTO articles VALUES (2, NULL, 'Back')")
        assert followed(db) == {"1": "Changed", "2": "Back", "3": "Body 3"}


def test_what_is_wrong_in_one_row_fails_nothing_and_is_said(db: Database, app: Database) -> None:
    app.execute(
        'CREATE TABLE articles (id int PRIMARY KEY, body text, "to" date, "from" date, key text UNIQUE NOT NULL)'
    )
    app.execute(
        "SELECT graphrag.attach_table('articles', 'default', 'key', '{body}',"
        ' options => \'{"valid_from": "from", "valid_to": "to"}\')'
    )
    backfill(app)
    with applying(db) as replica:
        replica.execute("INSERT INTO articles VALUES (1, 'Backwards', '2020-01-01', '2021-01-01', 'a')")
        replica.execute(
            "INSERT INTO articles VALUES (2, 'No key', NULL, NULL, ''), (3, 'Long', NULL, NULL, repeat('k', 2500))"
        )
        replica.execute("INSERT INTO articles VALUES (4, 'Good', NULL, NULL, 'd')")
        assert followed(db) == {"d": "Good"}
        assert states(db) == {"app.articles": "broken"}
        replica.execute("ALTER TABLE articles RENAME key TO code")
        replica.execute("INSERT INTO articles VALUES (5, 'Renamed', NULL, NULL, 'e')")
        follow(db)
        assert documents(db)["e"] == "Renamed"
        # Where the row makes no document that can be told, a pass is due, and health() says so.
        replica.execute("ALTER TABLE articles DROP COLUMN body")
        replica.execute("INSERT INTO articles VALUES (6, NULL, NULL, 'f')")
    db.execute("SELECT graphrag._watch_attached()")
    assert states(db) == {"app.articles": "broken"}
    assert ("attached table app.articles",) in rows(db, "SELECT subject FROM graphrag.health()")


def test_a_conversion_that_fails_is_a_fault_and_the_next_row_follows(db: Database, app: Database) -> None:
    app.execute(
        "CREATE TABLE articles (id int PRIMARY KEY, body text, tags jsonb);"
        " SELECT graphrag.attach_table('articles', 'default', 'id', '{body}', metadata_columns => '{tags}')"
    )
    # A text of which nothing can be made stands in for one that is too long.
    body = value(db, "SELECT prosrc FROM pg_proc WHERE proname ~ '^_changed_[0-9]+$'")
    db.execute(
        "UPDATE pg_proc SET prosrc = %s WHERE proname ~ '^_changed_[0-9]+$'",
        [body.replace("SELECT r.id", "SELECT (10 / (r.id - 1))::text || r.id", 2)],
    )
    with applying(db) as replica:
        replica.execute("INSERT INTO articles VALUES (1, 'Bad', NULL)")
        replica.execute("INSERT INTO articles VALUES (2, 'Good', NULL)")
    assert rows(db, "SELECT action, title FROM graphrag_attached._replicated ORDER BY id") == [
        ("fault", "22012"),
        ("write", None),
    ]
    work(db)
    assert value(db, "SELECT message FROM graphrag._attached_faults") == "division by zero"
    backfill(app)
    assert documents(db) == {"1": "Bad", "2": "Good"}


def test_triggers_fire_for_replication_once_whatever_enabled_them(db: Database, app: Database) -> None:
    articles(app)
    odd = rows(db, FIRING, "app.articles")
    number = value(db, "SELECT id FROM graphrag._attached_tables")
    assert odd == [(f"_graphrag_{number}_replicated", "R"), (f"graphrag_{number}_truncate", "A")]
    # As pg_restore --disable-triggers leaves them, and a superuser.
    app.execute("ALTER TABLE articles DISABLE TRIGGER USER; ALTER TABLE articles ENABLE TRIGGER USER")
    db.execute("SELECT graphrag._watch_attached()")
    assert rows(db, FIRING, "app.articles") == odd
    db.execute("SET event_triggers = off; ALTER TABLE app.articles ENABLE TRIGGER USER; RESET event_triggers")
    app.execute("INSERT INTO articles VALUES (1, NULL, 'Once')")
    assert value(db, "SELECT count(*) FROM graphrag_attached._replicated") == 0
    db.execute("SELECT graphrag._watch_attached()")
    assert rows(db, FIRING, "app.articles") == odd


def test_partitions_follow_what_replication_applies(db: Database, app: Database) -> None:
    app.execute("CREATE TABLE articles (id int PRIMARY KEY, headline text, body text) PARTITION BY RANGE (id)")
    app.execute("CREATE TABLE low PARTITION OF articles FOR VALUES FROM (0) TO (10)")
    attach(app)
    app.execute("CREATE TABLE high PARTITION OF articles FOR VALUES FROM (10) TO (20)")
    backfill(app)
    with applying(db) as replica:
        replica.execute("INSERT INTO articles VALUES (1, NULL, 'One'), (11, NULL, 'Eleven')")
        replica.execute("INSERT INTO low VALUES (2, NULL, 'Two')")
        assert followed(db) == {"1": "One", "2": "Two", "11": "Eleven"}
        replica.execute("UPDATE articles SET id = 12 WHERE id = 1")
        assert followed(db) == {"2": "Two", "11": "Eleven", "12": "One"}


def test_the_document_is_of_the_tables_owner_alone(db: Database, app: Database) -> None:
    articles(app)
    db.execute(
        "DO $$ BEGIN CREATE ROLE attach_mallory LOGIN PASSWORD 'attach_mallory';"
        " EXCEPTION WHEN duplicate_object THEN NULL; END $$"
    )
    number = value(db, "SELECT id FROM graphrag._attached_tables")
    forged = (
        "INSERT INTO graphrag_attached._replicated (attached_id, action, source_key, title, content, metadata)"
        " VALUES (%s, 'write', 'x', 'x', 'x', '{}')"
    )
    with session(db, "attach_mallory") as mallory:
        with pytest.raises(psycopg.errors.InsufficientPrivilege):
            mallory.execute(forged, [number])
        with pytest.raises(psycopg.errors.InsufficientPrivilege):
            mallory.execute("SELECT * FROM graphrag_attached._replicated")
    # What was noted by who owned the table then.
    with applying(db) as replica:
        replica.execute("INSERT INTO articles VALUES (1, NULL, 'One')")
        db.execute("ALTER TABLE app.articles OWNER TO postgres; ALTER SCHEMA app OWNER TO postgres")
        work(db)
        assert documents(db) == {"1": "One"}  # by a pass


def test_a_table_of_whose_rows_nothing_is_told_by_themselves_is_compared(db: Database) -> None:
    """A domain over a type of an extension: its name could be another's."""
    db.execute(
        "CREATE DOMAIN public.place AS vector(2); CREATE TABLE public.places (id int PRIMARY KEY, body text, at public.place)"
    )
    db.execute("SELECT graphrag.attach_table('public.places', 'default', 'id', '{body}', metadata_columns => '{at}')")
    with applying(db) as replica:
        replica.execute("INSERT INTO public.places VALUES (1, 'Here', '[1,2]')")
    assert rows(db, "SELECT action FROM graphrag_attached._replicated") == [("pass",)]
    follow(db)
    assert documents(db) == {"1": "Here"}


def test_a_column_that_makes_no_document_has_no_table_compared(db: Database, app: Database) -> None:
    """Nor does a transaction of replication use a transaction number for each row."""
    db.execute("CREATE DOMAIN public.email AS vector(2)")
    app.execute(f"CREATE TABLE articles ({ARTICLES}, mail public.email)")
    attach(app)
    number = "SELECT pg_current_xact_id()::text::bigint"
    with applying(db) as replica:
        before = value(db, number)
        replica.execute("INSERT INTO articles (id, body) SELECT n, 'Body ' || n FROM generate_series(1, 50) n")
        assert value(db, number) <= before + 2
    assert rows(db, "SELECT DISTINCT action FROM graphrag_attached._replicated") == [("write",)]


def test_a_worker_and_a_session_that_writes_the_row_do_not_wait_for_each_other(db: Database, app: Database) -> None:
    articles(app, 2)
    backfill(app)
    with applying(db) as replica, Database.open(db.url) as reader:
        replica.execute(
            "UPDATE articles SET body = 'Older' WHERE id = 1; UPDATE articles SET body = 'There' WHERE id = 2"
        )
        reader.execute("BEGIN; SELECT FROM graphrag.documents WHERE source_key = '1' FOR UPDATE")
        writer = Background(db.url, "UPDATE app.articles SET body = 'Here' WHERE id = 1")
        wait_for_lock(db, writer.pid)
        taker = Background(db.url, "SELECT graphrag._take_replicated(id) FROM graphrag._attached_tables")
        wait_for(lambda: not taker.is_alive() or value(db, LOCKED, taker.pid), "a worker to be done or to wait")
        reader.execute("COMMIT")
        assert writer.finish() is None
        assert taker.finish() is None
    assert followed(db) == {"1": "Here", "2": "There"}


def test_what_is_forgotten_is_not_what_waits_for_a_worker(db: Database, app: Database) -> None:
    articles(app)
    backfill(app)
    with applying(db) as replica:
        replica.execute("INSERT INTO articles VALUES (1, NULL, 'Secret')")
        diag = refused(db, "SELECT * FROM graphrag.forget('default', '1')")
        assert diag.sqlstate == "55000"
        replica.execute("DELETE FROM articles")
        db.execute("SELECT * FROM graphrag.forget('default', '1')")
    assert value(db, "SELECT count(*) FROM graphrag_attached._replicated") == 0
    assert documents(db) == {}


@pytest.mark.parametrize("events", [True, False])
def test_renamed_columns_are_followed(db: Database, app: Database, events: bool) -> None:
    articles(app, 1)
    backfill(app)
    if not events:
        db.execute("SET event_triggers = off")
    with applying(db) as replica:
        db.execute("ALTER TABLE app.articles RENAME body TO text; ALTER TABLE app.articles RENAME headline TO body")
        db.execute("RESET event_triggers")
        replica.execute("UPDATE articles SET text = 'Renamed', body = 'Title'")
        work(db)
        backfill(app)
    assert rows(db, "SELECT title, content FROM graphrag.documents") == [("Title", "Renamed")]


# Two databases of one cluster, by a real subscription.

PUBLISHED = "CREATE TABLE public.articles (id int PRIMARY KEY, headline text, body text)"


class Pair:
    """A publisher that is a plain database, and a node with the extension that subscribes to it."""

    def __init__(self, own_cluster: Cluster) -> None:
        self.urls = [own_cluster.create_database(name) for name in ("publisher", "node")]
        self.cluster = own_cluster
        self.publisher, self.node = (Database.open(url) for url in self.urls)
        self.node.execute("CREATE EXTENSION pg_graphrag CASCADE")

    def both(self, statement: str) -> None:
        for db in (self.publisher, self.node):
            db.execute(statement.encode())

    def subscribe(self, tables: str, options: str = "") -> None:
        self.publisher.execute(f"CREATE PUBLICATION p FOR TABLE {tables}".encode())
        self.publisher.execute("SELECT pg_create_logical_replication_slot('s', 'pgoutput')")
        self.node.execute(
            f"CREATE SUBSCRIPTION s CONNECTION '{self.urls[0]}' PUBLICATION p WITH (create_slot = false{options})".encode()
        )

    def caught_up(self, table: str) -> None:
        """Wait until the table says at the node what it says at the publisher."""
        says = f"SELECT * FROM {table} ORDER BY 1"
        wait_for(lambda: rows(self.node, says) == rows(self.publisher, says), f"{table} to catch up")

    def close(self) -> None:
        self.node.execute("DROP SUBSCRIPTION IF EXISTS s")
        self.publisher.close()
        self.node.close()


@pytest.fixture
def pair(cluster: Callable[..., Cluster]) -> Iterator[Pair]:
    both_ends = Pair(cluster({"wal_level": "logical"}))
    yield both_ends
    both_ends.close()


def contents(db: Database, key: str = "") -> dict[str, Any]:
    return dict(rows(db, "SELECT source_key, content FROM graphrag.documents WHERE source_key ^@ %s", key))


def test_a_subscription_feeds_attached_tables(pair: Pair) -> None:
    """Attached before and after the subscription, a copy of 2,000 rows, and everything that a publisher may do."""
    pair.both(PUBLISHED)
    pair.both("CREATE TABLE public.plants (id int PRIMARY KEY, name text UNIQUE NOT NULL)")
    pair.both("CREATE TABLE public.machines (id int PRIMARY KEY, code text UNIQUE NOT NULL, plant_id int)")
    # Foreign keys of the node see their rows in the publisher's order, and are not asked.
    pair.node.execute("ALTER TABLE public.machines ADD FOREIGN KEY (plant_id) REFERENCES public.plants")
    pair.publisher.execute("INSERT INTO articles SELECT n, 'Title ' || n, 'Body ' || n FROM generate_series(1, 2000) n")
    pair.publisher.execute("INSERT INTO machines VALUES (17, 'RZ-500K', 1)")
    node = pair.node
    node.execute("SELECT graphrag.create_corpus('shop', '{\"communities\": false, \"cypher\": false}')")
    node.execute("SELECT graphrag.attach_table('articles', 'shop', 'id', '{body}', title_column => 'headline')")
    pair.subscribe("articles, machines, plants")
    pair.caught_up("articles")
    pair.caught_up("machines")
    node.execute("SELECT graphrag.attach_entities('plants', 'shop', ARRAY['id'], name => 'name', type => 'plant')")
    node.execute("SELECT graphrag.attach_entities('machines', 'shop', ARRAY['id'], name => 'code', type => 'machine')")
    node.execute(
        "SELECT graphrag.attach_relationships('machines', 'shop', type => 'stands in',"
        " to_columns => ARRAY['plant_id'], to_table => 'plants')"
    )
    follow(node)
    assert len(contents(node)) == 2001
    pair.publisher.execute("INSERT INTO plants VALUES (1, 'Osaka Works')")
    pair.publisher.execute(
        "UPDATE articles SET body = 'Changed' WHERE id = 1; UPDATE articles SET id = 3000 WHERE id = 2"
    )
    pair.publisher.execute(
        "DELETE FROM articles WHERE id BETWEEN 3 AND 1900; INSERT INTO articles VALUES (2, NULL, 'New')"
    )
    for table in ("articles", "plants"):
        pair.caught_up(table)
    follow(node)
    expected = {str(key): body for key, body in rows(pair.publisher, "SELECT id, body FROM articles")}
    assert {key: content for key, content in contents(node).items() if "/" not in key} == expected
    assert contents(node, "machines/") == {"machines/17": "machine: RZ-500K\nstands in: plants/1"}
    assert contents(node, "plants/") == {"plants/1": "plant: Osaka Works"}
    pair.publisher.execute("TRUNCATE articles")
    pair.caught_up("articles")
    follow(node)
    assert {key for key in contents(node) if "/" not in key} == set()
    assert value(node, "SELECT apply_error_count + sync_error_count FROM pg_stat_subscription_stats") == 0


@pytest.mark.slow
@pytest.mark.parametrize("as_owner", [False, True])
def test_the_worker_of_a_subscription_needs_no_right_of_ours(pair: Pair, as_owner: bool) -> None:
    """The subscription is an ordinary role's, the table another's, the publisher's without a key."""
    node = pair.node
    pair.publisher.execute("CREATE TABLE public.articles (id int, headline text, body text)")
    pair.publisher.execute("ALTER TABLE articles REPLICA IDENTITY FULL")
    node.execute(
        f"DO $$ BEGIN CREATE ROLE {APP} LOGIN PASSWORD '{APP}'; EXCEPTION WHEN duplicate_object THEN NULL; END $$;"
        f"CREATE ROLE subscriber LOGIN IN ROLE pg_create_subscription; GRANT {APP} TO subscriber;"
        f"GRANT CREATE ON DATABASE node TO subscriber; GRANT CREATE ON SCHEMA public TO {APP};"
        f"GRANT USAGE ON SCHEMA graphrag TO {APP};"
        f"GRANT EXECUTE ON ROUTINE graphrag.attach_table, graphrag.backfill_table TO {APP};"
        f"SELECT graphrag.create_corpus('default'); SELECT graphrag.grant_corpus('default', '{APP}', 'write')"
    )
    with session(node) as app:
        app.execute("SET search_path = public")
        app.execute(PUBLISHED)
        attach(app)
    pair.publisher.execute("INSERT INTO articles VALUES (1, NULL, 'One')")
    node.execute("SET SESSION AUTHORIZATION subscriber")
    pair.subscribe("articles", f", run_as_owner = {as_owner}")
    node.execute("RESET SESSION AUTHORIZATION")
    pair.caught_up("articles")
    pair.publisher.execute("UPDATE articles SET body = 'Changed'; INSERT INTO articles VALUES (2, NULL, 'Two')")
    pair.caught_up("articles")
    work(node)
    assert contents(node) == {"1": "Changed", "2": "Two"}
    # Where its owner may not write the corpus any more, replication goes on.
    node.execute(f"SELECT graphrag.revoke_corpus('default', '{APP}')")
    pair.publisher.execute("INSERT INTO articles VALUES (3, NULL, 'Three')")
    pair.caught_up("articles")
    work(node)
    assert contents(node) == {"1": "Changed", "2": "Two"}
    assert value(node, "SELECT error_code FROM graphrag.attached_tables") == "42501"
