"""attach_table(): the rows of an application's table are documents, whatever the application does to them."""

from __future__ import annotations

import uuid
from collections.abc import Iterator
from typing import Any

import psycopg
import pytest
from psycopg import errors

from tests.runtime.cluster import Cluster, Database

APP = "attach_app"
ARTICLES = "id int PRIMARY KEY, headline text, body text, tags text[], hits int DEFAULT 0"


@pytest.fixture
def app(db: Database) -> Iterator[Database]:
    """A session of an ordinary role, which owns its tables and may only call the two functions."""
    db.execute(
        f"DO $$ BEGIN CREATE ROLE {APP}; EXCEPTION WHEN duplicate_object OR unique_violation THEN NULL; END $$;"
        f"GRANT USAGE ON SCHEMA graphrag TO {APP};"
        f"GRANT EXECUTE ON FUNCTION graphrag.attach_table, graphrag.detach_table TO {APP};"
        f"CREATE SCHEMA app AUTHORIZATION {APP}"
    )
    with session(db) as connection:
        yield connection
    db.execute(f"DROP OWNED BY {APP} CASCADE")


def session(db: Database) -> Database:
    connection = Database.open(db.url)
    connection.execute(f"SET ROLE {APP}")
    connection.execute("SET search_path = app")
    return connection


def attach(app: Database, key: str = "id", table: str = "articles", corpus: str = "default", **columns: Any) -> None:
    app.execute(
        "SELECT graphrag.attach_table(%s::regclass, %s, %s::name, %s::name[], %s::name, %s::name[])",
        [table, corpus, key, columns.get("content", ["body"]), columns.get("title"), columns.get("metadata", [])],
    )


def articles(app: Database, rows: int = 0) -> None:
    app.execute(f"CREATE TABLE articles ({ARTICLES})".encode())
    app.execute("INSERT INTO articles SELECT n, 'Title ' || n, 'Body ' || n FROM generate_series(1, %s) n", [rows])
    attach(app, title="headline")


def documents(db: Database) -> dict[str, str]:
    return dict(db.execute("SELECT source_key, content FROM graphrag.documents").fetchall())


def queued(db: Database) -> list[tuple[str, str]]:
    """Kind and key of the jobs of documents."""
    return db.execute(
        "SELECT j.kind, coalesce(d.source_key,"
        " '') FROM graphrag.jobs j"
        " LEFT JOIN graphrag.documents d ON d.id = j.document_id"
        " WHERE j.document_id IS NOT NULL ORDER BY 1, 2"
    ).fetchall()


def indexed(db: Database) -> None:
    """As if a worker had indexed everything."""
    db.execute("UPDATE graphrag.documents SET indexed_hash = content_hash, indexed_at = now(), status = 'indexed'")
    db.execute("DELETE FROM graphrag.jobs WHERE document_id IS NOT NULL")


def backfill(db: Database) -> int:
    """Do the jobs of kind attach that are due, and no others; return how many steps they took."""
    due = "SELECT 1 FROM graphrag.jobs WHERE kind = 'attach' AND state = 'pending' AND next_attempt_at <= now()"
    others = (
        "UPDATE graphrag.jobs SET next_attempt_at = 'infinity' WHERE kind <> 'attach' AND next_attempt_at <> 'infinity'"
    )
    for step in range(1000):
        db.execute(others)
        if not db.execute(due).fetchall():
            return step
        db.execute("CALL graphrag.process_jobs(1)")
    raise AssertionError("the backfill does not end")


def backfill_later(db: Database) -> int:
    db.execute("UPDATE graphrag.jobs SET next_attempt_at = now() WHERE kind = 'attach'")
    return backfill(db)


def isolated(app: Database, level: str) -> None:
    app.execute(f"SET default_transaction_isolation = '{level}'".encode())


# What follows


def test_rows_become_documents_with_title_content_and_metadata(db: Database, app: Database) -> None:
    app.execute("SET timezone = 'Asia/Tokyo'; SET datestyle = 'German'")
    app.execute(
        "CREATE TABLE articles (id int PRIMARY"
        " KEY, headline text, lead"
        " text, body text, n numeric, at timestamptz, ok bool)"
    )
    attach(app, content=["lead", "body"], title="headline", metadata=["n", "at", "ok"])
    app.execute(
        "INSERT INTO articles VALUES (1, 'Hi',"
        " 'One.', 'Two.', 1.5, '2024-02-03"
        " 00:00+09', true), (2, NULL, NULL, 'x', NULL, NULL, NULL)"
    )
    rows = db.execute("SELECT source_key, title, content, metadata FROM graphrag.documents ORDER BY 1").fetchall()
    assert rows == [
        ("1", "Hi", "One.\n\nTwo.", {"n": 1.5, "at": "2024-02-02T15:00:00+00:00", "ok": True}),
        ("2", None, "x", {"n": None, "at": None, "ok": None}),
    ]


