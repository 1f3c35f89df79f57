"""Exact Okapi BM25 inside PostgreSQL: immutable packed segments, an exact tail, and tombstones (DESIGN.md 6)."""

from pg_graphrag.embedding.threads import load_numpy

load_numpy()

from pg_graphrag.retrieval.bm25.index import BM25Index  # noqa: E402
from pg_graphrag.retrieval.bm25.optimize import optimize, tail_is_long  # noqa: E402

__all__ = ["BM25Index", "optimize", "tail_is_long"]
