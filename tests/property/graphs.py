"""What the property tests and bench/soak.py share: small texts about few names, a model that reads them, and the truth."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from itertools import pairwise
from typing import Any

import psycopg

from tests.sql.ingest import jobs, new_corpus, put, rows, value, wait_for, work

Connection = psycopg.Connection[Any]

# Spellings of few names, so that documents share entities.
NAMES = (
    "Ada Lovelace",
    "Charles Babbage",
    "ADA LOVELACE",
    "London",
    "Analytical Engine",
    "“London”",
    "Ａｄａ Lovelace",
    "Bletchley Park",
)
# What a person may do, and why it may be refused: no such entity, with itself, twice, deleted before.
CURATIONS = (
    "create_entity(%(one)s, %(corpus)s, 'county', %(said)s)",
    "edit_entity(%(one)s, %(corpus)s, description => %(said)s)",
    "rename_entity(%(one)s, %(other)s, %(corpus)s)",
    "merge_entities(ARRAY[%(one)s], %(other)s, %(corpus)s)",
    "delete_entity(%(one)s, %(corpus)s)",
    "create_relationship(%(one)s, %(other)s, %(corpus)s, '{said}', %(said)s)",
    "edit_relationship(%(one)s, %(other)s, %(corpus)s, weight => 2.5)",
    "delete_relationship(%(one)s, %(other)s, %(corpus)s)",
    "insert_graph(%(corpus)s, jsonb_build_object('relationships', jsonb_build_array("
    "jsonb_build_object('source', %(one)s::text, 'target', %(other)s::text, 'description', %(said)s::text))))",
)
REFUSED = ("42704", "22023", "23505", "55000")
VERBS = ("met", "wrote to", "left", "admired")


def extraction(messages: Sequence[dict[str, Any]]) -> str:
    """What a model makes of such a text: the names it spells, each pair of neighbours related, said by the verbs."""
    if any(message["role"] == "assistant" for message in messages):
        return '{"entities": [], "relationships": []}'
    text = "\n".join(str(message["content"]) for message in messages if message["role"] == "user")
    found = [name for name in NAMES if name in text]
    said = ", ".join(verb for verb in VERBS if verb in text)
    entities = [
        {
            "name": name,
            "type": "place" if "L" in name[:2] and place % 2 else "person",
            "description": f"{said} {place}.",
        }
        for place, name in enumerate(found)
    ]
    relationships = [
        {"source": one, "target": other, "keywords": said.split(", "), "description": f"They {said}.", "strength": 2}
        for one, other in pairwise(found)
    ]
    return json.dumps({"entities": entities, "relationships": relationships})


def sections(db: Connection, corpus: str) -> dict[str, str]:
    """The hash of each section of the fingerprint."""
    return dict(rows(db, "SELECT section, hash FROM graphrag.fingerprint_sections(%s)", corpus))


def broken(db: Connection, corpus: str) -> list[tuple[Any, ...]]:
    """The invariants that do not hold."""
    return rows(db, "SELECT * FROM graphrag.check(%s)", corpus)


def settle(db: Connection, corpus: str) -> None:
    """Work until the queue is empty, whatever waits for a while."""

    def empty() -> bool:
        work(db)
        db.execute("SELECT graphrag.retry_failed(%s)", [corpus])
        return not jobs(db, corpus)

    wait_for(empty, "an empty queue")


def assert_true(db: Connection, corpus: str, documents: Mapping[str, str], **options: Any) -> None:
    """Assert that the corpus is what these documents make undisturbed, and that every invariant holds."""
    fresh = new_corpus(db, **options)
    for key in sorted(documents):
        put(db, fresh, key, documents[key])
    settle(db, fresh)
    wanted, got = sections(db, fresh), sections(db, corpus)
    for section in wanted:
        if got[section] != wanted[section]:
            assert lines(db, corpus, section) == lines(db, fresh, section), section
    assert value(db, "SELECT graphrag.fingerprint(%s)", corpus) == value(db, "SELECT graphrag.fingerprint(%s)", fresh)
    assert broken(db, corpus) == []
    assert broken(db, fresh) == []
    db.execute("SELECT graphrag.drop_corpus(%s)", [fresh])


def anew(db: Connection, corpus: str, documents: Mapping[str, str]) -> None:
    """Delete all documents, then insert them in the opposite order."""
    db.execute("DELETE FROM graphrag.documents WHERE corpus = %s", [corpus])
    settle(db, corpus)
    for key in sorted(documents, reverse=True):
        put(db, corpus, key, documents[key])
    settle(db, corpus)


def curate(db: Connection, corpus: str, what: str, one: str, other: str, said: str) -> int | None:
    """Do one of `CURATIONS`; return its number, or None where it was refused."""
    given = {"corpus": corpus, "one": one, "other": other, "said": said}
    try:
        ((number,),) = db.execute(f"SELECT graphrag.{what}".encode(), given).fetchall()
    except psycopg.Error as error:
        if error.sqlstate not in REFUSED:
            raise
        return None
    return int(number)


def undo_all(db: Connection, corpus: str) -> None:
    """Undo the curations in force, the first ones first."""
    for (number,) in rows(
        db,
        "SELECT x.id FROM graphrag.curations x JOIN graphrag.corpora c ON c.id = x.corpus_id"
        " WHERE c.name = %s AND x.undone_at IS NULL ORDER BY x.id",
        corpus,
    ):
        db.execute("SELECT graphrag.undo_curation(%s)", [number])


def lines(db: Connection, corpus: str, section: str) -> list[str]:
    """The rows of a section."""
    return [line for (line,) in rows(db, "SELECT line FROM graphrag._canonical(%s, %s)", corpus, section)]