def test_insert_update_delete_follow_in_the_same_transaction(db: Database, app: Database) -> None:
    articles(app)
    with app.transaction(force_rollback=True):
        app.execute("INSERT INTO articles VALUES (9, 't', 'rolled back')")
    app.execute("INSERT INTO articles VALUES (1, 't', 'one'), (2, 't', 'two'), (3, 't', 'three')")
    app.execute("UPDATE articles SET body = 'TWO' WHERE id = 2")
    app.execute("DELETE FROM articles WHERE id = 3")
    assert documents(db) == {"1": "one", "2": "TWO"}


def test_upsert_copy_and_merge_follow(db: Database, app: Database) -> None:
    articles(app)
    with app.cursor().copy("COPY articles (id, body) FROM STDIN") as copy:
        copy.write("1\tone\n2\ttwo\n3\tthree\n")
    app.execute(
        "INSERT INTO articles (id, body) VALUES"
        " (1, 'ONE'), (4, 'four') ON"
        " CONFLICT (id) DO UPDATE SET body = excluded.body"
    )
    app.execute(
        "MERGE INTO articles a USING (VALUES (2, 'TWO'), (3, NULL), (5, 'five')) v (id, body) ON a.id = v.id"
        " WHEN MATCHED AND v.body IS NULL THEN DELETE WHEN MATCHED THEN UPDATE SET body = v.body"
        " WHEN NOT MATCHED THEN INSERT (id, body) VALUES (v.id, v.body)"
    )
    assert documents(db) == {"1": "ONE", "2": "TWO", "4": "four", "5": "five"}


def test_row_deleted_and_inserted_in_one_statement_keeps_its_document(db: Database, app: Database) -> None:
    articles(app)
    app.execute("INSERT INTO articles VALUES (1, 't', 'old')")
    app.execute(
        "WITH gone AS (DELETE FROM articles WHERE id = 1 RETURNING id)"
        " INSERT INTO articles SELECT id, 't', 'new' FROM gone"
    )
    assert documents(db) == {"1": "new"}


def test_truncate_removes_the_documents_of_this_table_only(db: Database, app: Database) -> None:
    articles(app, rows=3)
    backfill(db)
    db.execute("INSERT INTO graphrag.documents (source_key, content) VALUES ('by hand', 'x')")
    app.execute("TRUNCATE articles")
    assert documents(db) == {"by hand": "x"}


def test_cascading_delete_follows(db: Database, app: Database) -> None:
    app.execute("CREATE TABLE authors (id int PRIMARY KEY)")
    app.execute(
        "CREATE TABLE articles (id int PRIMARY KEY, body text, author int REFERENCES authors ON DELETE CASCADE)"
    )
    attach(app)
    app.execute("INSERT INTO authors VALUES (1), (2); INSERT INTO articles VALUES (1, 'a', 1), (2, 'b', 2)")
    app.execute("DELETE FROM authors WHERE id = 1")
    assert documents(db) == {"2": "b"}


def test_key_change_is_delete_and_insert(db: Database, app: Database) -> None:
    articles(app)
    app.execute("INSERT INTO articles VALUES (1, 't', 'one'), (2, 't', 'two')")
    before = dict(db.execute("SELECT source_key, id FROM graphrag.documents").fetchall())
    app.execute("UPDATE articles SET id = 10 WHERE id = 1")
    assert documents(db) == {"10": "one", "2": "two"}
    after = dict(db.execute("SELECT source_key, id FROM graphrag.documents").fetchall())
    assert after["2"] == before["2"]
    assert after["10"] not in before.values()


def test_shifted_keys_carry_their_content_along(db: Database, app: Database) -> None:
    app.execute("CREATE TABLE articles (id int NOT NULL UNIQUE, body text)")
    attach(app)
    app.execute("INSERT INTO articles SELECT n, 'Body ' || n FROM generate_series(10, 50, 10) n")
    app.execute("UPDATE articles SET id = id - 10")
    assert documents(db) == {str(n): f"Body {n + 10}" for n in range(0, 50, 10)}


def test_triggers_of_the_application_have_the_last_word(db: Database, app: Database) -> None:
    articles(app)
    app.execute(
        "CREATE FUNCTION shout() RETURNS trigger LANGUAGE plpgsql SET search_path = app AS"
        " $$ BEGIN UPDATE articles SET body = upper(body) WHERE id = NEW.id; RETURN NULL; END $$;"
        "CREATE TRIGGER a_shout AFTER INSERT ON articles FOR EACH ROW EXECUTE FUNCTION shout()"
    )
    app.execute("INSERT INTO articles VALUES (1, 't', 'one')")
    assert documents(db) == {"1": "ONE"}


