"""`pg-graphrag subscribe`: tables of a plain server become documents of a node, which says what it does and what stops it."""

import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest
from pg_graphrag.beside import cli
from pg_graphrag.beside.cli import subscribe
from pg_graphrag.beside.subscribing.plan import SECRET_COLUMN
from psycopg.conninfo import make_conninfo

from tests.runtime.cluster import Cluster, Database
from tests.sql.attach import backfill_by_workers
from tests.sql.ingest import rows, value, wait_for, work

HEALTH = "SELECT severity, detail, hint FROM graphrag.health() WHERE subject = 'subscription \"graphrag\"'"
TABLES = (
    "CREATE SCHEMA shop;"
    "CREATE TYPE shop.state AS ENUM ('draft', 'public');"
    "CREATE DOMAIN shop.line AS varchar(200);"
    "CREATE TABLE shop.articles (id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY, title shop.line NOT NULL,"
    " body text DEFAULT 'x', state shop.state, tags shop.state[], length int GENERATED ALWAYS AS (length(body)) STORED,"
    " password text, CHECK (body <> ''));"
    'CREATE TABLE shop."Odd" ("the key" int, part text, "what\'s said" text, PRIMARY KEY ("the key", part));'
    "ALTER TABLE shop.articles ENABLE ROW LEVEL SECURITY; CREATE POLICY p ON shop.articles USING (state = 'public');"
    "INSERT INTO shop.articles (title, body, state, tags)"
    " SELECT 'Title ' || n, 'Body ' || n, 'draft', '{draft,public}' FROM generate_series(1, 20) n;"
    "INSERT INTO shop.\"Odd\" VALUES (1, 'a/b', 'Odd text.')"
)


@dataclass
class Ends:
    publisher: Database
    node: Database
    # Of the role that the publisher's tables belong to.
    source: str

    def subscribe(self, *arguments: str, status: int = 0) -> None:
        command = ["subscribe", "--url", self.node.url, "--from", self.source, *arguments]
        assert cli.main(command) == status

    def caught_up(self, table: str, columns: str = "*") -> None:
        says = f"SELECT {columns} FROM {table} ORDER BY 1"
        wait_for(lambda: rows(self.node, says) == rows(self.publisher, says), f"{table} to catch up")

    def texts(self) -> dict[str, str]:
        self.node.execute("SELECT graphrag._watch_attached()")
        backfill_by_workers(self.node)
        return dict(rows(self.node, "SELECT source_key, content FROM graphrag.documents"))


@contextmanager
def ends_of(publisher: Cluster, node: Cluster) -> Iterator[Ends]:
    publisher.create_database("shop")
    node.create_database("node")
    with publisher.connect("shop") as there, node.connect("node") as here:
        there.execute("CREATE ROLE owner LOGIN REPLICATION PASSWORD 'sesame'; GRANT CREATE ON DATABASE shop TO owner")
        source = make_conninfo(publisher.url("shop"), user="owner", password="sesame")
        with Database.open(source) as owner:
            owner.execute(TABLES)
        here.execute("CREATE EXTENSION pg_graphrag CASCADE; CREATE ROLE reader IN ROLE graphrag_reader")
        here.execute(
            "GRANT USAGE ON SCHEMA public TO reader; ALTER DEFAULT PRIVILEGES GRANT SELECT ON TABLES TO reader"
        )
        yield Ends(there, here, source)
        here.execute("DROP SUBSCRIPTION IF EXISTS graphrag")


@pytest.fixture
def ends(cluster: Callable[..., Cluster]) -> Iterator[Ends]:
    """Two databases of one cluster, the publisher's without anything of ours."""
    own_cluster = cluster({"wal_level": "logical"})
    with ends_of(own_cluster, own_cluster) as both_ends:
        yield both_ends


