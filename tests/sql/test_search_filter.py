"""Filters and row-level security: only what may be seen is returned, and never fewer rows than there are."""

from collections.abc import Iterator
from typing import Any

import psycopg
import pytest

from tests.runtime.cluster import Database
from tests.sql.ingest import corpus_id, delete, keys, put, refused, rows, search, searched_corpus, value, work

MODES = ("naive", "bm25", "local", "global", "hybrid", "mix")
COUNT = 240
QUERY = "What did Ada Lovelace write to Vienna?"
# The hub is in every document; those that few may see come last.
PLACES = ("Vienna", "Oslo", "Lisbon", "Athens", "Dublin", "Prague")
RARE = 5


@pytest.fixture(scope="module")
def corpus(module_db: Database) -> str:
    name = searched_corpus(module_db)
    for n in range(COUNT):
        content = f"Letter {n}: Mr Ada Lovelace wrote to {PLACES[n % 6]} about engine {n % 11}."
        rare = n >= COUNT - RARE
        put(module_db, name, f"{n:03}", content, metadata={"third": n % 3, "rare": rare, "tags": ["all", str(n % 2)]})
    work(module_db)
    return name


@pytest.fixture(scope="module")
def indexed(module_db: Database, corpus: str) -> str:
    """The corpus with HNSW indexes, however small."""
    built = value(module_db, "SELECT graphrag._index_vectors(%s, 1)", corpus_id(module_db, corpus))
    assert len(built) == 2
    return corpus


@pytest.mark.sample(5)
@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize(
    ("given", "allowed"),
    [
        ({"third": 1}, {f"{n:03}" for n in range(1, COUNT, 3)}),
        ({"rare": True}, {f"{n:03}" for n in range(COUNT - RARE, COUNT)}),
        ({"tags": ["all"], "third": 2}, {f"{n:03}" for n in range(2, COUNT, 3)}),
        ({}, {f"{n:03}" for n in range(COUNT)}),
    ],
    ids=["a third", "five", "two conditions", "all"],
)
def test_a_filter_returns_what_it_allows_and_all_places_are_filled(
    module_db: Database, indexed: str, mode: str, given: dict[str, Any], allowed: set[str]
) -> None:
    for top_k in (1, 4, 50):
        results = keys(search(module_db, QUERY, indexed, mode, top_k=top_k, filter=given))
        assert set(results) <= allowed
        assert len(results) == len(set(results)) == min(top_k, len(allowed)), (mode, top_k)


@pytest.mark.parametrize("mode", MODES)
def test_a_filter_that_nothing_passes_returns_nothing(module_db: Database, indexed: str, mode: str) -> None:
    assert search(module_db, QUERY, indexed, mode, filter={"third": 7}) == []


@pytest.mark.parametrize("top_k", [1, 10, 99, 150, 201, COUNT, 1000])
@pytest.mark.parametrize("mode", ["naive", "bm25", "hybrid"])
def test_no_top_k_is_under_filled(module_db: Database, indexed: str, mode: str, top_k: int) -> None:
    results = keys(search(module_db, QUERY, indexed, mode, top_k=top_k))
    assert len(results) == len(set(results)) == min(top_k, COUNT)


# An index of metadata would leave out most of what it finds.
FUZZY = "SET gin_fuzzy_search_limit = 1; SET enable_seqscan = off; SET enable_indexscan = off"


def test_no_setting_has_a_filter_find_less(module_db: Database, corpus: str) -> None:
    module_db.execute("VACUUM ANALYZE graphrag.documents")  # what waits to go into the index is always found
    with psycopg.connect(module_db.url, autocommit=True) as connection:
        connection.execute(FUZZY.encode())
        assert value(connection, "SELECT count(*) FROM graphrag.documents WHERE metadata @> '{\"rare\": true}'") < RARE
        results = keys(search(connection, QUERY, corpus, "naive", top_k=COUNT, filter={"rare": True}))
    assert set(results) == VISIBLE


