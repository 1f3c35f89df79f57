"""DDL on an attached table: it never hurts the application, and documents follow it, or it is said why they do not."""

import pytest
from psycopg import errors

from tests.runtime.cluster import Database
from tests.sql.attach import articles, attach, backfill, backfill_by_workers, documents, session, states, unfollowed


def current(db: Database) -> bool:
    return set(states(db).values()) <= {"current"}


@pytest.mark.sample(5)
@pytest.mark.parametrize(
    "statement",
    [
        "ALTER TABLE articles RENAME body TO body_text",
        "ALTER TABLE articles RENAME id TO article_id",
        "ALTER TABLE articles RENAME headline TO title",
        "ALTER TABLE articles RENAME TO posts",
        "ALTER TABLE articles SET SCHEMA other",
        "ALTER SCHEMA app RENAME TO other_app",
        "ALTER TABLE articles ADD more int; ALTER TABLE articles DROP hits",
        "ALTER TABLE articles ALTER body TYPE varchar(100)",
    ],
)
@pytest.mark.parametrize("watched", [True, False])
def test_what_is_renamed_is_followed(db: Database, app: Database, statement: str, watched: bool) -> None:
    """With event triggers, and where nobody may make them."""
    articles(app)
    app.execute("INSERT INTO articles VALUES (1, 't', 'one')")
    backfill(app)
    db.execute("CREATE SCHEMA other AUTHORIZATION attach_app")
    db.execute(f"GRANT CREATE ON DATABASE {db.info.dbname} TO attach_app".encode())
    if not watched:
        db.execute("ALTER EVENT TRIGGER graphrag_attached_altered DISABLE")
    ((relation,),) = db.execute("SELECT relation FROM graphrag._attached_tables").fetchall()
    app.execute(statement.encode())
    ((name,),) = db.execute("SELECT %s::regclass::text", [relation]).fetchall()
    app.execute(f"INSERT INTO {name} VALUES (2, 't', 'two')".encode())
    app.execute(f"DELETE FROM {name} WHERE ctid = '(0,1)'".encode())
    backfill(app)
    assert "2" in documents(db)
    assert current(db)
    db.execute("DROP SCHEMA IF EXISTS other_app CASCADE; DROP SCHEMA other CASCADE")


@pytest.mark.parametrize(
    "statement",
    [
        "ALTER TABLE articles ALTER body TYPE text USING 'redacted'",
        "ALTER TABLE articles ALTER id TYPE int USING id + 10",
        "ALTER TABLE articles ALTER told SET EXPRESSION AS ('redacted')",
    ],
)
def test_values_that_are_written_anew_are_followed(db: Database, app: Database, statement: str) -> None:
    """Of a table, its rows are; no trigger of the table tells, and the types are as before."""
    columns = "id int PRIMARY KEY, body text, note text, told text GENERATED ALWAYS AS (note || '!') STORED"
    app.execute(f"CREATE TABLE articles ({columns})".encode())
    attach(app, content=["body", "told"])
    app.execute("INSERT INTO articles VALUES (1, 'one', 'a'), (2, 'two', 'b')")
    backfill(app)
    assert current(db)
    app.execute(statement.encode())
    assert set(states(db).values()) == {"waiting"}
    backfill(app)
    assert documents(db) == dict(
        db.execute("SELECT id::text, concat_ws(E'\n\n', body, told) FROM app.articles").fetchall()
    )
    assert current(db)


def test_a_rewrite_that_changes_no_value_queues_nothing(db: Database, app: Database) -> None:
    articles(app, rows=2)
    backfill(app)
    app.execute("ALTER TABLE articles SET UNLOGGED; ALTER TABLE articles SET LOGGED")
    backfill(app)
    for statement in ("VACUUM FULL articles", "CLUSTER articles USING articles_pkey", "CREATE TABLE other (a int)"):
        app.execute(statement.encode())
    assert current(db)