def test_subscribe_sets_both_ends_up_prints_it_and_undoes_it(ends: Ends, capsys: pytest.CaptureFixture[str]) -> None:
    ends.subscribe("--tables", 'shop.articles,shop."Odd"', "--corpus", "shop", "--attach", "--dry-run")
    planned = capsys.readouterr().out
    ends.subscribe("--tables", "shop.articles", "--passfile", "/srv/publisher", "--dry-run")
    (subscription,) = re.findall("CREATE SUBSCRIPTION .*", capsys.readouterr().out)
    assert "passfile=/srv/publisher" in subscription
    assert "password" not in subscription
    assert value(ends.publisher, "SELECT count(*) FROM pg_publication") == 0
    assert value(ends.node, "SELECT count(*) FROM pg_namespace WHERE nspname = 'shop'") == 0
    ends.subscribe("--tables", 'shop.articles,shop."Odd"', "--corpus", "shop", "--attach")
    printed = capsys.readouterr().out
    statements = [line for line in printed.splitlines() if not line.startswith("--")]
    assert statements == [line for line in planned.splitlines() if not line.startswith("--")]
    assert "sesame" not in printed + planned
    assert "password='********'" in printed or "password=********" in printed
    assert "1 policies, 2 defaults, 1 check constraints, generated columns (length)" in printed
    assert "column state is text here" in printed
    # The server keeps the password where PostgreSQL does, and nowhere else.
    assert "sesame" in value(ends.node, "SELECT subconninfo FROM pg_subscription")
    ends.caught_up("shop.articles", "id, title, body, state::text, tags::text")
    assert ends.texts() == {**{f"articles/{n}": f"Body {n}" for n in range(1, 21)}, r"Odd/1/a\/b": "Odd text."}
    ends.publisher.execute(
        "UPDATE shop.articles SET body = 'Changed', state = 'public' WHERE id = 1; DELETE FROM shop.articles WHERE id > 2"
    )
    ends.publisher.execute("UPDATE shop.\"Odd\" SET part = 'c'")
    ends.caught_up("shop.articles", "id, title, body, state::text")
    ends.caught_up('shop."Odd"')
    assert ends.texts() == {"articles/1": "Changed", "articles/2": "Body 2", "Odd/1/c": "Odd text."}
    assert rows(ends.node, HEALTH) == []
    # Nothing is missing, nothing is done.
    ends.subscribe("--tables", 'shop.articles,shop."Odd"', "--corpus", "shop", "--attach")
    assert [line for line in capsys.readouterr().out.splitlines() if not line.startswith("--")] == []
    ends.subscribe("--undo", "--dry-run")
    undone = capsys.readouterr().out
    assert value(ends.node, "SELECT count(*) FROM pg_subscription") == 1
    ends.subscribe("--undo")
    assert "DROP SUBSCRIPTION graphrag;" in undone
    assert "DROP PUBLICATION graphrag;" in capsys.readouterr().out
    assert value(ends.node, "SELECT count(*) FROM pg_subscription") == 0
    assert (
        value(
            ends.publisher, "SELECT (SELECT count(*) FROM pg_replication_slots) + (SELECT count(*) FROM pg_publication)"
        )
        == 0
    )
    assert ends.texts() == {"articles/1": "Changed", "articles/2": "Body 2", "Odd/1/c": "Odd text."}


def test_nobody_but_the_owner_sees_what_is_subscribed_before_it_is_opened(ends: Ends) -> None:
    """Default privileges of the node would show the tables, and graphrag_reader reads every corpus."""
    ends.subscribe("--tables", "shop.articles", "--attach")
    ends.caught_up("shop.articles", "id, title, body")
    node = ends.node
    assert len(ends.texts()) == 20
    work(node)
    node.execute("GRANT USAGE ON SCHEMA shop TO reader; SET ROLE reader")
    assert rows(node, "SELECT source_key FROM graphrag.documents") == []
    assert rows(node, "SELECT source_key FROM graphrag.search('Body', 'default')") == []
    assert node.execute("SELECT has_table_privilege('shop.articles', 'SELECT')").fetchone() == (False,)
    node.execute("RESET ROLE; SELECT graphrag.protect('default', $$source_key = 'articles/1'$$); SET ROLE reader")
    assert rows(node, "SELECT source_key FROM graphrag.documents") == [("articles/1",)]
    node.execute("RESET ROLE")


