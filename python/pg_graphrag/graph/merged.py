"""Merged values, kept by counting: names, types, descriptions, keywords, weights, and the best sentence."""

from collections import Counter

from pg_graphrag.graph.change import Change, Delta
from pg_graphrag.graph.descriptions import as_description, is_described
from pg_graphrag.graph.mentions import SEPARATOR
from pg_graphrag.server import Database, columns, slices

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


def count_values(
    db: Database, item_kind: str, values: Counter[tuple[int, str, str]], tokens: dict[str, int]
) -> set[tuple[int, str]]:
    """Count; return whose descriptions (d) and keywords (k) are other ones than before, not only more or less frequent."""
    rows = [
        (item, kind, value, delta, tokens.get(value, 0) if kind == "d" else None)
        for (item, kind, value), delta in sorted(values.items())
        if delta
    ]
    types = ["int8[]", "text[]", "text[]", "int4[]", "int4[]"]
    changed_values: set[tuple[int, str]] = set()
    for part in slices(rows):
        changed_values |= {
            (row["id"], row["kind"]) for row in db.query(_COUNT_VALUES.format(what=item_kind), types, columns(part))
        }
    return changed_values


# A document that is written anew mostly says what it said: rows that stay as they are are not written.
_CHANGES = "(u.is_changed OR coalesce(u.rank < {item}.evidence_rank, u.rank IS NOT NULL))"
# (source, target) of ends, by a direction.
_SHOWN = """
               SELECT CASE WHEN forward THEN {low} ELSE {high} END, CASE WHEN forward THEN {high} ELSE {low} END
                 FROM (SELECT CASE {direction}
                              WHEN 0 THEN (SELECT l.key < h.key FROM graphrag.entities l, graphrag.entities h
                                            WHERE l.id = {low} AND h.id = {high})
                              ELSE {direction} > 0 END) AS d (forward)"""
_INSERT_RELATIONSHIPS = f"""
INSERT INTO graphrag.relationships (id, corpus_id, low_id, high_id, source_id, target_id, mention_count, weight, direction,
                                    evidence_rank, keywords, description)
SELECT u.id, $1, u.low, u.high, s.source, s.target, u.mentions, pg_catalog.trim_scale(u.weight), u.direction, u.rank,
       pg_catalog.string_to_array(u.keywords, $11), coalesce(u.text, '')
  FROM unnest($2, $3, $4, $5, $6, $7, $8, $9, $10)
       AS u (id, low, high, mentions, weight, direction, rank, text, keywords)
 CROSS JOIN LATERAL ({_SHOWN.format(low="u.low", high="u.high", direction="u.direction")}) AS s (source, target)
"""


def insert_relationships(db: Database, change: Change, ends: dict[int, tuple[int, int]]) -> None:
    """Write new relationships, {id: (low, high)}, as the change has them: changed later, each would be there twice."""
    keywords: dict[int, list[str]] = {}
    described = set()
    for (item, kind, value), count in change.relationship_values.items():
        if count and kind == "k":
            keywords.setdefault(item, []).append(value)
        elif count:
            described.add(item)
    types = ["int4", *["int8[]"] * 3, "int4[]", "numeric[]", "int4[]", "int8[]", "text[]", "text[]", "text"]
    for part in slices(sorted(ends)):
        rows = []
        for item in part:
            delta = change.relationships[item]
            rank, text = (delta.best.rank, delta.best.text) if delta.best else (None, None)
            counts = delta.mentions, delta.weight, delta.direction
            texts = None if item in described else text, SEPARATOR.join(sorted(keywords.get(item, ())))
            rows.append((item, *ends[item], *counts, rank, *texts))
        db.query(_INSERT_RELATIONSHIPS, types, [change.corpus_id, *columns(rows), SEPARATOR])


