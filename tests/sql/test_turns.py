"""Turns of a conversation are found by the turns around them, as their reader sees these."""

import json
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest
from pg_graphrag import GraphRAG
from psycopg.types.json import Jsonb

from tests.runtime.cluster import Database
from tests.security.readers import acting_as, readers
from tests.sql.ingest import Connection, corpus_id, rows, searched_corpus, work
from tests.sql.two_hosts import close

TURNS = (
    ("Ann: I am back from the office, it rains.", "monday"),
    ("Bob: What do you do to calm down after a stressful week?", "monday"),
    ("Ann: Mostly long runs along the river. It clears my head.", "monday"),
    ("Bob: Nice, I should try that one day.", "monday"),
    ("Bob: The car is in the garage again.", "friday"),
    ("Ann: Was it the brakes?", "friday"),
    ("Bob: Yes, both of them.", "friday"),
    ("Ann: A stressful week for your wallet, then.", "friday"),
    ("Bob: Stressful is the word. I bought bread, milk and two lemons.", "friday"),
)
OTHERS = (
    *(f"Ann: The {thing} came on {day}." for thing in ("post", "bus", "plumber") for day in ("Tuesday", "Sunday")),
    *(f"Bob: My {who} likes the {thing}." for who in ("aunt", "cousin") for thing in ("sea", "snow", "opera", "zoo")),
)
QUESTION = "What does Ann do to calm down?"
ANSWER = "3"


def remembered(db: Connection, hidden: tuple[str, ...] = (), *, elsewhere: bool = False, **options: Any) -> str:
    """A corpus of the turns; the key is a turn's number, and those that are `hidden` are secret.

    `elsewhere`: these were said in other conversations.
    """
    corpus = searched_corpus(db, **options)
    turns = [*TURNS, *((text, "small talk") for text in OTHERS)]
    for number, (text, session) in enumerate(turns, 1):
        is_hidden = str(number) in hidden
        metadata = {"session": f"{number}" if is_hidden and elsewhere else session, "secret": is_hidden}
        db.execute(
            "INSERT INTO graphrag.documents (corpus, source_key, content, metadata, valid_from)"
            " VALUES (%s, %s, %s, %s, '2024-03-01'::timestamptz + %s * '1 minute'::interval)",
            [corpus, str(number), text, Jsonb(metadata), number],
        )
    work(db)
    return corpus


@pytest.fixture(scope="module")
def memory(module_db: Database) -> str:
    return remembered(module_db, ("2", "8"), conversation="session")


def found(db: Connection, corpus: str, **given: Any) -> list[tuple[str, float]]:
    """Return (key, score) of what is found, best first."""
    names = ", ".join(f"{name} => %s" for name in given)
    sql = f"SELECT source_key, score FROM graphrag.search(%s, %s, top_k => 8{', ' if names else ''}{names})"
    values = [Jsonb(value) if isinstance(value, dict) else value for value in given.values()]
    return [(key, round(score, 6)) for key, score in rows(db, sql, QUESTION, corpus, *values)]


@contextmanager
def set_to(db: Connection, **values: int) -> Iterator[None]:
    """Move bounds of the module in the session."""
    module = "from pg_graphrag.search.retrievers import turns\n"
    moved = "\n".join(f"turns.{name} = {value}" for name, value in values.items())
    db.execute(f"DO LANGUAGE plpython3u $$\n{module}turns.kept = dict(vars(turns))\n{moved}\n$$".encode())
    try:
        yield
    finally:
        db.execute(f"DO LANGUAGE plpython3u $$\n{module}vars(turns).update(turns.kept)\n$$".encode())


def test_an_answer_is_found_by_the_turn_that_asked_for_it(module_db: Database, memory: str) -> None:
    plain = [key for key, _ in found(module_db, remembered(module_db))]
    assert ANSWER not in plain[:2]
    assert ANSWER in [key for key, _ in found(module_db, memory)][:2]
    sql = "SELECT explain FROM graphrag.search(%s, %s, top_k => 8) WHERE source_key = %s"
    ((explain,),) = rows(module_db, sql, QUESTION, memory, ANSWER)
    assert explain["windows"]["turns"] > 0


def test_conversations_do_not_mix_and_what_is_in_none_stands_for_itself(module_db: Database, memory: str) -> None:
    sql = "SELECT source_key FROM graphrag.search(%s, %s, top_k => 30) WHERE explain::text LIKE '%%turns%%'"
    lent = {key for (key,) in rows(module_db, sql, QUESTION, memory)}
    assert {"1", "3"} <= lent
    assert rows(module_db, sql, QUESTION, remembered(module_db, conversation="no such field")) == []