def test_ddl_of_the_publisher_is_said_and_subscribe_makes_what_is_missing(
    ends: Ends, capsys: pytest.CaptureFixture[str]
) -> None:
    tables = ("--tables", "shop.articles", "--attach")
    ends.subscribe(*tables)
    ends.caught_up("shop.articles", "id, title, body")
    node, publisher = ends.node, ends.publisher
    # Of a dropped column nothing comes any more, and nothing stops.
    publisher.execute(
        "ALTER TABLE shop.articles DROP COLUMN title; INSERT INTO shop.articles (body) VALUES ('Untitled')"
    )
    ends.caught_up("shop.articles", "id, body")
    # A new one stops the subscription, and loses nothing.
    publisher.execute(
        "ALTER TABLE shop.articles ADD COLUMN lead text; INSERT INTO shop.articles (body, lead) VALUES ('Leads', 'New')"
    )
    wait_for(lambda: [severity for severity, _, _ in rows(node, HEALTH)] == ["error"], "health() to say so")
    ((_, detail, hint),) = rows(node, HEALTH)
    assert "has no worker that comes through" in detail
    assert "pg-graphrag subscribe --dry-run" in hint
    assert "sesame" not in detail + hint
    assert ends.texts()["articles/21"] == "Untitled"
    capsys.readouterr()
    ends.subscribe(*tables, "--dry-run")
    printed = capsys.readouterr().out
    assert "ALTER TABLE shop.articles ADD COLUMN lead text;" in printed
    assert "the publisher has no column title" in printed
    ends.subscribe(*tables)
    ends.caught_up("shop.articles", "id, body, lead")
    assert ends.texts()["articles/22"] == "Leads"
    wait_for(lambda: rows(node, HEALTH) == [], "health() to be content")
    # A table that is renamed there.
    publisher.execute("ALTER TABLE shop.articles RENAME TO posts; INSERT INTO shop.posts (body) VALUES ('Renamed')")
    wait_for(lambda: [severity for severity, _, _ in rows(node, HEALTH)] == ["error"], "health() to say so")
    ends.subscribe("--tables", "shop.posts", "--dry-run")
    assert "shop.articles of this node is no longer published" in capsys.readouterr().out
    node.execute("ALTER TABLE shop.articles RENAME TO posts")
    ends.caught_up("shop.posts", "id, body")
    assert ends.texts()["articles/23"] == "Renamed"
    node.execute("ALTER SUBSCRIPTION graphrag DISABLE")
    assert [severity for severity, _, _ in rows(node, HEALTH)] == ["error"]
    node.execute("GRANT pg_monitor TO reader; SET ROLE reader")
    assert [severity for severity, _, _ in rows(node, HEALTH)] == ["error"]
    node.execute("RESET ROLE; ALTER SUBSCRIPTION graphrag ENABLE")


# What a publisher may do that is not trusted.
QUOTES_ANOTHER_STATEMENT = (
    "CREATE OR REPLACE FUNCTION pg_catalog.quote_ident(text) RETURNS text LANGUAGE sql IMMUTABLE STRICT"
    " AS $$SELECT $1 || '; CREATE TABLE public.planted (); --'$$"
)

# What the publisher's owner (or, after RESET ROLE, a superuser) does, and undoes; the table, and what is said.
REFUSED = [
    ("SELECT", "SELECT", "none", 'no table "shop.none"', "schema"),
    ("CREATE VIEW shop.seen AS SELECT 1 AS id", "SELECT", "seen", "no permanent table", "under a view"),
    ("CREATE TABLE shop.bare (body text)", "SELECT", "bare", "no key", "REPLICA IDENTITY FULL"),
    (
        "ALTER TABLE shop.articles FORCE ROW LEVEL SECURITY",
        "ALTER TABLE shop.articles NO FORCE ROW LEVEL SECURITY",
        *("articles", "row-level security", "BYPASSRLS"),
    ),
    (
        "RESET ROLE; ALTER TABLE shop.articles OWNER TO postgres",
        "RESET ROLE; ALTER TABLE shop.articles OWNER TO owner",
        *("articles", "may not read", "owner"),
    ),
    (
        "RESET ROLE; ALTER ROLE owner NOREPLICATION",
        "RESET ROLE; ALTER ROLE owner REPLICATION",
        *("articles", "may not replicate", "rds_replication"),
    ),
    (
        "RESET ROLE; REVOKE CREATE ON DATABASE shop FROM owner",
        "RESET ROLE; GRANT CREATE ON DATABASE shop TO owner",
        *("articles", "may not create a publication", "GRANT CREATE"),
    ),
]