@pytest.mark.parametrize(
    ("type_", "old", "new"),
    [("numeric", "1.0", "1.000"), ("float8", "0", "-0"), ("text COLLATE attach_ci", "Straße", "strasse")],
)
def test_a_key_that_is_written_otherwise_and_equals_the_old_one_is_followed(
    db: Database, app: Database, type_: str, old: str, new: str
) -> None:
    app.execute(
        "CREATE COLLATION IF NOT EXISTS attach_ci (provider = icu, locale = 'und-u-ks-level1', deterministic = false)"
    )
    app.execute(f"CREATE TABLE articles (id {type_} PRIMARY KEY, body text)".encode())
    attach(app)
    app.execute("INSERT INTO articles VALUES (%s, 'same')", [old])
    app.execute("UPDATE articles SET id = %s", [new])
    assert documents(db) == dict(db.execute("SELECT id::text, body FROM app.articles").fetchall())
    app.execute("DELETE FROM articles")
    assert documents(db) == {}


def test_metadata_keeps_the_names_that_filters_ask_for(db: Database, app: Database) -> None:
    app.execute("CREATE TABLE articles (id int PRIMARY KEY, body text, lang text)")
    attach(app, metadata=["lang"])
    app.execute("INSERT INTO articles VALUES (1, 'one', 'en')")
    app.execute("ALTER TABLE articles RENAME lang TO language")
    app.execute("INSERT INTO articles VALUES (2, 'two', 'de')")
    backfill(app)
    rows = db.execute("SELECT source_key, metadata FROM graphrag.documents ORDER BY 1").fetchall()
    assert rows == [("1", {"lang": "en"}), ("2", {"lang": "de"})]


def test_column_that_takes_the_place_of_another_is_read(db: Database, app: Database) -> None:
    """A migration without a stop: a new column is filled, the old one dropped, and the new one takes its name."""
    articles(app)
    app.execute("INSERT INTO articles VALUES (1, 't', 'one')")
    backfill(app)
    app.execute("ALTER TABLE articles ADD body2 text; UPDATE articles SET body2 = upper(body)")
    with app.transaction():
        app.execute("ALTER TABLE articles DROP body")
        app.execute("ALTER TABLE articles RENAME body2 TO body")
    backfill(app)
    assert (documents(db), states(db)) == ({"1": "ONE"}, {"app.articles": "current"})


@pytest.mark.sample(3)
@pytest.mark.parametrize(
    ("statement", "sqlstate", "undo"),
    [
        ("ALTER TABLE articles DROP body", "42703", "ALTER TABLE articles ADD body text"),
        ("ALTER TABLE articles DROP headline", "42703", "ALTER TABLE articles ADD headline text"),
        ("ALTER TABLE articles DROP CONSTRAINT articles_pkey", "55000", "ALTER TABLE articles ADD PRIMARY KEY (id)"),
        (
            "ALTER TABLE articles ALTER body TYPE bytea USING body::bytea",
            "42804",
            "ALTER TABLE articles ALTER body TYPE text",
        ),
    ],
)
@pytest.mark.parametrize("watched", [True, False])
def test_what_cannot_be_followed_is_said_once_and_made_good(
    db: Database, app: Database, statement: str, sqlstate: str, undo: str, watched: bool
) -> None:
    articles(app)
    app.execute("INSERT INTO articles VALUES (1, 't', 'one')")
    backfill(app)
    insert = b"INSERT INTO articles (id) VALUES (2)"
    if watched:
        with unfollowed(app, sqlstate):
            app.execute(statement.encode())
        app.execute(insert)
    else:
        db.execute("ALTER EVENT TRIGGER graphrag_attached_altered DISABLE")
        app.execute(statement.encode())
        with unfollowed(app, sqlstate):
            app.execute(insert)
    app.execute("UPDATE articles SET id = 3 WHERE id = 2")
    app.execute("DELETE FROM articles WHERE id = 3")
    assert states(db) == {"app.articles": "broken"}
    ((waiting_for,),) = db.execute("SELECT waiting_for FROM graphrag.progress").fetchall()
    assert "articles" in waiting_for
    assert [row[0] for row in db.execute("SELECT invariant FROM graphrag.check('default')").fetchall()] == [
        "an attached table is there, and can be followed"
    ]
    app.execute(undo.encode())
    app.execute("INSERT INTO articles (id) VALUES (4)")
    assert states(db) == {"app.articles": "waiting"}
    backfill(app)
    assert set(documents(db)) == {"1", "4"}
    assert states(db) == {"app.articles": "current"}


