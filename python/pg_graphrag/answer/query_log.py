"""The opt-in log of questions: corpus option ``query_log``."""

import json
from collections.abc import Sequence
from typing import Any

from pg_graphrag.server import Database


def log_query(
    db: Database,
    corpus: str,
    kind: str,
    mode: str,
    question: str,
    seconds: float,
    counts: Sequence[int | None],
    usage: dict[str, Any] | None,
) -> None:
    """Note a question and what it found; `counts` are entities, relationships, chunks. Where nothing may be written: no."""
    db.query(
        "SELECT graphrag.log_query($1, $2, $3, $4, $5, $6, $7, $8, $9)",
        ["text", "text", "text", "text", "float8", "int4", "int4", "int4", "jsonb"],
        [question, corpus, kind, mode, 1000.0 * seconds, *counts, None if usage is None else json.dumps(usage)],
    )