def test_subscribe_refuses_what_cannot_be_published_and_changes_nothing(
    ends: Ends, capsys: pytest.CaptureFixture[str]
) -> None:
    for arrange, restore, table, says, hint in REFUSED:
        ends.publisher.execute(f"SET ROLE owner; {arrange}".encode())
        ends.subscribe("--tables", f"shop.{table}", status=1)
        error = capsys.readouterr().err
        assert says in error
        assert hint in error
        assert value(ends.publisher, "SELECT count(*) FROM pg_publication") == 0
        assert rows(ends.node, "SELECT FROM pg_namespace WHERE nspname = 'shop'") == []
        ends.publisher.execute(f"SET ROLE owner; {restore}; RESET ROLE".encode())


def test_a_slot_that_is_there_is_taken_where_that_is_said(ends: Ends, capsys: pytest.CaptureFixture[str]) -> None:
    """Somebody else made it, and the publication; the role may read and replicate."""
    ends.publisher.execute(
        "CREATE PUBLICATION graphrag FOR TABLE shop.articles; CREATE ROLE guest LOGIN REPLICATION BYPASSRLS PASSWORD 'sesame';"
        "GRANT USAGE ON SCHEMA shop TO guest; GRANT SELECT ON shop.articles TO guest"
    )
    ends.publisher.execute("SELECT pg_create_logical_replication_slot('graphrag_node', 'pgoutput')")
    ends.source = make_conninfo(ends.source, user="guest")
    ends.subscribe("--tables", "shop.articles", status=1)
    assert "--existing-slot" in capsys.readouterr().err
    ends.subscribe("--tables", "shop.articles", "--existing-slot")
    printed = capsys.readouterr().out
    assert "-- at the publisher" not in printed
    assert (
        "SELECT graphrag.attach_table('shop.articles', 'default', 'id', ARRAY['body'], title_column => 'title'"
        in printed
    )
    assert rows(ends.node, "SELECT FROM graphrag._attached_tables") == []
    ends.caught_up("shop.articles", "id, title, body")


@pytest.mark.slow
def test_a_partitioned_table_is_one_at_the_node_and_another_table_may_come_later(
    ends: Ends, capsys: pytest.CaptureFixture[str]
) -> None:
    publisher, node = ends.publisher, ends.node
    publisher.execute(
        "SET ROLE owner; CREATE TABLE shop.logs (at date, id int, body text, PRIMARY KEY (at, id)) PARTITION BY RANGE (at);"
        "CREATE TABLE shop.old PARTITION OF shop.logs FOR VALUES FROM ('2024-01-01') TO ('2025-01-01');"
        "CREATE TABLE shop.new PARTITION OF shop.logs FOR VALUES FROM ('2025-01-01') TO ('2026-01-01');"
        "INSERT INTO shop.logs VALUES ('2024-02-02', 1, 'One'), ('2025-02-02', 2, 'Two'); RESET ROLE"
    )
    ends.subscribe("--tables", "shop.logs", "--attach")
    ends.caught_up("shop.logs")
    assert ends.texts() == {"logs/2024-02-02/1": "One", "logs/2025-02-02/2": "Two"}
    publisher.execute("UPDATE shop.logs SET at = '2025-03-03' WHERE id = 1")
    ends.caught_up("shop.logs")
    assert ends.texts() == {"logs/2025-03-03/1": "One", "logs/2025-02-02/2": "Two"}
    publisher.execute("TRUNCATE shop.logs")
    ends.caught_up("shop.logs")
    assert ends.texts() == {}
    capsys.readouterr()
    ends.subscribe("--tables", "shop.logs,shop.articles", "--attach")
    printed = capsys.readouterr().out
    assert "ALTER PUBLICATION graphrag ADD TABLE shop.articles;" in printed
    assert "ALTER SUBSCRIPTION graphrag REFRESH PUBLICATION;" in printed
    assert "SELECT graphrag.protect" not in printed  # somebody may have opened the corpus meanwhile
    ends.caught_up("shop.articles", "id, title, body")
    assert len(ends.texts()) == 20
    # As text, in which values travel, another type says the same.
    publisher.execute(
        "ALTER TABLE shop.articles ALTER COLUMN password TYPE varchar; UPDATE shop.articles SET body = 'T' WHERE id = 1"
    )
    ends.caught_up("shop.articles", "id, title, body")
    assert ends.texts()["articles/1"] == "T"
    assert rows(node, HEALTH) == []