def test_workers_make_good_what_was_mended(db: Database) -> None:
    db.execute("CREATE TABLE public.articles (id int PRIMARY KEY, headline text, body text)")
    attach(db, table="public.articles")
    db.execute("INSERT INTO public.articles VALUES (1, 't', 'one')")
    backfill_by_workers(db)
    db.execute("ALTER EVENT TRIGGER graphrag_attached_altered DISABLE")
    db.execute("ALTER TABLE public.articles DROP body; INSERT INTO public.articles VALUES (2, 't')")
    assert states(db) == {"public.articles": "broken"}
    db.execute("ALTER TABLE public.articles ADD body text DEFAULT 'new'")
    db.execute("CALL graphrag.process_jobs()")
    assert (documents(db), states(db)) == ({"1": "new", "2": "new"}, {"public.articles": "current"})


@pytest.mark.sample(2)
@pytest.mark.parametrize(
    "statement", ["DROP TABLE app.articles", "DROP SCHEMA app CASCADE", "DROP OWNED BY attach_app"]
)
@pytest.mark.parametrize("watched", [True, False])
def test_documents_of_a_dropped_table_go(db: Database, app: Database, statement: str, watched: bool) -> None:
    articles(app, rows=2100)
    backfill(app)
    db.execute("INSERT INTO graphrag.documents (source_key, content) VALUES ('by hand', 'x')")
    if "OWNED" in statement:
        # It takes the right to write the corpus too, which deleting needs.
        db.execute("UPDATE graphrag._attached_tables SET needs_grant = false")
    if not watched:
        db.execute("ALTER EVENT TRIGGER graphrag_attached_dropped DISABLE")
    db.execute(statement.encode())
    assert list(states(db).values()) == ["dropped"]
    assert db.execute("SELECT 1 FROM graphrag.check('default')").fetchall()
    db.execute("UPDATE graphrag.jobs SET next_attempt_at = 'infinity' WHERE kind <> 'attach'")
    db.execute("CALL graphrag.process_jobs()")
    assert documents(db) == {"by hand": "x"}
    assert states(db) == {}


def test_repair_finds_what_was_dropped(db: Database) -> None:
    db.execute("CREATE TABLE public.articles (id int PRIMARY KEY, body text)")
    attach(db, table="public.articles")
    db.execute("INSERT INTO public.articles VALUES (1, 'one')")
    backfill_by_workers(db)
    db.execute("ALTER EVENT TRIGGER graphrag_attached_dropped DISABLE; DROP TABLE public.articles")
    db.execute("SELECT graphrag.repair()")
    assert db.execute("SELECT count(*) FROM graphrag.jobs WHERE kind = 'attach'").fetchall() == [(1,)]


def test_table_that_is_not_there_after_a_restore_keeps_its_documents(db: Database, app: Database) -> None:
    articles(app)
    app.execute("INSERT INTO articles VALUES (1, 't', 'one')")
    backfill(app)
    db.execute("DELETE FROM graphrag._attached_seen")  # which no dump has
    app.execute("DROP TABLE articles")
    db.execute("SELECT graphrag.repair()")
    db.execute("CALL graphrag.process_jobs()")
    assert (documents(db), list(states(db).values())) == ({"1": "one"}, ["missing"])


@pytest.mark.parametrize("partitioned", [False, True])
def test_what_was_written_past_a_trigger_that_was_dropped_is_made_good(
    db: Database, app: Database, partitioned: bool
) -> None:
    """The others are there, so the table is not missing: a worker makes the one anew, and a pass what went by."""
    if partitioned:
        app.execute("CREATE TABLE articles (id int PRIMARY KEY, body text) PARTITION BY RANGE (id)")
        app.execute("CREATE TABLE few PARTITION OF articles FOR VALUES FROM (0) TO (100)")
    else:
        app.execute("CREATE TABLE articles (id int PRIMARY KEY, body text)")
    attach(app)
    app.execute("INSERT INTO articles VALUES (1, 'one'), (2, 'two')")
    backfill(app)
    ((number,),) = db.execute("SELECT id FROM graphrag._attached_tables").fetchall()
    written = "few" if partitioned else "articles"
    app.execute(f"DROP TRIGGER graphrag_{number}_delete ON {written}".encode())
    app.execute(f"DELETE FROM {written}".encode())
    app.execute(f"VACUUM {written}".encode())
    db.execute("CALL graphrag.process_jobs()")
    assert not current(db)
    backfill(app)
    assert documents(db) == {}
    assert current(db)


