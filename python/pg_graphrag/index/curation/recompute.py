"""Recomputes merged values from all mentions and curations, by the rules of sql/08_curation/015_merged.sql."""

from pg_graphrag.index.curation.storage import Storage
from pg_graphrag.index.graph.merged import MAX_TOKENS, SUMMARY_FRAGMENTS, TABLES, as_description
from pg_graphrag.server import Database, columns, slices

# $1: ids. Tokens of descriptions that were hidden, or that people wrote, are counted after.
_INSERT_VALUES = """
INSERT INTO graphrag.{what}_values ({what}_id, kind, value, count, tokens)
SELECT s.{what}_id, s.kind, s.value, s.count, CASE s.kind WHEN 'd' THEN coalesce(t.tokens, -1) END
  FROM graphrag._given_{what}_values({given}) s
  LEFT JOIN unnest($2, $3) AS t (value, tokens) ON s.kind = 'd' AND t.value = s.value COLLATE "C"
"""
_GIVEN = {"entity": "$1, NULL, NULL", "relationship": "$1, NULL"}
# $2: tokens of a description, $3: whether a model summarises, $4: from how many fragments. Deleted items are gone already.
_UPDATE = {
    "entity": """
UPDATE graphrag.entities t
   SET mention_count = m.mention_count,
       row_mention_count = (SELECT pg_catalog.count(DISTINCT o.chunk_id)
                              FROM graphrag.entity_mentions o JOIN graphrag.chunks c ON c.id = o.chunk_id AND c.is_row
                             WHERE o.entity_id = t.id),
       evidence_rank = m.evidence_rank,
       curated       = NOT EXISTS (SELECT FROM graphrag.curated c WHERE c.corpus_id = t.corpus_id AND c.entity_key = t.key
                                      AND c.other_entity_key IS NULL AND c.effect = 'delete' AND c.own)
                       AND (EXISTS (SELECT FROM graphrag.curated c WHERE c.corpus_id = t.corpus_id AND c.entity_key = t.key
                                       AND c.effect = 'fragment')
                            OR EXISTS (SELECT FROM graphrag.curated c WHERE c.corpus_id = t.corpus_id
                                          AND c.other_entity_key = t.key
                                          AND c.effect = 'fragment')),
       name          = coalesce(m.name, t.name),
       type          = coalesce(m.type, t.type),
       description   = coalesce(m.description, ''),
       summary_of    = NULL,
       summary_due   = $3 AND (m.fragments >= $4 OR m.tokens >= $2)
  FROM graphrag._merged_entities($1, NULL, NULL, $2) m
 WHERE t.id = m.entity_id
RETURNING t.id, t.summary_due, m.description, m.sentence
""",
    "relationship": """
UPDATE graphrag.relationships t
   SET keywords    = m.keywords,
       description = coalesce(m.description, ''),
       summary_of  = NULL,
       summary_due = $3 AND (m.fragments >= $4 OR m.tokens >= $2)
  FROM graphrag._merged_relationships($1, NULL, $2) m
 WHERE t.id = m.relationship_id
RETURNING t.id, t.summary_due, m.description, m.sentence
""",
}
# Apart from their texts: a plan for any number of relationships would join the two row by row.
_COUNT_RELATIONSHIPS = """
UPDATE graphrag.relationships t
   SET mention_count = n.mention_count,
       row_mention_count = (SELECT pg_catalog.count(DISTINCT o.chunk_id)
                              FROM graphrag.relationship_mentions o JOIN graphrag.chunks c ON c.id = o.chunk_id AND c.is_row
                             WHERE o.relationship_id = t.id),
       evidence_rank = n.evidence_rank,
       weight        = n.weight,
       direction     = n.direction,
       curated       = n.fragments > 0
                       AND NOT EXISTS (SELECT FROM graphrag.curated c, graphrag.entities l, graphrag.entities h
                                        WHERE l.id = t.low_id AND h.id = t.high_id
                                          AND c.corpus_id = t.corpus_id AND c.effect = 'delete' AND c.own
                                          AND (c.entity_key IN (l.key, h.key) AND c.other_entity_key IS NULL
                                               OR c.entity_key = least(l.key, h.key)
                                                  AND c.other_entity_key = greatest(l.key, h.key))),
       source_id     = CASE WHEN n.forward THEN t.low_id ELSE t.high_id END,
       target_id     = CASE WHEN n.forward THEN t.high_id ELSE t.low_id END
  FROM graphrag._counted_relationships($1, NULL, NULL) n
 WHERE t.id = n.relationship_id
"""


def recompute(db: Database, storage: Storage, what: str, ids: list[int]) -> bool:
    """Renew the values of entities or relationships (`what`); return whether a summary of descriptions is due."""
    due = False
    for row in db.query_rows(
        f"SELECT DISTINCT v.value, v.tokens FROM graphrag.{what}_values v"
        f" WHERE v.{what}_id = ANY ($1) AND v.kind = 'd'",
        ["int8[]"],
        ids,
    ):
        storage.tokens[row["value"]] = row["tokens"]
    for part in slices(ids):
        db.query(f"DELETE FROM graphrag.{what}_values v WHERE v.{what}_id = ANY ($1)", ["int8[]"], [part])
        db.query(
            _INSERT_VALUES.format(what=what, given=_GIVEN[what]),
            ["int8[]", "text[]", "int4[]"],
            [part, list(storage.tokens), list(storage.tokens.values())],
        )
        _count_tokens(db, storage, what, part)
        if what == "relationship":
            db.query(_COUNT_RELATIONSHIPS, ["int8[]"], [part])
        rows = db.query(
            _UPDATE[what],
            ["int8[]", "int8", "bool", "int8"],
            [part, MAX_TOKENS, storage.corpus.options.llm.has("summary"), SUMMARY_FRAGMENTS],
        )
        due |= any(row["summary_due"] for row in rows)
        sentences = [(row["id"], as_description(row["sentence"])) for row in rows if row["description"] is None]
        if sentences:
            db.query(
                f"UPDATE graphrag.{TABLES[what]} t SET description = u.text"
                "  FROM unnest($1, $2) AS u (id, text) WHERE t.id = u.id",
                ["int8[]", "text[]"],
                columns(sentences),
            )
    return due


def _count_tokens(db: Database, storage: Storage, what: str, ids: list[int]) -> None:
    """Count the tokens of descriptions that had none: they come from mentions that were hidden, or from people."""
    rows = db.query(
        f"SELECT DISTINCT v.value FROM graphrag.{what}_values v"
        f" WHERE v.{what}_id = ANY ($1) AND v.kind = 'd' AND v.tokens < 0",
        ["int8[]"],
        [ids],
    )
    db.query_rows(
        f"UPDATE graphrag.{what}_values v SET tokens = u.tokens FROM unnest($2, $3) AS u (value, tokens)"
        f" WHERE v.{what}_id = ANY ($1) AND v.kind = 'd' AND v.tokens < 0 AND v.value = u.value COLLATE \"C\"",
        ["int8[]", "text[]", "int4[]"],
        [(row["value"], storage.count(row["value"])) for row in rows],
        ids,
    )


def recount_degrees(db: Database, ids: list[int]) -> None:
    """Count the relationships of entities again."""
    db.query_rows(
        "UPDATE graphrag.entities e SET degree ="
        " (SELECT pg_catalog.count(*) FROM graphrag.relationships r WHERE r.low_id = e.id)"
        " + (SELECT pg_catalog.count(*) FROM graphrag.relationships r WHERE r.high_id = e.id) WHERE e.id = ANY ($1)",
        ["int8[]"],
        ids,
    )