def test_partitioned_table_follows_moves_and_refuses_its_partitions(db: Database, app: Database) -> None:
    app.execute(
        "CREATE TABLE articles (id uuid, at date, body text, PRIMARY KEY (id, at)) PARTITION BY RANGE (at);"
        "CREATE TABLE y2023 PARTITION OF articles FOR VALUES FROM ('2023-01-01') TO ('2024-01-01');"
        "CREATE TABLE y2024 PARTITION OF articles FOR VALUES FROM ('2024-01-01') TO ('2025-01-01')"
    )
    with pytest.raises(errors.WrongObjectType, match="y2023"):
        attach(app, table="y2023")
    key = uuid.uuid4()
    app.execute("INSERT INTO articles VALUES (%s, '2023-05-05', 'one')", [key])
    attach(app)
    app.execute("INSERT INTO articles VALUES (gen_random_uuid(), '2024-05-05', 'two')")
    backfill(db)
    app.execute("UPDATE articles SET at = '2024-06-06', body = 'ONE' WHERE id = %s", [key])
    assert sorted(documents(db).values()) == ["ONE", "two"]
    assert documents(db)[str(key)] == "ONE"
    app.execute("DELETE FROM articles WHERE id = %s", [key])
    assert list(documents(db).values()) == ["two"]
    app.execute("TRUNCATE articles")
    assert documents(db) == {}


@pytest.mark.parametrize(
    ("type_name", "keys"),
    [
        ("bigint", ["-5", "9223372036854775807"]),
        ("uuid", ["00000000-0000-0000-0000-000000000001", "ffffffff-0000-0000-0000-000000000001"]),
        ("text", ["", 'it\'s \\ "$$" {x}', "日本 語"]),
        ("varchar(5)", ["a", "é"]),
        ("char(4)", ["a", "bcde"]),
        ("numeric", ["1.50", "2"]),
        ("timestamptz", ["2024-01-01 00:00:00+00", "2024-07-01 12:30:00.5+00"]),
        ("date", ["2024-01-31"]),
        ("float8", ["0.1", "1e+300", "NaN"]),
        ("boolean", ["true", "false"]),
        ("text[]", ["{a,b}", '{"a b",NULL}']),
        ("positive", ["1", "20"]),
        ("citext", ["Abc", "abd"]),
    ],
)
def test_any_key_type_is_backfilled_and_followed(db: Database, app: Database, type_name: str, keys: list[str]) -> None:
    db.execute(
        "CREATE EXTENSION IF NOT EXISTS citext SCHEMA"
        " public; SET ROLE attach_app;"
        " CREATE DOMAIN app.positive AS int CHECK"
        " (VALUE > 0); RESET ROLE"
    )
    app.execute(
        "SET search_path = app, public; SET"
        " timezone = 'America/New_York';"
        " SET datestyle = 'German'; SET extra_float_digits = 0"
    )
    app.execute(f"CREATE TABLE articles (key {type_name} PRIMARY KEY, body text)".encode())
    usable = [key for key in keys if key]
    attached = iter(usable)
    app.execute(f"INSERT INTO articles VALUES (%s::text::{type_name}, 'first')".encode(), [next(attached)])
    attach(app, key="key")
    for key in attached:
        app.execute(f"INSERT INTO articles VALUES (%s::text::{type_name}, 'later')".encode(), [key])
    backfill(db)
    assert documents(db) == {key: "later" if place else "first" for place, key in enumerate(usable)}
    app.execute("UPDATE articles SET body = 'changed'")
    assert set(documents(db).values()) == {"changed"}
    app.execute("DELETE FROM articles")
    assert documents(db) == {}
    if "" in keys:
        with pytest.raises(errors.CheckViolation, match="cannot name a document"):
            app.execute("INSERT INTO articles VALUES ('', 'x')")


def test_keys_equal_to_their_collation_only_are_two_documents(db: Database, app: Database) -> None:
    db.execute("CREATE COLLATION public.loose (provider = icu, locale = 'und-u-ks-level2', deterministic = false)")
    app.execute("CREATE TABLE articles (id text COLLATE public.loose PRIMARY KEY, body text COLLATE public.loose)")
    app.execute("INSERT INTO articles VALUES ('Abc', 'text')")
    attach(app)
    backfill(db)
    app.execute("UPDATE articles SET id = 'ABC', body = 'TEXT'")
    assert documents(db) == {"ABC": "TEXT"}


def test_more_than_fifty_columns_are_taken(db: Database, app: Database) -> None:
    names = [f"c{n}" for n in range(130)]
    app.execute(
        f"CREATE TABLE articles (id int PRIMARY KEY,"
        f" {', '.join(f'{name} text DEFAULT {name!r}' for name in names)})".encode()
    )
    attach(app, content=names, metadata=names)
    app.execute("INSERT INTO articles VALUES (1)")
    content, metadata = db.execute("SELECT content, metadata FROM graphrag.documents").fetchall()[0]
    assert content == "\n\n".join(names)
    assert metadata == {name: name for name in names}


def test_names_that_need_quotes_work(db: Database, app: Database) -> None:
    app.execute('CREATE TABLE "Bad ""r."" % name" ("r.id" int PRIMARY KEY, "The \'Body\'; --" text, "$1" text)')
    attach(
        app, table='"Bad ""r."" % name"', key="r.id", content=["The 'Body'; --"], title="$1", metadata=["$1", "r.id"]
    )
    app.execute("""INSERT INTO "Bad ""r."" % name" VALUES (1, 'b', 't')""")
    app.execute("""UPDATE "Bad ""r."" % name" SET "r.id" = 2""")
    rows = db.execute("SELECT source_key, title, content, metadata FROM graphrag.documents").fetchall()
    assert rows == [("2", "t", "b", {"$1": "t", "r.id": 2})]


