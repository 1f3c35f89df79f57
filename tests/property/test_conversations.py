"""Random conversations with days, weak concepts and equal texts: one question has one answer, however it comes about."""

import re
from collections.abc import Sequence
from random import Random
from typing import Any

import psycopg
import pytest
from psycopg.types.json import Jsonb

from tests.runtime.cluster import Database
from tests.security.readers import acting_as, readers
from tests.sql.ingest import Connection, rows, searched_corpus, work

SEEDS = 4
PAPER = '{"profile": "paper"}'
# (mode, options)
CALLS = (
    *((mode, "{}") for mode in ("hybrid", "mix", "local", "global", "path", "naive")),
    *((mode, PAPER) for mode in ("mix", "ppr")),
)
OF_COMMUNITIES = (
    ("lazy", "{}"),
    ("lazy", '{"relevance_test_budget": 10}'),
    *((mode, "{}") for mode in ("graph_global", "graph_local", "drift")),
)
QUESTIONS = (
    "What did Ann Lee paint on 8 May 2023?",
    "In May 2023, who gave a hopeful promise to Bob Stone?",
    "Which bold idea calmed Cem Aydin down on 99999-99-99 or on 30 February 2023?",
)
WHO = ("Ann Lee", "Bob Stone", "Cem Aydin", "Dora Kiss")
WEAK = tuple(
    f"{how} {what}"
    for how in ("hopeful", "quiet", "bold", "gentle", "joyful", "careful", "sudden")
    for what in ("promise", "agreement", "idea", "reminder", "surprise", "answer", "remark")
)
SAID = (
    "{who}: Did you paint the {thing} with a {weak}?",
    "{who}: Yes, for years!",
    "{who}: It rains.",
    "{who}: I painted a {thing}; the {weak} calmed me down.",
    "{who}: {weak}؟",
)
# Windows that more documents have than are looked at for concepts, each of which goes on in its own words.
SAME = f"{' '.join(f'Ann Lee painted the old mill by river number {n} in May.' for n in range(9))}\n\n"
REST = "The {weak} of {who} met the {thing}. " * 12
# What names a conversation: whatever a field holds.
NAMES = (
    "a",
    "b",
    "",
    1,
    1.0,
    1e300,
    True,
    False,
    None,
    {"x": [1]},
    ["a"],
    [["a"]],
    {},
    "a" * 3000,
    "ä",
    "é",
    "e\u0301",
)
WHEN = (
    *(
        "2023-05-08 00:00Z",
        "2023-05-08 23:59:59.999999Z",
        "2023-05-09 01:00+02",
        "2023-05-31",
        "2022-05-08",
        "2023-06-01",
    ),
    *("infinity", "-infinity", "2023-05-08 BC", "12023-05-08", None, None),
)
# The session's memory, and what the module does where a corpus is large.
WAYS = ("", "SET graphrag.session_memory = '0'", "FEW_CHUNKS = 0", "FEW_CHUNKS = 0; turns.MAX_TURNS = 3")


class Near(float):
    """A number that equals those near it: vectors are of single precision."""

    def __eq__(self, other: object) -> bool:
        return isinstance(other, (int, float)) and abs(float(self) - float(other)) < 2e-5

    def __ne__(self, other: object) -> bool:
        return not self == other

    __hash__ = float.__hash__


def conversation(seed: int) -> list[dict[str, Any]]:
    random = Random(seed)
    documents: list[dict[str, Any]] = []
    for number in range(90):
        words = {
            "who": random.choice(WHO),
            "weak": random.choice(WEAK),
            "thing": random.choice(("mill", "boat", "rose")),
        }
        text = SAME + REST if number % 3 == 0 else random.choice(SAID)
        documents.append(
            {
                "source_key": f"{random.choice('aZé')}{number}",
                "content": text.format(**words),
                "metadata": {"secret": random.random() < 0.3}
                | ({} if random.random() < 0.1 else {"talk": random.choice(NAMES)}),
                "valid_from": random.choice(WHEN),
            }
        )
    return documents


def indexed(db: Connection, documents: Sequence[dict[str, Any]], at_once: int, **options: Any) -> str:
    """A corpus of documents, so many of which are indexed at once."""
    corpus = searched_corpus(db, **{"conversation": "talk"} | options)
    for number, document in enumerate(documents, 1):
        db.execute(
            "INSERT INTO graphrag.documents (corpus, source_key, content, metadata, valid_from)"
            " VALUES (%s, %s, %s, %s, %s)",
            [corpus, *(Jsonb(each) if isinstance(each, dict) else each for each in document.values())],
        )
        if number % at_once == 0:
            work(db)
    work(db)
    return corpus


def answers(
    db: Connection, corpus: str, filter_: dict[str, Any] | None = None, calls: Sequence[tuple[str, str]] = CALLS
) -> dict[tuple[str, ...], Any]:
    """What the session finds, by question, mode and options, without numbers of rows."""
    sql = "SELECT source_key, content, explain, score FROM graphrag.search(%s, %s, %s, 25, %s, options => %s)"
    found = {}
    for question in QUESTIONS:
        for mode, options in calls:
            records = rows(db, sql, question, corpus, mode, None if filter_ is None else Jsonb(filter_), options)
            found[question, mode, options] = [_without_ids(list(record)) for record in records]
    assert all(found.values())
    return found


