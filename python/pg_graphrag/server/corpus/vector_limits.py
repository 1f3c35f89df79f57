"""With how many vectors a query is compared one by one, and from how many on a table has an index."""

# A query is compared with all vectors of a kind where they are at most so many, and take at most so much memory. Of more the
# nearest are found by an index, and of mentions only the best are scored. The tables decide this, never what a session cached.
# One vector is compared with windows, that of each keyword with names.
MAX_ROWS = 20_000
MAX_WINDOW_BYTES = 32 * 2**20
MAX_NAME_BYTES = 16 * 2**20
MAX_MENTION_BYTES = 16 * 2**20


def compared_rows(dimensions: int, kind: str) -> int:
    """Return with up to how many vectors of a kind a query is compared one by one."""
    most_bytes = {"window": MAX_WINDOW_BYTES, "entity": MAX_NAME_BYTES}.get(kind, MAX_MENTION_BYTES)
    return min(MAX_ROWS, most_bytes // (4 * dimensions))


def indexed_rows(dimensions: int) -> int:
    """Return from how many vectors on a table gets an HNSW index."""
    return 1 + min(compared_rows(dimensions, kind) for kind in ("window", "entity", "mention"))
