"""Vectors as pgvector reads them."""

from functools import cache
from typing import Any


@cache
def _form(dimensions: int) -> str:
    return "[" + ",".join(["%.9g"] * dimensions) + "]"


def vector_text(vector: Any) -> str:
    """Return a (dimensions,) array in pgvector's text form, with the nine digits that a float32 needs at most."""
    # One formatting of all values takes half the time of one for each.
    return _form(len(vector)) % tuple(vector.tolist())
