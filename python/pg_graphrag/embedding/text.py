"""Vectors as pgvector reads them."""

from typing import Any


def vector_text(vector: Any) -> str:
    """Return a (dimensions,) array in pgvector's text form, with the nine digits that a float32 needs at most."""
    return "[" + ",".join(map("%.9g".__mod__, vector.tolist())) + "]"
