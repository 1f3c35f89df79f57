"""What becomes of an attachment: detached, attached again, renamed, dropped, dumped and restored."""

import pytest
from psycopg import errors

from tests.runtime.cluster import Cluster, Database
from tests.sql.attach import ARTICLES, articles, attach, backfill, documents, indexed, queued, unfollowed


def test_detach_keeps_the_documents_unless_told_otherwise(db: Database, app: Database) -> None:
    articles(app, rows=2)
    backfill(app)
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
    backfill(app)
    indexed(db)
    app.execute("ALTER TABLE articles DISABLE TRIGGER USER")
    app.execute("UPDATE articles SET body = 'new' WHERE id = 2; INSERT INTO articles VALUES (5, 't', 'five')")
    app.execute("ALTER TABLE articles ENABLE TRIGGER USER")
    app.execute("SELECT graphrag.detach_table('articles')")
    attach(app, title="headline")
    backfill(app)
    assert documents(db) == {"1": "Body 1", "2": "new", "3": "Body 3", "4": "Body 4", "5": "five"}
    assert queued(db) == [("index", "2"), ("index", "5")]


def test_renamed_table_stays_attached(db: Database, app: Database) -> None:
    articles(app)
    app.execute("ALTER TABLE articles RENAME TO posts")
    app.execute("INSERT INTO posts VALUES (1, 't', 'one')")
    assert documents(db) == {"1": "one"}
    assert db.execute("SELECT table_name FROM graphrag._attached_tables").fetchall() == [("posts",)]
    app.execute(f"CREATE TABLE articles ({ARTICLES}); INSERT INTO articles VALUES (2, 't', 'not attached')".encode())
    assert documents(db) == {"1": "one"}


def test_dropped_column_is_said_with_the_way_out(db: Database, app: Database) -> None:
    articles(app, rows=1)
    backfill(app)
    app.execute("ALTER TABLE articles ADD text text; UPDATE articles SET text = body")
    with unfollowed(app, "42703", '"body"') as hints:
        app.execute("ALTER TABLE articles DROP body")
    assert "detach_table('app.articles', 'default')" in hints[0]
    app.execute("SELECT graphrag.detach_table('articles')")
    attach(app, content=["text"], title="headline")
    app.execute("INSERT INTO articles (id, headline, text) VALUES (2, 't', 'two')")
    assert documents(db) == {"1": "Body 1", "2": "two"}


def test_dropped_table_is_detached_by_its_number(db: Database, app: Database) -> None:
    articles(app, rows=2)
    app.execute("INSERT INTO articles VALUES (3, 't', 'three')")
    app.execute("DROP TABLE articles")
    with pytest.raises(errors.InsufficientPrivilege):
        db.execute("GRANT SELECT ON graphrag._attached_tables TO attach_app")
        app.execute("SELECT graphrag.detach_table(relation::regclass) FROM graphrag._attached_tables")
    db.execute(
        "SELECT graphrag.detach_table(relation::regclass, keep_documents => false) FROM graphrag._attached_tables"
    )
    assert documents(db) == {}
    assert db.execute("SELECT 1 FROM graphrag.jobs WHERE kind = 'attach'").fetchall() == []


@pytest.mark.slow
def test_dump_and_restore_keep_the_attachment(db: Database, app: Database, shared_cluster: Cluster) -> None:
    articles(app, rows=2)
    backfill(app)
    indexed(db)
    name = db.info.dbname
    ((number,),) = db.execute("SELECT id FROM graphrag._attached_tables").fetchall()
    db.execute("CREATE TABLE public.filler (n int)")  # so that oids differ
    dump = shared_cluster.dump(name)
    copy = f"{name}_copy"
    shared_cluster.create_database(copy)
    try:
        shared_cluster.restore(copy, dump)
        with shared_cluster.connect(copy) as restored:
            assert restored.execute("SELECT 1 FROM graphrag.jobs").fetchall() == []
            relation, stored = restored.execute(
                "SELECT 'app.articles'::regclass::oid, relation FROM graphrag._attached_tables"
            ).fetchall()[0]
            assert relation != stored
            restored.execute("UPDATE app.articles SET body = 'new' WHERE id = 1; DELETE FROM app.articles WHERE id = 2")
            assert documents(restored) == {"1": "new"}
            assert restored.execute("SELECT relation FROM graphrag._attached_tables").fetchall() == [(relation,)]
            restored.execute("SELECT graphrag.create_corpus('second')")
            restored.execute("SELECT graphrag.attach_table('app.articles', 'second', 'id', '{body}')")
            assert restored.execute("SELECT array_agg(id ORDER BY id) FROM graphrag._attached_tables").fetchall() == [
                ([number, number + 1],)
            ]
    finally:
        shared_cluster.drop_database(copy)


def test_dropping_extension_or_corpus_leaves_the_table_usable(db: Database, app: Database) -> None:
    articles(app, rows=1)
    db.execute("SELECT graphrag._detach_all(NULL)")
    app.execute("INSERT INTO articles VALUES (2, 't', 'x')")
    assert db.execute("SELECT count(*) FROM graphrag._attached_tables").fetchall() == [(0,)]
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
