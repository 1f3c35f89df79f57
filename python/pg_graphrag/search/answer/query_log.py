"""The opt-in log of questions: corpus option ``query_log``."""

import json
import math
from collections.abc import Callable, Sequence
from typing import Any

from pg_graphrag.ground.errors import GraphRAGError
from pg_graphrag.llm.endpoints.ledger import hold_replies
from pg_graphrag.llm.endpoints.ledger import may_note as may_be_noted
from pg_graphrag.llm.endpoints.meters import Meter
from pg_graphrag.server import OWNER, Database
from pg_graphrag.server.access.entry import as_owner
from pg_graphrag.server.corpus.corpora import Corpus

# Characters of a question that the log keeps.
MAX_QUESTION = 10_000
# So that no role fills the disk, or crowds the entries of others out of the log.
ENTRIES_PER_MINUTE = 600
# Read as the caller: a role that sees no document of a corpus may not log questions to it.
_LOGGED = f"""
SELECT c.id, current_user::text AS role, pg_catalog.pg_has_role({OWNER}, 'USAGE') AS is_owner
  FROM graphrag.corpora c
 WHERE c.name = $1 AND c.options @> '{{"query_log": true}}'
   AND (graphrag._reads_whole(c.id) OR EXISTS (SELECT FROM graphrag.documents d WHERE d.corpus = $1))
"""


def log_query(
    db: Database,
    corpus: Corpus,
    kind: str,
    mode: str,
    question: str,
    seconds: float,
    counts: Sequence[int | None],
    usage: dict[str, Any] | None,
) -> None:
    """Log a question with the `counts` of entities, relationships and chunks in its result. Needs the owner's rights.

    Not one that was asked before forget() took a document out of the corpus: it may quote it.
    """
    usage_json = None if usage is None else json.dumps(usage)
    values = (question, kind, mode, 1000.0 * seconds, *counts, usage_json)
    _note(db, corpus.id, values, lambda: hold_replies(db, corpus) == corpus.forgets)


def log_named(
    db: Database,
    question: str | None,
    corpus: str | None,
    kind: str | None,
    mode: str | None,
    milliseconds: float | None,
    entities: int | None,
    relationships: int | None,
    chunks: int | None,
    usage: str | None,
) -> bool:
    """Serve graphrag.log_query(); return whether the question is noted.

    Raises GraphRAGError: 22023 for a bad time or count, and for kinds that ask() logs itself where the caller is not the
      owner.
    """
    rows = db.query(_LOGGED, ["text"], [corpus])
    if not rows:
        return False
    number, role, is_owner = int(rows[0]["id"]), str(rows[0]["role"]), bool(rows[0]["is_owner"])
    if kind in ("ask", "ask_stream") and not is_owner:
        raise GraphRAGError(f'kind of query cannot be "{kind}"', hint="Give search or context: ask() notes itself.")
    for name, count in (("entities", entities), ("relationships", relationships), ("chunks", chunks)):
        if count is not None and count < 0:
            raise GraphRAGError(f"{name} cannot be {count}", hint="Give how many there were, or null.")
    if milliseconds is None or not math.isfinite(milliseconds) or milliseconds < 0:
        raise GraphRAGError(f"milliseconds cannot be {milliseconds}", hint="Give the time that the query took.")
    values = (question, kind, mode, milliseconds, entities, relationships, chunks, usage)

    def note() -> bool:
        if not is_owner and not Meter(db, number, f"{role}\0log").admit(ENTRIES_PER_MINUTE):
            return False
        return _note(db, number, values)

    return as_owner(db, note, writes=True)


def _note(db: Database, corpus_id: int, values: tuple[Any, ...], may_note: Callable[[], bool] = lambda: True) -> bool:
    """Add an entry; False where nothing may be written."""
    if db.value("SELECT pg_catalog.current_setting('transaction_read_only')::boolean"):
        return False
    if not may_note() or not may_be_noted(db, corpus_id):
        return False
    db.query(
        "INSERT INTO graphrag.query_log"
        " (corpus_id, question, kind, mode, milliseconds, entities, relationships, chunks, usage)"
        f" VALUES ($1, pg_catalog.left($2, {MAX_QUESTION}), $3, $4, $5, $6, $7, $8, $9)",
        ["int4", "text", "text", "text", "float8", "int4", "int4", "int4", "jsonb"],
        [corpus_id, *values],
    )
    return True