def _without_ids(explained: Any) -> Any:
    if isinstance(explained, dict):
        return {
            key: _without_ids(part) for key, part in explained.items() if not key.endswith("id") and key != "community"
        }
    if isinstance(explained, list):
        return [*map(_without_ids, explained)]
    if isinstance(explained, float):
        return Near(explained)
    return re.sub(r"(entity|relationship) \d+", r"\1", explained) if isinstance(explained, str) else explained


def differing(found: dict[tuple[str, ...], Any], expected: dict[tuple[str, ...], Any]) -> list[Any]:
    """The calls with other rows, and the first of these."""
    return [
        (asked, next((pair for pair in zip(found[asked], answer, strict=False) if pair[0] != pair[1]), "other rows"))
        for asked, answer in expected.items()
        if found[asked] != answer
    ]


@pytest.mark.sample(1)
@pytest.mark.parametrize("seed", range(SEEDS))
def test_the_order_of_ingestion_does_not_show(module_db: Database, seed: int) -> None:
    documents = conversation(seed)
    expected = answers(module_db, indexed(module_db, documents, 100))
    assert any("turns" in str(row[2]) for answer in expected.values() for row in answer)
    assert any("dates" in str(row[2]) for answer in expected.values() for row in answer)
    assert differing(answers(module_db, indexed(module_db, documents[::-1], 40)), expected) == []


def test_nor_does_it_where_more_chunks_are_as_near_as_communities_are_looked_for_in(module_db: Database) -> None:
    few = "DO LANGUAGE plpython3u 'from pg_graphrag.search.retrievers import near_chunks; near_chunks.CANDIDATES = 20'"
    found = []
    for documents in (conversation(0), conversation(0)[::-1]):
        corpus = indexed(module_db, documents, 100, communities=True)
        with psycopg.connect(module_db.url, autocommit=True) as session:
            session.execute(few.encode())
            found.append(answers(session, corpus, calls=OF_COMMUNITIES))
    assert differing(*found) == []


@pytest.mark.sample(1)
@pytest.mark.parametrize("seed", range(SEEDS))
def test_nor_does_how_documents_are_hidden_what_a_session_remembers_or_how_turns_are_read(
    module_db: Database, seed: int
) -> None:
    corpus = indexed(module_db, conversation(seed), 50)
    expected = answers(module_db, corpus, {"secret": False})
    other = answers(module_db, corpus, {"$not": {"secret": {"$eq": True}}})
    assert differing(other, expected) == []
    for way in WAYS[1:-1]:
        with psycopg.connect(module_db.url, autocommit=True) as session:
            go(session, way)
            assert differing(answers(session, corpus, {"secret": False}), expected) == [], way
    with readers(module_db, 1) as (reader,):
        module_db.execute("SELECT graphrag.protect(%s, $$metadata ->> 'secret' = 'false'$$)", [corpus])
        try:
            for way in WAYS[:-1]:
                with psycopg.connect(module_db.url, autocommit=True) as session:
                    go(session, way)
                    with acting_as(session, reader):
                        for _ in range(2):
                            assert differing(answers(session, corpus), expected) == [], way
        finally:
            module_db.execute("SELECT graphrag.unprotect(%s)", [corpus])
    # Removed, and not yet out of the index.
    with module_db.transaction(force_rollback=True):
        module_db.execute(
            "DELETE FROM graphrag.documents WHERE corpus = %s AND metadata ->> 'secret' = 'true'", [corpus]
        )
        assert differing(answers(module_db, corpus), expected) == []


def go(session: Connection, way: str) -> None:
    """Set what makes a way of `WAYS`."""
    if "=" in way and not way.startswith("SET"):
        way = f"DO LANGUAGE plpython3u 'from pg_graphrag.search.retrievers import turns; turns.{way}'"
    if way:
        session.execute(way.encode())


@pytest.mark.sample(1)
@pytest.mark.parametrize("seed", range(SEEDS))
def test_nor_do_changes_and_a_reindex_that_lead_to_the_same_documents(module_db: Database, seed: int) -> None:
    documents = conversation(seed)
    expected = answers(module_db, indexed(module_db, documents, 100))
    changed = indexed(
        module_db, [document | {"metadata": {"talk": "x"}, "valid_from": None} for document in documents], 30
    )
    answers(module_db, changed)
    for document in documents:
        module_db.execute(
            "UPDATE graphrag.documents SET metadata = %s, valid_from = %s WHERE corpus = %s AND source_key = %s",
            [Jsonb(document["metadata"]), document["valid_from"], changed, document["source_key"]],
        )
    for first in range(0, len(documents), 7):
        module_db.execute(
            "UPDATE graphrag.documents SET content = 'Nothing.' WHERE corpus = %s AND source_key = %s",
            [changed, documents[first]["source_key"]],
        )
        work(module_db)
        module_db.execute(
            "UPDATE graphrag.documents SET content = %s WHERE corpus = %s AND source_key = %s",
            [documents[first]["content"], changed, documents[first]["source_key"]],
        )
    work(module_db)
    assert differing(answers(module_db, changed), expected) == []
    module_db.execute("SELECT graphrag.reindex(%s)", [changed])
    work(module_db)
    assert differing(answers(module_db, changed), expected) == []
