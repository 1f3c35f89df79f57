"""Paragraphs and tables of Rich Text as blocks of Markdown, with their heading levels."""

import re

from pg_graphrag.beside.readers.markdown import joined_blocks
from pg_graphrag.beside.readers.tables import table_text

_HEADING = re.compile(r"(?i)heading (\d)")
_DEEPEST_HEADING = 6
# The level of an outline that is no heading's.
_BODY = 9
TITLE = -1
_TYPED_BULLET = re.compile(r"\s*[•‣▪◦]\s")
# Styles that rest on each other, and letters of a style's name.
_MAX_BASES, _MAX_NAME = 50, 200
_BULLETS = re.compile(r"[^\w]*")


class Story:
    """A text of its own: the document, a note, a comment, a text box."""

    def __init__(self) -> None:
        self.pieces: list[str] = []
        # Objects anchored in the paragraph.
        self.attached: list[str] = []
        self.marker = ""
        self._blocks: list[tuple[str, str]] = []
        self._cells: list[str] = []
        self._rows: list[list[str]] = []
        self._letters = self._letters_of_code = 0

    def count(self, text: str, is_code: bool) -> None:
        """Count the letters of a run of text, which say whether a paragraph is code."""
        letters = len(text.strip())
        self._letters += letters
        self._letters_of_code += letters if is_code else 0

    def end_paragraph(self, heading: int = 0, level: int = 0) -> None:
        """End a paragraph: a heading of a level from 1 or the title, an item of a list at a level from 0, or text."""
        self._end_table()
        is_code = 0 < self._letters == self._letters_of_code
        text, marker = self._take(), self.marker
        self.marker = ""
        if (match := _TYPED_BULLET.match(text)) and not heading:
            marker, text = marker or "•", text[match.end() :]
        if is_code and not heading and not marker:
            self._blocks.append(("code", text.rstrip()))
        elif line := " ".join(text.split()):
            if heading == TITLE:
                self._blocks.append(("title", line))
            elif heading:
                self._blocks.append(("heading", f"{'#' * min(heading, _DEEPEST_HEADING)} {line}"))
            elif marker:
                sign = "-" if _BULLETS.fullmatch(marker) else marker
                self._blocks.append(("list", f"{'  ' * level}{sign} {line}"))
            else:
                self._blocks.append(("text", line))
        self._attach()

    def end_cell(self) -> None:
        """End a cell of a table."""
        marker, self.marker = self.marker, ""
        sign = "" if _BULLETS.fullmatch(marker) else f"{marker} "
        self._cells.append(f"{sign}{' '.join(self._take().split())}")

    def end_row(self) -> None:
        """End a row of a table."""
        self._rows.append(self._cells)
        self._cells = []

    def text(self) -> str:
        """Return the blocks: lines of code between fences, items without empty lines between them."""
        if not any(kind in ("text", "table") for kind, _ in self._blocks):
            # All is set in one font, as by a typewriter.
            self._blocks = [("text" if kind == "code" else kind, text.strip()) for kind, text in self._blocks]
        return "\n\n".join(joined_blocks(self._blocks))

    def _take(self) -> str:
        text = "".join(self.pieces)
        self.pieces.clear()
        self._letters = self._letters_of_code = 0
        return text

    def _end_table(self) -> None:
        if self._cells:
            self.end_row()
        if self._rows:
            self._blocks.append(("table", table_text(self._rows)))
            self._rows = []
            # Of cells; the next paragraph follows.
            self._attach()

    def _attach(self) -> None:
        self._blocks += [("text", text) for text in self.attached]
        self.attached.clear()


class StyleTable:
    """The styles of a file: which are headings, by their level in the outline, else by their names."""

    def __init__(self) -> None:
        self._names: dict[int, str] = {}
        self.outlines: dict[int, int] = {}
        self.bases: dict[int, int] = {}

    def name(self, style: int, text: str) -> None:
        """Note a part of a style's name."""
        self._names[style] = (self._names.get(style, "") + text.partition(";")[0])[:_MAX_NAME]

    def level(self, style: int, outline: int | None) -> int:
        """Return the level of a heading from 1, or `TITLE`, by its paragraph, else by its style or that style's base."""
        if outline is not None:
            return outline + 1 if 0 <= outline < _BODY else 0
        for _ in range(_MAX_BASES):
            if style in self.outlines:
                return self.level(style, self.outlines[style])
            name = self._names.get(style, "").strip()
            if match := _HEADING.fullmatch(name):
                return int(match[1])
            if name.lower() == "title":
                return TITLE
            if style not in self.bases or self.bases[style] == style:
                return 0
            style = self.bases[style]
        return 0
