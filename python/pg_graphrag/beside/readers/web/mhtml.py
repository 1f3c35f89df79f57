"""Pages that browsers save in one file (MHTML, RFC 2557): the page alone, without its styles."""

from collections.abc import Iterator
from dataclasses import replace
from email.message import Message
from email.utils import parsedate_to_datetime
from urllib.parse import urljoin

from pg_graphrag.beside.readers.decode import decode_part
from pg_graphrag.beside.readers.headers import parsed
from pg_graphrag.beside.readers.source import Item, Source, as_time
from pg_graphrag.beside.readers.web.html import read_html
from pg_graphrag.ground.document import Document

_PAGES = ("text/html", "application/xhtml+xml")


def read_mhtml(source: Source) -> Iterator[Item]:
    """Read the page of an archive: the first part that is HTML; where it was is `url` in the metadata.

    Raises ReadError where no part is HTML.
    """
    try:
        message = parsed(source.read())
        part = next((part for part in message.walk() if part.get_content_type() in _PAGES), None)
        data = None if part is None else part.get_payload(decode=True)
        pictures = _pictures(message) if source.gallery.is_open else {}
        charset = None if part is None else part.get_content_charset()
        base = part and part.get("Content-Location")
        url = message.get("Snapshot-Content-Location") or base
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
    for item in read_html(page, lambda name: pictures.get(urljoin(str(base or ""), name))):
        if isinstance(item, Document):
            facts = {"url": str(url)} if url else {}
            item = replace(item, metadata={**facts, **item.metadata}, valid_from=item.valid_from or saved)
        yield item


def _pictures(message: Message) -> dict[str, bytes]:
    """Return {URL, or "cid:" and id: bytes} of the pictures beside a page."""
    pictures: dict[str, bytes] = {}
    for part in message.walk():
        data = part.get_payload(decode=True) if part.get_content_maintype() == "image" else None
        if isinstance(data, bytes):
            pictures[str(part.get("Content-Location", "")).strip()] = data
            pictures[f"cid:{str(part.get('Content-ID', '')).strip(' <>')}"] = data
    return pictures