NAMES = """
SET ROLE owner; CREATE SCHEMA blog;
CREATE TABLE blog.articles (id int PRIMARY KEY, body varchar(9));
CREATE TABLE blog."a""b; DROP TABLE x%s -- 'c'" ("k""; --\n" int PRIMARY KEY, "100%" text);
CREATE TABLE blog.codes (id int PRIMARY KEY, code char(3) NOT NULL, body text);
CREATE UNIQUE INDEX codes_code_key ON blog.codes (code); ALTER TABLE blog.codes REPLICA IDENTITY USING INDEX codes_code_key;
INSERT INTO blog.articles VALUES (1, 'Blog'); INSERT INTO blog."a""b; DROP TABLE x%s -- 'c'" VALUES (1, 'Odd');
INSERT INTO blog.codes VALUES (1, 'a', 'A'); RESET ROLE
"""


def test_any_name_any_key_and_homonyms_are_taken(ends: Ends) -> None:
    """A publisher that quotes what is another statement runs none at the node, and a type that becomes longer stops nothing."""
    publisher, node = ends.publisher, ends.node
    publisher.execute(NAMES.encode())
    publisher.execute(QUOTES_ANOTHER_STATEMENT)
    ends.subscribe(
        *("--tables", 'shop.articles,blog.articles,blog.codes,blog."a""b; DROP TABLE x%s -- \'c\'"'),
        *("--attach", "--corpus", "100%"),
    )
    assert value(node, "SELECT to_regclass('public.planted')") is None
    for table in ("blog.articles", "blog.codes", 'blog."a""b; DROP TABLE x%s -- \'c\'"', "shop.articles"):
        ends.caught_up(table.replace("%", "%%"), "1")
    publisher.execute(
        "ALTER TABLE blog.articles ALTER body TYPE varchar(20); UPDATE blog.articles SET body = 'A longer blog'"
    )
    publisher.execute("UPDATE blog.codes SET body = 'B'; UPDATE blog.codes SET code = 'b'")
    ends.caught_up("blog.articles")
    ends.caught_up("blog.codes")
    texts = ends.texts()
    assert texts.pop("a\"b; DROP TABLE x%s -- 'c'/1") == "Odd"
    assert {key: text for key, text in texts.items() if not key.startswith("shop")} == {
        "blog.articles/1": "A longer blog",
        "codes/b": "B",
    }
    assert len(texts) == 22


