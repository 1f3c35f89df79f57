"""Bytes to text that PostgreSQL can hold, or an error that says at which byte they are not."""

import codecs
from pathlib import Path

from pg_graphrag.readers.errors import ReadError

# The marks of UTF-32 begin with those of UTF-16: longest first.
_BYTE_ORDER_MARKS = (
    (codecs.BOM_UTF32_LE, "utf-32-le"),
    (codecs.BOM_UTF32_BE, "utf-32-be"),
    (codecs.BOM_UTF8, "utf-8"),
    (codecs.BOM_UTF16_LE, "utf-16-le"),
    (codecs.BOM_UTF16_BE, "utf-16-be"),
)


def decode(data: bytes, path: Path, declared: str | None = None, offset: int = 0) -> str:
    """Decode by byte order mark, else by the encoding the file declares, else as UTF-8; line ends become ``\\n``.

    Parameters
    ----------
    data : bytes
        The file, or the part of it that begins at byte `offset`.
    declared : str, optional
        Encoding named in the file (HTML).

    Raises
    ------
    ReadError
        For invalid bytes, an unknown encoding or a NUL, with its place as a byte offset from the start of the file.
    """
    mark, encoding = next(
        ((mark, encoding) for mark, encoding in _BYTE_ORDER_MARKS if data.startswith(mark)), (b"", declared or "utf-8")
    )
    try:
        text = data[len(mark) :].decode(encoding)
    except UnicodeDecodeError as error:
        place = offset + len(mark) + error.start
        raise ReadError(
            path,
            f"invalid {encoding.upper()} at byte {place} (0x{data[len(mark) + error.start]:02x}); "
            "convert the file to UTF-8",
        ) from None
    except LookupError:
        raise ReadError(path, f"declares an unknown encoding, {encoding!r}; convert the file to UTF-8") from None
    nul = text.find("\0")
    if nul >= 0:
        place = offset + len(mark) + len(text[:nul].encode(encoding))
        raise ReadError(path, f"NUL character at byte {place}; PostgreSQL text cannot hold it: is this a binary file?")
    return text.replace("\r\n", "\n").replace("\r", "\n")
