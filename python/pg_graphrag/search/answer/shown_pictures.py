"""Pictures of the context that the model for answers is shown, where the question asks for that."""

from typing import Any

from pg_graphrag.server import Database

# Limits of one answer: pictures, and their bytes.
MAX_PICTURES, MAX_BYTES = 4, 5 << 20

_SIZES = """
SELECT p.id, pg_catalog.octet_length(p.content) AS size
  FROM graphrag.pictures p
 WHERE p.id = ANY ($1)
"""
_PICTURES = """
SELECT p.id, p.media_type, pg_catalog.replace(pg_catalog.encode(p.content, 'base64'), E'\n', '') AS base64
  FROM graphrag.pictures p
 WHERE p.id = ANY ($1)
"""


def shown_pictures(db: Database, context: dict[str, Any]) -> list[dict[str, Any]]:
    """Return [{picture, number, media_type, base64}] of the context's chunks, best first: `number` is the reference that
    cites them.

    Only the first few, within a limit of bytes. The caller may see their chunks.
    """
    numbers: dict[int, int] = {}
    for chunk in context.get("chunks", ()):
        if (picture := chunk["explain"].get("picture")) is not None:
            numbers.setdefault(picture, chunk["reference"])
    if not numbers:
        return []
    sizes = {row["id"]: row["size"] for row in db.query(_SIZES, ["int8[]"], [list(numbers)])}
    chosen: list[int] = []
    total = 0
    for picture in numbers:
        if len(chosen) < MAX_PICTURES and picture in sizes and total + sizes[picture] <= MAX_BYTES:
            chosen.append(picture)
            total += sizes[picture]
    contents = {row["id"]: row for row in db.query(_PICTURES, ["int8[]"], [chosen])} if chosen else {}
    return [
        {"picture": picture, "number": numbers[picture]}
        | {name: contents[picture][name] for name in ("media_type", "base64")}
        for picture in chosen
        if picture in contents
    ]
