"""Of near-duplicate documents the first ranks hold one, in every mode, and `explain` names the others."""

import json
from typing import Any

import pytest

from tests.runtime.cluster import Database
from tests.security.readers import acting_as, readers
from tests.sql.ingest import keys, put, refused, search, searched_corpus, value, work
from tests.sql.test_paging import MODES

STORY = (
    "Bob Stone designed the Kestrel engine in Osaka for Acme Rockets. The Kestrel engine burns methane. Its first flight on the"
    " Heron launcher ended in the sea. A year later the second flight of the Heron launcher reached orbit."
)
PEOPLE = ("Ann Lee", "Carl Moss", "Dora Vance", "Emil Roth", "Fay Orton", "Gus Hale", "Ida Penn", "Jon Reed")
PLACES = ("Vienna", "Oslo", "Lisbon", "Athens", "Dublin")
COPIES = ("copy 1", "copy 2", "copy 3")
QUERY = "Who designed the Kestrel engine of the Heron launcher?"


@pytest.fixture(scope="module")
def corpus(module_db: Database) -> str:
    name = searched_corpus(module_db, communities=True)
    for number, key in enumerate(COPIES):
        put(module_db, name, key, f"{STORY} Noted in {1990 + number}.", metadata={"copy": number})
    for number in range(40):
        person, place = PEOPLE[number % 8], PLACES[number % 5]
        put(
            module_db,
            name,
            f"letter {number:02}",
            f"{person} asked Bob Stone about the Heron launcher from {place}, in letter {number}."
            f" {PEOPLE[number * 3 % 8]} had seen the Kestrel engine {number % 7} times, and liked {PLACES[number % 3]}.",
            metadata={"copy": -1},
        )
    work(module_db)
    return name


@pytest.mark.sample(4)
@pytest.mark.parametrize("mode", MODES)
def test_the_first_ranks_hold_one_of_near_duplicates(module_db: Database, corpus: str, mode: str) -> None:
    results = search(module_db, QUERY, corpus, mode, top_k=1000)
    places = {row["source_key"]: place for place, row in enumerate(results) if row["source_key"] in COPIES}
    in_place = search(module_db, QUERY, corpus, mode, top_k=1000, options={"near_duplicates": "in_place"})
    assert sum(key in COPIES for key in keys(in_place[:10])) > 1, "they would take several"
    assert sorted(keys(results)) == sorted(keys(in_place))
    first, *others = sorted(places, key=places.__getitem__)
    assert places[first] < 10
    assert min(places[key] for key in others) >= min(10, len(results) - len(others))
    explain = [row["explain"] for row in results if row["source_key"] in COPIES]
    assert sorted(explain[0]["twins"]) == sorted(others)
    assert [item["twin_of"] for item in explain[1:]] == [first] * 2
    assert not any("twins" in row["explain"] or "twin_of" in row["explain"] for row in in_place)


@pytest.mark.sample(4)
@pytest.mark.parametrize("mode", MODES)
def test_an_answer_of_more_rows_begins_with_that_of_fewer(module_db: Database, corpus: str, mode: str) -> None:
    whole = search(module_db, QUERY, corpus, mode, top_k=1000)
    for count in (1, 2, 9, 10, 11, 12, 13, 30):
        assert search(module_db, QUERY, corpus, mode, top_k=count) == whole[:count], count
    for offset in (5, 10, 15):
        page = search(module_db, QUERY, corpus, mode, top_k=5, options={"offset": offset})
        assert page == whole[offset : offset + 5], offset
    scores = [row["score"] for row in whole]
    assert scores == sorted(scores, reverse=True)


@pytest.mark.slow
def test_more_copies_than_rows_are_read_at_first_leave_the_first_ranks_full(module_db: Database) -> None:
    name = searched_corpus(module_db)
    for number in range(70):
        put(module_db, name, f"copy {number:02}", f"{STORY} Noted in {1900 + number}.")
    for number, person in enumerate(PEOPLE):
        put(
            module_db,
            name,
            f"letter {number}",
            f"{person} wrote of an engine in letter {number} from {PLACES[number % 5]}.",
        )
    work(module_db)
    results = search(module_db, QUERY, name, "hybrid", top_k=9)
    assert sum(key.startswith("copy") for key in keys(results)) == 1
    assert len(results[0]["explain"]["twins"]) == 69
    assert results == search(module_db, QUERY, name, "hybrid", top_k=78)[:9]


def test_copies_that_a_reader_does_not_see_are_not_named(module_db: Database, corpus: str) -> None:
    with readers(module_db, 1) as (role,):
        value(module_db, "SELECT graphrag.protect(%s, %s)", corpus, "(metadata ->> 'copy')::int <= 0")
        with acting_as(module_db, role):
            results = search(module_db, QUERY, corpus)
        value(module_db, "SELECT graphrag.unprotect(%s)", corpus)
    filtered = search(module_db, QUERY, corpus, filter={"copy": {"$lte": 0}})
    assert [row["source_key"] for row in results] == keys(filtered)
    assert "copy 1" in keys(filtered)
    assert not any("twins" in row["explain"] for row in (*results, *filtered))


@pytest.mark.parametrize("given", ["apart", True, None])
def test_a_bad_value_is_refused(module_db: Database, corpus: str, given: Any) -> None:
    options = json.dumps({"near_duplicates": given})
    error = refused(module_db, "SELECT * FROM graphrag.search('x', %s, options => %s)", corpus, options)
    assert "near_duplicates" in (error.message_primary or "") and "behind, in_place" in (error.message_hint or "")
