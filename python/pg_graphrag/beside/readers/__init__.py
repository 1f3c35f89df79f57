"""Readers turn files into documents, one reader for each kind of file.

`read` turns one file into documents, `walk.files` finds the files below a path. A file or line that cannot be read
becomes a `ReadError` that says where; the rest is read.
"""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from importlib import import_module
from pathlib import Path
from typing import cast

from pg_graphrag.beside.readers.pictures import Picture
from pg_graphrag.beside.readers.read_errors import ReadError, ReadProgress, ReadWarning, Skipped
from pg_graphrag.beside.readers.source import Item, ReadOptions, Source, numbers_text
from pg_graphrag.ground.document import Document
from pg_graphrag.ground.errors import install_hint

__all__ = [
    "SUFFIXES",
    "Item",
    "Picture",
    "ReadError",
    "ReadOptions",
    "ReadProgress",
    "ReadWarning",
    "Skipped",
    "kind_of",
    "read",
]

Reader = Callable[[Source], Iterator[Item]]

_PICTURES = "picture.picture:read_picture"
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
        "office.docx:read_docx": ".docx .docm",
        "office.pptx:read_pptx": ".pptx .pptm",
        "office.xlsx:read_xlsx": ".xlsx .xlsm",
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
        _PICTURES: ".png .jpg .jpeg .tif .tiff .webp .heic .heif .gif .bmp",
    }.items()
    for suffix in suffixes.split()
}

# Bytes of a file: PostgreSQL holds no longer text, and readers take a few times as much memory.
MAX_BYTES = 1 << 30
# Packages that the extra ocr brings.
_OF_OCR = frozenset(("openvino", "pillow_heif", "rapidocr"))
# Readers that recognise the text of their pages themselves.
_OF_PAGES = frozenset((_PICTURES, "pdf.pdf:read_pdf"))
_BY_LINE = frozenset(("plain.jsonl:read_jsonl",))


def kind_of(name: str, pictures: bool = True) -> str | None:
    """Return the reader for a file of this name, as in `SUFFIXES`; None for an unknown suffix.

    Without `pictures`, picture files have none.
    """
    kind = SUFFIXES.get(Path(name).suffix.lower())
    return None if kind == _PICTURES and not pictures else kind


def read_source(source: Source, kind: str) -> Iterator[Item]:
    """Yield what a reader makes of a source; an error where it cannot be read, or the reader's library is not there."""
    module, _, name = kind.partition(":")
    source.gallery.is_open = source.options.reads_pictures
    try:
        if (size := source.size()) > MAX_BYTES and kind not in _BY_LINE:
            raise source.error(f"has {size:,} bytes; at most {MAX_BYTES:,} are read: split it")
        # A reader and its library are imported for the first file of its kind.
        reader = cast(Reader, getattr(import_module(f"{__name__}.{module}"), name))
        for item in reader(source):
            if not isinstance(item, Document) or item.source_key != source.key:
                yield item
                continue
            yield from _with_pictures(source, item, kind)
        if left_out := _counts_text(source.left_out):
            yield source.warning(f"left out: {left_out}")
        if source.damage.places:
            yield source.warning(str(source.damage))
    except ReadError as error:
        yield source.error("is empty: 0 bytes") if source.is_empty() else error
    except ModuleNotFoundError as error:
        extra = "ocr" if error.name in _OF_OCR else "files"
        yield source.error(f"needs the Python package {error.name}. {install_hint(extra).removesuffix('.')}")
    except OSError as error:
        yield source.error(error.strerror or str(error))


def _with_pictures(source: Source, document: Document, kind: str) -> Iterator[Item]:
    """Yield a document with the text of its pictures, if that is recognised, and then the pictures."""
    texts: dict[int, str] = {}
    metadata = dict(document.metadata)
    pictures = source.gallery.pictures
    if pictures and source.options.recognises and kind not in _OF_PAGES:
        from pg_graphrag.beside.readers.ocr.pictures_text import recognised_texts

        texts = yield from recognised_texts(source, pictures, metadata)
    if source.options.pictures and source.gallery.scaled:
        metadata["scaled_pictures"] = {str(index): list(size) for index, size in source.gallery.scaled.items()}
    content, pictures = source.gallery.placed(document.content, texts, source.options.pictures)
    document = replace(document, content=content, metadata=metadata)
    if _says_nothing(document) and pictures and not source.options.pictures:
        yield source.error(
            f"holds no text, nor is any recognised in its {len(pictures):,} picture{'' if len(pictures) == 1 else 's'}"
        )
        return
    yield document
    if source.options.pictures:
        yield from pictures
    if _says_nothing(document) and not texts and kind != _PICTURES:
        yield source.warning("holds no text")
    if kind not in _OF_PAGES:
        empty = {number for number, page in enumerate(content.split("\f"), 1) if not page.strip()}
        pages_with_words = {item.page for item in pictures if item.recognised_text}
        bare = sorted({item.page for item in pictures if item.page in empty} - pages_with_words)
        if bare:
            yield source.warning(f"no text on {numbers_text('slide', bare)}")
    if unread := _counts_text(source.gallery.unread):
        yield source.warning(f"pictures that are not read: {unread}")


def _counts_text(counts: Mapping[str, int]) -> str:
    """Return counts in words: "1 × video, 2 × sound"; nothing for counts of 0."""
    return ", ".join(f"{count:,} × {what}" for what, count in sorted(counts.items()) if count)


def _says_nothing(document: Document) -> bool:
    """Whether a document has no text; attachments are documents of their own."""
    return not document.content.strip() and "attachments" not in document.metadata


def read(path: Path, key: str, options: ReadOptions | None = None) -> Iterator[Item]:
    """Read the documents of one file.

    `key`: its ``source_key``, and its ``path`` in the metadata: the path below the one that the user named, so that it does
      not depend on the machine.
    `options`: encoding, whether rows are documents, and how pictures are treated.

    Yields Document, Picture, ReadError, ReadWarning, ReadProgress or Skipped: one document, or one for each line (JSON
    Lines), attachment or row; then its pictures, if `options` ask for them; an error for a file or line that cannot be
    read; a warning for what a document lacks; `Skipped` for a picture without text.
    """
    yield from read_source(
        Source(path, key, path.name, options or ReadOptions()), kind_of(path.name) or "plain.text:read_text"
    )
