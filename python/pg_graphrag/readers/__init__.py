"""Files to documents: text, Markdown, HTML, PDF and JSON Lines.

`read` turns one file into documents, `walk.files` finds the files below what a user names. A file or line that cannot
be read is a `ReadError` that says where; what can be read goes on.
"""

from collections.abc import Callable, Iterator
from pathlib import Path

from pg_graphrag.client.documents import Document
from pg_graphrag.readers.errors import ReadError
from pg_graphrag.readers.html import read_html
from pg_graphrag.readers.jsonl import read_jsonl
from pg_graphrag.readers.markdown import read_markdown
from pg_graphrag.readers.pdf import read_pdf
from pg_graphrag.readers.text import read_text

__all__ = ["SUFFIXES", "ReadError", "read"]

Reader = Callable[[Path, str], Iterator[Document | ReadError]]

# A folder is searched for these. A file that the user names is read whatever its suffix: as text when it has another one.
SUFFIXES: dict[str, Reader] = {
    ".txt": read_text,
    ".text": read_text,
    ".rst": read_text,
    ".md": read_markdown,
    ".markdown": read_markdown,
    ".html": read_html,
    ".htm": read_html,
    ".xhtml": read_html,
    ".pdf": read_pdf,
    ".jsonl": read_jsonl,
    ".ndjson": read_jsonl,
}


def read(path: Path, key: str) -> Iterator[Document | ReadError]:
    """Read the documents of one file.

    Parameters
    ----------
    path : Path
        The file.
    key : str
        Its ``source_key``, and its ``path`` in the metadata: the path below what the user named, so that it does not
        depend on the machine.

    Yields
    ------
    Document or ReadError
        One document, or for JSON Lines one per line; an error for the file or line that cannot be read.
    """
    try:
        yield from SUFFIXES.get(path.suffix.lower(), read_text)(path, key)
    except ReadError as error:
        yield error
    except OSError as error:
        yield ReadError(path, error.strerror or str(error))
