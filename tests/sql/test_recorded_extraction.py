"""Recorded output of real models through the very path that a model's takes: LiHua-World's extraction, MuSiQue's OpenIE."""

import json
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.endpoint import Endpoint, Recorded
from tests.endpoint.server import Messages
from tests.runtime.cluster import Database
from tests.sql.extracting import chats, extracted, noted, relationships, text_of
from tests.sql.ingest import (
    Connection,
    canonical,
    corpus_id,
    delete,
    jobs,
    put,
    rows,
    statuses,
    value,
    wait_for,
    work,
    worker,
)

SIZE = 30
QUESTIONS = ("Li Hua lunch", "published by university")


def lines(path: Path, count: int = SIZE) -> list[dict[str, Any]]:
    with path.open(encoding="utf-8") as file:
        return [json.loads(line) for _, line in zip(range(count), file, strict=False)]


@pytest.fixture(params=["lihua-world", "musique"], scope="module")
def recorded(request: pytest.FixtureRequest, shared_data: Path) -> Iterator[dict[str, Any]]:
    """Documents, what was recorded of each, and an endpoint that replays it: MuSiQue's as the triples that they were."""
    folder = shared_data / request.param
    documents = {document["id"]: document for document in lines(folder / "docs.jsonl", 500)}
    records = lines(folder / ("extraction.jsonl" if request.param == "lihua-world" else "openie.jsonl"))
    by_text = {documents[record["id"]]["text"]: record for record in records}

    def triples(messages: Messages) -> str:
        record = by_text[text_of(messages)]
        return json.dumps({"named_entities": record["entities"], "triples": record["triples"]}, ensure_ascii=False)

    with Endpoint() as endpoint:
        endpoint.reply(Recorded(shared_data) if request.param == "lihua-world" else triples)
        yield {
            "name": request.param,
            "endpoint": endpoint,
            "documents": [documents[record["id"]] for record in records],
            "records": records,
        }


def ingested(db: Connection, recorded: dict[str, Any], documents: list[dict[str, Any]], step: int | None = None) -> str:
    """A corpus of documents, indexed `step` at a time."""
    corpus = extracted(db, recorded["endpoint"], summaries=False, grounding="off")
    for place, document in enumerate(documents, 1):
        put(db, corpus, document["id"], document["text"], title=document.get("title"))
        if step is not None and place % step == 0:
            work(db)
    work(db)
    return corpus


@pytest.fixture(scope="module")
def corpus(module_db: Database, recorded: dict[str, Any]) -> str:
    """All documents, in order, at once."""
    recorded["endpoint"].forget()
    return ingested(module_db, recorded, recorded["documents"])


def pairs(recorded: dict[str, Any]) -> Counter[frozenset[str]]:
    """How often each pair of names is related, and how strongly, in all documents."""
    result: Counter[frozenset[str]] = Counter()
    for record in recorded["records"]:
        if "triples" in record:
            result.update(
                frozenset((triple[0].lower(), triple[2].lower()))
                for triple in record["triples"]
                if len(triple) == 3 and all(triple)
            )
        else:
            strongest: dict[frozenset[str], int] = {}
            for triple in record["relationships"]:
                pair = frozenset((triple["source"].lower(), triple["target"].lower()))
                strongest[pair] = max(strongest.get(pair, 0), triple["strength"])
            result.update(strongest)
    return Counter({pair: weight for pair, weight in result.items() if len(pair) == 2})


def test_no_document_fails_and_what_was_recorded_is_found(
    module_db: Database, recorded: dict[str, Any], corpus: str
) -> None:
    assert set(statuses(module_db, corpus).values()) == {"indexed"}
    count = value(module_db, "SELECT count(*) FROM graphrag.chunks WHERE corpus_id = %s", corpus_id(module_db, corpus))
    assert len(chats(recorded["endpoint"])) == count >= SIZE
    assert noted(module_db, corpus)[:2] == (count, 0)
    names = {
        entity if isinstance(entity, str) else entity["name"]
        for record in recorded["records"]
        for entity in record["entities"]
    }
    keys = {key for (key,) in rows(module_db, "SELECT graphrag._key(n) FROM unnest(%s::text[]) n", sorted(names))}
    records = rows(
        module_db, "SELECT key, type FROM graphrag.entities WHERE corpus_id = %s", corpus_id(module_db, corpus)
    )
    assert keys <= {key for key, _ in records}
    assert len(keys) > 100
    related = {
        frozenset((source.lower(), target.lower())): (keywords, weight)
        for (source, target), (keywords, _, weight) in relationships(module_db, corpus).items()
    }
    expected = pairs(recorded)
    same = [pair for pair, weight in expected.items() if pair in related and related[pair][1] == weight]
    # Names that differ in quotes and the like come together, so that not each pair is found as it was spelled.
    assert len(same) > 0.95 * len(expected)
    if recorded["name"] == "lihua-world":
        assert dict(records)["wolfgang schulz"] == "person"
        keywords, weight = related[frozenset(("li hua", "wolfgang schulz"))]
        assert {"friendship", "meeting up"} <= set(keywords)
        assert weight >= 8
    else:
        keywords, weight = related[frozenset(("journal of mathematical physics", "jan philip solovej"))]
        assert (keywords, weight) == (["current editor is"], 1)


@pytest.mark.slow
def test_neither_order_nor_batches_nor_workers_show(module_db: Database, recorded: dict[str, Any], corpus: str) -> None:
    whole = canonical(module_db, corpus, QUESTIONS)
    backwards = ingested(module_db, recorded, recorded["documents"][::-1], step=11)
    assert canonical(module_db, backwards, QUESTIONS) == whole
    # Two workers at once, some documents twice with something else between, some gone again.
    other = extracted(module_db, recorded["endpoint"], summaries=False, grounding="off")
    texts = [document["text"] for document in recorded["documents"]]
    for place, document in enumerate(recorded["documents"]):
        put(
            module_db, other, document["id"], texts[place - 1 if place % 3 == 0 else place], title=document.get("title")
        )
        put(module_db, other, f"{document['id']} again", document["text"])
    both = [worker(module_db.url) for _ in range(2)]
    assert [document.finish() for document in both] == [None, None]
    for document in recorded["documents"]:
        put(module_db, other, document["id"], document["text"], title=document.get("title"))
        delete(module_db, other, f"{document['id']} again")
    both = [worker(module_db.url) for _ in range(2)]
    assert [document.finish() for document in both] == [None, None]
    wait_for(lambda: work(module_db) or not jobs(module_db, other), "an empty queue")
    assert canonical(module_db, other, QUESTIONS) == whole


def test_deletion_leaves_exactly_what_the_rest_says_without_a_call(
    module_db: Database, recorded: dict[str, Any], corpus: str
) -> None:
    rest = ingested(module_db, recorded, recorded["documents"][::2])
    recorded["endpoint"].forget()
    for document in recorded["documents"][1::2]:
        delete(module_db, corpus, document["id"])
    work(module_db)
    assert canonical(module_db, corpus, QUESTIONS) == canonical(module_db, rest, QUESTIONS)
    assert chats(recorded["endpoint"]) == []
