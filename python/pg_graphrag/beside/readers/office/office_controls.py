"""Controls (ActiveX) in Office files: check boxes with their captions, and values that were typed or chosen.

Their state is XML, or a stream: [MS-OFORMS] 2.2.5, MorphDataControl.
"""

import re
import zipfile

from pg_graphrag.beside.readers.archive import RELATIONSHIPS, read_part, read_xml, related_parts
from pg_graphrag.beside.readers.markdown import CHECKED, UNCHECKED

_CONTROL = re.compile(r"/activeX/[^/]+\.xml\Z", re.IGNORECASE)
_ACTIVE_X = "{http://schemas.microsoft.com/office/2006/activeX}"
# By their classes: check boxes and option buttons, which have a caption and a state; and what holds a text.
_BOXES = ("8BD21D40", "8BD21D50", "8BD21D60")
_TEXTS = ("8BD21D10", "8BD21D20", "8BD21D30")
# Bytes of the values of a stream by the bits of its mask that say that they are there; those of texts are their lengths.
_STYLE, _SIZE, _VALUE, _CAPTION = 6, 8, 22, 23
_BYTES = (
    dict.fromkeys((0, 1, 2, 3, 10, _VALUE, _CAPTION, 24, 25, 26, 32), 4)
    | dict.fromkeys((9, 11, 12, 13, 14, 15, 27, 28, 29), 2)
    | dict.fromkeys((4, 5, _STYLE, 7, 16, 17, 18, 20, 21), 1)
)
_VERSION = b"\0\2"
_CLASS_BYTES = 16
# Letters of one byte each.
_COMPRESSED = 1 << 31


def controls_of(archive: zipfile.ZipFile, part: str) -> list[str]:
    """Return what the controls of a sheet or slide say."""
    names = related_parts(archive, part).values()
    return list(filter(None, (control_text(archive, name) for name in names if _CONTROL.search(f"/{name}"))))


def control_text(archive: zipfile.ZipFile, name: str) -> str:
    """Return the text of a control, by the name of its part; "" for buttons, and if it cannot be read."""
    root = read_xml(archive, name)
    if root is None:
        return ""
    kind = root.get(f"{_ACTIVE_X}classid", "").strip("{}").upper()[:8]
    state = {item.get(f"{_ACTIVE_X}name"): item.get(f"{_ACTIVE_X}value", "") for item in root}
    stream = read_part(archive, related_parts(archive, name).get(root.get(f"{RELATIONSHIPS}id", ""), ""))
    if stream is not None:
        state = _state(stream) | state
    caption, value = (" ".join(state.get(field, "").split()) for field in ("Caption", "Value"))
    if kind in _BOXES:
        return f"{CHECKED if value in ('1', '-1', 'True') else UNCHECKED} {caption}".rstrip()
    return value if kind in _TEXTS else ""


def _state(stream: bytes) -> dict[str | None, str]:
    """Return caption and value of a control's stream, which may begin with its class."""
    data = stream if stream.startswith(_VERSION) else stream[_CLASS_BYTES:]
    if not data.startswith(_VERSION):
        return {}
    mask = int.from_bytes(data[4:12], "little")
    place, values = 12, {}
    for bit, size in sorted(_BYTES.items()):
        if mask >> bit & 1:
            place += -place % size
            values[bit] = int.from_bytes(data[place : place + size], "little")
            place += size
    place += -place % 4 + (8 if mask >> _SIZE & 1 else 0)
    state: dict[str | None, str] = {}
    for name, bit in (("Value", _VALUE), ("Caption", _CAPTION)):
        length = values.get(bit, 0)
        size = length % _COMPRESSED
        encoding = "latin-1" if length >= _COMPRESSED else "utf-16-le"
        state[name] = data[place : place + size].decode(encoding, "replace")
        place += size + -size % 4
    return state
