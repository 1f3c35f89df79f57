"""Rows of the views graph_nodes and graph_edges for callers who see a corpus in part: what their documents state of it."""

from typing import Any

from pg_graphrag.access.entry import as_owner
from pg_graphrag.server import Database, Row

# As the caller. Corpora that he sees whole are shown by the views themselves.
_DOCUMENTS = """
SELECT coalesce(pg_catalog.array_agg(d.id), '{}') AS ids
  FROM graphrag.documents d
 WHERE d.indexed_hash = d.content_hash
   AND d.corpus_id <> ALL (ARRAY(SELECT c.id FROM graphrag.corpora c WHERE graphrag._reads_whole(c.id)))
"""
_NODES = """
SELECT c.name AS corpus, e.entity_id, e.key, e.name, e.type, e.description, e.degree, e.mention_count
  FROM graphrag._entities_as_visible(NULL, NULL, $1) e
  JOIN graphrag.corpora c ON c.id = e.corpus_id
"""
_EDGES = """
WITH nodes AS MATERIALIZED (
    SELECT e.entity_id, e.name, e.type, e.mention_count FROM graphrag._entities_as_visible(NULL, NULL, $1) e
), chunks AS (
    SELECT k.corpus_id, pg_catalog.count(*) AS n FROM graphrag.chunks k WHERE k.document_id = ANY ($1) GROUP BY k.corpus_id
)
SELECT c.name AS corpus, r.relationship_id, r.source_id, s.name AS source, s.type AS source_type, r.target_id, t.name AS target,
       t.type AS target_type, r.keywords, r.description, r.weight::float8 AS weight, r.mention_count,
       r.mention_count::float8 / k.n * pg_catalog.ln(r.mention_count::float8 * k.n / s.mention_count / t.mention_count)
           / pg_catalog.ln(2::float8) AS pmi
  FROM graphrag._relationships_as_visible(NULL, $1) r
  JOIN graphrag.corpora c ON c.id = r.corpus_id
  JOIN chunks k ON k.corpus_id = r.corpus_id
  JOIN nodes s ON s.entity_id = r.source_id
  JOIN nodes t ON t.entity_id = r.target_id
"""


def nodes(db: Database) -> list[Row]:
    """Return the rows of graph_nodes, of all corpora that the caller sees in part."""
    return _of_visible(db, _NODES)


def edges(db: Database) -> list[Row]:
    """Return the rows of graph_edges, likewise."""
    return _of_visible(db, _EDGES)


def _of_visible(db: Database, sql: str) -> list[Row]:
    ids: list[Any] = db.query(_DOCUMENTS)[0]["ids"]
    return as_owner(db, lambda: db.query(sql, ["int8[]"], [ids])) if ids else []
