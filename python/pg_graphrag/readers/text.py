"""Plain text."""

from collections.abc import Iterator

from pg_graphrag.client.documents import Document
from pg_graphrag.readers.decode import decode
from pg_graphrag.readers.furniture import without_gutenberg
from pg_graphrag.readers.source import Source


def read_text(source: Source) -> Iterator[Document]:
    """Read a text file as one document, titled with the file's name. Form feeds end its pages."""
    content, facts = without_gutenberg(decode(source.read(), source))
    yield source.document(content, "text/plain", facts.others.pop("title", None), facts)