# What costs nothing


def test_unchanged_content_queues_nothing_and_does_not_touch_the_document(db: Database, app: Database) -> None:
    articles(app, rows=5)
    backfill(db)
    indexed(db)
    before = db.execute("SELECT id, xmin::text, xmax::text FROM graphrag.documents ORDER BY 1").fetchall()
    app.execute("UPDATE articles SET hits = hits + 1, body = body")
    assert queued(db) == []
    assert db.execute("SELECT id, xmin::text, xmax::text FROM graphrag.documents ORDER BY 1").fetchall() == before


def test_changed_metadata_is_written_but_not_indexed(db: Database, app: Database) -> None:
    app.execute(f"CREATE TABLE articles ({ARTICLES})".encode())
    attach(app, metadata=["hits"])
    app.execute("INSERT INTO articles VALUES (1, 't', 'one')")
    indexed(db)
    app.execute("UPDATE articles SET hits = 7")
    assert db.execute("SELECT metadata FROM graphrag.documents").fetchall() == [({"hits": 7},)]
    assert queued(db) == []


def test_changed_content_queues_the_changed_rows_only(db: Database, app: Database) -> None:
    articles(app, rows=5)
    backfill(db)
    indexed(db)
    app.execute("UPDATE articles SET body = CASE WHEN id = 3 THEN 'new' ELSE body END")
    app.execute("DELETE FROM articles WHERE id = 5")
    assert queued(db) == [("index", "3"), ("remove", "")]


# Existing rows


def test_twenty_thousand_rows_are_backfilled_in_batches(db: Database, app: Database) -> None:
    articles(app, rows=20_000)
    assert documents(db) == {}
    assert backfill(db) == 41
    assert documents(db) == {str(n): f"Body {n}" for n in range(1, 20_001)}
    assert db.execute("SELECT count(*) FROM graphrag.jobs WHERE kind = 'index'").fetchall() == [(20_000,)]


def test_backfill_resumes_where_a_worker_ended(db: Database, app: Database) -> None:
    articles(app, rows=1200)
    db.execute("CALL graphrag.process_jobs(1)")
    assert len(documents(db)) == 500
    assert backfill(db) == 2
    assert len(documents(db)) == 1200


def test_rows_locked_by_the_application_are_done_later_and_as_they_are_then(db: Database, app: Database) -> None:
    articles(app, rows=6)
    with session(db) as other, other.transaction():
        other.execute("UPDATE articles SET hits = 1 WHERE id = 1")
        other.execute("UPDATE articles SET body = 'changed' WHERE id = 2")
        other.execute("DELETE FROM articles WHERE id = 3")
        other.execute("UPDATE articles SET id = 40 WHERE id = 4")
        other.execute("INSERT INTO articles VALUES (7, 't', 'Body 7')")
        backfill(db)
        assert documents(db) == {"5": "Body 5", "6": "Body 6"}
    assert backfill(db) == 0, "the rest is to be looked at later"
    assert backfill_later(db) == 1
    assert documents(db) == {"1": "Body 1", "2": "changed", "40": "Body 4", "5": "Body 5", "6": "Body 6", "7": "Body 7"}
    assert db.execute("SELECT 1 FROM graphrag.jobs WHERE kind = 'attach'").fetchall() == []


def test_worker_does_not_wait_for_a_locked_table(db: Database, app: Database) -> None:
    articles(app, rows=3)
    db.execute("SET lock_timeout = '2s'")
    with app.transaction():
        app.execute("LOCK TABLE articles")
        assert backfill(db) == 1
        assert documents(db) == {}
    assert backfill_later(db) == 1
    assert len(documents(db)) == 3


@pytest.mark.parametrize(
    "statement", ["DELETE FROM articles WHERE id = 2", "UPDATE articles SET id = 20 WHERE id = 2", "TRUNCATE articles"]
)
@pytest.mark.parametrize("level", ["read committed", "repeatable read", "serializable"])
def test_backfill_between_snapshot_and_delete_leaves_no_orphan(
    db: Database, app: Database, level: str, statement: str
) -> None:
    articles(app, rows=3)
    isolated(app, level)
    with app.transaction():
        app.execute("SELECT count(*) FROM articles")
        backfill(db)
        app.execute(statement.encode())
    backfill_later(db)
    rows = app.execute("SELECT id::text, body FROM articles").fetchall()
    assert documents(db) == dict(rows)


def test_transaction_older_than_attach_is_told_to_try_again(db: Database, app: Database) -> None:
    app.execute(f"CREATE TABLE articles ({ARTICLES})".encode())
    with session(db) as old:
        isolated(old, "repeatable read")
        with pytest.raises(errors.SerializationFailure), old.transaction():
            old.execute("SELECT 1")
            attach(app)
            old.execute("INSERT INTO articles VALUES (1, 't', 'one')")
        old.execute("INSERT INTO articles VALUES (1, 't', 'one')")
    assert documents(db) == {"1": "one"}