def test_a_turn_that_is_hidden_lends_nothing_however_it_is_hidden(module_db: Database, memory: str) -> None:
    """Its reader gets what he would get if it had been said elsewhere."""
    by_filter = found(module_db, memory, filter={"secret": False})
    elsewhere = remembered(module_db, ("2", "8"), elsewhere=True, conversation="session")
    assert found(module_db, elsewhere, filter={"secret": False}) == by_filter
    assert [row for row in found(module_db, memory) if row[0] not in ("2", "8")] != by_filter
    with readers(module_db, 1) as (reader,):
        module_db.execute("SELECT graphrag.protect(%s, $$metadata ->> 'secret' = 'false'$$)", [memory])
        try:
            with acting_as(module_db, reader):
                assert found(module_db, memory) == by_filter
        finally:
            module_db.execute("SELECT graphrag.unprotect(%s)", [memory])


def test_a_large_corpus_looks_up_its_conversations_and_finds_the_same(module_db: Database, memory: str) -> None:
    asked = ({}, {"filter": {"secret": False}})
    read = [found(module_db, memory, **given) for given in asked]
    with set_to(module_db, FEW_CHUNKS=0):
        assert [found(module_db, memory, **given) for given in asked] == read


@pytest.mark.parametrize("few", [0, 5000])
def test_of_a_conversation_without_end_each_turn_stands_for_itself(module_db: Database, memory: str, few: int) -> None:
    sql = "SELECT source_key FROM graphrag.search(%s, %s, top_k => 30) WHERE explain::text LIKE '%%turns%%'"
    with set_to(module_db, FEW_CHUNKS=few, MAX_TURNS=4):
        lent = {key for (key,) in rows(module_db, sql, QUESTION, memory)}
    assert "3" in lent
    assert not lent & {"5", "6", "7", "8", "9"}


@pytest.mark.parametrize("field", ["it's", '{session} "$1" %s', "ключ"])
def test_any_field_may_name_the_conversation(module_db: Database, field: str) -> None:
    corpus = searched_corpus(module_db, conversation=field)
    for number, text in enumerate(("Ann: Do you play an instrument?", "Bob: Yes, for years!", "Ann: It rains."), 1):
        module_db.execute(
            "INSERT INTO graphrag.documents (corpus, source_key, content, metadata) VALUES (%s, %s, %s, %s)",
            [corpus, str(number), text, Jsonb({field: ["list", 1] if number < 3 else None})],
        )
    work(module_db)
    sql = "SELECT source_key, explain::text LIKE '%%turns%%' FROM graphrag.search('Which instrument?', %s) ORDER BY 1"
    for few in (0, 5000):
        with set_to(module_db, FEW_CHUNKS=few):
            assert rows(module_db, sql, corpus) == [("1", False), ("2", True), ("3", False)]


def test_the_field_can_be_changed_and_taken_back_without_reindexing(module_db: Database) -> None:
    corpus = remembered(module_db)
    before = found(module_db, corpus)
    for field in ("session", None):
        module_db.execute("SELECT graphrag.alter_corpus(%s, %s)", [corpus, json.dumps({"conversation": field})])
        assert rows(module_db, "SELECT FROM graphrag.jobs WHERE corpus_id = %s", corpus_id(module_db, corpus)) == []
        assert (found(module_db, corpus) == before) == (field is None)


def test_a_second_host_finds_the_same(module_db: Database, plain: str) -> None:
    answers = []
    for url in (module_db.url, plain):
        with GraphRAG(url, "turns of both hosts") as rag:
            rag.create_corpus(cypher=False, communities=False, conversation="session")
            rag.insert(
                {"source_key": str(number), "content": text, "metadata": {"session": session}}
                for number, (text, session) in enumerate(TURNS, 1)
            )
            rag.process_jobs()
            answers.append([(row.source_key, row.score, row.explain["windows"]) for row in rag.search(QUESTION)])
    without_ids = [[(key, score, {**why, "window_id": 0}) for key, score, why in answer] for answer in answers]
    assert len(without_ids[0]) > 3
    assert close(*without_ids)


def test_mix_heeds_turns_too(module_db: Database, memory: str) -> None:
    sql = "SELECT explain FROM graphrag.search(%s, %s, 'mix', top_k => 8) WHERE source_key = %s"
    ((explain,),) = rows(module_db, sql, QUESTION, memory, ANSWER)
    assert explain["windows"]["turns"] > 0