def test_who_may_not_write_the_corpus_any_more_deletes_nothing_by_a_drop(db: Database, app: Database) -> None:
    articles(app)
    app.execute("INSERT INTO articles VALUES (1, 't', 'one')")
    backfill(app)
    db.execute("REVOKE INSERT ON graphrag.documents FROM attach_app")
    db.execute("REVOKE INSERT (corpus, source_key, title, content, metadata) ON graphrag.documents FROM attach_app")
    app.execute("DROP TABLE articles")
    db.execute("CALL graphrag.process_jobs()")
    assert (documents(db), list(states(db).values())) == ({"1": "one"}, ["dropped"])
    ((hint,),) = db.execute("SELECT hint FROM graphrag.attached_tables").fetchall()
    assert "detach_table(" in hint


def test_own_deadline_and_lock_timeout_still_end_a_statement(db: Database, app: Database) -> None:
    articles(app)
    app.execute("INSERT INTO articles VALUES (1, 't', 'one')")
    with session(db) as other, db.transaction():
        db.execute("SELECT 1 FROM graphrag.documents FOR UPDATE")
        other.execute("SET lock_timeout = '100ms'")
        with pytest.raises(errors.LockNotAvailable):
            other.execute("UPDATE articles SET body = 'x'")
        other.execute("SET lock_timeout = 0; SET statement_timeout = '100ms'")
        with pytest.raises(errors.QueryCanceled):
            other.execute("UPDATE articles SET body = 'x'")
    assert documents(db) == {"1": "one"}


def test_states_are_for_owners_and_monitors_alone(db: Database, app: Database) -> None:
    app.execute("CREATE TABLE articles (key text PRIMARY KEY, body text)")
    attach(app, key="key")
    with unfollowed(app, "23514"):
        app.execute("INSERT INTO articles VALUES (repeat('secret', 1000), 'x')")
    backfill(app)
    query = b"SELECT state, error_code, detail FROM graphrag.attached_tables"
    db.execute("GRANT USAGE ON SCHEMA graphrag TO attach_app")
    ((state, code, detail),) = app.execute(query).fetchall()
    assert (state, code) == ("broken", "23514")
    assert "secret" in detail
    db.execute("DO $$ BEGIN CREATE ROLE attach_other; EXCEPTION WHEN duplicate_object THEN NULL; END $$")
    db.execute("GRANT USAGE ON SCHEMA graphrag TO attach_other; GRANT pg_monitor TO attach_other")
    db.execute("SET ROLE attach_other")
    assert db.execute(query).fetchall() == [("broken", "23514", None)]
    db.execute("RESET ROLE; REVOKE pg_monitor FROM attach_other; SET ROLE attach_other")
    assert db.execute(query).fetchall() == []
    db.execute("RESET ROLE; DROP OWNED BY attach_other; DROP ROLE attach_other")


def test_keys_of_several_columns_are_joined(db: Database, app: Database) -> None:
    app.execute("CREATE TABLE lines (shop text, n int, body text, PRIMARY KEY (n, shop))")
    options = '{"key_columns": ["shop", "n"], "key_prefix": "lines/"}'
    app.execute("SELECT graphrag.attach_table('lines', 'default', NULL, '{body}', options => %s)", [options])
    app.execute("INSERT INTO lines VALUES ('a', 1, 'a1'), ('a/1', 1, 'slash'), ('a\\', 1, 'back'), (E'\\x01', 2, 'x')")
    expected = {"lines/a/1": "a1", "lines/a\\/1/1": "slash", "lines/a\\\\/1": "back", "lines/\x01/2": "x"}
    assert documents(db) == expected
    backfill(app)
    assert documents(db) == expected
    app.execute("ALTER TABLE lines DISABLE TRIGGER USER")
    app.execute(
        "INSERT INTO lines SELECT 'b', n, 'b' FROM generate_series(1, 1234) n; DELETE FROM lines WHERE shop = 'a/1'"
    )
    app.execute("ALTER TABLE lines ENABLE TRIGGER USER")
    backfill(app)
    del expected["lines/a\\/1/1"]
    assert documents(db) == expected | {f"lines/b/{n}": "b" for n in range(1, 1235)}
    app.execute("DELETE FROM lines WHERE n > 2 OR shop NOT IN ('a', 'b'); UPDATE lines SET shop = 'c' WHERE shop = 'b'")
    assert set(documents(db)) == {"lines/a/1", "lines/c/1", "lines/c/2"}
    app.execute("TRUNCATE lines")
    assert documents(db) == {}


