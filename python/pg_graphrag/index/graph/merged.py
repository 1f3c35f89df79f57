"""Merged values by counting: names, types, descriptions, keywords, weights, and the best sentence."""

from collections import Counter
from collections.abc import Collection, Mapping
from typing import Any

from pg_graphrag.index.graph.change import Delta
from pg_graphrag.index.graph.drafts import MAX_DESCRIPTION
from pg_graphrag.server import Database, columns, slices
from pg_graphrag.server.queue import queue

# Tokens of a merged description (docs/decisions/indexing.md).
MAX_TOKENS = 1200
# From so many fragments, or as many tokens as a merged description holds, a summary says more.
SUMMARY_FRAGMENTS = 8

# The distinct fragments of one item, joined: (text, null if there are none; fragments; tokens of all that were read).
# Each fragment has at least one token, so only so many are needed. Read by the index, which knows only their
# beginnings.
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
# Items with so many fragments or tokens, and no summary.
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
    """Return a sentence as a description of what it mentions: on one line, cut."""
    return " ".join((sentence or "").split())[:MAX_DESCRIPTION]


def is_described(item_kind: str, id_: str) -> str:
    """Return the SQL condition that mentions describe an entity or relationship."""
    return f"EXISTS (SELECT FROM graphrag.{item_kind}_values v WHERE v.{item_kind}_id = {id_} AND v.kind = 'd')"


def describe(
    db: Database, item_kind: str, item_ids: set[int], changed_ids: set[int], summarize: bool
) -> tuple[bool, list[int]]:
    """Renew the descriptions of the entities or relationships whose fragments changed.

    A summary stays if only the counts of fragments differ (`changed_ids` does not have the item).

    Returns (whether a summary is due, ids that no mention describes any more).
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
    """Queue summaries of items that were merged while the corpus had no model for them."""
    db.query("SELECT graphrag._lock_corpus($1)", ["int4"], [corpus_id])
    for item_kind, table in TABLES.items():
        types, values = ["int4", "int8", "int8"], [corpus_id, SUMMARY_FRAGMENTS, MAX_TOKENS]
        db.query(_DUE.format(what=item_kind, table=table), types, values)
    queue(db, "summarize", corpus_id)


# Not MERGE: before PostgreSQL 17 it returns nothing. The lock of the corpus keeps rows where `place` says they are.
_COUNT_VALUES = """
WITH changes AS MATERIALIZED (
    SELECT d.id, d.kind, d.value, d.delta, d.tokens, v.count + d.delta AS count, v.ctid AS place
      FROM unnest($1, $2, $3, $4, $5) AS d (id, kind, value, delta, tokens)
      LEFT JOIN graphrag.{what}_values v
        ON v.{what}_id = d.id AND v.kind = d.kind::"char" AND pg_catalog.md5(v.value) = pg_catalog.md5(d.value)
), removed AS (
    DELETE FROM graphrag.{what}_values v USING changes c WHERE v.ctid = c.place AND c.count = 0 RETURNING c.id, c.kind
), counted AS (
    UPDATE graphrag.{what}_values v SET count = c.count FROM changes c WHERE v.ctid = c.place AND c.count <> 0
), added AS (
    INSERT INTO graphrag.{what}_values ({what}_id, kind, value, count, tokens)
    SELECT c.id, c.kind::"char", c.value, c.delta, c.tokens FROM changes c WHERE c.place IS NULL
    RETURNING {what}_id AS id, kind::text
)
SELECT x.id, x.kind FROM removed x WHERE x.kind IN ('d', 'k') UNION SELECT x.id, x.kind FROM added x WHERE x.kind IN ('d', 'k')
"""
_INSERT_VALUES = """
INSERT INTO graphrag.{what}_values ({what}_id, kind, value, count, tokens)
SELECT u.id, u.kind::"char", u.value, u.count, u.tokens FROM unnest($1, $2, $3, $4, $5) AS u (id, kind, value, count, tokens)
"""


def count_values(
    db: Database,
    item_kind: str,
    values: Counter[tuple[int, str, str]],
    tokens: dict[str, int],
    new_ids: Collection[int],
) -> set[tuple[int, str]]:
    """Count values; return the items whose set of descriptions (d) or keywords (k) changed, not only their frequency.

    `new_ids`: items that are not stored yet and have no values. Their foreign key is checked when the transaction ends.
    """
    rows: list[tuple[Any, ...]] = []
    new_rows: list[tuple[Any, ...]] = []
    for (item, kind, value), delta in sorted(values.items()):
        if delta:
            row = (item, kind, value, delta, tokens.get(value, 0) if kind == "d" else None)
            (new_rows if item in new_ids else rows).append(row)
    types = ["int8[]", "text[]", "text[]", "int4[]", "int4[]"]
    db.query_rows(_INSERT_VALUES.format(what=item_kind), types, new_rows)
    changed_values: set[tuple[int, str]] = set()
    for part in slices(rows):
        changed_values |= {
            (row["id"], row["kind"]) for row in db.query(_COUNT_VALUES.format(what=item_kind), types, columns(part))
        }
    return changed_values


_NAME = """
       (SELECT v.value FROM graphrag.entity_values v WHERE v.entity_id = {id} AND v.kind = 'n'
         ORDER BY v.count DESC, v.value LIMIT 1)"""
_TYPE = """
       (SELECT v.value FROM graphrag.entity_values v WHERE v.entity_id = {id} AND v.kind = 't'
         ORDER BY graphrag._type_rank(v.value), v.count DESC, v.value LIMIT 1)"""
_KEYWORDS = """
       ARRAY(SELECT v.value FROM graphrag.relationship_values v
              WHERE v.relationship_id = {id} AND v.kind = 'k' ORDER BY v.value)"""
# (source_id, target_id): from low to high where most mentions have it so, or as many and the key of low is the smaller.
_SHOWN = """
       SELECT CASE WHEN forward THEN {low} ELSE {high} END, CASE WHEN forward THEN {high} ELSE {low} END
         FROM (SELECT CASE {direction}
                      WHEN 0 THEN (SELECT l.key < h.key FROM graphrag.entities l, graphrag.entities h
                                    WHERE l.id = {low} AND h.id = {high})
                      ELSE {direction} > 0 END) AS d (forward)"""
_SUMMARY_DUE = "$2 AND (f.fragments >= $3 OR coalesce(f.tokens, 0) >= $4)"
_NEW = {"tokens": "$4", "id": "u.id"}

_INSERT_ENTITIES = f"""
INSERT INTO graphrag.entities (id, corpus_id, key, name, type, description, degree, mention_count, row_mention_count,
                               evidence_rank, summary_due)
