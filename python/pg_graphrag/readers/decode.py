"""Bytes to text that PostgreSQL can hold, or an error that says at which byte they are not."""

import codecs
import re

from pg_graphrag.readers.source import Source
from pg_graphrag.text import letters

# The marks of UTF-32 begin with those of UTF-16: longest first.
_BYTE_ORDER_MARKS = (
    (codecs.BOM_UTF32_LE, "utf-32-le"),
    (codecs.BOM_UTF32_BE, "utf-32-be"),
    (codecs.BOM_UTF8, "utf-8"),
    (codecs.BOM_UTF16_LE, "utf-16-le"),
    (codecs.BOM_UTF16_BE, "utf-16-be"),
)
# What texts were written in, the most used first, which of likely ones counts; others are found where they are clearly likelier.
_USED = (
    "cp1252 cp932 gb18030 cp1251 cp1250 cp949 big5hkscs cp950 big5 euc_jp euc_kr cp1254 cp1256 cp1253 cp1255 cp874 cp1257 cp1258"
    " koi8-r koi8-u iso8859-2 iso8859-15 iso8859-5 iso8859-7 iso8859-8 iso8859-6 iso8859-9 iso8859-13 cp850 cp852 cp866 cp437"
    " cp857 cp775 cp737 cp862 cp1125 cp858 mac-cyrillic"
).split()
_RARER = 0.6
_MOST_ODD, _FEW = 0.2, 5
_CASED = [chr(code) for code in range(0xC0, 0x530)]
_CAPITALS, _SMALL = "".join(filter(str.isupper, _CASED)), "".join(filter(str.islower, _CASED))
_LATIN, _NOT_LATIN = "A-Za-z\u00aa\u00ba\u00c0-\u00d6\u00d8-\u00f6\u00f8-\u024f", "\u0370-\u04ff\u0590-\u06ff"
# What stands within words: apostrophes, middle dots, hyphens, marks of vowels, and the signs of scripts without spaces.
_WITHIN_WORDS = (
    "\u2018\u2019\u00b4\u00b7\u2010-\u2014\u00ad\u0300-\u036f\u0590-\u05c7\u0600-\u06ff\u0e00-\u0e7f"
    "\u200c\u200d\u3000-\u303f\u30fb\uff00-\uffef"
)
# What the wrong encoding of one byte a letter makes of words: letters of two alphabets, capitals behind small letters, signs.
_ODD = re.compile(
    f"[{_LATIN}][{_NOT_LATIN}]|[{_NOT_LATIN}][{_LATIN}]|[a-z][{_CAPITALS}]|[{_SMALL}][A-Z{_CAPITALS}]"
    f"|[\x80-\x9f\u2500-\u25a0\ufffd]|(?<=[^\\W\\d_])[^\\w\\s\\x00-\\x7f{_WITHIN_WORDS}](?=[^\\W\\d_])"
)
# What writers mean by a name: the encoding has these characters and more (as browsers read them).
_SUPERSETS = {
    "iso8859-1": "cp1252",
    **dict.fromkeys(("gb2312", "gbk"), "gb18030"),
    "euc_kr": "cp949",
    "shift_jis": "cp932",
    "big5": "big5hkscs",
    "iso8859-9": "cp1254",
    "tis-620": "cp874",
}
# Names of browsers' that Python does not know.
_NAMES = {"x-sjis": "cp932", "windows-31j": "cp932", "x-gbk": "gb18030", "x-x-big5": "big5", "windows-874": "cp874"}
# How encodings all of whose bytes are ASCII go over to another script; these and those with NULs are valid UTF-8.
_ESCAPES = re.compile(rb"\x1b[$(]|~\{")
_OF_ASCII = ("iso2022", "hz", "utf-16", "utf-32")
# Bytes from the first that is not ASCII on, and characters of them, that are looked at; of all of the text it must be right.
_SAMPLE, _LOOKED_AT = 1 << 17, 1 << 13
_BEFORE = 1 << 12
_NOT_ASCII, _BEYOND_ASCII = re.compile(rb"[\x80-\xff]"), re.compile(r"[^\x00-\x7f]")
_ASCII_LETTER, _CONTROLS = re.compile("[A-Za-z]"), re.compile("[\x80-\x9f]")


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
        looks = likely_encoding(body) if _ESCAPES.search(body) or b"\0" in body[:_SAMPLE] else None
        # Bytes that are valid UTF-8 may be text of another encoding.
        encoding = looks if looks and looks.startswith(_OF_ASCII) else "utf-8"
    try:
        text = as_text(body, encoding)
    except UnicodeDecodeError as error:
        likely = None if is_known else likely_encoding(body)
        if likely is None:
            place = offset + len(mark) + error.start
            raise source.error(
                f"invalid {encoding.upper()} at byte {place} (0x{body[error.start]:02x}); "
                "name its encoding by --encoding, or convert the file to UTF-8"
            ) from None
        encoding, text = likely, as_text(body, likely)
    if (nul := text.find("\0")) >= 0:
        place = offset + len(mark) + len(text[:nul].encode(encoding))
        raise source.error(
            f"NUL character at byte {place}; PostgreSQL text cannot hold it: is this a binary file? "
            "UTF-16 that does not look like text is read with --encoding utf-16-le or utf-16-be"
        )
    return text


