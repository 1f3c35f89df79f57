"""E-mail: body as text, subject as title, attachments as documents of their own."""

import re
from collections.abc import Iterator
from dataclasses import replace
from datetime import datetime
from email.message import EmailMessage, Message, MIMEPart
from email.utils import parsedate_to_datetime
from mimetypes import guess_extension

from pg_graphrag.beside.readers.attached import own_names, read_attachments
from pg_graphrag.beside.readers.decode import decode_part
from pg_graphrag.beside.readers.headers import BOUNDED, parsed
from pg_graphrag.beside.readers.source import Facts, Item, Source, as_time
from pg_graphrag.beside.readers.web.html import extract
from pg_graphrag.ground.document import Document

# The line before each message of a mailbox; and how such a line is escaped within a text (RFC 4155).
_FROM_LINE = re.compile(rb"^From [^\n]*\n", re.MULTILINE)
_QUOTED_FROM = re.compile(rb"^>(?=>*From )", re.MULTILINE)
_PACKED = frozenset(("application/pkcs7-mime", "application/x-pkcs7-mime", "multipart/encrypted"))
# Kinds of S/MIME (RFC 8551) that are not encrypted; without a kind it mostly is.
_IN_CLEAR, _NO_TEXT = ("signed-data", "compressed-data"), "certs-only"
_PGP = "-----BEGIN PGP MESSAGE-----"
_SIGNATURE = re.compile(r"^-- \n.*\Z", re.MULTILINE | re.DOTALL)
_FLOWED = re.compile(r"(?<=[^ \n]) \n(?![>\n ])")


def read_eml(source: Source) -> Iterator[Item]:
    """Read a message: headers to metadata, the date to ``valid_from``; attachments have the key ``<key>/<file name>``."""
    try:
        message = parsed(source.read())
        if not message.keys():
            raise source.error("has no headers, so it is no e-mail; save the message in its original form (.eml)")
        subject, facts = _facts(message)
        if lost := sum(text.count("\ufffd") for text in (subject or "", *facts.others.values())):
            source.damage.note(lost, message.get_content_charset() or "utf-8", None)
        content = _body(message, source)
        packed = [_kind(part) for part in message.walk() if part.get_content_type() in _PACKED]
        in_clear = sum(map(packed.count, _IN_CLEAR))
        encrypted = len(packed) - in_clear - packed.count(_NO_TEXT)
        source.left_out["text packed by S/MIME, signed or compressed: save the message without it"] += in_clear
        source.left_out["encrypted text: save the message decrypted"] += encrypted or content.lstrip().startswith(_PGP)
        attachments = list(own_names(list(_attachments(message))))
    except (ValueError, LookupError, TypeError, AttributeError, RecursionError) as error:
        raise source.error(f"cannot be read as e-mail: {error}; is it damaged?") from None
    names = [name for name, _ in attachments]
    if names:
        facts.others["attachments"] = names
    yield source.document(content, "message/rfc822", subject, facts)
    yield from read_attachments(source, attachments, facts.published)


def read_mbox(source: Source) -> Iterator[Item]:
    """Read a mailbox: each message as a file of its own would be read, with the key ``<key>/<number>.eml``."""
    # It knows this reader.
    from pg_graphrag.beside.readers import read_source

    messages = list(_messages(source.read().replace(b"\r\n", b"\n").lstrip(b"\n")))
    if not messages:
        raise source.error('has no line "From …" before a message, so it is no mailbox; is it one message (.eml)?')
    for number, data in enumerate(messages, 1):
        name = f"{number}.eml"
        part = Source(source.path, f"{source.key}/{name}", name, source.options, data)
        for item in read_source(part, "messages.mail:read_eml"):
            yield (
                replace(item, metadata={"mailbox": source.key, **item.metadata}) if isinstance(item, Document) else item
            )


