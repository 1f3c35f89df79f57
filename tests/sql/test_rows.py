"""Rows of attached tables are entities, and their foreign keys relationships, in one graph with documents."""

from __future__ import annotations

import pytest

from tests.runtime.cluster import Database

TABLES = """
CREATE SCHEMA shop;
CREATE TABLE shop.plants (id int PRIMARY KEY, name text NOT NULL UNIQUE, city text);
CREATE TABLE shop.machines (id int PRIMARY KEY, code text UNIQUE, nick text, plant_id int REFERENCES shop.plants, built date, notes text);
CREATE TABLE shop.persons (id int PRIMARY KEY, name text);
CREATE TABLE shop.certificates (person_id int, machine_id int, since date, PRIMARY KEY (person_id, machine_id));
INSERT INTO shop.plants VALUES (1, 'Osaka Works', 'Osaka'), (2, 'Lyon Works', 'Lyon');
INSERT INTO shop.machines VALUES (7, 'RZ-500K', 'Big Bertha', 1, '2019-05-01', 'It needs methane from the Kestrel engine.'), (8, 'LH 455', NULL, 2, NULL, NULL);
INSERT INTO shop.persons VALUES (1, 'Ann Lee'), (2, 'Ann Lee');
INSERT INTO shop.certificates VALUES (1, 7, '2024-02-29');
"""
ATTACH = """
SELECT graphrag.attach_entities('shop.plants', 'default', ARRAY['id']::name[], 'name', type => 'plant', attributes => ARRAY['city']::name[]);
SELECT graphrag.attach_entities('shop.machines', 'default', ARRAY['id']::name[], 'code', aliases => ARRAY['nick']::name[], type => 'machine',
                                attributes => ARRAY['built']::name[], text => ARRAY['notes']::name[]);
SELECT graphrag.attach_entities('shop.persons', 'default', ARRAY['id']::name[], 'name', type => 'person');
SELECT graphrag.attach_relationships('shop.machines', 'default', 'stands in', ARRAY['plant_id']::name[], 'shop.plants');
SELECT graphrag.attach_relationships('shop.certificates', 'default', 'certified for', ARRAY['machine_id']::name[], 'shop.machines',
                                     ARRAY['person_id']::name[], 'shop.persons', ARRAY['since']::name[]);
"""


@pytest.fixture(scope="module")
def shop(module_db: Database) -> Database:
    module_db.execute(TABLES.encode())
    module_db.execute(ATTACH.encode())
    module_db.execute("INSERT INTO graphrag.documents (source_key, content) VALUES ('manual', 'The RZ500K press leaks oil. Ann Lee mended it.')")
    module_db.execute("CALL graphrag.process_jobs()")
    return module_db


def edges(db: Database) -> set[tuple[str, str, str]]:
    return set(db.execute("SELECT source, keywords, target FROM graphrag.graph_edges WHERE keywords <> ''").fetchall())


def test_a_row_is_a_document(shop: Database) -> None:
    ((title, content, metadata),) = shop.execute(
        "SELECT title, content, metadata FROM graphrag.documents WHERE source_key = 'machines/7'"
    ).fetchall()
    assert title == "RZ-500K"
    assert content == (
        "machine: RZ-500K\nstands in: plants/1\nalias: Big Bertha\nbuilt: 2019-05-01\n\nIt needs methane from the Kestrel engine."
    )
    assert metadata == {"aliases": ["Big Bertha"], "built": "2019-05-01", "stands in": "plants/1"}


def test_foreign_keys_and_join_tables_are_relationships(shop: Database) -> None:
    print(sorted(edges(shop)))
    assert {
        ("RZ-500K", "stands in", "plants/1"),
        ("Osaka Works", "key", "plants/1"),
        ("RZ-500K", "alias", "Big Bertha"),
        ("RZ-500K", "alias", "rz500k"),
        ("persons/1", "certified for", "machines/7"),
        ("Ann Lee (persons/1)", "name", "Ann Lee"),
        ("Ann Lee (persons/2)", "name", "Ann Lee"),
    } <= edges(shop)


def test_nothing_is_wrong(shop: Database) -> None:
    assert shop.execute("SELECT * FROM graphrag.check('default')").fetchall() == []
