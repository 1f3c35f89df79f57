"""Headers of e-mail and of saved web pages.

The standard library finds names and values. `decode` finds their encoding as it does for bodies, and gives the library
everything in UTF-8.
"""

import base64
import re
from collections import defaultdict
from email.message import EmailMessage
from email.parser import BytesParser
from email.policy import EmailPolicy
from itertools import starmap
from quopri import decodestring
from typing import Any, cast
from urllib.parse import quote, unquote_to_bytes

from pg_graphrag.beside.readers.decode import header_text

# Characters of a header, and of one that describes a part. To read one takes time by the square of its length. There is room for
# a thousand addresses, and for any file's name.
MAX_HEADER, MAX_CONTENT_HEADER = 32_000, 4_000
# Words of one encoding in a row (RFC 2047): a character may be cut between two.
_KIND_AND_TEXT = r"(?:\*[^?\s]{0,60})?\?[bq]\?[^?]*\?="
_WORDS = re.compile(rf"(=\?([^?*\s]{{1,60}}){_KIND_AND_TEXT}(?:\s*=\?\2{_KIND_AND_TEXT})*)", re.IGNORECASE)
_WORD = re.compile(r"\?([bq])\?([^?]*)\?=", re.IGNORECASE)
_NO_BASE64 = re.compile(rb"[^A-Za-z0-9+/]")
# A value in an encoding, or a piece of one (RFC 2231): name*=, name*0*=, name*1=.
_PIECE = re.compile(r""";\s*([\w-]{1,60})\*(\d{0,3})(\*?)=("[^"]*"|[^;\s"]*)""")
_RAW_TEXT = re.compile(r"\s*[^\x00-\x7f](?:.*[^\x00-\x7f])?\s*", re.DOTALL)
# Between the signs that part addresses and values.
_RAW_VALUE = re.compile(r"""[^\s<>,;:"()@=][^<>,;:"()@=]*""")
_STRUCTURED = frozenset(("from", "to", "cc", "bcc", "sender", "reply-to"))
_ESCAPE = "\x1b$"


class BoundedHeaders(EmailPolicy):
    """The standard library's parser of headers, limited to the beginning of each; `charset` is the message's."""

    charset: str | None = None

    def header_source_parse(self, sourcelines: list[str]) -> tuple[str, str]:
        """Return name and value of a header, as its lines say it."""
        name, value = super().header_source_parse(sourcelines)
        is_of_content = name.lower().startswith("content-")
        most = MAX_CONTENT_HEADER if is_of_content else MAX_HEADER
        value = _in_utf8(value[:most], is_of_content or name.lower() in _STRUCTURED, self.charset)
        return name, (_with_whole_values(value) if is_of_content and "*" in value else value)[:most]


BOUNDED = BoundedHeaders()


def parsed(data: bytes) -> EmailMessage:
    """Return a message; `ValueError` and its like where it is damaged."""
    message = cast(EmailMessage, BytesParser(policy=BOUNDED).parsebytes(data))
    charset = next(filter(None, (part.get_content_charset() for part in message.walk())), None)
    if charset and not data.isascii():
        # Headers without an encoding have that of the text.
        message = cast(EmailMessage, BytesParser(policy=cast(Any, BOUNDED).clone(charset=charset)).parsebytes(data))
    return message


def _in_utf8(value: str, is_structured: bool, charset: str | None) -> str:
    """Return a header that says the same in words and values of UTF-8."""
    if not value.isascii() or _ESCAPE in value:
        value = header_text(value.encode("utf-8", "surrogateescape"), charset)
    *rest, last = _WORDS.split(value)
    pieces: list[str] = []
    for before, words, encoding in zip(rest[::3], rest[1::3], rest[2::3], strict=True):
        pieces.append(_protected(before, is_structured) if before.strip() or not pieces else " ")
        pieces.append(_word(header_text(b"".join(starmap(_bytes_of, _WORD.findall(words))), encoding)))
    return "".join((*pieces, _protected(last, is_structured)))


def _bytes_of(kind: str, text: str) -> bytes:
    data = text.encode("ascii", "ignore")
    if kind in "qQ":
        return decodestring(data, header=True)
    data = _NO_BASE64.sub(b"", data)
    # A digit of base64 that is left over is no byte.
    return base64.b64decode(data[: len(data) - (len(data) % 4 == 1)] + b"==")


def _word(text: str) -> str:
    return f"=?utf-8?b?{base64.b64encode(text.encode('utf-8', 'replace')).decode()}?="


def _protected(text: str, is_structured: bool) -> str:
    """Return text whose characters beyond ASCII are in words."""
    if text.isascii():
        return text
    pattern = _RAW_VALUE if is_structured else _RAW_TEXT
    return pattern.sub(lambda match: match[0] if match[0].isascii() else _word(match[0]), text)


def _with_whole_values(value: str) -> str:
    """Return a header whose values in an encoding or in pieces (RFC 2231) are each one in UTF-8."""
    pieces: dict[str, dict[int, tuple[bool, str]]] = defaultdict(dict)
    for name, number, is_encoded, piece in _PIECE.findall(value):
        pieces[name.lower()].setdefault(int(number or 0), (bool(is_encoded) or not number, piece.strip('"')))
    wholes: dict[str, str] = {}
    for name, numbered in pieces.items():
        is_encoded, first = numbered.get(0, (False, ""))
        charset, _, rest = first.partition("'")
        _, mark, rest = rest.partition("'")
        if is_encoded and mark:
            numbered[0] = True, rest
            # Some cut a piece within a character, or within how a byte is written.
            whole = "".join(
                piece if is_encoded else quote(piece) for _, (is_encoded, piece) in sorted(numbered.items())
            )
            wholes[name] = quote(header_text(unquote_to_bytes(whole), charset))
    others = _PIECE.sub(lambda match: "" if match[1].lower() in wholes else match[0], value)
    return others + "".join(f"; {name}*=utf-8''{whole}" for name, whole in wholes.items())
