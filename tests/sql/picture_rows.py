"""What the tests of documents' pictures share: small pictures, and documents with them."""

import struct
import zlib
from typing import Any

from tests.sql.ingest import Connection, put, value

# A caption, and what each mode finds it by.
CAPTION = "Maintenance drawing: the Heron launcher carries the Kestrel engine to Osaka."
QUESTION = "What does the Heron launcher carry in the maintenance drawing?"


def png(color: int = 0) -> bytes:
    """A picture of one grey pixel; others are other pictures."""

    def part(kind: bytes, data: bytes) -> bytes:
        return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))

    head = part(b"IHDR", struct.pack(">IIBBBBB", 1, 1, 8, 0, 0, 0, 0))
    return b"\x89PNG\r\n\x1a\n" + head + part(b"IDAT", zlib.compress(bytes([0, color]))) + part(b"IEND", b"")


def document_id(db: Connection, corpus: str, key: str) -> int:
    sql = "SELECT id FROM graphrag.documents WHERE corpus = %s AND source_key = %s"
    return int(value(db, sql, corpus, key))


def add_picture(db: Connection, corpus: str, key: str, **columns: Any) -> int:
    """Give a document a picture; return its number."""
    columns = {"document_id": document_id(db, corpus, key), "content": png(), "caption": CAPTION} | columns
    names, marks = ", ".join(columns), ", ".join(["%s"] * len(columns))
    sql = f"INSERT INTO graphrag.pictures ({names}) VALUES ({marks}) RETURNING id"
    return int(value(db, sql, *columns.values()))


def pictured(
    db: Connection, corpus: str, key: str = "manual", text: str = "A manual.\f\nMore of it.", **columns: Any
) -> int:
    """A document with a picture; returns the picture's number."""
    put(db, corpus, key, text)
    return add_picture(db, corpus, key, **columns)
