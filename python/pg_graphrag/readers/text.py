"""Plain text."""

from collections.abc import Iterator
from pathlib import Path

from pg_graphrag.client.documents import Document
from pg_graphrag.readers.decode import decode


def read_text(path: Path, key: str) -> Iterator[Document]:
    """Read a text file as one document, titled with the file's name."""
    yield Document(
        content=decode(path.read_bytes(), path),
        source_key=key,
        title=path.stem,
        metadata={"path": key, "mime": "text/plain"},
    )
