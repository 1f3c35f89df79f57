"""Upkeep of a corpus: pack BM25 postings, build vector indexes."""

import json
from typing import Any

from pg_graphrag.corpus.corpora import Corpus, find
from pg_graphrag.retrieval import bm25
from pg_graphrag.server import Database, Row

# From this many vectors on, an HNSW index answers faster than a scan (bench/vectors.py).
HNSW_ROWS = 5000


def optimize(db: Database, corpus: Corpus, job: Row | None = None) -> bool:
    """Do the upkeep of `corpus`; True: nothing is left to do."""
    _optimize(db, corpus.id)
    return True


def optimize_named(db: Database, name: str) -> str:
    """Do the upkeep of the corpus called `name`; return what was done, as JSON."""
    return json.dumps(_optimize(db, find(db, name).id))


def _optimize(db: Database, corpus_id: int) -> dict[str, Any]:
    packed = bm25.optimize(db, corpus_id)
    indexes = db.query("SELECT graphrag._index_vectors($1, $2) AS built", ["int4", "int4"], [corpus_id, HNSW_ROWS])
    return {"bm25": packed, "vector_indexes": indexes[0]["built"]}
