"""The callers' side of the door to models: what runs with the caller's own rights."""

import json
from collections.abc import Iterator
from typing import Any

from pg_graphrag.answer.streams import close_stream
from pg_graphrag.corpus.corpora import Corpus
from pg_graphrag.errors import GraphRAGError
from pg_graphrag.server import Database

# Texts of one rerank: what cross-encoders are served in one request.
MAX_RERANKED = 200
# Texts that are graded at once, and characters of each that are looked at.
MAX_GRADED = 8
MAX_GRADED_CHARACTERS = 2000
# How `pg_graphrag.server.call` marks its errors.
_PREFIX = "graphrag: "
# Requests of one task that pass the door at once.
MAX_REQUESTS = 1000


def ask_model(db: Database, corpus: Corpus, task: str, arguments: dict[str, Any], record: bool) -> dict[str, Any]:
    """Have a task done; return {value, cached, usage} or {fault, usage}."""
    rows = db.query(
        "SELECT graphrag._model($1, $2, $3, $4) AS outcome",
        ["int4", "text", "jsonb", "bool"],
        [corpus.id, task, json.dumps(arguments, ensure_ascii=False), record],
    )
    outcome: dict[str, Any] = json.loads(rows[0]["outcome"])
    return outcome


def ask_models(
    db: Database,
    corpus: Corpus,
    task: str,
    arguments: list[dict[str, Any]],
    record: bool,
    retries: int | None = None,
) -> tuple[list[dict[str, Any]], dict[str, Any]]:
    """Have a task done for each of several arguments, side by side; return ([{value} or {fault}], usage).

    `retries`: how many of MAX_REQUESTS may be sent again after a fault; None: as many as the gateway would.
    """
    outcomes: list[dict[str, Any]] = []
    usage: dict[str, Any] = {}
    for at in range(0, len(arguments), MAX_REQUESTS):
        rows = db.query(
            "SELECT graphrag._models($1, $2, $3, $4, $5) AS outcome",
            ["int4", "text", "jsonb", "bool", "int4"],
            [corpus.id, task, json.dumps(arguments[at : at + MAX_REQUESTS], ensure_ascii=False), record, retries],
        )
        outcome: dict[str, Any] = json.loads(rows[0]["outcome"])
        outcomes += outcome["outcomes"]
        usage = {name: usage.get(name, 0) + used for name, used in outcome["usage"].items()}
    return outcomes, usage


def stream_model(db: Database, corpus: Corpus, task: str, arguments: dict[str, Any], record: bool) -> Iterator[str]:
    """Have a task done; yield the pieces of its answer as they come. Closing the iterator ends the request."""
    rows = db.query(
        "SELECT graphrag._model_stream($1, $2, $3, $4) AS stream",
        ["int4", "text", "jsonb", "bool"],
        [corpus.id, task, json.dumps(arguments, ensure_ascii=False), record],
    )
    stream = rows[0]["stream"]
    try:
        while (
            piece := db.query("SELECT graphrag._model_next($1) AS piece", ["text"], [stream])[0]["piece"]
        ) is not None:
            yield piece
    except Exception as error:
        raise _as_told(error) from None
    finally:
        close_stream(stream)


def embed_texts(db: Database, corpus: Corpus, texts: list[str]) -> tuple[bytes, dict[str, Any]]:
    """Have texts embedded at the corpus' endpoint; return (float32 row by row, usage)."""
    try:
        row = db.query(
            "SELECT e.vectors, e.usage FROM graphrag._embed($1, $2) e", ["int4", "text[]"], [corpus.id, texts]
        )[0]
    except Exception as error:
        raise _as_told(error) from None
    return row["vectors"], json.loads(row["usage"])


def rerank_texts(db: Database, corpus: Corpus, query: str, texts: list[str]) -> tuple[list[float], dict[str, Any]]:
    """Have texts scored against a query by the corpus' cross-encoder; return (relevance of each, usage)."""
    try:
        row = db.query(
            "SELECT r.scores, r.usage FROM graphrag._rerank($1, $2, $3) r",
            ["int4", "text", "text[]"],
            [corpus.id, query, texts],
        )[0]
    except Exception as error:
        raise _as_told(error) from None
    return row["scores"], json.loads(row["usage"])


def _as_told(error: Exception) -> Exception:
    """The door's own error out of what SPI made of it; any other, query cancel among them, as it is.

    In an error between two pieces, PL/Python has put the message into the DETAIL.
    """
    sqlstate, detail, hint = [*(getattr(error, "spidata", None) or ()), None, None, None][:3]
    for told, rest in ((str(error), detail), (detail or "", None)):
        if told.startswith(_PREFIX):
            return GraphRAGError(
                told.removeprefix(_PREFIX), sqlstate=str(getattr(error, "sqlstate", sqlstate)), detail=rest, hint=hint
            )
    return error