def _messages(data: bytes) -> Iterator[bytes]:
    """Yield the messages of a mailbox: each begins with a line "From …", the first one or one after an empty line."""
    begins = [
        match
        for match in _FROM_LINE.finditer(data)
        if data[max(0, match.start() - 2) : match.start()] in (b"", b"\n\n")
    ]
    if not begins or begins[0].start():
        return
    ends = [match.start() for match in begins[1:]] + [len(data)]
    for match, end in zip(begins, ends, strict=True):
        if message := data[match.end() : end].strip(b"\n"):
            yield _QUOTED_FROM.sub(b"", message)


def _facts(message: EmailMessage) -> tuple[str | None, Facts]:
    def header(name: str) -> str | None:
        value = message.get(name)
        if value is None:
            return None
        return " ".join(str(value).split()) or None

    date: datetime | None = None
    if text := header("Date"):
        try:
            date = as_time(parsedate_to_datetime(text))
        except (ValueError, TypeError, IndexError):
            date = as_time(text)
    names = {"from": "From", "to": "To", "cc": "Cc", "message_id": "Message-ID", "in_reply_to": "In-Reply-To"}
    others = {name: value for name, field in names.items() if (value := header(field))}
    return header("Subject"), Facts(author=others.get("from"), published=date, others=others)


def _body(message: EmailMessage, source: Source) -> str:
    """Return the text of a message: plain if it has one, else HTML; without the signature."""
    part = _main_part(message)
    if part is None:
        return ""
    text = _part_text(part, source)
    if not text.strip() and (other := message.get_body(("html",))) is not None:
        # Some programs send an empty plain form beside the text.
        part, text = other, _part_text(other, source)
    if part.get_content_type() == "text/html":
        return extract(text)[1]
    if part.get_param("format") == "flowed":
        text = _FLOWED.sub(" ", text)
    return _SIGNATURE.sub("", text).strip() + "\n"


def _kind(part: Message) -> str:
    return str(part.get_param("smime-type", "")).lower()


def _main_part(message: EmailMessage) -> MIMEPart | None:
    """Return the part that is the text of a message: the plain one; but HTML before it, as where a list adds its footer."""
    plain, html = message.get_body(("plain", "html")), message.get_body(("html",))
    return next((part for part in message.walk() if part is plain or part is html), None)


def _part_text(part: MIMEPart, source: Source) -> str:
    data = part.get_payload(decode=True)
    if not isinstance(data, bytes):
        return ""
    return decode_part(data, source, part.get_content_charset())


def _attachments(message: EmailMessage) -> Iterator[tuple[str, bytes]]:
    """Yield (file name, bytes) of attachments; a message within has the name of its subject, and the suffix .eml."""
    for part in _loose_parts(message, _main_part(message)):
        inner = part.get_payload()
        if isinstance(inner, list):
            if not inner or isinstance(inner[0], str):
                continue
            if part.get_content_type() == "message/rfc822":
                name, data = f"{inner[0].get('Subject') or 'message'}.eml", inner[0].as_bytes(policy=BOUNDED)
            else:
                # What a mail server says of a delivery: blocks of headers.
                name, data = "delivery-status.txt", b"\n".join(block.as_bytes() for block in part.iter_parts())
        else:
            payload = part.get_payload(decode=True)
            if not isinstance(payload, bytes) or (part.get_content_maintype() == "image" and not part.is_attachment()):
                continue
            name, data = part.get_filename() or f"attachment{_suffix(part)}", payload
        yield name, data


def _loose_parts(part: MIMEPart, body: MIMEPart | None) -> Iterator[MIMEPart]:
    """Yield the parts that are neither the body nor another form of it, also those within other parts (digests)."""
    if part is body:
        return
    if part.get_content_maintype() != "multipart":
        yield part
        return
    parts = list(part.iter_parts())
    if part.get_content_subtype() == "alternative":
        # Others say the same in another form.
        parts = [form for form in parts if any(inner is body for inner in form.walk())] or parts[:1]
    for inner in parts:
        yield from _loose_parts(inner, body)


def _suffix(part: MIMEPart) -> str:
    return guess_extension(part.get_content_type()) or ""
