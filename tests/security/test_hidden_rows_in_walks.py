"""Walks through rows, and words of the rows to which others lead, tell a reader nothing of rows that he may not SELECT.

Hidden rows swap what they say: statistics of the corpus stay as they are, so all that a reader gets stays too, to the last digit.
"""

import json

import pytest

from tests.runtime.cluster import Database
from tests.sql.rows import index, own_by_owner

TABLES = """
CREATE SCHEMA works;
CREATE TABLE works.kinds (name text PRIMARY KEY, meaning text);
CREATE TABLE works.sites (id int PRIMARY KEY, name text NOT NULL UNIQUE, nick text);
CREATE TABLE works.machines (id int PRIMARY KEY, tag text NOT NULL UNIQUE, kind text, site int);
INSERT INTO works.kinds VALUES ('press', 'It needs methane at night.'), ('lathe', 'It needs acetone at noon.');
INSERT INTO works.sites VALUES (1, 'Osaka Hall', 'Kestrel Yard'), (2, 'Lyon Hall', 'Falcon Yard');
INSERT INTO works.machines VALUES (7, 'RZ-500K', 'press', 1), (8, 'LH-455', 'lathe', 2);
INSERT INTO graphrag.documents (source_key, content) VALUES
    ('log', 'Carl Kent came to Kestrel Yard. Methane leaked at night.'),
    ('note', 'Max Roe came to Falcon Yard. Acetone leaked at noon.');
"""
ATTACH = (
    "attach_entities('works.kinds', 'default', '{name}', 'name', type => 'kind', text => '{meaning}')",
    "attach_entities('works.sites', 'default', '{id}', 'name', '{nick}', 'site')",
    "attach_entities('works.machines', 'default', '{id}', 'tag', type => 'machine')",
    "attach_relationships('works.machines', 'default', 'is a', '{kind}', 'works.kinds')",
    "attach_relationships('works.machines', 'default', 'stands in', '{site}', 'works.sites')",
)
# What hidden rows say: texts of kinds, nicknames of sites; and which of two hidden rows a name leads to.
SWAPS = (
    "UPDATE works.kinds k SET meaning = o.meaning FROM works.kinds o WHERE o.name <> k.name",
    "UPDATE works.sites SET nick = CASE id WHEN 1 THEN 'Falcon Yard' ELSE 'Kestrel Yard' END",
)
QUESTIONS = ("Which machine needs methane at night?", "What did Carl Kent do at Kestrel Yard?", "Falcon Yard acetone")
MODES = ("bm25", "naive", "hybrid", "ppr", "path", "local", "global", "mix", "graph_local", "lazy", "drift")


def look(db: Database) -> dict[str, str]:
    """What a reader of the machines alone gets."""
    results = {}
    with db.transaction(force_rollback=True):
        db.execute("GRANT USAGE ON SCHEMA works TO walk_reader; GRANT SELECT ON works.machines TO walk_reader")
        db.execute("SET LOCAL ROLE walk_reader")
        for mode in MODES:
            for question in QUESTIONS:
                search = "SELECT to_jsonb(s)::text FROM graphrag.search(%s, mode => %s, top_k => 50) s"
                results[f"search {mode}: {question}"] = str(db.execute(search, [question, mode]).fetchall())
                context = "SELECT graphrag.context(%s, mode => %s)::text"
                results[f"context {mode}: {question}"] = str(db.execute(context, [question, mode]).fetchall())
        filter_ = json.dumps({"$row": {"is a": {"$source_key": "kinds/press"}}})
        sql = "SELECT source_key FROM graphrag.search('machine', filter => %s)"
        results["filter"] = str(db.execute(sql, [filter_]).fetchall())
        for name in ("Kestrel Yard", "RZ-500K", "press", "sites/1"):
            for sql in (
                "SELECT x::text FROM graphrag.neighbors(%s, hops => 3) x",
                "SELECT graphrag.to_dot(%s, hops => 2)",
            ):
                results[f"{sql} {name}"] = str(db.execute(sql, [name]).fetchall())
    return results


@pytest.mark.sample(1)
@pytest.mark.parametrize("swap", SWAPS, ids=["texts", "names"])
def test_what_hidden_rows_say_is_in_no_walk(db: Database, swap: str) -> None:
    db.execute(TABLES.encode())
    own_by_owner(db, "SCHEMA works", "TABLE works.kinds", "TABLE works.sites", "TABLE works.machines")
    for call in ATTACH:
        db.execute(f"SELECT graphrag.{call}".encode())
    index(db)
    db.execute("DROP ROLE IF EXISTS walk_reader; CREATE ROLE walk_reader IN ROLE graphrag_reader")
    try:
        before = look(db)
        seen = str(db.execute("SELECT explain FROM graphrag.search(%s)", [QUESTIONS[0]]).fetchall())
        db.execute(swap.encode())
        index(db)
        after = look(db)
    finally:
        db.execute("DROP OWNED BY walk_reader; DROP ROLE walk_reader")
    # Who sees them all goes through them.
    assert "with_rows" in seen
    assert {call: (text, after[call]) for call, text in before.items() if text != after[call]} == {}