def test_attach_waits_for_open_writers_so_no_row_is_lost(db: Database, app: Database) -> None:
    app.execute(f"CREATE TABLE articles ({ARTICLES})".encode())
    with session(db) as writer:
        with writer.transaction():
            writer.execute("INSERT INTO articles VALUES (1, 't', 'one')")
            app.execute("SET lock_timeout = '300ms'")
            with pytest.raises(errors.LockNotAvailable):
                attach(app)
        attach(app)
    backfill(db)
    assert documents(db) == {"1": "one"}


def test_documents_written_by_hand_are_taken_over_by_their_key(db: Database, app: Database) -> None:
    db.execute(
        "INSERT INTO graphrag.documents"
        " (source_key, title, content)"
        " VALUES ('1', 'Title 1', 'Body 1'), ('2', 'x', 'stale')"
    )
    indexed(db)
    articles(app, rows=2)
    backfill(db)
    assert documents(db) == {"1": "Body 1", "2": "Body 2"}
    assert queued(db) == [("index", "2")]
    app.execute("DELETE FROM articles")
    assert documents(db) == {}


# Who may, and what


def test_only_the_owner_may_attach_and_detach(db: Database, app: Database) -> None:
    db.execute("CREATE TABLE public.secret (id int PRIMARY KEY, body text); GRANT ALL ON public.secret TO attach_app")
    with pytest.raises(errors.InsufficientPrivilege, match=r"must be owner of table public\.secret"):
        attach(app, table="public.secret")
    db.execute("SELECT graphrag.attach_table('public.secret', 'default', 'id', '{body}')")
    with pytest.raises(errors.InsufficientPrivilege, match=r"must be owner of table public\.secret"):
        app.execute("SELECT graphrag.detach_table('public.secret')")


def test_a_superusers_session_lends_no_rights_to_functions_of_others(db: Database, app: Database) -> None:
    """ANALYZE runs index expressions as the table's owner inside the superuser's session."""
    db.execute("CREATE TABLE public.secret (id int PRIMARY KEY, body text)")
    app.execute(
        "CREATE FUNCTION steal(int) RETURNS int LANGUAGE plpgsql IMMUTABLE AS"
        " $$ BEGIN PERFORM graphrag.attach_table('public.secret', 'default', 'id', '{body}'); RETURN 1; END $$;"
        "CREATE FUNCTION steal_as_definer() RETURNS void LANGUAGE sql SECURITY DEFINER AS 'SELECT app.steal(1)';"
        "CREATE TABLE bait (n int); CREATE INDEX ON bait (steal(n)); "
    )
    with pytest.raises(errors.InsufficientPrivilege, match="must be owner"):
        app.execute("INSERT INTO bait VALUES (1)")
    with pytest.raises(errors.InsufficientPrivilege, match="must be owner"):
        db.execute("SELECT app.steal_as_definer()")
    app.execute("DROP TABLE bait; CREATE TABLE bait (n int); INSERT INTO bait VALUES (1)")
    app.execute("CREATE MATERIALIZED VIEW copy AS SELECT app.steal(n) FROM bait WITH NO DATA")
    with pytest.raises(errors.InsufficientPrivilege, match="must be owner"):
        db.execute("REFRESH MATERIALIZED VIEW app.copy")
    assert db.execute("SELECT count(*) FROM graphrag.attached_tables").fetchall() == [(0,)]


def test_caller_cannot_be_forged_and_execute_is_needed(db: Database, app: Database) -> None:
    app.execute(f"CREATE TABLE articles ({ARTICLES})".encode())
    with pytest.raises(errors.InsufficientPrivilege):
        app.execute("INSERT INTO graphrag._attach_requests (caller, action, source) VALUES ('postgres', 'detach', 1)")
    db.execute("REVOKE EXECUTE ON FUNCTION graphrag.attach_table FROM attach_app")
    with pytest.raises(errors.InsufficientPrivilege):
        attach(app)
    with pytest.raises(errors.InsufficientPrivilege, match="may not call"):
        app.execute(
            "INSERT INTO graphrag._attach_requests"
            " (action, source, corpus,"
            " key_column, content_columns, metadata_columns)"
            " VALUES ('attach', 'articles'::regclass, 'default', 'id', '{body}', '{}')"
        )


def test_casts_of_the_owner_never_run_with_our_rights(db: Database, app: Database) -> None:
    app.execute(
        "CREATE TYPE mood AS ENUM ('good', 'bad'); CREATE TYPE pair AS (a mood, b int);"
        "CREATE FUNCTION evil(mood) RETURNS text"
        " LANGUAGE plpgsql AS $$"
        " BEGIN RAISE 'evil ran as %', current_user; END $$;"
        "CREATE FUNCTION evil(pair) RETURNS json"
        " LANGUAGE plpgsql AS $$"
        " BEGIN RAISE 'evil ran as %', current_user; END $$;"
        "CREATE CAST (mood AS text) WITH FUNCTION"
        " evil(mood) AS IMPLICIT;"
        " CREATE CAST (pair AS json) WITH FUNCTION evil(pair);"
        "CREATE TABLE articles (id int PRIMARY KEY, body mood, all_of mood[], both_of pair)"
    )
    attach(app, content=["body", "both_of"], title="all_of", metadata=["body", "all_of", "both_of"])
    app.execute("INSERT INTO articles VALUES (1, 'good', '{good,bad}', ROW('bad', 1))")
    app.execute("UPDATE articles SET body = 'bad'")
    rows = db.execute("SELECT title, content, metadata FROM graphrag.documents").fetchall()
    assert rows == [("{good,bad}", "bad\n\n(bad,1)", {"body": "bad", "all_of": "{good,bad}", "both_of": "(bad,1)"})]
    app.execute("CREATE TABLE moods (id mood PRIMARY KEY, body text)")
    with pytest.raises(errors.DatatypeMismatch, match="mood"):
        attach(app, table="moods", corpus="default")


