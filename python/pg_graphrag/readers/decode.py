"""Bytes to text that PostgreSQL can hold, or an error that says at which byte they are not."""

import codecs
import re

from charset_normalizer import from_bytes

from pg_graphrag.readers.source import Source

# The marks of UTF-32 begin with those of UTF-16: longest first.
_BYTE_ORDER_MARKS = (
    (codecs.BOM_UTF32_LE, "utf-32-le"),
    (codecs.BOM_UTF32_BE, "utf-32-be"),
    (codecs.BOM_UTF8, "utf-8"),
    (codecs.BOM_UTF16_LE, "utf-16-le"),
    (codecs.BOM_UTF16_BE, "utf-16-be"),
)
# What text that is not UTF-8 is written in, as a rule; UTF-16 without its mark is rare, and looks like text too often.
_LIKELY = "cp932 euc_jp gb18030 big5 euc_kr cp1252 cp1251 koi8_r cp1250 cp1253 cp1254 iso8859_2 cp1256 cp1255 cp874 cp866".split()
# Of these most letters beyond ASCII are of one script; the others are those of Western encodings, which come before.
_SCRIPTS = {"cp1256": "\u0600-\u06ff", "cp1255": "\u0590-\u05ff", "cp874": "\u0e00-\u0e7f"}
# What writers mean by a name: the encoding has these characters and more (as browsers read them).
_SUPERSETS = {
    **dict.fromkeys(("iso8859-1", "ascii"), "cp1252"),
    **dict.fromkeys(("gb2312", "gbk"), "gb18030"),
    "euc_kr": "cp949",
    "shift_jis": "cp932",
    "big5": "big5hkscs",
    "iso8859-9": "cp1254",
    "tis-620": "cp874",
}
# Names of browsers' that Python does not know.
_NAMES = {"x-sjis": "cp932", "windows-31j": "cp932", "x-gbk": "gb18030", "x-x-big5": "big5", "windows-874": "cp874"}
# How ISO-2022 goes over to Japanese and Korean: all its bytes are ASCII, so it is valid UTF-8.
_ESCAPES = {b"\x1b$B": "iso2022_jp_ext", b"\x1b$@": "iso2022_jp_ext", b"\x1b$)C": "iso2022_kr"}
# Characters that are looked at to find an encoding; of all of the text it must be right.
_SAMPLE = 1 << 15
_NOT_ASCII, _ASCII = re.compile(r"[^\x00-\x7f]"), re.compile(r"[\x00-\x7f]+")


def decode(data: bytes, source: Source, declared: str | None = None, offset: int = 0) -> str:
    """Decode by byte order mark, else as told, else as the file declares, else as UTF-8 or what the bytes look like.

    Line ends become ``\\n``.

    Parameters
    ----------
    data : bytes
        The file, or the part of it that begins at byte `offset`.
    declared : str, optional
        Encoding named in the file (HTML).

    Raises
    ------
    ReadError
        For invalid bytes or a NUL, with its place as a byte offset from the start of the file.
    """
    mark, encoding = next(
        ((mark, encoding) for mark, encoding in _BYTE_ORDER_MARKS if data.startswith(mark)), (b"", "")
    )
    body = data[len(mark) :]
    # What a file says of itself may be wrong; who runs this knows.
    encoding = encoding or source.options.encoding or meant_encoding(declared, body) or ""
    is_known = bool(encoding)
    if not is_known:
        escaped = (codec for escape, codec in _ESCAPES.items() if escape in body and _is_valid(body, codec))
        encoding = next(escaped, "utf-8")
    try:
        text = body.decode(encoding)
    except UnicodeDecodeError as error:
        likely = None if is_known else likely_encoding(body)
        if likely is None:
            place = offset + len(mark) + error.start
            raise source.error(
                f"invalid {encoding.upper()} at byte {place} (0x{body[error.start]:02x}); "
                "name its encoding by --encoding, or convert the file to UTF-8"
            ) from None
        encoding, text = likely, body.decode(likely)
    nul = text.find("\0")
    if nul >= 0:
        place = offset + len(mark) + len(text[:nul].encode(encoding))
        raise source.error(
            f"NUL character at byte {place}; PostgreSQL text cannot hold it: is this a binary file? "
            "UTF-16 without a byte order mark is read with --encoding utf-16-le or utf-16-be"
        )
    return text.replace("\r\n", "\n").replace("\r", "\n")


def meant_encoding(declared: str | None, data: bytes) -> str | None:
    """Return the encoding that a file means by the one that it declares; None where it cannot be that one.

    Texts in UTF-8 are often declared as Western ones, of which they would be unlikely text.
    """
    try:
        name = codecs.lookup(_NAMES.get(declared.lower(), declared)).name if declared else ""
    except LookupError:
        return None
    wider = _SUPERSETS.get(name, name)
    encodings = ("utf-8", "cp1252", name) if wider == "cp1252" else (wider, name)
    return next((encoding for encoding in encodings if encoding and _is_valid(data, encoding)), None)


def likely_encoding(data: bytes) -> str | None:
    """Return the encoding of text that is not UTF-8; None where there is no likely one, as for what is no text."""
    if b"\0" in data:
        return None
    # Control characters: a binary file.
    controls = sum(data.count(byte) for byte in range(1, 32) if byte not in b"\t\n\f\r\x1b")
    if controls > len(data) // 100:
        return None
    best: tuple[float, float, int] | None = None
    for place, encoding in enumerate(_LIKELY):
        try:
            text = data.decode(encoding)
        except UnicodeDecodeError:
            continue
        if encoding in _SCRIPTS:
            letters = re.findall(r"[^\W\d_]", _ASCII.sub("", text))
            if 2 * len(re.findall(f"[{_SCRIPTS[encoding]}]", "".join(letters))) <= len(letters):
                continue
        # Where the characters begin that tell encodings apart. Cut as text: half a character is no text of any encoding.
        first = next((match.start() for match in [_NOT_ASCII.search(text)] if match), 0)
        sample = text[max(0, first - _SAMPLE // 8) :][:_SAMPLE].encode(encoding, "ignore")
        match = from_bytes(sample, cp_isolation=[encoding], enable_fallback=False).best()
        if match is not None:
            # Those of Western, Central European and Turkish letters often look equally well: the most used comes first.
            rank = match.chaos, -match.coherence, place
            best = min(best or rank, rank)
    return None if best is None else _LIKELY[best[2]]


def _is_valid(data: bytes, encoding: str) -> bool:
    try:
        data.decode(encoding)
    except UnicodeDecodeError:
        return False
    return True