def test_what_others_made_stays_and_what_was_interrupted_goes_on(
    ends: Ends, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Two nodes of one publisher, and two publishers of one node."""
    tables = ("--tables", "shop.articles")
    publisher, node = ends.publisher, ends.node
    # Killed before the subscription: nothing is taken back.
    with monkeypatch.context() as killed:
        killed.setattr(subscribe, "_take_back", lambda *_: None)
        ends.subscribe(*tables, "--connection", make_conninfo(ends.source, password="wrong"), status=1)
    slots_and_publications = (
        "SELECT (SELECT count(*) FROM pg_replication_slots) + (SELECT count(*) FROM pg_publication)"
    )
    assert value(publisher, slots_and_publications) == 2
    ends.subscribe(*tables)
    ends.caught_up("shop.articles", "id, title, body")
    assert value(node, "SELECT has_table_privilege('reader', 'shop.articles', 'SELECT')") is False
    # Another node: neither the publication is its own, nor a slot of that name.
    node.execute("CREATE DATABASE other")
    with Database.open(make_conninfo(node.url, dbname="other")) as here:
        here.execute("CREATE EXTENSION pg_graphrag CASCADE")
        other = Ends(publisher, here, ends.source)
        capsys.readouterr()
        other.subscribe(*tables, status=1)
        assert "--name" in capsys.readouterr().err
        publisher.execute("SELECT pg_create_logical_replication_slot('graphrag_other', 'pgoutput')")
        other.subscribe("--undo")
        assert "stays at the publisher" in capsys.readouterr().out
        assert value(publisher, slots_and_publications) == 3
        # Another publisher under the same name.
        ends.source = make_conninfo(ends.source, dbname="other")
        here.execute("GRANT CREATE ON DATABASE other TO owner; CREATE TABLE public.t (a int PRIMARY KEY)")
        here.execute("ALTER TABLE public.t OWNER TO owner")
        ends.subscribe("--tables", "public.t", status=1)
        assert "is not of this publisher" in capsys.readouterr().err
    publisher.execute("SELECT pg_drop_replication_slot('graphrag_other')")
    publisher.execute("UPDATE shop.articles SET body = 'Still' WHERE id = 1")
    ends.caught_up("shop.articles", "id, title, body")


def test_what_was_made_is_taken_back_where_a_later_step_fails(ends: Ends, capsys: pytest.CaptureFixture[str]) -> None:
    wrong = make_conninfo(ends.source, password="wrong")
    ends.subscribe("--tables", "shop.articles", "--connection", wrong, status=1)
    printed = capsys.readouterr()
    assert "wrong" not in printed.out + printed.err
    assert "DROP PUBLICATION graphrag" in printed.out
    assert (
        value(
            ends.publisher, "SELECT (SELECT count(*) FROM pg_replication_slots) + (SELECT count(*) FROM pg_publication)"
        )
        == 0
    )
    assert rows(ends.node, "SELECT FROM pg_namespace WHERE nspname = 'shop'") == []


def test_columns_are_secret_that_suggest_attachments_leaves_out() -> None:
    folder = Path(__file__).parents[2] / "sql/04_documents"
    assert f"~* '({SECRET_COLUMN.pattern})' AS is_secret" in (folder / "070_suggest_attachments.sql").read_text()


def test_a_publisher_that_is_not_logical_is_refused(db: Database, capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["subscribe", "--url", db.url, "--from", db.url, "--tables", "x"]) == 1
    assert "wal_level" in capsys.readouterr().err


@pytest.mark.slow
def test_a_plain_server_feeds_a_node(cluster: Callable[..., Cluster], capsys: pytest.CaptureFixture[str]) -> None:
    """Two servers; the publisher is stopped, killed and gone at last."""
    logged = {"log_statement": "all", "log_min_duration_statement": "0", "log_min_error_statement": "debug5"}
    primary, node = cluster({"wal_level": "logical"}), cluster({"wal_retrieve_retry_interval": "500ms", **logged})
    with ends_of(primary, node) as ends:
        ends.subscribe("--tables", "shop.articles", "--attach")
        ends.caught_up("shop.articles", "id, title, body")
        assert len(ends.texts()) == 20
        ends.publisher.execute("UPDATE shop.articles SET body = 'Before' WHERE id = 1")
        primary.kill()
        primary.start()
        with primary.connect("shop") as publisher:
            publisher.execute("UPDATE shop.articles SET body = 'After' WHERE id = 2")
            says = "SELECT id, body FROM shop.articles ORDER BY 1"
            wait_for(lambda: rows(ends.node, says) == rows(publisher, says), "the node to catch up")
        assert {key: text for key, text in ends.texts().items() if key in ("articles/1", "articles/2")} == {
            "articles/1": "Before",
            "articles/2": "After",
        }
        primary.stop()
        wait_for(lambda: [severity for severity, _, _ in rows(ends.node, HEALTH)] == ["error"], "health() to say so")
        capsys.readouterr()
        ends.subscribe("--undo", status=1)
        assert "pg_drop_replication_slot('graphrag_node')" in capsys.readouterr().err
        assert value(ends.node, "SELECT count(*) FROM pg_subscription") == 0
        assert len(ends.texts()) == 20
        assert "CREATE TABLE shop.articles" in node.log
        assert "sesame" not in node.log
