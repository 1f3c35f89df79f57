"""Fonts of Rich Text: the encoding of the bytes set in each, and whether it is a font for code."""

import codecs
from dataclasses import dataclass

from pg_graphrag.beside.readers.markdown import is_for_code
from pg_graphrag.beside.readers.source import Damage

DEFAULT_ENCODING = "cp1252"
# Encoding by the number of a character set (\fcharset); others are the file's.
_CHARACTER_SETS = {
    77: "mac-roman", 78: "cp932", 79: "cp949", 80: "gb18030", 81: "big5hkscs", 128: "cp932", 129: "cp949", 130: "johab",
    134: "gb18030", 136: "big5hkscs", 161: "cp1253", 162: "cp1254", 163: "cp1258", 177: "cp1255", 178: "cp1256",
    186: "cp1257", 204: "cp1251", 222: "cp874", 238: "cp1250", 254: "cp437", 255: "cp850",
}  # fmt: skip
_CODE_PAGES = {
    932: "cp932",
    936: "gb18030",
    949: "cp949",
    950: "big5hkscs",
    1361: "johab",
    10000: "mac-roman",
    65001: "utf-8",
}
_OF_FILE = {"ansi": DEFAULT_ENCODING, "mac": "mac-roman", "pc": "cp437", "pca": "cp850"}
# Letters of the font Symbol, which stands for Greek ones.
_GREEK = dict(
    zip(
        "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ",
        "αβχδεφγηιϕκλμνοπθρστυϖωξψζΑΒΧΔΕΦΓΗΙϑΚΛΜΝΟΠΘΡΣΤΥςΩΞΨΖ",
        strict=True,
    )
) | {
    "\u00b7": "•",
    "\u00a3": "≤",
    "\u00b3": "≥",
    "\u00b9": "≠",
    "\u00b4": "×",
    "\u00b1": "±",
    "\u00ae": "→",
    "\u00a5": "∞",
}
_GREEK_SIGNS = str.maketrans(_GREEK)
# The code points at which Word puts the signs of such fonts.
_PRIVATE, _LAST_PRIVATE = 0xF000, 0xF0FF


@dataclass
class _Font:
    encoding: str | None = None
    name: str = ""


class FontTable:
    """The fonts of a file by their numbers; `encoding` is the file's, `default` the font of text without a font (-1).

    `damage` counts bytes that are no text in the encoding of their font.
    """

    def __init__(self, damage: Damage) -> None:
        self.damage = damage
        self._fonts: dict[int, _Font] = {}
        self.encoding = DEFAULT_ENCODING
        self.default = -1

    def property(self, font: int, word: str, number: int | None, in_table: bool) -> bool:
        """Whether a control word says something of a font or of the encoding of the file, which is noted."""
        if word in _OF_FILE:
            self.encoding = _OF_FILE[word]
        elif word == "ansicpg":
            self.encoding = _encoding(number or 0) or self.encoding
        elif word == "deff":
            self.default = number or 0
        elif word == "fcharset" and in_table:
            self._font(font).encoding = _CHARACTER_SETS.get(number or 0)
        elif word == "cpg" and in_table:
            self._font(font).encoding = _encoding(number or 0)
        else:
            return False
        return True

    def name(self, font: int, text: str) -> None:
        """Note a part of a font's name."""
        self._font(font).name += text.partition(";")[0]

    def is_code(self, font: int) -> bool:
        """Whether a font is one for code."""
        return is_for_code(self._font(font).name)

    def decode(self, data: bytes, font: int) -> str:
        """Return bytes of a font as text; invalid bytes become U+FFFD."""
        encoding = self._font(font).encoding or self.encoding
        text = data.decode(encoding, "replace")
        if places := text.count("\ufffd"):
            self.damage.note(places, encoding, None)
        return text.translate(_GREEK_SIGNS) if self._is_greek(font) else text

    def sign(self, code: int, font: int) -> str:
        """Return the character of a number; a pair of surrogates comes in two, which are joined with the text."""
        if _PRIVATE <= code <= _LAST_PRIVATE:
            text = chr(code - _PRIVATE)
            return text.translate(_GREEK_SIGNS) if self._is_greek(font) else "•"
        return chr(code)

    def _is_greek(self, font: int) -> bool:
        return self._font(font).name.strip().lower() == "symbol"

    def _font(self, font: int) -> _Font:
        return self._fonts.setdefault(self.default if font < 0 else font, _Font())


def _encoding(page: int) -> str | None:
    """Return the codec of a code page of Windows; None where Python has none."""
    name = _CODE_PAGES.get(page, f"cp{page}")
    try:
        codecs.lookup(name)
    except LookupError:
        return None
    return name