SELECT u.id, $1, u.key, {_NAME.format(id="u.id")}, {_TYPE.format(id="u.id")},
       coalesce(f.text, u.text, ''), u.degree, u.mentions, u.row_mentions, u.rank, {_SUMMARY_DUE}
  FROM unnest($5, $6, $7, $8, $9, $10, $11) AS u (id, key, mentions, row_mentions, degree, rank, text)
 CROSS JOIN LATERAL ({MERGED.format(what="entity", **_NEW)}) f
RETURNING summary_due
"""
_INSERT_RELATIONSHIPS = f"""
INSERT INTO graphrag.relationships (id, corpus_id, low_id, high_id, source_id, target_id, keywords, description, weight,
                                    mention_count, row_mention_count, direction, evidence_rank, summary_due)
SELECT u.id, $1, u.low, u.high, s.source_id, s.target_id, {_KEYWORDS.format(id="u.id")},
       coalesce(f.text, u.text, ''), pg_catalog.trim_scale(u.weight), u.mentions, u.row_mentions, u.direction, u.rank,
       {_SUMMARY_DUE}
  FROM unnest($5, $6, $7, $8, $9, $10, $11, $12, $13)
       AS u (id, low, high, mentions, row_mentions, weight, direction, rank, text)
 CROSS JOIN LATERAL ({_SHOWN.format(low="u.low", high="u.high", direction="u.direction")}) AS s (source_id, target_id)
 CROSS JOIN LATERAL ({MERGED.format(what="relationship", **_NEW)}) f
