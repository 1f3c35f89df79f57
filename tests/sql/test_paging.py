"""An answer of more rows begins with the answer of fewer, and has as many as match; pages make up the whole."""

from typing import Any

import pytest
from pg_graphrag.ground import mode_names

from tests.runtime.cluster import Database
from tests.sql.ingest import keys, put, refused, search, searched_corpus, work
from tests.sql.test_one_answer import COMMUNITY_MODES, OPEN_MODES

MODES = (*OPEN_MODES, *COMMUNITY_MODES)
COUNT = 240
NAMES = (
    "Ada Lovelace",
    "Alan Turing",
    "Grace Hopper",
    "Joan Clarke",
    "Mary Somerville",
    "Charles Babbage",
    "Luigi Menabrea",
)
PLACES = ("Vienna", "Oslo", "Lisbon", "Athens", "Dublin")
QUERY = "What did Ada Lovelace write to Alan Turing in Oslo?"


@pytest.fixture(scope="module")
def corpus(module_db: Database) -> str:
    name = searched_corpus(module_db, communities=True)
    for n in range(COUNT):
        content = (
            f"{NAMES[n % 7]} wrote letter {n} to {NAMES[n * 3 % 7]} in {PLACES[n * n % 5]}. It came on day {n % 31}."
        )
        put(module_db, name, f"{n:03}", content, metadata={"n": n, "exact": 12345678901234567890} if n % 2 else {})
    work(module_db)
    return name


@pytest.mark.sample(4)
@pytest.mark.parametrize("mode", MODES)
def test_an_answer_of_more_rows_begins_with_that_of_fewer(module_db: Database, corpus: str, mode: str) -> None:
    whole = search(module_db, QUERY, corpus, mode, top_k=1000)
    assert len(whole) >= 10
    for count in (1, 2, 7, 8, 10, 11, 60, 61, 120, 205):
        assert search(module_db, QUERY, corpus, mode, top_k=count) == whole[:count], (mode, count)
    scores = [row["score"] for row in whole]
    assert scores == sorted(scores, reverse=True)
    assert len(set(keys(whole))) == len(whole)


def test_every_mode_is_tried() -> None:
    assert set(MODES) == set(mode_names.MODES)


@pytest.mark.parametrize("mode", ["naive", "bm25", "hybrid", "mix", "ppr"])
def test_an_answer_has_as_many_rows_as_match(module_db: Database, corpus: str, mode: str) -> None:
    assert len(search(module_db, "Which letter came from Oslo?", corpus, mode, top_k=1000)) == COUNT


@pytest.mark.parametrize("mode", MODES)
def test_pages_make_up_the_whole(module_db: Database, corpus: str, mode: str) -> None:
    whole = search(module_db, QUERY, corpus, mode, top_k=130)
    pages = [search(module_db, QUERY, corpus, mode, top_k=50, options={"offset": offset}) for offset in (0, 50, 100)]
    assert [row for page in pages for row in page][:130] == whole
    assert search(module_db, QUERY, corpus, mode, options={"offset": 9_999}) == []


@pytest.mark.parametrize("offset", [-1, 10_001, 1.5, "1", None])
def test_a_bad_offset_is_refused(module_db: Database, corpus: str, offset: Any) -> None:
    with pytest.raises(Exception, match="search option"):
        search(module_db, QUERY, corpus, "bm25", options={"offset": offset})


def test_a_context_has_no_offset(module_db: Database, corpus: str) -> None:
    error = refused(module_db, """SELECT graphrag.context('x', %s, options => '{"offset": 1}')""", corpus)
    assert "is of graphrag.search" in (error.message_primary or "")


def test_rows_carry_the_metadata_of_their_documents(module_db: Database, corpus: str) -> None:
    for row in search(module_db, QUERY, corpus, "bm25", top_k=20):
        n = int(row["source_key"])
        assert row["explain"].get("metadata", {}) == ({"n": n, "exact": 12345678901234567890} if n % 2 else {})
