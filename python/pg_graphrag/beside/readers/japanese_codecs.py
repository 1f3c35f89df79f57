"""Japanese as Windows writes it in mail and on pages (cp50221, cp51932): JIS and EUC with the characters of code page 932."""

import codecs
import re
from typing import Any

_EUC = re.compile(rb"[\xa1-\xfe]{2}|\x8e([\xa1-\xdf])")
# What follows an escape is in two bytes, in ASCII or of katakana of half width.
_JIS = re.compile(rb"\x1b(\$[@B]|\([BJI])([^\x1b]*)")
_PAIR = re.compile(rb"([\x21-\x7e])([\x21-\x7e])")


def _shifted(first: int, second: int) -> bytes:
    """Return the Shift-JIS bytes of a JIS character, given its two 7-bit bytes."""
    row, column = first - 0x21, second - 0x21
    column += 94 * (row % 2)
    return bytes((row // 2 + (0x81 if row < 62 else 0xC1), column + (0x40 if column < 63 else 0x41)))


def _of_euc(match: re.Match[bytes]) -> bytes:
    return match[1] or _shifted(match[0][0] & 0x7F, match[0][1] & 0x7F)


def _of_jis(match: re.Match[bytes]) -> bytes:
    escape, data = match[1], match[2]
    if escape == b"(I":
        return bytes(byte | 0x80 if 0x21 <= byte <= 0x5F else byte for byte in data)
    if escape.startswith(b"("):
        return data
    # Ends of lines stand there, too.
    return _PAIR.sub(lambda pair: _shifted(pair[1][0], pair[2][0]), data)


_CODECS = {"cp51932": (_EUC, _of_euc), "cp50221": (_JIS, _of_jis)}


def japanese_codec(name: str) -> codecs.CodecInfo | None:
    """Return the codec of a name, for `codecs.register`; None for one of others."""
    if name not in _CODECS:
        return None
    pattern, shift = _CODECS[name]

    def decode(data: Any, errors: str = "strict", /) -> tuple[str, int]:
        return pattern.sub(shift, bytes(data)).decode("cp932", errors), len(data)

    return codecs.CodecInfo(name=name, encode=codecs.lookup("cp932").encode, decode=decode)
