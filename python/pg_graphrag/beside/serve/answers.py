"""Streams answers with their citations."""

import re
from collections.abc import Iterator, Mapping
from dataclasses import asdict
from typing import Any

import psycopg

from pg_graphrag.beside.client import Answer, GraphRAG
from pg_graphrag.beside.client.hosts import is_beside
from pg_graphrag.beside.serve.caller_database import Connection
from pg_graphrag.ground.mode_names import REDUCED

_MARK = re.compile(r"\[(\d{1,9})\]")


def stream(
    rag: GraphRAG, connection: Connection, question: str, arguments: Mapping[str, Any]
) -> Iterator[str | Answer]:
    """Yield the answer in pieces, then the `Answer` with its citations, both of one snapshot."""
    mode = arguments.get("mode", "hybrid")
    if mode in REDUCED:
        # Models make the context: failed requests would be sent again, and the answer would differ.
        answer = rag.ask(question, **arguments)
        yield answer.answer
        yield answer
        return
    if is_beside(connection):
        # Each call is a snapshot of its own there. The answer is in the cache.
        yield from rag.ask_stream(question, **arguments)
        yield rag.ask(question, **arguments)
        return
    connection.isolation_level = psycopg.IsolationLevel.REPEATABLE_READ
    try:
        with connection.transaction():
            yield from rag.ask_stream(question, **arguments)
            # The second statement has the first one's context, so its answer is known and costs no call.
            yield rag.ask(question, **arguments)
    finally:
        if not connection.closed:
            connection.isolation_level = None


def as_json(answer: Answer) -> dict[str, Any]:
    """Return answer, citations with the text that each points to, usage, and the parts of the context that a graph shows."""
    texts = texts_of(answer.context)
    citations = [asdict(citation) | {"content": texts.get(citation.chunk_id)} for citation in answer.citations]
    return {
        "answer": answer.answer,
        "citations": citations,
        "usage": answer.usage,
        "context": context_parts(answer.context),
    }


def texts_of(context: Mapping[str, Any]) -> dict[int | None, str]:
    """Return {chunk: text} of the chunks that an answer may cite; a row as lines "column: value"."""
    rows = [row for table in context.get("tables", ()) for row in table["rows"]]
    texts = {
        row["chunk_id"]: "\n".join(f"{name}: {value}" for name, value in row["values"].items() if value is not None)
        for row in rows
    }
    # The text of a row is what its table does not tell.
    for chunk in context["chunks"]:
        of_table = texts.get(chunk["chunk_id"])
        texts[chunk["chunk_id"]] = chunk["content"] if of_table is None else f"{of_table}\n\n{chunk['content']}"
    return texts


def context_parts(context: Mapping[str, Any]) -> dict[str, Any]:
    """Return the parts of a context that its readers need besides the prompt."""
    names = ("entities", "relationships", "reports", "claims", "tables", "chunks", "references", "tokens", "sql")
    return {name: context[name] for name in names if name in context}


def marks(answer: str) -> list[tuple[int, int, int]]:
    """Return (number, start, end) of each citation in an answer."""
    return [(int(match[1]), match.start(), match.end()) for match in _MARK.finditer(answer)]
