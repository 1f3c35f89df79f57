"""graphrag.import_documents: what is known of a document is used in place of an extractor, while its content stays."""

import json
from typing import Any

import psycopg
import pytest

ADA = "Ada Lovelace wrote notes on the Analytical Engine. Charles Babbage designed the engine in London."
BOB = "The engine of Babbage was never built. Ada knew."


def documents() -> list[dict[str, Any]]:
    cut = ADA.index("Charles")
    ada = {"name": "ADA LOVELACE", "type": "PERSON", "description": "Author of notes on a machine."}
    engine = {"name": "Engine", "type": "machine", "description": "A machine that computes."}
    wrote = {"source": "ADA LOVELACE", "target": "Engine", "description": "Ada wrote of it.", "keywords": ["notes"]}
    return [
        {
            "source_key": "ada",
            "title": "Ada",
            "content": ADA,
            "metadata": {"year": 1843},
            "chunks": [
                {"start": 0, "end": cut + 8, "entities": [ada, engine], "relationships": [wrote | {"weight": 6.66667}]},
                {
                    "start": cut,
                    "end": len(ADA),
                    "entities": [engine],
                    "relationships": [wrote | {"weight": 13.33333}],
                    "claims": [
                        {"subject": "Babbage", "type": "DESIGN", "status": "TRUE", "description": "He designed it."}
                    ],
                },
            ],
        },
        {"source_key": "bob", "content": BOB, "chunks": [{"start": 0, "end": len(BOB), "entities": [engine]}]},
    ]


def load(db: Any, given: Any, corpus: str = "c") -> dict[str, Any]:
    result = db.execute("SELECT graphrag.import_documents(%s, %s)", [corpus, json.dumps(given)]).fetchone()[0]
    return dict(result)


def graph(db: Any) -> tuple[Any, ...]:
    return tuple(
        db.execute(query).fetchall()
        for query in (
            "SELECT name, type, description, degree, mention_count FROM graphrag.entities ORDER BY key",
            "SELECT s.name, t.name, r.keywords, r.description, r.weight, r.mention_count FROM graphrag.relationships r"
            " JOIN graphrag.entities s ON s.id = r.source_id JOIN graphrag.entities t ON t.id = r.target_id ORDER BY 1, 2",
            "SELECT subject, type, status, description FROM graphrag.claims ORDER BY 1",
            "SELECT d.source_key, c.ordinal, c.start_offset, c.own_offset, c.end_offset, c.content"
            "  FROM graphrag.chunks c JOIN graphrag.documents d ON d.id = c.document_id ORDER BY 1, 2",
        )
    )


@pytest.fixture
def loaded(db: Any) -> Any:
    db.execute("SELECT graphrag.create_corpus('c', '{\"extractor\": \"given\"}')")
    assert load(db, documents()) == {"documents": 2, "unchanged": 0, "dropped": []}
    db.execute("CALL graphrag.process_jobs()")
    return db


def test_the_graph_is_what_was_imported(loaded: Any) -> None:
    entities, relationships, claims, chunks = graph(loaded)
    assert entities == [
        ("ADA LOVELACE", "person", "Author of notes on a machine.", 1, 2),
        ("Engine", "machine", "A machine that computes.", 1, 3),
    ]
    assert [(*row[:4], str(row[4]), row[5]) for row in relationships] == [
        ("ADA LOVELACE", "Engine", ["notes"], "Ada wrote of it.", "20", 2)
    ]
    assert claims == [("Babbage", "design", "TRUE", "He designed it.")]
    cut = ADA.index("Charles")
    assert chunks[:2] == [("ada", 0, 0, 0, cut + 8, ADA[: cut + 8]), ("ada", 1, cut, cut + 8, len(ADA), ADA[cut:])]
    results = loaded.execute(
        "SELECT source_key FROM graphrag.search('What is the engine?', 'c', mode => 'local')"
    ).fetchall()
    assert {"ada", "bob"} == {key for (key,) in results}


def test_the_same_again_costs_nothing_and_indexing_anew_gives_the_same(loaded: Any) -> None:
    before = graph(loaded)
    assert load(loaded, documents())["unchanged"] == 2
    assert loaded.execute("SELECT count(*) FROM graphrag.jobs WHERE kind = 'index'").fetchone()[0] == 0
    loaded.execute("UPDATE graphrag.documents SET indexed_hash = NULL")
    assert loaded.execute("SELECT count(*) FROM graphrag.jobs WHERE kind = 'index'").fetchone()[0] == 2
    loaded.execute("CALL graphrag.process_jobs()")
    assert graph(loaded) == before


