"""Whatever happens to rows, documents and curations, names of rows and their numbers are those of what is there.

GRAPHRAG_HISTORIES=200 runs more histories than ./test has time for.
"""

import os
from random import Random
from typing import Any

import pytest

from tests.runtime.cluster import Database
from tests.sql.ingest import delete, put, value
from tests.sql.rows import own_by_owner

HISTORIES = int(os.environ.get("GRAPHRAG_HISTORIES", "4"))
STEPS = 40
CODES = ["RZ-500K", "LH 455", "AK-9X", "QX-10"]
# Some are codes of other rows, or their keys.
NICKS = ["Big Bertha", "Old Tom", "Grey Ghost", "RZ-500K", "machines/2"]
PLACES = ["Osaka Works", "Lyon Works"]
SETUP = """
CREATE SCHEMA shop;
CREATE TABLE shop.plants (id int PRIMARY KEY, name text NOT NULL UNIQUE);
CREATE TABLE shop.machines (id int PRIMARY KEY, code text, nicks text[], plant int, UNIQUE (code));
INSERT INTO shop.plants VALUES (1, 'Osaka Works'), (2, 'Lyon Works');
"""
ATTACH = [
    "attach_entities('shop.plants', 'default', '{id}', 'name')",
    "attach_entities('shop.machines', 'default', '{id}', 'code', '{nicks}')",
    "attach_relationships('shop.machines', 'default', 'stands in', '{plant}', 'shop.plants')",
]
# What the views say, without numbers of the order in which things came.
SHOWN = """
SELECT 'node', n.key, n.degree, n.mention_count, n.origin, NULL FROM graphrag.graph_nodes n
 UNION ALL
SELECT 'edge', least(s.key, t.key), e.mention_count, e.weight, e.origin, greatest(s.key, t.key)
  FROM graphrag.graph_edges e
  JOIN graphrag.graph_nodes s ON s.entity_id = e.source_id
  JOIN graphrag.graph_nodes t ON t.entity_id = e.target_id
 UNION ALL
SELECT 'mention', m.name, count(*), NULL, m.source_key, NULL FROM graphrag.graph_mentions m GROUP BY m.name, m.source_key
 ORDER BY 1, 2, 6, 3, 4, 5
"""


def change(db: Database, random: Random, curations: list[int]) -> None:
    """Change a row, a document or a curation, at random."""
    number = random.randrange(1, 4)
    kind = random.randrange(8)
    if kind < 3:
        code, nicks = CODES[number], random.sample(NICKS, random.randrange(3))
        db.execute(
            "INSERT INTO shop.machines VALUES (%s, %s, %s, %s) ON CONFLICT (id) DO UPDATE SET nicks = excluded.nicks,"
            " plant = excluded.plant",
            [number, code, nicks, random.choice([1, 2, None])],
        )
    elif kind == 3:
        db.execute("DELETE FROM shop.machines WHERE id = %s", [number])
    elif kind < 6:
        names = random.sample([*CODES, *NICKS, *PLACES], 3)
        put(db, "default", f"note/{number}", f"{names[0]} stood still beside {names[1]}. Then came {names[2]}.")
    elif kind == 6:
        delete(db, "default", f"note/{number}")
    else:
        curate(db, random, curations)


def curate(db: Database, random: Random, curations: list[int]) -> None:
    if curations and random.random() < 0.4:
        db.execute("SELECT graphrag.undo_curation(%s)", [curations.pop(random.randrange(len(curations)))])
        return
    entity_keys = [key for (key,) in db.execute("SELECT key FROM graphrag.entities ORDER BY key")]
    if len(entity_keys) < 2:
        return
    entity, target = random.sample(entity_keys, 2)
    call, arguments = random.choice(
        [("merge_entities(ARRAY[%s], %s)", [entity, target]), ("delete_entity(%s)", [entity])]
    )
    curations.append(value(db, f"SELECT graphrag.{call}", *arguments))


def broken(db: Database) -> list[Any]:
    return db.execute("SELECT * FROM graphrag.check()").fetchall()


@pytest.mark.sample(1)
@pytest.mark.parametrize("seed", range(HISTORIES))
def test_names_of_rows_are_those_that_a_new_index_has(db: Database, seed: int) -> None:
    random = Random(seed)
    db.execute(SETUP.encode())
    own_by_owner(db, "SCHEMA shop", "TABLE shop.plants", "TABLE shop.machines")
    for call in ATTACH:
        db.execute(f"SELECT graphrag.{call}".encode())
    curations: list[int] = []
    names = 0
    for _ in range(STEPS):
        change(db, random, curations)
        if random.random() < 0.5:
            db.execute("CALL graphrag.process_jobs()")
            assert broken(db) == []
            names += value(db, "SELECT count(*) FROM graphrag._row_names")
    db.execute("CALL graphrag.process_jobs()")
    assert names, "no history is of use in which no row has a name"
    before = db.execute(SHOWN).fetchall()
    db.execute("SELECT graphrag.reindex()")
    db.execute("CALL graphrag.process_jobs()")
    assert broken(db) == []
    assert db.execute(SHOWN).fetchall() == before