def test_a_trigger_of_ones_own_feeds_no_corpus(db: Database, app: Database) -> None:
    articles(app)
    app.execute(f"CREATE TABLE forged ({ARTICLES})".encode())
    make = (
        "CREATE TRIGGER graphrag_1_insert AFTER INSERT ON app.forged REFERENCING NEW TABLE AS inserted"
        " FOR EACH STATEMENT EXECUTE FUNCTION graphrag._attached_changed('1')"
    )
    with pytest.raises(errors.InsufficientPrivilege):
        app.execute(make.encode())
    db.execute(make.encode())
    with pytest.raises(errors.ObjectNotInPrerequisiteState, match=r"app\.forged is not attached"):
        app.execute("INSERT INTO forged VALUES (1, 't', 'forged')")
    assert documents(db) == {}


@pytest.mark.parametrize(
    ("make", "hint"),
    [
        ("CREATE VIEW thing AS SELECT 1 AS id, 'x' AS body", "view"),
        ("CREATE MATERIALIZED VIEW thing AS SELECT 1 AS id, 'x' AS body", "materialized view"),
        ("CREATE TEMP TABLE thing (id int PRIMARY KEY, body text)", "temporary"),
        ("CREATE UNLOGGED TABLE thing (id int PRIMARY KEY, body text)", "unlogged"),
        ("CREATE SEQUENCE thing", "not a table"),
        ("CREATE TABLE thing (id int PRIMARY KEY, body text); CREATE TABLE child () INHERITS (thing)", "inherit"),
    ],
)
def test_what_has_no_triggers_to_rely_on_is_refused(app: Database, make: str, hint: str) -> None:
    app.execute(make.encode())
    app.execute("SET search_path = pg_temp, app")
    with pytest.raises(errors.WrongObjectType) as refused:
        attach(app, table="thing")
    assert hint in str(refused.value.diag.message_hint)


def test_foreign_and_system_tables_are_refused(db: Database) -> None:
    db.execute(
        "CREATE EXTENSION file_fdw; CREATE SERVER files FOREIGN DATA WRAPPER file_fdw;"
        "CREATE FOREIGN TABLE public.far (id int, body text) SERVER files OPTIONS (filename '/dev/null')"
    )
    db.execute("SELECT graphrag.create_corpus('default')")
    for table in ("public.far", "pg_catalog.pg_proc", "graphrag.documents", "ag_catalog.ag_graph"):
        with pytest.raises(errors.WrongObjectType, match="cannot be attached"):
            attach(db, table=table)


@pytest.mark.parametrize(
    "definition",
    [
        "id int, n int, body text, PRIMARY KEY (id, n)",
        "id int, body text",
        "id int UNIQUE, body text",
        "id int NOT NULL UNIQUE DEFERRABLE, body text",
        "id int NOT NULL, body text, EXCLUDE USING btree (id WITH =)",
    ],
)
def test_what_is_not_a_key_is_refused_with_a_way_out(app: Database, definition: str) -> None:
    app.execute(f"CREATE TABLE articles ({definition})".encode())
    with pytest.raises(
        errors.InvalidParameterValue, match=r'column "id" is not a key of table app\.articles'
    ) as refused:
        attach(app)
    assert "GENERATED ALWAYS AS" in str(refused.value.diag.message_hint)


def test_composite_key_works_as_the_hint_says(db: Database, app: Database) -> None:
    app.execute("CREATE TABLE articles (a int, b int, body text, PRIMARY KEY (a, b))")
    app.execute("ALTER TABLE articles ADD document_key text GENERATED ALWAYS AS (a || '/' || b) STORED NOT NULL UNIQUE")
    attach(app, key="document_key")
    app.execute("INSERT INTO articles VALUES (1, 2, 'x'), (1, 3, 'y')")
    app.execute("UPDATE articles SET b = 4 WHERE b = 3")
    assert documents(db) == {"1/2": "x", "1/4": "y"}