def as_text(data: bytes, encoding: str) -> str:
    """Return bytes as text, letters whole and lines ended by ``\\n``."""
    # Tones stand behind letters in windows-1258, too.
    return letters.whole(data.decode(encoding)).replace("\r\n", "\n").replace("\r", "\n")


def meant_encoding(declared: str | None, data: bytes) -> str | None:
    """Return the encoding that a file means by the one that it declares; None where it cannot be that one.

    Texts in UTF-8 and others are often declared as Western ones, of which they would be unlikely text.
    """
    meant = _as_declared(declared, data)
    # Old programs declare Latin-1 whatever they write.
    if meant in ("cp1252", "iso8859-1") and not _may_be_western(data[:_SAMPLE].decode(meant)):
        return likely_encoding(data) or meant
    return meant


def _may_be_western(text: str) -> bool:
    """Whether text makes words, whose letters are mostly ASCII."""
    if _CONTROLS.search(text):
        return False
    beyond = len(_BEYOND_ASCII.findall(text))
    return beyond < _FEW or (beyond <= len(_ASCII_LETTER.findall(text)) and _oddness(text) <= _MOST_ODD)


def _as_declared(declared: str | None, data: bytes) -> str | None:
    """Return the encoding that a name stands for; None where the bytes cannot be of it."""
    try:
        name = codecs.lookup(_NAMES.get(declared.lower(), declared)).name if declared else ""
    except LookupError:
        return None
    wider = _SUPERSETS.get(name, name)
    encodings = ("utf-8", "cp1252", name) if wider == "cp1252" else (wider, name)
    return next((encoding for encoding in encodings if encoding and _is_valid(data, encoding)), None)


def likely_encoding(data: bytes) -> str | None:
    """Return the encoding of text that is not UTF-8; None where there is no likely one, as for what is no text."""
    # It takes a tenth of a second, and most files are UTF-8.
    import chardet

    # What tells encodings apart begins with the first byte beyond ASCII, where no character is cut.
    first = match.start() if (match := _NOT_ASCII.search(data)) else 0
    sample = data[max(0, first - _BEFORE) :][:_SAMPLE]
    likelihoods: dict[str, float] = {}
    for item in chardet.detect_all(
        sample,
        ignore_threshold=True,
        encoding_era=chardet.EncodingEra.ALL & ~chardet.EncodingEra.MAINFRAME,
        compat_names=False,
    ):
        if item["confidence"] < max(likelihoods.values(), default=0.0):
            # The likelier ones come first, and none becomes likelier by what follows.
            break
        if item["encoding"] and (encoding := _as_declared(item["encoding"], data)):
            odd = _oddness(sample.decode(encoding, "ignore")[:_LOOKED_AT])
            likelihood = item["confidence"] * max(0.0, 1 - odd) * (1 if encoding in _USED else _RARER)
            likelihoods[encoding] = max(likelihood, likelihoods.get(encoding, 0.0))
    places = {encoding: place for place, encoding in enumerate(_USED)}
    return min(
        likelihoods, key=lambda encoding: (-likelihoods[encoding], places.get(encoding, len(places))), default=None
    )


def _oddness(text: str) -> float:
    """Return the share of letters beyond ASCII that stand as in no word."""
    return len(_ODD.findall(text)) / max(1, len(_BEYOND_ASCII.findall(text)))


def _is_valid(data: bytes, encoding: str) -> bool:
    try:
        data.decode(encoding)
    except UnicodeDecodeError:
        return False
    return True
