"""The callers' side of the door to models: what runs with the caller's own rights."""

import json
from collections.abc import Iterator
from typing import Any

from pg_graphrag.corpus.corpora import Corpus
from pg_graphrag.server import Database


def ask_model(db: Database, corpus: Corpus, task: str, arguments: dict[str, Any], record: bool) -> dict[str, Any]:
    """Have a task done; return {value, cached, usage} or {fault, usage}."""
    rows = db.query(
        "SELECT graphrag._model($1, $2, $3, $4) AS outcome",
        ["int4", "text", "jsonb", "bool"],
        [corpus.id, task, json.dumps(arguments, ensure_ascii=False), record],
    )
    outcome: dict[str, Any] = json.loads(rows[0]["outcome"])
    return outcome


def stream_model(db: Database, corpus: Corpus, task: str, arguments: dict[str, Any], record: bool) -> Iterator[str]:
    """Have a task done; yield the pieces of its answer as they come. Closing the iterator ends the request."""
    values = [corpus.id, task, json.dumps(arguments, ensure_ascii=False), record]
    cursor = db.cursor(
        "SELECT graphrag._model_stream($1, $2, $3, $4) AS piece", ["int4", "text", "jsonb", "bool"], values
    )
    while rows := cursor.fetch(1):
        yield rows[0]["piece"]
