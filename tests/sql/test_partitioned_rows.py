"""Rows of partitioned tables are entities and relationships, whichever table is written, and after dump and restore."""

import pytest

from tests.runtime import beside
from tests.runtime.cluster import Cluster, Database
from tests.sql.ingest import rows, value
from tests.sql.rows import edges, index, own_by_owner

TABLES = """
CREATE SCHEMA shop;
CREATE TABLE shop.plants (id int PRIMARY KEY, name text) PARTITION BY RANGE (id);
CREATE TABLE shop.old_plants PARTITION OF shop.plants FOR VALUES FROM (0) TO (10);
CREATE TABLE shop.new_plants PARTITION OF shop.plants FOR VALUES FROM (10) TO (100);
CREATE TABLE shop.machines (id int PRIMARY KEY, code text, plant_id int) PARTITION BY HASH (id);
CREATE TABLE shop.even_machines PARTITION OF shop.machines FOR VALUES WITH (MODULUS 2, REMAINDER 0);
CREATE TABLE shop.odd_machines PARTITION OF shop.machines FOR VALUES WITH (MODULUS 2, REMAINDER 1);
INSERT INTO shop.plants VALUES (1, 'Osaka Works'), (11, 'Lyon Works');
INSERT INTO shop.machines VALUES (7, 'RZ-500K', 1), (8, 'LH 455', 11);
"""
ATTACH = (
    "attach_entities('shop.plants', 'default', '{id}', 'name', type => 'plant')",
    "attach_entities('shop.machines', 'default', '{id}', 'code', type => 'machine')",
    "attach_relationships('shop.machines', 'default', 'stands in', '{plant_id}', 'shop.plants')",
)
OSAKA, LYON = ("RZ-500K", "stands in", "Osaka Works"), ("LH 455", "stands in", "Lyon Works")
FIRST = {OSAKA, LYON}
CHANGES: dict[str, set[tuple[str, str, str]]] = {
    "UPDATE shop.old_plants SET name = 'Kyoto Works'": {("RZ-500K", "stands in", "Kyoto Works"), LYON},
    "INSERT INTO shop.new_plants VALUES (12, 'Turin Works'); UPDATE shop.machines SET plant_id = 12 WHERE id = 8": {
        OSAKA,
        ("LH 455", "stands in", "Turin Works"),
    },
    # From one partition to another.
    "UPDATE shop.plants SET id = 21 WHERE id = 1; UPDATE shop.machines SET plant_id = 21 WHERE plant_id = 1": FIRST,
    # What a machine says of its plant stays.
    "DELETE FROM shop.new_plants": {OSAKA, ("LH 455", "stands in", "plants/11")},
    "TRUNCATE shop.old_plants": {LYON, ("RZ-500K", "stands in", "plants/1")},
    "TRUNCATE shop.even_machines, shop.odd_machines": set(),
    "ALTER TABLE shop.plants DETACH PARTITION shop.new_plants": {OSAKA, ("LH 455", "stands in", "plants/11")},
    "CREATE TABLE shop.far PARTITION OF shop.plants FOR VALUES FROM (100) TO (200);"
    " INSERT INTO shop.far VALUES (100, 'Far Works'); UPDATE shop.machines SET plant_id = 100": {
        ("RZ-500K", "stands in", "Far Works"),
        ("LH 455", "stands in", "Far Works"),
    },
}


def stands(db: Database) -> set[tuple[str, str, str]]:
    """Which machine stands where, by name without key."""
    return {(row.partition(" (")[0], kind, to.partition(" (")[0]) for row, kind, to in edges(db) if kind == "stands in"}


def attached(db: Database) -> None:
    db.execute(TABLES.encode())
    names = ("plants", "old_plants", "new_plants", "machines", "even_machines", "odd_machines")
    own_by_owner(db, "SCHEMA shop", *(f"TABLE shop.{name}" for name in names))
    for call in ATTACH:
        db.execute(f"SELECT graphrag.{call}".encode())
    index(db)


@pytest.mark.sample(3)
@pytest.mark.parametrize(("statement", "expected"), CHANGES.items())
def test_rows_of_partitions_are_followed(db: Database, statement: str, expected: set[tuple[str, str, str]]) -> None:
    attached(db)
    assert stands(db) == FIRST
    db.execute(statement.encode())
    if "TABLE shop.far" in statement:
        own_by_owner(db, "TABLE shop.far")
    for _ in range(2):
        index(db)
    assert stands(db) == expected
    assert rows(db, "SELECT * FROM graphrag.check('default')") == []


@pytest.mark.slow
def test_they_are_followed_after_dump_and_restore(db: Database, shared_cluster: Cluster) -> None:
    if beside.IS_BESIDE:
        pytest.skip("what a dump is restored into has the objects of the first host")
    attached(db)
    name = "restored_partitions"
    shared_cluster.create_database(name, "template0")
    shared_cluster.restore(name, shared_cluster.dump(db.info.dbname))
    with shared_cluster.connect(name) as new:
        value(new, "SELECT graphrag.repair()")
        new.execute("CALL graphrag.process_jobs()")
        assert stands(new) == FIRST
        new.execute("UPDATE shop.old_plants SET name = 'Kyoto Works'")
        new.execute("INSERT INTO shop.new_plants VALUES (12, 'Turin Works')")
        new.execute("UPDATE shop.machines SET plant_id = 12 WHERE id = 8")
        new.execute("CALL graphrag.process_jobs()")
        assert stands(new) == {("RZ-500K", "stands in", "Kyoto Works"), ("LH 455", "stands in", "Turin Works")}
        assert rows(new, "SELECT * FROM graphrag.check('default')") == []
        assert rows(new, "SELECT state FROM graphrag.attached_tables WHERE state <> 'current'") == []
