"""Documents are read by the names of rows, whatever the order in which rows and documents come."""

from __future__ import annotations

import pytest

from tests.runtime.cluster import Database
from tests.sql.rows import index, own_by_owner

PRODUCTS = ["Log Shipper", "Key Store", "Desk", "Blue Sorter Mini", "Zephyr"]
TICKETS = {
    "1": "Bob Stone wants to return the Log Sender. The Log Shipper stops, and the Key Store shows an error.",
    "2": "Error 504 when blue sorter mini talks to KEY STORE. The desk is free.",
    "3": "Ann Lee bought a new Desk in the store. The key to the store is lost.",
}
MENTIONS = """
SELECT m.raw_key FROM graphrag.entity_mentions m JOIN graphrag.documents d ON d.id = m.document_id WHERE d.source_key = %s
"""


def add_rows(db: Database) -> None:
    db.execute("CREATE TABLE products (id int PRIMARY KEY, name text NOT NULL UNIQUE, also text)")
    own_by_owner(db, "TABLE products")
    for number, name in enumerate(PRODUCTS):
        db.execute("INSERT INTO products VALUES (%s, %s)", [number, name])
    db.execute("SELECT graphrag.attach_entities('products', 'default', '{id}', 'name', '{also}', type => 'product')")


def add_tickets(db: Database) -> None:
    for source_key, content in TICKETS.items():
        db.execute("INSERT INTO graphrag.documents (source_key, content) VALUES (%s, %s)", [source_key, content])


def mentions(db: Database, source_key: str) -> set[str]:
    return {name for (name,) in db.execute(MENTIONS, [source_key])}


def fingerprint(db: Database) -> dict[str, str]:
    return {name: digest for name, _, digest in db.execute("SELECT * FROM graphrag.fingerprint_sections('default')")}


def is_sound(db: Database) -> bool:
    waiting = db.execute("SELECT count(*) FROM graphrag._changed_names").fetchall()
    return db.execute("SELECT * FROM graphrag.check('default')").fetchall() == [] and waiting == [(0,)]


@pytest.fixture(scope="module")
def shop(module_db: Database) -> Database:
    add_rows(module_db)
    index(module_db)
    add_tickets(module_db)
    index(module_db)
    return module_db


def test_names_of_rows_are_whole_in_documents(shop: Database) -> None:
    first, second, third = (mentions(shop, key) for key in TICKETS)
    assert {"log shipper", "key store", "bob stone"} <= first
    assert {"blue sorter mini", "key store"} <= second
    assert {"desk", "ann lee"} <= third
    assert not {"shipper", "store", "blue sorter mini talk", "sorter"} & (first | second | third)
    assert "desk" not in second
    assert is_sound(shop)


def test_a_document_leads_to_the_row(shop: Database) -> None:
    nodes = dict(shop.execute("SELECT name, type FROM graphrag.graph_nodes").fetchall())
    assert {nodes["Log Shipper"], nodes["Key Store"], nodes["Desk"]} == {"product"}
    hops = shop.execute("SELECT name FROM graphrag.neighbors('Log Shipper', hops => 1)").fetchall()
    assert ("Key Store",) in hops


def test_documents_that_came_first_are_read_again(shop: Database, db: Database) -> None:
    add_tickets(db)
    index(db)
    add_rows(db)
    index(db)
    assert fingerprint(db) == fingerprint(shop)
    assert is_sound(db)


def test_documents_follow_names_that_change(shop: Database, db: Database) -> None:
    add_rows(db)
    db.execute("UPDATE products SET name = 'Bob' WHERE id = 0; UPDATE products SET name = 'Log Shipper' WHERE id = 1")
    db.execute("INSERT INTO products VALUES (9, 'KEY STORE shows', 'Error 504')")
    add_tickets(db)
    index(db)
    assert "error 504" in mentions(db, "2")
    db.execute("DELETE FROM products WHERE id = 9; UPDATE products SET name = 'Key Store' WHERE id = 1")
    db.execute("UPDATE products SET name = 'Log Shipper' WHERE id = 0")
    index(db)
    assert fingerprint(db) == fingerprint(shop)
    assert is_sound(db)


def test_a_table_that_is_detached_leaves_no_trace(shop: Database, db: Database) -> None:
    add_tickets(db)
    index(db)
    before = fingerprint(db)
    add_rows(db)
    index(db)
    assert fingerprint(db) == fingerprint(shop) != before
    db.execute("SELECT graphrag.detach_table('products', 'default')")
    index(db)
    assert fingerprint(db) == before


def test_names_under_row_level_security_are_not_looked_for(shop: Database, db: Database) -> None:
    add_rows(db)
    add_tickets(db)
    index(db)
    assert fingerprint(db) == fingerprint(shop)
    db.execute("ALTER TABLE products ENABLE ROW LEVEL SECURITY")
    index(db)
    secured = [mentions(db, key) for key in TICKETS]
    assert "blue sorter mini" not in secured[1]
    db.execute("UPDATE products SET name = 'Bob Stone wants' WHERE id = 3")
    index(db)
    assert [mentions(db, key) for key in TICKETS] == secured
    db.execute("UPDATE products SET name = 'Blue Sorter Mini' WHERE id = 3")
    db.execute("ALTER TABLE products DISABLE ROW LEVEL SECURITY")
    index(db)
    assert fingerprint(db) == fingerprint(shop)


def test_a_dropped_corpus_leaves_no_names(db: Database) -> None:
    add_rows(db)
    index(db)
    db.execute("UPDATE products SET name = 'Log Runner' WHERE id = 0")
    index(db)
    db.execute("SELECT graphrag.drop_corpus('default')")
    assert db.execute("SELECT count(*) FROM graphrag._changed_names").fetchall() == [(0,)]