_UPDATE_RELATIONSHIPS = """
WITH updated AS (
    UPDATE graphrag.relationships r
       SET mention_count = r.mention_count + u.mentions,
           weight        = pg_catalog.trim_scale(r.weight + u.weight),
           direction     = r.direction + u.direction,
           evidence_rank = least(r.evidence_rank, u.rank),
           keywords      = CASE WHEN u.other_keywords
                                THEN ARRAY(SELECT v.value FROM graphrag.relationship_values v
                                            WHERE v.relationship_id = r.id AND v.kind = 'k' ORDER BY v.value)
                                ELSE r.keywords END,
           description   = CASE WHEN u.text IS NOT NULL AND (u.rank < r.evidence_rank OR r.evidence_rank IS NULL)
                                     AND NOT {described} THEN u.text
                                ELSE r.description END,
           (source_id, target_id) = ({shown})
      FROM unnest($1, $2, $3, $4, $5, $6, $7, $8) AS u (id, mentions, weight, direction, rank, text, other_keywords, is_changed)
     WHERE r.id = u.id AND {changes}
    RETURNING r.id, r.evidence_rank
)
SELECT t.id FROM updated t JOIN unnest($9, $10) AS gone (id, rank) ON gone.id = t.id AND gone.rank = t.evidence_rank
""".format(
    shown=_SHOWN.format(low="r.low_id", high="r.high_id", direction="(r.direction + u.direction)"),
    described=is_described("relationship", "r.id"),
    changes=_CHANGES.format(item="r"),
)


def update_relationships(db: Database, deltas: dict[int, Delta], other_keywords: set[int]) -> None:
    """Count what has changed; keywords are the sorted union of the mentions', made anew where these are others."""
    types = ["int8[]", "int4[]", "numeric[]", "int4[]", "int8[]", "text[]", "bool[]", "bool[]", "int8[]", "int8[]"]
    for part in slices(sorted(deltas)):
        removed = _removed_evidence(deltas, part)
        has_removed = set(removed[0])
        rows = []
        for key in part:
            delta = deltas[key]
            best = (delta.best.rank, delta.best.text) if delta.best else (None, None)
            counts = delta.mentions, delta.weight, delta.direction
            is_changed = any(counts) or key in other_keywords or key in has_removed
            rows.append((key, *counts, *best, key in other_keywords, is_changed))
        stale = db.query(_UPDATE_RELATIONSHIPS, types, [*columns(rows), *removed])
        renew_evidence(db, "relationship", [row["id"] for row in stale])


_UPDATE_ENTITIES = """
WITH updated AS (
    UPDATE graphrag.entities e
       SET mention_count = e.mention_count + u.mentions,
           degree        = e.degree + u.degree,
           evidence_rank = least(e.evidence_rank, u.rank),
           description   = CASE WHEN u.text IS NOT NULL AND (u.rank < e.evidence_rank OR e.evidence_rank IS NULL)
                                     AND NOT {described} THEN u.text
                                ELSE e.description END,
           name          = coalesce((SELECT v.value FROM graphrag.entity_values v WHERE v.entity_id = e.id AND v.kind = 'n'
                                      ORDER BY v.count DESC, v.value LIMIT 1), e.name),
           type          = coalesce((SELECT v.value FROM graphrag.entity_values v WHERE v.entity_id = e.id AND v.kind = 't'
                                      ORDER BY graphrag._type_rank(v.value), v.count DESC, v.value
                                      LIMIT 1), e.type)
      FROM unnest($1, $2, $3, $4, $5, $6) AS u (id, mentions, degree, rank, text, is_changed)
     WHERE e.id = u.id AND {changes}
    RETURNING e.id, e.evidence_rank
)
SELECT t.id FROM updated t JOIN unnest($7, $8) AS gone (id, rank) ON gone.id = t.id AND gone.rank = t.evidence_rank
""".replace("{described}", is_described("entity", "e.id")).replace("{changes}", _CHANGES.format(item="e"))


def update_entities(
    db: Database, deltas: dict[int, Delta], degrees: Counter[int], values: Counter[tuple[int, str, str]]
) -> None:
    """Count what has changed; `values` as `count_values` has counted them."""
    types = ["int8[]", "int4[]", "int4[]", "int8[]", "text[]", "bool[]", "int8[]", "int8[]"]
    renamed = {item for (item, kind, _), delta in values.items() if delta and kind in ("n", "t")}
    for part in slices(sorted({*deltas, *degrees})):
        removed = _removed_evidence(deltas, part)
        changed = renamed.union(removed[0])
        rows = []
        for key in part:
            delta = deltas.get(key, Delta())
            best = (delta.best.rank, delta.best.text) if delta.best else (None, None)
            counts = delta.mentions, degrees[key]
            rows.append((key, *counts, *best, any(counts) or key in changed))
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
