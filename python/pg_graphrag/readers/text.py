"""Plain text."""

import re
from collections.abc import Iterator

from pg_graphrag.client.documents import Document
from pg_graphrag.readers.decode import decode
from pg_graphrag.readers.furniture import without_gutenberg
from pg_graphrag.readers.source import Source

# Programs that set text in lines (manual pages) part words with this sign, and writers do not end lines with it.
_PARTED = re.compile(r"(?<=[^\W\d_])\u2010\n[ \t]{0,40}(?=[^\W\d_])")


def read_text(source: Source) -> Iterator[Document]:
    """Read a text file as one document, titled with the file's name. Form feeds end its pages; parted words are joined."""
    content, facts = without_gutenberg(_PARTED.sub("", decode(source.read(), source)))
    yield source.document(content, "text/plain", facts.others.pop("title", None), facts)
