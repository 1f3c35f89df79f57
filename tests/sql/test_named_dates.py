"""A question that names a day or a month finds the documents of that time first, of those that have its words."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest
from pg_graphrag import GraphRAG
from psycopg.types.json import Jsonb

from tests.runtime.cluster import Database
from tests.security.readers import acting_as, readers
from tests.sql.ingest import Connection, rows, searched_corpus, work
from tests.sql.two_hosts import close

# By key: what was said, when.
SAID = {
    "lake": ("Ann: I painted a lake near the old mill.", "2023-03-02 09:00Z"),
    "boat": ("Ann: I painted a boat, red and white.", "2023-05-08 21:30Z"),
    "barn": ("Ann: I painted a barn in the evening light.", "2023-06-20 10:00Z"),
    "rose": ("Ann: I painted a rose for my aunt.", "2022-05-08 10:00Z"),
    "mill": ("Ann: I painted the mill again.", "2023-05-19 10:00Z"),
    **{
        f"other {number}": (f"Bob: The {thing} was late, as every {day}.", f"2023-07-{number:02} 10:00Z")
        for number, (thing, day) in enumerate(
            ((thing, day) for thing in ("bus", "post", "plumber") for day in ("Monday", "Friday", "Sunday")), 1
        )
    },
}


def told(db: Connection, hidden: tuple[str, ...] = (), *, when: str | None = "said") -> str:
    """A corpus of SAID; `when`: "said", one moment for all, or None: they have no date."""
    corpus = searched_corpus(db)
    for key, (text, said_at) in SAID.items():
        db.execute(
            "INSERT INTO graphrag.documents (corpus, source_key, content, metadata, valid_from) VALUES (%s, %s, %s, %s, %s)",
            [corpus, key, text, Jsonb({"secret": key in hidden}), said_at if when == "said" else when],
        )
    work(db)
    return corpus


@pytest.fixture(scope="module")
def memory(module_db: Database) -> str:
    return told(module_db, ("boat",))


def found(db: Connection, corpus: str, question: str, **given: Any) -> list[tuple[str, float, Any]]:
    """Return (key, score, what is explained of dates) of what is found, best first."""
    names = ", ".join(f"{name} => %s" for name in given)
    sql = "SELECT source_key, score, explain -> 'dates' FROM graphrag.search(%s, %s, top_k => 8"
    values = [Jsonb(value) if isinstance(value, dict) else value for value in given.values()]
    return [
        (key, round(score, 6), dates)
        for key, score, dates in rows(db, f"{sql}{', ' if names else ''}{names})", question, corpus, *values)
    ]


@contextmanager
def time_zone(db: Connection, name: str) -> Iterator[None]:
    db.execute("SELECT set_config('TimeZone', %s, false)", [name])
    try:
        yield
    finally:
        db.execute("RESET TimeZone")


@pytest.mark.parametrize(
    ("when", "key", "named"),
    [
        ("on 8 May, 2023", "boat", "2023-05-08"),
        ("on May 19th, 2023", "mill", "2023-05-19"),
        ("on 2023-06-20", "barn", "2023-06-20"),
        ("in March 2023", "lake", "2023-03-*"),
        ("last week of May 2022", "rose", "2022-05-*"),
        ("am 20. Juni 2023", "barn", "2023-06-20"),
        ("in March", "lake", "*-03-*"),
        ("in 2023-06", "barn", "2023-06-*"),
        ("on 20.6.2023", "barn", "2023-06-20"),
    ],
)
def test_what_is_of_a_named_time_comes_first(module_db: Database, memory: str, when: str, key: str, named: str) -> None:
    with time_zone(module_db, "UTC"):
        first, *_ = found(module_db, memory, f"What did Ann paint {when}?")
    assert first[0] == key
    assert first[2]["named"] == [named]


def test_a_day_that_may_be_read_in_two_ways_is_both(module_db: Database, memory: str) -> None:
    with time_zone(module_db, "UTC"):
        first, *_ = found(module_db, memory, "What did Ann paint on 8/5/2023?")
    assert (first[0], first[2]["named"]) == ("boat", ["2023-05-08", "2023-08-05"])


def test_a_day_is_one_of_the_sessions_time_zone(module_db: Database, memory: str) -> None:
    """In Tokyo the boat was painted on the ninth."""
    for zone, day in (("UTC", 8), ("Asia/Tokyo", 9)):
        with time_zone(module_db, zone):
            dated = {
                asked: [
                    row[0] for row in found(module_db, memory, f"What did Ann paint on {asked} May 2023?") if row[2]
                ]
                for asked in (8, 9)
            }
        assert dated == {8: [], 9: []} | {day: ["boat"]}


def test_where_most_are_of_one_time_or_have_none_nothing_changes(module_db: Database) -> None:
    """They were imported then, say."""
    question = "What did Ann paint in May 2023?"
    without = found(module_db, told(module_db), question.replace(" in May 2023", ""))
    undated, imported = told(module_db, when=None), told(module_db, when="2023-05-08 12:00Z")
    none = found(module_db, undated, question)
    assert len(none) > 4
    assert not any(dates for *_, dates in [*none, *without])
    assert found(module_db, imported, question) == none
    sql = "UPDATE graphrag.documents SET valid_from = '2024-05-08' WHERE corpus = %s AND source_key IN ('lake', 'mill')"
    module_db.execute(sql, [imported])
    assert found(module_db, imported, question) == none


def test_what_is_hidden_does_not_count_however_it_is_hidden(module_db: Database, memory: str) -> None:
    question = "What did Ann paint in May 2023?"
    by_filter = found(module_db, memory, question, filter={"secret": False})
    assert by_filter[0][0] == "mill"
    with readers(module_db, 1) as (reader,):
        module_db.execute("SELECT graphrag.protect(%s, $$metadata ->> 'secret' = 'false'$$)", [memory])
        try:
            with acting_as(module_db, reader):
                assert found(module_db, memory, question) == by_filter
        finally:
            module_db.execute("SELECT graphrag.unprotect(%s)", [memory])


def test_a_second_host_finds_the_same(module_db: Database, plain: str) -> None:
    answers = []
    for url in (module_db.url, plain):
        with GraphRAG(url, "dates of both hosts") as rag:
            rag.create_corpus(cypher=False, communities=False)
            rag.insert({"source_key": key, "content": text, "valid_from": at} for key, (text, at) in SAID.items())
            rag.process_jobs()
            answers.append(
                [
                    (row.source_key, row.score, row.explain.get("dates"))
                    for row in rag.search("What did Ann paint in May 2023?")
                ]
            )
    assert answers[0][0][2] is not None
    assert close(*answers)
