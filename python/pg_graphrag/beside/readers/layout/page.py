"""The contents of a PDF page: runs of characters, and the lines and blocks that they form."""

import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TypeAlias


@dataclass(frozen=True, slots=True)
class Row:
    """A row of a table that is ruled: which table of the page, from 0, and its cells."""

    table: int
    cells: list[str]


@dataclass(slots=True)
class Segment:
    """A run of characters on one line without a wide gap: box in points from the bottom left of the page, size of type."""

    x0: float
    y0: float
    x1: float
    y1: float
    size: float
    text: str
    hyphenated: bool = False
    is_code: bool = False
    is_bold: bool = False
    # Quarters of a turn against most text of the page.
    turns: int = 0
    # Whether it begins in a font of formulas, and does not end in code: an arrow stands before code that goes on in a new line.
    is_formula: bool = False
    # Whether a gap that may be one of justified text parts it from the segment at its left.
    follows: bool = False
    # The row of a ruled table that it stands for.
    row: Row | None = None

    @property
    def middle(self) -> float:
        """The middle between left and right."""
        return (self.x0 + self.x1) / 2


@dataclass(slots=True)
class Line:
    """Segments beside each other, left to right."""

    segments: list[Segment]

    @property
    def x0(self) -> float:
        """The left edge, in points."""
        return self.segments[0].x0

    @property
    def x1(self) -> float:
        """The right edge, in points."""
        return max(segment.x1 for segment in self.segments)

    @property
    def y0(self) -> float:
        """The bottom, in points."""
        return min(segment.y0 for segment in self.segments)

    @property
    def y1(self) -> float:
        """The top, in points."""
        return max(segment.y1 for segment in self.segments)

    @property
    def size(self) -> float:
        """The size of type of the longest segment, in points."""
        return max(self.segments, key=lambda segment: len(segment.text)).size

    @property
    def text(self) -> str:
        """The segments' texts, with a space between."""
        return " ".join(segment.text for segment in self.segments)

    @property
    def hyphenated(self) -> bool:
        """Whether the last word goes on in the next line."""
        return self.segments[-1].hyphenated

    @property
    def first_word_width(self) -> float:
        """How wide the first word is with its space: what the line before has no room for, where a sentence goes on."""
        return (len(self.text.split(" ", 1)[0]) + 1) * (self.x1 - self.x0) / max(1, len(self.text))

    @property
    def is_code(self) -> bool:
        """Whether all segments are in a type for code."""
        return all(segment.is_code for segment in self.segments)


@dataclass(slots=True)
class Block:
    """Lines of one column, top to bottom; or rows of a table, whose first row may hold the heads."""

    lines: list[Line] = field(default_factory=list)
    rows: list[list[str]] | None = None
    has_heads: bool = False


Page: TypeAlias = list[Block]
# How tables of contents lead to their pages.
LEADERS = re.compile(r"(?:[ ]?[.·…]){4,}[ ]?")
# What items of lists begin with; fonts of signs have theirs where no letters are.
DOTS = "•‣▪●◦○■□·\ue000-\uf8ff"
TERMINAL = tuple(".!?:;。！？：；")


def goes_on(first: str, second: str) -> bool:
    """Whether a sentence goes on from one line to the next."""
    return not first.endswith(TERMINAL) and second[:1].islower()


def lines_of(segments: Sequence[Segment]) -> list[Line]:
    """Return segments as lines, top to bottom."""
    lines: list[Line] = []
    for segment in sorted(segments, key=lambda segment: (-segment.y1, segment.x0)):
        height = max(segment.y1 - segment.y0, 1.0)
        for line in lines[-6:][::-1]:
            overlap = min(line.y1, segment.y1) - max(line.y0, segment.y0)
            if overlap > 0.5 * min(height, max(line.y1 - line.y0, 1.0)) and not any(
                segment.x0 < other.x1 - 1 and other.x0 < segment.x1 - 1 for other in line.segments
            ):
                line.segments.append(segment)
                break
        else:
            lines.append(Line([segment]))
    for line in lines:
        line.segments.sort(key=lambda segment: segment.x0)
        number, *code = line.segments
        if code and number.text.isdecimal() and all(segment.is_code for segment in code):
            # The number of a line of code.
            number.is_code = True
    return lines
