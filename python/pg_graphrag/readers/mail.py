"""E-mail: body as text, subject as title, attachments as documents of their own."""

import re
from collections.abc import Iterator
from dataclasses import replace
from datetime import datetime
from email import policy
from email.message import EmailMessage, MIMEPart
from email.parser import BytesParser
from email.utils import parsedate_to_datetime
from mimetypes import guess_extension

from pg_graphrag.client.documents import Document
from pg_graphrag.readers.decode import likely_encoding
from pg_graphrag.readers.errors import ReadError, ReadWarning
from pg_graphrag.readers.html import extract
from pg_graphrag.readers.source import Facts, Source, as_time

# Messages within messages; deeper ones are left out, and said so.
_MAX_DEPTH = 5
_MAX_ATTACHMENTS = 1000
_SIGNATURE = re.compile(r"^-- \n.*\Z", re.MULTILINE | re.DOTALL)
_FLOWED = re.compile(r"(?<=[^ \n]) \n(?![>\n ])")


def read_eml(source: Source) -> Iterator[Document | ReadError | ReadWarning]:
    """Read a message: headers to metadata, the date to ``valid_from``; attachments have the key ``<key>/<file name>``."""
    try:
        message = BytesParser(policy=policy.default).parsebytes(source.read())
        if not message.keys():
            raise source.error("has no headers, so it is no e-mail; save the message in its original form (.eml)")
        subject, facts = _facts(message)
        content = _body(message, source)
        attachments = list(_attachments(message))
    except (ValueError, LookupError, TypeError, AttributeError, RecursionError) as error:
        raise source.error(f"cannot be read as e-mail: {error}; is it damaged?") from None
    names = [name for name, _ in attachments]
    if names:
        facts.others["attachments"] = names
    yield source.document(content, "message/rfc822", subject, facts)
    yield from _read_attachments(source, attachments[:_MAX_ATTACHMENTS], facts.published)
    if len(attachments) > _MAX_ATTACHMENTS:
        yield ReadWarning(source.path, f"{len(attachments) - _MAX_ATTACHMENTS:,} more attachments are left out")


def _facts(message: EmailMessage) -> tuple[str | None, Facts]:
    def header(name: str) -> str | None:
        value = message.get(name)
        return " ".join(str(value).split()) or None if value is not None else None

    date: datetime | None = None
    if text := header("Date"):
        try:
            date = as_time(parsedate_to_datetime(text))
        except (ValueError, TypeError, IndexError):
            date = None
    names = {"from": "From", "to": "To", "cc": "Cc", "message_id": "Message-ID", "in_reply_to": "In-Reply-To"}
    others = {name: value for name, field in names.items() if (value := header(field))}
    return header("Subject"), Facts(author=others.get("from"), published=date, others=others)


def _body(message: EmailMessage, source: Source) -> str:
    """Return the text of a message: plain if it has one, else HTML; without the signature."""
    part = message.get_body(("plain", "html"))
    if part is None:
        return ""
    text = _part_text(part, source)
    if part.get_content_type() == "text/html":
        return extract(text)[1]
    if part.get_param("format") == "flowed":
        text = _FLOWED.sub(" ", text)
    return _SIGNATURE.sub("", text).strip() + "\n"


def _part_text(part: MIMEPart, source: Source) -> str:
    data = part.get_payload(decode=True)
    if not isinstance(data, bytes):
        return ""
    charset = part.get_content_charset()
    for encoding in (source.options.encoding, charset, "utf-8", likely_encoding(data)):
        try:
            if encoding:
                text = data.decode(encoding)
                return text.replace("\r\n", "\n").replace("\r", "\n")
        except (LookupError, UnicodeDecodeError):
            continue
    return data.decode("latin-1").replace("\r\n", "\n").replace("\r", "\n")


def _attachments(message: EmailMessage) -> Iterator[tuple[str, bytes]]:
    """Yield (file name, bytes) of attachments; a message within has the name of its subject, and the suffix .eml."""
    seen: dict[str, int] = {}
    body = message.get_body(("plain", "html"))
    for part in message.iter_attachments() if message.is_multipart() else ():
        if part is body:
            continue
        if part.get_content_type() == "message/rfc822":
            inner = part.get_payload()
            if not isinstance(inner, list) or not inner or isinstance(inner[0], str):
                continue
            name, data = f"{inner[0].get('Subject') or 'message'}.eml", inner[0].as_bytes(policy=policy.default)
        else:
            payload = part.get_payload(decode=True)
            if not isinstance(payload, bytes) or (part.get_content_maintype() == "image" and not part.is_attachment()):
                continue
            name, data = part.get_filename() or f"attachment{_suffix(part)}", payload
        name = re.sub(r"[\s/\\]+", " ", name).strip() or "attachment"
        seen[name] = seen.get(name, 0) + 1
        if seen[name] > 1:
            stem, dot, suffix = name.rpartition(".")
            name = f"{stem} ({seen[name]}){dot}{suffix}" if dot else f"{name} ({seen[name]})"
        yield name, data


def _suffix(part: MIMEPart) -> str:
    return guess_extension(part.get_content_type()) or ""


def _read_attachments(
    source: Source, attachments: list[tuple[str, bytes]], date: datetime | None
) -> Iterator[Document | ReadError | ReadWarning]:
    # It knows this reader.
    from pg_graphrag.readers import kind_of, read_source

    skipped: list[str] = []
    for name, data in attachments:
        kind = kind_of(name)
        if kind is None or source.key.count(".eml/") >= _MAX_DEPTH:
            skipped.append(name)
            continue
        part = Source(source.path, f"{source.key}/{name}", name, source.options, data)
        for item in read_source(part, kind):
            if isinstance(item, Document):
                metadata = {**item.metadata, "attachment_of": source.key}
                item = replace(item, metadata=metadata, valid_from=item.valid_from or date)
            yield item
    if skipped:
        yield ReadWarning(source.path, f"attachments of kinds that are not read: {', '.join(skipped)}")