@pytest.mark.parametrize(
    ("arguments", "error", "says"),
    [
        (
            "'articles', 'default', 'id', '{body,nope}', 'none', '{nay}'",
            errors.UndefinedColumn,
            '"nay", "none", "nope"',
        ),
        ("'articles', 'default', 'id', '{ctid}'", errors.UndefinedColumn, '"ctid"'),
        ("'articles', 'default', 'id', '{}'", errors.NullValueNotAllowed, "content column"),
        ("'articles', 'default', 'id', '{body,NULL}'", errors.NullValueNotAllowed, "null"),
        ("'articles', NULL, 'id', '{body}'", errors.NullValueNotAllowed, "corpus"),
        ("'articles', 'default', 'id', '{body,body}'", errors.DuplicateColumn, '"body"'),
        ("'articles', 'default', 'id', '{raw}'", errors.DatatypeMismatch, '"raw"'),
        ("'articles', 'nowhere', 'id', '{body}'", errors.UndefinedObject, '"nowhere"'),
        ("'missing', 'default', 'id', '{body}'", errors.UndefinedTable, "missing"),
    ],
)
def test_wrong_arguments_are_named(
    db: Database, app: Database, arguments: str, error: type[psycopg.Error], says: str
) -> None:
    app.execute("CREATE TABLE articles (id int PRIMARY KEY, body text, raw bytea)")
    with pytest.raises(error, match=says):
        app.execute(f"SELECT graphrag.attach_table({arguments})".encode())
    assert db.execute(
        "SELECT (SELECT count(*) FROM graphrag.attached_tables), (SELECT count(*) FROM graphrag.jobs)"
    ).fetchall() == [(0, 0)]


def test_attaching_twice_is_refused_but_two_corpora_may_take_one_table(db: Database, app: Database) -> None:
    articles(app, rows=1)
    with pytest.raises(errors.DuplicateObject, match="already attached"):
        attach(app)
    db.execute("SELECT graphrag.create_corpus('second')")
    attach(app, corpus="second")
    backfill(db)
    app.execute("UPDATE articles SET body = 'new'")
    assert db.execute("SELECT corpus, content FROM graphrag.documents ORDER BY 1").fetchall() == [
        ("default", "new"),
        ("second", "new"),
    ]
    app.execute("SELECT graphrag.detach_table('articles', 'second', keep_documents => false)")
    app.execute("UPDATE articles SET body = 'newer'")
    assert db.execute("SELECT corpus, content FROM graphrag.documents").fetchall() == [("default", "newer")]


def test_two_tables_in_a_corpus_never_take_each_others_documents(db: Database, app: Database) -> None:
    articles(app)
    app.execute("CREATE TABLE comments (id bigint PRIMARY KEY, body text, slug text NOT NULL UNIQUE)")
    with pytest.raises(errors.ObjectNotInPrerequisiteState, match="numeric key") as refused:
        attach(app, table="comments")
    assert "GENERATED ALWAYS AS" in str(refused.value.diag.message_hint)
    attach(app, table="comments", key="slug")
    app.execute("INSERT INTO articles VALUES (1, 't', 'article')")
    app.execute("INSERT INTO comments VALUES (1, 'comment', 'c1')")
    with pytest.raises(errors.UniqueViolation, match=r"comes from another table, app\.articles"):
        app.execute("INSERT INTO comments VALUES (2, 'thief', '1')")
    app.execute("DELETE FROM comments")
    assert documents(db) == {"1": "article"}


def test_backfill_that_meets_anothers_key_is_a_dead_letter_that_says_so(db: Database, app: Database) -> None:
    articles(app, rows=1)
    backfill(db)
    app.execute(
        "CREATE TABLE comments (slug text PRIMARY KEY, body text); INSERT INTO comments VALUES ('1', 'x'), ('2', 'y')"
    )
    attach(app, table="comments", key="slug")
    for _ in range(3):
        backfill_later(db)
    ((kind, error),) = db.execute("SELECT kind, last_error FROM graphrag.failed_jobs").fetchall()
    assert kind == "attach"
    assert "comes from another table, app.articles" in error
    assert documents(db) == {"1": "Body 1"}


# Later


def test_detach_keeps_the_documents_unless_told_otherwise(db: Database, app: Database) -> None:
    articles(app, rows=2)
    backfill(db)
    app.execute("SELECT graphrag.detach_table('articles')")
    app.execute("DELETE FROM articles WHERE id = 1; INSERT INTO articles VALUES (3, 't', 'x')")
    assert documents(db) == {"1": "Body 1", "2": "Body 2"}
    with pytest.raises(errors.UndefinedObject, match="is not attached"):
        app.execute("SELECT graphrag.detach_table('articles')")
    attach(app)
    app.execute("SELECT graphrag.detach_table('articles', keep_documents => false)")
    assert documents(db) == {"1": "Body 1", "2": "Body 2"}, "not this attachment's yet"
    assert db.execute("SELECT 1 FROM graphrag.jobs WHERE kind = 'attach'").fetchall() == []


def test_attaching_again_brings_what_bypassed_the_triggers_up_to_date(db: Database, app: Database) -> None:
    articles(app, rows=4)
    backfill(db)
    indexed(db)
    app.execute("ALTER TABLE articles DISABLE TRIGGER USER")
    app.execute("UPDATE articles SET body = 'new' WHERE id = 2; INSERT INTO articles VALUES (5, 't', 'five')")
    app.execute("ALTER TABLE articles ENABLE TRIGGER USER")
    app.execute("SELECT graphrag.detach_table('articles')")
    attach(app, title="headline")
    backfill(db)
    assert documents(db) == {"1": "Body 1", "2": "new", "3": "Body 3", "4": "Body 4", "5": "five"}
    assert queued(db) == [("index", "2"), ("index", "5")]


