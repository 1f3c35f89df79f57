"""Histories: corpora whose documents are the versions of another corpus' documents."""

import json

from pg_graphrag.ground.errors import GraphRAGError
from pg_graphrag.operate.admin.corpus_changes import create, options_like
from pg_graphrag.server import Database
from pg_graphrag.server.corpus.corpora import find_corpus

# What a history does without by default: it is searched as of moments, and results for the whole history belong to no
# moment.
_DEFAULTS = {"cypher": False, "communities": False, "query_log": False, "notify": False}
_HISTORY = """
SELECT c.name, h.corpus_id = $1 AS has_one
  FROM graphrag._histories h
  JOIN graphrag.corpora c ON c.id = CASE WHEN h.corpus_id = $1 THEN h.history_id ELSE h.corpus_id END
 WHERE $1 IN (h.corpus_id, h.history_id)
"""


def keep(db: Database, name: str | None, history: str | None, options: str | None) -> int:
    """Begin the history of a corpus with the versions of now; return its number."""
    corpus = find_corpus(db, name)
    db.query("SELECT graphrag._refuse_moved($1)", ["int4"], [corpus.id])
    if rows := db.query(_HISTORY, ["int4"], [corpus.id]):
        does = "has a history" if rows[0]["has_one"] else "is the history of another"
        raise GraphRAGError(
            f'corpus "{name}" {does}: "{rows[0]["name"]}"',
            sqlstate="55000",
            hint="graphrag.end_history(corpus) ends it; what was kept stays.",
        )
    number = create(db, history, json.dumps(options_like(db, corpus, _DEFAULTS, options)))
    # Closed before it has documents: grants and policies of the other corpus do not apply to it.
    db.query("SELECT graphrag.protect($1, 'false')", ["text"], [history])
    # Who writes at this moment is waited for, so that no document is missed.
    db.query("SELECT graphrag._lock_tables('graphrag.documents')")
    db.query(
        "INSERT INTO graphrag._histories (corpus_id, history_id) VALUES ($1, $2)", ["int4", "int4"], [corpus.id, number]
    )
    db.query("SELECT graphrag._settle_versions($1)", ["int4"], [corpus.id])
    return number


def end(db: Database, name: str | None) -> None:
    """Keep no further versions; existing ones stay."""
    corpus = find_corpus(db, name)
    db.query("SELECT graphrag._refuse_moved($1)", ["int4"], [corpus.id])
    ended = db.query("DELETE FROM graphrag._histories WHERE corpus_id = $1 RETURNING history_id", ["int4"], [corpus.id])
    if not ended:
        raise GraphRAGError(
            f'corpus "{name}" has no history',
            sqlstate="42704",
            hint="graphrag.keep_history(corpus, history) begins one.",
        )
    db.query(
        "UPDATE graphrag.documents SET version_of = NULL WHERE corpus_id = $1 AND version_of IS NOT NULL",
        ["int4"],
        [ended[0]["history_id"]],
    )
