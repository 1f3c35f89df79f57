"""Text of others on a terminal."""

_REPLACEMENT = "\ufffd"
_CONTROLS: dict[int, str | None] = {
    code: _REPLACEMENT for code in (*range(0x20), *range(0x7F, 0xA0)) if chr(code) not in "\n\t"
}
# Line ends of Windows.
_CONTROLS[ord("\r")] = None


def printable(text: str) -> str:
    """Return a text without the characters by which a terminal takes orders: to write its clipboard, title and other lines.

    Documents, their keys and what models write are anybody's. JSON, which programs read, escapes these characters itself.
    """
    return text.translate(_CONTROLS)
