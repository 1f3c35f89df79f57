"""What the tests of extraction share: a model that knows what each text says, corpora that ask it, and what they hold."""

import json
import re
from collections.abc import Callable
from typing import Any

from tests.endpoint import Endpoint, Request
from tests.endpoint.server import Messages
from tests.sql.ingest import Connection, canonical, corpus_id, index_all, new_corpus, rows, value, work
from tests.sql.llm import provider

TYPES = {
    "Ada Lovelace": "person",
    "Alan Turing": "person",
    "Analytical Engine": "product",
    "Bletchley Park": "organization",
    "Charles Babbage": "person",
    "Enigma": "product",
    "Grace Hopper": "person",
    "Harvard": "organization",
    "London": "location",
}
NOTHING = '{"entities": [], "relationships": []}'
_TEXT = "to the end of the message:\n"


def text_of(messages: Messages) -> str:
    """The chunk that an extraction prompt asks about."""
    return str(messages[1]["content"]).partition(_TEXT)[2]


def said_of(text: str) -> dict[str, Any]:
    """Each known name of each sentence, described by it; the first of a sentence related to the others."""
    entities, relationships = [], []
    for sentence in re.findall(r"[^\s.][^.]*\.", text):
        names = sorted((name for name in TYPES if name in sentence), key=sentence.index)
        entities += [{"name": name, "type": TYPES[name], "description": sentence} for name in names]
        relationships += [
            {"source": names[0], "target": name, "keywords": ["story"], "description": sentence, "strength": 4}
            for name in names[1:]
        ]
    return {"entities": entities, "relationships": relationships}


def knows(messages: Messages) -> str:
    """The model: what a text says; nothing more when it is asked again."""
    return NOTHING if len(messages) > 2 else json.dumps(said_of(text_of(messages)))


def saying(result: Any) -> Callable[[Messages], str]:
    """A model that says the same of every text, and nothing more when it is asked again."""
    reply = result if isinstance(result, str) else json.dumps(result)
    return lambda messages: NOTHING if len(messages) > 2 else reply


def extracted(
    db: Connection, endpoint: Endpoint, llm: dict[str, Any] | None = None, summaries: bool = True, **options: Any
) -> str:
    """Make a corpus that the endpoint's model extracts, without gleaning unless said; `provider` has options of its own.

    Vectors come from the endpoint too, by a provider that is not the model's. `summaries`: whether there is a model for
    them.
    """
    name = provider(db, endpoint, **{"timeout": 20, "price_input": 1, "price_output": 2, **options.pop("provider", {})})
    model = {"provider": name, "model": "m"}
    models = {**(model if summaries else {"roles": {"extract": model}}), **(llm or {})}
    vectors = {"provider": provider(db, endpoint, timeout=20), "model": "hash", "dimensions": 8}
    return new_corpus(db, **{"extractor": "llm", "max_gleaning": 0, "llm": models, "embedding": vectors, **options})


def extracted_texts(
    db: Connection, endpoint: Endpoint, llm: dict[str, Any] | None = None, summaries: bool = True, **options: Any
) -> str:
    """As `extracted`, without a graph in AGE: Cypher alone reads it, and a session plans anew after a new schema."""
    return extracted(db, endpoint, llm, summaries, **{"cypher": False, **options})


def undisturbed(
    db: Connection, documents: dict[str, str], reply: Callable[[Messages], str] = knows, **options: Any
) -> Any:
    """`canonical` of these documents, extracted by an endpoint without faults."""
    with Endpoint() as server:
        server.reply(reply)
        corpus = index_all(db, extracted(db, server, **options), documents)
        whole = canonical(db, corpus)
        db.execute("SELECT graphrag.drop_corpus(%s)", [corpus])
    return whole


def about(words: str) -> Callable[[Request], bool]:
    """Picks the chats that hold `words`."""
    return lambda request: request.kind == "chat" and words in request.text


def chats(endpoint: Endpoint) -> list[Request]:
    return [request for request in endpoint.requests if request.kind == "chat"]


def entities(db: Connection, corpus: str) -> dict[str, tuple[str, str]]:
    """{name: (type, description)}"""
    records = rows(
        db, "SELECT name, type, description FROM graphrag.entities WHERE corpus_id = %s", corpus_id(db, corpus)
    )
    return {name: (type_, description) for name, type_, description in records}


def relationships(db: Connection, corpus: str) -> dict[tuple[str, str], tuple[list[str], str, float]]:
    """{(source, target): (keywords, description, weight)}"""
    records = rows(
        db,
        "SELECT source, target, keyword_list, description, weight FROM graphrag.graph_edges WHERE corpus = %s",
        corpus,
    )
    return {(source, target): (keywords, text, weight) for source, target, keywords, text, weight in records}


def hurry(db: Connection, corpus: str) -> None:
    """Work as if the back-off of the corpus' jobs had passed."""
    db.execute(
        "UPDATE graphrag.jobs SET next_attempt_at = now() WHERE state = 'pending' AND corpus_id = %s",
        [corpus_id(db, corpus)],
    )
    work(db)


def job(db: Connection, corpus: str, key: str) -> dict[str, Any]:
    """The job of a document: state, attempts, errors, last_error, payload, and whether it waits."""
    cursor = db.execute(
        "SELECT j.state, j.attempts, j.errors, j.last_error, j.payload, j.next_attempt_at > now() AS waits"
        "  FROM graphrag.jobs j JOIN graphrag.documents d ON d.id = j.document_id"
        " WHERE d.corpus = %s AND d.source_key = %s",
        [corpus, key],
    )
    (row,) = cursor.fetchall()
    return dict(zip([column.name for column in cursor.description or ()], row, strict=True))


def noted(db: Connection, corpus: str, purpose: str = "extract") -> tuple[int, int, int, int]:
    """(calls, failures, tokens in, tokens out) of llm_usage."""
    (row,) = rows(
        db,
        "SELECT coalesce(sum(calls), 0)::int, coalesce(sum(failures), 0)::int, coalesce(sum(tokens_in), 0)::int,"
        " coalesce(sum(tokens_out), 0)::int FROM graphrag.llm_usage WHERE corpus = %s AND purpose = %s",
        corpus,
        purpose,
    )
    return row[0], row[1], row[2], row[3]


def traces(db: Connection, corpus: str, key: str) -> int:
    """How many rows of the graph there are that were made of a document."""
    tables = ("entity_mentions", "relationship_mentions", "claims")
    document = value(db, "SELECT id FROM graphrag.documents WHERE corpus = %s AND source_key = %s", corpus, key)
    return sum(value(db, f"SELECT count(*) FROM graphrag.{table} WHERE document_id = %s", document) for table in tables)
