"""Files to documents, each kind by its reader.

`read` turns one file into documents, `walk.files` finds the files below what a user names. A file or line that cannot
be read is a `ReadError` that says where; what can be read goes on.
"""

from collections.abc import Callable, Iterator
from importlib import import_module
from pathlib import Path
from typing import cast

from pg_graphrag.beside.readers.read_errors import ReadError, ReadWarning
from pg_graphrag.beside.readers.source import ReadOptions, Source
from pg_graphrag.ground.document import Document
from pg_graphrag.ground.errors import install_hint

__all__ = ["SUFFIXES", "ReadError", "ReadOptions", "ReadWarning", "kind_of", "read"]

Reader = Callable[[Source], Iterator[Document | ReadError | ReadWarning]]

# Module and function of the reader of each suffix. A folder is searched for these; a file that the user names is read
# whatever its suffix: as text when it has another one.
SUFFIXES = {
    suffix: reader
    for reader, suffixes in {
        "plain.text:read_text": ".txt .text",
        "markup.rst:read_rst": ".rst",
        "markup.asciidoc:read_asciidoc": ".adoc .asciidoc",
        "markup.org:read_org": ".org",
        "markup.latex:read_latex": ".tex .latex",
        "markup.mediawiki:read_mediawiki": ".mediawiki .wiki",
        "markup.docbook:read_docbook": ".docbook .dbk .page .xml .nxml",
        "messages.subtitles:read_subtitles": ".srt .vtt",
        "markdown:read_markdown": ".md .markdown",
        "web.html:read_html": ".html .htm .xhtml",
        "pdf.pdf:read_pdf": ".pdf",
        "markup.rtf:read_rtf": ".rtf",
        "office.office:read_docx": ".docx .docm",
        "office.office:read_pptx": ".pptx .pptm",
        "office.office:read_xlsx": ".xlsx .xlsm",
        "office.opendocument:read_odt": ".odt .ott",
        "office.opendocument:read_ods": ".ods .ots",
        "office.opendocument:read_odp": ".odp .otp",
        "plain.row_documents:read_csv": ".csv .tsv",
        "web.epub:read_epub": ".epub",
        "messages.mail:read_eml": ".eml",
        "messages.mail:read_mbox": ".mbox .mbx",
        "messages.icalendar:read_icalendar": ".ics",
        "messages.vcard:read_vcard": ".vcf",
        "web.mhtml:read_mhtml": ".mhtml .mht",
        "plain.notebook:read_notebook": ".ipynb",
        "plain.jsonl:read_jsonl": ".jsonl .ndjson",
    }.items()
    for suffix in suffixes.split()
}

# Bytes of a file: PostgreSQL holds no longer text, and readers take a few times as much memory.
MAX_BYTES = 1 << 30
_BY_LINE = frozenset(("plain.jsonl:read_jsonl",))


def kind_of(name: str) -> str | None:
    """Return which reader a file of this name has, as in `SUFFIXES`; None for a suffix that is not known."""
    return SUFFIXES.get(Path(name).suffix.lower())


def read_source(source: Source, kind: str) -> Iterator[Document | ReadError | ReadWarning]:
    """Yield what a reader makes of a source; an error where it cannot be read, or the reader's library is not there."""
    module, _, name = kind.partition(":")
    try:
        if (size := source.size()) > MAX_BYTES and kind not in _BY_LINE:
            raise source.error(f"has {size:,} bytes; at most {MAX_BYTES:,} are read: split it")
        # A kind's library is loaded with the first file of it.
        reader = cast(Reader, getattr(import_module(f"{__name__}.{module}"), name))
        for item in reader(source):
            yield item
            if isinstance(item, Document) and item.source_key == source.key and _says_nothing(item):
                yield source.warning("holds no text")
        if source.damage.places:
            yield source.warning(str(source.damage))
    except ReadError as error:
        yield source.error("is empty: 0 bytes") if source.is_empty() else error
    except ModuleNotFoundError as error:
        yield source.error(f"needs the Python package {error.name}. {install_hint('files').removesuffix('.')}")
    except OSError as error:
        yield source.error(error.strerror or str(error))


def _says_nothing(document: Document) -> bool:
    """Whether a document has no text; attachments are documents of their own."""
    return not document.content.strip() and "attachments" not in document.metadata


def read(path: Path, key: str, options: ReadOptions | None = None) -> Iterator[Document | ReadError | ReadWarning]:
    """Read the documents of one file.

    Parameters
    ----------
    path : Path
        The file.
    key : str
        Its ``source_key``, and its ``path`` in the metadata: the path below what the user named, so that it does not
        depend on the machine.
    options : ReadOptions, optional
        Encoding, and whether rows are documents.

    Yields
    ------
    Document, ReadError or ReadWarning
        One document, or one per line (JSON Lines), attachment or row; an error for the file or line that cannot be
        read; a warning for what a document lacks.
    """
    yield from read_source(
        Source(path, key, path.name, options or ReadOptions()), kind_of(path.name) or "plain.text:read_text"
    )
