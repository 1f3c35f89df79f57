"""Finds curated descriptions of entities and relationships by their words: no mention holds them, so no mention's
score does.
"""

from pg_graphrag.search.query.query import Query

_ENTITIES = """
SELECT e.id, m.matched
  FROM (SELECT c.entity_key, pg_catalog.max(h.matched) AS matched
          FROM graphrag.curated c
         CROSS JOIN LATERAL (SELECT pg_catalog.count(*) AS matched FROM pg_catalog.unnest(c.tsv) t WHERE t.lexeme = ANY ($3)) h
         WHERE c.corpus_id = $1 AND c.tsv OPERATOR(pg_catalog.@@) $2::tsquery AND c.other_entity_key IS NULL
           AND (c.own OR c.effect = 'fragment')
         GROUP BY c.entity_key) m
  JOIN graphrag.entities e ON e.corpus_id = $1 AND e.key = m.entity_key
 WHERE {visible}
 ORDER BY m.matched DESC, e.key
 LIMIT $4
"""
_RELATIONSHIPS = """
SELECT r.id, m.matched
  FROM (SELECT c.entity_key, c.other_entity_key, pg_catalog.max(h.matched) AS matched
          FROM graphrag.curated c
         CROSS JOIN LATERAL (SELECT pg_catalog.count(*) AS matched FROM pg_catalog.unnest(c.tsv) t WHERE t.lexeme = ANY ($3)) h
         WHERE c.corpus_id = $1 AND c.tsv OPERATOR(pg_catalog.@@) $2::tsquery AND c.other_entity_key IS NOT NULL
           AND (c.own OR c.effect = 'fragment')
         GROUP BY c.entity_key, c.other_entity_key) m
  JOIN graphrag.entities s ON s.corpus_id = $1 AND s.key = m.entity_key
  JOIN graphrag.entities t ON t.corpus_id = $1 AND t.key = m.other_entity_key
  JOIN graphrag.relationships r ON r.low_id = least(s.id, t.id) AND r.high_id = greatest(s.id, t.id)
 WHERE {visible}
 ORDER BY m.matched DESC, s.key, t.key
 LIMIT $4
"""


_VISIBLY = "EXISTS (SELECT FROM graphrag.{what}_mentions v WHERE v.{what}_id = {id} AND v.document_id = ANY ($5))"


def matching(query: Query, kind: str, text: str, limit: int) -> dict[int, float]:
    """Return {id of an entity or relationship (`kind`): share of the text's lexemes in its curated texts}, the best ones.

    Where only some documents are searched, only of items that these mention: curated texts belong to no document.
    """
    lexemes = list(query.lexemes(text)) if text else []
    if not lexemes:
        return {}
    quoted_lexemes = ("'" + lexeme.replace("\\", "\\\\").replace("'", "''") + "'" for lexeme in lexemes)
    sql = _ENTITIES if kind == "entity" else _RELATIONSHIPS
    rows = query.db.query(
        sql.format(visible="true" if query.visible is None else _VISIBLY.format(what=kind, id=f"{kind[0]}.id")),
        ["int4", "text", "text[]", "int4", "int8[]"],
        [query.corpus.id, " | ".join(quoted_lexemes), lexemes, limit, query.visible_ids],
    )
    return {row["id"]: row["matched"] / len(lexemes) for row in rows}
