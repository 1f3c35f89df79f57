"""Whoever attaches a table needs in the corpus what an INSERT of documents needs, and as long as the table feeds it."""

from collections.abc import Iterator

import pytest
from psycopg import errors

from tests.runtime.cluster import Database
from tests.security.mallory import as_role
from tests.sql.attach import WRITE, attach, backfill, documents, unfollowed

TABLE = "CREATE TABLE articles (id int PRIMARY KEY, body text)"
GIVEN = {
    "nothing": "SELECT 1",
    "read": "SELECT graphrag.grant_corpus('notes', 'alice')",
    "write": "SELECT graphrag.grant_corpus('notes', 'alice', 'write')",
    "write to a group": "SELECT graphrag.grant_corpus('notes', 'eve', 'write'); GRANT eve TO alice",
    "write to a group whose rights are not inherited": "SELECT graphrag.grant_corpus('notes', 'eve', 'write');"
    "GRANT eve TO alice WITH INHERIT FALSE",
    "write in another corpus": "SELECT graphrag.grant_corpus('others', 'alice', 'write')",
    "INSERT": f"GRANT {WRITE} ON graphrag.documents TO alice",
    "INSERT of the whole table": "GRANT INSERT ON graphrag.documents TO alice",
    "INSERT of too few columns": "GRANT INSERT (corpus, source_key, content) ON graphrag.documents TO alice",
    "INSERT, and write in another corpus": f"GRANT {WRITE} ON graphrag.documents TO alice;"
    "SELECT graphrag.grant_corpus('others', 'alice', 'write')",
    "all of the owner": "GRANT postgres TO alice",
}


@pytest.fixture
def db(reused_db: Database) -> Database:
    """A database that others have used: who may do what is asked of the catalogs each time."""
    return reused_db


@pytest.fixture
def alice(db: Database, mallory: Database) -> Iterator[Database]:
    """Alice's session: she owns a table, and may call attach_table(), but was given no corpus."""
    db.execute(f"REVOKE {WRITE} ON graphrag.documents FROM alice".encode())
    db.execute("SELECT graphrag.create_corpus('notes'), graphrag.create_corpus('others')")
    with as_role(db, "alice") as connection:
        connection.execute(TABLE)
        yield connection
    # Memberships are the cluster's.
    db.execute("REVOKE postgres, graphrag_writer, graphrag_member, eve FROM alice; REVOKE graphrag_writer FROM eve")


def may(session: Database, statement: str) -> bool:
    try:
        session.execute(statement.encode())
    except errors.InsufficientPrivilege:
        return False
    return True


@pytest.mark.sample(4)
@pytest.mark.parametrize("given", GIVEN)
def test_attaching_needs_what_inserting_needs(db: Database, alice: Database, given: str) -> None:
    db.execute(GIVEN[given].encode())
    inserts = may(
        alice,
        "INSERT INTO graphrag.documents (corpus, source_key, title, content, metadata) VALUES ('notes', 'k', 't', 'c', '{}')",
    )
    attaches = may(alice, "SELECT graphrag.attach_table('articles', 'notes', 'id', '{body}')")
    assert attaches == inserts
    if attaches:
        alice.execute("INSERT INTO articles VALUES (1, 'one')")
        assert documents(db)["1"] == "one"


def test_refusal_says_what_to_give(alice: Database) -> None:
    with pytest.raises(errors.InsufficientPrivilege, match='role "alice" may not write corpus "notes"') as refused:
        attach(alice, corpus="notes")
    assert "graphrag.grant_corpus('notes', 'alice', 'write')" in str(refused.value.diag.message_hint)


def test_default_corpus_is_not_made_for_who_may_not_write_it(db: Database, alice: Database) -> None:
    with pytest.raises(errors.InsufficientPrivilege, match='may not write corpus "default"'):
        attach(alice)
    assert db.execute("SELECT FROM graphrag.corpora WHERE name = 'default'").fetchall() == []


