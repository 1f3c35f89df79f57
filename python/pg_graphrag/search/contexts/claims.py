"""Claims (GraphRAG's covariates, arXiv 2404.16130) of entities and of chunks, for the context."""

from collections.abc import Sequence
from typing import Any

from pg_graphrag.search.query.query import Query
from pg_graphrag.server import Row
from pg_graphrag.text.marks import neutral_line

# Claims that are read for one context.
MAX_CLAIMS = 500

_FIELDS = """x.id AS claim_id, x.document_id, x.chunk_id, x.subject, x.object, x.type, x.status, x.start_date, x.end_date,
       x.description, d.source_key, d.title"""
# Claims about an entity come before those that concern it; the chunk may use any of its names.
_OF_ENTITIES = f"""
SELECT {_FIELDS}
  FROM (SELECT s.id, pg_catalog.min(s.place) AS place
          FROM (SELECT x.id, 2 * n.place AS place
                  FROM names n JOIN graphrag.claims x ON x.corpus_id = $1 AND x.subject_key = n.key
                UNION ALL
                SELECT x.id, 2 * n.place + 1
                  FROM names n JOIN graphrag.claims x ON x.corpus_id = $1 AND x.object_key = n.key) s
         GROUP BY s.id) f
  JOIN graphrag.claims x ON x.id = f.id
  JOIN graphrag.chunks c ON c.id = x.chunk_id
  JOIN graphrag.documents d ON d.id = x.document_id AND d.indexed_hash IS NOT NULL
 WHERE $3 IS NULL OR x.document_id = ANY ($3)
 ORDER BY f.place, d.source_key COLLATE "C", c.ordinal, x.id
 LIMIT $4
"""
_NAMES = """
WITH names AS (
    SELECT u.place, k.key
      FROM pg_catalog.unnest($2) WITH ORDINALITY AS u (id, place)
      JOIN graphrag.entities e ON e.id = u.id
     CROSS JOIN LATERAL (SELECT e.key UNION
                         SELECT a.key FROM graphrag.aliases a WHERE a.corpus_id = $1 AND a.entity_key = e.key) k)
"""
_OF_CHUNKS = f"""
SELECT {_FIELDS}
  FROM pg_catalog.unnest($2) WITH ORDINALITY AS u (id, place)
  JOIN graphrag.claims x ON x.chunk_id = u.id
  JOIN graphrag.documents d ON d.id = x.document_id AND d.indexed_hash IS NOT NULL
 WHERE x.corpus_id = $1 AND ($3 IS NULL OR x.document_id = ANY ($3))
 ORDER BY u.place, x.id
 LIMIT $4
"""


def of_entities(query: Query, entities: Sequence[int]) -> list[Row]:
    """Return the claims about entities that the caller may see, in the order of these."""
    return _rows(query, _NAMES + _OF_ENTITIES, entities)


def of_chunks(query: Query, chunks: Sequence[int]) -> list[Row]:
    """Return the claims that chunks make, those that the caller may see, in the order of these."""
    return _rows(query, _OF_CHUNKS, chunks)


def line(claim: dict[str, Any]) -> str:
    """Return a claim as text, behind the number of its document (`reference`)."""
    parties = f"{claim['subject']} → {claim['object']}" if claim["object"] else claim["subject"]
    period = " to ".join(dict.fromkeys(date for date in (claim["start_date"], claim["end_date"]) if date))
    details = ", ".join(part for part in (claim["type"], claim["status"], period) if part)
    return f"- [{claim['reference']}] " + neutral_line(f"{parties} ({details}): {claim['description']}")


def _rows(query: Query, sql: str, ids: Sequence[int]) -> list[Row]:
    if not ids:
        return []
    parameters = [query.corpus.id, list(ids), query.visible_ids, MAX_CLAIMS]
    return query.db.query(sql, ["int4", "int8[]", "int8[]", "int4"], parameters)
