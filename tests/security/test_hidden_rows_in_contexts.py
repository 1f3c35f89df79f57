"""Contexts, and filters over attached rows, tell a reader nothing of rows that he may not SELECT."""

import json
import re
from typing import Any

from tests.runtime.cluster import Database
from tests.sql.rows import attach, attach_works, index

SECURED = (
    "GRANT USAGE ON SCHEMA shop TO rows_reader",
    "GRANT SELECT ON ALL TABLES IN SCHEMA shop TO rows_reader",
    *(
        f"ALTER TABLE shop.{table} ENABLE ROW LEVEL SECURITY"
        for table in ("machines", "plants", "persons", "certificates")
    ),
    "CREATE POLICY one ON shop.machines USING (id = 7)",
    "CREATE POLICY one ON shop.plants USING (id = 1)",
    "CREATE POLICY one ON shop.persons USING (id = 1)",
    "CREATE POLICY one ON shop.certificates USING (person_id = 1 AND machine_id = 7)",
)
# Changes what hidden rows say, how many there are, and what they share with visible ones.
CHANGES = """
UPDATE shop.machines SET nick = 'Big Bertha', plant_id = 1, built = '2019-05-01', notes = 'Bertha needs methane.' WHERE id = 8;
UPDATE shop.plants SET city = 'Osaka', name = 'Osaka East' WHERE id = 2;
INSERT INTO shop.machines
SELECT n, 'RZ-500K/' || n, 'RZ-500K', 1, '2019-05-01', 'Methane of the Kestrel engine.' FROM generate_series(20, 60) n;
INSERT INTO shop.persons VALUES (3, 'Ann Lee'), (4, 'Big Bertha');
INSERT INTO shop.certificates VALUES (2, 8, '2024-02-29'), (3, 20, '2024-02-29'), (4, 21, NULL);
"""
FILTERS: tuple[dict[str, Any] | None, ...] = (
    None,
    {"$row": {"stands in": {"city": "Osaka"}}},
    {"$row": {"stands in": {"city": "Lyon"}}},
    {"$row": {"stands in": {"$source_key": "plants/2"}}},
    {"$row": {"stands in": {"$source_key": {"$nin": ["plants/1"]}}}},
    {"$not": {"$row": {"stands in": {"city": "Osaka"}}}},
    {"$row": {"certified for": {"$row": {"stands in": {"city": "Osaka"}}}}},
)
QUESTIONS = ("Where does the RZ-500K stand?", "Who is certified for Big Bertha?", "Ann Lee")
# Of the others the scores of BM25 have a part, which are of the whole corpus by contract.
MODE = "naive"


def portrait(db: Database) -> dict[str, str]:
    results = {}
    with db.transaction(force_rollback=True):
        for statement in SECURED:
            db.execute(statement.encode())
        db.execute("SET LOCAL ROLE rows_reader")
        for filter_ in FILTERS:
            for question in QUESTIONS:
                arguments = [question, MODE, json.dumps(filter_) if filter_ else None]
                context = "SELECT graphrag.context(%s, mode => %s, filter => %s)::text"
                search = "SELECT to_jsonb(s)::text FROM graphrag.search(%s, mode => %s, filter => %s, top_k => 50) s"
                answer = str([db.execute(sql, arguments).fetchall() for sql in (context, search)])
                # Rows that say nothing in words have no vector: of these alone BM25 stands in.
                results[f"{filter_} {question}"] = (
                    re.sub(r'"score": [\d.]+', '"score"', answer) if '"dense": "left out' in answer else answer
                )
        for view in ("graph_nodes", "graph_edges", "graph_mentions", "entity_timeline"):
            results[view] = str(sorted(map(str, db.execute(f"SELECT * FROM graphrag.{view}".encode()).fetchall())))
        for name in ("Big Bertha", "RZ500K", "Ann Lee", "plants/1", "plants/2", "Osaka"):
            around = "SELECT name, type, degree, weight, path FROM graphrag.neighbors(%s, hops => 3)"
            results[name] = str(db.execute(around, [name]).fetchall())
    return results


def test_contexts_and_filters_over_rows_tell_nothing_of_hidden_rows(db: Database) -> None:
    attach(db)
    db.execute("DROP ROLE IF EXISTS rows_reader; CREATE ROLE rows_reader IN ROLE graphrag_reader")
    try:
        before = portrait(db)
        db.execute(CHANGES.encode())
        index(db)
        after = portrait(db)
        assert db.execute(
            "SELECT count(*) > 40 FROM graphrag.documents WHERE source_key ^@ 'machines/'"
        ).fetchall() == [(True,)]
    finally:
        db.execute("DROP OWNED BY rows_reader; DROP ROLE rows_reader")
    assert "shop.machines" in before[f"None {QUESTIONS[0]}"]
    assert not any("machines/8" in text for text in before.values())
    assert {name: (text, after[name]) for name, text in before.items() if after[name] != text} == {}


def test_a_walk_goes_through_no_hidden_row(db: Database) -> None:
    """Where a hidden model has another maker, what the walk from its machine finds is the same, with the same scores."""
    attach_works(db)
    db.execute("DROP ROLE IF EXISTS works_reader; CREATE ROLE works_reader IN ROLE graphrag_reader")

    def look() -> list[list[tuple[str, float]]]:
        with db.transaction(force_rollback=True):
            db.execute("GRANT USAGE ON SCHEMA works TO works_reader")
            db.execute("GRANT SELECT ON works.machines, works.makers TO works_reader")
            db.execute("SET LOCAL ROLE works_reader")
            search = "SELECT source_key, score FROM graphrag.search('Who leaked methane?', mode => %s, top_k => 50)"
            return [db.execute(search, [mode]).fetchall() for mode in ("hybrid", "ppr")]

    try:
        before = look()
        db.execute("UPDATE works.models SET maker = 1 + maker % 20")
        index(db)
        after = look()
    finally:
        db.execute("DROP OWNED BY works_reader; DROP ROLE works_reader")
    assert [[key for key, _ in rows][:2] for rows in before] == 2 * [["report", "machines/13"]]
    assert not any(key.startswith("models/") for rows in before for key, _ in rows)
    assert after == before
