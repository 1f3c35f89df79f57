"""vCard (RFC 6350, and 2.1 and 3.0 before it): each card becomes a heading with names, addresses and contacts."""

import quopri
import re
from collections.abc import Iterator

from pg_graphrag.beside.readers.decode import decode, decode_part
from pg_graphrag.beside.readers.source import Source
from pg_graphrag.ground.document import Document

_FOLD = re.compile(r"\n[ \t]")
# A line whose value goes on behind a "=" at its end.
_CONTINUED = re.compile(r"(?im)^[^\n:]{0,500}QUOTED-PRINTABLE[^\n]*(?:(?<==)\n[^\n]*)+")
_LINE = re.compile(r"(?:[\w-]+\.)?([A-Za-z-]{1,60})((?:;[^:;]{1,200})*):(.*)", re.DOTALL)
_ESCAPED = re.compile(r"\\([nN\\;,:])")
_PARTS = re.compile(r"(?<!\\);")
_CHARSET = re.compile(r"(?i);CHARSET=([\w-]+)")
_LABELS = {
    "NICKNAME": "Nickname", "ORG": "Organization", "TITLE": "Title", "ROLE": "Role", "EMAIL": "E-mail", "TEL": "Phone",
    "ADR": "Address", "URL": "Web", "BDAY": "Born", "RELATED": "Related", "CATEGORIES": "Categories", "NOTE": "Note",
}  # fmt: skip


def read_vcard(source: Source) -> Iterator[Document]:
    """Read cards as one document, titled by the first; pictures and keys in them are left out.

    Raises ReadError where there is no card.
    """
    text = _CONTINUED.sub(lambda match: match[0].replace("=\n", ""), decode(source.read(), source))
    blocks: list[str] = []
    names: list[str] = []
    fields: dict[str, list[str]] | None = None
    for line in _FOLD.sub("", text).split("\n"):
        match = _LINE.fullmatch(line.strip())
        if match is None:
            continue
        name, parameters, value = match[1].upper(), match[2], match[3]
        if name == "BEGIN" and value.strip().upper() == "VCARD":
            fields = {}
        elif name == "END" and fields is not None:
            names.append(_name(fields))
            lines = [f"{label}: {', '.join(fields[key])}" for key, label in _LABELS.items() if fields.get(key)]
            blocks.append("\n\n".join(filter(None, (f"# {names[-1]}" if names[-1] else "", "\n".join(lines)))))
            fields = None
        elif fields is not None and (text := _value(value, parameters, source)):
            fields.setdefault(name, []).append(text)
    if not blocks:
        raise source.error("has no card (BEGIN:VCARD … END:VCARD)")
    yield source.document("\n\n".join(blocks) + "\n", "text/vcard", names[0])


def _name(fields: dict[str, list[str]]) -> str:
    return next((fields[name][0] for name in ("FN", "N", "ORG", "EMAIL") if fields.get(name)), "")


def _value(value: str, parameters: str, source: Source) -> str:
    """Return a value as people write it: the parts of an address with commas between."""
    if "QUOTED-PRINTABLE" in parameters.upper():
        charset = match[1] if (match := _CHARSET.search(parameters)) else None
        value = decode_part(quopri.decodestring(value.encode()), source, charset)
    parts = (_ESCAPED.sub(lambda match: " " if match[1] in "nN" else match[1], part) for part in _PARTS.split(value))
    return (
        ", ".join(" ".join(part.split()) for part in parts if part.strip()).removeprefix("mailto:").removeprefix("tel:")
    )
