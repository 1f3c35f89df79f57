"""A reader of some rows gets what he would in a database that never had the others, and names of rows are his rows' alone."""

import pytest

from tests.runtime.cluster import Database
from tests.security import portrait as portraits
from tests.security.portrait import Portrait, Reader, portrait
from tests.security.test_hidden_rows_in_contexts import SECURED
from tests.sql.rows import ATTACH, TABLES, index, own_by_owner

VISIBLE = """
INSERT INTO shop.plants VALUES (1, 'Osaka Works', 'Osaka');
INSERT INTO shop.machines VALUES (7, 'RZ-500K', 'Big Bertha', 1, '2019-05-01', 'It needs methane from the Kestrel engine.');
INSERT INTO shop.persons VALUES (1, 'Ann Lee');
INSERT INTO shop.certificates VALUES (1, 7, '2024-02-29');
INSERT INTO graphrag.documents (source_key, content) VALUES
    ('manual', 'The RZ500K press leaks oil. Ann Lee mended it.'),
    ('log', 'Big Bertha stood still at Lyon Works. Carl Kent repaired Big Bertha.'),
    ('note', 'Little Fritz stood beside Big Bertha. Carl Kent called Little Fritz LH455. Ann Lee met Max Roe.');
"""
# Rows that take a name from a visible row, that give one to an entity of documents, and that are called as a visible row's key.
HIDDEN = """
INSERT INTO shop.plants VALUES (2, 'Lyon Works', 'Lyon'), (3, 'Big Bertha', 'Osaka'), (4, 'machines/7', 'Essen');
INSERT INTO shop.machines VALUES (8, 'LH 455', 'Little Fritz', 2, NULL, NULL),
                                 (9, 'RZ500K', 'Big Bertha', 1, '2019-05-01', 'Methane.'),
                                 (10, 'QX-1', 'RZ-500K', 2, NULL, 'Carl Kent repaired Big Bertha at Lyon Works.'),
                                 (11, 'Carl Kent', 'Osaka Works', 1, NULL, NULL), (12, 'QX-2', 'Max Roe', 1, NULL, NULL);
INSERT INTO shop.persons VALUES (2, 'Ann Lee'), (3, 'Max Roe'), (4, 'RZ-500K');
INSERT INTO shop.certificates VALUES (2, 8, '2024-02-29'), (3, 9, NULL), (1, 10, NULL);
"""
QUESTIONS = ("Where does Big Bertha stand, and who repaired the RZ500K?", "Ann Lee and Little Fritz at Lyon Works")
ENTITIES = (
    *("Big Bertha", "RZ500K", "RZ-500K", "machines/7", "Ann Lee", "Lyon Works", "Carl Kent", "Little Fritz", "LH455"),
    *("Osaka Works", "plants/1", "plants/2", "machines/9", "Max Roe", "persons/3", "Ann Lee (persons/1)"),
)
FILTERS = (
    '{"$source_key": "machines/9"}',
    '{"$row": {"stands in": {"city": "Lyon"}}}',
    '{"$source_key": {"$ne": "log"}}',
)


def look(db: Database) -> Portrait:
    reader = Reader(db.url, "never_reader")
    try:
        picture = portrait(reader, "default", exact=False)
        for name in ("graph_nodes_at", "graph_edges_at"):
            sql = f"SELECT to_jsonb(x)::text FROM graphrag.{name}('default', now()) x ORDER BY 1"
            picture[name] = reader.gives(sql)
        sql = "SELECT graphrag.context(%s, mode => 'naive')"
        for question in QUESTIONS:
            picture[f"context {question}"] = reader.gives(sql, question)
        # Statistics of BM25, which are of the whole corpus by contract, choose the chunks of that mode.
        return Portrait({call: text for call, text in picture.items() if not call.startswith("search lazy")})
    finally:
        reader.connection.close()


@pytest.mark.parametrize(
    "whole", [pytest.param(True, marks=pytest.mark.slow), False], ids=["sees all that there is", "sees a part"]
)
def test_hidden_rows_never_were(db: Database, monkeypatch: pytest.MonkeyPatch, whole: bool) -> None:
    for name, value in (
        ("QUESTIONS", QUESTIONS),
        ("ENTITIES", ENTITIES),
        ("FILTERS", FILTERS),
        ("WITHOUT_BM25", {"naive": '{"min_relevance": 0}'}),
    ):
        monkeypatch.setattr(portraits, name, value)
    db.execute(TABLES.encode())
    own_by_owner(
        db, "SCHEMA shop", *(f"TABLE shop.{name}" for name in ("plants", "machines", "persons", "certificates"))
    )
    for call in ATTACH:
        db.execute(f"SELECT graphrag.{call}".encode())
    db.execute(VISIBLE.encode())
    if not whole:
        db.execute("INSERT INTO shop.persons VALUES (9, 'Zoe Orr')")
    index(db)
    db.execute("DROP ROLE IF EXISTS never_reader; CREATE ROLE never_reader IN ROLE graphrag_reader")
    try:
        for statement in SECURED:
            db.execute(statement.replace("rows_reader", "never_reader").encode())
        before = look(db)
        db.execute(HIDDEN.encode())
        index(db)
        after = look(db)
    finally:
        db.execute("DROP OWNED BY never_reader; DROP ROLE never_reader")
    assert "RZ-500K" in before["neighbors 1: Big Bertha"] or "Osaka" in before["neighbors 1: Big Bertha"]
    assert before.difference(after) == {}
