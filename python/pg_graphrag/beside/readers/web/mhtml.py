"""Pages that browsers save in one file (MHTML, RFC 2557): the page alone, without its pictures and styles."""

from collections.abc import Iterator
from dataclasses import replace
from email.utils import parsedate_to_datetime

from pg_graphrag.beside.readers.decode import decode_part
from pg_graphrag.beside.readers.headers import parsed
from pg_graphrag.beside.readers.read_errors import ReadError, ReadWarning
from pg_graphrag.beside.readers.source import Source, as_time
from pg_graphrag.beside.readers.web.html import read_html
from pg_graphrag.ground.document import Document

_PAGES = ("text/html", "application/xhtml+xml")


def read_mhtml(source: Source) -> Iterator[Document | ReadError | ReadWarning]:
    """Read the page of an archive: the first part that is HTML; where it was is `url` in the metadata.

    Raises ReadError: where no part is HTML.
    """
    try:
        message = parsed(source.read())
        part = next((part for part in message.walk() if part.get_content_type() in _PAGES), None)
        data = None if part is None else part.get_payload(decode=True)
        charset = None if part is None else part.get_content_charset()
        url = message.get("Snapshot-Content-Location") or (part and part.get("Content-Location"))
        date = message.get("Date")
        saved = as_time(parsedate_to_datetime(str(date))) if date else None
    except (ValueError, LookupError, TypeError, AttributeError, RecursionError) as error:
        raise source.error(f"cannot be read as a saved page: {error}; is it damaged?") from None
    if not isinstance(data, bytes):
        raise source.error("holds no page of HTML; save it anew")
    page = replace(source, data=data)
    if charset:
        text = decode_part(data, source, charset)
        page = replace(page, data=text.encode(), options=replace(source.options, encoding="utf-8"))
    for item in read_html(page):
        if isinstance(item, Document):
            facts = {"url": str(url)} if url else {}
            item = replace(item, metadata={**facts, **item.metadata}, valid_from=item.valid_from or saved)
        yield item
