"""Merged descriptions: the distinct fragments by frequency, up to a number of tokens; whether a model should summarise them."""

from pg_graphrag.index.graph.drafts import MAX_DESCRIPTION
from pg_graphrag.server import Database, columns
from pg_graphrag.server.jobs.queueing import queue

# Tokens of a merged description (docs/decisions/indexing.md).
MAX_TOKENS = 1200
# From so many fragments, or as many tokens as a merged description holds, a summary says more.
SUMMARY_FRAGMENTS = 8

# The distinct fragments of one item, joined: (text, null where there are none; fragments; tokens of all that were looked at).
# Fragments have a token each at least, so that so many decide. By the index, which knows only their beginnings.
MERGED = """
       SELECT pg_catalog.string_agg(x.value, E'\n' ORDER BY x.place) FILTER (WHERE x.place = 1 OR x.tokens <= {tokens}) AS text,
              pg_catalog.count(*) AS fragments,
              pg_catalog.max(x.tokens) AS tokens
         FROM (SELECT w.value,
                      pg_catalog.row_number() OVER ordered AS place,
                      pg_catalog.sum(w.tokens) OVER (ordered ROWS UNBOUNDED PRECEDING) AS tokens
                 FROM (SELECT v.value, v.count, v.tokens
                         FROM graphrag.{what}_values v
                        WHERE v.{what}_id = {id} AND v.kind = 'd'
                        ORDER BY v.count DESC, pg_catalog.left(v.value, 64), v.value
                        LIMIT {tokens}) w
               WINDOW ordered AS (ORDER BY w.count DESC, w.value)) x
"""
_DESCRIBE = """
UPDATE graphrag.{table} t
   SET description = coalesce(f.text, ''),
       summary_of  = NULL,
       summary_due = CASE WHEN u.changed THEN $3 AND (f.fragments >= $4 OR coalesce(f.tokens, 0) >= $5)
                          ELSE t.summary_due END
  FROM unnest($1, $2) AS u (id, changed)
 CROSS JOIN LATERAL ({merged}) f
 WHERE t.id = u.id AND (u.changed OR t.summary_of IS NULL)
RETURNING t.id, t.summary_due, f.text IS NULL AS without
"""
# What has so many fragments or tokens, and no summary.
_DUE = """
UPDATE graphrag.{table} t
   SET summary_due = true
  FROM (SELECT v.{what}_id AS id
          FROM graphrag.{what}_values v
          JOIN graphrag.{table} o ON o.id = v.{what}_id
         WHERE o.corpus_id = $1 AND o.summary_of IS NULL AND v.kind = 'd'
         GROUP BY v.{what}_id
        HAVING pg_catalog.count(*) >= $2 OR pg_catalog.sum(v.tokens) >= $3) f
 WHERE t.id = f.id AND NOT t.summary_due
"""
TABLES = {"entity": "entities", "relationship": "relationships"}


def as_description(sentence: str | None) -> str:
    """Return how a sentence describes what it mentions: in one line, cut."""
    return " ".join((sentence or "").split())[:MAX_DESCRIPTION]


def is_described(item_kind: str, id_: str) -> str:
    """Return the SQL condition that mentions describe an entity or relationship."""
    return f"EXISTS (SELECT FROM graphrag.{item_kind}_values v WHERE v.{item_kind}_id = {id_} AND v.kind = 'd')"


def describe(
    db: Database, item_kind: str, item_ids: set[int], changed_ids: set[int], summarize: bool
) -> tuple[bool, list[int]]:
    """Renew the descriptions of the entities or relationships whose fragments were counted anew.

    A summary stays where only the counts of fragments differ (`changed_ids` does not have the item).

    Returns
    -------
    (whether a summary is due, ids that no mention describes any more)
    """
    if not item_ids:
        return False, []
    rows = db.query(
        _DESCRIBE.format(table=TABLES[item_kind], merged=MERGED.format(what=item_kind, id="u.id", tokens="$5")),
        ["int8[]", "bool[]", "bool", "int8", "int8"],
        [
            *columns([(item, item in changed_ids) for item in sorted(item_ids)]),
            summarize,
            SUMMARY_FRAGMENTS,
            MAX_TOKENS,
        ],
    )
    return any(row["summary_due"] for row in rows), [row["id"] for row in rows if row["without"]]


def queue_summaries(db: Database, corpus_id: int) -> None:
    """Have summarised what was merged while the corpus had no model for it."""
    db.query("SELECT graphrag._lock_corpus($1)", ["int4"], [corpus_id])
    for item_kind, table in TABLES.items():
        types, values = ["int4", "int8", "int8"], [corpus_id, SUMMARY_FRAGMENTS, MAX_TOKENS]
        db.query(_DUE.format(what=item_kind, table=table), types, values)
    queue(db, "summarize", corpus_id)
