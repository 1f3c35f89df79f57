"""graphrag.fingerprint(): equal for equal documents, different for any difference that can be seen."""

from typing import Any

import pytest

from tests.runtime.cluster import Database
from tests.sql.ingest import STORIES, delete, index_all, new_corpus, put, rows, value, work


def fingerprint(db: Any, corpus: str) -> str:
    return str(value(db, "SELECT graphrag.fingerprint(%s)", corpus))


def sections(db: Any, corpus: str) -> dict[str, str]:
    return dict(rows(db, "SELECT section, hash FROM graphrag.fingerprint_sections(%s)", corpus))


@pytest.fixture(scope="module")
def corpus(module_db: Database) -> str:
    return index_all(module_db, new_corpus(module_db), STORIES)


def test_it_is_the_same_in_another_order_after_changes_and_optimize(module_db: Database, corpus: str) -> None:
    other = new_corpus(module_db)
    put(module_db, other, "gone", "Ada Lovelace met nobody. London was empty.")
    put(module_db, other, "turing", "Alan Turing was somebody else.")
    work(module_db)
    module_db.execute("SELECT graphrag.optimize(%s)", [other])
    for key in sorted(STORIES, reverse=True):
        put(module_db, other, key, STORIES[key])
        work(module_db, 1)
    delete(module_db, other, "gone")
    work(module_db)
    assert sections(module_db, other) == sections(module_db, corpus)
    assert fingerprint(module_db, other) == fingerprint(module_db, corpus)
    module_db.execute("SELECT graphrag.optimize(%s)", [other])
    assert fingerprint(module_db, other) == fingerprint(module_db, corpus)


@pytest.mark.parametrize(
    "setting",
    ["bytea_output = 'escape'", "extra_float_digits = -15", "datestyle = 'SQL, DMY'", "timezone = 'Asia/Kathmandu'"],
)
def test_no_setting_of_the_session_changes_it(module_db: Database, corpus: str, setting: str) -> None:
    expected = sections(module_db, corpus)
    module_db.execute(f"SET {setting}".encode())
    try:
        assert sections(module_db, corpus) == expected
    finally:
        module_db.execute(f"RESET {setting.split()[0]}".encode())


def test_an_emptied_corpus_is_as_a_new_one(module_db: Database) -> None:
    new, emptied = new_corpus(module_db), new_corpus(module_db)
    index_all(module_db, emptied, STORIES)
    module_db.execute("DELETE FROM graphrag.documents WHERE corpus = %s", [emptied])
    work(module_db)
    assert fingerprint(module_db, emptied) == fingerprint(module_db, new)


@pytest.mark.parametrize(
    ("change", "section"),
    [
        ("UPDATE graphrag.documents SET metadata = '{\"a\": 1}' WHERE source_key = 'ada'", "documents"),
        ("UPDATE graphrag.chunks SET token_count = token_count + 1", "chunks"),
        ("UPDATE graphrag.chunks SET tsv = strip(tsv)", "terms"),
        ("UPDATE graphrag.chunk_windows SET end_offset = end_offset - 1", "windows"),
        ("UPDATE graphrag.entity_mentions SET tf = tf + 1", "entity mentions"),
        ("UPDATE graphrag.entities SET degree = degree + 1", "entities"),
        ("UPDATE graphrag.entity_values SET count = count + 1", "entity values"),
        ("UPDATE graphrag.relationship_mentions SET forward = NOT forward", "relationship mentions"),
        ("UPDATE graphrag.relationships SET weight = weight + 1", "relationships"),
        ("DELETE FROM graphrag.bm25_tail", "BM25"),
        ("""UPDATE {}."Entity" SET properties = '{{"key": "x"}}'""", "graph: Entity"),
        ('UPDATE {}."RELATED" SET end_id = start_id', "graph: RELATED"),
        ('DELETE FROM {}."PART_OF"', "graph: PART_OF"),
    ],
)
def test_every_difference_shows_in_its_section(module_db: Database, corpus: str, change: str, section: str) -> None:
    graph = value(module_db, "SELECT graph_name FROM graphrag.corpora WHERE name = %s", corpus)
    before, whole = sections(module_db, corpus), fingerprint(module_db, corpus)
    with module_db.transaction(force_rollback=True):
        module_db.execute(change.format(graph).encode() if "{}." in change else change.encode())
        after = sections(module_db, corpus)
        assert after[section] != before[section]
        assert fingerprint(module_db, corpus) != whole
    assert sections(module_db, corpus) == before


def test_the_rows_behind_it_can_be_read(module_db: Database, corpus: str) -> None:
    lines = rows(module_db, "SELECT section_name, line FROM graphrag._canonical(%s)", corpus)
    counts = dict(rows(module_db, "SELECT section, row_count FROM graphrag.fingerprint_sections(%s)", corpus))
    for section, count in counts.items():
        result = [line for name, line in lines if name == section]
        assert len(result) == count
        assert result == sorted(result) or section == "BM25"
        assert rows(module_db, "SELECT line FROM graphrag._canonical(%s, %s)", corpus, section) == [
            (x,) for x in result
        ]
