"""Exact Okapi BM25 inside PostgreSQL: immutable packed segments, an exact tail, and tombstones (docs/decisions.md)."""

from pg_graphrag.retrieval.bm25.index import BM25Index
from pg_graphrag.retrieval.bm25.optimize import optimize, tail_is_long

__all__ = ["BM25Index", "optimize", "tail_is_long"]