RETURNING summary_due
"""
_INSERT_TYPES = ["int4", "bool", "int8", "int8"]


def insert_entities(
    db: Database,
    corpus_id: int,
    keys: Mapping[int, str],
    deltas: Mapping[int, Delta],
    degrees: Counter[int],
    *,
    summarize: bool,
) -> bool:
    """Insert new entities, {id: key}, whose values are counted; return whether a summary of one is due.

    `summarize`: as `descriptions.describe`.
    """
    rows = [
        (entity, key, delta.mentions, delta.row_mentions, degrees[entity], *_best(delta))
        for entity, key in keys.items()
        for delta in (deltas[entity],)
    ]
    types = [*_INSERT_TYPES, "int8[]", "text[]", *["int4[]"] * 3, "int8[]", "text[]"]
    return _insert(db, _INSERT_ENTITIES, types, corpus_id, rows, summarize=summarize)


def insert_relationships(
    db: Database, corpus_id: int, pairs: Mapping[int, tuple[int, int]], deltas: Mapping[int, Delta], *, summarize: bool
) -> bool:
    """Insert new relationships, {id: ends}, whose values are counted, between entities that are there; else as entities."""
    rows = [
        (relationship, *pair, delta.mentions, delta.row_mentions, delta.weight, delta.direction, *_best(delta))
        for relationship, pair in pairs.items()
        for delta in (deltas[relationship],)
    ]
    types = [*_INSERT_TYPES, *["int8[]"] * 3, "int4[]", "int4[]", "numeric[]", "int4[]", "int8[]", "text[]"]
    return _insert(db, _INSERT_RELATIONSHIPS, types, corpus_id, rows, summarize=summarize)


def _insert(
    db: Database, sql: str, types: list[str], corpus_id: int, rows: list[tuple[Any, ...]], *, summarize: bool
) -> bool:
    is_due = False
    for part in slices(rows):
        values = [corpus_id, summarize, SUMMARY_FRAGMENTS, MAX_TOKENS, *columns(part)]
        is_due |= any(row["summary_due"] for row in db.query(sql, types, values))
    return is_due


def _best(delta: Delta) -> tuple[int | None, str | None]:
    """Return rank and text of the best of the new sentences."""
    return (delta.best.rank, delta.best.text) if delta.best else (None, None)


# A rewritten document mostly says the same as before: unchanged rows are not written.
_CHANGES = "(u.is_changed OR coalesce(u.rank < {item}.evidence_rank, u.rank IS NOT NULL))"
_UPDATE_RELATIONSHIPS = """
WITH updated AS (
    UPDATE graphrag.relationships r
       SET mention_count = r.mention_count + u.mentions,
           row_mention_count = r.row_mention_count + u.row_mentions,
           weight        = pg_catalog.trim_scale(r.weight + u.weight),
           direction     = r.direction + u.direction,
           evidence_rank = least(r.evidence_rank, u.rank),
           keywords      = CASE WHEN u.other_keywords
                                THEN {keywords}
                                ELSE r.keywords END,
           description   = CASE WHEN u.text IS NOT NULL AND (u.rank < r.evidence_rank OR r.evidence_rank IS NULL)
                                     AND NOT {described} THEN u.text
                                ELSE r.description END,
           (source_id, target_id) = ({shown})
      FROM unnest($1, $2, $3, $4, $5, $6, $7, $8, $9)
           AS u (id, mentions, row_mentions, weight, direction, rank, text, other_keywords, is_changed)
     WHERE r.id = u.id AND {changes}
    RETURNING r.id, r.evidence_rank
)
SELECT t.id FROM updated t JOIN unnest($10, $11) AS gone (id, rank) ON gone.id = t.id AND gone.rank = t.evidence_rank
""".format(
    described=is_described("relationship", "r.id"),
    changes=_CHANGES.format(item="r"),
    keywords=_KEYWORDS.format(id="r.id"),
    shown=_SHOWN.format(low="r.low_id", high="r.high_id", direction="(r.direction + u.direction)"),
)


def update_relationships(db: Database, deltas: dict[int, Delta], other_keywords: set[int]) -> None:
    """Update counts; keywords are the sorted union of the mentions', made again if these changed."""
    types = ["int8[]", *["int4[]"] * 2, "numeric[]", "int4[]", "int8[]", "text[]", *["bool[]"] * 2, *["int8[]"] * 2]
    for part in slices(sorted(deltas)):
        removed = _removed_evidence(deltas, part)
        has_removed = set(removed[0])
        rows = []
        for key in part:
            delta = deltas[key]
            counts = delta.mentions, delta.row_mentions, delta.weight, delta.direction
            is_changed = any(counts) or key in other_keywords or key in has_removed
            rows.append((key, *counts, *_best(delta), key in other_keywords, is_changed))
        stale = db.query(_UPDATE_RELATIONSHIPS, types, [*columns(rows), *removed])
        renew_evidence(db, "relationship", [row["id"] for row in stale])