@pytest.mark.sample(3)
@pytest.mark.parametrize(
    "statement",
    [
        "INSERT INTO articles VALUES (3, 'three')",
        "UPDATE articles SET body = 'changed'",
        "UPDATE articles SET id = id + 10",
        "DELETE FROM articles WHERE id = 1",
        "TRUNCATE articles",
        "CALL graphrag.backfill_table('articles')",
        "SELECT graphrag.detach_table('articles', keep_documents => false)",
    ],
)
def test_what_was_revoked_is_refused_from_then_on(db: Database, alice: Database, statement: str) -> None:
    db.execute("SELECT graphrag.grant_corpus('notes', 'alice', 'write')")
    attach(alice, corpus="notes")
    alice.execute("INSERT INTO articles VALUES (1, 'one'), (2, 'two')")
    db.execute("SELECT graphrag.revoke_corpus('notes', 'alice', 'write'), graphrag.grant_corpus('notes', 'alice')")
    says = '"alice" may no longer write corpus "notes"'
    if "graphrag." in statement:
        with pytest.raises(errors.InsufficientPrivilege, match=says) as refused:
            alice.execute(statement.encode())
        hint = str(refused.value.diag.message_hint)
    else:
        with unfollowed(alice, "42501", says) as hints:
            alice.execute(statement.encode())
        (hint,) = hints
    assert "grant_corpus('notes', 'alice', 'write')" in hint
    assert "detach_table('alice.articles', 'notes')" in hint
    assert documents(db) == {"1": "one", "2": "two"}


def test_after_a_revocation_detaching_frees_the_table_and_keeps_its_documents(db: Database, alice: Database) -> None:
    db.execute("SELECT graphrag.grant_corpus('notes', 'alice', 'write')")
    attach(alice, corpus="notes")
    alice.execute("INSERT INTO articles VALUES (1, 'one')")
    db.execute("SELECT graphrag.revoke_corpus('notes', 'alice')")
    alice.execute("SELECT graphrag.detach_table('articles')")
    alice.execute("INSERT INTO articles VALUES (2, 'two')")
    assert documents(db) == {"1": "one"}


def test_what_is_given_again_goes_on(db: Database, alice: Database) -> None:
    db.execute("SELECT graphrag.grant_corpus('notes', 'alice', 'write')")
    attach(alice, corpus="notes")
    db.execute("SELECT graphrag.revoke_corpus('notes', 'alice')")
    with unfollowed(alice, "42501"):
        alice.execute("INSERT INTO articles VALUES (1, 'one')")
    db.execute("SELECT graphrag.grant_corpus('notes', 'alice', 'write')")
    alice.execute("INSERT INTO articles VALUES (2, 'two')")
    assert documents(db) == {"2": "two"}
    backfill(alice)
    assert documents(db) == {"1": "one", "2": "two"}


def test_who_writes_the_table_needs_no_corpus(db: Database, alice: Database) -> None:
    db.execute("SELECT graphrag.grant_corpus('notes', 'alice', 'write')")
    attach(alice, corpus="notes")
    alice.execute("GRANT USAGE ON SCHEMA alice TO eve; GRANT INSERT ON articles TO eve")
    with as_role(db, "eve") as eve:
        eve.execute("INSERT INTO alice.articles VALUES (1, 'one')")
        db.execute("SELECT graphrag.revoke_corpus('notes', 'alice')")
        with unfollowed(eve, "42501", '"alice" may no longer write'):
            eve.execute("INSERT INTO alice.articles VALUES (2, 'two')")
    assert documents(db) == {"1": "one"}


def test_what_the_owner_of_the_extension_attaches_goes_with_her_rights(db: Database, alice: Database) -> None:
    alice.execute("INSERT INTO articles VALUES (1, 'one')")
    attach(db, table="alice.articles", corpus="notes")
    alice.execute("INSERT INTO articles VALUES (2, 'two')")
    backfill(alice)
    assert documents(db) == {"1": "one", "2": "two"}


def test_a_table_given_to_a_role_without_the_corpus_feeds_it_no_more(db: Database, alice: Database) -> None:
    db.execute("SELECT graphrag.grant_corpus('notes', 'alice', 'write')")
    attach(alice, corpus="notes")
    alice.execute("INSERT INTO articles VALUES (1, 'one')")
    db.execute("ALTER TABLE alice.articles SET SCHEMA public; ALTER TABLE public.articles OWNER TO eve")
    with as_role(db, "eve") as eve:
        eve.execute("INSERT INTO public.articles VALUES (2, 'two')")
        with unfollowed(eve, "42501", '"eve" may no longer write'):
            eve.execute("INSERT INTO public.articles VALUES (3, 'three')")
    assert documents(db) == {"1": "one"}
