"""JSON Lines: one document a line."""

import json
from collections.abc import Iterator
from typing import Any

from pg_graphrag.beside.readers.decode import decode, is_valid
from pg_graphrag.beside.readers.read_errors import ReadError
from pg_graphrag.beside.readers.source import Source
from pg_graphrag.ground.document import Document

_KEY_FIELDS = ("source_key", "id")
# A document of a gigabyte is more than PostgreSQL holds, and JSON takes a few times its length.
_MAX_LINE = 1 << 28
# Bytes before and after a line that is no UTF-8.
_AROUND = 1 << 16
_TEXT_FIELDS = ("content", "text")


def read_jsonl(source: Source) -> Iterator[Document | ReadError]:
    """Read a JSON Lines file line by line.

    A line is an object with ``content`` or ``text``; ``source_key`` or ``id``, ``title`` and ``metadata`` are
    optional. Its other fields join the metadata. A line without a key gets ``<key of the file>#<line number>``.
    """
    offset = 0
    around = b""
    with source.open() as file:
        for number, line in enumerate(iter(lambda: file.readline(_MAX_LINE + 1), b""), 1):
            if len(line) > _MAX_LINE:
                yield source.error(f"line {number} has more than {_MAX_LINE:,} bytes; it and what follows are not read")
                return
            if line.strip():
                is_utf8 = is_valid(line, "utf-8")
                if not (around or is_utf8):
                    # A line alone says little of its encoding.
                    around = _around(source, offset)
                try:
                    text = decode(line, source, offset=offset, around=b"" if is_utf8 else around)
                    yield _document(text, source, number)
                except ReadError as error:
                    yield error
            offset += len(line)


def _around(source: Source, offset: int) -> bytes:
    with source.open() as file:
        file.seek(max(0, offset - _AROUND))
        return file.read(2 * _AROUND)


def _document(line: str, source: Source, number: int) -> Document:
    try:
        fields = json.loads(line)
        # A \u0000 or half a surrogate pair is JSON, but no text.
        json.dumps(fields, ensure_ascii=False).encode()
    except ValueError as error:
        raise source.error(f"line {number} is not JSON in UTF-8: {error}") from None
    except RecursionError:
        raise source.error(f"line {number} is nested too deeply") from None
    if not isinstance(fields, dict):
        raise source.error(f"line {number} is not a JSON object")
    if _has_nul(fields):
        raise source.error(f"line {number} has a NUL character (\\u0000); PostgreSQL text cannot hold it")
    content = _take(fields, _TEXT_FIELDS)
    if not isinstance(content, str):
        raise source.error(f'line {number} has no text: it needs a string "content" or "text"')
    title = fields.pop("title", None)
    if not isinstance(title, str | None):
        raise source.error(f'line {number}: "title" is not a string')
    source_key = _take(fields, _KEY_FIELDS)
    if isinstance(source_key, bool) or not isinstance(source_key, str | int | None):
        raise source.error(f'line {number}: "{_KEY_FIELDS[0]}" (or "id") is neither a string nor a whole number')
    metadata = fields.pop("metadata", None) or {}
    if not isinstance(metadata, dict):
        raise source.error(f'line {number}: "metadata" is not an object')
    return Document(
        content=content,
        source_key=f"{source.key}#{number}" if source_key in (None, "") else str(source_key),
        title=title,
        metadata={"mime": "application/jsonl"} | fields | metadata | {"path": source.key},
    )


def _take(fields: dict[str, Any], names: tuple[str, ...]) -> Any:
    """Take the first of `names` that is there out of `fields`; the others stay and become metadata."""
    for name in names:
        if fields.get(name) is not None:
            return fields.pop(name)
    return None


def _has_nul(value: Any) -> bool:
    if isinstance(value, str):
        return "\0" in value
    if isinstance(value, dict):
        return any("\0" in name or _has_nul(item) for name, item in value.items())
    return isinstance(value, list) and any(map(_has_nul, value))
