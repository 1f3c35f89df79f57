"""Suggested merges: variants with score and reason, and nothing is merged."""

from collections.abc import Iterator
from typing import Any

import pytest
from psycopg.types.json import Jsonb

from tests.runtime.cluster import Database
from tests.sql.ingest import canonical, new_corpus, refused, rows

NAMES = [
    "Ada Lovelace", "Lady Lovelace", "Ада Лавлейс", "Charles Babbage", "Charles Babage", "write-ahead logging", "WAL",
    "PostgreSQL 16", "PostgreSQL 17", "automobile", "car", "Turin", "Enigma", "Somerset",
]  # fmt: skip
RELATED = [
    ("Charles Babbage", "Ada Lovelace"),
    ("Charles Babbage", "Turin"),
    ("Charles Babage", "Turin"),
    ("Charles Babage", "Ada Lovelace"),
    ("WAL", "Enigma"),
    ("WAL", "PostgreSQL 17"),
]


@pytest.fixture
def corpus(module_db: Database) -> Iterator[str]:
    name = new_corpus(module_db)
    graph = {
        "entities": [{"name": entity, "type": "thing"} for entity in NAMES],
        "relationships": [{"source": source, "target": target} for source, target in RELATED],
    }
    module_db.execute("SELECT graphrag.insert_graph(%s, %s)", [name, Jsonb(graph)])
    yield name
    module_db.execute("SELECT graphrag.drop_corpus(%s)", [name])


def suggested(db: Any, corpus: str) -> dict[frozenset[str], tuple[float, str]]:
    records = rows(db, "SELECT entity, target, score, reason FROM graphrag.suggest_merges(%s)", corpus)
    scores = [row[2] for row in records]
    assert scores == sorted(scores, reverse=True)
    assert all(0.6 <= score <= 1 for score in scores)
    return {frozenset(row[:2]): (row[2], row[3]) for row in records}


def test_variants_are_suggested_with_a_reason_and_nothing_is_merged(module_db: Database, corpus: str) -> None:
    before = canonical(module_db, corpus)
    suggestions = suggested(module_db, corpus)
    babbage = suggestions[frozenset(("Charles Babbage", "Charles Babage"))]
    assert babbage[1].startswith("spelling: a letter apart")
    assert "2 of 2 neighbours in common" in babbage[1]
    assert suggestions[frozenset(("WAL", "write-ahead logging"))][1].startswith("abbreviation: initials WAL")
    assert suggestions[frozenset(("Ада Лавлейс", "Ada Lovelace"))][1].startswith("transliteration: the same sound")
    assert suggestions[frozenset(("automobile", "car"))][1].startswith("embedding:")
    assert frozenset(("PostgreSQL 16", "PostgreSQL 17")) not in suggestions
    assert not any("Somerset" in pair or "Enigma" in pair for pair in suggestions)
    assert canonical(module_db, corpus) == before


def test_a_suggestion_is_what_merge_entities_takes_and_then_is_gone(module_db: Database, corpus: str) -> None:
    pair = frozenset(("Charles Babbage", "Charles Babage"))
    merge = (
        "SELECT graphrag.merge_entities(ARRAY[s.entity], s.target, %s) FROM graphrag.suggest_merges(%s) s"
        " WHERE 'Charles Babage' IN (s.entity, s.target)"
    )
    ((number,),) = rows(module_db, merge, corpus, corpus)
    assert pair not in suggested(module_db, corpus)
    module_db.execute("SELECT graphrag.undo_curation(%s)", [number])
    # Somebody thought better of it.
    assert pair not in suggested(module_db, corpus)


def test_different_types_count_against_a_merge(module_db: Database, corpus: str) -> None:
    pair = frozenset(("Charles Babbage", "Charles Babage"))
    before = suggested(module_db, corpus)[pair][0]
    module_db.execute("SELECT graphrag.edit_entity('Charles Babage', %s, type => 'ship')", [corpus])
    after = suggested(module_db, corpus)[pair]
    assert after[0] < before
    assert "types" in after[1]


def test_as_many_as_asked_for(module_db: Database, corpus: str) -> None:
    assert len(rows(module_db, "SELECT FROM graphrag.suggest_merges(%s, 2)", corpus)) == 2
    assert refused(module_db, "SELECT graphrag.suggest_merges(%s, 0)", corpus).sqlstate == "22023"
    assert refused(module_db, "SELECT graphrag.suggest_merges('nowhere')").sqlstate == "42704"
    assert rows(module_db, "SELECT FROM graphrag.suggest_merges(%s)", new_corpus(module_db)) == []
