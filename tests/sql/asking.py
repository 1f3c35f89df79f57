"""What the tests of understanding and asking share: a corpus of stories with a model, and a model that knows its lines."""

import json
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import psycopg
from psycopg.types.json import Jsonb

from tests.endpoint import Endpoint
from tests.runtime.cluster import Database
from tests.sql.ingest import STORIES, Connection, index_all, rows, searched_corpus, value
from tests.sql.llm import provider

KEYWORDS = {
    "low_level_keywords": ["Ada Lovelace", "Analytical Engine"],
    "high_level_keywords": ["writing notes"],
    "entities": ["Ada Lovelace"],
    "answer_types": ["work"],
}
ANSWER = "Ada Lovelace wrote notes on the Analytical Engine [1]."


def lines(messages: Sequence[dict[str, Any]]) -> str:
    """Keywords to who asks for keywords, else the answer."""
    return json.dumps(KEYWORDS) if is_keywords(messages) else ANSWER


def is_keywords(messages: Sequence[dict[str, Any]]) -> bool:
    return "low_level_keywords" in messages[0]["content"]


def asked_for(endpoint: Endpoint) -> list[str]:
    """What the endpoint was asked for, in order."""
    return ["keywords" if is_keywords(request.messages) else "answer" for request in endpoint.requests]


def stories(
    db: Connection,
    endpoint: Endpoint,
    llm: dict[str, Any] | None = None,
    corpus: dict[str, Any] | None = None,
    **options: Any,
) -> str:
    """Make a corpus of the stories with the endpoint's model; `options` are the provider's."""
    return index_all(db, with_model(db, endpoint, llm, corpus, **options), STORIES)


def with_model(
    db: Connection,
    endpoint: Endpoint,
    llm: dict[str, Any] | None = None,
    corpus: dict[str, Any] | None = None,
    **options: Any,
) -> str:
    """Make a corpus without documents, with the endpoint's model."""
    options = {"timeout": 1, "price_input": 1, "price_output": 2} | options
    models = {"provider": provider(db, endpoint, **options), "model": "model-1", **(llm or {})}
    return searched_corpus(db, llm=models, **(corpus or {}))


def ask(db: Connection, question: str | None, corpus: str, **arguments: Any) -> tuple[str, Any, Any, Any]:
    """The row of graphrag.ask: answer, citations, usage, context."""
    ((answer, citations, usage, context),) = rows(
        db, f"SELECT * FROM graphrag.ask(%s, %s{_named(arguments)})", *_values(question, corpus, arguments)
    )
    return answer, citations, usage, context


def stream(db: Connection, question: str, corpus: str, **arguments: Any) -> list[str]:
    """The pieces of graphrag.ask_stream."""
    sql = f"SELECT graphrag.ask_stream(%s, %s{_named(arguments)})"
    return [piece for (piece,) in rows(db, sql, *_values(question, corpus, arguments))]


def understand(db: Connection, question: str | None, corpus: str) -> Any:
    return value(db, "SELECT graphrag.understand(%s, %s)", question, corpus)


def _named(arguments: dict[str, Any]) -> str:
    return "".join(f", {name} => %s" for name in arguments)


def _values(question: str | None, corpus: str, arguments: dict[str, Any]) -> list[Any]:
    objects = ("filter", "options", "history")
    given = [Jsonb(given) if name in objects else given for name, given in arguments.items()]
    return [question, corpus, *given]


@contextmanager
def warnings(db: Connection) -> Iterator[list[str]]:
    """The WARNINGs sent meanwhile."""
    messages: list[str] = []

    def note(diag: psycopg.errors.Diagnostic) -> None:
        if diag.severity == "WARNING":
            messages.append(diag.message_primary or "")

    db.add_notice_handler(note)
    try:
        yield messages
    finally:
        db.remove_notice_handler(note)


@contextmanager
def as_reader(db: Database) -> Iterator[None]:
    """As a role that has graphrag_reader and nothing else."""
    db.execute("DROP ROLE IF EXISTS curious")
    db.execute("CREATE ROLE curious IN ROLE graphrag_reader")
    db.execute("SET ROLE curious")
    try:
        yield
    finally:
        db.execute("RESET ROLE")
        db.execute("DROP OWNED BY curious")
        db.execute("DROP ROLE curious")


def calls(db: Connection, corpus: str) -> list[tuple[Any, ...]]:
    """(purpose, whether it failed) of the calls written down."""
    return rows(
        db,
        "SELECT l.purpose, l.error IS NOT NULL FROM graphrag.llm_calls l JOIN graphrag.corpora c ON c.id = l.corpus_id"
        " WHERE c.name = %s ORDER BY l.id",
        corpus,
    )
