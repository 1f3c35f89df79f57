"""attach_table(): the rows of an application's table are documents, whatever the application does to them."""

import uuid

import pytest
from psycopg import errors

from tests.runtime.cluster import Database
from tests.sql.attach import ARTICLES, articles, attach, backfill, documents, indexed, queued, states, unfollowed


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


ODD = [
    (1, r'{"a": "\u0000"}', [r'"\ud800"'], "2024-02-03"),
    (2, '{"a": 1e999999}', [r'{"b": "\u0000"}', "1"], "300000-01-01"),
    (3, '{"a": 1}', ["1", '"x"'], "-infinity"),
]


def test_values_that_documents_have_no_place_for_keep_no_row_out(db: Database, app: Database) -> None:
    """Of type json, what jsonb does not hold is its text; a date after the last timestamp is the end of time."""
    app.execute("CREATE TABLE articles (id int PRIMARY KEY, body text, j json, list json[], day date)")
    insert = "INSERT INTO articles VALUES (%s, 'text', %s::json, %s::json[], %s::date)"
    app.execute(insert, ODD[0])
    app.execute(
        "SELECT graphrag.attach_table('articles', 'default', 'id', content_columns => '{body}',"
        " metadata_columns => '{j,list}', options => '{\"valid_to\": \"day\"}')"
    )
    backfill(app)
    for row in ODD[1:]:
        app.execute(insert, row)
    assert db.execute("SELECT source_key, metadata, valid_to::text FROM graphrag.documents ORDER BY 1").fetchall() == [
        ("1", {"j": ODD[0][1], "list": '{"\\"\\\\ud800\\""}'}, "2024-02-03 00:00:00+00"),
        ("2", {"j": ODD[1][1], "list": r'{"{\"b\": \"\\u0000\"}",1}'}, "infinity"),
        ("3", {"j": {"a": 1}, "list": [1, "x"]}, "-infinity"),
    ]
    assert states(db) == {"app.articles": "current"}


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
    backfill(app)
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
    backfill(app)
    app.execute("UPDATE articles SET at = '2024-06-06', body = 'ONE' WHERE id = %s", [key])
    assert sorted(documents(db).values()) == ["ONE", "two"]
    assert documents(db)[str(key)] == "ONE"
    app.execute("DELETE FROM articles WHERE id = %s", [key])
    assert list(documents(db).values()) == ["two"]
    app.execute("TRUNCATE articles")
    assert documents(db) == {}


@pytest.mark.sample(5)
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
        ("regclass", ["pg_class", "pg_type"]),
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
        " SET datestyle = 'German'; SET extra_float_digits = 0; SET quote_all_identifiers = on"
    )
    app.execute(f"CREATE TABLE articles (key {type_name} PRIMARY KEY, body text)".encode())
    usable = [key for key in keys if key]
    attached = iter(usable)
    app.execute(f"INSERT INTO articles VALUES (%s::text::{type_name}, 'first')".encode(), [next(attached)])
    attach(app, key="key")
    for key in attached:
        app.execute(f"INSERT INTO articles VALUES (%s::text::{type_name}, 'later')".encode(), [key])
    backfill(app)
    assert documents(db) == {key: "later" if place else "first" for place, key in enumerate(usable)}
    app.execute("UPDATE articles SET body = 'changed'")
    assert set(documents(db).values()) == {"changed"}
    app.execute("DELETE FROM articles")
    assert documents(db) == {}
    if "" in keys:
        with unfollowed(app, "23514", "cannot name a document"):
            app.execute("INSERT INTO articles VALUES ('', 'x'), ('b', 'y')")
        assert documents(db) == {"b": "y"}
        backfill(app)
        assert states(db) == {"app.articles": "broken"}
        app.execute("DELETE FROM articles WHERE key = ''")
        backfill(app)
        assert states(db) == {"app.articles": "current"}


def test_keys_equal_to_their_collation_only_are_two_documents(db: Database, app: Database) -> None:
    db.execute("CREATE COLLATION public.loose (provider = icu, locale = 'und-u-ks-level2', deterministic = false)")
    app.execute("CREATE TABLE articles (id text COLLATE public.loose PRIMARY KEY, body text COLLATE public.loose)")
    app.execute("INSERT INTO articles VALUES ('Abc', 'text')")
    attach(app)
    backfill(app)
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


def test_columns_may_have_the_names_that_our_statements_use(db: Database, app: Database) -> None:
    names = "m r k x w l o u n key source_key title metadata digest inserted corpus".split()
    columns = ", ".join(f"{name} jsonb DEFAULT '{{\"{name}\": true}}'" for name in names)
    app.execute(f"CREATE TABLE articles (id int PRIMARY KEY, content text, {columns})".encode())
    attach(app, content=["content"], metadata=names)
    app.execute("INSERT INTO articles VALUES (1, 'one'), (2, 'two')")
    app.execute("UPDATE articles SET m = NULL, content = 'ONE' WHERE id = 1")
    app.execute("DELETE FROM articles WHERE id = 2")
    backfill(app)
    rows = db.execute("SELECT content, metadata FROM graphrag.documents").fetchall()
    assert rows == [("ONE", {name: {name: True} for name in names} | {"m": None})]


def test_names_that_need_quotes_work(db: Database, app: Database) -> None:
    app.execute('CREATE TABLE "Bad ""r."" % name" ("r.id" int PRIMARY KEY, "The \'Body\'; --" text, "$1" text)')
    attach(
        app, table='"Bad ""r."" % name"', key="r.id", content=["The 'Body'; --"], title="$1", metadata=["$1", "r.id"]
    )
    app.execute("""INSERT INTO "Bad ""r."" % name" VALUES (1, 'b', 't')""")
    app.execute("""UPDATE "Bad ""r."" % name" SET "r.id" = 2""")
    rows = db.execute("SELECT source_key, title, content, metadata FROM graphrag.documents").fetchall()
    assert rows == [("2", "t", "b", {"$1": "t", "r.id": 2})]


def test_unchanged_content_queues_nothing_and_does_not_touch_the_document(db: Database, app: Database) -> None:
    articles(app, rows=5)
    backfill(app)
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
    backfill(app)
    indexed(db)
    app.execute("UPDATE articles SET body = CASE WHEN id = 3 THEN 'new' ELSE body END")
    app.execute("DELETE FROM articles WHERE id = 5")
    assert queued(db) == [("index", "3")], "nothing is to be removed of what has no chunk"
