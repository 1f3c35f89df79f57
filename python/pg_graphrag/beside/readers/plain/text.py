"""Plain text."""

import re
from collections.abc import Iterator

from pg_graphrag.beside.readers.archive import COMPOUND
from pg_graphrag.beside.readers.decode import decode
from pg_graphrag.beside.readers.markup.rtf import read_rtf
from pg_graphrag.beside.readers.read_errors import ReadWarning
from pg_graphrag.beside.readers.source import Source
from pg_graphrag.beside.readers.web.furniture import without_gutenberg
from pg_graphrag.ground.document import Document

# Programs that set text in lines (manual pages) part words with this sign, and writers do not end lines with it.
_PARTED = re.compile(r"(?<=[^\W\d_])\u2010\n[ \t]{0,40}(?=[^\W\d_])")
# How files begin that are no text, whatever they are called, and what to do.
_OTHERS = {
    COMPOUND: "is of Word, Excel or PowerPoint before 2007, or of Outlook; save it as .docx, .xlsx, .pptx or .eml",
    b"%PDF-": "is a PDF; give its name the ending .pdf",
    b"%!PS": "is PostScript; convert it to PDF",
    b"PK\x03\x04": "is an archive or an Office file; unpack it, or give its name the ending of its kind",
    b"\x1f\x8b": "is compressed; unpack it",
    b"BZh": "is compressed; unpack it",
    b"\xfd7zXZ\0": "is compressed; unpack it",
    b"(\xb5/\xfd": "is compressed; unpack it",
}


def read_text(source: Source) -> Iterator[Document | ReadWarning]:
    """Read a text file as one document, titled with the file's name. Form feeds end its pages; parted words are joined.

    Raises ReadError for a file of another kind, which a user named, or for bytes that are no text.
    """
    data = source.read()
    if data.startswith(b"{\\rtf"):
        # Programs call it .doc, which Word opens all the same.
        yield from read_rtf(source)
        return
    for begin, reason in _OTHERS.items():
        if data.startswith(begin):
            raise source.error(reason)
    content, facts = without_gutenberg(_PARTED.sub("", decode(data, source)))
    yield source.document(content, "text/plain", facts.others.pop("title", None), facts)