_UPDATE_ENTITIES = """
WITH updated AS (
    UPDATE graphrag.entities e
       SET mention_count = e.mention_count + u.mentions,
           row_mention_count = e.row_mention_count + u.row_mentions,
           degree        = e.degree + u.degree,
           evidence_rank = least(e.evidence_rank, u.rank),
           description   = CASE WHEN u.text IS NOT NULL AND (u.rank < e.evidence_rank OR e.evidence_rank IS NULL)
                                     AND NOT {described} THEN u.text
                                ELSE e.description END,
           name          = coalesce({name}, e.name),
           type          = coalesce({type}, e.type)
      FROM unnest($1, $2, $3, $4, $5, $6, $7) AS u (id, mentions, row_mentions, degree, rank, text, is_changed)
     WHERE e.id = u.id AND {changes}
    RETURNING e.id, e.evidence_rank
)
SELECT t.id FROM updated t JOIN unnest($8, $9) AS gone (id, rank) ON gone.id = t.id AND gone.rank = t.evidence_rank
""".format(
    described=is_described("entity", "e.id"),
    changes=_CHANGES.format(item="e"),
    name=_NAME.format(id="e.id"),
    type=_TYPE.format(id="e.id"),
)


def update_entities(
    db: Database, deltas: dict[int, Delta], degrees: Counter[int], values: Counter[tuple[int, str, str]]
) -> None:
    """Update the counts of existing entities; `values` as `count_values` has counted them."""
    types = ["int8[]", "int4[]", "int4[]", "int4[]", "int8[]", "text[]", "bool[]", "int8[]", "int8[]"]
    renamed = {item for (item, kind, _), delta in values.items() if delta and kind in ("n", "t")}
    for part in slices(sorted({*deltas, *degrees})):
        removed = _removed_evidence(deltas, part)
        changed = renamed.union(removed[0])
        rows = []
        for key in part:
            delta = deltas.get(key, Delta())
            counts = delta.mentions, delta.row_mentions, degrees[key]
            rows.append((key, *counts, *_best(delta), any(counts) or key in changed))
        stale = db.query(_UPDATE_ENTITIES, types, [*columns(rows), *removed])
        renew_evidence(db, "entity", [row["id"] for row in stale])


def _removed_evidence(deltas: dict[int, Delta], ids: list[int]) -> tuple[list[int], list[int]]:
    """Return removed evidence as columns (id, rank): where it was the best, the next best takes its place.

    A sentence that comes again has the rank that it had, which its text alone gives.
    """
    pairs = [
        (key, rank)
        for key in ids
        if (delta := deltas.get(key)) is not None
        for rank in delta.removed_ranks
        if rank is not None and (delta.best is None or rank != delta.best.rank)
    ]
    return [key for key, _ in pairs], [rank for _, rank in pairs]


def renew_evidence(db: Database, item_kind: str, ids: list[int]) -> None:
    """Describe what lost its best sentence, or its last description, by the best sentence of the remaining mentions."""
    if not ids:
        return
    table = {"entity": "entities", "relationship": "relationships"}[item_kind]
    rows = db.query(
        f"SELECT u.id, m.evidence_rank, pg_catalog.substr(c.content, m.start_offset - c.start_offset + 1,"
        f"       m.end_offset - m.start_offset) AS text"
        f"  FROM pg_catalog.unnest($1) AS u (id)"
        f"  LEFT JOIN LATERAL (SELECT * FROM graphrag.{item_kind}_mentions m WHERE m.{item_kind}_id = u.id"
        f"                      AND m.evidence_rank IS NOT NULL ORDER BY m.evidence_rank LIMIT 1) m ON true"
        f"  LEFT JOIN graphrag.chunks c ON c.id = m.chunk_id",
        ["int8[]"],
        [ids],
    )
    db.query(
        f"UPDATE graphrag.{table} t SET evidence_rank = u.rank, description ="
        f" CASE WHEN {is_described(item_kind, 't.id')} THEN t.description ELSE u.text END"
        f"  FROM unnest($1, $2, $3) AS u (id, rank, text) WHERE t.id = u.id",
        ["int8[]", "int8[]", "text[]"],
        [
            [row["id"] for row in rows],
            [row["evidence_rank"] for row in rows],
            [as_description(row["text"]) for row in rows],
        ],
    )