def test_no_setting_has_a_protection_show_less(db: Database) -> None:
    db.execute("SELECT graphrag.create_corpus('c')")
    for n in range(40):
        put(db, "c", str(n), f"Letter {n}.", metadata={"open": n % 2 == 0})
    work(db)
    db.execute("VACUUM graphrag.documents")  # what waits to go into the index is always found
    db.execute("SELECT graphrag.protect('c', 'metadata @> jsonb_build_object(''open'', true)')")
    with psycopg.connect(db.url, autocommit=True) as connection:
        connection.execute("SET ROLE graphrag_reader")
        connection.execute(FUZZY.encode())
        assert value(connection, "SELECT count(*) FROM graphrag.visible_documents()") == 20
        assert value(connection, "SELECT count(*) FROM graphrag.document_coverage") == 20
        assert len(search(connection, "Letter", "c", "naive", top_k=40)) == 20


def test_bm25_statistics_ignore_the_filter(module_db: Database, corpus: str) -> None:
    whole = {row["source_key"]: row["score"] for row in search(module_db, "Oslo", corpus, "bm25", top_k=1000)}
    part = {row["source_key"]: row["score"] for row in search(module_db, "Oslo", corpus, "bm25", filter={"rare": True})}
    assert part
    assert part.items() <= whole.items()


def test_filtered_entities_and_relationships_are_of_the_documents_allowed(module_db: Database, corpus: str) -> None:
    # A third of the letters: those to Vienna and Athens.
    matches = rows(
        module_db,
        "SELECT name FROM graphrag.search_entities('Vienna Oslo Athens', %s, 20, filter => %s::jsonb)",
        corpus,
        '{"third": 0}',
    )
    names = {name for (name,) in matches}
    assert {"Vienna", "Athens"} <= names
    assert not {"Oslo", "Lisbon", "Dublin", "Prague"} & names
    matches = rows(
        module_db,
        "SELECT source, target FROM graphrag.search_relationships('letters to Vienna', %s, 20, filter => %s::jsonb)",
        corpus,
        '{"third": 0}',
    )
    assert matches
    assert not {"Oslo", "Lisbon", "Dublin", "Prague"} & {name for pair in matches for name in pair}


@pytest.fixture(scope="module")
def secured(module_db: Database, indexed: str) -> str:
    """Readers see the rare documents of the corpus only."""
    module_db.execute("ALTER TABLE graphrag.documents ENABLE ROW LEVEL SECURITY")
    module_db.execute("CREATE POLICY rare ON graphrag.documents FOR SELECT USING ((metadata ->> 'rare')::boolean)")
    return indexed


@pytest.fixture
def reader(module_db: Database) -> Iterator[psycopg.Connection[Any]]:
    with psycopg.connect(module_db.url, autocommit=True) as connection:
        connection.execute("SET ROLE graphrag_reader")
        yield connection


VISIBLE = {f"{n:03}" for n in range(COUNT - RARE, COUNT)}


@pytest.mark.sample(2)
@pytest.mark.parametrize("mode", MODES)
def test_under_row_level_security_a_reader_sees_all_visible_documents_and_no_other(
    secured: str, reader: psycopg.Connection[Any], mode: str
) -> None:
    for top_k in (3, 100):
        results = keys(search(reader, QUERY, secured, mode, top_k=top_k))
        assert set(results) <= VISIBLE
        assert len(results) == min(top_k, RARE), mode


@pytest.mark.sample(2)
@pytest.mark.parametrize("mode", MODES)
def test_documents_deleted_before_a_worker_ran_take_no_places(module_db: Database, mode: str) -> None:
    name = searched_corpus(module_db)
    for n in range(40):
        put(module_db, name, f"{n:02}", f"Mr Ada Lovelace wrote letter {n} to Vienna and Oslo.")
    work(module_db)
    for n in range(35):
        delete(module_db, name, f"{n:02}")
    assert sorted(keys(search(module_db, QUERY, name, mode, top_k=5))) == ["35", "36", "37", "38", "39"]
    module_db.execute("SELECT graphrag.drop_corpus(%s)", [name])


def test_filter_that_is_no_object_is_an_error(module_db: Database, corpus: str) -> None:
    diag = refused(module_db, "SELECT graphrag.search('x', %s, filter => '\"third\"')", corpus)
    assert (diag.sqlstate, bool(diag.message_hint)) == ("22023", True)