def test_renamed_table_stays_attached(db: Database, app: Database) -> None:
    articles(app)
    app.execute("ALTER TABLE articles RENAME TO posts")
    app.execute("INSERT INTO posts VALUES (1, 't', 'one')")
    assert documents(db) == {"1": "one"}
    assert db.execute("SELECT table_name FROM graphrag.attached_tables").fetchall() == [("posts",)]
    app.execute(f"CREATE TABLE articles ({ARTICLES}); INSERT INTO articles VALUES (2, 't', 'not attached')".encode())
    assert documents(db) == {"1": "one"}


def test_dropped_column_stops_writes_with_the_way_out(db: Database, app: Database) -> None:
    articles(app, rows=1)
    backfill(db)
    app.execute("ALTER TABLE articles RENAME body TO text")
    with pytest.raises(errors.UndefinedColumn, match='"body"') as refused:
        app.execute("INSERT INTO articles VALUES (2, 't', 'two')")
    assert "detach_table('app.articles', 'default')" in str(refused.value.diag.message_hint)
    app.execute("SELECT graphrag.detach_table('articles')")
    attach(app, content=["text"], title="headline")
    app.execute("INSERT INTO articles VALUES (2, 't', 'two')")
    assert documents(db) == {"1": "Body 1", "2": "two"}


def test_dropped_table_is_detached_by_its_number(db: Database, app: Database) -> None:
    articles(app, rows=2)
    app.execute("INSERT INTO articles VALUES (3, 't', 'three')")
    app.execute("DROP TABLE articles")
    backfill(db)
    assert db.execute("SELECT 1 FROM graphrag.jobs WHERE kind = 'attach'").fetchall() == []
    with pytest.raises(errors.InsufficientPrivilege):
        db.execute("GRANT SELECT ON graphrag.attached_tables TO attach_app")
        app.execute("SELECT graphrag.detach_table(relation::regclass) FROM graphrag.attached_tables")
    db.execute(
        "SELECT graphrag.detach_table(relation::regclass, keep_documents => false) FROM graphrag.attached_tables"
    )
    assert documents(db) == {}


def test_dump_and_restore_keep_the_attachment(db: Database, app: Database, shared_cluster: Cluster) -> None:
    articles(app, rows=2)
    backfill(db)
    indexed(db)
    name = db.info.dbname
    db.execute("CREATE TABLE public.filler (n int)")  # so that oids differ
    dump = shared_cluster.dump(name)
    copy = f"{name}_copy"
    shared_cluster.create_database(copy)
    try:
        shared_cluster.restore(copy, dump)
        with shared_cluster.connect(copy) as restored:
            assert restored.execute("SELECT 1 FROM graphrag.jobs").fetchall() == []
            relation, stored = restored.execute(
                "SELECT 'app.articles'::regclass::oid, relation FROM graphrag.attached_tables"
            ).fetchall()[0]
            assert relation != stored
            restored.execute("UPDATE app.articles SET body = 'new' WHERE id = 1; DELETE FROM app.articles WHERE id = 2")
            assert documents(restored) == {"1": "new"}
            assert restored.execute("SELECT relation FROM graphrag.attached_tables").fetchall() == [(relation,)]
            restored.execute("SELECT graphrag.create_corpus('second')")
            restored.execute("SELECT graphrag.attach_table('app.articles', 'second', 'id', '{body}')")
            assert restored.execute("SELECT array_agg(id ORDER BY id) FROM graphrag.attached_tables").fetchall() == [
                ([1, 2],)
            ]
    finally:
        shared_cluster.drop_database(copy)


def test_dropping_extension_or_corpus_leaves_the_table_usable(db: Database, app: Database) -> None:
    articles(app, rows=1)
    db.execute("SELECT graphrag._detach_all(NULL)")
    app.execute("INSERT INTO articles VALUES (2, 't', 'x')")
    assert db.execute("SELECT count(*) FROM graphrag.attached_tables").fetchall() == [(0,)]
    attach(app)
    db.execute("DROP EXTENSION pg_graphrag")
    app.execute("INSERT INTO articles VALUES (3, 't', 'x')")
    assert app.execute("SELECT count(*) FROM pg_trigger WHERE tgrelid = 'articles'::regclass").fetchall() == [(0,)]


def test_drop_corpus_detaches(db: Database, app: Database) -> None:
    db.execute("SELECT graphrag.create_corpus('mine')")
    app.execute(f"CREATE TABLE articles ({ARTICLES})".encode())
    attach(app, corpus="mine")
    app.execute("INSERT INTO articles VALUES (1, 't', 'x')")
    db.execute("SELECT graphrag.drop_corpus('mine')")
    app.execute("INSERT INTO articles VALUES (2, 't', 'x')")
    assert documents(db) == {}
