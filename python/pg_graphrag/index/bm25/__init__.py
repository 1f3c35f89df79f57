"""Exact Okapi BM25 inside PostgreSQL: immutable packed segments, an exact tail, and tombstones (docs/decisions/indexing.md)."""

from pg_graphrag.index.bm25.index import BM25Index
from pg_graphrag.index.bm25.optimize import LONG_TAIL, LONGEST_TAIL, optimize, tail_length

__all__ = ["LONGEST_TAIL", "LONG_TAIL", "BM25Index", "optimize", "tail_length"]
