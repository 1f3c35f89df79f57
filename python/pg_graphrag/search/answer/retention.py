"""Retention of caches and logs: by age and by number of rows (corpus option ``retention``)."""

import json

from pg_graphrag.server import Database
from pg_graphrag.server.corpus.corpora import Corpus, find_corpus
from pg_graphrag.server.corpus.options import Limit

# Both limits in one statement. By row, not by time: all rows of one transaction have the same time.
_PRUNE = """
WITH deleted AS (
    DELETE FROM graphrag.{table} t
     WHERE t.corpus_id = $1 {keep}
       AND (t.{time} < pg_catalog.now() - $2 * interval '1 day'
            OR t.ctid = ANY (ARRAY (SELECT o.ctid FROM graphrag.{table} o WHERE o.corpus_id = $1 AND $3 IS NOT NULL
                                     ORDER BY o.{time} DESC OFFSET $3)))
    RETURNING 1
)
SELECT pg_catalog.count(*) AS n FROM deleted
"""
# The budget is counted from this month's calls.
_THIS_MONTH = "AND t.at < pg_catalog.date_trunc('month', pg_catalog.now(), 'UTC')"


def prune(db: Database, corpus: Corpus) -> dict[str, int]:
    """Delete rows beyond the corpus' limits; return their number for each table."""
    retention = corpus.options.retention
    return {
        "llm_cache": _prune(db, corpus.id, "llm_cache", "created_at", retention.llm_cache),
        "llm_calls": _prune(db, corpus.id, "llm_calls", "at", retention.llm_calls, _THIS_MONTH),
        "query_log": _prune(db, corpus.id, "query_log", "at", retention.query_log),
    }


def _prune(db: Database, corpus_id: int, table: str, time: str, limit: Limit, keep: str = "") -> int:
    sql = _PRUNE.format(table=table, time=time, keep=keep)
    return int(db.value(sql, ["int4", "int4", "int4"], [corpus_id, limit.days, limit.rows]))


def prune_named(db: Database, name: str | None) -> str:
    """Serve graphrag.prune()."""
    return json.dumps(prune(db, find_corpus(db, name)))