def test_two_tables_of_numbers_share_a_corpus_by_prefixes(db: Database, app: Database) -> None:
    articles(app)
    app.execute("CREATE TABLE comments (id bigint PRIMARY KEY, body text)")
    app.execute(
        "SELECT graphrag.attach_table('comments', 'default', 'id', '{body}', options => '{\"key_prefix\": \"comments/\"}')"
    )
    app.execute("INSERT INTO articles VALUES (1, 't', 'article'); INSERT INTO comments VALUES (1, 'comment')")
    backfill(app)
    app.execute(
        "ALTER TABLE comments DISABLE TRIGGER USER; INSERT INTO comments SELECT n, 'x' FROM generate_series(2, 900) n"
    )
    backfill(app)
    assert len(documents(db)) == 901
    app.execute("DELETE FROM comments")
    backfill(app)
    assert documents(db) == {"1": "article"}


def test_where_and_dates_are_columns(db: Database, app: Database) -> None:
    app.execute(
        "CREATE TABLE articles (id int PRIMARY KEY, body text, status text, since date, until timestamptz,"
        " is_public bool GENERATED ALWAYS AS (status = 'published') STORED)"
    )
    options = '{"where": "is_public", "valid_from": "since", "valid_to": "until"}'
    app.execute(
        "INSERT INTO articles VALUES (1, 'one', 'draft', NULL, NULL), (2, 'two', 'published', '2024-01-01', '2025-01-01')"
    )
    app.execute("SELECT graphrag.attach_table('articles', 'default', 'id', '{body}', options => %s)", [options])
    backfill(app)
    assert documents(db) == {"2": "two"}
    app.execute("UPDATE articles SET status = 'published'")
    assert documents(db) == {"1": "one", "2": "two"}
    app.execute("UPDATE articles SET status = 'withdrawn' WHERE id = 2; UPDATE articles SET since = '2023-06-01'")
    rows = db.execute("SELECT source_key, valid_from::date::text, valid_to FROM graphrag.documents").fetchall()
    assert rows == [("1", "2023-06-01", None)]
    app.execute("ALTER TABLE articles RENAME is_public TO shown; INSERT INTO articles VALUES (3, 'three', 'draft')")
    assert set(documents(db)) == {"1"}
    with unfollowed(app, "23514", "valid to a time before"):
        app.execute("INSERT INTO articles VALUES (4, 'x', 'published', '2024-01-01', '2020-01-01')")


@pytest.mark.parametrize(
    ("options", "error"),
    [
        ('{"wher": "x"}', errors.InvalidParameterValue),
        ('{"where": 1}', errors.InvalidParameterValue),
        ('{"key_columns": []}', errors.InvalidParameterValue),
        ('{"key_columns": ["id"]}', errors.InvalidParameterValue),
        ('{"key_prefix": ""}', errors.InvalidParameterValue),
        ("[]", errors.InvalidParameterValue),
        ('{"where": "body"}', errors.DatatypeMismatch),
        ('{"valid_from": "body"}', errors.DatatypeMismatch),
        ('{"valid_from": "nope"}', errors.UndefinedColumn),
    ],
)
def test_wrong_options_are_refused(db: Database, app: Database, options: str, error: type[Exception]) -> None:
    app.execute("CREATE TABLE articles (id int PRIMARY KEY, body text)")
    with pytest.raises(error):
        app.execute("SELECT graphrag.attach_table('articles', 'default', 'id', '{body}', options => %s)", [options])
    assert states(db) == {}