def test_other_statements_replace_the_imported_ones(loaded: Any) -> None:
    given = documents()[1:]
    given[0]["chunks"][0]["entities"] = [{"name": "Babbage", "type": "person"}]
    assert load(loaded, given)["unchanged"] == 0
    loaded.execute("CALL graphrag.process_jobs()")
    names = loaded.execute("SELECT name, mention_count FROM graphrag.entities ORDER BY key").fetchall()
    assert names == [("ADA LOVELACE", 2), ("Babbage", 1), ("Engine", 2)]


def test_new_content_is_extracted_and_what_was_imported_forgotten(loaded: Any) -> None:
    loaded.execute("SELECT graphrag.alter_corpus('c', '{\"extractor\": \"nlp\"}')")
    loaded.execute("UPDATE graphrag.documents SET content = 'Grace Hopper met Ada Lovelace.' WHERE source_key = 'bob'")
    loaded.execute("CALL graphrag.process_jobs()")
    assert {"grace hopper", "ada lovelace", "engine"} <= {
        key for (key,) in loaded.execute("SELECT key FROM graphrag.entities")
    }
    chunks = loaded.execute(
        "SELECT d.source_key FROM graphrag.imported_extractions i JOIN graphrag.documents d ON d.id = i.document_id"
    ).fetchall()
    assert chunks == [("ada",)]


def test_delete_leaves_the_graph_as_if_never_imported(loaded: Any) -> None:
    loaded.execute("DELETE FROM graphrag.documents WHERE source_key = 'ada'")
    loaded.execute("CALL graphrag.process_jobs()")
    entities, relationships, claims, _ = graph(loaded)
    assert entities == [("Engine", "machine", "A machine that computes.", 0, 1)]
    assert relationships == claims == []
    assert loaded.execute("SELECT count(*) FROM graphrag.imported_extractions").fetchone()[0] == 1
    loaded.execute("TRUNCATE graphrag.documents")
    assert loaded.execute("SELECT count(*) FROM graphrag.imported_extractions").fetchone()[0] == 0


def test_what_cannot_be_used_is_named(module_db: Any) -> None:
    module_db.execute("SELECT graphrag.create_corpus('dropping')")
    chunk = {"start": 0, "end": 1, "entities": [{"name": "…"}], "relationships": [{"source": "a", "target": "A"}]}
    with module_db.transaction(force_rollback=True):
        result = load(module_db, [{"source_key": "k", "content": "x", "chunks": [chunk]}], "dropping")
    assert [reason.split(": ")[0] for reason in result["dropped"]] == ["k, chunk 0"] * 2


BAD = {
    "documents must be an array": {},
    r"documents\[0\] must be an object": [1],
    r'documents\[0\] has an unknown field "text"': [{"text": "x"}],
    r"documents\[0\].source_key": [{"content": "x"}],
    r"documents\[0\].content": [{"source_key": "k"}],
    r"documents\[0\].metadata": [{"source_key": "k", "content": "x", "metadata": []}],
    r"documents\[0\].chunks": [{"source_key": "k", "content": "x"}],
    r'source_key "k" is there twice': [{"source_key": "k", "content": "x", "chunks": []}] * 2,
    r"chunks\[0\].end": [{"source_key": "k", "content": "x", "chunks": [{"start": 0}]}],
    r"chunks\[0\] cannot be": [{"source_key": "k", "content": "x", "chunks": [{"start": 0, "end": 2}]}],
    r"chunks\[1\]: own_start": [
        {
            "source_key": "k",
            "content": "xyz",
            "chunks": [{"start": 0, "end": 3}, {"start": 1, "end": 2, "own_start": 1}],
        }
    ],
    r"entities\[0\].name": [{"source_key": "k", "content": "x", "chunks": [{"start": 0, "end": 1, "entities": [{}]}]}],
    r"relationships\[0\].weight": [
        {
            "source_key": "k",
            "content": "x",
            "chunks": [{"start": 0, "end": 1, "relationships": [{"source": "a", "target": "b", "weight": -1}]}],
        }
    ],
}


@pytest.mark.parametrize("message", BAD)
def test_a_bad_document_is_refused_with_its_place(module_db: Any, message: str) -> None:
    module_db.execute(
        "SELECT graphrag.create_corpus('bad') WHERE NOT EXISTS (SELECT FROM graphrag.corpora WHERE name = 'bad')"
    )
    with pytest.raises(psycopg.errors.InvalidParameterValue, match=message) as caught:
        load(module_db, BAD[message], "bad")
    assert caught.value.diag.message_hint


def test_only_the_owner_imports_and_into_a_corpus_that_exists(module_db: Any) -> None:
    with pytest.raises(psycopg.errors.UndefinedObject):
        load(module_db, [], "nope")
    with pytest.raises(psycopg.errors.InsufficientPrivilege), module_db.transaction():
        module_db.execute("SET LOCAL ROLE graphrag_reader")
        load(module_db, [])
