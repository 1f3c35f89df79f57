"""PDF, by pypdf: the text that the file holds; pictures of text are not read."""

import logging
from collections.abc import Iterator
from pathlib import Path

from pypdf import PdfReader
from pypdf.errors import PyPdfError

from pg_graphrag.client.documents import Document
from pg_graphrag.readers.errors import ReadError

# pypdf logs every irregularity of a file. Most do not matter; the others are exceptions.
logging.getLogger("pypdf").setLevel(logging.CRITICAL)


# Exceptions of pypdf for a damaged file.
_DAMAGE = (PyPdfError, ValueError, TypeError, LookupError, AttributeError, RecursionError, NotImplementedError)


def read_pdf(path: Path, key: str) -> Iterator[Document]:
    """Read a PDF as one document, its pages parted by an empty line, titled by its metadata, else its name.

    Raises
    ------
    ReadError
        For a damaged or encrypted file, or one without any text (a scan).
    """
    try:
        reader = PdfReader(path)
        if reader.is_encrypted and not reader.decrypt(""):
            raise ReadError(path, "is encrypted; save it without a password")
        pages = [page.extract_text() for page in reader.pages]
        title = reader.metadata.title if reader.metadata else None
    except (ReadError, OSError):
        raise
    except _DAMAGE as error:
        raise ReadError(path, f"cannot be read as PDF: {error}") from error
    content = "\n\n".join(_clean(page).strip() for page in pages).strip()
    if not content:
        raise ReadError(path, f"holds no text in its {len(pages)} pages (a scan?); run OCR on it first")
    yield Document(
        content=content,
        source_key=key,
        title=_clean(str(title)).strip() if title and str(title).strip() else path.stem,
        metadata={"path": key, "mime": "application/pdf", "pages": len(pages)},
    )


def _clean(text: str) -> str:
    """Replace what broken font tables yield and PostgreSQL cannot hold: NUL and halves of surrogate pairs."""
    return text.replace("\0", "\ufffd").encode("utf-16", "surrogatepass").decode("utf-16", "replace")
